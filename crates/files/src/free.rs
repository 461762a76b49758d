//! How much free space a file system has.

use std::path::Path;

use crate::Error;

/// The space that an ordinary user may still use; `u64::MAX` if the file system has no limit of its
/// own (a tmpfs without a size, Btrfs for files).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    /// Free bytes.
    pub bytes: u64,
    /// Number of files and folders that can still be made.
    pub files: u64,
}

impl Default for Free {
    /// Returns the largest numbers, for a file system without a known limit.
    fn default() -> Self {
        Self { bytes: u64::MAX, files: u64::MAX }
    }
}

/// Returns the free space where `path` is, or will be: the nearest folder above it that exists is
/// asked.
///
/// # Errors
/// When the system does not answer for that folder.
pub fn free(path: &Path) -> Result<Free, Error> {
    let mut above = path.ancestors().filter(|above| !above.as_os_str().is_empty());
    let there = above.find(|above| above.exists()).unwrap_or(Path::new("."));
    let found = rustix::fs::statvfs(there)
        .map_err(|e| Error::new("ask for the free space of", there, e.into()))?;
    let limit = |total: u64, free: u64| if total > 0 { free } else { u64::MAX };
    Ok(Free {
        bytes: limit(found.f_blocks, found.f_bavail.saturating_mul(found.f_frsize)),
        files: limit(found.f_files, found.f_favail),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_is_measured_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let found = free(&dir.path().join("a/b/c")).unwrap();
        assert!(found.bytes > 0 && found.files > 0, "{found:?}");
        assert_eq!(free(Path::new("no-such-folder-here/x")).is_ok(), free(Path::new(".")).is_ok());
    }

    #[test]
    fn no_size_is_no_limit() {
        // /proc has neither blocks nor files.
        assert_eq!(free(Path::new("/proc")).unwrap(), Free::default());
    }
}
