//! Envelope `squashfs`: a file system image that the kernel and FUSE can mount.
//!
//! ```text
//! superblock 96, written last | 0 up to 128
//! class/a.jpg                  each file's bytes from a multiple of 64 on
//! class/a.jpg.depth.npy
//! …
//! samples.tsv                  key, and the files or the label of each sample
//! inodes | listings | tables
//! ```
//!
//! Every block is stored uncompressed, so a file is one range of bytes. `gular_squashfs` writes and
//! walks the image; this module decides what its files mean. Format: `FORMAT.md`, "Envelope
//! `squashfs`".

mod folders;
mod list;
mod sink;
mod survey;
mod write;

pub(crate) use survey::survey;
pub(crate) use write::Writer;
