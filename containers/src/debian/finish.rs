//! Files that the installation of packages creates besides the unpacked ones, as far as images need
//! them.
//!
//! [`lay`] puts packages into a tree and does what is known of their scripts; the scripts
//! themselves are run by [`scripts`](crate::scripts). [`status`] comes before, for each package.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::paragraphs;
use crate::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use crate::store::{Filling, Limits, Listing, deb_control};
use crate::{Error, Result};

/// Directories that are links into `usr` since Debian 12, for packages unpacked over
/// them ship files under either name.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// Files that are copied where none is: from, to. Postinst scripts of base-files,
/// base-passwd and libc-bin do this.
const DEFAULTS: [(&str, &str); 9] = [
    ("usr/share/base-files/dot.bashrc", "root/.bashrc"),
    ("usr/share/base-files/dot.profile", "root/.profile"),
    ("usr/share/base-files/nsswitch.conf", "etc/nsswitch.conf"),
    ("usr/share/base-files/profile", "etc/profile"),
    ("usr/share/base-passwd/group.master", "etc/group"),
    ("usr/share/base-passwd/passwd.master", "etc/passwd"),
    ("usr/share/debianutils/shells", "etc/shells"),
    ("usr/share/libc-bin/nsswitch.conf", "etc/nsswitch.conf"),
    ("usr/share/readline/inputrc", "etc/inputrc"),
];

/// Links that alternatives and scripts make, to the first that is there: link, what
/// it leads to. The alternatives' own middle link is left out.
const LINKS: [(&str, &[&str]); 14] = [
    ("usr/bin/awk", &["gawk", "mawk", "original-awk", "busybox"]),
    ("usr/bin/lzcat", &["xzcat"]),
    ("usr/bin/lzcmp", &["xzcmp"]),
    ("usr/bin/lzdiff", &["xzdiff"]),
    ("usr/bin/lzegrep", &["xzegrep"]),
    ("usr/bin/lzfgrep", &["xzfgrep"]),
    ("usr/bin/lzgrep", &["xzgrep"]),
    ("usr/bin/lzless", &["xzless"]),
    ("usr/bin/lzma", &["xz"]),
    ("usr/bin/lzmore", &["xzmore"]),
    ("usr/bin/pager", &["less", "more"]),
    ("usr/bin/sh", &["dash", "bash", "busybox"]),
    ("usr/bin/unlzma", &["unxz"]),
    ("usr/bin/which", &["which.debianutils", "which.gnu"]),
];

/// Directories of base-files' script, with their modes.
const DIRS: [(&str, u16); 7] = [
    ("media", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("run/lock", 0o1777),
    ("srv", 0o755),
    ("usr/local/bin", 0o755),
    ("usr/local/lib", 0o755),
];

/// Directories that become links while they are empty.
const MIGRATED: [(&str, &str); 2] = [("var/lock", "/run/lock"), ("var/run", "/run")];

/// The folder of ca-certificates, and the file in which programs look for all certificates.
const CERTIFICATES: &str = "usr/share/ca-certificates";
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";

/// Largest file that is copied or joined; the bundle has 220 KB.
const MAX_BYTES: u64 = 16 << 20;

/// The folder of control files, which no image has: images without dpkg have no use for them.
pub(crate) const INFO: &str = "var/lib/dpkg/info";

/// Lays packages into an empty tree, and makes what is known of their scripts.
///
/// # Errors
/// Those of [`finish`].
pub fn lay<'a>(debs: impl IntoIterator<Item = &'a Listing>) -> Result<Rootfs> {
    let mut tree = unpack(debs)?;
    finish(&mut tree, Layer::Base)?;
    Ok(tree)
}

/// Lays packages into an empty tree as they are.
///
/// # Errors
/// Those of [`Rootfs::add`].
pub(crate) fn unpack<'a>(debs: impl IntoIterator<Item = &'a Listing>) -> Result<Rootfs> {
    let mut tree = Rootfs::default();
    prepare(&mut tree, Layer::Base)?;
    for files in debs {
        files.add_some_to(&mut tree, Layer::Base, is_wanted)?;
    }
    Ok(tree)
}

/// Pages that people read stay out, as in Debian's own slim images; licences stay, and the list of
/// names by which locales are made.
pub(super) fn is_wanted(path: &str) -> bool {
    let folders = [
        "usr/share/man/",
        "usr/share/info/",
        "usr/share/locale/",
        "usr/share/lintian/",
        "var/lib/dpkg/info/",
    ];
    match path.strip_prefix("usr/share/doc/") {
        // A package's folder may be a link to that of another.
        Some(rest) => !rest.contains('/') || rest.ends_with("/copyright"),
        None => {
            path == "usr/share/locale/locale.alias"
                || !folders.iter().any(|folder| path.starts_with(folder))
        }
    }
}

/// Makes `bin`, `lib`, `lib64` and `sbin` links into `usr`.
///
/// # Errors
/// Those of [`Rootfs::add`].
fn prepare(tree: &mut Rootfs, layer: Layer) -> Result<()> {
    for name in MERGED {
        let target = format!("usr/{name}");
        tree.add_dir(layer, &path(&target)?)?;
        tree.add(layer, &path(name)?, 0o777, What::Symlink(target))?;
    }
    Ok(())
}

/// Adds a package's control data as a file in `var/lib/dpkg/status.d`, where scanners find the
/// packages of images without dpkg's database, and its control files in `var/lib/dpkg/info`, where
/// [`scripts`](crate::scripts) finds them.
///
/// # Errors
/// [`Error::Archive`] for a package that says nothing sound; [`Error::Limit`], [`Error::Io`].
pub fn status(filling: &mut Filling, deb: &Path, limits: &Limits) -> Result<()> {
    let control = deb_control(deb, &Limits { bytes: MAX_BYTES, entries: 10_000 })?;
    let paragraph = paragraphs(&control.control).next().unwrap_or_default();
    let name = paragraph.get("Package").unwrap_or_default();
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
    if name.starts_with('.') || name.is_empty() || !name.bytes().all(good) {
        let reason = format!("its control file gives the invalid package name `{name}`");
        return Err(Error::Archive { path: deb.display().to_string(), reason });
    }
    let place = format!("var/lib/dpkg/status.d/{name}");
    filling.add_file(&path(&place)?, 0o644, &mut paragraph.text().as_bytes(), limits)?;
    if let Some(sums) = control.md5sums {
        let place = path(&format!("{place}.md5sums"))?;
        filling.add_file(&place, 0o644, &mut sums.as_bytes(), limits)?;
    }
    for (kind, bytes) in control.info {
        let place = path(&format!("{INFO}/{name}.{kind}"))?;
        filling.add_file(&place, 0o755, &mut bytes.as_slice(), limits)?;
    }
    Ok(())
}

/// Makes the files that the packages' scripts would have made: users, the bundle of certificates,
/// the links of alternatives, and some directories. Existing files stay.
///
/// # Errors
/// [`Error::Io`] when a file cannot be read; those of [`Rootfs::add`].
pub(super) fn finish(tree: &mut Rootfs, layer: Layer) -> Result<()> {
    for (name, mode) in DIRS {
        let dir = path(name)?;
        if tree.follow(&dir).is_none() {
            tree.add(layer, &dir, mode, What::Dir)?;
        }
    }
    for (name, target) in MIGRATED {
        let dir = path(name)?;
        let is_dir = tree.get(&dir).is_some_and(|node| node.what == What::Dir);
        if is_dir && tree.children(&dir).next().is_none() {
            tree.remove(&dir);
            tree.add(layer, &dir, 0o777, What::Symlink(target.to_owned()))?;
        }
    }
    for (from, to) in DEFAULTS {
        let (from, to) = (path(from)?, path(to)?);
        if tree.get(&to).is_some() {
            continue;
        }
        let source = match tree.follow(&from).map(|(_, node)| &node.what) {
            Some(What::File(source)) => source.clone(),
            _ => continue,
        };
        tree.add(layer, &to, 0o644, What::File(source))?;
    }
    for (link, targets) in LINKS {
        let link = path(link)?;
        let parent = link.parent().unwrap_or(RootPath::ROOT);
        let there = |target: &&&str| tree.follow(&parent.join(target)).is_some();
        let target = targets.iter().find(there);
        if let (None, Some(target)) = (tree.get(&link), target) {
            tree.add(layer, &link, 0o777, What::Symlink((*target).to_owned()))?;
        }
    }
    certificates(tree, layer)
}

/// Adds one file with all certificates, in the order of their paths.
fn certificates(tree: &mut Rootfs, layer: Layer) -> Result<()> {
    let bundle = path(BUNDLE)?;
    if tree.get(&bundle).is_some() {
        return Ok(());
    }
    let below = format!("{CERTIFICATES}/");
    let mut all = Vec::new();
    for (path, node) in tree.iter() {
        let name = path.as_str();
        let wanted = name.starts_with(&below) && name.ends_with(".crt");
        if let (true, What::File(source)) = (wanted, &node.what) {
            read(source, path, &mut all)?;
            if !all.ends_with(b"\n") {
                all.push(b'\n');
            }
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    tree.add(layer, &bundle, 0o644, What::File(FileBytes::Bytes(Arc::from(all))))
}

/// Appends a file's bytes to `to`.
fn read(source: &FileBytes, path: &RootPath, to: &mut Vec<u8>) -> Result<()> {
    if source.len() + to.len() as u64 > MAX_BYTES {
        let (path, found) = (path.to_string(), source.len() + to.len() as u64);
        let what = "bytes of certificates";
        return Err(Error::Limit { path, what, found, limit: MAX_BYTES });
    }
    match source {
        FileBytes::Bytes(bytes) => to.extend_from_slice(bytes),
        FileBytes::File { path: file, bytes, .. } => {
            let before = to.len();
            let opened = File::open(file).map_err(Error::io("open", file))?;
            opened.take(*bytes).read_to_end(to).map_err(Error::io("read", file))?;
            let found = (to.len() - before) as u64;
            if found != *bytes {
                let path = path.to_string();
                return Err(Error::Changed { path, found, expected: *bytes });
            }
        }
    }
    Ok(())
}

fn path(text: &str) -> Result<RootPath> {
    RootPath::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Rootfs {
        let mut tree = Rootfs::default();
        prepare(&mut tree, Layer::Base).unwrap();
        for (name, text) in files {
            tree.add_text(Layer::Base, &path(name).unwrap(), 0o755, text).unwrap();
        }
        tree
    }

    fn text(tree: &Rootfs, name: &str) -> String {
        match tree.follow(&path(name).unwrap()).map(|(_, node)| &node.what) {
            Some(What::File(FileBytes::Bytes(bytes))) => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn pages_stay_out_and_licences_in() {
        for (path, wanted) in [
            ("usr/bin/bash", true),
            ("usr/share/doc/bash", true),
            ("usr/share/doc/bash/copyright", true),
            ("usr/share/doc/bash/README.gz", false),
            ("usr/share/locale/de/LC_MESSAGES/bash.mo", false),
            ("usr/share/locale/locale.alias", true),
            ("var/lib/dpkg/info/bash.postinst", false),
        ] {
            assert_eq!(is_wanted(path), wanted, "{path}");
        }
    }

    #[test]
    fn packages_of_both_kinds_land_in_usr() {
        let tree = tree(&[("bin/dash", "shell"), ("usr/bin/x", "x"), ("lib64/ld.so", "ld")]);
        assert_eq!(text(&tree, "usr/bin/dash"), "shell");
        assert_eq!(text(&tree, "bin/x"), "x");
        assert_eq!(text(&tree, "usr/lib64/ld.so"), "ld");
    }

    #[test]
    fn what_scripts_would_make_is_made() {
        let mut tree = tree(&[
            ("usr/bin/mawk", "mawk"),
            ("bin/bash", "bash"),
            ("usr/bin/which.debianutils", "which"),
            ("usr/share/base-passwd/passwd.master", "root:*:0:0:root:/root:/bin/bash\n"),
            ("usr/share/ca-certificates/mozilla/b.crt", "B"),
            ("usr/share/ca-certificates/mozilla/a.crt", "A\n"),
            ("usr/share/ca-certificates/mozilla/readme", "no"),
            ("var/lock/held", ""),
        ]);
        tree.add_dir(Layer::Base, &path("var/run").unwrap()).unwrap();
        finish(&mut tree, Layer::Base).unwrap();
        assert_eq!(text(&tree, "etc/passwd"), "root:*:0:0:root:/root:/bin/bash\n");
        assert_eq!(text(&tree, BUNDLE), "A\nB\n");
        assert_eq!(text(&tree, "usr/bin/awk"), "mawk");
        assert_eq!(text(&tree, "bin/sh"), "bash");
        assert_eq!(text(&tree, "bin/which"), "which");
        assert!(tree.get(&path("usr/bin/pager").unwrap()).is_none());
        let run = &tree.get(&path("var/run").unwrap()).unwrap().what;
        assert_eq!(*run, What::Symlink("/run".to_owned()));
        // A folder that is in use stays as it is.
        assert_eq!(tree.get(&path("var/lock").unwrap()).unwrap().what, What::Dir);
        assert_eq!(tree.get(&path("run/lock").unwrap()).unwrap().mode, 0o1777);
    }

    #[test]
    fn what_is_there_stays() {
        let files = [
            ("etc/passwd", "mine"),
            ("usr/share/base-passwd/passwd.master", "theirs"),
            (BUNDLE, "mine"),
            ("usr/share/ca-certificates/a.crt", "theirs"),
            ("bin/sh", "mine"),
            ("bin/dash", "theirs"),
        ];
        let mut tree = tree(&files);
        finish(&mut tree, Layer::Base).unwrap();
        for name in ["etc/passwd", BUNDLE, "usr/bin/sh"] {
            assert_eq!(text(&tree, name), "mine", "{name}");
        }
    }
}
