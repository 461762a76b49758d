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
mod convert;
mod croissant;
mod derive;
mod diff;
mod duplicates;
mod error;
mod export;
mod facts;
mod layout;
mod packing;
mod plan;
mod shards;
mod source;

pub use adopt::{AdoptOptions, AdoptReport, AdoptSplit, OnUnknownLabel, adopt};
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
pub use error::Error;
pub use export::{ExportOptions, ExportReport, export};
pub use facts::{
    BadInput, BadInputs, BoxForm, Doubt, OUTSIDE, OtherFiles, Outside, Pattern, PatternError,
    PatternFault, PythonCommand, Remedy, RunError, TwoReadings, Values, WayToRead, split_of,
};
pub use gular_codec::tiff::Pages;
pub use layout::{
    Card, FieldColumns, JoinedTables, Labels, Layout, LayoutError, TableColumns, TableOptions,
    Unlabelled, Unread, datasets, parse_datasets,
};
pub use packing::{
    MergeOptions, MergeReport, PackOptions, PackReport, Progress, Resampling, SplitReport, merge,
    pack, pack_preview,
};
pub use plan::{
    Align, BandNames, CheckImages, Fit, FractionsBy, FrameOptions, Group, MaskClass, MaskColours,
    PackOrder, PayloadOptions, Plan, PlanBuilder, PlanError, PlanOptions, PlanShard, RawOptions,
    ReencodeOptions, StoredDepth, TileOptions, has_parquet_images, parse_plan_line,
};
pub use shards::{FEW_FILES, PART_NAME, Part, SKIPPED_NAME, STATE_DIR, ShardError};
pub use source::{
    ArchiveLimit, ArchiveLimits, Classes, DatasetFault, FieldFiles, Inputs, LabelColumn,
    OnBadInput, PixelColumns, PixelFiles, SourceError, has_datasets, separator_of,
};
