//! Publishes the files of a checked bundle, under names that are written only once.
//!
//! ```text
//! SoundBundle (checked by the caller) ─▶ is the version free? ─▶ shards and indexes ─▶ manifest
//! ```
//!
//! The manifest is written last, so that anyone who sees it can fetch everything that it lists; a
//! publish that is cut leaves none. If it is run again, it finds the objects that are there and
//! sends the rest.

mod bundle;
mod listing;
mod publish_report;
mod sound_bundle;

pub use bundle::{PublishOptions, publish, publish_file, publish_file_with_blocks};
pub use publish_report::PublishReport;
pub use sound_bundle::SoundBundle;
