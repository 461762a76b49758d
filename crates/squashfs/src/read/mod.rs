//! Walks SquashFS 4.0 images, ours and those of other tools, and gives the offsets of each file's
//! bytes.
//!
//! ```text
//! superblock 96 | data blocks, fragments | inodes | listings | fragment table | …
//!      └─ root ──────────────────────────▶ inode ─▶ listing ─▶ inodes ─▶ blocks
//! ```
//!
//! A [`Walk`] goes through the tree once. It reads the structure, and a file's bytes when they are
//! asked for. It needs a few MiB of memory and 8 bytes per folder, whatever size an image claims.
//! Inodes, listings and tables may be stored or compressed with gzip or zstd, and with xz if the
//! feature `xz` is enabled. A file that cannot be read in place, for example since its blocks are
//! compressed, is a finding and not an error. Owners, times and extended attributes are ignored.
//!
//! The format: Linux' `fs/squashfs/squashfs_fs.h` and Documentation/filesystems/squashfs.rst.

#![warn(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::arithmetic_side_effects
)]

mod content;
mod data;
mod error;
mod inode;
mod metadata;
mod read_bytes;
mod superblock;
mod walk;

pub use self::content::Content;
pub use self::error::Error;
pub use self::read_bytes::ReadBytes;
pub use self::walk::{EntryKind, Walk, WalkEntry};
