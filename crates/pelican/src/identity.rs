//! The identity of this run that is sent to servers: a `User-Agent`, and an id that their operators
//! can find in their logs.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Read as _;

use crate::Env;

/// Names ourselves; directors refuse unknown names that begin with `pelican-`.
const AGENT: &str = concat!("gular/", env!("CARGO_PKG_VERSION"));

/// Most bytes of a job ad that are read; HTCondor's have some kilobytes.
const MAX_JOB_AD: u64 = 1 << 20;

/// The identity of this run.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// `gular/VERSION`, and the job's project, by which the OSDF accounts for transfers.
    pub(crate) agent: String,
    /// The id of this run: a UUID, version 4.
    pub(crate) job_id: String,
}

impl Identity {
    pub(crate) fn of(env: &Env) -> Self {
        let agent = match env.get("_CONDOR_JOB_AD").and_then(project_in) {
            Some(project) => format!("{AGENT} project/{project}"),
            None => AGENT.to_owned(),
        };
        Self { agent, job_id: uuid() }
    }
}

/// Returns the project that the job ad in a file names.
fn project_in(path: &str) -> Option<String> {
    let mut ad = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_JOB_AD).read_to_end(&mut ad).ok()?;
    project(&String::from_utf8_lossy(&ad))
}

/// The value of `ProjectName = "…"`, when a header can carry it.
fn project(ad: &str) -> Option<String> {
    let value = ad.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.trim().eq_ignore_ascii_case("ProjectName").then(|| value.trim())
    })?;
    let name = value.strip_prefix('"')?.strip_suffix('"')?;
    let sound = !name.is_empty()
        && name.len() <= 100
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+".contains(&b));
    sound.then(|| name.to_owned())
}

/// Random bits from the keys of std's hash maps, which are the system's.
fn uuid() -> String {
    let half = || RandomState::new().hash_one(0_u8);
    let (high, low) = (half(), half());
    // RFC 9562, section 5.4: version 4, variant 10.
    let high = (high & !0xf000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    let text = format!("{high:016x}{low:016x}");
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let parts = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_and_differ() {
        let (one, other) = (uuid(), uuid());
        assert_ne!(one, other);
        let lengths: Vec<_> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{one}");
        assert!(one.as_bytes()[14] == b'4' && b"89ab".contains(&one.as_bytes()[19]), "{one}");
    }

    #[test]
    fn the_project_stands_in_the_job_ad() {
        let check = |ad: &str, expected: Option<&str>| {
            assert_eq!(project(ad).as_deref(), expected, "{ad}");
        };
        check("Owner = \"me\"\nProjectName = \"Lab_Birds\"\n", Some("Lab_Birds"));
        check("projectname=\"x\"", Some("x"));
        check("WantProjectName = \"x\"", None);
        check("ProjectName = undefined", None);
        check("ProjectName = \"a b\"", None);
        check("", None);
        assert!(Identity::of(&Env::default()).agent.starts_with("gular/"));
    }
}
