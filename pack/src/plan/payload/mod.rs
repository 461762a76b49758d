//! How images are stored: bytes as found, encoded again, or pixels.
//!
//! ```text
//! options ─ depth of the set's samples ─▶ recipe, in the plan ─▶ value of each image
//! ```

mod depth;
mod frame;
mod of_file;
mod options;
mod recipe;

pub(crate) use depth::{Depths, array_axes};
pub use frame::FrameOptions;
pub(crate) use frame::{Frame, with_size};
pub use gular_codec::Fit;
pub(crate) use of_file::OfFile;
pub use options::{PayloadOptions, RawOptions, ReencodeOptions, StoredDepth};
pub(crate) use recipe::PayloadRecipe;
