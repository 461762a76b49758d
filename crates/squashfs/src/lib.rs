//! SquashFS 4.0 images: a parallel, reproducible writer, and a walker over
//! images that others wrote.

#![forbid(unsafe_code)]

mod format;
pub mod read;
pub mod write;
