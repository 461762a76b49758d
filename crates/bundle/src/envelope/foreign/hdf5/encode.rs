//! Encodes the structures that a shard needs, each in its oldest version: every reader knows those,
//! and none of them contains a time.

use crate::Dtype;
use crate::envelope::foreign::hdf5::{SIGNATURE, UNDEFINED, kind};

/// Addresses of objects, and the structures between them, are multiples of this.
const ALIGN: usize = 8;
/// Half the number of children of a group's B-tree node, as the library has it by default.
const TREE_K: u16 = 16;

/// An array in the file.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) name: String,
    /// An encoded datatype.
    pub(super) datatype: Vec<u8>,
    pub(super) dims: Vec<u64>,
    /// Position in the file of the array's first byte.
    pub(super) start: u64,
    pub(super) len: u64,
    /// Encoded attributes.
    pub(super) attributes: Vec<Vec<u8>>,
}

/// Encodes the superblock, and all objects to be written from `start` on, a multiple of eight;
/// `None` if something overflows its number.
pub(super) fn objects(
    start: u64,
    mut arrays: Vec<Array>,
    attributes: Vec<Vec<u8>>,
) -> Option<(Vec<u8>, Vec<u8>)> {
    arrays.sort_by(|a, b| a.name.cmp(&b.name));
    let mut tail = Vec::new();
    let at = |tail: &Vec<u8>| start.checked_add(tail.len() as u64);
    // For each array, these are the offsets of its name and of its object header.
    let mut names = vec![0; ALIGN];
    let mut entries = Vec::new();
    for array in arrays {
        entries.push((names.len() as u64, at(&tail)?));
        names.extend_from_slice(array.name.as_bytes());
        names.push(0);
        pad(&mut names);
        tail.extend(object_header(&array_messages(&array))?);
    }
    // One symbol table node has room for all names, so the tree has one leaf.
    let leaf_k = u16::try_from(entries.len().div_ceil(2)).ok()?.max(4);
    let node_at = at(&tail)?;
    tail.extend(symbol_node(leaf_k, &entries)?);
    let tree_at = at(&tail)?;
    tail.extend(tree(node_at, entries.last()?.0));
    let heap_at = at(&tail)?;
    tail.extend(heap(heap_at, &names)?);
    let root_at = at(&tail)?;
    let mut messages = vec![(kind::SYMBOL_TABLE, 0, [le64(tree_at), le64(heap_at)].concat())];
    messages.extend(attributes.into_iter().map(|a| (kind::ATTRIBUTE, 0, a)));
    tail.extend(object_header(&messages)?);
    Some((superblock(leaf_k, root_at, tree_at, heap_at, at(&tail)?), tail))
}

/// Encodes superblock version 0 (II.A).
fn superblock(leaf_k: u16, root: u64, tree: u64, heap: u64, end: u64) -> Vec<u8> {
    let mut out = SIGNATURE.to_vec();
    // First the versions, then the sizes of addresses and lengths, which are 8 bytes each.
    out.extend([0, 0, 0, 0, 0, 8, 8, 0]);
    out.extend(leaf_k.to_le_bytes());
    out.extend(TREE_K.to_le_bytes());
    out.extend([0; 4]);
    for address in [0, UNDEFINED, end, UNDEFINED] {
        out.extend(address.to_le_bytes());
    }
    // The root group's symbol table entry repeats its tree and heap.
    out.extend([0; 8]);
    out.extend(root.to_le_bytes());
    out.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    out.extend(tree.to_le_bytes());
    out.extend(heap.to_le_bytes());
    out
}

/// Encodes an object header of version 1 (IV.A.1.a) with `messages`: kind, flags, data.
fn object_header(messages: &[(u16, u8, Vec<u8>)]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    for (kind, flags, data) in messages {
        let mut data = data.clone();
        pad(&mut data);
        body.extend(kind.to_le_bytes());
        body.extend(u16::try_from(data.len()).ok()?.to_le_bytes());
        body.extend([*flags, 0, 0, 0]);
        body.extend(data);
    }
    let mut out = vec![1, 0];
    out.extend(u16::try_from(messages.len()).ok()?.to_le_bytes());
    out.extend(1_u32.to_le_bytes());
    out.extend(u32::try_from(body.len()).ok()?.to_le_bytes());
    out.extend([0; 4]);
    out.extend(body);
    Some(out)
}

fn array_messages(array: &Array) -> Vec<(u16, u8, Vec<u8>)> {
    // Messages whose content never changes are marked constant.
    const CONSTANT: u8 = 1;
    // The fill value is allocated late, written when it is set, and is the default value.
    let fill = vec![2, 2, 2, 1, 0, 0, 0, 0];
    let layout = [vec![3, 1], le64(array.start), le64(array.len)].concat();
    let mut messages = vec![
        (kind::DATASPACE, 0, dataspace(&array.dims)),
        (kind::DATATYPE, CONSTANT, array.datatype.clone()),
        (kind::FILL_VALUE, CONSTANT, fill),
        (kind::LAYOUT, 0, layout),
    ];
    messages.extend(array.attributes.iter().map(|a| (kind::ATTRIBUTE, 0, a.clone())));
    messages
}

fn dataspace(dims: &[u64]) -> Vec<u8> {
    let rank = u8::try_from(dims.len()).unwrap_or(u8::MAX);
    let mut out = vec![1, rank, 0, 0, 0, 0, 0, 0];
    out.extend(dims.iter().flat_map(|d| d.to_le_bytes()));
    out
}

/// Encodes the datatype of a field's elements (IV.A.2.d); bf16 is encoded as u16.
pub(super) fn datatype(dtype: Dtype) -> Vec<u8> {
    let size = u8::try_from(dtype.size_bytes()).unwrap_or(u8::MAX);
    match dtype {
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::Bf16 => integer(size, false),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => integer(size, true),
        Dtype::F16 => float(size, 5),
        Dtype::F32 => float(size, 8),
        Dtype::F64 => float(size, 11),
    }
}

fn integer(size: u8, signed: bool) -> Vec<u8> {
    vec![0x10, if signed { 8 } else { 0 }, 0, 0, size, 0, 0, 0, 0, 0, size.saturating_mul(8), 0]
}

fn float(size: u8, exponent: u8) -> Vec<u8> {
    let bits = size.saturating_mul(8);
    let sign = bits.saturating_sub(1);
    let mantissa = sign.saturating_sub(exponent);
    let bias = (1_u32 << exponent.saturating_sub(1)).saturating_sub(1);
    // The flag 0x20 means that the mantissa's first bit is implied.
    let mut out = vec![0x11, 0x20, sign, 0, size, 0, 0, 0];
    out.extend([0, 0, bits, 0, mantissa, exponent, 0, mantissa]);
    out.extend(bias.to_le_bytes());
    out
}

/// Encodes an attribute (IV.A.2.m, version 1) of UTF-8 texts, one or a list; `None` if it is too
/// long for an object header or a text contains a zero.
pub(super) fn texts(name: &str, texts: &[&str], is_list: bool) -> Option<Vec<u8>> {
    /// A message has at most 65,535 bytes.
    const MOST_BYTES: usize = 60_000;
    let width = texts.iter().map(|t| t.len()).max()?.max(1);
    let total = width.checked_mul(texts.len()).filter(|n| *n <= MOST_BYTES)?;
    let mut data = Vec::with_capacity(total);
    for text in texts {
        data.extend_from_slice(text.as_bytes());
        data.resize(data.len().checked_add(width.checked_sub(text.len())?)?, 0);
    }
    // The flags 0x11 mean UTF-8 that is padded with zeros.
    let mut datatype = vec![0x13, 0x11, 0, 0];
    datatype.extend(u32::try_from(width).ok()?.to_le_bytes());
    let space = dataspace(&vec![texts.len() as u64; usize::from(is_list)]);
    let mut name = name.as_bytes().to_vec();
    name.push(0);
    let mut out = vec![1, 0];
    for part in [&name, &datatype, &space] {
        out.extend(u16::try_from(part.len()).ok()?.to_le_bytes());
    }
    for mut part in [name, datatype, space] {
        pad(&mut part);
        out.extend(part);
    }
    out.extend(data);
    Some(out).filter(|_| texts.iter().all(|t| !t.contains('\0')))
}

/// Encodes a symbol table node (III.B) with room for 2 · `leaf_k` entries.
fn symbol_node(leaf_k: u16, entries: &[(u64, u64)]) -> Option<Vec<u8>> {
    const ENTRY: usize = 40;
    let mut out = b"SNOD\x01\0".to_vec();
    out.extend(u16::try_from(entries.len()).ok()?.to_le_bytes());
    for (name, object) in entries {
        out.extend(name.to_le_bytes());
        out.extend(object.to_le_bytes());
        out.extend([0; 24]);
    }
    let room = usize::from(leaf_k).checked_mul(2)?.checked_sub(entries.len())?;
    out.resize(out.len().checked_add(room.checked_mul(ENTRY)?)?, 0);
    Some(out)
}

/// Encodes a group's B-tree of version 1 (III.A.1) with one leaf.
fn tree(node: u64, last_name: u64) -> Vec<u8> {
    let mut out = b"TREE\0\0\x01\0".to_vec();
    for word in [UNDEFINED, UNDEFINED, 0, node, last_name] {
        out.extend(word.to_le_bytes());
    }
    // A node always has its full size: 2K children and 2K + 1 keys, in use or not.
    let words = usize::from(TREE_K).saturating_mul(4).saturating_add(1);
    out.resize(24_usize.saturating_add(words.saturating_mul(8)), 0);
    out
}

/// Encodes a local heap (III.D) at `at` that contains `names` and has no free space.
fn heap(at: u64, names: &[u8]) -> Option<Vec<u8>> {
    const HEADER: u64 = 32;
    const NO_FREE_BLOCK: u64 = 1;
    let mut out = b"HEAP\0\0\0\0".to_vec();
    for word in [names.len() as u64, NO_FREE_BLOCK, at.checked_add(HEADER)?] {
        out.extend(word.to_le_bytes());
    }
    out.extend(names);
    Some(out)
}

fn le64(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
}
