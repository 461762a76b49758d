//! Fixed and extensible arrays of chunk addresses (VII.C, VII.D).

use crate::Error;
use crate::envelope::foreign::hdf5::UNDEFINED;
use crate::envelope::foreign::hdf5::cursor::Cursor;
use crate::envelope::foreign::hdf5::file::Hdf5;

const CHECKSUM: u64 = 4;
/// Signature, version and client of every block.
const SIGNATURE: u64 = 6;
const UNFILTERED: u8 = 0;

/// Fills `found` from the fixed array at `address`.
pub(super) fn fixed_array(file: &Hdf5<'_>, address: u64, found: &mut [u64]) -> Result<(), Error> {
    let bad = || file.bad(format!("the fixed array at address {address} is damaged"));
    let bytes = file.some_bytes(address, 64)?;
    let mut at = Cursor::new(&bytes);
    let parsed = || -> Option<(usize, u8, u64, u64)> {
        at.expect(b"FAHD\0")?;
        at.expect(&[UNFILTERED])?;
        let (entry, page_bits) = (at.u8()?.into(), at.u8()?);
        Some((entry, page_bits, at.uint(file.length_size)?, at.address(file.address_size)?))
    };
    let (entry, page_bits, n, block) = { parsed }().ok_or_else(bad)?;
    if entry != file.address_size || n < found.len() as u64 {
        return Err(bad());
    }
    if block == UNDEFINED {
        return Ok(());
    }
    let header = SIGNATURE.saturating_add(file.address_size as u64);
    check(file, block, b"FADB\0")?;
    let start = block.saturating_add(header);
    let pages = Pages::new(n, page_bits).ok_or_else(bad)?;
    if pages.n <= 1 {
        return addresses(file, start, found);
    }
    let bitmap = file.bytes(start, pages.n.div_ceil(8))?;
    let start = start.saturating_add(bitmap.len() as u64).saturating_add(CHECKSUM);
    pages.read(file, start, (&bitmap, 0), found)
}

/// Fills `found` from the extensible array at `address`.
pub(super) fn extensible_array(
    file: &Hdf5<'_>,
    address: u64,
    found: &mut [u64],
) -> Result<(), Error> {
    let bad = || file.bad(format!("the extensible array at address {address} is damaged"));
    let bytes = file.some_bytes(address, 96)?;
    let (array, index) = Extensible::parse(file, &bytes).ok_or_else(bad)?;
    if index == UNDEFINED {
        return Ok(());
    }
    check(file, index, b"EAIB\0")?;
    let size = file.address_size as u64;
    let mut at = index.saturating_add(array.header);
    // Some elements, then some data blocks, are stored in the index block itself.
    let (own, mut rest) = split(found, array.in_index);
    addresses(file, at, own)?;
    at = at.saturating_add(array.in_index.saturating_mul(size));
    // Super block s stands for 2^(s/2) data blocks of first · 2^((s+1)/2) elements.
    let n_direct = array.blocks_in_index.checked_ilog2().map_or(0, |log| log.saturating_mul(2));
    let mut super_blocks = None;
    for s in 0_u32..64 {
        if rest.is_empty() {
            break;
        }
        let n_blocks = 1_u64 << (s / 2);
        let elements = array.first.checked_shl(s.div_ceil(2)).filter(|n| *n > 0).ok_or_else(bad)?;
        let pages = Pages::new(elements, array.page_bits).ok_or_else(bad)?;
        let (pointers, bitmap) = if s < n_direct {
            let here = at;
            at = at.saturating_add(n_blocks.saturating_mul(size));
            (here, Vec::new())
        } else {
            let list = *super_blocks.get_or_insert(at);
            let nth = u64::from(s.saturating_sub(n_direct));
            let pointer = one_address(file, list.saturating_add(nth.saturating_mul(size)))?;
            if pointer == UNDEFINED {
                (_, rest) = split(rest, n_blocks.saturating_mul(elements));
                continue;
            }
            check(file, pointer, b"EASB\0")?;
            // One bit per page of each block, rounded up to whole bytes per block.
            let bits = pointer.saturating_add(array.header).saturating_add(array.offset_size);
            let each = if pages.n > 1 { pages.n.div_ceil(8) } else { 0 };
            let bitmap = file.bytes(bits, n_blocks.saturating_mul(each))?;
            (bits.saturating_add(bitmap.len() as u64), bitmap)
        };
        for b in 0..n_blocks {
            if rest.is_empty() {
                break;
            }
            let part;
            (part, rest) = split(rest, elements);
            let block = one_address(file, pointers.saturating_add(b.saturating_mul(size)))?;
            if block == UNDEFINED {
                continue;
            }
            check(file, block, b"EADB\0")?;
            let start = block.saturating_add(array.header).saturating_add(array.offset_size);
            if pages.n > 1 {
                let first = b.saturating_mul(pages.n);
                pages.read(file, start.saturating_add(CHECKSUM), (&bitmap, first), part)?;
            } else {
                addresses(file, start, part)?;
            }
        }
    }
    Ok(())
}

/// The header of an extensible array.
struct Extensible {
    /// Elements in the index block.
    in_index: u64,
    /// Elements of the smallest data block.
    first: u64,
    /// Data block addresses that the smallest super block has.
    blocks_in_index: u64,
    page_bits: u8,
    /// Bytes of the number of an element.
    offset_size: u64,
    /// Bytes that every block begins with.
    header: u64,
}

impl Extensible {
    fn parse(file: &Hdf5<'_>, bytes: &[u8]) -> Option<(Self, u64)> {
        let mut at = Cursor::new(bytes);
        at.expect(b"EAHD\0")?;
        at.expect(&[UNFILTERED])?;
        (usize::from(at.u8()?) == file.address_size).then_some(())?;
        let bits = at.u8()?;
        let (in_index, first, blocks_in_index) =
            (at.u8()?.into(), at.u8()?.into(), at.u8()?.into());
        let page_bits = at.u8()?;
        // Six counts are skipped.
        at.skip(file.length_size.checked_mul(6)?)?;
        let offset_size = u64::from(bits.div_ceil(8));
        let header = SIGNATURE.checked_add(file.address_size as u64)?;
        let this = Self { in_index, first, blocks_in_index, page_bits, offset_size, header };
        Some((this, at.address(file.address_size)?))
    }
}

/// Pages that a large data block is cut into.
struct Pages {
    n: u64,
    /// Elements of each page but the last.
    elements: u64,
}

impl Pages {
    fn new(elements: u64, page_bits: u8) -> Option<Self> {
        let page = 1_u64.checked_shl(page_bits.into())?;
        Some(Self { n: elements.div_ceil(page), elements: page })
    }

    /// Fills `found` from those pages at `start` that were written. A bitmap says which ones, from
    /// the given bit on.
    fn read(
        &self,
        file: &Hdf5<'_>,
        start: u64,
        (bitmap, first): (&[u8], u64),
        found: &mut [u64],
    ) -> Result<(), Error> {
        let bytes = self.elements.saturating_mul(file.address_size as u64).saturating_add(CHECKSUM);
        let (mut rest, mut page) = (found, 0_u64);
        while !rest.is_empty() {
            let part;
            (part, rest) = split(rest, self.elements);
            let bit = first.saturating_add(page);
            let byte = usize::try_from(bit / 8).ok().and_then(|i| bitmap.get(i)).copied();
            if byte.is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0) {
                addresses(file, start.saturating_add(page.saturating_mul(bytes)), part)?;
            }
            page = page.saturating_add(1);
        }
        Ok(())
    }
}

/// Reads as many addresses from `start` on as `found` has entries.
fn addresses(file: &Hdf5<'_>, start: u64, found: &mut [u64]) -> Result<(), Error> {
    let len = (found.len() as u64).saturating_mul(file.address_size as u64);
    let bytes = file.bytes(start, len)?;
    let mut at = Cursor::new(&bytes);
    for slot in found {
        *slot = at.address(file.address_size).unwrap_or(UNDEFINED);
    }
    Ok(())
}

fn one_address(file: &Hdf5<'_>, at: u64) -> Result<u64, Error> {
    let mut one = [UNDEFINED];
    addresses(file, at, &mut one)?;
    let [address] = one;
    Ok(address)
}

/// Checks that the block at `address` has this signature, and is of unfiltered chunks.
fn check(file: &Hdf5<'_>, address: u64, signature: &[u8; 5]) -> Result<(), Error> {
    let bytes = file.bytes(address, SIGNATURE)?;
    let mut at = Cursor::new(&bytes);
    let fits = at.expect(signature).and_then(|()| at.expect(&[UNFILTERED]));
    fits.ok_or_else(|| file.bad(format!("the chunk index block at address {address} is damaged")))
}

/// Splits `found` into its first `n` entries and the others.
fn split(found: &mut [u64], n: u64) -> (&mut [u64], &mut [u64]) {
    let n = usize::try_from(n).unwrap_or(usize::MAX).min(found.len());
    found.split_at_mut(n)
}
