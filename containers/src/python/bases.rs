//! Which base of an image has which Python.

use super::Interpreter;
use super::wanted::NeededPython;
use pep440_rs::Version;

/// A Debian release, as a base that has a Python.
#[derive(Debug)]
pub(super) struct Release {
    pub(super) suite: &'static str,
    /// The whole version of its Python, in the last update.
    pub(super) python: &'static str,
    pub(super) minor: u32,
    pub(super) glibc: (u32, u32),
}

/// Releases whose archive is on Debian's mirrors, the newest first.
///
/// Source: <https://packages.debian.org/python3-minimal> and <https://packages.debian.org/libc6>.
const RELEASES: [Release; 3] = [
    Release { suite: "trixie", python: "3.13.5", minor: 13, glibc: (2, 41) },
    Release { suite: "bookworm", python: "3.11.2", minor: 11, glibc: (2, 36) },
    Release { suite: "bullseye", python: "3.9.2", minor: 9, glibc: (2, 31) },
];

/// The other releases, each with the interpreter that it would give an image.
pub(super) fn others(than: &Interpreter) -> Vec<(&'static Release, Interpreter)> {
    let other = RELEASES.iter().filter(|release| release.minor != than.minor);
    let of = |release: &'static Release| {
        let Release { python, minor, glibc, .. } = *release;
        (release, Interpreter { version: python.to_owned(), minor, arch: than.arch, glibc })
    };
    other.map(of).collect()
}

/// What to write for an image that has one of these versions.
pub(super) fn hint(needed: &NeededPython, than: &Interpreter) -> String {
    let serves = |(_, interpreter): &&(&Release, Interpreter)| needed.allows(interpreter);
    let others = others(than);
    match others.iter().find(serves) {
        Some((release, _)) => choose(release),
        None => {
            let known: Vec<_> =
                RELEASES.iter().map(|r| format!("{} has 3.{}", r.suite, r.minor)).collect();
            format!(
                "of Debian's releases, {}: write the file again for one of these versions",
                known.join(", ")
            )
        }
    }
}

/// What to write for an image with the Python of a release.
pub(super) fn choose(release: &Release) -> String {
    format!("write `debian = \"{}\"` in `[base]`: it has Python 3.{}", release.suite, release.minor)
}

impl NeededPython {
    pub(super) fn allows(&self, interpreter: &Interpreter) -> bool {
        let version: Result<Version, _> = interpreter.version.parse();
        version.is_ok_and(|version| self.versions.holds(&version))
    }
}
