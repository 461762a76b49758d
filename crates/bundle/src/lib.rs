//! What a Gular bundle *is*: names, digests, manifest, index and envelopes.
//!
//! `FORMAT.md` at the top of the repository is the normative text; every
//! module here names the section it implements. This crate opens no socket
//! and knows no tensor library.

#![warn(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::arithmetic_side_effects
)]

mod digest;
mod path;
mod split;

pub use digest::{Digest, DigestError};
pub use path::{BundlePath, PathError};
pub use split::Split;
