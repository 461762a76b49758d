//! The report of deriving a bundle.

use std::collections::BTreeMap;

use gular_bundle::Digest;
use serde::Serialize;

use crate::labels::Names;

/// The result of deriving a bundle, or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeriveReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// The digests of the bundles that it is made of.
    pub bases: Vec<Digest>,
    /// The digest of the new bundle.
    pub digest: Digest,
    /// Samples of the bundles that it is made of.
    pub base_samples: u64,
    /// Samples of the new bundle.
    pub samples: u64,
    /// The samples and shards of each split.
    pub splits: BTreeMap<String, DeriveSplit>,
    /// Samples whose class was changed.
    pub relabelled: u64,
    /// Samples that were moved to another split.
    pub moved: u64,
    /// Classes that the bundles did not have; if there are many, only the first ones.
    pub new_classes: Vec<String>,
    /// Number of shards; a shard that is listed several times counts once.
    pub shards: u64,
    /// Bytes of manifest and views: all that was written.
    pub bytes_written: u64,
    /// Bytes of shards and indexes, which are links.
    pub bytes_linked: u64,
    /// Links that need the other bundles to stay where they are.
    pub symbolic_links: u64,
    /// Keys in the given lists that no sample has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_keys: Option<NamedKeys>,
    /// Rows of the table that match none of the chosen samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unused_rows: Option<NamedKeys>,
    /// Samples that the table does not list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<NamedKeys>,
    /// Classes of a split, as `split/class`, of which a stratified limit takes no sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_classes: Option<NamedKeys>,
    /// Whether all was done before, and nothing was left to do.
    pub already_done: bool,
    /// Wall-clock time.
    pub seconds: f64,
}

/// One split of the new bundle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DeriveSplit {
    /// Samples of the split.
    pub samples: u64,
    /// Shards of the split in the manifest.
    pub shards: u64,
}

/// How many keys or classes, and the first few as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedKeys {
    /// How many.
    pub n: u64,
    /// The first ones, in words.
    pub first: String,
}

impl NamedKeys {
    pub(super) fn of(names: &Names) -> Option<Self> {
        (names.n > 0).then(|| Self { n: names.n, first: names.to_string() })
    }
}
