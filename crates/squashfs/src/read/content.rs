//! Whether a file's bytes are contiguous and uncompressed in the image, and at which offset.

use super::Error;
use super::error::damaged;
use super::inode::File;
use super::metadata::{Metadata, Place};
use super::read_bytes::{ReadBytes, u32_at, u64_at};
use super::superblock::Superblock;
use crate::format::{BLOCK_HOLE, BLOCK_STORED, METADATA_BLOCK, NONE};

/// How a file's bytes are stored in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Uncompressed, in one run that is within the image.
    Run {
        /// The first byte.
        offset: u64,
    },
    /// Some blocks are compressed.
    Compressed,
    /// The last bytes are apart from the others, in a fragment.
    Divided,
    /// Blocks of zeros are left out.
    Sparse,
}

/// Bytes of an entry of the fragment table.
const FRAGMENT_BYTES: u64 = 16;
/// Entries in one block of the fragment table.
const FRAGMENTS_A_BLOCK: u32 = 512;
const _: () = assert!(FRAGMENT_BYTES * FRAGMENTS_A_BLOCK as u64 == METADATA_BLOCK as u64);

impl Content {
    pub(super) fn of<S: ReadBytes + ?Sized>(
        file: &File,
        metadata: &mut Metadata<'_, S>,
        superblock: &Superblock,
    ) -> Result<Self, Error> {
        let outside = || damaged(format!("a file of {} bytes is past its end", file.size));
        let block_size = u64::from(superblock.block_size);
        let mut left = file.size;
        let mut end = file.start;
        let mut words = file.words;
        // Each round uses up a block's bytes of the image, so a wrong size ends at the image's end.
        while left > 0 && (left >= block_size || file.fragment == NONE) {
            let word = u32_at(&metadata.read_array::<4>(&mut words)?, 0);
            if word == BLOCK_HOLE {
                return Ok(Self::Sparse);
            }
            if word & BLOCK_STORED == 0 {
                return Ok(Self::Compressed);
            }
            let len = u64::from(word & !BLOCK_STORED);
            if len != left.min(block_size) {
                return Err(damaged(format!("a stored block has {len} bytes")));
            }
            left = left.saturating_sub(len);
            end = end.saturating_add(len);
            if end > superblock.used {
                return Err(outside());
            }
        }
        if file.size == 0 {
            return Ok(Self::Run { offset: file.start.min(superblock.used) });
        }
        if left == 0 {
            return Ok(Self::Run { offset: file.start });
        }
        let (start, word) = fragment(file.fragment, metadata, superblock)?;
        if word & BLOCK_STORED == 0 {
            return Ok(Self::Compressed);
        }
        let at = u64::from(file.fragment_offset);
        if at.saturating_add(left) > u64::from(word & !BLOCK_STORED) {
            return Err(damaged("a file's last bytes are past the end of their fragment"));
        }
        let tail = start.saturating_add(at);
        if tail.saturating_add(left) > superblock.used {
            return Err(outside());
        }
        Ok(match (left == file.size, tail == end) {
            (true, _) => Self::Run { offset: tail },
            (false, true) => Self::Run { offset: file.start },
            (false, false) => Self::Divided,
        })
    }
}

/// Returns the first byte and the word of a fragment block.
pub(super) fn fragment<S: ReadBytes + ?Sized>(
    number: u32,
    metadata: &mut Metadata<'_, S>,
    superblock: &Superblock,
) -> Result<(u64, u32), Error> {
    if number >= superblock.n_fragments {
        return Err(damaged(format!(
            "fragment {number} is named, there are {}",
            superblock.n_fragments
        )));
    }
    let (block, entry) = (number / FRAGMENTS_A_BLOCK, number % FRAGMENTS_A_BLOCK);
    let at = superblock.fragments.saturating_add(u64::from(block).saturating_mul(8));
    let offset = usize::try_from(u64::from(entry).saturating_mul(FRAGMENT_BYTES));
    let mut place = Place { block: metadata.pointer(at)?, offset: offset.unwrap_or(usize::MAX) };
    let bytes: [u8; 16] = metadata.read_array(&mut place)?;
    Ok((u64_at(&bytes, 0), u32_at(&bytes, 8)))
}
