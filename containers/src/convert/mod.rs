//! Converts an image from elsewhere to a SIF, without root or daemon, and unpacks nothing outside
//! the store.
//!
//! ```text
//! oci:DIR[:TAG] ───────────┐
//! oci-archive:FILE[:TAG] ──┼─▶ layers, laid over each other ─ describe ▶ NAME-HASH.sif
//! docker-archive:FILE[:TAG]┘
//! ```
//!
//! Everything belongs to root, as in every SIF. Devices, pipes and extended attributes are
//! not kept; [`Converted::left_out`] names them.

mod conversion;
mod local_image;

pub use self::conversion::{Conversion, Converted, convert};
pub use self::local_image::{LocalImage, NotALocalImage};
