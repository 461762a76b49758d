//! B-trees of version 2 (III.A.2).

use crate::Error;
use crate::envelope::foreign::hdf5::UNDEFINED;
use crate::envelope::foreign::hdf5::cursor::Cursor;
use crate::envelope::foreign::hdf5::file::Hdf5;

/// Deeper trees would have more records than any file.
const MOST_LEVELS: u16 = 16;
/// Signature, version, type and checksum of a node.
const NODE_OVERHEAD: u64 = 10;

struct Header {
    node_size: u64,
    record: u64,
    depth: u16,
    root: u64,
    root_records: u64,
}

/// The layout of the nodes of one level.
struct Level {
    /// Most records that a node of this level can have.
    most: u64,
    /// Most records that a tree of this level can have.
    most_below: u64,
    /// Bytes of a number up to `most_below`.
    below_size: usize,
}

/// Shows `each` every record of the tree at `address`, which must be of type `kind`.
pub(super) fn walk(
    file: &Hdf5<'_>,
    address: u64,
    kind: u8,
    each: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let bad = || file.bad(format!("the B-tree at address {address} is damaged"));
    let bytes = file.some_bytes(address, 64)?;
    let header = header(file, &bytes, kind).ok_or_else(bad)?;
    let levels = levels(file, &header).ok_or_else(bad)?;
    let leaf_count = count_size(levels.first().map_or(0, |l| l.most));
    let record = usize::try_from(header.record).map_err(|_| bad())?;
    let mut nodes = vec![(header.root, header.root_records, header.depth)];
    while let Some((node, n, depth)) = nodes.pop() {
        let level = levels.get(usize::from(depth)).ok_or_else(bad)?;
        if node == UNDEFINED || n == 0 {
            continue;
        }
        if n > level.most {
            return Err(bad());
        }
        let bytes = file.bytes(node, header.node_size)?;
        let mut at = Cursor::new(&bytes);
        let signature = if depth == 0 { b"BTLF\0" } else { b"BTIN\0" };
        at.expect(signature).and_then(|()| at.expect(&[kind])).ok_or_else(bad)?;
        for _ in 0..n {
            each(at.take(record).ok_or_else(bad)?)?;
        }
        let Some(below) = depth.checked_sub(1) else { continue };
        let below_size = levels.get(usize::from(below)).map_or(0, |l| l.below_size);
        for _ in 0..=n {
            let child = at.address(file.address_size).zip(at.uint(leaf_count));
            let (child, records) = child.ok_or_else(bad)?;
            at.skip(if below > 0 { below_size } else { 0 }).ok_or_else(bad)?;
            nodes.push((child, records, below));
        }
    }
    Ok(())
}

fn header(file: &Hdf5<'_>, bytes: &[u8], kind: u8) -> Option<Header> {
    let mut at = Cursor::new(bytes);
    at.expect(b"BTHD\0")?;
    at.expect(&[kind])?;
    let (node_size, record, depth) = (at.u32()?.into(), at.u16()?.into(), at.u16()?);
    // These two bytes say when nodes are split and merged.
    at.skip(2)?;
    let (root, root_records) = (at.address(file.address_size)?, at.u16()?.into());
    (depth < MOST_LEVELS && record > 0).then_some(())?;
    Some(Header { node_size, record, depth, root, root_records })
}

/// Returns the layouts of all levels, from the leaves up.
fn levels(file: &Hdf5<'_>, header: &Header) -> Option<Vec<Level>> {
    let room = header.node_size.checked_sub(NODE_OVERHEAD)?;
    let most = room.checked_div(header.record)?;
    let mut levels = vec![Level { most, most_below: most, below_size: 0 }];
    let leaf_count = count_size(most) as u64;
    for _ in 0..header.depth {
        let below = levels.last()?;
        let pointer = (file.address_size as u64)
            .checked_add(leaf_count)?
            .checked_add(below.below_size as u64)?;
        let most = room.checked_sub(pointer)?.checked_div(header.record.checked_add(pointer)?)?;
        let most_below =
            most.saturating_add(1).saturating_mul(below.most_below).saturating_add(most);
        levels.push(Level { most, most_below, below_size: count_size(most_below) });
    }
    Some(levels)
}

/// Returns the bytes of a number up to `most`.
pub(super) fn count_size(most: u64) -> usize {
    let bits = most.max(1).ilog2() as usize;
    bits.checked_div(8).unwrap_or(0).saturating_add(1)
}
