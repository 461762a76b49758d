//! Packing on several machines: each makes the same plan and packs some of its shards. Together,
//! the shards of all parts are the bundle that one machine would have made.
//!
//! ```text
//! source ─ plan ─┬─ part 1/3: shards 0 … 6   ─▶ PART1/data, PART1/part.json ─┐
//!                ├─ part 2/3: shards 7 … 13  ─▶ PART2/data, PART2/part.json ─┼─ merge ─▶ bundle
//!                └─ part 3/3: shards 14 … 20 ─▶ PART3/data, PART3/part.json ─┘
//! ```
//!
//! The plan cuts shards by the sizes of source files before any is opened, so an input that
//! one part leaves out changes nothing in the others.

mod file;
mod merge;
mod part;
mod shard_results;

pub use file::PART_NAME;
pub(crate) use file::{PartFile, PartShard, Planned};
pub use merge::{MergeOptions, MergeReport, merge};
pub use part::Part;
pub(crate) use shard_results::Gathered;
