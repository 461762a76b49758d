//! Samples whose array is in several files: a file for each band, for each date, or for both.
//!
//! ```text
//! a/a_B02.tif a/a_B03.tif b/b_B02.tif …   with {key}/{key}_{band}.tif
//!   └ group: by all parts of a path but band and date ─▶ a: B02 B03, b: B02 B03
//!       └ start: the headers ─▶ type, size of the finest file, what must be alike
//!           └ read: the pixels, the coarser ones resampled ─▶ [date, row, column, band]
//! ```

mod files;
mod group;
mod start;

pub(crate) use files::{Stack, StackFile};
pub(crate) use group::StackFiles;
pub(crate) use start::{StackOptions, start};
