//! Images that a bundle contains twice, or that two bundles share, found by joining the digests in
//! their indexes. No byte of an image is read.
//!
//! ```text
//! indexes ─ digest, place of each sample ─▶ sorted by digest ─▶ neighbours with one digest
//! ```

mod find;
mod groups;
mod join;
mod list;
mod look_alikes;

pub use find::{Among, DuplicateOptions, find_duplicates};
pub use groups::{DuplicateGroup, DuplicateSample, Duplicates};
pub use look_alikes::{LookOptions, LookPair, Looks, find_looks};
