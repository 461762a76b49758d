//! An opened bundle: the one reader of samples, whatever the envelope.
//!
//! ```text
//! DIR/manifest.json
//! DIR/data/<split>-<16 hex>.<ext>                shards
//! DIR/data/<split>-<16 hex>.index.safetensors    their indexes
//! ```
//!
//! Or where [`data_folder`] finds them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::manifest::{MANIFEST_NAME, MAX_MANIFEST_BYTES};
use crate::open_shards::OpenShards;
use crate::{
    Backend, BundlePath, CheckWhen, Digest, Error, FieldIdx, FileEntry, Index, Manifest, ReadAt,
    Row, Shard, ShardEntry, ShardIdx, Split, data_folder, stored_file,
};

/// How to open a bundle.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// How files are read.
    pub backend: Backend,
    /// When samples are checked.
    pub check: CheckWhen,
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
            check: CheckWhen::FirstTouch,
            digest: None,
            max_open_shards: 256,
        }
    }
}

/// A sample: which shard, which row in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleId {
    /// Which shard.
    pub shard: ShardIdx,
    /// Which sample of it.
    pub row: Row,
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
    starts: [Vec<(u64, ShardIdx)>; 3],
    open: Mutex<OpenShards>,
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
        let data = data_folder(dir, &manifest);
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
        shard: ShardIdx,
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
            let metadata = std::fs::metadata(&path).map_err(|e| Error::io("read", &path, e))?;
            let (expected, found) = (entry.bytes, metadata.len());
            if found != expected {
                return Err(Error::Length { path: shown(), expected, found });
            }
        }
        Ok(())
    }

    /// Where a shard or index of the manifest lies, or would lie.
    #[must_use]
    pub fn path_of(&self, file: &FileEntry) -> PathBuf {
        stored_file(&self.data, file)
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
        Ok(SampleId { shard: *shard, row: Row(row) })
    }

    /// Opens a shard, or returns it when it is open already.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a shard the manifest does not list; those of [`Shard::open`].
    pub fn shard(&self, shard: ShardIdx) -> Result<Arc<Shard>, Error> {
        if let Some(found) = self.lock().get(shard) {
            return Ok(found);
        }
        let n_samples = self.manifest.shards.len() as u64;
        let entry = shard.of(&self.manifest.shards).ok_or_else(|| Error::OutOfRange {
            what: "the list of shards".into(),
            index: shard.0 as u64,
            n_samples,
        })?;
        // Opened outside the lock, so that other shards stay readable meanwhile.
        let opened = Arc::new(self.open_shard(entry)?);
        Ok(self.lock().insert(shard, opened, self.options.max_open_shards.max(1)))
    }

    fn open_shard(&self, entry: &ShardEntry) -> Result<Shard, Error> {
        let path = self.path_of(&entry.index).display().to_string();
        let bytes = self.read_len(&entry.index)?;
        let index = Index::accept(&path, &bytes, &self.manifest, entry)?;
        let data = ReadAt::open(&self.path_of(&entry.file), self.options.backend)?;
        let (expected, found) = (entry.file.bytes, data.len_bytes());
        if found != expected {
            return Err(Error::Length { path: data.path(), expected, found });
        }
        Ok(Shard::new(data, index, &self.manifest.fields, self.options.check))
    }

    /// Reads field `field` of a sample into `out`.
    ///
    /// # Errors
    /// Those of [`Bundle::shard`] and [`Shard::read`].
    pub fn read(&self, sample: SampleId, field: FieldIdx, out: &mut Vec<u8>) -> Result<(), Error> {
        self.shard(sample.shard)?.read(sample.row, field, out)
    }

    /// The key of a sample.
    ///
    /// # Errors
    /// Those of [`Bundle::shard`]; [`Error::OutOfRange`].
    pub fn key(&self, sample: SampleId) -> Result<BundlePath, Error> {
        let shard = self.shard(sample.shard)?;
        let key = shard.index().key(sample.row).ok_or_else(|| Error::OutOfRange {
            what: shard.data().path(),
            index: sample.row.0 as u64,
            n_samples: shard.index().n_samples() as u64,
        })?;
        Ok(BundlePath::parse(key)?)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OpenShards> {
        // A panic elsewhere cannot leave the map half-changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn starts_of(&self, split: Split) -> &[(u64, ShardIdx)] {
        let [train, val, test] = &self.starts;
        match split {
            Split::Train => train,
            Split::Val => val,
            Split::Test => test,
        }
    }

    fn n_samples_of(&self, split: Split) -> u64 {
        self.starts_of(split).last().map_or(0, |(start, shard)| {
            let samples = shard.of(&self.manifest.shards).map_or(0, |s| s.samples);
            start.saturating_add(samples)
        })
    }
}

fn starts(manifest: &Manifest, split: Split) -> Vec<(u64, ShardIdx)> {
    let mut next = 0_u64;
    let of_split = manifest.shards.iter().enumerate().filter(|(_, s)| s.split == split);
    of_split
        .map(|(i, s)| {
            let start = next;
            next = next.saturating_add(s.samples);
            (start, ShardIdx(i))
        })
        .collect()
}
