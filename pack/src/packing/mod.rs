//! The whole run: from a source to a bundle, on one machine or on several.
//!
//! ```text
//! source ─ plan ─┬─ part 1/3: shards 0 … 6   ─▶ PART1/data, PART1/part.json ─┐
//!                ├─ part 2/3: shards 7 … 13  ─▶ PART2/data, PART2/part.json ─┼─ merge ─▶ bundle
//!                └─ part 3/3: shards 14 … 20 ─▶ PART3/data, PART3/part.json ─┘
//! ```
//!
//! The plan cuts shards by the sizes of source files before any is opened, so an input that
//! one part leaves out changes nothing in the others.

mod borne_out;
mod merge;
mod pack;
mod pack_report;

pub(crate) use borne_out::borne_out;
pub use merge::{MergeOptions, MergeReport, merge};
pub use pack::{PackOptions, Progress, pack, pack_preview};
pub(crate) use pack::{check_apart, fields, make_plan, open_source, with_known};
pub use pack_report::{PackReport, Resampling, SplitReport};
