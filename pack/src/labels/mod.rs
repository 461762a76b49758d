//! Labels from a table beside the images.
//!
//! ```text
//! labels.csv ─▶ table: columns, classes ─ rows ─┐
//!                                               ├ join ─▶ plan: label and values of each image
//! images/ ─ scan ─ keys ────────────────────────┘
//! ```
//!
//! Tables are read row by row, three times: for the types of their columns, for the names of the
//! classes, and for the rows. Joining rows and images sorts on disk, as the plan does.

mod archived;
mod boxes;
mod cell;
mod coco;
mod columns;
mod csv;
mod doubts;
mod imagefolder;
mod indicators;
mod join;
mod json;
mod jsonl;
mod list;
mod lookup;
mod names;
mod numbering;
mod parquet;
mod rows;
mod table;
mod values;
mod voc;
mod yolo;

pub(crate) use archived::Unpacked;
pub(crate) use boxes::BOXES;
pub(crate) use columns::{find_label, find_split};
pub(crate) use csv::separator_of;
pub(crate) use imagefolder::of_imagefolder;
pub(crate) use join::{Join, Joined, Said};
pub use lookup::JoinedTables;
pub(crate) use names::Names;
pub(crate) use numbering::{MOST_CLASSES, Numbering, Words};
pub(crate) use rows::{BOM, MOST_ROW_BYTES};
pub(crate) use table::Table;
pub use table::{FieldColumns, LabelColumn, TableColumns, TableOptions};
pub(crate) use values::{hot_classes, stored};
