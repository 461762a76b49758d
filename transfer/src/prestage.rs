//! Loads a bundle or an object into a federation's cache, so that many jobs find it there.
//!
//! Every byte is read through that cache and checked, and none is stored here: bytes that the cache
//! gave correctly are in it.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use gular_bundle::{BundlePath, Digest, FileEntry, Index, ShardEntry, Split, StreamDigest};
use gular_files::parallel;
use gular_pelican::{Client, Copy, PlainSink};
use serde::Serialize;

use crate::remote::{by_file, files_of};
use crate::watch::check;
use crate::{BundleUrl, Error, Published, Remote, RemoteBundle, Watch, read_blocks};

/// Options of [`prestage`]: what is read, and how.
#[derive(Debug, Clone)]
pub struct PrestageOptions {
    /// The splits to load; all if the list is empty.
    pub splits: Vec<Split>,
    /// Number of shards that are read at the same time.
    pub jobs: usize,
}

impl Default for PrestageOptions {
    /// Returns the defaults: all splits, four shards at the same time.
    fn default() -> Self {
        Self { splits: Vec::new(), jobs: 4 }
    }
}

/// The result of [`prestage`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrestageReport {
    /// The URL with its digest, `URL#blake3=…`.
    pub url: BundleUrl,
    /// The bundle's digest.
    pub digest: Digest,
    /// Address of the cache, `https://HOST[:PORT]`.
    pub cache: String,
    /// Number of files of the bundle, including the manifest.
    pub files: u64,
    /// Bytes of these files, all of which the cache sent correctly.
    pub bytes: u64,
    /// How many of these bytes the cache already had.
    pub bytes_there: u64,
    /// How many of these bytes the cache fetched now.
    pub bytes_brought: u64,
    /// Bytes of files for which the cache did not say whether it had them.
    pub bytes_unknown: u64,
    /// Why the bytes of an object could not be checked; `None` if they were.
    pub not_checked: Option<String>,
    /// Wall-clock time.
    pub seconds: f64,
}

/// Reads the whole bundle or object at `url` through `cache`, the cache that all reads of `client`
/// use. With an object its block tree is read, if that is stored beside it.
///
/// # Errors
/// [`Error::NoSplit`], those of [`Remote::find`], [`Error::Pelican`]; among these [`gular_pelican::Error::Corrupt`]
/// when the cache has other bytes, or [`Error::ObjectDigest`] for an object.
pub fn prestage(
    client: &Client,
    url: &BundleUrl,
    cache: &str,
    options: &PrestageOptions,
    watch: Watch<'_>,
) -> Result<PrestageReport, Error> {
    let start = Instant::now();
    let manifest = client.copy_of(Published::at(&url.url)?.manifest(), watch)?;
    let remote = &match Remote::find(client, url, watch)? {
        Remote::Bundle(remote) => remote,
        Remote::Object { len_bytes } => return object(client, url, len_bytes, cache, watch),
    };
    let shards = remote.shards_of(&options.splits)?;
    let manifest_len = remote.manifest_bytes().len() as u64;
    let lens = files_of(&shards).map(|file| file.bytes);
    let total = lens.fold(manifest_len, u64::saturating_add);
    let counts = Counts::default();
    counts.of(manifest).fetch_add(manifest_len, Ordering::Relaxed);
    let done = AtomicU64::new(manifest_len);
    let advance = |n: u64| (watch.progress)(done.fetch_add(n, Ordering::Relaxed) + n, total);
    let work = |group: &Vec<&ShardEntry>, stop: &AtomicBool| {
        let watch = watch.until(stop);
        let job = Job { client, remote, counts: &counts, advance: &advance, watch };
        let mut seen = HashSet::new();
        group.iter().try_for_each(|shard| job.shard(shard, &mut seen))
    };
    parallel(&by_file(&shards), options.jobs, watch.cancel, work)?;
    check(watch)?;
    Ok(PrestageReport {
        url: remote.url().clone(),
        digest: remote.digest(),
        cache: cache.to_owned(),
        files: files_of(&shards).count() as u64 + 1,
        bytes: total,
        bytes_there: counts.there.into_inner(),
        bytes_brought: counts.brought.into_inner(),
        bytes_unknown: counts.unknown.into_inner(),
        not_checked: None,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Reads an object through the cache. It is checked with the digest in the URL or that of its block
/// tree, or else with a checksum that a server reports.
fn object(
    client: &Client,
    url: &BundleUrl,
    len_bytes: u64,
    cache: &str,
    watch: Watch<'_>,
) -> Result<PrestageReport, Error> {
    let start = Instant::now();
    let is_wanted = |found: Digest| url.digest.is_none_or(|wanted| wanted == found);
    let tree = read_blocks(client, &url.url, &is_wanted, watch)?;
    let expected = url.digest.or_else(|| tree.map(|tree| tree.digest()));
    let counts = Counts::default();
    counts.of(client.copy_of(&url.url, watch)?).fetch_add(len_bytes, Ordering::Relaxed);
    let mut sink = Hash { digest: StreamDigest::new(), len_bytes, watch };
    let (len, check) = (Some(len_bytes), expected.is_none());
    let read = client.read_plain(&url.url, 0, len, check, &mut sink, watch)?;
    let found = sink.digest.finish();
    if let Some(expected) = expected.filter(|expected| *expected != found) {
        return Err(Error::ObjectDigest { url: url.url.to_string(), expected, found });
    }
    Ok(PrestageReport {
        url: BundleUrl { url: url.url.clone(), digest: Some(found) },
        digest: found,
        cache: cache.to_owned(),
        files: 1,
        bytes: len_bytes,
        bytes_there: counts.there.into_inner(),
        bytes_brought: counts.brought.into_inner(),
        bytes_unknown: counts.unknown.into_inner(),
        not_checked: read.checked.err().filter(|_| check).map(|why| why.to_string()),
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Hashes the bytes of an object, and stores none.
struct Hash<'a> {
    digest: StreamDigest,
    len_bytes: u64,
    watch: Watch<'a>,
}

impl PlainSink for Hash<'_> {
    fn write(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        (self.watch.progress)(position.saturating_add(bytes.len() as u64), self.len_bytes);
        Ok(())
    }

    fn restart(&mut self) -> io::Result<()> {
        self.digest = StreamDigest::new();
        Ok(())
    }
}

/// Bytes of files that the cache had, did not have, or did not report on.
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

/// The task of reading a shard with its index.
struct Job<'a> {
    client: &'a Client,
    remote: &'a RemoteBundle,
    counts: &'a Counts,
    advance: &'a (dyn Fn(u64) + Sync),
    watch: Watch<'a>,
}

impl Job<'_> {
    /// Reads the files of `shard` that are not in `seen`; if the shard itself was seen, only its
    /// index and view.
    fn shard<'a>(
        &self,
        shard: &'a ShardEntry,
        seen: &mut HashSet<&'a BundlePath>,
    ) -> Result<(), Error> {
        let Self { client, remote, watch, .. } = *self;
        let bytes = self.listing(&shard.index, seen)?;
        let view = shard.view.as_ref().map(|view| self.listing(view, seen)).transpose()?;
        let (name, manifest) = (shard.index.name.as_str(), remote.manifest());
        let index = Index::accept(name, bytes, view.as_deref(), manifest, shard)?;
        if !seen.insert(&shard.file.name) {
            return Ok(());
        }
        self.count(&shard.file)?;
        let tree = index.blocks();
        let accepts = |block: u64, bytes: &[u8]| tree.accepts(block, bytes);
        let mut sink = |_: u64, bytes: &[u8]| {
            (self.advance)(bytes.len() as u64);
            Ok(())
        };
        remote.stream(client, &shard.file, &accepts, 0..u64::MAX, &mut sink, watch)
    }

    /// Reads an index or a view, and counts it unless it was seen.
    fn listing<'a>(
        &self,
        file: &'a FileEntry,
        seen: &mut HashSet<&'a BundlePath>,
    ) -> Result<Vec<u8>, Error> {
        let is_new = seen.insert(&file.name);
        if is_new {
            self.count(file)?;
        }
        let bytes = self.remote.read(self.client, file, self.watch)?;
        if is_new {
            (self.advance)(bytes.len() as u64);
        }
        Ok(bytes)
    }

    /// Asks whether the cache has the file, before the file is read through it.
    fn count(&self, file: &FileEntry) -> Result<(), Error> {
        let copy = self.remote.copy_of(self.client, file, self.watch)?;
        self.counts.of(copy).fetch_add(file.bytes, Ordering::Relaxed);
        Ok(())
    }
}
