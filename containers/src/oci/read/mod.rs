//! Reads images from the OCI layout, ours and those of other tools: a folder, or that folder as one
//! tar.
//!
//! ```text
//! index.json ─▶ (index ─▶) manifest ─▶ config
//!                                   └▶ layers, each unpacked into the store
//! ```
//!
//! Each arrow is a descriptor: what it names must have its length and its SHA-256. An
//! archive of Docker's has other documents, of which those of a layout are made.

mod blobs;
mod docker;
mod image;
mod layers;

pub(super) use self::blobs::LAYOUT;
pub use self::image::{LayerBlob, OciImage, OciLayout};
pub(crate) use self::image::{platforms, variant_rank};
pub use self::layers::LayersAs;
