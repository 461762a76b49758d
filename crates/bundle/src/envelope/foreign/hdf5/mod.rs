//! Envelope `hdf5`: a file that every HDF5 library since 1.8 reads.
//!
//! ```text
//! 0     superblock 0
//! 4096  first field: image.bytes u8 [total]       (or image [n, …] when fixed)
//!       image.offsets i64 [n + 1]
//!       further fields, label i64 [n], key.bytes u8, key.offsets i64 [n + 1],
//!       each from a multiple of 64
//!       object headers · local heap, symbol table node, B-tree of the root group
//! ```
//!
//! Files are written and walked without the HDF5 library, so that a shard is streamed out, equal
//! samples give equal bytes, and a damaged file is an error. Format: `FORMAT.md`, "Envelope
//! `hdf5`"; "HDF5 File Format Specification", version 3.0, whose section numbers the modules name.

mod btree2;
mod chunks;
mod cursor;
mod dataset;
mod datatype;
mod encode;
mod file;
mod fractal_heap;
mod global_heap;
mod group;
mod indexed_chunks;
mod layout;
mod object;
mod rows;
mod survey;
mod write;

pub(crate) use survey::survey;
pub(crate) use write::Writer;

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
/// The address that means "nothing is stored".
const UNDEFINED: u64 = u64::MAX;
/// The attribute of the root group of shards that Gular wrote.
const FORMAT: &str = "gular-shard";
/// The value of attribute `dtype` of a u16 dataset whose bits are bfloat16.
const BFLOAT16: &str = "bfloat16";

/// Kinds of object header messages (IV.A.2).
mod kind {
    pub(super) const DATASPACE: u16 = 0x01;
    pub(super) const LINK_INFO: u16 = 0x02;
    pub(super) const DATATYPE: u16 = 0x03;
    pub(super) const FILL_VALUE: u16 = 0x05;
    pub(super) const LINK: u16 = 0x06;
    pub(super) const EXTERNAL_FILES: u16 = 0x07;
    pub(super) const LAYOUT: u16 = 0x08;
    pub(super) const FILTERS: u16 = 0x0b;
    pub(super) const ATTRIBUTE: u16 = 0x0c;
    pub(super) const CONTINUATION: u16 = 0x10;
    pub(super) const SYMBOL_TABLE: u16 = 0x11;
}
