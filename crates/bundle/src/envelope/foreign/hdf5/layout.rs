//! Where the elements of an array are stored: the data layout message (IV.A.2.i).

use crate::envelope::foreign::hdf5::cursor::Cursor;
use crate::envelope::foreign::hdf5::file::Hdf5;

/// How the elements of an array are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Layout {
    /// In one piece of `len` bytes.
    Contiguous { address: u64, len: u64 },
    /// In chunks of this shape, which includes the bytes of an element.
    Chunked { shape: Vec<u64>, index: ChunkIndex },
    /// In a way that cannot be read in place, for this reason.
    Other(String),
}

/// How the addresses of an array's chunks are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkIndex {
    /// In a B-tree of version 1 at this address.
    Tree1(u64),
    /// There is only one chunk.
    Single(u64),
    /// All chunks are stored back to back from this address on.
    Implicit(u64),
    FixedArray(u64),
    ExtensibleArray(u64),
    /// In a B-tree of version 2 at this address.
    Tree2(u64),
}

/// Parses a data layout message; `None` when it is damaged.
pub(super) fn parse(file: &Hdf5<'_>, message: &[u8]) -> Option<Layout> {
    let mut at = Cursor::new(message);
    let version = at.u8()?;
    if !(3..=5).contains(&version) {
        return Some(Layout::Other(format!("its layout has version {version}, 3 to 5 are known")));
    }
    Some(match at.u8()? {
        0 => Layout::Other("it is stored compactly, within its header".to_owned()),
        1 => Layout::Contiguous {
            address: at.address(file.address_size)?,
            len: at.uint(file.length_size)?,
        },
        2 if version == 3 => {
            let rank = usize::from(at.u8()?).checked_sub(1)?;
            let index = ChunkIndex::Tree1(at.address(file.address_size)?);
            Layout::Chunked { shape: dims(&mut at, rank, 4)?, index }
        }
        2 => chunked(file, &mut at)?,
        3 => Layout::Other("it is virtual, made of other files".to_owned()),
        _ => Layout::Other("its layout is of an unknown class".to_owned()),
    })
}

/// Parses the chunked layout that libraries from 1.10 on write.
fn chunked(file: &Hdf5<'_>, at: &mut Cursor<'_>) -> Option<Layout> {
    const SINGLE_IS_FILTERED: u8 = 2;
    let flags = at.u8()?;
    let rank = usize::from(at.u8()?).checked_sub(1)?;
    let size = usize::from(at.u8()?);
    let shape = dims(at, rank, size)?;
    // The element size is skipped, since the datatype has it too.
    at.skip(size)?;
    let kind = at.u8()?;
    // The same values are repeated at the beginning of the structure that they describe.
    match kind {
        1 if flags & SINGLE_IS_FILTERED != 0 => at.skip(file.length_size.checked_add(4)?)?,
        1 | 2 => {}
        3 => at.skip(1)?,
        4 => at.skip(5)?,
        5 => at.skip(6)?,
        kind => {
            return Some(Layout::Other(format!("its chunks have an index of unknown kind {kind}")));
        }
    }
    let address = at.address(file.address_size)?;
    let index = match kind {
        1 => ChunkIndex::Single(address),
        2 => ChunkIndex::Implicit(address),
        3 => ChunkIndex::FixedArray(address),
        4 => ChunkIndex::ExtensibleArray(address),
        _ => ChunkIndex::Tree2(address),
    };
    Some(Layout::Chunked { shape, index })
}

fn dims(at: &mut Cursor<'_>, rank: usize, size: usize) -> Option<Vec<u64>> {
    (0..rank).map(|_| at.uint(size).filter(|d| *d > 0)).collect()
}
