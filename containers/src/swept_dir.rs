//! Temporary folders, of which a later process removes those that a killed one left.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::{Error, Result};

/// The age below which a folder may not be locked yet.
const UNLOCKED: Duration = Duration::from_secs(60);

/// A folder that is removed when it is dropped, with folders in it that nobody may write to.
#[derive(Debug)]
pub(crate) struct SweptDir {
    dir: TempDir,
    /// Tells others that the folder is in use.
    _lock: File,
}

impl SweptDir {
    /// Makes a folder whose name begins with `prefix`, and removes others of this kind that no
    /// process uses.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn new(prefix: &str, parent: &Path) -> Result<Self> {
        sweep(prefix, parent);
        let dir = TempDir::with_prefix_in(prefix, parent).map_err(Error::io("create", parent))?;
        let lock = File::open(dir.path()).map_err(Error::io("open", dir.path()))?;
        // Where folders cannot be locked, nobody takes them for left over, either.
        let _ = lock.try_lock();
        Ok(Self { dir, _lock: lock })
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for SweptDir {
    fn drop(&mut self) {
        // Folders that nobody may write to cannot be emptied.
        let _ = open_folders(self.path());
    }
}

/// Removes folders of processes that were killed.
fn sweep(prefix: &str, parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let place = entry.path();
        let is_ours = entry.file_name().to_string_lossy().starts_with(prefix);
        let age = entry.metadata().and_then(|meta| meta.modified()).map(|time| time.elapsed());
        // A new one may not be locked yet.
        let is_old = matches!(age, Ok(Ok(age)) if age > UNLOCKED);
        if is_ours && is_old && File::open(&place).is_ok_and(|dir| dir.try_lock().is_ok()) {
            let _ = open_folders(&place);
            let _ = fs::remove_dir_all(&place);
        }
    }
}

/// Lets us read and change all folders below one.
pub(crate) fn open_folders(dir: &Path) -> std::io::Result<()> {
    let meta = fs::symlink_metadata(dir)?;
    if meta.mode() & 0o700 != 0o700 {
        fs::set_permissions(dir, Permissions::from_mode(meta.mode() | 0o700))?;
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn folders_of_killed_processes_are_removed_and_those_in_use_stay() {
        let temp = tempfile::tempdir().unwrap();
        let used = SweptDir::new("gular-x-", temp.path()).unwrap();
        let left = temp.path().join("gular-x-left");
        let new = temp.path().join("gular-x-new");
        let other = temp.path().join("other");
        for folder in [&left, &new, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "").unwrap();
        }
        for folder in [used.path(), &left, &other] {
            File::open(folder).unwrap().set_modified(UNIX_EPOCH).unwrap();
        }
        sweep("gular-x-", temp.path());
        assert!(used.path().exists() && new.exists() && other.exists());
        assert!(!left.exists());
    }
}
