//! Small modules that know nothing of packing: formats and their arrays, places on the Earth,
//! patterns of paths, sorting, memory, and what can go wrong.

pub(crate) mod array;
mod bad_input;
mod doubt;
pub(crate) mod formats;
mod grid;
mod key_list;
mod names;
mod numbering;
pub(crate) mod outside;
mod pattern;
mod pixel_budget;
mod run_error;
mod sort;
mod sources_of_images;
mod spares;
mod split_words;
mod sums;
mod words;

pub(crate) use array::{ArrayValues, Start, is_jpeg_2000_name};
pub use bad_input::{BadInput, BadInputs, Remedy};
pub(crate) use bad_input::{Fault, MOST_BYTES, check_bytes};
pub use doubt::{BoxForm, Doubt, PythonCommand, WayToRead};
pub use formats::OtherFiles;
pub(crate) use formats::{ARCHIVES, OTHERS, becomes_png, is_nifti_name, stem_and_extension};
pub(crate) use grid::{Grid, Grids, nearest};
pub(crate) use key_list::KeyList;
pub(crate) use names::Names;
pub(crate) use numbering::{ClassNumbers, MOST_CLASSES, Numbering, Words, merged};
pub(crate) use outside::LeftOut;
pub use outside::{OUTSIDE, Outside};
pub(crate) use pattern::{BAND, DATE, EXT, KEY, LABEL, SPLIT, literal};
pub use pattern::{Pattern, PatternError, PatternFault, TwoReadings, Values};
pub(crate) use pixel_budget::{PixelBudget, Pixels};
pub use run_error::RunError;
pub(crate) use run_error::{room_error, setting};
pub(crate) use sort::{Sorted, Sorter};
pub(crate) use sources_of_images::{is_of_source, is_of_times, is_source};
pub(crate) use spares::Spares;
pub use split_words::split_of;
pub(crate) use split_words::{is_fold, is_of_both, split_like, split_within, splits_among};
pub(crate) use sums::{Channels, Sums, Valid};
pub(crate) use words::{UnicodeForm, all, composed, counted, is_sentence, named, some};
