//! Digests of any length in the memory of one block.

use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::{BLOCK_BYTES, Digest, Error, ReadAt, block_cv, merge, n_blocks};

/// The digest of `len` bytes of `file` from `start` on, read in blocks of 1 MiB.
///
/// `advance` is called with the bytes just read; `None` when `cancel` was set.
///
/// # Errors
/// Those of [`ReadAt::read_at`].
pub(crate) fn digest(
    file: &ReadAt,
    start: u64,
    len: u64,
    advance: &(dyn Fn(u64) + Sync),
    cancel: &AtomicBool,
) -> Result<Option<Digest>, Error> {
    let n = n_blocks(len);
    let mut buffer = block_buffer(len);
    let mut cvs = Vec::new();
    for block in 0..n {
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let at = block.saturating_mul(BLOCK_BYTES as u64);
        let piece = piece_of(&mut buffer, len.saturating_sub(at));
        file.read_at(start.saturating_add(at), piece)?;
        cvs.push(block_cv(block, piece, n == 1));
        advance(piece.len() as u64);
    }
    Ok(merge(&cvs))
}

/// Room for one block of a file of `len` bytes.
pub(crate) fn block_buffer(len: u64) -> Vec<u8> {
    vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(BLOCK_BYTES)]
}

/// The first `len` bytes of `buffer`, or all of it when it has fewer.
pub(crate) fn piece_of(buffer: &mut [u8], len: u64) -> &mut [u8] {
    let len = usize::try_from(len).unwrap_or(usize::MAX).min(buffer.len());
    buffer.split_at_mut(len).0
}
