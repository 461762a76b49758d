//! Publishes the files of a checked bundle, under names that are written only once.
//!
//! ```text
//! SoundBundle (checked by the caller) ─▶ is the version free? ─▶ shards and indexes ─▶ manifest
//! ```
//!
//! Whoever sees the manifest finds everything it lists, so it is written last, and a
//! publish that was cut leaves none. Run again, it finds what is there and sends the rest.

mod bundle;
mod listing;
mod publish_report;
mod sound_bundle;

pub use bundle::{PublishOptions, publish, publish_file, publish_file_with_blocks};
pub use publish_report::PublishReport;
pub use sound_bundle::SoundBundle;
