//! The report of a verification.

use gular_bundle::{Digest, Manifest, ShardEntry, Split};
use gular_transfer::WrongCopy;
use serde::Serialize;

use crate::Mode;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VerifyReport {
    /// Whether no fault was found.
    pub sound: bool,
    /// The bundle digest: BLAKE3 of the manifest; the empty text if no usable copy of the manifest
    /// is published.
    #[serde(serialize_with = "Digest::serialize_or_empty")]
    pub digest: Option<Digest>,
    /// How much was read: `quick`, `full` or `sample`.
    pub mode: &'static str,
    /// Number of shards in the manifest.
    pub shards: u64,
    /// Number of samples in the manifest.
    pub samples: u64,
    /// Bytes of all shards and indexes, as the manifest gives them.
    pub bytes: u64,
    /// Bytes that were read from the bundle.
    pub bytes_read: u64,
    /// Samples whose bytes were compared with their digest, one by one or within blocks.
    pub samples_checked: u64,
    /// With `sample`: the seed that chose the samples; with it, the same samples are read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// With `sample`: how likely it was that damage of some extents would be seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detection: Vec<Detection>,
    /// Wall-clock time.
    pub seconds: f64,
    /// Every fault of the bundle, in the manifest's order.
    pub faults: Vec<Fault>,
    /// Unusual things that are not faults.
    pub notes: Vec<String>,
    /// The splits that are here, if all files of the other splits are missing and nothing else is
    /// wrong: perhaps only these splits were fetched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only_splits: Vec<Split>,
    /// Servers that sent wrong bytes for objects which other servers sent correctly.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrong_copies: Vec<WrongCopy>,
}

impl VerifyReport {
    /// Makes an empty report on a bundle of which at most the digest is known.
    pub(crate) fn new(digest: Option<Digest>, mode: Mode) -> Self {
        Self {
            sound: false,
            digest,
            mode: match mode {
                Mode::Quick => "quick",
                Mode::Full => "full",
                Mode::Sample { .. } => "sample",
            },
            shards: 0,
            samples: 0,
            bytes: 0,
            bytes_read: 0,
            samples_checked: 0,
            seed: match mode {
                Mode::Sample { seed, .. } => Some(seed),
                Mode::Quick | Mode::Full => None,
            },
            detection: Vec::new(),
            seconds: 0.0,
            faults: Vec::new(),
            notes: Vec::new(),
            only_splits: Vec::new(),
            wrong_copies: Vec::new(),
        }
    }

    /// Copies the figures of the manifest; returns how many bytes are to be read.
    pub(crate) fn describe(&mut self, manifest: &Manifest, mode: Mode) -> u64 {
        self.shards = manifest.shards.len() as u64;
        self.samples = total_of(manifest, |s| s.samples);
        let (in_shards, in_indexes) = (
            total_of(manifest, |s| s.file.bytes),
            total_of(manifest, |s| s.bytes() - s.file.bytes),
        );
        self.bytes = in_shards.saturating_add(in_indexes);
        self.detection = detection(self.samples, mode);
        match mode {
            Mode::Full => self.bytes,
            Mode::Quick => in_indexes,
            Mode::Sample { fraction, .. } => {
                in_indexes.saturating_add((in_shards as f64 * fraction) as u64)
            }
        }
    }
}

/// How likely it was that a check of some samples would see damage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Detection {
    /// Number of damaged samples.
    pub damaged: u64,
    /// The probability, at least, that the check reads one of them.
    pub probability: f64,
}

/// The shares of damaged samples that a report tells of, besides a single sample.
const SHARES: [f64; 2] = [0.001, 0.01];

/// Each sample is chosen by itself, with the same probability, so damage to *n* of them is missed
/// with the *n*-th power of the probability that one is not chosen.
fn detection(samples: u64, mode: Mode) -> Vec<Detection> {
    let Mode::Sample { fraction, .. } = mode else { return Vec::new() };
    let of_share = SHARES.map(|share| (samples as f64 * share).round() as u64);
    let mut extents: Vec<u64> = [1].into_iter().chain(of_share).filter(|n| *n > 0).collect();
    extents.retain(|n| *n <= samples);
    extents.dedup();
    let of = |damaged: u64| Detection {
        damaged,
        probability: 1.0 - (1.0 - fraction).powf(damaged as f64),
    };
    extents.into_iter().map(of).collect()
}

/// Returns a sum over the shards of a bundle.
pub(crate) fn total_of(manifest: &Manifest, size: impl Fn(&ShardEntry) -> u64) -> u64 {
    manifest.shards.iter().fold(0, |sum, shard| sum.saturating_add(size(shard)))
}

/// One fault of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The damaged file, as a path below the bundle's folder.
    pub file: String,
    /// The split of the shard that the file belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// The field of the samples in `keys`; a sample with two bad fields is in two faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What was expected and what was found.
    pub message: String,
    /// The digest or length that was expected, if one was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The digest or length that was found instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Bytes of the file that are wrong. For samples these are whole values, otherwise whole
    /// blocks; if no sample in a block is bad, the samples in it that were found good are not
    /// included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<ByteRange>,
    /// Keys of wrong samples, at most as many as the options allow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The number of wrong samples, including those that `keys` does not list.
    pub n_keys: u64,
    /// What can be done about the fault.
    pub advice: &'static str,
}

impl Fault {
    /// Makes a fault with a message about a file.
    pub(crate) fn new(
        kind: FaultKind,
        file: String,
        message: String,
        advice: &'static str,
    ) -> Self {
        Self {
            kind,
            file,
            split: None,
            field: None,
            message,
            expected: None,
            found: None,
            ranges: Vec::new(),
            keys: Vec::new(),
            n_keys: 0,
            advice,
        }
    }

    /// Sets the expected and the found value.
    pub(crate) fn compared(&mut self, expected: &dyn ToString, found: &dyn ToString) -> &mut Self {
        self.expected = Some(expected.to_string());
        self.found = Some(found.to_string());
        self
    }
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The manifest breaks a rule, or is not the one that is expected.
    Manifest,
    /// A file is missing.
    Missing,
    /// A file cannot be read.
    Unreadable,
    /// A file has another length.
    Length,
    /// An index is not the one the manifest describes.
    Index,
    /// A shard's own structure is not that of its format.
    Structure,
    /// Blocks of a shard have other bytes.
    Blocks,
    /// Samples have other bytes.
    Samples,
}

/// A range of bytes in a file; `end` is not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ByteRange {
    /// First byte of the range.
    pub start: u64,
    /// End of the range: one past its last byte.
    pub end: u64,
}

pub(crate) const FETCH_AGAIN: &str =
    "copy or fetch this file again from where the bundle came from, or pack again";

/// Joins ranges that touch.
pub(crate) fn merged(mut ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    ranges.sort_by_key(|r| (r.start, r.end));
    let mut merged: Vec<ByteRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_is_that_of_missing_none_of_the_damaged_samples() {
        let seen = |samples, fraction| {
            let found = detection(samples, Mode::Sample { fraction, seed: 0 });
            found
                .iter()
                .map(|d| (d.damaged, (d.probability * 1e4).round() / 1e4))
                .collect::<Vec<_>>()
        };
        assert_eq!(seen(100_000, 0.01), [(1, 0.01), (100, 0.634), (1000, 1.0)]);
        assert_eq!(seen(200, 0.5), [(1, 0.5), (2, 0.75)]);
        assert_eq!(seen(20, 1.0), [(1, 1.0)]);
        assert_eq!(seen(0, 0.5), []);
        assert_eq!(detection(9, Mode::Full), []);
    }
}
