//! What a registry gets of this machine.

use std::fs::File;
use std::path::PathBuf;

use crate::OciDigest;

/// A blob on this machine.
#[derive(Debug)]
pub(crate) struct Blob {
    pub(crate) digest: OciDigest,
    pub(crate) bytes: u64,
    pub(crate) held: Held,
}

/// Where a blob's bytes are.
#[derive(Debug)]
pub(crate) enum Held {
    /// In a file, beginning at this byte.
    From(File, u64),
    /// In a file that is opened for each chunk: an artifact may have more files than may be open.
    At(PathBuf),
    /// In memory.
    Bytes(&'static [u8]),
}
