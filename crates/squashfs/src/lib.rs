//! SquashFS 4.0 images: a parallel, reproducible writer, and a walker over
//! images that others wrote.

pub mod write;
