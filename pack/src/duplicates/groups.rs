//! Groups of duplicates.

use std::collections::BTreeMap;

use gular_bundle::{Digest, SampleId, Split};
use serde::Serialize;

/// Most groups of a kind that are named unless more are wanted, and most samples of each.
pub(super) const MOST_NAMED: usize = 5;

/// Images that several samples have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Duplicates {
    /// Number of samples whose digests were compared.
    pub compared: u64,
    /// Number of different pictures that several samples have; for two bundles, that both have.
    pub pictures: u64,
    /// Number of samples that have one of these pictures.
    pub samples: u64,
    /// How many of `pictures` are in more than one split, for each combination of splits such as
    /// `train and val`.
    pub across: BTreeMap<String, u64>,
    /// How many of `pictures` have samples with different labels.
    pub labelled_differently: u64,
    /// The first groups of samples with the same picture; groups in several splits come first.
    pub named: Vec<DuplicateGroup>,
}

impl Duplicates {
    /// Returns how many images are in more than one split.
    #[must_use]
    pub fn across_splits(&self) -> u64 {
        self.across.values().sum()
    }

    /// Counts a group, and keeps it if it is among the first `named` of its kind. Groups come in
    /// the order of their digests.
    pub(super) fn add(&mut self, group: DuplicateGroup, named: usize) {
        self.pictures += 1;
        self.samples += group.n;
        self.labelled_differently += u64::from(group.labels_differ);
        let leaks = group.splits.len() > 1;
        if leaks {
            let names: Vec<String> = group.splits.iter().map(Split::to_string).collect();
            *self.across.entry(names.join(" and ")).or_default() += 1;
        }
        let of_kind = |g: &&DuplicateGroup| (g.splits.len() > 1) == leaks;
        if self.named.iter().filter(of_kind).count() < named {
            let at = if leaks {
                self.named.partition_point(|g| g.splits.len() > 1)
            } else {
                self.named.len()
            };
            self.named.insert(at, group);
        }
    }
}

/// Samples that have the same image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DuplicateGroup {
    /// Digest of the picture's stored bytes.
    pub digest: Digest,
    /// Number of samples that have the picture.
    pub n: u64,
    /// The splits of these samples, in order.
    pub splits: Vec<Split>,
    /// Whether these samples have different labels.
    pub labels_differ: bool,
    /// The first of these samples, ordered by bundle, split and place.
    pub samples: Vec<DuplicateSample>,
}

/// One sample of a [`DuplicateGroup`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DuplicateSample {
    /// Number of the bundle that has the sample: 0 for the first, 1 for the other.
    pub bundle: usize,
    /// The sample's split.
    pub split: Split,
    /// The sample's key.
    pub key: String,
    /// The sample's label, if there are labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<i32>,
    /// Where it is in its bundle.
    #[serde(skip)]
    pub place: SampleId,
}
