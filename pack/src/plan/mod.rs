//! The plan: it fixes which samples go into which shard before a byte is written.
//!
//! A text file, so that it can be read, cut and compared with ordinary tools:
//!
//! ```text
//! {"format":"gular-plan","version":1,…}     options, classes, fields
//! shard<TAB>train                           a shard of split `train` begins
//! 0<TAB>4711<TAB>train/cat/1.jpg            label (or -), bytes of the source file, key;
//!                                           TAB and a JSON list where there are other fields
//! …
//! end<TAB>samples<TAB>bytes<TAB>shards
//! ```
//!
//! Its BLAKE3 digest identifies a run that can be resumed. Shards are cut by
//! the sizes of *source* files, so an input that is left out later makes its
//! shard shorter and moves no boundary. Format: `FORMAT.md`, "Plan".

pub(crate) mod beside;
mod build;
mod check;
mod classes;
mod error;
mod extra;
mod file;
mod fractions;
mod joining;
mod known;
mod options;
mod order;
mod payload;
mod record;
pub(crate) mod stack;
pub(crate) mod tiles;
mod write;

pub(crate) use beside::{Beside, FilesOf, Make, PlacedPolygons, Polygons, other_size, unlike};
pub use beside::{MaskClass, MaskColours};
pub use build::PlanBuilder;
pub(crate) use build::check_cancel;
pub(crate) use check::{check_fractions, check_options};
pub(crate) use classes::{classes, extended};
pub use error::PlanError;
pub(crate) use extra::Extra;
pub(crate) use file::Record;
pub use file::{Plan, PlanShard, parse_plan_line};
pub use known::has_parquet_images;
pub(crate) use known::{of_imagefolder, of_known, of_parquet, with_roles};
pub use options::{
    Align, BandNames, CheckImages, FractionsBy, Group, PackOrder, PlanOptions, TileOptions,
};
pub(crate) use order::{folded, hash, split_by};
pub(crate) use payload::{Depths, Frame, OfFile, PayloadRecipe, array_axes, with_size};
pub use payload::{Fit, FrameOptions, PayloadOptions, RawOptions, ReencodeOptions, StoredDepth};
pub(crate) use stack::{Stack, StackFile, StackFiles, StackOptions};
