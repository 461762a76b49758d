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
mod box_rows;
mod boxes;
mod cell;
mod coco;
mod columns;
mod counted;
mod csv;
mod doubts;
mod gather;
mod indicators;
mod join;
mod json;
mod jsonl;
mod key_values;
mod labelme;
mod list;
mod lookup;
mod object_lines;
mod objects;
mod parquet;
mod rows;
mod scalabel;
mod survey;
mod table;
mod table_options;
mod values;
mod voc;
mod wider;
mod yolo;

pub(crate) use archived::Unpacked;
pub(crate) use boxes::{BOXES, BoxValues, IN_PIXELS, are_outside, of_size as boxes_of_size};
pub(crate) use cell::Cell;
pub(super) use counted::is_table as is_counted;
pub(crate) use join::{Join, Joined, Said};
pub(crate) use key_values::{key_by_values, other_key};
pub use lookup::JoinedTables;
pub(crate) use rows::Tables;
pub(crate) use survey::KEY_COLUMN;
pub(crate) use table::Table;
pub use table_options::{FieldColumns, TableColumns, TableOptions};
pub(crate) use values::{hot_classes, stored};
