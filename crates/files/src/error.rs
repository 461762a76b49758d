//! File errors: what went wrong, and with which file.

use std::io;
use std::path::{Path, PathBuf};

/// An action on a file or folder that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`: {source}", path.display())]
pub struct Error {
    /// The action that failed: `write`, `rename to`.
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

impl Error {
    /// Makes the error that `action` on `path` failed.
    pub fn new(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Self { action, path: path.as_ref().to_owned(), source }
    }

    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(
                "free some space on this file system and run the command again; what was saved before is intact",
            ),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Some("check the permissions of the file and its folders")
            }
            _ => None,
        }
    }

    /// The kind of the underlying error.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

/// Whether the file system is the reason for `error`, so that every write to it would fail.
#[must_use]
pub fn is_of_disk(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

/// Whether a read failed because the disk lost the bytes. Then they are damaged like wrong ones, and
/// writing the right ones lets most disks use another place.
#[must_use]
pub fn is_unreadable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    // `IO`: a bad sector, or a checksum of btrfs or ZFS that differs; XFS and ext4 have the others.
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::BADMSG | Errno::UCLEAN))
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        error.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_disk_cannot_read_is_unreadable() {
        let unreadable: Vec<i32> =
            (1..134).filter(|n| is_unreadable(&io::Error::from_raw_os_error(*n))).collect();
        let text = |n: &i32| io::Error::from_raw_os_error(*n).to_string();
        let texts: Vec<String> = unreadable.iter().map(text).collect();
        let expected = ["Input/output error", "Bad message", "Structure needs cleaning"];
        assert!(
            texts.iter().zip(expected).all(|(text, start)| text.starts_with(start)),
            "{texts:?}"
        );
        assert_eq!(texts.len(), expected.len());
        assert!(!is_unreadable(&io::ErrorKind::UnexpectedEof.into()));
    }

    #[test]
    fn an_error_names_action_and_file() {
        let error = Error::new("rename to", Path::new("/a/b"), io::Error::other("no"));
        assert_eq!(error.to_string(), "cannot rename to `/a/b`: no");
        assert_eq!(error.kind(), io::ErrorKind::Other);
    }
}
