//! What the paths of a source mean.
//!
//! ```text
//! patterns of the user, or of a known dataset ──────┐
//! paths ─ folders: counts ─ recognise: patterns ────┴▶ layout ─ place ─▶ split, class, fields
//!                              └ doubt: refused or told, with each way to read it
//! ```

mod band_files;
mod beside;
mod cards;
mod error;
mod folders;
mod labels;
mod names_of_masks;
mod natural;
mod options;
mod parts;
mod path_meaning;
mod recognise;
mod scan;
mod tables_beside;

pub(crate) use band_files::BandFiles;
pub(crate) use beside::{Found, Stems};
pub use cards::{Card, Unread, datasets, parse_datasets};
pub use error::LayoutError;
pub(crate) use folders::{Folders, Marks};
pub(crate) use labels::{
    BOXES, Cell, IN_PIXELS, Join, Joined, Said, Table, Tables, Unpacked, are_outside,
    boxes_of_size, hot_classes, stored,
};
pub use labels::{FieldColumns, JoinedTables, StoredSplit, TableColumns, TableOptions};
pub(crate) use names_of_masks::pairs_in_one_folder;
pub(crate) use natural::natural;
pub(crate) use options::LayoutOptions;
pub use options::{Labels, Unlabelled};
pub(crate) use parts::{in_a_table, masks_among};
pub use path_meaning::Layout;
pub(crate) use path_meaning::Placed;
pub(crate) use recognise::{alike, recognise};
pub(crate) use scan::{Scan, one_folder, scan, unpacked};
pub(crate) use tables_beside::TablesBeside;
