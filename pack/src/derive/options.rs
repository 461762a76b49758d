//! The options of deriving a bundle, with defaults.

use std::path::PathBuf;

use gular_bundle::Split;
use serde::Deserialize;

use crate::layout::TableOptions;

/// Options of [`derive`](crate::derive): which samples are taken, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct DeriveOptions {
    /// A condition: only samples for which it is true are taken, with the labels and splits that
    /// they had.
    pub filter: Option<String>,
    /// Files with keys, one per line: only these samples are taken.
    pub keys: Vec<PathBuf>,
    /// Files with keys, one per line: these samples are left out.
    pub remove: Vec<PathBuf>,
    /// Limit on the number of samples that are taken of those chosen so far.
    pub limit: Option<Limit>,
    /// Whether each class keeps its share of each split under `limit`.
    pub stratified: bool,
    /// Other labels, and splits where the table has a column of them.
    pub labels: Option<TableOptions>,
    /// What happens to samples that the table does not list.
    pub unlisted: Unlisted,
    /// Fractions by which keys fall into splits; as they were when empty.
    pub fractions: Vec<(Split, f64)>,
    /// Chooses the samples under `limit`, and the splits.
    pub seed: u64,
    /// Threads.
    pub jobs: usize,
    /// Whether to report only what would be done.
    pub dry_run: bool,
    /// The folder for sorting tables and keys that do not fit in `memory_bytes`.
    pub temp_dir: PathBuf,
    /// Bytes of memory for sorting.
    pub memory_bytes: usize,
}

/// How many samples are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// This many samples.
    Samples(u64),
    /// This share, above 0 and up to 1.
    Share(f64),
}

/// What happens to samples that a table of labels does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unlisted {
    /// They keep their label. A sample without one ends the run.
    Keep,
    /// They are left out.
    Skip,
    /// They end the run.
    #[serde(skip)]
    Fail,
}

impl DeriveOptions {
    /// Takes every sample unchanged; sorts in folder `temp_dir`.
    #[must_use]
    pub fn new(temp_dir: PathBuf) -> Self {
        Self {
            filter: None,
            keys: Vec::new(),
            remove: Vec::new(),
            limit: None,
            stratified: false,
            labels: None,
            unlisted: Unlisted::Keep,
            fractions: Vec::new(),
            seed: 0,
            jobs: 1,
            dry_run: false,
            temp_dir,
            memory_bytes: 256 << 20,
        }
    }
}
