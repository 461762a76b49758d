//! Groups: reads their links to objects, in any of the three ways in which they are stored.

use crate::Error;
use crate::envelope::foreign::hdf5::cursor::Cursor;
use crate::envelope::foreign::hdf5::file::Hdf5;
use crate::envelope::foreign::hdf5::fractal_heap::FractalHeap;
use crate::envelope::foreign::hdf5::object::Message;
use crate::envelope::foreign::hdf5::{UNDEFINED, btree2, kind};

/// Trees of groups have fewer levels than this.
const MOST_LEVELS: u8 = 32;

/// A name and the address of an object header.
pub(super) type Link = (String, u64);

/// Returns the hard links of the group with these messages, by name. Other links are left out: they
/// point to an object that has another path, or to another file.
pub(super) fn links(file: &Hdf5<'_>, messages: &[Message]) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    for message in messages {
        let bad = || file.bad("a message of a group is damaged");
        match message.kind {
            kind::SYMBOL_TABLE => {
                let mut at = Cursor::new(&message.data);
                let both = at.address(file.address_size).zip(at.address(file.address_size));
                let (tree, heap) = both.ok_or_else(bad)?;
                symbol_table(file, tree, heap, &mut links)?;
            }
            kind::LINK => links.extend(link(file, &message.data).ok_or_else(bad)?),
            kind::LINK_INFO => {
                let (heap, tree) = link_info(file, &message.data).ok_or_else(bad)?;
                if heap != UNDEFINED && tree != UNDEFINED {
                    dense(file, heap, tree, &mut links)?;
                }
            }
            _ => {}
        }
    }
    links.sort();
    Ok(links)
}

/// Reads old groups, which have a B-tree of symbol table nodes, and names in a local heap.
fn symbol_table(file: &Hdf5<'_>, tree: u64, heap: u64, links: &mut Vec<Link>) -> Result<(), Error> {
    let names = local_heap(file, heap)?;
    let mut nodes = vec![(tree, None)];
    while let Some((address, level)) = nodes.pop() {
        let (found, children) = tree_node(file, address)?;
        if level.is_some_and(|level| level != found) || found > MOST_LEVELS {
            return Err(file.bad(format!("the group's tree node at address {address} is damaged")));
        }
        // Nodes are popped from the end, so they are pushed in reverse to be read in the order of
        // names.
        for child in children.into_iter().rev() {
            match found.checked_sub(1) {
                Some(below) => nodes.push((child, Some(below))),
                None => symbol_node(file, child, &names, links)?,
            }
        }
    }
    Ok(())
}

/// Reads the names of a local heap (III.D).
fn local_heap(file: &Hdf5<'_>, address: u64) -> Result<Vec<u8>, Error> {
    let bad = || file.bad(format!("the local heap at address {address} is damaged"));
    let bytes = file.some_bytes(address, 32)?;
    let mut at = Cursor::new(&bytes);
    let parsed = || -> Option<(u64, u64)> {
        at.expect(b"HEAP\0")?;
        at.skip(3)?;
        let size = at.uint(file.length_size)?;
        at.skip(file.length_size)?;
        Some((size, at.address(file.address_size)?))
    };
    let (size, data) = { parsed }().ok_or_else(bad)?;
    file.bytes(data, size)
}

/// Returns the level and the children of a node of a group's B-tree (III.A.1).
fn tree_node(file: &Hdf5<'_>, address: u64) -> Result<(u8, Vec<u64>), Error> {
    let bad = || file.bad(format!("the group's tree node at address {address} is damaged"));
    let head = file.bytes(address, 8)?;
    let mut at = Cursor::new(&head);
    let parsed = || -> Option<(u8, u16)> {
        at.expect(b"TREE\0")?;
        Some((at.u8()?, at.u16()?))
    };
    let (level, n) = { parsed }().ok_or_else(bad)?;
    let siblings = file.address_size.saturating_mul(2);
    let pair = file.address_size.saturating_add(file.length_size);
    let len = usize::from(n).saturating_mul(pair).saturating_add(siblings);
    let body = file.bytes(address.saturating_add(8), len as u64)?;
    let mut at = Cursor::new(&body);
    at.skip(siblings).ok_or_else(bad)?;
    let child = |_| {
        at.skip(file.length_size)?;
        at.address(file.address_size)
    };
    let children: Option<Vec<u64>> = (0..n).map(child).collect();
    Ok((level, children.ok_or_else(bad)?))
}

/// Reads the entries of a symbol table node (III.B).
fn symbol_node(
    file: &Hdf5<'_>,
    address: u64,
    names: &[u8],
    links: &mut Vec<Link>,
) -> Result<(), Error> {
    const SOFT_LINK: u32 = 2;
    let bad = || file.bad(format!("the symbol table node at address {address} is damaged"));
    let head = file.bytes(address, 8)?;
    let mut at = Cursor::new(&head);
    at.expect(b"SNOD\x01").and_then(|()| at.skip(1)).ok_or_else(bad)?;
    let n = at.u16().ok_or_else(bad)?;
    let entry = file.address_size.saturating_mul(2).saturating_add(24);
    let len = usize::from(n).saturating_mul(entry) as u64;
    let body = file.bytes(address.saturating_add(8), len)?;
    let mut at = Cursor::new(&body);
    for _ in 0..n {
        let mut parsed = || -> Option<(u64, u64, u32)> {
            let parsed = (at.uint(file.address_size)?, at.address(file.address_size)?, at.u32()?);
            at.skip(20)?;
            Some(parsed)
        };
        let (name, object, cached) = parsed().ok_or_else(bad)?;
        if cached == SOFT_LINK {
            continue;
        }
        let name = usize::try_from(name).ok().and_then(|start| names.get(start..));
        let name = name.and_then(|n| n.split(|b| *b == 0).next()).ok_or_else(bad)?;
        file.charge(name.len() as u64)?;
        links.push((String::from_utf8_lossy(name).into_owned(), object));
    }
    Ok(())
}

/// Parses a link message (IV.A.2.g); the inner `None` stands for links that are not hard.
fn link(file: &Hdf5<'_>, message: &[u8]) -> Option<Option<Link>> {
    const HARD: u8 = 0;
    let mut at = Cursor::new(message);
    at.expect(&[1])?;
    let flags = at.u8()?;
    let kind = if flags & 8 != 0 { at.u8()? } else { HARD };
    at.skip(if flags & 4 != 0 { 8 } else { 0 })?;
    at.skip(if flags & 16 != 0 { 1 } else { 0 })?;
    let len = at.uint(1 << (flags & 3))?;
    let name = String::from_utf8_lossy(at.take(usize::try_from(len).ok()?)?).into_owned();
    Some(if kind == HARD { Some((name, at.address(file.address_size)?)) } else { None })
}

/// Returns the addresses of the fractal heap of links, and of the B-tree of their names (IV.A.2.c).
fn link_info(file: &Hdf5<'_>, message: &[u8]) -> Option<(u64, u64)> {
    let mut at = Cursor::new(message);
    at.expect(&[0])?;
    let flags = at.u8()?;
    at.skip(if flags & 1 != 0 { 8 } else { 0 })?;
    Some((at.address(file.address_size)?, at.address(file.address_size)?))
}

/// Reads large new groups, which have link messages in a fractal heap, found by a tree of names.
fn dense(file: &Hdf5<'_>, heap: u64, tree: u64, links: &mut Vec<Link>) -> Result<(), Error> {
    const NAMES: u8 = 5;
    let heap = FractalHeap::open(file, heap)?;
    btree2::walk(file, tree, NAMES, &mut |record| {
        // A record is a hash of the name, then the id of the link in the heap.
        let message = heap.object(file, record.get(4..).unwrap_or_default())?;
        let found = link(file, &message).ok_or_else(|| file.bad("a link of a group is damaged"))?;
        links.extend(found);
        Ok(())
    })
}
