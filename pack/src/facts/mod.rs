//! Small modules that know nothing of packing: formats and their arrays, places on the Earth,
//! patterns of paths, sorting, memory, and what can go wrong.

pub(crate) mod array;
mod dataset_fault;
mod doubt;
mod error;
pub(crate) mod formats;
mod grid;
mod key_list;
mod layout_error;
mod limits;
mod names;
mod numbering;
pub(crate) mod outside;
mod part;
mod pattern;
mod pixel_budget;
mod sort;
mod spares;
mod split_words;
mod sums;

pub(crate) use array::{ArrayValues, Start, is_jpeg_2000_name};
pub use dataset_fault::DatasetFault;
pub(crate) use dataset_fault::MOST_OBJECTS;
pub use doubt::{Doubt, WayToRead};
pub use error::{BadInput, BadInputs, Error, FEW_FILES, OtherFiles, Remedy};
pub(crate) use error::{Fault, counted, named};
pub(crate) use formats::{ARCHIVES, OTHERS, becomes_png, stem_and_extension};
pub(crate) use grid::{Grid, Grids, nearest};
pub(crate) use key_list::KeyList;
pub use layout_error::LayoutError;
pub use limits::{ArchiveLimit, ArchiveLimits};
pub(crate) use limits::{MOST_BYTES, SMALL, check_bytes};
pub(crate) use names::Names;
pub(crate) use numbering::{MOST_CLASSES, Numbering, Words};
pub(crate) use outside::LeftOut;
pub use outside::{OUTSIDE, Outside};
pub use part::Part;
pub(crate) use pattern::{BAND, DATE, EXT, KEY, LABEL, SPLIT, literal};
pub use pattern::{Pattern, PatternError, PatternFault, TwoReadings, Values};
pub(crate) use pixel_budget::{PixelBudget, Pixels};
pub(crate) use sort::{Sorted, Sorter};
pub(crate) use spares::Spares;
pub use split_words::split_of;
pub(crate) use split_words::{is_fold, split_like, split_within, splits_among};
pub(crate) use sums::{Channels, Sums, Valid};
