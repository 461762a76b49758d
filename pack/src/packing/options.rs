//! The options of a run that packs, and its progress.

use std::path::PathBuf;

use super::PackReport;
use crate::plan::PlanOptions;
use crate::shards::Part;

/// Options of a run that do not change a byte of the bundle.
#[derive(Debug, Clone)]
pub struct PackOptions {
    /// The options that decide what the bundle contains.
    pub plan: PlanOptions,
    /// Worker threads.
    pub jobs: usize,
    /// Whether to scan and plan only.
    pub dry_run: bool,
    /// Pack this part of the plan's shards alone; [`merge`](crate::merge) makes the bundle.
    pub part: Option<Part>,
    /// The folder in which a dry run sorts what does not fit in memory; other runs use the output
    /// folder.
    pub temp_dir: PathBuf,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// Number of images found so far.
    Scanned(u64),
    /// Bytes of source files that are about to be compared with a base.
    ToCompare(u64),
    /// Bytes that were compared since the last call.
    Compared(u64),
    /// How the source was read, before anything is packed: the report, as far as it is known.
    Read(&'a PackReport),
    /// The plan is made: samples, and bytes of their source files.
    Planned(u64, u64),
    /// Samples and bytes that went into shards, or were left out, since the last call.
    Packed(u64, u64),
}
