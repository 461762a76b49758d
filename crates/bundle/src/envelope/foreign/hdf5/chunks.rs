//! Where the chunks of an array are in the file.

use crate::Error;
use crate::envelope::foreign::hdf5::cursor::Cursor;
use crate::envelope::foreign::hdf5::file::Hdf5;
use crate::envelope::foreign::hdf5::indexed_chunks::{extensible_array, fixed_array};
use crate::envelope::foreign::hdf5::layout::ChunkIndex;
use crate::envelope::foreign::hdf5::{UNDEFINED, btree2};

/// Chunks that follow each other along the first dimension.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunks {
    /// The number of chunks.
    pub(super) n: usize,
    /// Rows of each chunk.
    pub(super) rows: u64,
    /// Bytes of each chunk.
    pub(super) len: u64,
    /// Dimensions of the array.
    pub(super) rank: usize,
}

/// Returns the address of each chunk, which is [`UNDEFINED`] if the chunk was never written.
pub(super) fn addresses(
    file: &Hdf5<'_>,
    index: ChunkIndex,
    chunks: Chunks,
) -> Result<Vec<u64>, Error> {
    let mut found = vec![UNDEFINED; chunks.n];
    match index {
        ChunkIndex::Tree1(UNDEFINED)
        | ChunkIndex::Tree2(UNDEFINED)
        | ChunkIndex::FixedArray(UNDEFINED)
        | ChunkIndex::ExtensibleArray(UNDEFINED)
        | ChunkIndex::Implicit(UNDEFINED) => {}
        ChunkIndex::Tree1(address) => tree1(file, address, chunks, &mut found)?,
        ChunkIndex::Tree2(address) => tree2(file, address, chunks, &mut found)?,
        ChunkIndex::FixedArray(address) => fixed_array(file, address, &mut found)?,
        ChunkIndex::ExtensibleArray(address) => extensible_array(file, address, &mut found)?,
        ChunkIndex::Single(address) => found.iter_mut().take(1).for_each(|c| *c = address),
        ChunkIndex::Implicit(address) => {
            let steps = (0_u64..).map(|i| i.saturating_mul(chunks.len).saturating_add(address));
            found = steps.take(chunks.n).collect();
        }
    }
    Ok(found)
}

/// Reads a B-tree of version 1 (III.A.1) of chunks.
fn tree1(file: &Hdf5<'_>, root: u64, chunks: Chunks, found: &mut [u64]) -> Result<(), Error> {
    const CHUNKS: u8 = 1;
    let bad = |at: u64| file.bad(format!("the chunks' tree node at address {at} is damaged"));
    let mut nodes: Vec<(u64, Option<u8>)> = vec![(root, None)];
    while let Some((address, expected)) = nodes.pop() {
        let bad = || bad(address);
        let head = file.bytes(address, 8)?;
        let mut at = Cursor::new(&head);
        at.expect(b"TREE").and_then(|()| at.expect(&[CHUNKS])).ok_or_else(bad)?;
        let (level, n) = at.u8().zip(at.u16()).ok_or_else(bad)?;
        if expected.is_some_and(|expected| expected != level) {
            return Err(bad());
        }
        // A record has a size and filters, then the first element of the chunk, with one more
        // dimension for the bytes of an element.
        let dims = chunks.rank.saturating_add(1);
        let key = dims.saturating_mul(8).saturating_add(8);
        let pair = key.saturating_add(file.address_size);
        let siblings = file.address_size.saturating_mul(2);
        let len = usize::from(n).saturating_mul(pair).saturating_add(siblings);
        let body = file.bytes(address.saturating_add(8), len as u64)?;
        let mut at = Cursor::new(&body);
        at.skip(siblings).ok_or_else(bad)?;
        for _ in 0..n {
            at.skip(8).ok_or_else(bad)?;
            let first: Option<Vec<u64>> = (0..dims).map(|_| at.uint(8)).collect();
            let (first, child) = first.zip(at.address(file.address_size)).ok_or_else(bad)?;
            match level.checked_sub(1) {
                Some(below) => nodes.push((child, Some(below))),
                None => {
                    let (row, others) = first.split_first().ok_or_else(bad)?;
                    let chunk = row.checked_div(chunks.rows);
                    if others.iter().all(|o| *o == 0) {
                        set(found, chunk, child);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Reads a B-tree of version 2 of unfiltered chunks.
fn tree2(file: &Hdf5<'_>, root: u64, chunks: Chunks, found: &mut [u64]) -> Result<(), Error> {
    const UNFILTERED_CHUNKS: u8 = 10;
    btree2::walk(file, root, UNFILTERED_CHUNKS, &mut |record| {
        let mut at = Cursor::new(record);
        let mut parsed = || -> Option<(u64, Vec<u64>)> {
            let address = at.address(file.address_size)?;
            Some((address, (0..chunks.rank).map(|_| at.uint(8)).collect::<Option<_>>()?))
        };
        let (address, scaled) =
            parsed().ok_or_else(|| file.bad("a chunk's record is cut short"))?;
        if scaled.iter().skip(1).all(|s| *s == 0) {
            set(found, scaled.first().copied(), address);
        }
        Ok(())
    })
}

/// Notes the address of a chunk. Chunks past the last row are ignored: they remain from when the
/// array was larger.
fn set(found: &mut [u64], chunk: Option<u64>, address: u64) {
    let slot = chunk.and_then(|c| usize::try_from(c).ok()).and_then(|c| found.get_mut(c));
    if let Some(slot) = slot {
        *slot = address;
    }
}
