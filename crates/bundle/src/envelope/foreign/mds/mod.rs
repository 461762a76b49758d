//! Envelope `mds`: a shard of MosaicML Streaming, read in place.
//!
//! ```text
//! u32 n | n + 1 × u32: where each sample begins, where the last ends
//! {"column_encodings": […], "column_names": […], "column_sizes": […], …}
//! sample: u32 length of each value without a fixed size | the values
//! …
//! ```
//!
//! A shard describes itself; the dataset's `index.json` is not needed. We do not
//! write it. Format: `FORMAT.md`, "Envelope `mds`"; MosaicML Streaming's MDS
//! version 2.

mod encoding;
mod shard;
mod survey;
mod values;

pub(crate) use survey::survey;
