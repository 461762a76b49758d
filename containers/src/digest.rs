//! SHA-256, as archives and indexes write it; BLAKE3 of whole files.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 in hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 of a file in hex.
pub(crate) fn sha256_of(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let bytes = file.metadata().map_err(Error::io("read", path))?.len();
    let mut hasher = Sha256::new();
    feed(&mut hasher, &mut file, path, bytes, &|_| {}, &AtomicBool::new(false))?;
    Ok(hex(&hasher.finalize()))
}

/// BLAKE3 of a file.
pub(crate) fn blake3_of(path: &Path) -> Result<blake3::Hash> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).map_err(Error::io("read", path))?;
    Ok(hasher.finalize())
}

/// Whether a text is a SHA-256 as [`sha256`] writes it.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Takes the next `bytes` of a file into `hasher`; `progress` hears how many are through.
pub(crate) fn feed(
    hasher: &mut Sha256,
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
