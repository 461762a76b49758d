//! Options of a verification.

use gular_bundle::{Digest, Manifest, Split};

use crate::Error;

/// How much of a bundle is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// Manifest and indexes whole, the lengths and headers of shards; no sample.
    Quick,
    /// Every byte of every file.
    Full,
    /// Quick, and a share of the samples chosen by a seed.
    Sample {
        /// The share, above 0 and up to 1; at least one sample is read.
        fraction: f64,
        /// Another seed, other samples.
        seed: u64,
    },
}

/// Options of [`verify`](crate::verify).
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// How much is read.
    pub mode: Mode,
    /// Threads; each takes whole shards.
    pub jobs: usize,
    /// The bundle digest that is wanted.
    pub digest: Option<Digest>,
    /// Keys listed for one fault; the rest are counted.
    pub max_keys: usize,
    /// Only shards of these splits; empty for all. For folders that hold a part.
    pub splits: Vec<Split>,
}

impl Default for VerifyOptions {
    /// Full, one thread, any digest, 20 keys.
    fn default() -> Self {
        Self { mode: Mode::Full, jobs: 1, digest: None, max_keys: 20, splits: Vec::new() }
    }
}

impl VerifyOptions {
    /// The manifest without shards of other splits.
    ///
    /// # Errors
    /// [`NoSplit`](gular_transfer::Error::NoSplit), as when that split is fetched: of nothing
    /// all would be sound.
    pub(crate) fn part_of(&self, manifest: &Manifest) -> Result<Manifest, Error> {
        gular_transfer::has_splits(manifest, &self.splits)?;
        let mut part = manifest.clone();
        part.shards.retain(|shard| self.splits.is_empty() || self.splits.contains(&shard.split));
        Ok(part)
    }
}
