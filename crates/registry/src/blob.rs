//! What a registry gets of this machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::{Error, OciDigest, Result, Sha256};

/// A blob on this machine.
#[derive(Debug)]
pub struct Blob {
    /// Digest of the blob's bytes.
    pub digest: OciDigest,
    /// The blob's length.
    pub len_bytes: u64,
    /// Where its bytes are.
    pub bytes: BlobBytes,
}

/// Where a blob's bytes are.
#[derive(Debug)]
pub enum BlobBytes {
    /// In a file, beginning at this byte.
    From(File, u64),
    /// In a file that is opened for each chunk: an artifact may have more files than may be open.
    At(PathBuf),
    /// In memory.
    Memory(&'static [u8]),
}

impl Blob {
    /// The configuration of an artifact, which needs none: `{}`.
    #[must_use]
    pub fn empty() -> Self {
        let bytes = b"{}";
        let digest = OciDigest(Sha256::of(bytes));
        Self { digest, len_bytes: bytes.len() as u64, bytes: BlobBytes::Memory(bytes) }
    }

    /// Reads the bytes `from..to`.
    pub(crate) fn read(&self, from: u64, to: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(usize::MAX)];
        let read = match &self.bytes {
            BlobBytes::From(file, start) => {
                file.read_exact_at(&mut bytes, start.saturating_add(from))
            }
            BlobBytes::At(path) => {
                File::open(path).and_then(|file| file.read_exact_at(&mut bytes, from))
            }
            BlobBytes::Memory(all) => {
                let from = usize::try_from(from).unwrap_or(usize::MAX);
                let mut rest = all.get(from..).unwrap_or_default();
                io::Read::read_exact(&mut rest, &mut bytes)
            }
        };
        let shown = || match &self.bytes {
            BlobBytes::At(path) => path.display().to_string(),
            _ => self.digest.to_string(),
        };
        read.map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::Changed { path: shown(), found: to, expected: self.len_bytes }
            }
            _ => gular_files::Error::new("read", shown(), source).into(),
        })?;
        Ok(bytes)
    }
}
