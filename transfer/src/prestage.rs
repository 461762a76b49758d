//! Bringing a bundle into a cache, so that a thousand jobs find it there.
//!
//! Every byte is read from that cache and checked, and none is kept: what the cache gave
//! right once it has.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use gular_bundle::{Digest, FileEntry, Index, ShardEntry, Split};
use gular_files::parallel;
use gular_pelican::{Client, Copy};
use serde::Serialize;

use crate::{BundleUrl, Error, Published, RemoteBundle, Watch};

/// What is brought, and how.
#[derive(Debug, Clone)]
pub struct PrestageOptions {
    /// These splits; all when empty.
    pub splits: Vec<Split>,
    /// Shards at a time.
    pub jobs: usize,
}

impl Default for PrestageOptions {
    /// All splits, four shards at a time.
    fn default() -> Self {
        Self { splits: Vec::new(), jobs: 4 }
    }
}

/// What was brought.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrestageReport {
    /// `URL#blake3=…`.
    pub url: BundleUrl,
    /// The bundle's identity.
    pub digest: Digest,
    /// The cache: `https://HOST[:PORT]`.
    pub cache: String,
    /// Files of the bundle, the manifest included.
    pub files: u64,
    /// Their bytes, all of which the cache gave and which were right.
    pub bytes: u64,
    /// Of these, bytes of files that the cache had already.
    pub bytes_there: u64,
    /// Of these, bytes of files that it fetched now.
    pub bytes_brought: u64,
    /// Bytes of files of which it did not say.
    pub bytes_unknown: u64,
    /// Wall-clock time.
    pub seconds: f64,
}

/// Reads all of the bundle at `url` through `cache`, the one that all reads of `client` go to.
///
/// # Errors
/// [`Error::NoSplit`], those of [`RemoteBundle::open`], [`Error::Pelican`]; among these [`gular_pelican::Error::Corrupt`]
/// when the cache has other bytes.
pub fn prestage(
    client: &Client,
    url: &BundleUrl,
    cache: &str,
    options: &PrestageOptions,
    watch: Watch<'_>,
) -> Result<PrestageReport, Error> {
    let start = Instant::now();
    let manifest = client.copy_of(Published::at(&url.url)?.manifest(), watch.cancel)?;
    let remote = &RemoteBundle::open(client, url, watch.cancel)?;
    let shards = remote.shards_of(&options.splits)?;
    let manifest_len = remote.manifest_bytes().len() as u64;
    let lens = shards.iter().map(|shard| shard.bytes());
    let total = lens.fold(manifest_len, u64::saturating_add);
    let counts = Counts::default();
    counts.of(manifest).fetch_add(manifest_len, Ordering::Relaxed);
    let done = AtomicU64::new(manifest_len);
    let advance = |n: u64| (watch.progress)(done.fetch_add(n, Ordering::Relaxed) + n, total);
    let work = |shard: &&ShardEntry, stop: &AtomicBool| {
        Job { client, remote, counts: &counts, advance: &advance, cancel: stop }.shard(shard)
    };
    parallel(&shards, options.jobs, watch.cancel, work)?;
    watch.check()?;
    Ok(PrestageReport {
        url: remote.url().clone(),
        digest: remote.digest(),
        cache: cache.to_owned(),
        files: 2 * shards.len() as u64 + 1,
        bytes: total,
        bytes_there: counts.there.into_inner(),
        bytes_brought: counts.brought.into_inner(),
        bytes_unknown: counts.unknown.into_inner(),
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Bytes of files that the cache had, lacked, or did not tell of.
#[derive(Default)]
struct Counts {
    there: AtomicU64,
    brought: AtomicU64,
    unknown: AtomicU64,
}

impl Counts {
    fn of(&self, copy: Copy) -> &AtomicU64 {
        match copy {
            Copy::There => &self.there,
            Copy::Absent => &self.brought,
            Copy::Unknown => &self.unknown,
        }
    }
}

/// One shard with its index.
struct Job<'a> {
    client: &'a Client,
    remote: &'a RemoteBundle,
    counts: &'a Counts,
    advance: &'a (dyn Fn(u64) + Sync),
    cancel: &'a AtomicBool,
}

impl Job<'_> {
    fn shard(&self, shard: &ShardEntry) -> Result<(), Error> {
        let Self { client, remote, cancel, .. } = self;
        self.count(&shard.index)?;
        let bytes = remote.read(client, &shard.index, cancel)?;
        (self.advance)(bytes.len() as u64);
        let mut view = None;
        if let Some(file) = &shard.view {
            self.count(file)?;
            let bytes = remote.read(client, file, cancel)?;
            (self.advance)(bytes.len() as u64);
            view = Some(bytes);
        }
        let (name, manifest) = (shard.index.name.as_str(), remote.manifest());
        let index = Index::accept(name, bytes, view.as_deref(), manifest, shard)?;
        self.count(&shard.file)?;
        let tree = index.blocks();
        let accepts = |block: u64, bytes: &[u8]| tree.accepts(block, bytes);
        let mut sink = |_: u64, bytes: &[u8]| {
            (self.advance)(bytes.len() as u64);
            Ok(())
        };
        remote.stream(client, &shard.file, &accepts, 0, &mut sink, cancel)
    }

    /// Notes whether the cache has the file, before it is made to.
    fn count(&self, file: &FileEntry) -> Result<(), Error> {
        let copy = self.remote.copy_of(self.client, file, self.cancel)?;
        self.counts.of(copy).fetch_add(file.bytes, Ordering::Relaxed);
        Ok(())
    }
}
