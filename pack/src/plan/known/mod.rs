//! Sources that say themselves how they are packed: known datasets, Hugging Face's imagefolder and
//! Parquet, and the datasets of HDF5 files. Each becomes options, as if the user had given them.

mod cards;
mod imagefolder;
mod parquet;
mod roles;

pub(crate) use cards::of_known;
pub(crate) use imagefolder::of_imagefolder;
pub use parquet::has_parquet_images;
pub(crate) use parquet::of_parquet;
pub(crate) use roles::with_roles;
