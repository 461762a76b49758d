//! What the paths of a source mean.
//!
//! ```text
//! patterns of the user, or of a known dataset ──────┐
//! paths ─ folders: counts ─ recognise: patterns ────┴▶ layout ─ place ─▶ split, class, fields
//!                              └ doubt: refused or told, with each way to read it
//! ```

mod band_files;
mod cards;
mod doubt;
mod error;
mod folders;
mod natural;
mod parts;
mod path_meaning;
mod pattern;
mod recognise;
mod split_words;
mod tables_beside;

pub(crate) use band_files::BandFiles;
pub(crate) use cards::of_known;
pub use cards::{Card, datasets, parse_datasets};
pub use doubt::{Doubt, WayToRead};
pub use error::LayoutError;
pub(crate) use folders::{Folders, Marks};
pub(crate) use natural::natural;
pub(crate) use parts::{in_a_table, masks_among};
pub use path_meaning::Layout;
pub(crate) use path_meaning::Placed;
pub(crate) use pattern::{BAND, DATE, EXT, literal};
pub use pattern::{Pattern, PatternError, PatternFault, TwoReadings, Values};
pub(crate) use recognise::{alike, list as named, recognise};
pub use split_words::split_of;
pub(crate) use split_words::{split_like, split_within};
pub(crate) use tables_beside::TablesBeside;
