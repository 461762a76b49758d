//! The digest tree of a file: one chaining value per 1 MiB block.
//!
//! ```text
//! block 0      block 1      block 2 (short)
//!   cv[0]        cv[1]        cv[2]         non-root BLAKE3 chaining values
//!      └── parent ──┘            │
//!              └────── root ─────┘          the file's BLAKE3 digest
//! ```
//!
//! 1 MiB is 2^10 BLAKE3 chunks, so each block is a whole subtree and the
//! values merge to the digest `b3sum` prints. A file of one block has a
//! single value, its digest. Format: `FORMAT.md`, "Digests".

use blake3::hazmat::{self, HasherExt, Mode};

use crate::Digest;

/// Bytes of a block; the last block of a file may be shorter.
pub const BLOCK_BYTES: usize = 1 << 20;

/// [`BLOCK_BYTES`] as a file length.
pub(crate) const BLOCK_LEN: u64 = 1 << 20;

/// A chaining value of 32 bytes.
pub type BlockCv = [u8; 32];

/// The number of blocks of a file; an empty file has one empty block.
#[must_use]
pub fn n_blocks(len_bytes: u64) -> u64 {
    len_bytes.div_ceil(BLOCK_LEN).max(1)
}

/// The chaining value of the block that starts at byte `block * 1 MiB`.
///
/// `single` says that the block is the whole file; then this is its digest.
#[must_use]
pub fn block_cv(block: u64, bytes: &[u8], single: bool) -> BlockCv {
    let mut hasher = blake3::Hasher::new();
    if single {
        hasher.update(bytes);
        return *hasher.finalize().as_bytes();
    }
    hasher.set_input_offset(block.saturating_mul(BLOCK_LEN));
    hasher.update(bytes);
    hasher.finalize_non_root()
}

/// Merges the chaining values of all blocks, in order, to the file's digest.
///
/// `None` when there are none.
#[must_use]
pub fn merge(cvs: &[BlockCv]) -> Option<Digest> {
    match cvs {
        [] => None,
        [single] => Some(Digest::from_bytes(*single)),
        _ => {
            let (left, right) = halves(cvs);
            let root = hazmat::merge_subtrees_root(&subtree(left)?, &subtree(right)?, Mode::Hash);
            Some(root.into())
        }
    }
}

fn subtree(cvs: &[BlockCv]) -> Option<BlockCv> {
    match cvs {
        [] => None,
        [single] => Some(*single),
        _ => {
            let (left, right) = halves(cvs);
            Some(hazmat::merge_subtrees_non_root(&subtree(left)?, &subtree(right)?, Mode::Hash))
        }
    }
}

/// BLAKE3 puts the largest power of two of chunks that leaves a remainder on the left.
fn halves(cvs: &[BlockCv]) -> (&[BlockCv], &[BlockCv]) {
    cvs.split_at(cvs.len().div_ceil(2).next_power_of_two())
}

/// Hashes a file's blocks as its bytes stream by.
///
/// The first block is kept, since a safetensors header is known only when the
/// data has been written; [`BlockHasher::finish`] takes its final bytes.
#[derive(Debug)]
pub(crate) struct BlockHasher {
    hasher: blake3::Hasher,
    in_block: usize,
    cvs: Vec<BlockCv>,
    first: Vec<u8>,
    len: u64,
}

impl BlockHasher {
    pub(crate) fn new() -> Self {
        Self {
            hasher: blake3::Hasher::new(),
            in_block: 0,
            cvs: Vec::new(),
            first: Vec::new(),
            len: 0,
        }
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.len
    }

    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        self.len = self.len.saturating_add(bytes.len() as u64);
        while !bytes.is_empty() {
            let room = BLOCK_BYTES.saturating_sub(self.in_block);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if self.cvs.is_empty() {
                self.first.extend_from_slice(now);
            } else {
                self.hasher.update(now);
            }
            self.in_block = self.in_block.saturating_add(now.len());
            if self.in_block == BLOCK_BYTES {
                self.close_block();
            }
            bytes = later;
        }
    }

    fn close_block(&mut self) {
        // Block 0 gets its value in `finish`, after the header was patched.
        let cv = if self.cvs.is_empty() { [0; 32] } else { self.hasher.finalize_non_root() };
        self.cvs.push(cv);
        // A new one: `reset` after `set_input_offset` overflows in blake3 1.8.7.
        self.hasher = blake3::Hasher::new();
        self.hasher.set_input_offset((self.cvs.len() as u64).saturating_mul(BLOCK_LEN));
        self.in_block = 0;
    }

    /// Writes `patch` over the first bytes and returns all chaining values and the digest.
    pub(crate) fn finish(mut self, patch: &[u8]) -> (Vec<BlockCv>, Digest) {
        if self.in_block > 0 || self.cvs.is_empty() {
            self.close_block();
        }
        let n = patch.len().min(self.first.len());
        if let (Some(to), Some(from)) = (self.first.get_mut(..n), patch.get(..n)) {
            to.copy_from_slice(from);
        }
        let single = self.cvs.len() == 1;
        if let Some(cv) = self.cvs.first_mut() {
            *cv = block_cv(0, &self.first, single);
        }
        let digest = merge(&self.cvs).unwrap_or_else(|| Digest::of(b""));
        (self.cvs, digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_values_are_the_plain_digest() {
        let step = BLOCK_BYTES;
        for len in [
            0,
            1,
            1024,
            1025,
            step - 1,
            step,
            step + 1,
            2 * step,
            2 * step + 7,
            3 * step,
            5 * step + 1,
            8 * step,
        ] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let mut hasher = BlockHasher::new();
            for piece in bytes.chunks(300_007) {
                hasher.update(piece);
            }
            assert_eq!(hasher.len_bytes(), len as u64);
            let (cvs, digest) = hasher.finish(&[]);
            assert_eq!(digest, Digest::of(&bytes), "{len}");
            assert_eq!(cvs.len() as u64, n_blocks(len as u64));
            for (i, block) in bytes.chunks(step).enumerate() {
                assert_eq!(cvs[i], block_cv(i as u64, block, cvs.len() == 1), "{len} block {i}");
            }
        }
    }

    #[test]
    fn the_first_bytes_can_be_patched_late() {
        let mut bytes = vec![7_u8; 3 * BLOCK_BYTES];
        let mut hasher = BlockHasher::new();
        hasher.update(&bytes);
        let (_, digest) = hasher.finish(b"header");
        bytes[..6].copy_from_slice(b"header");
        assert_eq!(digest, Digest::of(&bytes));
    }
}
