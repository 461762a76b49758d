//! Writes SquashFS 4.0 images.
//!
//! A [`Writer`] takes the files' bytes one after the other, compresses their blocks on several
//! threads and appends them to its sink in the same order; then a [`Tree`] gives the names under
//! which they appear. The same calls with the same [`Options`] give the same bytes, whatever the
//! number of threads.
//!
//! Only the first [`SUPERBLOCK_BYTES`] bytes of an image are not known when they are written: the
//! sink gets zeros, and [`Writer::finish`] returns the bytes that belong there. So the sink need
//! not seek, and can hash everything that it is given.
//!
//! Memory is limited by the settings, except for what is kept for each node (some 120 bytes and its
//! name) and for each compressed block (4 bytes).
//!
//! The format: Linux' `fs/squashfs/squashfs_fs.h` and Documentation/filesystems/squashfs.rst.

mod compress;
mod data;
mod directory;
mod error;
mod inode;
mod metadata;
mod options;
mod pool;
mod sink;
mod tables;
mod tree;
mod writer;
mod xattr;

pub use self::data::{FileData, Lender, Placed};
pub use self::error::Error;
pub use self::options::{Compression, Fragments, Options, Zeros};
pub use self::tree::{Meta, Tree, TreeNode};
pub use self::writer::{FileWriter, Writer};
pub use crate::format::SUPERBLOCK_BYTES;
