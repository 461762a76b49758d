//! Numbers of the format.

/// Length of the superblock, the first bytes of an image.
pub const SUPERBLOCK_BYTES: usize = 96;

pub(super) const MAGIC: u32 = 0x7371_7368;
pub(super) const VERSION_MAJOR: u16 = 4;
pub(super) const VERSION_MINOR: u16 = 0;

/// Compressors by their number in the superblock.
pub(super) const COMPRESSOR_GZIP: u16 = 1;
pub(super) const COMPRESSOR_ZSTD: u16 = 6;

/// Flags of the superblock.
pub(super) mod flag {
    pub(in super::super) const STORED_INODES: u16 = 0x0001;
    pub(in super::super) const STORED_DATA: u16 = 0x0002;
    pub(in super::super) const STORED_FRAGMENTS: u16 = 0x0008;
    pub(in super::super) const NO_FRAGMENTS: u16 = 0x0010;
    pub(in super::super) const ALWAYS_FRAGMENTS: u16 = 0x0020;
    pub(in super::super) const DEDUPLICATED: u16 = 0x0040;
    pub(in super::super) const EXPORTABLE: u16 = 0x0080;
    pub(in super::super) const STORED_XATTRS: u16 = 0x0100;
    pub(in super::super) const NO_XATTRS: u16 = 0x0200;
    pub(in super::super) const STORED_IDS: u16 = 0x0800;
}

/// Bytes in a metadata block before compression.
pub(super) const METADATA_BLOCK: usize = 8192;
/// In a metadata block's two-byte header: its bytes are stored as they are.
pub(super) const METADATA_STORED: u16 = 0x8000;
/// In the word of a data block or fragment: its bytes are stored as they are.
pub(super) const BLOCK_STORED: u32 = 1 << 24;
/// The word of a block of zeros that takes no place.
pub(super) const BLOCK_HOLE: u32 = 0;

/// "None" for the number of a fragment or of a set of extended attributes.
pub(super) const NONE: u32 = u32::MAX;
/// "None" for the place of a table.
pub(super) const NO_TABLE: u64 = u64::MAX;

/// Types of inodes; the extended one is [`EXTENDED`] more. Directory entries
/// always hold the plain one.
pub(super) mod kind {
    pub(in super::super) const DIRECTORY: u16 = 1;
    pub(in super::super) const FILE: u16 = 2;
    pub(in super::super) const SYMLINK: u16 = 3;
    pub(in super::super) const BLOCK_DEVICE: u16 = 4;
    pub(in super::super) const CHAR_DEVICE: u16 = 5;
    pub(in super::super) const FIFO: u16 = 6;
    pub(in super::super) const SOCKET: u16 = 7;
}
pub(super) const EXTENDED: u16 = 7;

/// An image's length is a multiple of this: the kernel reads whole device
/// blocks, and a loop device drops what lies behind the last full one.
pub(super) const IMAGE_PAD: u64 = 4096;
