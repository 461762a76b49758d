//! Reads inodes, in their plain and extended forms.

use super::Error;
use super::error::damaged;
use super::metadata::{Metadata, Place};
use super::read_bytes::{ReadBytes, u16_at, u32_at, u64_at};
use crate::format::{EXTENDED, kind};

/// Permission bits and type of an inode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inode {
    pub(super) mode: u16,
    pub(super) what: What,
}

/// The type of an inode, with the places of its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Folder(Folder),
    File(File),
    Symlink(Symlink),
    /// Devices, pipes and sockets.
    Other,
}

/// Where a folder's listing is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Folder {
    /// Offset of the metadata block, from the start of all listings on.
    pub(super) block: u32,
    pub(super) offset: u16,
    /// Length of the listing, and 3 more for `.` and `..`, which are not in it.
    pub(super) size: u32,
}

/// Where a link's target is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Symlink {
    pub(super) bytes: u32,
    pub(super) place: Place,
}

/// Where a file's bytes are.
#[derive(Debug, Clone, Copy)]
pub(super) struct File {
    /// Offset of the first block.
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) fragment: u32,
    pub(super) fragment_offset: u32,
    /// Where the words of the blocks are, behind the rest of the inode.
    pub(super) words: Place,
}

impl Inode {
    /// Reads the inode at `place`; `plain` is its type in the listing.
    pub(super) fn read<S: ReadBytes + ?Sized>(
        metadata: &mut Metadata<'_, S>,
        mut place: Place,
        plain: u16,
    ) -> Result<Self, Error> {
        let place = &mut place;
        let common: [u8; 16] = metadata.read_array(place)?;
        let found = u16_at(&common, 0);
        let is_extended = found > EXTENDED;
        if (if is_extended { found.wrapping_sub(EXTENDED) } else { found }) != plain {
            return Err(damaged(format!("an inode of type {found} is listed as type {plain}")));
        }
        let mode = u16_at(&common, 2) & 0o7777;
        let what = match (plain, is_extended) {
            (kind::DIRECTORY, false) => {
                let b: [u8; 16] = metadata.read_array(place)?;
                let (block, size, offset) = (u32_at(&b, 0), u16_at(&b, 8), u16_at(&b, 10));
                What::Folder(Folder { block, offset, size: u32::from(size) })
            }
            (kind::DIRECTORY, true) => {
                let b: [u8; 24] = metadata.read_array(place)?;
                let (size, block, offset) = (u32_at(&b, 4), u32_at(&b, 8), u16_at(&b, 18));
                What::Folder(Folder { block, offset, size })
            }
            (kind::FILE, false) => {
                let b: [u8; 16] = metadata.read_array(place)?;
                What::File(File {
                    start: u64::from(u32_at(&b, 0)),
                    size: u64::from(u32_at(&b, 12)),
                    fragment: u32_at(&b, 4),
                    fragment_offset: u32_at(&b, 8),
                    words: *place,
                })
            }
            (kind::FILE, true) => {
                let b: [u8; 40] = metadata.read_array(place)?;
                What::File(File {
                    start: u64_at(&b, 0),
                    size: u64_at(&b, 8),
                    fragment: u32_at(&b, 28),
                    fragment_offset: u32_at(&b, 32),
                    words: *place,
                })
            }
            (kind::SYMLINK, _) => {
                let b: [u8; 8] = metadata.read_array(place)?;
                What::Symlink(Symlink { bytes: u32_at(&b, 4), place: *place })
            }
            (kind::BLOCK_DEVICE | kind::CHAR_DEVICE | kind::FIFO | kind::SOCKET, _) => What::Other,
            _ => return Err(damaged(format!("an inode is of type {found}"))),
        };
        Ok(Self { mode, what })
    }
}
