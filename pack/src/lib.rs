//! Packs a folder or an archive of images into a bundle.
//!
//! ```text
//! images/ ─ scan ─▶ plan ─▶ readers ─▶ shard writers ─▶ manifest
//!                           └ decode, resize, encode: where the payload asks for it
//! ```
//!
//! and bundles of bundles: in other envelopes (`convert`), or as views of them (`derive`).
//!
//! The plan fixes everything before a byte is written, so threads, machines
//! and interruptions do not show in the result.

#![forbid(unsafe_code)]

mod adopt;
mod array;
mod beside;
mod convert;
mod croissant;
mod derive;
mod diff;
mod duplicates;
mod error;
mod export;
mod formats;
mod grid;
mod input;
mod key_list;
mod labels;
mod layout;
mod options;
mod output_folder;
mod outside;
mod pack_report;
mod packing;
mod parts;
mod payload;
mod pixel_budget;
mod plan;
mod read_ahead;
mod scan;
mod scenes;
mod shard_workers;
mod sort;
mod source;
mod spares;
mod stack;
mod sums;

pub use adopt::{AdoptOptions, AdoptReport, AdoptSplit, OnUnknownLabel, adopt};
pub use beside::MaskColours;
pub use convert::{ConvertOptions, ConvertReport, Target, convert};
pub use croissant::croissant;
pub use derive::{
    BaseReport, DeriveOptions, DeriveReport, DeriveSplit, Limit, NamedKeys, NoStatistics, Unlisted,
    derive, pack_onto,
};
pub use diff::{DiffOptions, DiffReport, Difference, Differing, diff};
pub use duplicates::{
    Among, DuplicateGroup, DuplicateOptions, DuplicateSample, Duplicates, LookOptions, LookPair,
    Looks, find_duplicates, find_looks,
};
pub use error::{BadInput, BadInputs, Error, FEW_FILES, OtherFiles, Remedy};
pub use export::{ExportOptions, ExportReport, export};
pub use gular_codec::tiff::Pages;
pub use labels::{FieldColumns, JoinedTables, LabelColumn, TableColumns, TableOptions};
pub use layout::{
    Card, Doubt, Layout, LayoutError, Pattern, PatternError, PatternFault, TwoReadings, Values,
    WayToRead, datasets, parse_datasets, split_of,
};
pub use options::{
    Align, BandNames, CheckImages, Classes, FieldFiles, FractionsBy, Group, Inputs, Labels,
    OnBadInput, PackOrder, PlanOptions, TileOptions, Unlabelled,
};
pub use output_folder::{SKIPPED_NAME, STATE_DIR};
pub use outside::{OUTSIDE, Outside};
pub use pack_report::{PackReport, Resampling, SplitReport, StoredSplit};
pub use packing::{PackOptions, Progress, pack};
pub use parts::{MergeOptions, MergeReport, PART_NAME, Part, merge};
pub use payload::{Fit, PayloadOptions, RawOptions, ReencodeOptions, StoredDepth};
pub use plan::{Plan, PlanBuilder, PlanShard, parse_plan_line};
pub use source::{
    ArchiveLimit, ArchiveLimits, DatasetFault, PixelColumns, PixelFiles, has_datasets,
};
