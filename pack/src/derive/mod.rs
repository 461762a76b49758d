//! Derives bundles from the samples of others: subsets, new labels, new splits, several bundles as
//! one.
//!
//! ```text
//! indexes of the bundles ─ where, keys, remove ─▶ a bit per sample
//!                         ─ labels ─▶ labels and splits of some
//!                         ─ limit ──▶ fewer bits
//!                         ─ fractions ─▶ a split per sample ─▶ views, manifest; shards are linked
//! ```
//!
//! No shard is read or written. Format: `FORMAT.md`, "View".

mod bases;
mod bits;
mod choose;
mod compare;
mod derivation;
mod derive_report;
mod equal_keys;
mod like_base;
mod limit;
mod link;
mod new_version;
mod options;
mod relabel;
mod views;

pub use derivation::derive;
pub use derive_report::{DeriveReport, DeriveSplit, NamedKeys, NoStatistics};
pub use new_version::{BaseReport, pack_onto};
pub use options::{DeriveOptions, Limit, Unlisted};
