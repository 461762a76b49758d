//! Fractal heaps (III.G): large groups in newer files store their links in them.

use crate::Error;
use crate::envelope::foreign::hdf5::btree2::count_size;
use crate::envelope::foreign::hdf5::cursor::Cursor;
use crate::envelope::foreign::hdf5::file::Hdf5;

/// Indirect blocks are nested at most this deep.
const MOST_LEVELS: usize = 16;

/// An open heap.
#[derive(Debug)]
pub(super) struct FractalHeap {
    /// Blocks in each row of the doubling table.
    width: u64,
    /// Bytes of a block of the first two rows; each further row has blocks of twice the size.
    first_block: u64,
    /// Bytes of the largest block that contains objects itself.
    most_direct: u64,
    offset_size: usize,
    len_size: usize,
    root: u64,
    /// Rows of the root if it is a table of blocks; 0 if it is a block itself.
    root_rows: u64,
}

impl FractalHeap {
    pub(super) fn open(file: &Hdf5<'_>, address: u64) -> Result<Self, Error> {
        let bytes = file.some_bytes(address, 192)?;
        let bad = || file.bad(format!("the fractal heap at address {address} is damaged"));
        match Self::parse(file, &bytes).ok_or_else(bad)? {
            Some(heap) => Ok(heap),
            None => Err(file.refused("its groups keep their links in filtered heaps")),
        }
    }

    /// Parses the header; the inner `None` means that the heap's blocks are filtered.
    fn parse(file: &Hdf5<'_>, bytes: &[u8]) -> Option<Option<Self>> {
        let (address, length) = (file.address_size, file.length_size);
        let mut at = Cursor::new(bytes);
        at.expect(b"FRHP\0")?;
        at.skip(2)?;
        let filters = at.u16()?;
        at.skip(1)?;
        let most_object = u64::from(at.u32()?);
        // These are huge objects, free space, and counts.
        at.skip(length.checked_mul(2)?.checked_add(address.checked_mul(2)?)?)?;
        at.skip(length.checked_mul(8)?)?;
        let width = u64::from(at.u16()?);
        let (first_block, most_direct) = (at.uint(length)?, at.uint(length)?);
        let bits = at.u16()?;
        at.skip(2)?;
        let (root, root_rows) = (at.address(address)?, u64::from(at.u16()?));
        let powers = [width, first_block, most_direct].iter().all(|n| n.is_power_of_two());
        (powers && first_block <= most_direct && (1..=64).contains(&bits)).then_some(())?;
        let offset_size = usize::from(bits.div_ceil(8));
        let direct_size = (most_direct.ilog2() as usize).div_ceil(8);
        let len_size = direct_size.min(count_size(most_object));
        let heap = Self { width, first_block, most_direct, offset_size, len_size, root, root_rows };
        Some(Some(heap).filter(|_| filters == 0))
    }

    /// Reads the object that `id` names.
    pub(super) fn object(&self, file: &Hdf5<'_>, id: &[u8]) -> Result<Vec<u8>, Error> {
        let bad = || file.bad("an object of a fractal heap is out of place");
        let mut at = Cursor::new(id);
        let kind = at.u8().map(|flags| (flags >> 4) & 3).ok_or_else(bad)?;
        if kind != 0 {
            // Objects outside the heap's blocks are longer than any name that is supported.
            return Err(file.refused("a group has names of over 500 bytes"));
        }
        let (offset, len) =
            at.uint(self.offset_size).zip(at.uint(self.len_size)).ok_or_else(bad)?;
        let address = self.find(file, offset)?.ok_or_else(bad)?;
        file.bytes(address, len)
    }

    /// Returns the address of the heap's byte `offset`.
    fn find(&self, file: &Hdf5<'_>, offset: u64) -> Result<Option<u64>, Error> {
        if self.root_rows == 0 {
            return Ok(self.root.checked_add(offset).filter(|_| offset < self.first_block));
        }
        let (mut block, mut rows, mut offset) = (self.root, self.root_rows, offset);
        for _ in 0..MOST_LEVELS {
            let Some(step) = self.step(block, rows, offset, file) else { return Ok(None) };
            let bytes = file.bytes(step.pointer, file.address_size as u64)?;
            let Some(child) = Cursor::new(&bytes).address(file.address_size) else {
                return Ok(None);
            };
            match step.rows {
                None => return Ok(child.checked_add(step.offset)),
                Some(below) => (block, rows, offset) = (child, below, step.offset),
            }
        }
        Ok(None)
    }

    /// Returns the step to the child of the table at `block` that has the byte `offset`.
    fn step(&self, block: u64, rows: u64, offset: u64, file: &Hdf5<'_>) -> Option<Step> {
        let first_row = self.width.checked_mul(self.first_block)?;
        // Rows 0 and 1 have blocks of one size; row r begins at 2^(r-1) times the size of a row.
        let row =
            offset.checked_div(first_row)?.checked_ilog2().map_or(0, |log| log.saturating_add(1));
        let doubled = row.saturating_sub(1);
        let size = self.first_block.checked_shl(doubled)?;
        let start = if row == 0 { 0 } else { first_row.checked_shl(doubled)? };
        let within = offset.checked_sub(start)?;
        let column = within.checked_div(size)?;
        (u64::from(row) < rows && column < self.width && size > 0).then_some(())?;
        let entry = u64::from(row).checked_mul(self.width)?.checked_add(column)?;
        let header =
            5_u64.checked_add(file.address_size as u64)?.checked_add(self.offset_size as u64)?;
        let pointer =
            entry.checked_mul(file.address_size as u64)?.checked_add(header)?.checked_add(block)?;
        let below = (size > self.most_direct).then(|| {
            let rows = size.ilog2().saturating_sub(first_row.ilog2()).saturating_add(1);
            u64::from(rows)
        });
        Some(Step { pointer, rows: below, offset: within.checked_rem(size)? })
    }
}

/// The step from a table to one of its children.
struct Step {
    /// The file offset of the child's address.
    pointer: u64,
    /// The number of rows, if the child is a table.
    rows: Option<u64>,
    /// Offset of the byte within the child.
    offset: u64,
}
