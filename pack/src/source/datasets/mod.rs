//! HDF5, netCDF-4 and `.npz` files: a folder of arrays for each dataset.
//!
//! ```text
//! train.h5: sen2 [N, 32, 32, 10], label [N, 17]
//!   ─▶ train/sen2/0000000.npy … train/label/0000000.npy …   a path for each row; nothing is written
//! or s1/image [32, 32, 3], s1/label, s2/image, …  ─▶  s1/image.npy, s2/image.npy …   if a pattern says so
//!   ─▶ roles: the image, the label, fields                  refused where there are several readings
//! a dataset that is packed ─ decoded once, in order ─ nameless temporary file ─▶ rows by positional reads
//! ```
//!
//! Rows are packed in any order, and a chunk holds many of them: without the temporary file, each
//! row would decode a chunk.

mod fault;
mod file;
mod labels;
mod lzf;
mod netcdf;
mod npz;
mod number;
mod rows;

pub use fault::DatasetFault;
pub use rows::has_datasets;
pub(crate) use rows::{Column, DatasetRows, Other, are_of_groups, columns};
