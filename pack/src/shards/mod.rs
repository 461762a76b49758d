//! Turns planned samples into shards.
//!
//! ```text
//! plan ─ records ─▶ input: the files of a sample, checked, as values ─▶ workers: shards, in order
//!                    ├ make: pictures, arrays                            └▶ output_folder: what is done
//!                    ├ scenes, stack: tiles, bands, dates
//!                    └ beside: masks and other files of a sample
//! ```

mod beside;
mod error;
mod framed;
mod input;
mod make;
mod output_folder;
mod part;
mod part_file;
mod read_ahead;
mod resample;
mod scenes;
mod shard_results;
mod stack;
mod unpacked;
mod workers;

pub(crate) use beside::{OfImage, ReadFiles};
pub use error::{FEW_FILES, ShardError};
pub(crate) use input::{InputReader, Likeness, StoredSample, StoredValue};
pub(crate) use make::{Maker, Value};
pub(crate) use output_folder::{Done, OutDir, finished_bundle, gone, remove_gone};
pub use output_folder::{SKIPPED_NAME, STATE_DIR};
pub use part::Part;
pub use part_file::PART_NAME;
pub(crate) use part_file::{PartFile, PartShard, Planned};
pub(crate) use read_ahead::{Item, ReadAhead};
pub(crate) use scenes::{Scenes, Wanted, Window, inside, n_valid, padded};
pub(crate) use shard_results::Gathered;
pub(crate) use stack::StackWindow;
pub(crate) use unpacked::UnpackedScenes;
pub(crate) use workers::{ShardWorkers, accepts, run_id, still_needed};
