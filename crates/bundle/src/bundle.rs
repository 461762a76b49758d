//! An opened bundle: it reads samples the same way from every envelope.
//!
//! ```text
//! DIR/manifest.json
//! DIR/data/<split>-<16 hex>.<ext>                shards
//! DIR/data/<split>-<16 hex>.index.safetensors    their indexes
//! ```
//!
//! The shards may also be in the other places where [`data_folder`] looks.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use gular_files::open_files_limit;

use crate::manifest::{MANIFEST_NAME, MAX_MANIFEST_BYTES};
use crate::open_shards::{OpenCounts, OpenShards};
use crate::shard::{Known, Sidecar};
use crate::shard_source::NEVER;
use crate::{
    Backend, BundlePath, CheckWhen, Digest, Error, FieldIdx, FileEntry, Index, Manifest, Mend,
    NotBrought, ReadAt, Row, Shard, ShardEntry, ShardIdx, ShardSource, Split, data_folder,
    stored_file,
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
    /// Bytes of indexes in memory (93 per sample, and 4 KB per shard). An index for which there is
    /// no room is read on the disk, by six small reads per sample. Maps are not counted.
    ///
    /// Beside these, a bundle keeps one bit per sample and field, and a few hundred bytes per
    /// shard; for views, two bits per sample of their indexes, and 8 bytes per label; and, while a
    /// shard is opened for the first time, its whole index.
    pub index_bytes: u64,
    /// Most files that are open or mapped at a time; each open shard has one or two. `None` takes
    /// half of what the system allows this process: of `ulimit -n`, or of Linux's 65,530 maps.
    pub open_files: Option<usize>,
}

// Half of the maps that Linux allows a process (`vm.max_map_count`).
const MAPS: usize = 32_765;

impl Default for OpenOptions {
    /// Returns the defaults: positional reads, checks on first touch, any digest, 56 MiB of
    /// indexes.
    fn default() -> Self {
        Self {
            backend: Backend::Pread,
            check: CheckWhen::FirstTouch,
            digest: None,
            index_bytes: 56 << 20,
            open_files: None,
        }
    }
}

/// The shard and the row of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleId {
    /// The shard that has the sample.
    pub shard: ShardIdx,
    /// The sample's row in the shard.
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
    /// For each split, the number of the first sample of each of its shards, and the shard.
    starts: [Vec<(u64, ShardIdx)>; 3],
    /// Names of the fields.
    fields: Arc<[String]>,
    open: OpenShards,
    /// The source of shards that are not in the folder.
    source: Option<Arc<dyn ShardSource>>,
    /// Fetches damaged blocks again.
    mender: Option<Arc<dyn Mend>>,
    /// The number of blocks and listings that were fetched again, for each shard.
    mended: Mutex<BTreeMap<ShardIdx, u64>>,
    /// Keeps the files from being removed.
    #[expect(dead_code, reason = "held until it is dropped")]
    guard: Option<Box<dyn Guard>>,
}

/// A value that ends something when it is dropped, such as a lock.
trait Guard: fmt::Debug + Send + Sync {}
impl<T: fmt::Debug + Send + Sync> Guard for T {}

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
        let fields = manifest.fields.iter().map(|f| f.name.to_string()).collect();
        let files = options.open_files.unwrap_or(match options.backend {
            Backend::Pread => open_files_limit() / 2,
            Backend::Map => MAPS,
        });
        let open = OpenShards::new(options.index_bytes, files);
        Ok(Self {
            dir: dir.to_owned(),
            data,
            manifest,
            digest,
            options,
            starts,
            fields,
            open,
            source: None,
            mender: None,
            mended: Mutex::default(),
            guard: None,
        })
    }

    /// Sets what fetches damaged blocks again when they are first read.
    #[must_use]
    pub fn with_mender(self, mender: Arc<dyn Mend>) -> Self {
        Self { mender: Some(mender), ..self }
    }

    /// Fetches the blocks again that hold this value, as far as they are damaged. Returns whether
    /// that was possible, so that the value can be read again; never for a bundle that has no
    /// [`with_mender`](Self::with_mender). Ends soon once `cancel` is set.
    ///
    /// # Errors
    /// [`NotBrought`].
    pub fn mend(
        &self,
        sample: SampleId,
        field: FieldIdx,
        cancel: &AtomicBool,
    ) -> Result<bool, NotBrought> {
        let Some(mender) = &self.mender else { return Ok(false) };
        let Ok(index) = self.index(sample.shard) else { return Ok(false) };
        let Some((start, len)) = index.range(sample.row, field) else { return Ok(false) };
        let range = start..start.saturating_add(len as u64);
        let name = sample.shard.of(&self.manifest.shards).map(|entry| entry.file.name.to_string());
        let named = |error| NotBrought { shard: name.unwrap_or_default(), ..error };
        let n = mender.mend(sample.shard, &index, range, cancel).map_err(named)?;
        self.count_mended(sample.shard, n);
        Ok(true)
    }

    fn count_mended(&self, shard: ShardIdx, n: u64) {
        if n > 0 {
            let mut mended = self.mended.lock().unwrap_or_else(PoisonError::into_inner);
            let count = mended.entry(shard).or_default();
            *count = count.saturating_add(n);
        }
    }

    /// Calls `open`, and again with the right index and view, if one of them is another file than
    /// the manifest lists and can be fetched.
    fn with_listings<T>(
        &self,
        shard: ShardIdx,
        cancel: &AtomicBool,
        open: impl Fn() -> Result<T, Error>,
    ) -> Result<T, Error> {
        match (open(), &self.mender) {
            (Err(error), Some(mender)) if error.is_another_file() => {
                // Where no right file comes, the first error says what is wrong.
                let Ok(n) = mender.mend_listings(shard, cancel) else { return Err(error) };
                self.count_mended(shard, n);
                if n > 0 { open() } else { Err(error) }
            }
            (opened, _) => opened,
        }
    }

    /// Returns the shards of which something was damaged and fetched again, with the number of
    /// blocks; an index or a view counts as one.
    pub fn mended(&self) -> Vec<(String, u64)> {
        let mended = self.mended.lock().unwrap_or_else(PoisonError::into_inner);
        let named = mended.iter().filter_map(|(shard, n)| {
            Some((shard.of(&self.manifest.shards)?.file.name.to_string(), *n))
        });
        named.collect()
    }

    /// Sets the source that fetches shards when they are needed. A reader of a shard holds and
    /// brings it first, as the loader of `gular-runtime` does.
    #[must_use]
    pub fn with_source(self, source: Arc<dyn ShardSource>) -> Self {
        Self { source: Some(source), ..self }
    }

    /// The source that fetches shards; `None` if all shards are in the folder.
    #[must_use]
    pub fn source(&self) -> Option<&Arc<dyn ShardSource>> {
        self.source.as_ref()
    }

    /// Keeps `guard`, such as a lock of the bundle's files, as long as the bundle is open.
    #[must_use]
    pub fn with_guard(self, guard: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self { guard: Some(Box::new(guard)), ..self }
    }

    /// The manifest, which lists all that the bundle consists of.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The digest of the manifest, which identifies the bundle.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The folder that the bundle was opened from.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads the `blocks` of a shard in order, and hands each to `take` with the position of its
    /// first byte, once the index has confirmed its bytes.
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
        let (tree, data) = (open.index()?.blocks(), open.data());
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

    /// Reads all bytes of an index, or of another small file in the manifest.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Length`] and [`Error::Digest`] when they are not those
    /// that the manifest lists.
    pub fn read_file(&self, entry: &FileEntry) -> Result<Vec<u8>, Error> {
        let bytes = self.read_len(entry)?;
        entry.accept(&self.path_of(entry).display().to_string(), &bytes)?;
        Ok(bytes)
    }

    /// Reads all bytes of a file and checks its length, but not its digest.
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

    /// Checks in the file system that every shard and index exists and has the length in the
    /// manifest: a cut copy is found before much is read.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Length`].
    pub fn check_lengths(&self) -> Result<(), Error> {
        for entry in self.manifest.shards.iter().flat_map(ShardEntry::files) {
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

    /// Returns the path of a shard or index, whether or not it exists.
    #[must_use]
    pub fn path_of(&self, file: &FileEntry) -> PathBuf {
        stored_file(&self.data, file)
    }

    /// The number of samples of `split`.
    #[must_use]
    pub fn n_samples(&self, split: Split) -> u64 {
        self.manifest.n_samples(split)
    }

    /// Returns the shard and row of sample `index` of `split`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] past the last sample.
    pub fn locate(&self, split: Split, index: u64) -> Result<SampleId, Error> {
        let n_samples = self.n_samples_of(split);
        let starts = self.starts_of(split);
        let place = place_of(starts, index, n_samples).and_then(|at| starts.get(at));
        let Some((start, shard)) = place else {
            return Err(Error::OutOfRange { what: split.to_string(), index, n_samples });
        };
        let row = usize::try_from(index.saturating_sub(*start)).unwrap_or(usize::MAX);
        Ok(SampleId { shard: *shard, row: Row(row) })
    }

    /// Opens a shard, or returns it when it is open already. Threads that want the same one
    /// open it once.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a shard the manifest does not list; [`Error::Io`];
    /// [`Error::Length`]; those of [`Index::accept`].
    pub fn shard(&self, shard: ShardIdx) -> Result<Arc<Shard>, Error> {
        self.shard_until(shard, &NEVER)
    }

    /// Like [`Bundle::shard`]. If the shard's index is damaged and is fetched again, this ends soon
    /// once `cancel` is set.
    ///
    /// # Errors
    /// Those of [`Bundle::shard`].
    pub fn shard_until(&self, shard: ShardIdx, cancel: &AtomicBool) -> Result<Arc<Shard>, Error> {
        let n_samples = self.manifest.shards.len() as u64;
        let entry = shard.of(&self.manifest.shards).ok_or_else(|| Error::OutOfRange {
            what: "the list of shards".into(),
            index: shard.0 as u64,
            n_samples,
        })?;
        self.open.get(shard, |known| {
            self.with_listings(shard, cancel, || self.open_shard(entry, known.clone()))
        })
    }

    /// Closes a shard, so that its file takes no space once it is removed. The shard is opened
    /// again when it is asked for.
    pub fn close(&self, shard: ShardIdx) {
        self.open.close(shard);
    }

    /// Returns the index of a shard, which says where its samples are. The shard itself may be
    /// absent: in a job that was sent only some shards, and in a bundle whose shards are fetched on
    /// demand.
    ///
    /// # Errors
    /// Those of [`Bundle::shard`].
    pub fn index(&self, shard: ShardIdx) -> Result<Arc<Index>, Error> {
        if let Some(open) = self.open.opened(shard) {
            return open.index();
        }
        let entry = match (&self.source, shard.of(&self.manifest.shards)) {
            (Some(_), Some(entry)) => entry,
            (None, Some(entry)) if !self.path_of(&entry.file).exists() => entry,
            _ => return self.shard(shard)?.index(),
        };
        self.with_listings(shard, &NEVER, || {
            let file = self.open_entry(&entry.index)?;
            let (path, held) = (file.path(), file.read_whole()?);
            let view = self.read_view(entry)?;
            Ok(Arc::new(Index::accept_file(&path, held, view.as_deref(), &self.manifest, entry)?))
        })
    }

    /// Reads the bytes of a shard's view; `None` if the shard has none.
    fn read_view(&self, entry: &ShardEntry) -> Result<Option<Vec<u8>>, Error> {
        entry.view.as_ref().map(|view| self.read_file(view)).transpose()
    }

    /// Returns counts of what the bundle has opened so far, and of what it has open now.
    #[must_use]
    pub fn opened(&self) -> OpenCounts {
        self.open.counts()
    }

    fn open_shard(&self, entry: &ShardEntry, known: Option<Arc<Known>>) -> Result<Shard, Error> {
        let backend = self.options.backend;
        let open = |entry: &FileEntry| self.open_entry(entry);
        let file = open(&entry.index)?;
        if let Some(known) = known {
            let data = open(&entry.file)?;
            if known.is_of(&data, &file) {
                return self.open_again(data, file, known);
            }
        }
        let (path, len) = (file.path(), file.len_bytes());
        let (held, on_disk) = match backend {
            Backend::Map => (file, None),
            Backend::Pread => (file.read_whole()?, Some(file)),
        };
        let view = self.read_view(entry)?;
        let index = Index::accept_file(&path, held, view.as_deref(), &self.manifest, entry)?;
        let data = open(&entry.file)?;
        let known = Known::new(&data, &index, self.options.check);
        let sidecar = match on_disk {
            Some(file) if !self.open.make_room(len) => Sidecar::OnDisk(file),
            _ => Sidecar::Held(Arc::new(index)),
        };
        Ok(self.shard_of(data, sidecar, known))
    }

    fn open_entry(&self, entry: &FileEntry) -> Result<ReadAt, Error> {
        let file = ReadAt::open(&self.path_of(entry), self.options.backend)?;
        let (expected, found) = (entry.bytes, file.len_bytes());
        if found != expected {
            return Err(Error::Length { path: file.path(), expected, found });
        }
        Ok(file)
    }

    /// Opens a shard whose index was accepted before and has not changed since.
    fn open_again(&self, data: ReadAt, file: ReadAt, known: Arc<Known>) -> Result<Shard, Error> {
        let layout = Arc::clone(known.layout());
        let sidecar = match file.is_mapped() {
            true => Sidecar::Held(Arc::new(Index::again(file, layout))),
            false if self.open.make_room(file.len_bytes()) => {
                let held = file.read_whole().and_then(|held| file.check_unchanged().map(|()| held));
                let held = held.inspect_err(|_| self.open.leave_room(file.len_bytes()))?;
                Sidecar::Held(Arc::new(Index::again(held, layout)))
            }
            false => Sidecar::OnDisk(file),
        };
        Ok(self.shard_of(data, sidecar, known))
    }

    fn shard_of(&self, data: ReadAt, sidecar: Sidecar, known: Arc<Known>) -> Shard {
        Shard::new(data, sidecar, known, Arc::clone(&self.fields), self.options.check)
    }

    /// Reads field `field` of a sample into `out`. If its bytes are damaged, this tries to
    /// [`mend`](Self::mend) them.
    ///
    /// # Errors
    /// Those of [`Bundle::shard`] and [`Shard::read`].
    pub fn read(&self, sample: SampleId, field: FieldIdx, out: &mut Vec<u8>) -> Result<(), Error> {
        let shard = self.shard(sample.shard)?;
        match shard.read(sample.row, field, out) {
            Err(error)
                if error.is_damage() && matches!(self.mend(sample, field, &NEVER), Ok(true)) =>
            {
                shard.read(sample.row, field, out)
            }
            read => read,
        }
    }

    /// The key of a sample.
    ///
    /// # Errors
    /// Those of [`Bundle::shard`]; [`Error::OutOfRange`].
    pub fn key(&self, sample: SampleId) -> Result<BundlePath, Error> {
        let out_of = |what: String, n_samples: usize| Error::OutOfRange {
            what,
            index: sample.row.0 as u64,
            n_samples: n_samples as u64,
        };
        if self.source.is_some() {
            let index = self.index(sample.shard)?;
            let key = index.key(sample.row);
            let key = key.ok_or_else(|| out_of("its index".into(), index.n_samples()))?;
            return Ok(BundlePath::parse(key)?);
        }
        let shard = self.shard(sample.shard)?;
        let key = shard.key(sample.row)?;
        let key = key.ok_or_else(|| out_of(shard.data().path(), shard.n_samples()))?;
        Ok(BundlePath::parse(&key)?)
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

/// Returns the position in `starts` of the shard with sample `index` of `n_samples`.
fn place_of(starts: &[(u64, ShardIdx)], index: u64, n_samples: u64) -> Option<usize> {
    if index >= n_samples {
        return None;
    }
    // Most shards have the same size, so this guess is usually right and nothing is searched.
    let share = u128::from(index).checked_mul(starts.len() as u128)?;
    let guess = usize::try_from(share.checked_div(u128::from(n_samples))?).ok()?;
    let begins = |at: usize| starts.get(at).is_some_and(|(start, _)| *start <= index);
    let next = guess.checked_add(1)?;
    if begins(guess) && !begins(next) {
        return Some(guess);
    }
    starts.partition_point(|(start, _)| *start <= index).checked_sub(1)
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;

    use super::*;
    use crate::{
        About, DATA_DIR, Envelope, Field, FieldName, Payload, ShardSpec, ShardWriter,
        write_manifest,
    };

    #[test]
    fn a_sample_is_found_in_shards_of_any_sizes() {
        for sizes in [&[5_u64, 5, 5, 2][..], &[1, 100, 0, 3], &[0, 0, 7], &[9], &[50, 1, 1, 1]] {
            let mut starts = Vec::new();
            let mut expected = Vec::new();
            for (shard, size) in sizes.iter().enumerate() {
                starts.push((expected.len() as u64, ShardIdx(shard)));
                expected.extend((0..*size).map(|_| shard));
            }
            let n = expected.len() as u64;
            let found = (0..n).map(|index| place_of(&starts, index, n).unwrap());
            assert_eq!(found.collect::<Vec<_>>(), expected, "{sizes:?}");
            assert_eq!(place_of(&starts, n, n), None);
        }
        assert_eq!(place_of(&[], 0, 0), None);
    }

    /// A bundle of two shards with a sample each.
    fn two_shards(dir: &Path) -> Bundle {
        let data = dir.join(DATA_DIR);
        std::fs::create_dir(&data).unwrap();
        let fields = vec![Field::bytes(FieldName::image(), vec!["image/png".into()])];
        let shards = ["a", "b"].map(|key| {
            let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
            let mut writer = ShardWriter::create(&data, &spec).unwrap();
            writer.push(&BundlePath::parse(key).unwrap(), &[key.as_bytes()]).unwrap();
            writer.finish().unwrap()
        });
        let manifest = Manifest {
            envelope: Envelope::Shards,
            payload: Payload::Encoded,
            classes: Vec::new(),
            fields,
            made: [].into(),
            about: About::default(),
            statistics: None,
            shards: shards.into(),
        };
        write_manifest(dir, &manifest).unwrap();
        Bundle::open(dir, OpenOptions::default()).unwrap()
    }

    #[test]
    fn an_index_is_read_where_its_shard_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = two_shards(dir.path());
        std::fs::remove_file(bundle.path_of(&bundle.manifest.shards[1].file)).unwrap();
        assert_eq!(bundle.index(ShardIdx(1)).unwrap().n_samples(), 1);
        assert!(matches!(bundle.shard(ShardIdx(1)), Err(Error::Io { .. })));
        assert_eq!(bundle.index(ShardIdx(0)).unwrap().n_samples(), 1);
    }

    #[test]
    fn when_no_file_is_left_to_open_shards_are_closed_and_it_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = two_shards(dir.path());
        bundle.shard(ShardIdx(0)).unwrap();
        let tries = Cell::new(0);
        let open = |known| {
            tries.set(tries.get() + 1);
            match bundle.opened().open {
                0 => bundle.open_shard(&bundle.manifest.shards[1], known),
                // Opening fails with EMFILE while another shard is open.
                _ => Err(Error::io("open", Path::new("x"), io::Error::from_raw_os_error(24))),
            }
        };
        bundle.open.get(ShardIdx(1), open).unwrap();
        assert_eq!((tries.get(), bundle.opened().open), (2, 1));
        let never = |_| Err(Error::io("open", Path::new("x"), io::Error::from_raw_os_error(24)));
        assert!(bundle.open.get(ShardIdx(0), never).is_err());
        // No thread still waits for the shard.
        bundle.shard(ShardIdx(0)).unwrap();
    }
}
