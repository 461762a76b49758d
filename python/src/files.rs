//! A bundle as files: each shard, and each sample by its key, for readers that do not know bundles.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use gular_runtime::{
    Access, Bundle, BundleOptions, Digest, Env, Error, FieldIdx, Index, LoaderError, NotBrought,
    OpenOptions, Row, SampleId, ShardIdx, ShardSource, SingleValues, Size,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;

use crate::error::raise;
use crate::exit::detached;
use crate::parse_options;
use crate::process_local::ProcessLocal;
use crate::streams::{self, Stream};
use crate::wait::{Waits, done};

/// Single values are requested until they have this share of their shard's bytes, and after that
/// the whole shard: so many requests take about as long as the shard, and little is transferred
/// twice.
const SINGLY_AT_MOST: u64 = 16;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    source: String,
    digest: Option<Digest>,
    cache: Option<PathBuf>,
    token_files: Vec<PathBuf>,
}

/// The shards and samples of a bundle. Of a URL a shard is fetched when a part of it is read that
/// is more than a few samples, and stays in the node's cache.
#[pyclass(frozen, module = "gular._gular")]
pub(crate) struct Files {
    stream: ProcessLocal<Stream>,
    /// The source, by which a loader of the same bundle is found.
    source: String,
    options: BundleOptions,
    /// Shards that are open; several files of one shard take its space only once.
    open: Mutex<HashMap<ShardIdx, Weak<Held>>>,
    /// Bytes that were requested as single values.
    singly: Mutex<HashMap<ShardIdx, u64>>,
}

/// Names of folders; names of samples with the bytes of each.
type Listing = (Vec<String>, Vec<(String, u64)>);

/// Keeps a shard in place while it is read.
struct Held {
    bundle: Arc<Bundle>,
    shard: ShardIdx,
    /// Space that was promised for the shard.
    promised: u64,
    hold: Option<Box<dyn Any + Send + Sync>>,
}

impl Held {
    /// Keeps a shard here, after fetching it if needed.
    fn new(bundle: Arc<Bundle>, shard: ShardIdx, cancel: &AtomicBool) -> Result<Self, Error> {
        let mut held = Self { bundle, shard, promised: 0, hold: None };
        let Some(source) = held.bundle.source().cloned() else { return Ok(held) };
        let manifest = held.bundle.manifest();
        let bytes = shard.of(&manifest.shards).map_or(0, |shard| shard.file.bytes);
        // The space is promised at once, since loaders would otherwise wait for this file, and this
        // file for them.
        source.space().promise(bytes).map_err(|needed| {
            let limit = source.space().limit();
            LoaderError::Shard(no_room(&held.bundle, shard, needed, limit))
        })?;
        held.promised = bytes;
        held.hold = Some(source.hold(shard, cancel).map_err(LoaderError::Shard)?);
        // It is not known what is read next.
        source.bring(shard, &|_| u64::MAX, cancel).map_err(LoaderError::Shard)?;
        Ok(held)
    }
}

fn no_room(bundle: &Bundle, shard: ShardIdx, needed: u64, limit: u64) -> NotBrought {
    let shard = shard.of(&bundle.manifest().shards);
    NotBrought {
        shard: shard.map_or_else(String::new, |shard| shard.file.name.to_string()),
        url: bundle.digest().to_string(),
        reason: format!(
            "the cache is too small for the loaders and open files of this process: together they take {}, and the limit is {}",
            Size(needed),
            Size(limit)
        ),
        hint: Some("raise the loaders' `cache_limit`, or close other files".to_owned()),
        is_passing: false,
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(source) = self.bundle.source() {
            // A file that is open takes its space even after its removal. A loader that reads the
            // same shard opens it again.
            self.bundle.close(self.shard);
            drop(self.hold.take());
            source.space().give_back(self.promised);
        }
    }
}

#[pymethods]
impl Files {
    #[new]
    fn new(py: Python<'_>, settings: &str) -> PyResult<Self> {
        let settings: Settings = parse_options::parse(py, settings)?;
        let Settings { source, digest, cache, token_files } = settings;
        let open = OpenOptions { digest, ..OpenOptions::default() };
        let access = Access { token_files, ..Access::default() };
        let options = BundleOptions { open, cache, access, ..BundleOptions::default() };
        let stream = done(py, &Waits::default(), {
            let (source, options) = (source.clone(), options.clone());
            move |watch| streams::alone(&source, options, &Env::process(), watch)
        })?;
        let (open, singly) = (Mutex::default(), Mutex::default());
        Ok(Self { stream: ProcessLocal::new(stream), source, options, open, singly })
    }

    /// Name, bytes and split of each shard.
    fn shards(&self) -> Vec<(String, u64, String)> {
        let shards = &self.stream.bundle.manifest().shards;
        let shards = shards.iter().map(|shard| (&shard.file, shard.split));
        shards.map(|(file, split)| (file.name.to_string(), file.bytes, split.to_string())).collect()
    }

    /// The shard of this name; `None` where the bundle has none.
    fn open(&self, py: Python<'_>, name: &str) -> PyResult<Option<ShardFile>> {
        let mut shards = self.stream.bundle.manifest().shards.iter();
        match shards.position(|shard| shard.file.name.as_str() == name) {
            Some(shard) => {
                Ok(Some(ShardFile { held: ProcessLocal::new(self.hold(py, ShardIdx(shard))?) }))
            }
            None => Ok(None),
        }
    }

    /// The names of folders among the keys right below `folder` (which is empty, or ends with
    /// `/`), and those of samples with the bytes of `field`.
    fn list(&self, py: Python<'_>, folder: &str, field: &str) -> PyResult<Listing> {
        let field = self.field(py, field)?;
        let listed = detached(py, || {
            let (mut folders, mut samples) = (BTreeSet::new(), Vec::new());
            self.each(|index, id| {
                let row = id.row;
                let below = index.key(row).and_then(|key| key.strip_prefix(folder));
                match below.map(|below| below.split_once('/').ok_or(below)) {
                    // Most keys are in the same folder as the key before.
                    Some(Ok((folder, _))) if folders.contains(folder) => {}
                    Some(Ok((folder, _))) => {
                        folders.insert(folder.to_owned());
                    }
                    Some(Err(name)) => {
                        let len = index.range(row, field).map_or(0, |(_, len)| len as u64);
                        samples.push((name.to_owned(), len));
                    }
                    None => {}
                }
                true
            })?;
            Ok((folders.into_iter().collect(), samples))
        });
        listed.map_err(|error: Error| raise(py, &error))
    }

    /// The stored bytes of `field` of the samples with these keys; `None` where there is none.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes it of a Python list")]
    fn samples<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<String>,
        field: &str,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let field = self.field(py, field)?;
        let found = detached(py, || self.find(&keys)).map_err(|error| raise(py, &error))?;
        let mut of_shards = BTreeMap::<ShardIdx, Vec<Row>>::new();
        for id in found.iter().flatten() {
            of_shards.entry(id.shard).or_default().push(id.row);
        }
        let mut values = HashMap::new();
        for (shard, mut rows) in of_shards {
            // Some keys may be given twice.
            rows.sort_unstable();
            rows.dedup();
            for (row, bytes) in self.values(py, shard, rows, field)? {
                values.insert(SampleId { shard, row }, PyBytes::new(py, &bytes));
            }
        }
        Ok(found.into_iter().map(|id| values.get(&id?).cloned()).collect())
    }
}

impl Files {
    fn field(&self, py: Python<'_>, name: &str) -> PyResult<FieldIdx> {
        let found = self.stream.bundle.manifest().field(name);
        found.map_err(|error| raise(py, &error.into()))
    }

    /// Finds the samples with these keys.
    fn find(&self, keys: &[String]) -> Result<Vec<Option<SampleId>>, Error> {
        let mut wanted: HashMap<&str, Option<SampleId>> =
            keys.iter().map(|key| (key.as_str(), None)).collect();
        let mut left = wanted.len();
        self.each(|index, id| {
            if let Some(found @ None) = index.key(id.row).and_then(|key| wanted.get_mut(key)) {
                *found = Some(id);
                left -= 1;
            }
            left > 0
        })?;
        Ok(keys.iter().map(|key| wanted.get(key.as_str()).copied().flatten()).collect())
    }

    /// Reads values of one shard: as single values if they are few and the shard is not here, else
    /// from the shard.
    fn values(
        &self,
        py: Python<'_>,
        shard: ShardIdx,
        rows: Vec<Row>,
        field: FieldIdx,
    ) -> PyResult<Vec<(Row, Vec<u8>)>> {
        let Stream { bundle, waits } = Stream::clone(&self.stream);
        let index =
            detached(py, || bundle.index(shard)).map_err(|error| raise(py, &error.into()))?;
        if let Some(source) = self.source_of_few(shard, &index, &rows, field).cloned() {
            return done(py, &waits, move |watch| {
                let values = SingleValues { shard, index: &index, rows: &rows, field };
                let read = Mutex::new(Vec::with_capacity(rows.len()));
                let take = |row: Row, bytes: &[u8]| {
                    read.lock().unwrap_or_else(PoisonError::into_inner).push((row, bytes.to_vec()));
                };
                source.read_values(&values, &take, watch.cancel).map_err(LoaderError::Shard)?;
                Ok(read.into_inner().unwrap_or_else(PoisonError::into_inner))
            });
        }
        let held = self.hold(py, shard)?;
        let read = detached(py, || {
            let read = |row: Row| {
                let mut bytes = Vec::new();
                let id = SampleId { shard, row };
                held.bundle.read(id, field, &mut bytes).map(|()| (row, bytes))
            };
            rows.into_iter().map(read).collect::<Result<Vec<_>, _>>()
        });
        read.map_err(|error| raise(py, &error.into()))
    }

    /// Returns the source of these values as single values, which are then counted; `None` if they
    /// must be read from their shard.
    fn source_of_few(
        &self,
        shard: ShardIdx,
        index: &Index,
        rows: &[Row],
        field: FieldIdx,
    ) -> Option<&Arc<dyn ShardSource>> {
        let bundle = &self.stream.bundle;
        let source = bundle.source().filter(|source| !source.is_here(shard))?;
        let limit = shard.of(&bundle.manifest().shards)?.file.bytes / SINGLY_AT_MOST;
        if rows.iter().any(|row| index.digest(*row, field).is_none()) {
            return None;
        }
        let lengths = rows.iter().filter_map(|row| Some(index.range(*row, field)?.1 as u64));
        let wanted = lengths.fold(0_u64, u64::saturating_add);
        let mut singly = self.singly.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = singly.entry(shard).or_default();
        let all = asked.saturating_add(wanted);
        if all > limit {
            return None;
        }
        *asked = all;
        Some(source)
    }

    /// Calls `look` with each sample and the index of its shard, until it returns false.
    fn each(&self, mut look: impl FnMut(&Index, SampleId) -> bool) -> Result<(), Error> {
        let bundle = &self.stream.bundle;
        for shard in ShardIdx::first(bundle.manifest().shards.len()) {
            let index = bundle.index(shard)?;
            if !index.rows().all(|row| look(&index, SampleId { shard, row })) {
                break;
            }
        }
        Ok(())
    }

    /// Keeps a shard here, in the space of the loaders that stream the same bundle, if there are
    /// any.
    fn hold(&self, py: Python<'_>, shard: ShardIdx) -> PyResult<Arc<Held>> {
        let shared = streams::shared(&self.source, &self.options);
        let shared = shared.map_err(|error| raise(py, &error))?;
        let is_same = |shared: &Stream| shared.bundle.digest() == self.stream.bundle.digest();
        let Stream { bundle, waits } =
            shared.filter(is_same).unwrap_or_else(|| Stream::clone(&self.stream));
        let open = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open().get(&shard).and_then(Weak::upgrade);
        if let Some(held) = known.filter(|held| Arc::ptr_eq(&held.bundle, &bundle)) {
            return Ok(held);
        }
        let held = done(py, &waits, move |watch| Held::new(bundle, shard, watch.cancel))?;
        let held = Arc::new(held);
        let mut open = open();
        open.retain(|_, held| held.strong_count() > 0);
        open.insert(shard, Arc::downgrade(&held));
        Ok(held)
    }
}

/// A shard as a file. Every byte of it is compared with its block's digest before it is given.
#[pyclass(frozen, module = "gular._gular")]
pub(crate) struct ShardFile {
    held: ProcessLocal<Arc<Held>>,
}

#[pymethods]
impl ShardFile {
    /// The bytes from `start` to before `end`, as far as there are.
    fn read<'py>(&self, py: Python<'py>, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let Held { bundle, shard, .. } = &**self.held;
        let read = || {
            let blocks = bundle.index(*shard)?.blocks();
            let range = start..end.min(blocks.len_bytes());
            let mut bytes = Vec::new();
            bundle.copy(*shard, blocks.blocks_of(&range), |at, piece| {
                let within = |position: u64| {
                    usize::try_from(position.saturating_sub(at)).unwrap_or(usize::MAX)
                };
                let piece = piece.get(within(range.start)..within(range.end).min(piece.len()));
                bytes.extend_from_slice(piece.unwrap_or_default());
                Ok::<(), Error>(())
            })?;
            Ok(bytes)
        };
        let bytes = detached(py, read).map_err(|error: Error| raise(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
