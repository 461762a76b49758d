//! Encodes directory listings.

use super::Error;
use super::metadata::{Metadata, Place};
use crate::format::METADATA_BLOCK;

/// Most entries below one header: the kernel refuses more.
const MOST_ENTRIES: usize = 256;
/// Most entries of an index, whose length has 16 bits. The kernel scans the rest from the last
/// entry on.
const MOST_INDEX: usize = u16::MAX as usize;
const HEADER_BYTES: usize = 12;
const ENTRY_BYTES: usize = 8;

/// A name in a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Child<'a> {
    pub(super) name: &'a [u8],
    /// Place of the inode.
    pub(super) inode: Place,
    /// Number of the inode.
    pub(super) number: u32,
    /// Plain type of the inode.
    pub(super) kind: u16,
}

/// A listing that is written.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) place: Place,
    /// Bytes before compression.
    pub(super) bytes: u64,
    pub(super) index: Vec<IndexEntry>,
}

/// The place in a long listing from which names from `name` on are found.
#[derive(Debug)]
pub(super) struct IndexEntry {
    /// Offset of a header, from the listing's start on.
    pub(super) at: u32,
    /// The metadata block that contains the header.
    pub(super) block: u32,
    pub(super) name: Vec<u8>,
}

/// Appends the listing of `children`, sorted by name.
pub(super) fn write_listing<'a>(
    listings: &mut Metadata,
    children: impl Iterator<Item = Result<Child<'a>, Error>>,
) -> Result<Listing, Error> {
    let mut listing = Listing { place: listings.place()?, bytes: 0, index: Vec::new() };
    let mut group: Vec<Child<'a>> = Vec::new();
    let mut group_bytes = HEADER_BYTES;
    let mut indexed_to = 0;
    for child in children {
        let child = child?;
        let bytes = ENTRY_BYTES + child.name.len();
        // There is a header at least every 8 KiB, which the index can refer to.
        let since_index = listing.bytes - indexed_to + (group_bytes + bytes) as u64;
        let index_due = since_index > METADATA_BLOCK as u64;
        if group.first().is_some_and(|first| index_due || !first.shares_header(&child))
            || group.len() == MOST_ENTRIES
        {
            listing.write_group(listings, &group)?;
            group.clear();
            group_bytes = HEADER_BYTES;
            if index_due {
                indexed_to = listing.bytes;
                listing.add_to_index(listings.place()?, child.name)?;
            }
        }
        group.push(child);
        group_bytes += bytes;
    }
    listing.write_group(listings, &group)?;
    Ok(listing)
}

impl Child<'_> {
    /// Returns whether `other`'s entry can be below the header that starts with this one: both
    /// inodes must be in one block, and the difference of their numbers must fit into signed 16
    /// bits.
    fn shares_header(&self, other: &Self) -> bool {
        let distance = i64::from(other.number) - i64::from(self.number);
        self.inode.block == other.inode.block && i16::try_from(distance).is_ok()
    }
}

impl Listing {
    fn write_group(&mut self, listings: &mut Metadata, group: &[Child<'_>]) -> Result<(), Error> {
        let Some(first) = group.first() else { return Ok(()) };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + group.len() * (ENTRY_BYTES + 32));
        let block = block_32(first.inode)?;
        bytes.extend_from_slice(&(group.len() as u32 - 1).to_le_bytes());
        bytes.extend_from_slice(&block.to_le_bytes());
        bytes.extend_from_slice(&first.number.to_le_bytes());
        for child in group {
            let distance = child.number.wrapping_sub(first.number) as u16;
            bytes.extend_from_slice(&child.inode.offset.to_le_bytes());
            bytes.extend_from_slice(&distance.to_le_bytes());
            bytes.extend_from_slice(&child.kind.to_le_bytes());
            bytes.extend_from_slice(&(child.name.len() as u16 - 1).to_le_bytes());
            bytes.extend_from_slice(child.name);
        }
        self.bytes += bytes.len() as u64;
        listings.write(&bytes)
    }

    fn add_to_index(&mut self, place: Place, name: &[u8]) -> Result<(), Error> {
        if self.index.len() < MOST_INDEX {
            let at = u32::try_from(self.bytes)
                .map_err(|_| Error::TooMany { what: "names in a directory", limit: 1 << 24 })?;
            self.index.push(IndexEntry { at, block: block_32(place)?, name: name.to_vec() });
        }
        Ok(())
    }
}

/// Returns a metadata block's start, for a field of 32 bits.
pub(super) fn block_32(place: Place) -> Result<u32, Error> {
    u32::try_from(place.block)
        .map_err(|_| Error::TooMany { what: "bytes of metadata", limit: u64::from(u32::MAX) })
}
