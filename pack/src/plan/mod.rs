//! The plan: it fixes which samples go into which shard before a byte is written.
//!
//! A text file, so that it can be read, cut and compared with ordinary tools:
//!
//! ```text
//! {"format":"gular-plan","version":1,…}     options, classes, fields
//! shard<TAB>train                           a shard of split `train` begins
//! 0<TAB>4711<TAB>train/cat/1.jpg            label (or -), bytes of the source file, key;
//!                                           TAB and a JSON list where there are other fields
//! …
//! end<TAB>samples<TAB>bytes<TAB>shards
//! ```
//!
//! Its BLAKE3 digest identifies a run that can be resumed. Shards are cut by
//! the sizes of *source* files, so an input that is left out later makes its
//! shard shorter and moves no boundary. Format: `FORMAT.md`, "Plan".

mod build;
mod classes;
mod extra;
mod file;
mod fractions;
mod joining;
mod options;
mod order;
mod record;
mod write;

pub use build::PlanBuilder;
pub(crate) use build::check_cancel;
pub(crate) use classes::{classes, extended, listed_classes};
pub(crate) use extra::Extra;
pub(crate) use file::Record;
pub use file::{Plan, PlanShard, parse_plan_line};
pub(crate) use options::{check_fractions, check_options};
pub(crate) use order::{folded, hash, split_by};
