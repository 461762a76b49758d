//! Runs a step of the recipe, twice, and keeps what it did.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::changes::{Changes, changes};
use super::differing::{Differing, add_differing, differing_paths, twice};
use super::enter::{Ended, Enter, OnLine, exports};
use super::leftovers::reason_of_all;
use super::scratch::{MOUNTS, PRIVATE, Scratch};
use crate::recipe::RunStep;
use crate::rootfs::{Layer, RootPath, Rootfs, What, identify};
use crate::store::{Filling, Limits, Listing, MemberKind};
use crate::{Error, Result, Sha256, UnixTime};

/// Changes with everything that decides about the result but the step and its image.
const PROCEDURE: &str = "run-3";

/// Programs that are not what the image has. All files of an image belong to root, and the
/// namespace has no other users.
const STUBS: [(&str, &str); 4] = [
    ("bin/chgrp", "#!/bin/sh\nexit 0\n"),
    ("bin/chown", "#!/bin/sh\nexit 0\n"),
    ("bin/install", INSTALL),
    ("bin/dpkg-statoverride", "#!/bin/sh\n[ \"$1\" != --list ]\n"),
];

/// The image's `install`, without the options that give files to a user.
const INSTALL: &str = r#"#!/bin/sh
n=$#
while [ $n -gt 0 ]; do
    word=$1
    shift
    n=$((n - 1))
    case $word in
    -o | -g | --owner | --group) shift; n=$((n - 1)) ;;
    -o?* | -g?* | --owner=* | --group=*) ;;
    *) set -- "$@" "$word" ;;
    esac
done
PATH=${PATH#*:}
exec install "$@"
"#;

/// For `apt-get`, which would become another user to fetch, and set a `PATH` of its own
/// (apt.conf(5)).
const APT: &str = "APT::Sandbox::User \"root\";\nDPkg::Path \"\";\n";

/// Variables that the image, the recipe and the step may set otherwise. Byte code that holds times
/// would differ and be out of date; pip's holds digests where SOURCE_DATE_EPOCH is set
/// (`py_compile` of Python). Caches go to `/tmp`.
const VARIABLES: [(&str, &str); 11] = [
    ("APT_CONFIG", "/.gular/apt.conf"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("HOME", "/root"),
    ("LANG", "C.UTF-8"),
    ("PIP_BREAK_SYSTEM_PACKAGES", "1"),
    ("PIP_ROOT_USER_ACTION", "ignore"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONHASHSEED", "0"),
    // Tar would give files to the users of the archive.
    ("TAR_OPTIONS", "--no-same-owner"),
    ("TZ", "UTC"),
    ("XDG_CACHE_HOME", "/tmp/.cache"),
];

/// Files of the machine that a step with a network needs, and no image keeps.
const OF_NETWORK: [&str; 2] = ["etc/hosts", "etc/resolv.conf"];

/// Lines of its output that the error for a step that failed shows.
const SHOWN: usize = 10;

/// A step, and what is needed to run it.
#[derive(Clone, Copy)]
pub(crate) struct StepRun<'a> {
    /// Names the step in errors.
    pub(crate) name: &'a str,
    pub(crate) step: &'a RunStep,
    /// The image so far.
    pub(crate) tree: &'a Rootfs,
    /// The variables of the image.
    pub(crate) env: &'a BTreeMap<String, String>,
    /// The time that files and programs are given.
    pub(crate) time: UnixTime,
    /// Variables of this machine that a step with a network sees.
    pub(crate) proxies: &'a [(String, String)],
    /// `unshare` of util-linux.
    pub(crate) unshare: &'a Path,
    /// A folder for temporary files.
    pub(crate) temp: &'a Path,
    pub(crate) limits: &'a Limits,
    /// Told what the step prints.
    pub(crate) on_line: OnLine<'a>,
    /// Set when the work is to stop.
    pub(crate) cancel: &'a AtomicBool,
}

/// Digest of what decides about a step's result: the step, and the image that it is run over.
///
/// # Errors
/// [`Error::Io`] for a file that cannot be read.
pub(crate) fn inputs(
    step: &RunStep,
    tree: &Rootfs,
    env: &BTreeMap<String, String>,
    time: UnixTime,
) -> Result<Sha256> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("{PROCEDURE} {} {env:?} {step:?}\n", time.0).as_bytes());
    identify(&mut hasher, tree.iter())?;
    Ok(Sha256::of(hasher.finalize().as_bytes()))
}

/// Digest of what a step did: of each path, and what became of it.
pub(crate) fn layer_digest(listing: &Listing) -> Sha256 {
    let line = |entry: &crate::store::Entry| {
        let (path, mode) = (&entry.path, entry.mode);
        let what = match &entry.kind {
            // The number of the file in the store says nothing.
            MemberKind::File(_, _, blake3) => format!("file {blake3}"),
            other => format!("{other:?}"),
        };
        format!("{path:?} {mode:o} {what}\n")
    };
    let lines: String = listing.entries.iter().map(line).collect();
    Sha256::of(lines.as_bytes())
}

/// Runs a step, and adds what it did to an archive of the store.
///
/// # Errors
/// [`Error::StepRefused`] for an image that no step can be run over; [`Error::StepFailed`],
/// [`Error::Limit`], [`Error::Io`], [`Error::Cancelled`].
pub(crate) fn run_step(with: &StepRun<'_>, filling: &mut Filling) -> Result<()> {
    filling.name_archive(with.name);
    can_be_entered(with)?;
    let before = before(with)?;
    // One of both runs is shown.
    let is_shown = AtomicBool::new(false);
    let (first, second) = twice(|| once(with, &before, !is_shown.swap(true, Ordering::Relaxed)))?;
    let (scratch, made) = &first;
    made.fill(scratch, filling, with.limits)?;
    let paths = differing_paths(made, &second.1).into_iter();
    let differing = paths.map(|path| Differing { package: String::new(), path: path.to_string() });
    add_differing(&differing.collect::<Vec<_>>(), filling, with.limits)
}

/// Refuses an image with something else where this machine mounts and writes.
fn can_be_entered(with: &StepRun<'_>) -> Result<()> {
    let refused = |reason: String| {
        Err(Error::StepRefused { step: with.name.to_owned(), reason, is_here: false })
    };
    let node = |name: &str| Ok::<_, Error>(with.tree.get(&RootPath::new(name)?));
    if with.tree.follow(&RootPath::new("bin/sh")?).is_none() {
        return refused("the image has no `/bin/sh`".to_owned());
    }
    if node(PRIVATE)?.is_some() {
        return refused(format!("the image has `/{PRIVATE}`, where the step itself is put"));
    }
    for name in MOUNTS {
        if node(name)?.is_some_and(|node| !matches!(node.what, What::Dir)) {
            return refused(format!("`/{name}` in the image is not a folder"));
        }
    }
    Ok(())
}

/// The tree that the step is run in.
fn before(with: &StepRun<'_>) -> Result<Rootfs> {
    let mut tree = with.tree.clone();
    tree.add_dir(Layer::Base, &RootPath::new(&with.step.workdir)?)?;
    for name in OF_NETWORK.iter().filter(|_| with.step.network) {
        let path = RootPath::new(name)?;
        // In an image it may be a link to what only a running system has.
        if let Ok(text) = fs::read_to_string(format!("/{name}")) {
            tree.remove(&path);
            tree.add_text(Layer::Base, &path, 0o644, &text)?;
        }
    }
    Ok(tree)
}

fn once(with: &StepRun<'_>, before: &Rootfs, shows: bool) -> Result<(Scratch, Changes)> {
    let StepRun { step, .. } = *with;
    let scratch = Scratch::write(before, with.temp, with.time)?;
    for (name, text) in STUBS {
        scratch.add_own(name, text)?;
    }
    scratch.add_own("apt.conf", APT)?;
    scratch.add_own("step", &step.script)?;
    scratch.add_own("start", &start(with))?;
    let enter = Enter {
        unshare: with.unshare,
        dir: scratch.dir(),
        network: step.network,
        limit: None,
        on_line: shows.then_some(with.on_line),
        cancel: with.cancel,
    };
    let ended = enter.script(&format!("/{PRIVATE}/start"))?;
    if !ended.ok {
        return Err(failed(with.name, &ended));
    }
    let mut changes = changes(&scratch, with.tree)?;
    let is_of_network = |path: &RootPath| step.network && OF_NETWORK.contains(&path.as_str());
    changes.retain(|path, _| reason_of_all(path).is_none() && !is_of_network(path));
    Ok((scratch, changes))
}

/// The script that is run first: it sets the variables and starts the step.
fn start(with: &StepRun<'_>) -> String {
    let mut env: BTreeMap<&str, &str> = VARIABLES.into_iter().collect();
    let epoch = with.time.clamped_to_u64().to_string();
    env.insert("SOURCE_DATE_EPOCH", &epoch);
    let proxies = with.proxies.iter().filter(|_| with.step.network);
    let given = proxies.map(|(name, value)| (name, value)).chain(with.env).chain(&with.step.env);
    env.extend(given.map(|(name, value)| (name.as_str(), value.as_str())));
    let path = format!("/{PRIVATE}/bin:{}", env.get("PATH").copied().unwrap_or_default());
    env.insert("PATH", &path);
    let workdir = [("PWD", with.step.workdir.as_str())];
    // What is mounted is empty.
    let enter = "[ -d \"$PWD\" ] || mkdir -p \"$PWD\"\ncd \"$PWD\" || exit\n";
    let begin = format!("umask 022\n{}{}{enter}", exports(env), exports(workdir));
    // A script names its interpreter itself.
    match with.step.script.starts_with("#!") {
        true => format!("{begin}exec /{PRIVATE}/step\n"),
        false => format!("{begin}exec /bin/sh -e /{PRIVATE}/step\n"),
    }
}

/// Says how a step ended, with the last lines of its output.
fn failed(name: &str, ended: &Ended) -> Error {
    let lines: Vec<&str> = ended.said.lines().collect();
    let last = lines.get(lines.len().saturating_sub(SHOWN)..).unwrap_or_default();
    let said = last.iter().map(|line| format!("\n  {}", line.trim_end())).collect();
    Error::StepFailed { step: name.to_owned(), how: ended.how.clone(), said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_failed_shows_its_last_lines() {
        let said: String = (1..=12).map(|n| format!("line {n}\n")).collect();
        let error = failed("step 1", &Ended { ok: false, how: "exit status: 2".to_owned(), said });
        let text = error.to_string();
        assert!(text.starts_with("step 1 of `[[run]]` failed (exit status: 2)"), "{text}");
        assert!(text.ends_with("\n  line 12") && !text.contains("line 2\n"), "{text}");
    }

    #[test]
    fn a_layer_is_known_by_what_it_has_and_not_by_where_it_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::new(dir.path());
        let limits = Limits::default();
        let digest = |key: &str, files: &[(&str, u16, &str)]| {
            let fill = |filling: &mut Filling| {
                for (path, mode, text) in files {
                    let path = RootPath::new(path)?;
                    filling.add_file(&path, *mode, &mut text.as_bytes(), &limits)?;
                }
                Ok(())
            };
            layer_digest(&store.listing(key, fill).unwrap())
        };
        let one = digest("one", &[("a", 0o644, "x")]);
        assert_eq!(one, digest("two", &[("a", 0o644, "x")]));
        for (key, other) in
            [("bytes", ("a", 0o644, "y")), ("path", ("b", 0o644, "x")), ("mode", ("a", 0o755, "x"))]
        {
            assert_ne!(one, digest(key, &[other]), "{key}");
        }
    }
}
