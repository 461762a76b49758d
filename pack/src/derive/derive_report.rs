//! The report of deriving a bundle.

use std::collections::BTreeMap;

use gular_bundle::Digest;
use serde::Serialize;

use crate::facts::Names;

/// The result of deriving a bundle, or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeriveReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Digests of the bundles that the new bundle is derived from.
    pub bases: Vec<Digest>,
    /// Digest of the new bundle.
    pub digest: Digest,
    /// Number of samples of the bundles that the new bundle is derived from.
    pub base_samples: u64,
    /// Number of samples of the new bundle.
    pub samples: u64,
    /// Numbers of samples and shards of each split.
    pub splits: BTreeMap<String, DeriveSplit>,
    /// Number of samples whose class was changed.
    pub relabelled: u64,
    /// Number of samples that were moved to another split.
    pub moved: u64,
    /// Classes that the base bundles did not have; if there are many, only the first ones.
    pub new_classes: Vec<String>,
    /// Number of shards; a shard that the manifest lists several times counts once.
    pub shards: u64,
    /// Bytes of the manifest and the views.
    pub bytes_written: u64,
    /// Bytes of shards and indexes that are links to files of the base bundles.
    pub bytes_linked: u64,
    /// Number of symbolic links, which need the base bundles to stay where they are.
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
    /// Classes that have samples in a split, but of which a stratified limit takes none, as
    /// `split/class`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_classes: Option<NamedKeys>,
    /// Why the new bundle has no statistics of its pixels, if a base bundle has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_statistics: Option<NoStatistics>,
    /// Whether everything was done before, so that there was nothing to do.
    pub already_done: bool,
    /// Wall-clock time.
    pub seconds: f64,
}

/// One split of the new bundle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DeriveSplit {
    /// Number of samples of the split.
    pub samples: u64,
    /// Number of shards that the manifest lists for the split.
    pub shards: u64,
}

/// Why a new bundle has no statistics of its pixels, although a bundle that it is derived from has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoStatistics {
    /// Split `train` has other samples than before, and sums cannot be divided.
    OtherSamples,
    /// Not all of the bundles have statistics.
    OfSome,
    /// The sums of the bundles cannot be added up, since those of one are also over pixels that have
    /// no value, or are of other channels.
    Unlike,
}

impl NoStatistics {
    /// Says it in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::OtherSamples => "split `train` has other samples than before",
            Self::OfSome => "not all of the bundles have statistics",
            Self::Unlike => {
                "those of the bundles cannot be added up: some are also over pixels that are nodata, as earlier releases wrote them"
            }
        }
    }
}

/// How many keys or classes, and the first few as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedKeys {
    /// Number of these keys, rows or classes.
    pub n: u64,
    /// The first few of them, as text.
    pub first: String,
}

impl NamedKeys {
    pub(super) fn of(names: &Names) -> Option<Self> {
        (names.n > 0).then(|| Self { n: names.n, first: names.to_string() })
    }
}
