//! Sources that say themselves how they are packed: known datasets, Hugging Face's imagefolder, and
//! the datasets of HDF5 files. Each becomes options, as if the user had given them.

mod cards;
mod imagefolder;
mod roles;

pub(crate) use cards::of_known;
pub(crate) use imagefolder::of_imagefolder;
pub(crate) use roles::with_roles;
