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

use std::ops::Range;

use blake3::hazmat::{self, HasherExt, Mode};

use crate::{Digest, Error, ReadAt};

pub use gular_files::BLOCK_BYTES;

/// [`BLOCK_BYTES`] as a file length.
pub(crate) const BLOCK_LEN: u64 = BLOCK_BYTES as u64;

/// A chaining value of 32 bytes.
pub(crate) type BlockCv = [u8; 32];

/// The number of blocks of a file; an empty file has one empty block.
#[must_use]
pub fn n_blocks(len_bytes: u64) -> u64 {
    len_bytes.div_ceil(BLOCK_LEN).max(1)
}

/// The chaining values of a file's blocks, which tell whether the bytes of any one block are right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockTree {
    /// One value per block; never empty.
    cvs: Vec<BlockCv>,
    len: u64,
}

impl BlockTree {
    /// Makes the tree of a file of `len_bytes` from these values; `None` unless there is one value
    /// per block.
    #[must_use]
    pub fn new(cvs: Vec<[u8; 32]>, len_bytes: u64) -> Option<Self> {
        (cvs.len() as u64 == n_blocks(len_bytes)).then_some(Self { cvs, len: len_bytes })
    }

    /// Returns the tree of an index that was parsed, and so has one value per block.
    pub(crate) fn of_index(cvs: &[BlockCv], len_bytes: u64) -> Self {
        Self { cvs: cvs.to_vec(), len: len_bytes }
    }

    /// Hashes `file` block by block, with only one block in memory.
    ///
    /// # Errors
    /// Those of [`ReadAt::read_at`].
    pub fn of_file(file: &ReadAt) -> Result<Self, Error> {
        Self::of_range(file, 0..file.len_bytes(), &mut |_| Ok(()))
    }

    /// Hashes the bytes `range` of `file`, as if they were a file of their own.
    ///
    /// `watch` is shown each block that was read; an error that it returns ends the walk.
    ///
    /// # Errors
    /// Those of [`ReadAt::read_at`] and of `watch`.
    pub fn of_range<E: From<Error>>(
        file: &ReadAt,
        range: Range<u64>,
        watch: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let len = range.end.saturating_sub(range.start);
        let single = n_blocks(len) == 1;
        let mut buffer = block_buffer(len);
        let mut cvs = Vec::new();
        for block in 0..n_blocks(len) {
            let within = range_of(block, len);
            let piece = room_for(&mut buffer, &within);
            file.read_at(range.start.saturating_add(within.start), piece)?;
            watch(piece)?;
            cvs.push(block_cv(block, piece, single));
        }
        Ok(Self { cvs, len })
    }

    /// The length of the file in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// The number of blocks, 1 or more.
    #[must_use]
    pub fn n_blocks(&self) -> usize {
        self.cvs.len()
    }

    /// Returns the bytes of the file that belong to block `block`; an empty range past the last
    /// block.
    #[must_use]
    pub fn range(&self, block: u64) -> Range<u64> {
        range_of(block, self.len)
    }

    /// Returns the blocks that hold the bytes `range`.
    #[must_use]
    pub fn blocks_of(&self, range: &Range<u64>) -> Range<u64> {
        match range.is_empty() {
            true => 0..0,
            false => range.start / BLOCK_LEN..range.end.div_ceil(BLOCK_LEN),
        }
    }

    /// Returns whether `bytes` are those of block `block`; false past the last block.
    #[must_use]
    pub fn accepts(&self, block: u64, bytes: &[u8]) -> bool {
        let expected = usize::try_from(block).ok().and_then(|block| self.cvs.get(block));
        let Range { start, end } = self.range(block);
        // blake3 panics on a subtree that is longer than its place.
        let fits = bytes.len() as u64 == end.saturating_sub(start);
        let single = self.cvs.len() == 1;
        fits && expected.is_some_and(|cv| block_cv(block, bytes, single) == *cv)
    }

    /// Reads block `block` of `file` into `buffer`; check it with [`BlockTree::accepts`].
    ///
    /// # Errors
    /// Those of [`ReadAt::read_at`].
    pub fn read<'a>(
        &self,
        file: &ReadAt,
        block: u64,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        let range = self.range(block);
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        if buffer.len() < len.min(BLOCK_BYTES) {
            buffer.resize(len.min(BLOCK_BYTES), 0);
        }
        let piece = room_for(buffer, &range);
        file.read_at(range.start, piece)?;
        Ok(piece)
    }

    /// The digest of the file, which `b3sum` prints too.
    #[must_use]
    pub fn digest(&self) -> Digest {
        merge(&self.cvs).unwrap_or_else(|| Digest::of(b""))
    }

    /// The values in the order of the blocks, for the index.
    pub(crate) fn cvs(&self) -> &[BlockCv] {
        &self.cvs
    }
}

fn range_of(block: u64, len: u64) -> Range<u64> {
    let start = block.saturating_mul(BLOCK_LEN).min(len);
    start..start.saturating_add(BLOCK_LEN).min(len)
}

/// Returns a buffer for one block of a file of `len` bytes.
fn block_buffer(len: u64) -> Vec<u8> {
    vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(BLOCK_BYTES)]
}

fn room_for<'a>(buffer: &'a mut [u8], range: &Range<u64>) -> &'a mut [u8] {
    let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
    buffer.split_at_mut(len.min(buffer.len())).0
}

/// Returns the chaining value of the block that starts at byte `block * 1 MiB`.
///
/// If `single` is set, the block is the whole file, and the value is the file's digest.
fn block_cv(block: u64, bytes: &[u8], single: bool) -> BlockCv {
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
/// Returns `None` if the list is empty.
fn merge(cvs: &[BlockCv]) -> Option<Digest> {
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

/// Splits the values as BLAKE3 does: the largest power of two that leaves a remainder is on the
/// left.
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
        // A new hasher is made, since `reset` after `set_input_offset` overflows in blake3 1.8.7.
        self.hasher = blake3::Hasher::new();
        self.hasher.set_input_offset((self.cvs.len() as u64).saturating_mul(BLOCK_LEN));
        self.in_block = 0;
    }

    /// Writes `patch` over the first bytes and returns the tree.
    pub(crate) fn finish(mut self, patch: &[u8]) -> BlockTree {
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
        BlockTree { cvs: self.cvs, len: self.len }
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
            let tree = hasher.finish(&[]);
            assert_eq!(tree.digest(), Digest::of(&bytes), "{len}");
            assert_eq!(
                (tree.n_blocks() as u64, tree.len_bytes()),
                (n_blocks(len as u64), len as u64)
            );
            assert_eq!(BlockTree::of_file(&ReadAt::in_memory("m", bytes.clone())).unwrap(), tree);
            for (i, block) in (0..).zip(bytes.chunks(step)) {
                let range = tree.range(i);
                assert_eq!((range.end - range.start) as usize, block.len(), "{len} block {i}");
                assert!(tree.accepts(i, block), "{len} block {i}");
                assert!(!tree.accepts(i, &[block, b"x"].concat()), "{len} block {i}");
                assert!(!tree.accepts(tree.n_blocks() as u64, block), "{len} block {i}");
                assert_eq!(tree.blocks_of(&range), i..i + 1, "{len} block {i}");
            }
            assert!(tree.range(tree.n_blocks() as u64).is_empty());
        }
    }

    #[test]
    fn the_tree_of_a_range_is_that_of_a_file_of_its_bytes() {
        let bytes: Vec<u8> = (0..3 * BLOCK_BYTES).map(|i| (i % 241) as u8).collect();
        let part = &bytes[17..17 + BLOCK_BYTES + 5];
        let expected = BlockTree::of_file(&ReadAt::in_memory("m", part.to_vec())).unwrap();
        let range = 17..17 + part.len() as u64;
        let file = ReadAt::in_memory("m", bytes.clone());
        let mut seen = Vec::new();
        let found = BlockTree::of_range::<Error>(&file, range, &mut |block| {
            seen.push(block.len());
            Ok(())
        });
        assert_eq!(found.unwrap(), expected);
        assert_eq!(seen, [BLOCK_BYTES, 5]);
    }

    #[test]
    fn a_tree_has_one_value_per_block() {
        let two = BLOCK_LEN + 1;
        assert!(BlockTree::new(vec![[0; 32]; 2], two).is_some());
        for n in [0, 1, 3] {
            assert_eq!(BlockTree::new(vec![[0; 32]; n], two), None, "{n}");
        }
    }

    #[test]
    fn the_first_bytes_can_be_patched_late() {
        let mut bytes = vec![7_u8; 3 * BLOCK_BYTES];
        let mut hasher = BlockHasher::new();
        hasher.update(&bytes);
        let digest = hasher.finish(b"header").digest();
        bytes[..6].copy_from_slice(b"header");
        assert_eq!(digest, Digest::of(&bytes));
    }
}
