//! Options of a verification.

use gular_bundle::{Digest, Manifest, Split};

use crate::Error;

/// How much of a bundle is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// The whole manifest and indexes, and the lengths and headers of shards, but no sample.
    Quick,
    /// Every byte of every file.
    Full,
    /// Everything that `Quick` reads, and a share of the samples that a seed chooses.
    Sample {
        /// The share, above 0 and up to 1; at least one sample is read.
        fraction: f64,
        /// The seed; another one chooses other samples.
        seed: u64,
    },
}

/// Options of [`verify`](crate::verify).
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// How much of the bundle is read.
    pub mode: Mode,
    /// Number of threads; each takes whole shards.
    pub jobs: usize,
    /// The bundle digest that is expected.
    pub digest: Option<Digest>,
    /// The most keys listed for one fault; further ones are counted.
    pub max_keys: usize,
    /// The splits whose shards are verified; all if the list is empty. For folders with a part of a
    /// bundle.
    pub splits: Vec<Split>,
}

impl Default for VerifyOptions {
    /// Returns the defaults: full, one thread, any digest, 20 keys.
    fn default() -> Self {
        Self { mode: Mode::Full, jobs: 1, digest: None, max_keys: 20, splits: Vec::new() }
    }
}

impl VerifyOptions {
    /// Returns the manifest without the shards of other splits.
    ///
    /// # Errors
    /// [`NoSplit`](gular_transfer::Error::NoSplit), as when such a split is fetched: otherwise a
    /// bundle without that split would be found undamaged.
    pub(crate) fn part_of(&self, manifest: &Manifest) -> Result<Manifest, Error> {
        gular_transfer::has_splits(manifest, &self.splits)?;
        let mut part = manifest.clone();
        part.shards.retain(|shard| self.splits.is_empty() || self.splits.contains(&shard.split));
        Ok(part)
    }
}
