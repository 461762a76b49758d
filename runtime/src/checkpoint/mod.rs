//! Checkpoints: folders that appear whole or not at all.
//!
//! ```text
//! DIR/
//!   step-0000001200/         what the caller gave, and
//!     checkpoint.json        its record: bundle, step, size and digest of each file
//!   step-0000001234/
//!   latest                   the text `step-0000001234`, for people and scripts
//!   best                     the same of the best one, which stays until another is better
//!   .gular-tmp-…/            a save under way, or what a killed one left
//! ```
//!
//! A save writes into a temporary folder, syncs every file, renames the
//! folder, syncs `DIR`, then replaces `latest` by a rename. `latest` is a file
//! and never a link, because transfer tools follow links. One process writes:
//! rank 0.

mod error;
mod record;
mod store;

pub use error::CheckpointError;
pub use record::{CHECKPOINT_VERSION, RECORD_NAME};
pub use store::{BEST_NAME, Checkpoints, FileWriter, LATEST_NAME, Loaded, read_checkpoint};
