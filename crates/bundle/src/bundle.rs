//! An opened bundle: the one reader of samples, whatever the envelope.
//!
//! ```text
//! DIR/manifest.json
//! DIR/data/<split>-<16 hex>.<ext>                shards
//! DIR/data/<split>-<16 hex>.index.safetensors    their indexes
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::manifest::{DATA_DIR, MANIFEST_NAME, MAX_MANIFEST_BYTES};
use crate::{
    Backend, BundlePath, Digest, Error, FileEntry, Index, Location, Manifest, ReadAt, SampleFault,
    ShardEntry, Split,
};

/// When the bytes of a sample are compared with the digest in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Check {
    /// Whoever brought the files here checked them block by block.
    OnFetch,
    /// The first time a sample is read since its shard was opened.
    #[default]
    FirstTouch,
    /// Every time.
    Always,
}

/// How to open a bundle.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// How files are read.
    pub backend: Backend,
    /// When samples are checked.
    pub check: Check,
    /// The bundle digest that is wanted; another one is an error.
    pub digest: Option<Digest>,
    /// Shards open at a time; with their indexes this bounds memory and, for
    /// [`Backend::Pread`], file descriptors.
    pub max_open_shards: usize,
}

impl Default for OpenOptions {
    /// Positional reads, checked on first touch, any digest, 256 shards.
    fn default() -> Self {
        Self {
            backend: Backend::Pread,
            check: Check::FirstTouch,
            digest: None,
            max_open_shards: 256,
        }
    }
}

/// A sample: which shard, which row in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleId {
    /// Position in [`Manifest::shards`].
    pub shard: usize,
    /// Sample within the shard.
    pub row: usize,
}

/// A bundle in a local folder.
#[derive(Debug)]
pub struct Bundle {
    dir: PathBuf,
    data: PathBuf,
    manifest: Manifest,
    digest: Digest,
    options: OpenOptions,
    /// Per split: first sample number of each of its shards, and the shard.
    starts: [Vec<(u64, usize)>; 3],
    open: Mutex<OpenShards>,
}

#[derive(Debug, Default)]
struct OpenShards {
    shards: HashMap<usize, (Arc<Shard>, u64)>,
    clock: u64,
}

impl Bundle {
    /// Opens the bundle in folder `dir`: reads and checks its manifest, no more.
    ///
    /// Shards and indexes open on first touch, each checked against the
    /// manifest: length of the shard, digest of the index.
    ///
    /// # Errors
    /// [`Error::Io`], those of [`Manifest::parse`], and [`Error::Digest`] when
    /// [`OpenOptions::digest`] names another bundle.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<Self, Error> {
        let path = dir.join(MANIFEST_NAME);
        let file = ReadAt::open(&path, Backend::Pread)?;
        let (found, limit) = (file.len_bytes(), MAX_MANIFEST_BYTES);
        if found > limit {
            return Err(Error::TooLarge { path: file.path(), what: "a manifest", found, limit });
        }
        let mut bytes = vec![0; usize::try_from(found).unwrap_or(0)];
        file.read_at(0, &mut bytes)?;
        let digest = Digest::of(&bytes);
        if let Some(expected) = options.digest.filter(|expected| *expected != digest) {
            return Err(Error::Digest { path: file.path(), expected, found: digest });
        }
        let manifest = Manifest::parse(&file.path(), &bytes)?;
        let starts = Split::ALL.map(|split| starts(&manifest, split));
        let data = dir.join(DATA_DIR);
        Ok(Self {
            dir: dir.to_owned(),
            data,
            manifest,
            digest,
            options,
            starts,
            open: Mutex::default(),
        })
    }

    /// What the bundle consists of.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The bundle's identity.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The folder it was opened from.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads the `blocks` of a shard that it has, in order, and hands each to `take` with
    /// its first byte's position, once the index has said that it is right.
    ///
    /// # Errors
    /// Those of [`Bundle::shard`]; [`Error::Block`] when one is wrong;
    /// what `take` returns.
    pub fn copy<E: From<Error>>(
        &self,
        shard: usize,
        blocks: Range<u64>,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let open = self.shard(shard)?;
        let (tree, data) = (&open.index().blocks, open.data());
        let mut buffer = Vec::new();
        for block in blocks.start..blocks.end.min(tree.n_blocks() as u64) {
            let Range { start, end } = tree.range(block);
            let piece = tree.read(data, block, &mut buffer)?;
            if !tree.accepts(block, piece) {
                return Err(Error::Block { path: data.path(), start, end }.into());
            }
            take(start, piece)?;
        }
        Ok(())
    }

    /// All bytes of an index, or of another small file of the manifest.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Length`] and [`Error::Digest`] when they are not those
    /// that the manifest lists.
    pub fn read_file(&self, entry: &FileEntry) -> Result<Vec<u8>, Error> {
        let bytes = self.read_len(entry)?;
        entry.accept(&self.path_of(entry).display().to_string(), &bytes)?;
        Ok(bytes)
    }

    /// All bytes of a file that is as long as the manifest says, whatever they are.
    fn read_len(&self, entry: &FileEntry) -> Result<Vec<u8>, Error> {
        let file = ReadAt::open(&self.path_of(entry), Backend::Pread)?;
        let (expected, found) = (entry.bytes, file.len_bytes());
        if found != expected {
            return Err(Error::Length { path: file.path(), expected, found });
        }
        let mut bytes = vec![0; usize::try_from(found).unwrap_or(0)];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Asks the file system whether every shard and index is there and as long as
    /// the manifest says: a cut copy is found before much is read.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Length`].
    pub fn check_lengths(&self) -> Result<(), Error> {
        for entry in self.manifest.shards.iter().flat_map(|shard| [&shard.file, &shard.index]) {
            let path = self.path_of(entry);
            let shown = || path.display().to_string();
            let metadata = std::fs::metadata(&path);
            let metadata =
                metadata.map_err(|source| Error::Io { action: "read", path: shown(), source })?;
            let (expected, found) = (entry.bytes, metadata.len());
            if found != expected {
                return Err(Error::Length { path: shown(), expected, found });
            }
        }
        Ok(())
    }

    /// Where a shard or index of the manifest lies.
    #[must_use]
    pub fn path_of(&self, file: &FileEntry) -> PathBuf {
        self.data.join(file.name.as_str())
    }

    /// The number of samples of `split`.
    #[must_use]
    pub fn n_samples(&self, split: Split) -> u64 {
        self.manifest.n_samples(split)
    }

    /// The shard and row of sample `index` of `split`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] past the last sample.
    pub fn locate(&self, split: Split, index: u64) -> Result<SampleId, Error> {
        let n_samples = self.n_samples_of(split);
        let starts = self.starts_of(split);
        let after = starts.partition_point(|(start, _)| *start <= index);
        let place = after.checked_sub(1).and_then(|i| starts.get(i)).filter(|_| index < n_samples);
        let Some((start, shard)) = place else {
            return Err(Error::OutOfRange { what: split.to_string(), index, n_samples });
        };
        let row = usize::try_from(index.saturating_sub(*start)).unwrap_or(usize::MAX);
        Ok(SampleId { shard: *shard, row })
    }

    /// Opens a shard, or returns it when it is open already.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a shard the manifest does not list; those of [`Shard::open`].
    pub fn shard(&self, shard: usize) -> Result<Arc<Shard>, Error> {
        if let Some(found) = self.lock().get(shard) {
            return Ok(found);
        }
        let n_samples = self.manifest.shards.len() as u64;
        let entry = self.manifest.shards.get(shard).ok_or_else(|| Error::OutOfRange {
            what: "the list of shards".into(),
            index: shard as u64,
            n_samples,
        })?;
        // Opened outside the lock, so that other shards stay readable meanwhile.
        let opened = Arc::new(Shard::open(self, entry)?);
        Ok(self.lock().insert(shard, opened, self.options.max_open_shards.max(1)))
    }

    /// Reads field `field` (its position in [`Manifest::fields`]) of a sample into `out`.
    ///
    /// # Errors
    /// Those of [`Bundle::shard`] and [`Shard::read`].
    pub fn read(&self, sample: SampleId, field: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        self.shard(sample.shard)?.read(sample.row, field, out)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OpenShards> {
        // A panic elsewhere cannot leave the map half-changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn starts_of(&self, split: Split) -> &[(u64, usize)] {
        let [train, val, test] = &self.starts;
        match split {
            Split::Train => train,
            Split::Val => val,
            Split::Test => test,
        }
    }

    fn n_samples_of(&self, split: Split) -> u64 {
        self.starts_of(split).last().map_or(0, |(start, shard)| {
            let samples = self.manifest.shards.get(*shard).map_or(0, |s| s.samples);
            start.saturating_add(samples)
        })
    }
}

impl OpenShards {
    fn get(&mut self, shard: usize) -> Option<Arc<Shard>> {
        self.clock = self.clock.wrapping_add(1);
        let now = self.clock;
        self.shards.get_mut(&shard).map(|(shard, used)| {
            *used = now;
            Arc::clone(shard)
        })
    }

    /// Keeps `opened` unless another thread was first, and drops the longest unused.
    fn insert(&mut self, shard: usize, opened: Arc<Shard>, most: usize) -> Arc<Shard> {
        if let Some(first) = self.get(shard) {
            return first;
        }
        while self.shards.len() >= most {
            let oldest = self.shards.iter().min_by_key(|(_, (_, used))| *used).map(|(k, _)| *k);
            match oldest {
                Some(oldest) => drop(self.shards.remove(&oldest)),
                None => break,
            }
        }
        self.shards.insert(shard, (Arc::clone(&opened), self.clock));
        opened
    }
}

fn starts(manifest: &Manifest, split: Split) -> Vec<(u64, usize)> {
    let mut next = 0_u64;
    let of_split = manifest.shards.iter().enumerate().filter(|(_, s)| s.split == split);
    of_split
        .map(|(i, s)| {
            let start = next;
            next = next.saturating_add(s.samples);
            (start, i)
        })
        .collect()
}

/// An open shard with its index.
#[derive(Debug)]
pub struct Shard {
    data: ReadAt,
    index: Index,
    fields: Vec<String>,
    check: Check,
    /// One bit a sample and field: seen whole since the shard was opened.
    checked: Vec<AtomicU64>,
}

impl Shard {
    fn open(bundle: &Bundle, entry: &ShardEntry) -> Result<Self, Error> {
        let fields = &bundle.manifest.fields;
        let path = bundle.path_of(&entry.index).display().to_string();
        let bytes = bundle.read_len(&entry.index)?;
        let index = Index::accept(&path, &bytes, &bundle.manifest, entry)?;
        let data = ReadAt::open(&bundle.path_of(&entry.file), bundle.options.backend)?;
        let (expected, found) = (entry.file.bytes, data.len_bytes());
        if found != expected {
            return Err(Error::Length { path: data.path(), expected, found });
        }
        let bits = index.n_samples().saturating_mul(fields.len());
        Ok(Self {
            data,
            fields: fields.iter().map(|f| f.name.to_string()).collect(),
            check: bundle.options.check,
            checked: (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            index,
        })
    }

    /// Where its samples lie.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The shard's own bytes.
    #[must_use]
    pub fn data(&self) -> &ReadAt {
        &self.data
    }

    /// The class of sample `row`; `None` without labels or past the last sample.
    #[must_use]
    pub fn label(&self, row: usize) -> Option<i32> {
        self.index.labels.as_ref().and_then(|labels| labels.get(row)).copied()
    }

    /// Bytes of field `field` of sample `row`, without reading them.
    #[must_use]
    pub fn len_of(&self, row: usize, field: usize) -> Option<usize> {
        self.index.locations.get(field)?.range(row).map(|(_, len)| len)
    }

    /// Reads field `field` of sample `row` into `out`, replacing what it held.
    ///
    /// # Errors
    /// Those of [`Shard::fetch`] and [`Shard::check`]. `out` is then unspecified.
    pub fn read(&self, row: usize, field: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        self.fetch(row, field, out)?;
        self.check(row, field, out)
    }

    /// The first half of [`Shard::read`], for who measures the two apart: the
    /// bytes are not to be used before [`Shard::check`] accepts them.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; those of [`ReadAt::read_at`]. `out` is then unspecified.
    pub fn fetch(&self, row: usize, field: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        if let (Some(Location::IndexOnly), Some(label)) =
            (self.index.locations.get(field), self.label(row))
        {
            out.clear();
            out.extend_from_slice(&i64::from(label).to_le_bytes());
            return Ok(());
        }
        let (offset, len) = self.range(row, field)?;
        // Lengths were checked against the shard when the index was read.
        out.resize(len, 0);
        self.data.read_at(offset, out)
    }

    /// As [`Shard::fetch`], and lends the bytes: a map's own, which no one copies, or
    /// `buffer`'s.
    ///
    /// # Errors
    /// Those of [`Shard::fetch`].
    pub fn view<'a>(
        &'a self,
        row: usize,
        field: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        if let Ok((offset, len)) = self.range(row, field)
            && let Some(bytes) = self.data.mapped(offset, len)
        {
            return Ok(bytes);
        }
        self.fetch(row, field, buffer)?;
        Ok(buffer)
    }

    /// Compares `bytes`, fetched as field `field` of sample `row`, with the
    /// digest in the index, when [`OpenOptions::check`] asks for it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::SampleDigest`] when they are not those packed.
    pub fn check(&self, row: usize, field: usize, bytes: &[u8]) -> Result<(), Error> {
        let Some(expected) = self.index.digests.get(field).and_then(|d| d.get(row)) else {
            // `label`: the reader uses the index's copy, which the manifest's digest covers.
            return Ok(());
        };
        let (offset, len) = self.range(row, field)?;
        let (word, bit) = self.bit(row, field);
        let seen = word.is_some_and(|w| w.load(Ordering::Relaxed) & bit != 0);
        if self.check == Check::OnFetch || (self.check == Check::FirstTouch && seen) {
            return Ok(());
        }
        let (expected, found) = (Digest::from_bytes(*expected), Digest::of(bytes));
        if found != expected {
            return Err(Error::SampleDigest(Box::new(SampleFault {
                path: self.data.path(),
                key: self.index.key(row).unwrap_or_default().to_owned(),
                field: self.fields.get(field).cloned().unwrap_or_default(),
                offset,
                end: offset.saturating_add(len as u64),
                expected,
                found,
            })));
        }
        if let Some(word) = word {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(())
    }

    fn range(&self, row: usize, field: usize) -> Result<(u64, usize), Error> {
        let range = self.index.locations.get(field).and_then(|l| l.range(row));
        range.ok_or_else(|| Error::OutOfRange {
            what: self.data.path(),
            index: row as u64,
            n_samples: self.index.n_samples() as u64,
        })
    }

    fn bit(&self, row: usize, field: usize) -> (Option<&AtomicU64>, u64) {
        let bit = row.saturating_mul(self.fields.len()).saturating_add(field);
        (self.checked.get(bit / 64), 1_u64 << (bit % 64))
    }
}

/// Writes `manifest.json` of a complete bundle into folder `dir`; returns the bundle digest.
///
/// # Errors
/// [`Error::Io`]; [`Error::Malformed`] when the manifest breaks a rule of the
/// format, [`Error::TooLarge`] when it has too many shards.
pub fn write_manifest(dir: &Path, manifest: &Manifest) -> Result<Digest, Error> {
    let path = dir.join(MANIFEST_NAME);
    let bytes = manifest.to_bytes();
    Manifest::parse(&path.display().to_string(), &bytes)?;
    gular_files::write_file(&path, &bytes)?;
    Ok(Digest::of(&bytes))
}

impl Bundle {
    /// The key of a sample.
    ///
    /// # Errors
    /// Those of [`Bundle::shard`]; [`Error::OutOfRange`].
    pub fn key(&self, sample: SampleId) -> Result<BundlePath, Error> {
        let shard = self.shard(sample.shard)?;
        let key = shard.index.key(sample.row).ok_or_else(|| Error::OutOfRange {
            what: shard.data.path(),
            index: sample.row as u64,
            n_samples: shard.index.n_samples() as u64,
        })?;
        Ok(BundlePath::parse(key)?)
    }
}
