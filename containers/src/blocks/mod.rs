//! Compressed blocks of images that were written before, by the content of the files they belong
//! to. If only the program of an image changed, the other blocks are copied instead of compressed
//! again.
//!
//! ```text
//! BLOCKS/<hex>/image   a hard link to an image we wrote; a copy on another file system
//! BLOCKS/<hex>/files   JSON: which files' blocks are where in it; <hex> is its BLAKE3
//! ```
//!
//! A folder appears by a rename, whole, and is removed by one; several processes
//! may do either. The link takes no space while the image is where it was made.
//! Whoever changes that file, or damages this folder, changes no later image:
//! blocks go into one only if their digest is right; otherwise they are compressed
//! again.

mod cache;
mod earlier_blocks;
mod files;

pub use self::cache::BlockCache;
pub(crate) use self::earlier_blocks::{EarlierBlocks, Found};
pub(crate) use self::files::{Placed, RUN_BLOCKS, key};
