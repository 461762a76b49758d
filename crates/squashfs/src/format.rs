//! Constants of the format.

/// Length of the superblock, the first bytes of an image.
pub const SUPERBLOCK_BYTES: usize = 96;

pub(crate) const MAGIC: u32 = 0x7371_7368;
pub(crate) const VERSION_MAJOR: u16 = 4;
pub(crate) const VERSION_MINOR: u16 = 0;

/// Numbers of compressors in the superblock.
pub(crate) const COMPRESSOR_GZIP: u16 = 1;
#[cfg(feature = "xz")]
pub(crate) const COMPRESSOR_XZ: u16 = 4;
pub(crate) const COMPRESSOR_ZSTD: u16 = 6;
/// Names of compressors by number, from 1 on.
pub(crate) const COMPRESSORS: [&str; 6] = ["gzip", "lzma", "lzo", "xz", "lz4", "zstd"];

/// Flags of the superblock.
pub(crate) mod flag {
    pub(crate) const STORED_INODES: u16 = 0x0001;
    pub(crate) const STORED_DATA: u16 = 0x0002;
    pub(crate) const STORED_FRAGMENTS: u16 = 0x0008;
    pub(crate) const NO_FRAGMENTS: u16 = 0x0010;
    pub(crate) const ALWAYS_FRAGMENTS: u16 = 0x0020;
    pub(crate) const DEDUPLICATED: u16 = 0x0040;
    pub(crate) const EXPORTABLE: u16 = 0x0080;
    pub(crate) const STORED_XATTRS: u16 = 0x0100;
    pub(crate) const NO_XATTRS: u16 = 0x0200;
    pub(crate) const STORED_IDS: u16 = 0x0800;
}

/// Bytes in a metadata block before compression.
pub(crate) const METADATA_BLOCK: usize = 8192;
/// Flag in a metadata block's two-byte header: the block is not compressed.
pub(crate) const METADATA_STORED: u16 = 0x8000;
/// Flag in the word of a data block or fragment: the block is not compressed.
pub(crate) const BLOCK_STORED: u32 = 1 << 24;
/// The word of a block of zeros, which takes no space.
pub(crate) const BLOCK_HOLE: u32 = 0;

/// "None" for the number of a fragment or of a set of extended attributes.
pub(crate) const NONE: u32 = u32::MAX;
/// "None" for the place of a table.
pub(crate) const NO_TABLE: u64 = u64::MAX;

/// Types of inodes; an extended type is the plain one plus [`EXTENDED`]. Directory entries always
/// have the plain type.
pub(crate) mod kind {
    pub(crate) const DIRECTORY: u16 = 1;
    pub(crate) const FILE: u16 = 2;
    pub(crate) const SYMLINK: u16 = 3;
    pub(crate) const BLOCK_DEVICE: u16 = 4;
    pub(crate) const CHAR_DEVICE: u16 = 5;
    pub(crate) const FIFO: u16 = 6;
    pub(crate) const SOCKET: u16 = 7;
}
pub(crate) const EXTENDED: u16 = 7;

/// An image's length is a multiple of this: the kernel reads whole device blocks, and a loop device
/// drops the bytes after the last full one.
pub(crate) const IMAGE_PAD: u64 = 4096;
