//! SquashFS 4.0 images: a parallel, reproducible writer, and a reader that walks images of any
//! tool.

#![forbid(unsafe_code)]

mod format;
pub mod read;
pub mod write;
