//! Publishing: files of a sound bundle under names that are written once.
//!
//! ```text
//! SoundBundle (checked by the caller) ─▶ is the version free? ─▶ shards and indexes ─▶ manifest
//! ```
//!
//! Whoever sees the manifest finds everything it lists, so it is written last, and a
//! publish that was cut leaves none. Run again, it finds what is there and sends the rest.

mod listing;
mod report;
mod run;
mod sound;

pub use report::PublishReport;
pub use run::{PublishOptions, publish, publish_file};
pub use sound::SoundBundle;
