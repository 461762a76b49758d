//! Datasets whose images are rows of pixels in a few files.
//!
//! ```text
//! .csv                     ─ every row read and checked ─▶ where rows begin ─┐
//! train-images-idx3-ubyte  ─ header ────────────────────▶ rows of one length ┼▶ each by a positional read
//! data_batch_1, train.bin  ─ pickle as data, or none ───▶ rows of one length ┘
//! any of these .gz, or in a .zip ─ unpacked once ─ nameless temporary file ─▶ as above
//! ```

mod cifar;
mod files;
mod ids;
mod idx;
mod pickle;
mod pixel_source;
mod rows;
mod stl;
mod table;

pub use files::PixelFiles;
pub(crate) use files::pixel_files;
pub(crate) use pixel_source::first_members;
pub use rows::PixelColumns;
pub(crate) use rows::PixelRows;
