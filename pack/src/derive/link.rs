//! Makes a file of one bundle available in another: as a hard link, or as a symbolic one if the
//! file system refuses hard links.
//!
//! A hard link stays when the bundle that it is of is moved or removed, such as by a cache that
//! needs the room. A symbolic link needs that bundle to stay where it is.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

/// The way in which a file was linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linked {
    Hard,
    Symbolic,
}

/// Makes `to` another name of `from`; what an earlier run linked stays.
pub(super) fn link(from: &Path, to: &Path) -> Result<Linked, Error> {
    // A link to a link would end where that one's folder goes.
    let from = fs::canonicalize(from).map_err(|e| Error::io("read", from, e))?;
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
    }
    match hard_link(&from, to) {
        Ok(()) => Ok(Linked::Hard),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => again(&from, to),
        // The reason may be another file system, one without hard links, too many links, or a file
        // of another user (Linux's `protected_hardlinks`).
        Err(_) => match symlink(&from, to) {
            Ok(()) => Ok(Linked::Symbolic),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => again(&from, to),
            Err(e) => Err(Error::io("link", to, e)),
        },
    }
}

use crate::error::Error;
#[cfg(not(test))]
use fs::hard_link;

#[cfg(test)]
thread_local! {
    /// Whether this thread's file system has no hard links.
    pub(super) static WITHOUT_HARD_LINKS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[cfg(test)]
fn hard_link(from: &Path, to: &Path) -> std::io::Result<()> {
    match WITHOUT_HARD_LINKS.get() {
        true if to.symlink_metadata().is_ok() => Err(ErrorKind::AlreadyExists.into()),
        true => Err(ErrorKind::Unsupported.into()),
        false => fs::hard_link(from, to),
    }
}

/// The kind of link that `to` is, if it is `from` already.
fn again(from: &Path, to: &Path) -> Result<Linked, Error> {
    let io = |e| Error::io("read", to, e);
    let (a, b) = (fs::metadata(from).map_err(io)?, fs::metadata(to).map_err(io)?);
    if (a.dev(), a.ino()) != (b.dev(), b.ino()) {
        return Err(Error::FileExists(to.display().to_string()));
    }
    let is_link = fs::symlink_metadata(to).map_err(io)?.is_symlink();
    Ok(if is_link { Linked::Symbolic } else { Linked::Hard })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::RunError;

    #[test]
    fn a_file_is_linked_once_and_another_is_never_taken_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a"), dir.path().join("data/b"));
        fs::write(&from, "shard").unwrap();
        assert_eq!(link(&from, &to).unwrap(), Linked::Hard);
        assert_eq!(link(&from, &to).unwrap(), Linked::Hard);
        // If the file is a symbolic link, the new link is to its target.
        let (by, third) = (dir.path().join("by"), dir.path().join("data/c"));
        symlink("a", &by).unwrap();
        assert_eq!(link(&by, &third).unwrap(), Linked::Hard);
        fs::remove_file(&by).unwrap();
        fs::remove_file(&from).unwrap();
        assert_eq!(fs::read(&third).unwrap(), b"shard");
        fs::write(&from, "shard").unwrap();
        assert!(matches!(link(&from, &to), Err(Error::FileExists { .. })));
        assert!(matches!(link(&by, &to), Err(Error::Run(RunError::Io(_)))));
    }
}
