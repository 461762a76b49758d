//! A tree in a folder of this machine, in which programs may do what they like.

use std::collections::HashMap;
use std::fs::{self, File, FileTimes, Metadata, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::OFlags;

use crate::rootfs::{FileBytes, RootPath, Rootfs, What};
use crate::swept_dir::SweptDir;
use crate::{Error, Result, UnixTime};

/// The folder in it that our own files are mounted on.
pub(super) const PRIVATE: &str = ".gular";
/// Where those files are, beside the tree.
const OWN: &str = "own";
/// Folders that something is mounted on, and that programs expect.
pub(super) const MOUNTS: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];
/// How names of these folders begin.
const PREFIX: &str = "gular-scripts-";
/// Longest file of our own that is read.
const MAX_OWN: u64 = 64 << 20;

/// A tree that was written to a folder.
///
/// ```text
/// root     the tree, in which scripts do what they like
/// own      our own files, mounted in the tree
/// tmp      mounted as its `/tmp`
/// printed  what they print
/// ```
#[derive(Debug)]
pub(super) struct Scratch {
    dir: SweptDir,
    /// What each file looked like after it was written.
    stamps: HashMap<RootPath, Stamp>,
}

/// What changes with a file: its number, and the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Stamp {
    pub(super) fn of(meta: &Metadata) -> Self {
        Self { inode: meta.ino(), seconds: meta.ctime(), nanoseconds: meta.ctime_nsec() }
    }
}

impl Scratch {
    /// Writes a tree. Everything is a copy: programs write into files, and what is cached must
    /// not change. All files have this time.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn write(tree: &Rootfs, temp: &Path, time: UnixTime) -> Result<Self> {
        let mut scratch = Self { dir: SweptDir::new(PREFIX, temp)?, stamps: HashMap::new() };
        let root = scratch.root();
        for folder in [&root, &scratch.dir().join(OWN)] {
            fs::create_dir(folder).map_err(Error::io("create", folder))?;
        }
        let modified = UNIX_EPOCH + Duration::from_secs(time.clamped_to_u64());
        let times = FileTimes::new().set_modified(modified).set_accessed(modified);
        for (path, node) in tree.iter().skip(1) {
            let place = root.join(path.as_str());
            match &node.what {
                What::Dir => {
                    fs::create_dir(&place).map_err(Error::io("create", &place))?;
                    // We must be able to fill it.
                    mode(&place, node.mode | 0o700)?;
                }
                What::Symlink(target) => {
                    symlink(target, &place).map_err(Error::io("create", &place))?;
                }
                What::Hardlink(_) => {}
                What::File(bytes) => {
                    copy(bytes, &place)?;
                    let file = File::options().write(true).open(&place);
                    let set = file.and_then(|file| file.set_times(times));
                    set.map_err(Error::io("write", &place))?;
                    mode(&place, node.mode)?;
                }
            }
        }
        for (path, node) in tree.iter() {
            if let What::Hardlink(first) = &node.what {
                let place = root.join(path.as_str());
                let linked = fs::hard_link(root.join(first.as_str()), &place);
                linked.map_err(Error::io("create", &place))?;
            }
        }
        for name in MOUNTS.iter().chain(&[PRIVATE]) {
            let place = root.join(name);
            fs::create_dir_all(&place).map_err(Error::io("create", &place))?;
        }
        for (path, node) in tree.iter() {
            if matches!(node.what, What::File(_) | What::Hardlink(_)) {
                let place = root.join(path.as_str());
                let meta = fs::symlink_metadata(&place).map_err(Error::io("read", &place))?;
                scratch.stamps.insert(path.clone(), Stamp::of(&meta));
            }
        }
        Ok(scratch)
    }

    /// The folder of all of it.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The folder of the tree.
    pub(super) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// Where a file of the tree is, unless a link leads to it: after scripts, links may lead out of
    /// the tree.
    pub(super) fn file(&self, path: &str) -> Option<PathBuf> {
        let mut place = self.root();
        let mut kind = None;
        for name in path.split('/') {
            place.push(name);
            kind = Some(fs::symlink_metadata(&place).ok()?.file_type());
            if kind.is_some_and(|kind| kind.is_symlink()) {
                return None;
            }
        }
        kind.is_some_and(|kind| kind.is_file()).then_some(place)
    }

    /// The text of a file of our own that scripts could write to; empty if it is not a file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn read_own(&self, name: &str) -> Result<String> {
        let place = self.dir().join(OWN).join(name);
        // A pipe would wait for who writes.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let Ok(file) = File::options().read(true).custom_flags(flags).open(&place) else {
            return Ok(String::new());
        };
        let mut bytes = Vec::new();
        if file.metadata().is_ok_and(|meta| meta.is_file()) {
            file.take(MAX_OWN).read_to_end(&mut bytes).map_err(Error::io("read", &place))?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Writes a program of our own.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn add_own(&self, name: &str, text: &str) -> Result<()> {
        let place = self.dir().join(OWN).join(name);
        let folder = gular_files::folder_of(&place);
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        fs::write(&place, text).map_err(Error::io("write", &place))?;
        mode(&place, 0o755)
    }

    /// Whether nothing has written to a file of the tree.
    pub(super) fn is_untouched(&self, path: &RootPath, meta: &Metadata) -> bool {
        self.stamps.get(path).is_some_and(|stamp| *stamp == Stamp::of(meta))
    }
}

fn copy(bytes: &FileBytes, place: &Path) -> Result<()> {
    match bytes {
        FileBytes::Bytes(bytes) => fs::write(place, bytes).map_err(Error::io("write", place)),
        FileBytes::File { path, .. } => {
            fs::copy(path, place).map_err(Error::io("copy", path))?;
            // The mode was copied too, and may forbid to write.
            mode(place, 0o600)
        }
    }
}

fn mode(place: &Path, mode: u16) -> Result<()> {
    let mode = Permissions::from_mode(u32::from(mode));
    fs::set_permissions(place, mode).map_err(Error::io("write", place))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_scripts_made_of_it_leads_nowhere_else() {
        let temp = tempfile::tempdir().unwrap();
        let scratch = Scratch::write(&Rootfs::default(), temp.path(), UnixTime(1)).unwrap();
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "secret").unwrap();
        let root = scratch.root();
        fs::create_dir(root.join("etc")).unwrap();
        fs::write(root.join("etc/file"), "").unwrap();
        symlink(&outside, root.join("folder")).unwrap();
        symlink(outside.join("file"), root.join("etc/link")).unwrap();
        assert_eq!(scratch.file("etc/file"), Some(root.join("etc/file")));
        for path in ["folder/file", "etc/link", "etc", "none", "etc/file/x"] {
            assert_eq!(scratch.file(path), None, "{path}");
        }

        scratch.add_own("log", "1 a").unwrap();
        assert_eq!(scratch.read_own("log").unwrap(), "1 a");
        let log = scratch.dir().join(OWN).join("log");
        fs::remove_file(&log).unwrap();
        symlink(outside.join("file"), &log).unwrap();
        assert_eq!(scratch.read_own("log").unwrap(), "");
        fs::remove_file(&log).unwrap();
        mknodat(CWD, &log, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(scratch.read_own("log").unwrap(), "");
    }
}
