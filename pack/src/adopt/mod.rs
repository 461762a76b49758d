//! Makes a bundle of files that are there already, where they are.
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
mod index;
mod keys;
mod run;
mod streaming;

pub use run::{AdoptOptions, AdoptReport, AdoptSplit, UnknownLabels, adopt};
