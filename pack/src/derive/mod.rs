//! Bundles made of other bundles' samples: parts, other labels, other splits, several as one.
//!
//! ```text
//! indexes of the bundles ─ where, keys, remove ─▶ a bit per sample
//!                         ─ labels ─▶ labels and splits of some
//!                         ─ limit ──▶ fewer bits
//!                         ─ fractions ─▶ a split per sample ─▶ views, manifest; shards are linked
//! ```
//!
//! No shard is read or written. Format: `FORMAT.md`, "View".

mod base;
mod bases;
mod bits;
mod choose;
mod doubles;
mod key_list;
mod limit;
mod link;
mod options;
mod relabel;
mod report;
mod run;
mod views;

pub use base::{BaseReport, pack_onto};
pub(crate) use key_list::KeyList;
pub use options::{DeriveOptions, Limit, Unlisted};
pub use report::{DeriveReport, DeriveSplit, NamedKeys};
pub use run::derive;
