//! The options of a measurement, with defaults.

use gular_bundle::{Backend, Envelope};
use gular_pack::{PayloadOptions, RawOptions, ReencodeOptions, StoredDepth};
use serde::{Deserialize, Serialize};

/// What a row does with each sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// The sample's bytes are read, every one of them.
    Read,
    /// The sample becomes a row of a batch of decoded pictures.
    Load,
}

/// The order of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadOrder {
    /// A permutation of all samples.
    Shuffled,
    /// The order in which samples are stored.
    Sequential,
}

/// What the page cache holds before a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// All files.
    Warm,
    /// None of the files.
    Cold,
}

impl RowKind {
    /// The name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Load => "load",
        }
    }
}

impl ReadOrder {
    /// The name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shuffled => "shuffled",
            Self::Sequential => "sequential",
        }
    }
}

impl CacheState {
    /// The name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

/// What is measured and how long. Start from [`BenchOptions::new`] or a preset.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// File formats; what this build cannot write is left out with a note.
    pub envelopes: Vec<Envelope>,
    /// How the images are stored.
    pub payloads: Vec<PayloadOptions>,
    /// How bundles are read; batches are loaded with the first.
    pub readers: Vec<Backend>,
    /// Orders; batches are loaded with the first.
    pub orders: Vec<ReadOrder>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// States of the page cache.
    pub caches: Vec<CacheState>,
    /// What rows do with samples.
    pub kinds: Vec<RowKind>,
    /// Whether to measure plain files and hand-written loops, too.
    pub baselines: bool,
    /// Repetitions of each row.
    pub rounds: usize,
    /// The longest a repetition takes; warm rows repeat the epoch until then.
    pub seconds: f64,
    /// A repetition is one epoch, however long it takes.
    pub whole_epochs: bool,
    /// Side of decoded pictures, in pixels.
    pub size: u32,
    /// Samples per batch.
    pub batch_size: usize,
    /// Source bytes used; of more images a part is taken that is spread over all.
    pub limit_bytes: u64,
    /// Threads that make bundles.
    pub jobs: usize,
    /// The preset's name, for the report.
    pub preset: Option<&'static str>,
}

impl BenchOptions {
    /// Returns the options for all envelopes with the images' own bytes, on 1 and `cores` threads.
    #[must_use]
    pub fn new(cores: usize) -> Self {
        let mut threads = vec![1, cores.max(1)];
        threads.dedup();
        Self {
            envelopes: Envelope::ALL.to_vec(),
            payloads: vec![PayloadOptions::Encoded],
            readers: vec![Backend::Pread, Backend::Map],
            orders: vec![ReadOrder::Shuffled, ReadOrder::Sequential],
            threads,
            caches: vec![CacheState::Warm, CacheState::Cold],
            kinds: vec![RowKind::Read, RowKind::Load],
            baselines: true,
            rounds: 3,
            seconds: 0.5,
            whole_epochs: false,
            size: 224,
            batch_size: 64,
            limit_bytes: 1_000_000_000,
            jobs: cores.max(1),
            preset: None,
        }
    }

    /// Returns the options for a few minutes: shuffled, from a warm page cache, on all threads,
    /// with fewer samples.
    #[must_use]
    pub fn quick(cores: usize) -> Self {
        Self {
            orders: vec![ReadOrder::Shuffled],
            threads: vec![cores.max(1)],
            caches: vec![CacheState::Warm],
            seconds: 0.2,
            limit_bytes: 100_000_000,
            preset: Some("quick"),
            ..Self::new(cores)
        }
    }

    /// Returns the options for all payloads, powers of two of threads up to `cores`, and more and
    /// longer rounds.
    #[must_use]
    pub fn full(cores: usize) -> Self {
        let new = Self::new(cores);
        let powers = (0..).map(|power| 1_usize << power).take_while(|n| *n < cores);
        let mut threads: Vec<usize> = powers.collect();
        threads.push(cores.max(1));
        Self {
            payloads: vec![PayloadOptions::Encoded, Self::reencoded(), Self::raw(new.size)],
            threads,
            rounds: 5,
            seconds: 1.0,
            preset: Some("full"),
            ..new
        }
    }

    /// The comparison of formats of a course on data loading (Jülich Supercomputing
    /// Centre, exercise 1.1): format by format, mapped or read, fixed length (pixels) or
    /// not (files as they are), shuffled or not, by workers, from a cold and a warm page
    /// cache; a repetition is one epoch.
    #[must_use]
    pub fn jsc_1_1(cores: usize) -> Self {
        let new = Self::new(cores);
        Self {
            payloads: vec![PayloadOptions::Encoded, Self::raw(new.size)],
            whole_epochs: true,
            limit_bytes: 200_000_000,
            preset: Some("jsc-1.1"),
            ..new
        }
    }
}

impl BenchOptions {
    /// The images' own bytes.
    #[must_use]
    pub fn encoded() -> PayloadOptions {
        PayloadOptions::Encoded
    }

    /// JPEG in a size from which crops can be taken.
    #[must_use]
    pub fn reencoded() -> PayloadOptions {
        let default = ReencodeOptions::default();
        PayloadOptions::Reencoded(ReencodeOptions { max_side: Some(512), ..default })
    }

    /// Pixels of 8 bits, `size` a side: values of one length.
    #[must_use]
    pub fn raw(size: u32) -> PayloadOptions {
        PayloadOptions::Raw(RawOptions {
            depth: Some(StoredDepth::U8),
            ..RawOptions::new(size, size)
        })
    }

    /// Pictures of `size` pixels a side, and payload raw of the same.
    pub fn resize(&mut self, size: u32) {
        self.size = size;
        for payload in &mut self.payloads {
            if matches!(payload, PayloadOptions::Raw(_)) {
                *payload = Self::raw(size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_measure_what_they_say() {
        assert_eq!(BenchOptions::full(6).threads, [1, 2, 4, 6]);
        assert_eq!(BenchOptions::full(1).threads, [1]);
        assert_eq!(BenchOptions::new(1).threads, [1]);
        assert_eq!(BenchOptions::full(4).payloads.len(), 3);
        let course = BenchOptions::jsc_1_1(4);
        assert!(course.whole_epochs && course.caches.len() == 2 && course.readers.len() == 2);
        assert!(matches!(course.payloads[..], [PayloadOptions::Encoded, PayloadOptions::Raw(_)]));
    }
}
