//! Mounts shards as folders: SquashFS images, mounted where they are stored.
//!
//! ```text
//! NAME/manifest.json, data/…   links to the bundle's own files
//! NAME/files/<shard>/          each shard, mounted
//! NAME/train → files/<shard>   of a split that is one shard; its folder `train`, if all is in it
//! ```
//!
//! The kernel mounts for root; for others squashfuse does. File systems that a killed run left
//! mounted are found in the list of mounts, and are unmounted by the process that removes NAME.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gular_bundle::{Bundle, DATA_DIR, Envelope, MANIFEST_NAME, SAMPLES_NAME, ShardEntry, Split};

use super::make_folder::make_folder;
use super::need::Need;
use crate::Error;

/// The folder of the shards, below the folder of the copy.
const FILES_DIR: &str = "files";

/// Refuses a bundle whose shards cannot be mounted.
pub(super) fn check(bundle: &Bundle) -> Result<(), Error> {
    match bundle.manifest().envelope {
        Envelope::Squashfs => Ok(()),
        envelope => {
            let path = bundle.dir().display().to_string();
            Err(Error::NotMountable { path, envelope: envelope.name() })
        }
    }
}

/// Returns the name of the folder. Runs share it if they are in one namespace of mounts, since
/// mounts are only visible there, and use the same copy of the bundle, since the folder has links
/// to its files.
pub(super) fn name(bundle: &Bundle) -> String {
    let namespace = fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
    let copy = fs::metadata(bundle.dir().join(MANIFEST_NAME));
    let copy =
        copy.map_or_else(|_| String::new(), |found| format!("{}{}", found.dev(), found.ino()));
    let all = [namespace.as_os_str(), copy.as_ref()];
    let all = all.iter().flat_map(|text| text.as_bytes());
    let id: String = all.filter(|b| b.is_ascii_digit()).map(|b| char::from(*b)).collect();
    format!("{}{MARK}{id}", bundle.digest().hex())
}

/// The text before the namespace in names.
const MARK: &str = "-mount-";

/// Returns the digest at the beginning of a name that [`name`] made.
pub(super) fn digest_in(name: &str) -> Option<&str> {
    let (hex, namespace) = name.split_once(MARK)?;
    namespace.bytes().all(|b| b.is_ascii_digit()).then_some(hex)
}

/// Returns the space that the links and folders need. The shards are not copied.
pub(super) fn need(bundle: &Bundle) -> Need {
    let mut need = Need::default();
    let manifest = bundle.manifest();
    let links = manifest.files().count() as u64 + 1 + Split::ALL.len() as u64;
    need.add_folders(links + 3);
    for file in shards(bundle) {
        need.add_folders(file.file.name.as_str().split('/').count() as u64);
        need.content = need.content.saturating_add(file.file.bytes);
        need.files += 1;
    }
    need
}

/// Makes the contents of the folder `to`, which is empty.
pub(super) fn mount(bundle: &Bundle, to: &Path, stop: &dyn Fn() -> bool) -> Result<(), Error> {
    let absolute = |path: PathBuf| fs::canonicalize(&path).map_err(|e| Error::io("open", &path, e));
    let link = |from: &Path, at: &Path| {
        at.parent().map_or(Ok(()), make_folder)?;
        std::os::unix::fs::symlink(from, at).map_err(|e| Error::io("create", at, e))
    };
    link(&absolute(bundle.dir().join(MANIFEST_NAME))?, &to.join(MANIFEST_NAME))?;
    for file in bundle.manifest().files() {
        let from = absolute(bundle.path_of(file))?;
        link(&from, &to.join(DATA_DIR).join(file.name.as_str()))?;
    }
    for shard in shards(bundle) {
        if stop() {
            return Err(Error::cancelled());
        }
        let at = to.join(folder_of(shard));
        make_folder(&at)?;
        mount_one(&absolute(bundle.path_of(&shard.file))?, &at)?;
    }
    for split in Split::ALL {
        let mut of_split = bundle.manifest().of_split(split);
        if let (Some(shard), None) = (of_split.next(), of_split.next()) {
            let below = split_in(&to.join(folder_of(shard)), split);
            link(&folder_of(shard).join(below), &to.join(split.to_string()))?;
        }
    }
    Ok(())
}

/// Returns the folder that has all samples of a mounted shard: that of its split if all keys begin
/// with it, else the shard's own.
fn split_in(shard: &Path, split: Split) -> String {
    let split = split.to_string();
    let is_other = |entry: io::Result<fs::DirEntry>| {
        let other = |name: OsString| name != OsStr::new(SAMPLES_NAME) && name != OsStr::new(&split);
        entry.map_or(true, |entry| other(entry.file_name()))
    };
    let others = fs::read_dir(shard).map_or(true, |mut entries| entries.any(is_other));
    if others || !shard.join(&split).is_dir() { String::new() } else { split }
}

/// Returns the shards, each file once.
fn shards(bundle: &Bundle) -> impl Iterator<Item = &ShardEntry> {
    let mut seen = std::collections::HashSet::new();
    bundle.manifest().shards.iter().filter(move |shard| seen.insert(&shard.file.name))
}

fn folder_of(shard: &ShardEntry) -> PathBuf {
    let name = shard.file.name.as_str();
    let stem = name.strip_suffix(Envelope::Squashfs.extension()).map(|n| n.trim_end_matches('.'));
    Path::new(FILES_DIR).join(stem.unwrap_or(name))
}

fn mount_one(image: &Path, at: &Path) -> Result<(), Error> {
    let mut said = Vec::new();
    let kernel = ["-t", "squashfs", "-o", "loop,ro,nosuid,nodev"];
    let ways: [(&str, &[&str]); 2] = [("mount", &kernel), ("squashfuse", &[])];
    let first = if rustix::process::geteuid().is_root() { 0 } else { 1 };
    for (program, options) in ways.iter().skip(first) {
        let mut command = Command::new(program);
        command.args(*options).arg(image).arg(at);
        match run(&mut command) {
            Ok(()) => return Ok(()),
            Err(reason) => said.push(format!("{program}: {reason}")),
        }
    }
    Err(Error::Mount { image: image.display().to_string(), reason: said.join("; ") })
}

/// Runs a program to its end; the error says why it failed.
fn run(command: &mut Command) -> Result<(), String> {
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).output();
    let ended = ended.map_err(|e| match e.kind() {
        ErrorKind::NotFound => "not installed".to_owned(),
        _ => e.to_string(),
    })?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let said: String =
        said.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    Err(if said.is_empty() { ended.status.to_string() } else { said })
}

/// Unmounts everything that is mounted below `dir`, the deepest first, including mounts whose
/// server is dead.
pub(super) fn unmount_below(dir: &Path) -> io::Result<()> {
    let mut mounts = below(dir, &fs::read("/proc/self/mountinfo").unwrap_or_default());
    mounts.sort();
    for path in mounts.iter().rev() {
        let mut said = Vec::new();
        let ways: [(&str, &[&str]); 3] =
            [("umount", &["-l"]), ("fusermount3", &["-u", "-z"]), ("fusermount", &["-u", "-z"])];
        let done = ways.iter().any(|(program, options)| {
            let ended = run(Command::new(program).args(*options).arg(path));
            ended.map_err(|reason| said.push(format!("{program}: {reason}"))).is_ok()
        });
        if !done {
            let path = path.display();
            return Err(io::Error::other(format!("cannot unmount `{path}`: {}", said.join("; "))));
        }
    }
    Ok(())
}

/// Returns the places below `dir` in a list of mounts (proc_pid_mountinfo(5)): the fifth word of
/// each line, in which spaces are octal.
fn below(dir: &Path, list: &[u8]) -> Vec<PathBuf> {
    let place = |line: &[u8]| -> Option<PathBuf> {
        let word = line.split(|b| *b == b' ').nth(4)?;
        let mut path = Vec::new();
        let mut rest = word;
        while let Some((&b, after)) = rest.split_first() {
            let octal = after.get(..3).filter(|_| b == b'\\');
            let octal =
                octal.and_then(|o| u8::from_str_radix(std::str::from_utf8(o).ok()?, 8).ok());
            path.push(octal.unwrap_or(b));
            let digits = if octal.is_some() { 3 } else { 0 };
            rest = after.get(digits..).unwrap_or_default();
        }
        let path = PathBuf::from(OsString::from_vec(path));
        (path.starts_with(dir) && path.as_os_str() != OsStr::new(dir)).then_some(path)
    };
    list.split(|b| *b == b'\n').filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_folder_are_found_in_the_list() {
        let list = b"36 35 98:0 / / rw - ext4 /dev/root rw\n\
            37 36 7:0 / /s/a/files/x ro,nosuid - squashfs /dev/loop0 ro\n\
            38 36 0:5 / /s/a\\040b/files/y ro - fuse.squashfuse squashfuse ro\n\
            39 36 0:6 / /s/a/back\\134slash ro - fuse.squashfuse squashfuse ro\ncut\n";
        let found = |dir: &str| below(Path::new(dir), list);
        assert_eq!(found("/s/a"), [Path::new("/s/a/files/x"), Path::new("/s/a/back\\slash")]);
        assert_eq!(found("/s/a b"), [Path::new("/s/a b/files/y")]);
        assert_eq!(found("/s/a/files/x"), Vec::<PathBuf>::new());
    }

    #[test]
    fn names_of_mounts_begin_with_the_digest() {
        let hex = "ab".repeat(32);
        assert_eq!(digest_in(&format!("{hex}-mount-4026531841")), Some(&*hex));
        for other in [hex.clone(), format!("{hex}-files"), format!("{hex}-mount-x")] {
            assert_eq!(digest_in(&other), None, "{other}");
        }
    }
}
