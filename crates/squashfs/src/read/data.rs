//! Reads the contents of a file, block by block.

use std::collections::VecDeque;
use std::io::Write;

use super::content::fragment;
use super::error::damaged;
use super::inode::File;
use super::metadata::Metadata;
use super::read_bytes::u32_at;
use super::superblock::Superblock;
use super::{Error, ReadBytes};
use crate::format::{BLOCK_HOLE, NONE};

/// The number of fragments that are kept, since small files of a folder are in the same ones; 8 MiB
/// at most.
const MOST_KEPT: usize = 8;

/// Buffers for the blocks of files.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    block: Vec<u8>,
    /// Fragments by their first byte in the image, the most recently used last.
    fragments: VecDeque<(u64, Vec<u8>)>,
}

impl Blocks {
    /// Writes a file's bytes to `sink`.
    pub(super) fn copy<S: ReadBytes + ?Sized>(
        &mut self,
        file: &File,
        metadata: &mut Metadata<'_, S>,
        superblock: &Superblock,
        sink: &mut dyn Write,
    ) -> Result<(), Error> {
        let block_size = u64::from(superblock.block_size);
        let mut left = file.size;
        let mut start = file.start;
        let mut words = file.words;
        while left > 0 && (left >= block_size || file.fragment == NONE) {
            let word = u32_at(&metadata.read_array::<4>(&mut words)?, 0);
            let len = left.min(block_size);
            if word == BLOCK_HOLE {
                self.block.clear();
                self.block.resize(usize::try_from(len).unwrap_or(0), 0);
            } else {
                start = metadata.data(start, word, superblock.block_size, &mut self.block)?;
                if self.block.len() as u64 != len {
                    let found = self.block.len();
                    return Err(damaged(format!("a block has {found} bytes, expected {len}")));
                }
            }
            sink.write_all(&self.block).map_err(Error::Write)?;
            left = left.saturating_sub(len);
        }
        if left == 0 {
            return Ok(());
        }
        let (start, word) = fragment(file.fragment, metadata, superblock)?;
        let fragment = self.fragment(start, word, metadata, superblock)?;
        let from = usize::try_from(file.fragment_offset).unwrap_or(usize::MAX);
        let bytes = usize::try_from(left).ok().and_then(|left| from.checked_add(left));
        let bytes = bytes
            .and_then(|end| fragment.get(from..end))
            .ok_or_else(|| damaged("a file's last bytes are past the end of their fragment"))?;
        sink.write_all(bytes).map_err(Error::Write)
    }

    fn fragment<S: ReadBytes + ?Sized>(
        &mut self,
        start: u64,
        word: u32,
        metadata: &mut Metadata<'_, S>,
        superblock: &Superblock,
    ) -> Result<&[u8], Error> {
        let kept = self.fragments.iter().position(|(known, _)| *known == start);
        let entry = match kept.and_then(|i| self.fragments.remove(i)) {
            Some(entry) => entry,
            None => {
                let full = self.fragments.len() >= MOST_KEPT;
                let oldest = if full { self.fragments.pop_front() } else { None };
                let mut bytes = oldest.map(|(_, bytes)| bytes).unwrap_or_default();
                metadata.data(start, word, superblock.block_size, &mut bytes)?;
                (start, bytes)
            }
        };
        self.fragments.push_back(entry);
        Ok(self.fragments.back().map_or(&[], |(_, bytes)| bytes))
    }
}
