//! Runs the scripts of an image's packages, twice, and keeps what they did.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::changes::{Changes, changes};
use super::database::{self, DIR, Installed};
use super::differing::{Differing, add_differing, differing_paths, twice};
use super::enter::{Ended, Enter, PATH, exports};
use super::leftovers::reason;
use super::scratch::{MOUNTS, PRIVATE, Scratch};
use super::timed;
use crate::debian;
use crate::rootfs::{Layer, RootPath, Rootfs, What};
use crate::store::{Filling, Limits, Listing};
use crate::{Error, Package, Result, Sha256, UnixTime};

/// Changes with everything that decides about the result but the packages.
const PROCEDURE: &str = "scripts-3";
/// Longest time that all scripts may take; those of 300 packages take a minute.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Programs that are not what the package has, while scripts run: name, text.
///
/// Byte code is made afterwards, by the image's own Python and without times. `policy-rc.d` is
/// asked before a service is started, and 101 forbids it (`/usr/share/doc/init-system-helpers`).
const STUBS: [(&str, &str); 4] = [
    ("bin/py3compile", "#!/bin/sh\nexit 0\n"),
    ("bin/py3clean", "#!/bin/sh\nexit 0\n"),
    ("bin/pycompile", "#!/bin/sh\nexit 0\n"),
    ("policy-rc.d", "#!/bin/sh\nexit 101\n"),
];

/// Folders that alternatives put links into and fail without, though pages stay out of images.
const MANUAL: [&str; 9] = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// Run first, as root of the namespace. `fakeroot` lets scripts give files to other users; in an
/// image all files belong to root.
const START: &str = r#"mv /.gular/policy-rc.d /usr/sbin/policy-rc.d || exit 1
fakeroot=$(command -v fakeroot-sysv) || exit 1
"$fakeroot" -- /bin/bash /.gular/scripts || exit 1
"#;

/// Lists the libraries for `ld.so` again, without those of the tools; `ldconfig` is linked statically,
/// so it needs none of them.
const CACHES: &str = r#"perl -0 -ne 'chomp; unlink or $!{ENOENT} or $!{ENOTDIR} or die "$_: $!"' </.gular/tools || exit 1
exec /sbin/ldconfig
"#;

/// Functions of the script that runs the others. The log has a line for each state of a
/// package, after the time in microseconds.
const FUNCTIONS: &str = r#"set -e
umask 022
log() { printf '%s %s\n' "${EPOCHREALTIME/./}" "$1" >>/.gular/log; }
preinst() {
    log "$1"
    export DPKG_MAINTSCRIPT_NAME=preinst DPKG_MAINTSCRIPT_PACKAGE=$1 DPKG_MAINTSCRIPT_ARCH=$2
    export DPKG_MAINTSCRIPT_PACKAGE_REFCOUNT=1 DPKG_ADMINDIR=/var/lib/dpkg DPKG_ROOT=
    "/var/lib/dpkg/info/$3.preinst" install || { echo "dpkg: error processing package $1 (preinst)"; exit 1; }
    unset DPKG_MAINTSCRIPT_NAME DPKG_MAINTSCRIPT_PACKAGE DPKG_MAINTSCRIPT_ARCH
}
"#;

/// Reads what dpkg says of its work, and logs when it begins with a package.
const LOGGER: &str = r#"#!/bin/bash
while read -r what state name rest; do
    if [ "$what" = processing: ]; then printf '%s %s\n' "${EPOCHREALTIME/./}" "${name%%:*}" >>/.gular/log; fi
done
"#;

const CONFIGURE: &str =
    "dpkg --force-confold --status-logger=/.gular/bin/gular-log --configure -a\n";

/// Made of the package `locales`, if that is there: hosts pass on `LANG=en_US.UTF-8`.
const LOCALE: &str =
    "localedef --no-archive -i en_US -f UTF-8 -A /usr/share/locale/locale.alias en_US.UTF-8\n";

/// The packages of an image, and what is needed to run their scripts.
#[derive(Clone, Copy)]
pub(crate) struct Installation<'a> {
    /// The image's packages.
    pub(crate) own: &'a [(&'a Package, Listing)],
    /// Further packages that scripts expect.
    pub(crate) tools: &'a [(&'a Package, Listing)],
    /// The time that files and programs are given.
    pub(crate) time: UnixTime,
    /// `unshare` of util-linux.
    pub(crate) unshare: &'a Path,
    /// A folder for temporary files.
    pub(crate) temp: &'a Path,
    pub(crate) limits: &'a Limits,
    /// Set when the work is to stop.
    pub(crate) cancel: &'a AtomicBool,
}

/// The name of the scripts' result in the store.
pub(crate) fn key(own: &[Package], tools: &[Package], time: UnixTime) -> String {
    let packages = own.iter().map(|package| package.sha256.to_string());
    let tools = tools.iter().map(|package| format!("tool {}", package.sha256));
    let parts: Vec<_> = packages.chain(tools).collect();
    let text = format!("{PROCEDURE}\n{}\n{}", time.0, parts.join("\n"));
    format!("scripts-{}", Sha256::of(text.as_bytes()))
}

/// Runs the scripts of an image's packages, and adds what they did to an archive of the store.
///
/// # Errors
/// [`Error::Scripts`] for scripts that fail, [`Error::Io`], [`Error::Cancelled`].
pub(crate) fn run(with: &Installation<'_>, filling: &mut Filling) -> Result<()> {
    filling.name_archive("the result of maintainer scripts");
    let mut packages = Vec::new();
    for (list, own) in [(with.own, true), (with.tools, false)] {
        for (package, files) in list {
            packages.push((Installed::of(&package.name, files, own)?, files));
        }
    }
    packages.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let (packages, files): (Vec<_>, Vec<_>) = packages.into_iter().unzip();
    let own = debian::lay(with.own.iter().map(|(_, files)| files))?;
    let unpacked = debian::unpack(files.iter().copied())?;
    let mut before = debian::lay(files)?;
    reserved(with)?;
    database::add(&mut before, &packages)?;
    for section in MANUAL {
        before.add_dir(Layer::Base, &RootPath::new(&format!("usr/share/man/man{section}"))?)?;
    }
    let of_tools = unpacked.iter().map(|(path, _)| path).filter(|path| own.get(path).is_none());
    let base = Prepared { own: &own, before: &before, of_tools: of_tools.collect() };
    let script = script(&packages);
    let (first, second) = twice(|| base.once(with, &script))?;
    first.changes.fill(&first.scratch, filling, with.limits)?;
    add_differing(&first.differing(&second), filling, with.limits)
}

/// Refuses packages with something else where this machine mounts and writes.
fn reserved(with: &Installation<'_>) -> Result<()> {
    for (package, files) in with.own.iter().chain(with.tools) {
        for entry in &files.entries {
            let path = entry.path.as_str();
            let first = path.split('/').next().unwrap_or(path);
            let is_ours = first == PRIVATE;
            let is_mounted = MOUNTS.contains(&path) && !matches!(files.what(entry)?, What::Dir);
            if is_ours || is_mounted {
                return Err(Error::Package {
                    name: package.name.clone(),
                    reason: format!("it has `/{path}`, which is not its own while scripts run"),
                    hint: None,
                });
            }
        }
    }
    Ok(())
}

/// The script that runs all others: first those that come before a package is unpacked, and then
/// dpkg takes the rest in its order.
fn script(packages: &[Installed<'_>]) -> String {
    let mut script = FUNCTIONS.to_owned();
    for package in packages.iter().filter(|package| package.own) {
        if package.info("preinst").is_some() {
            let (name, arch, id) = (&package.name, &package.arch, &package.id);
            script.push_str(&format!("preinst {name} {arch} {id}\n"));
        }
    }
    script.push_str(CONFIGURE);
    if packages.iter().any(|package| package.name == "locales") {
        script.push_str(LOCALE);
    }
    script
}

/// A base before its scripts are run.
struct Prepared<'a> {
    /// The image's packages alone.
    own: &'a Rootfs,
    /// They and the tools, with dpkg's database.
    before: &'a Rootfs,
    /// Nodes that only tools have.
    of_tools: HashSet<&'a RootPath>,
}

/// What one run of the scripts did.
struct Done {
    scratch: Scratch,
    changes: Changes,
    /// When the work on each package began, in nanoseconds since 1970.
    log: Vec<(i128, String)>,
}

impl Prepared<'_> {
    fn once(&self, with: &Installation<'_>, script: &str) -> Result<Done> {
        let scratch = Scratch::write(self.before, with.temp, with.time)?;
        for (name, text) in STUBS {
            scratch.add_own(name, text)?;
        }
        scratch.add_own("bin/gular-log", LOGGER)?;
        let env = environment(with.time);
        let env = env.iter().map(|(name, value)| (*name, value.as_str()));
        let mut start = format!("{}{START}", exports(env));
        if self.own.follow(&RootPath::new("sbin/ldconfig")?).is_some() {
            let is_file = |path: &&&RootPath| {
                let node = self.before.get(path);
                node.is_some_and(|node| !matches!(node.what, What::Dir))
            };
            let tools = self.of_tools.iter().filter(is_file);
            let tools: String = tools.map(|path| format!("/{path}\0")).collect();
            scratch.add_own("tools", &tools)?;
            start.push_str(CACHES);
        }
        scratch.add_own("start", &start)?;
        scratch.add_own("scripts", script)?;
        let enter = Enter {
            unshare: with.unshare,
            dir: scratch.dir(),
            network: false,
            limit: Some(TIMEOUT),
            on_line: None,
            cancel: with.cancel,
        };
        let ended = enter.script(&format!("/{PRIVATE}/start"))?;
        if !ended.ok {
            return Err(failed(&ended));
        }
        timed::fix(&scratch, with.time)?;
        let log = read_log(&scratch.read_own("log")?);
        let mut changes = changes(&scratch, self.before)?;
        changes.retain(|path, is_gone| self.is_of_the_image(path, is_gone));
        Ok(Done { scratch, changes, log })
    }

    /// Whether a change goes into the image.
    fn is_of_the_image(&self, path: &RootPath, is_gone: bool) -> bool {
        let of_dpkg = path.as_str() == DIR || path.as_str().starts_with(&format!("{DIR}/"));
        let of_other = is_gone && self.own.get(path).is_none();
        !of_dpkg && !of_other && !self.of_tools.contains(path) && reason(path).is_none()
    }
}

impl Done {
    /// What another run made otherwise, with the packages that did it.
    fn differing(&self, other: &Self) -> Vec<Differing> {
        let paths = differing_paths(&self.changes, &other.changes).into_iter();
        let found = paths.map(|path| {
            let run = if self.changes.at.contains_key(path) { self } else { other };
            Differing { package: run.package(path), path: path.to_string() }
        });
        found.collect()
    }

    /// The package that was worked on when a path was changed.
    fn package(&self, path: &RootPath) -> String {
        let at = self.changes.at.get(path).copied().unwrap_or_default();
        let before = self.log.iter().take_while(|(start, _)| *start <= at);
        before.last().map_or_else(|| "dpkg".to_owned(), |(_, name)| name.clone())
    }
}

fn environment(time: UnixTime) -> Vec<(&'static str, String)> {
    let fixed = [
        ("DEBCONF_NONINTERACTIVE_SEEN", "true"),
        ("DEBIAN_FRONTEND", "noninteractive"),
        // Users that the namespace does not have are EINVAL, for which fakeroot is not made.
        ("FAKEROOTDONTTRYCHOWN", "1"),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C.UTF-8"),
        ("PERL_HASH_SEED", "0"),
        ("PYTHONHASHSEED", "0"),
        ("TZ", "UTC"),
    ];
    let fixed = fixed.into_iter().map(|(name, value)| (name, value.to_owned()));
    let epoch = time.clamped_to_u64().to_string();
    // Our own programs stand before those of the image.
    fixed
        .chain([("SOURCE_DATE_EPOCH", epoch), ("PATH", format!("/{PRIVATE}/bin:{PATH}"))])
        .collect()
}

/// The packages whose scripts failed, and what they said.
fn failed(ended: &Ended) -> Error {
    const FAILED: &str = "dpkg: error processing package ";
    let lines: Vec<&str> = ended.said.lines().map(str::trim).collect();
    let mut packages = Vec::new();
    for line in &lines {
        let name = line.strip_prefix(FAILED).and_then(|rest| rest.split_whitespace().next());
        packages.extend(name.map(str::to_owned));
    }
    let first = lines.iter().position(|line| line.starts_with(FAILED));
    let said = match first {
        Some(at) => lines.get(..at).unwrap_or_default(),
        None => &lines,
    };
    let reason =
        said.iter().rev().find(|line| !line.is_empty() && !line.starts_with("Setting up "));
    let reason = (*reason.unwrap_or(&"they printed nothing")).to_owned();
    Error::Scripts { packages, reason }
}

fn read_log(text: &str) -> Vec<(i128, String)> {
    let lines = text.lines().filter_map(|line| {
        let (micros, name) = line.split_once(' ')?;
        Some((micros.parse::<i128>().ok()? * 1000, name.to_owned()))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_script_is_named_with_what_it_said() {
        let said = "Setting up a (1) ...\ncannot write\ndpkg: error processing package a (--configure):\n installed a package post-installation script subprocess returned error exit status 1\nErrors were encountered while processing:\n a\n";
        let error = failed(&Ended { ok: false, how: String::new(), said: said.to_owned() });
        assert_eq!(error.to_string(), "the maintainer scripts of `a` failed: cannot write");
        let error =
            failed(&Ended { ok: false, how: String::new(), said: "mount: no\n".to_owned() });
        assert_eq!(error.to_string(), "the maintainer scripts failed: mount: no");
    }

    #[test]
    fn the_result_depends_on_packages_and_time() {
        let package = |name: &str| Package {
            name: name.to_owned(),
            version: "1".to_owned(),
            arch: Some("amd64".to_owned()),
            bytes: 1,
            sha256: Sha256::of(name.as_bytes()),
            urls: Vec::new(),
            license: None,
        };
        let (a, b) = ([package("a")], [package("b")]);
        let one = key(&a, &b, UnixTime(1));
        assert_eq!(one, key(&a, &b, UnixTime(1)));
        for other in [key(&b, &a, UnixTime(1)), key(&a, &[], UnixTime(1)), key(&a, &b, UnixTime(2))]
        {
            assert_ne!(one, other);
        }
    }
}
