//! From a recipe and its lock to an image that can be written.
//!
//! ```text
//! image.lock ─ fetch ▶ archives ─ unpack ▶ store ┐
//! recipe ─────────────────────────────────────────┼─ assemble ▶ describe ▶ Image ─▶ SIF, OCI
//! program ────────────────────────────────────────┘
//! ```

mod image;
mod unpack;
mod write;

pub use self::image::{Asked, Image, image};
pub use self::unpack::{Places, Step, Unpacked, unpack};
pub use self::write::{Output, OutputLayer, Writing};
