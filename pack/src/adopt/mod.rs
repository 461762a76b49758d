//! Makes a bundle from existing files of a data set, in place.
//!
//! ```text
//! a.tar b.tar ─ survey ─▶ columns ─▶ fields ─ hash ─▶ OUT/data/<index>
//!     ▲                                               OUT/manifest.json
//!     └───────────────── OUT/data/<split>-<16 hex>.tar, a link
//! ```
//!
//! Nothing is copied. A value must lie in its file as one stored run; what
//! does not is refused, with what to do instead.

mod columns;
mod detect;
mod in_place;
mod index;
mod keys;
mod streaming;

pub use in_place::{AdoptOptions, AdoptReport, AdoptSplit, OnUnknownLabel, adopt};
