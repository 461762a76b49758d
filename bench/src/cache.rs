//! The page cache: reading fills it, `fadvise` empties it, `mincore` shows what it holds.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use gular_files::resident_pages;
use rustix::fs::{Advice, fadvise};

use crate::Error;

/// Files looked at to say what share of a set is in memory.
const LOOKED_AT: usize = 64;

/// Reads `paths` in order, in large pieces.
///
/// Pages that a file's writer left behind may be small and scattered; those that a
/// reader brings in are what a training job finds.
pub(crate) fn fill(paths: &[impl AsRef<Path>]) -> Result<(), Error> {
    let mut buffer = vec![0; 1 << 20];
    for path in paths {
        let path = path.as_ref();
        let io = |e| Error::io("read", path, e);
        let mut file = File::open(path).map_err(io)?;
        while file.read(&mut buffer).map_err(io)? > 0 {}
    }
    Ok(())
}

/// Asks the kernel to forget `paths`, written back first: dirty pages stay, and so do those that
/// a process has mapped.
///
/// # Errors
/// [`Error::Io`] where a file cannot be opened or written back.
pub fn drop(paths: &[impl AsRef<Path>]) -> Result<(), Error> {
    for path in paths {
        let path = path.as_ref();
        let io = |e| Error::io("open", path, e);
        let file = File::open(path).map_err(io)?;
        file.sync_all().map_err(|e| Error::io("sync", path, e))?;
        // A file system may refuse, which `resident` shows.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
    Ok(())
}

/// The share of the pages of `paths` that is in memory, 0 to 1; of many files some
/// are looked at. `None` where the kernel does not say.
#[must_use]
pub fn resident(paths: &[impl AsRef<Path>]) -> Option<f64> {
    let step = paths.len().div_ceil(LOOKED_AT).max(1);
    let (mut there, mut all) = (0, 0);
    for path in paths.iter().step_by(step) {
        let (t, a) = resident_pages(&File::open(path).ok()?)?;
        there += t;
        all += a;
    }
    (all > 0).then(|| there as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_resident() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("a"), dir.path().join("empty")];
        std::fs::write(&paths[0], vec![1; 3 << 20]).unwrap();
        std::fs::write(&paths[1], b"").unwrap();
        fill(&paths).unwrap();
        assert_eq!(resident(&paths), Some(1.0));
        // The file system decides whether pages go away; one that stays is not an error.
        drop(&paths).unwrap();
        assert!(resident(&paths).is_some_and(|share| (0.0..=1.0).contains(&share)));
        assert_eq!(resident(&[dir.path().join("none")]), None);
        assert!(fill(&[dir.path().join("none")]).is_err());
    }
}
