//! Envelope `ffcv`: a `.beton` file of FFCV, read in place.
//!
//! ```text
//! header 24 | field: u8 type, name 16, arguments 1024 | … | a row of each sample
//! pages: the values, images as JPEG or as pixels
//! allocation table: u64 sample, u64 first byte, u64 bytes | …
//! ```
//!
//! A row holds numbers, and where the other values begin. We do not write it.
//! Format: `FORMAT.md`, "Envelope `ffcv`"; FFCV's file version 2.

mod header;
mod images;
mod survey;

pub(crate) use survey::survey;
