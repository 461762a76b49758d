//! Envelope `tar`: a WebDataset, readable by every tar.
//!
//! ```text
//! [pax: GULAR.key, path]  where the name cannot say them
//! header 512 | class/img.jpg, padded to 512
//! header 512 | class/img.cls: the label in decimal
//! header 512 | class/img.mask.png, class/img.depth.npy, …
//! …
//! 1024 zeros
//! ```
//!
//! Members of one sample lie together and share their name up to the first dot
//! of its last segment. Format: `FORMAT.md`, "Envelope `tar`"; POSIX.1-2017
//! `pax`, "ustar Interchange Format"; the WebDataset convention.

mod header;
mod members;
mod names;
mod survey;
mod write;

pub(crate) use names::{Part, part_of};
pub(crate) use survey::survey;
pub(crate) use write::Writer;
