//! The results of the measurements, as data.

use gular_bundle::{Envelope, Payload};
use gular_pack::PayloadOptions;
use serde::Serialize;

use crate::matrix::{RowSpec, reader_name};

/// A whole measurement.
#[derive(Debug, Clone, Serialize)]
pub struct BenchReport {
    /// Name of the preset, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<&'static str>,
    /// The data that was measured.
    pub data: Data,
    /// The machine that measured.
    pub machine: Machine,
    /// How the rows were measured.
    pub method: Method,
    /// The size of each format on the disk.
    pub stored: Vec<Stored>,
    /// One row per combination of reader, payload, order, threads and cache state.
    pub rows: Vec<Row>,
    /// Remarks that a reader of the figures should know.
    pub notes: Vec<String>,
    /// The recommendation.
    pub advice: Advice,
}

/// The samples that all rows read.
#[derive(Debug, Clone, Serialize)]
pub struct Data {
    /// The folder or bundle that was given.
    pub source: String,
    /// The bundle that was given; absent for images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<SourceBundle>,
    /// Number of samples that were measured.
    pub samples: u64,
    /// Bytes of the measured samples.
    pub bytes: u64,
    /// Number of samples of the source. If fewer were measured, these were taken from all parts of
    /// it.
    pub of_samples: u64,
    /// Bytes of all samples of the source.
    pub of_bytes: u64,
}

/// The bundle that samples were taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SourceBundle {
    /// The file format of the bundle.
    pub envelope: Envelope,
    /// How the bundle stores its images.
    pub payload: Payload,
}

/// Where it was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The CPU's name.
    pub cpu: String,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Bytes of memory of the machine.
    #[serde(rename = "memory")]
    pub memory_bytes: u64,
    /// Bytes of memory that were available before the measurement.
    #[serde(rename = "memory_available")]
    pub available_memory_bytes: u64,
    /// The kernel's version.
    pub kernel: String,
    /// The folder of the files that were read.
    pub scratch: String,
    /// The library that decodes JPEG.
    pub jpeg: String,
}

/// How long and how often.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Method {
    /// Number of repetitions of each row; a round takes every row once.
    pub rounds: usize,
    /// The longest time that a repetition may take.
    pub seconds: f64,
    /// Whether a repetition is a whole epoch, however long it takes.
    pub whole_epochs: bool,
    /// Side of decoded pictures, in pixels.
    pub size: u32,
    /// Number of samples per batch.
    pub batch_size: usize,
}

/// What one format of one payload takes.
#[derive(Debug, Clone, Serialize)]
pub struct Stored {
    /// How the images are stored.
    pub payload: Payload,
    /// The envelope of the bundle; `None` for plain files.
    pub envelope: Option<Envelope>,
    /// Bytes of all files, indexes included.
    pub bytes: u64,
    /// Number of files, indexes included.
    pub files: u64,
    /// Number of samples in these files.
    pub samples: u64,
}

/// A combination and its figures.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The combination.
    #[serde(flatten)]
    pub spec: RowSpec,
    /// The envelope of the bundle; `None` if the row does not read a bundle.
    pub envelope: Option<Envelope>,
    /// Back end of the reader, `pread` or `map`; `None` if it cannot be chosen.
    pub reader: Option<&'static str>,
    /// Whether the row is only measured for comparison.
    pub baseline: bool,
    /// Its figures.
    #[serde(flatten)]
    pub numbers: Numbers,
}

/// Figures of a row, over all rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Numbers {
    /// Samples per second, over all rounds.
    pub samples_per_s: Spread,
    /// Stored bytes per second, in MB: the median over all rounds.
    pub mb_per_s: f64,
    /// Samples per second in each round.
    pub rounds: Vec<f64>,
    /// Microseconds of CPU time per sample: the median over all rounds.
    pub cpu_us_per_sample: f64,
    /// Milliseconds from opening to the first sample or batch: the median over all rounds.
    pub first_ms: f64,
    /// Microseconds that a single sample takes: the median; `None` for batches.
    pub p50_us: Option<f64>,
    /// Microseconds that one in a hundred samples exceeds; `None` for batches.
    pub p99_us: Option<f64>,
    /// Number of cores that other programs kept busy meanwhile, on average.
    pub other_cores: f64,
}

/// The middle and both ends of repeated figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Median of the rounds.
    pub median: f64,
    /// Smallest value of the rounds.
    pub min: f64,
    /// Largest value of the rounds.
    pub max: f64,
}

/// What to pick, and why.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Advice {
    /// Position of the recommended row in `rows`; `None` if no row is recommended.
    pub pick: Option<usize>,
    /// How to come by such a bundle; `None` without a pick.
    #[serde(skip)]
    pub next: Option<NextStep>,
    /// Whether decoding hides what tells the envelopes apart, and no other payload was measured.
    #[serde(skip)]
    pub other_payloads: bool,
    /// The command that makes a bundle as recommended; `None` if there is no such command.
    pub command: Option<String>,
    /// The reasons, one figure per sentence. The first sentence names the recommended row.
    pub text: Vec<String>,
}

/// How to come by the bundle that is advised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// The source is such a bundle.
    Keep,
    /// The source, a bundle, has the payload: convert it to this envelope.
    Convert(Envelope),
    /// The source is a folder of images: pack it.
    Pack(Envelope, PayloadOptions),
    /// The source is a bundle of another payload: pack the images that it was made of.
    PackImages(Envelope, PayloadOptions),
}

impl Row {
    /// Joins a combination with its figures.
    #[must_use]
    pub fn new(spec: RowSpec, numbers: Numbers) -> Self {
        let (envelope, reader) = (spec.what.envelope(), spec.what.reader().map(reader_name));
        Self { spec, envelope, reader, baseline: spec.what.is_baseline(), numbers }
    }
}

impl Spread {
    /// Returns the spread of `values`; zeros if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let ends = (sorted.first().copied(), sorted.last().copied());
        let (Some(min), Some(max)) = ends else {
            return Self { median: 0.0, min: 0.0, max: 0.0 };
        };
        let half = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[half],
            _ => f64::midpoint(sorted[half - 1], sorted[half]),
        };
        Self { median, min, max }
    }

    /// Distance of the farther end from the median, as a share of the median.
    #[must_use]
    pub fn relative(&self) -> f64 {
        (self.max - self.median).max(self.median - self.min) / self.median.max(1e-9)
    }

    /// Whether the ranges have values in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_have_a_middle_and_two_ends() {
        let spread = Spread::of(&[30.0, 10.0, 20.0]);
        assert_eq!(spread, Spread { median: 20.0, min: 10.0, max: 30.0 });
        assert_eq!(Spread::of(&[1.0, 2.0]).median, 1.5);
        assert_eq!(Spread::of(&[]).median, 0.0);
        assert_eq!(spread.relative(), 0.5);
        assert!(spread.overlaps(&Spread::of(&[30.0, 40.0])));
        assert!(!spread.overlaps(&Spread::of(&[31.0])));
    }
}
