//! What the paths of a source mean.
//!
//! ```text
//! patterns of the user, or of a known dataset ──────┐
//! paths ─ folders: counts ─ recognise: patterns ────┴▶ layout ─ place ─▶ split, class, fields
//!                              └ doubt: refused or told, with each way to read it
//! ```

mod around;
mod band_files;
mod beside;
mod cards;
mod class_folders;
mod class_names;
mod companions;
mod date_files;
mod deep_splits;
mod error;
mod first_rows;
mod folder_patterns;
mod folders;
mod labels;
mod name_parts;
mod natural;
mod not_read;
mod options;
mod other_classes;
mod parts;
mod path_meaning;
mod recognise;
mod same_names;
mod scan;
mod shard_folders;
mod split_folders;
mod split_lists;
mod tables_beside;
mod unlikely_classes;
mod unread_formats;
mod volumes;

pub(crate) use around::one_folder;
pub(crate) use band_files::BandFiles;
pub(crate) use beside::{Found, Stems};
pub use cards::{Card, Unread, datasets, parse_datasets};
pub(crate) use class_names::alike;
pub(crate) use date_files::DateFiles;
pub use error::LayoutError;
pub(crate) use folder_patterns::Recognised;
pub(crate) use folders::{Folders, Marks};
pub(crate) use labels::{
    BOXES, BoxValues, Cell, IN_PIXELS, Join, Joined, KEY_COLUMN, Said, Table, Tables, Unpacked,
    are_outside, boxes_of_size, hot_classes, key_by_values, other_key, stored,
};
pub use labels::{FieldColumns, JoinedTables, TableColumns, TableOptions};
pub(crate) use natural::natural;
pub(crate) use options::LayoutOptions;
pub use options::{Labels, Unlabelled};
pub(crate) use parts::{in_a_table, masks_among};
pub use path_meaning::Layout;
pub(crate) use path_meaning::Placed;
pub(crate) use recognise::recognise;
pub(crate) use scan::{Scan, scan, unpacked};
pub(crate) use split_lists::SplitLists;
pub(crate) use tables_beside::TablesBeside;
pub(crate) use unread_formats::check_format;
