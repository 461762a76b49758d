//! Computes digests of data of any length, with the memory of one block.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::{BlockTree, Digest, Error, ReadAt};

/// Computes the digest of the bytes `range` of `file`, read in blocks of 1 MiB.
///
/// `advance` is called with the number of bytes just read. Returns `None` if `cancel` was set.
///
/// # Errors
/// Those of [`ReadAt::read_at`].
pub(crate) fn digest(
    file: &ReadAt,
    range: Range<u64>,
    advance: &(dyn Fn(u64) + Sync),
    cancel: &AtomicBool,
) -> Result<Option<Digest>, Error> {
    let mut watch = |block: &[u8]| {
        advance(block.len() as u64);
        match cancel.load(Ordering::Relaxed) {
            true => Err(Stop::Cancelled),
            false => Ok(()),
        }
    };
    match BlockTree::of_range(file, range, &mut watch) {
        Ok(tree) => Ok(Some(tree.digest())),
        Err(Stop::Cancelled) => Ok(None),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// Why a walk over blocks ended early.
enum Stop {
    Cancelled,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
