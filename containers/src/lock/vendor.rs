//! All archives of a lock in one folder, to be taken elsewhere.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::Lock;
use crate::fetch::{Archives, Transport};
use crate::{Error, Result};

/// Puts every file of a lock into `dir` under its own name, and nothing else; one that
/// is there and right stays. `progress` hears an archive's name and how many of its
/// bytes are there.
///
/// # Errors
/// As [`Archives::get`].
pub fn vendor(
    lock: &Lock,
    archives: &Archives,
    dir: &Path,
    transport: &dyn Transport,
    progress: &dyn Fn(&str, u64),
    cancel: &AtomicBool,
) -> Result<()> {
    fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    for artifact in lock.artifacts() {
        let progress = |done: u64| progress(&artifact.name, done);
        let to = dir.join(&artifact.file_name);
        let there = Archives { dir: archives.dir.clone(), vendor: vec![dir.into()], offline: true };
        if to.exists() && there.get(&artifact, transport, &progress, cancel).is_ok() {
            continue;
        }
        let from = archives.get(&artifact, transport, &progress, cancel)?;
        let part = tempfile::Builder::new().prefix(".part-").tempdir_in(dir);
        let part = part.map_err(Error::io("create", dir))?;
        let new = part.path().join(&artifact.file_name);
        // Another file system, or one without links: a copy then.
        match fs::hard_link(&from, &new) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::StorageFull => {
                return Err(Error::io("write", &to)(e));
            }
            Err(_) => drop(fs::copy(&from, &new).map_err(Error::io("write", &new))?),
        }
        fs::rename(&new, &to).map_err(Error::io("create", &to))?;
    }
    Ok(())
}
