//! SHA-256 and BLAKE3 of files.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result, StreamSha256};

/// Computes the BLAKE3 of a file.
pub(crate) fn blake3_of(path: &Path) -> Result<blake3::Hash> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).map_err(Error::io("read", path))?;
    Ok(hasher.finalize())
}

/// Takes the next `bytes` of a file into `hasher`; `progress` hears how many are through.
pub(crate) fn feed(
    hasher: &mut StreamSha256,
    file: &mut File,
    path: &Path,
    bytes: u64,
    progress: &dyn Fn(u64),
    cancel: &AtomicBool,
) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut file = file.take(bytes);
    let mut done = 0;
    while done < bytes {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let read = file.read(&mut buffer).map_err(Error::io("read", path))?;
        if read == 0 {
            let path = path.display().to_string();
            return Err(Error::Changed { path, found: done, expected: bytes });
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
        done += read as u64;
        progress(done);
    }
    Ok(())
}
