//! A bundle as files: each shard, and each sample by its key, for readers that know no bundles.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use gular_runtime::{
    Bundle, BundleOptions, Digest, Env, Error, FieldIdx, Index, LoaderError, NotBrought,
    OpenOptions, Row, SampleId, ShardIdx, Size,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;

use crate::error::raise;
use crate::here::Here;
use crate::streams::{self, Stream};
use crate::wait::{Waits, opened};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    source: String,
    digest: Option<Digest>,
    cache: Option<PathBuf>,
    token_files: Vec<PathBuf>,
}

/// The shards and samples of a bundle. Of a URL a shard is fetched when something of it is read,
/// and stays in the node's cache.
#[pyclass(frozen, module = "gular._gular")]
pub(crate) struct Files {
    stream: Here<Stream>,
    /// What a loader of the same bundle is found by.
    source: String,
    options: BundleOptions,
    /// Shards that are open; several files of one take its room once.
    open: Mutex<HashMap<ShardIdx, Weak<Held>>>,
}

/// Names of folders; names of samples and the bytes of each.
type Listing = (Vec<String>, Vec<(String, u64)>);

/// What keeps a shard where it is while it is read.
struct Held {
    bundle: Arc<Bundle>,
    shard: ShardIdx,
    /// Room that is promised.
    promised: u64,
    hold: Option<Box<dyn Any + Send + Sync>>,
}

impl Held {
    /// Keeps a shard here, after fetching it where it is not.
    fn new(bundle: Arc<Bundle>, shard: ShardIdx, cancel: &AtomicBool) -> Result<Self, Error> {
        let mut held = Self { bundle, shard, promised: 0, hold: None };
        let Some(source) = held.bundle.source().cloned() else { return Ok(held) };
        let manifest = held.bundle.manifest();
        let bytes = shard.of(&manifest.shards).map_or(0, |shard| shard.file.bytes);
        // At once, since loaders would wait for this file, and this file for them.
        source.room().promise(bytes).map_err(|needed| {
            let limit = source.room().limit();
            LoaderError::Shard(no_room(&held.bundle, shard, needed, limit))
        })?;
        held.promised = bytes;
        held.hold = Some(source.hold(shard, cancel).map_err(LoaderError::Shard)?);
        // Nobody knows what is read next.
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
            "with what the loaders and open files of this process need, that takes a cache of {}, \
             and the limit is {}",
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
            // A file that is open takes its room after its removal, too. A loader that reads the
            // same shard opens it again.
            self.bundle.close(self.shard);
            drop(self.hold.take());
            source.room().give_back(self.promised);
        }
    }
}

#[pymethods]
impl Files {
    #[new]
    fn new(py: Python<'_>, settings: &str) -> PyResult<Self> {
        let settings: Settings = serde_json::from_str(settings).map_err(|error| {
            raise(py, &Error::Option { option: "options", reason: error.to_string() })
        })?;
        let Settings { source, digest, cache, token_files } = settings;
        let open = OpenOptions { digest, ..OpenOptions::default() };
        let options = BundleOptions { open, cache, token_files, ..BundleOptions::default() };
        let stream = opened(py, &Waits::default(), None, {
            let (source, options) = (source.clone(), options.clone());
            move |watch| streams::alone(&source, options, &Env::process(), watch)
        })?;
        Ok(Self { stream: Here::new(stream), source, options, open: Mutex::default() })
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
            Some(shard) => Ok(Some(ShardFile { held: Here::new(self.hold(py, ShardIdx(shard))?) })),
            None => Ok(None),
        }
    }

    /// The names of folders among the keys right below `folder` (which is empty, or ends with
    /// `/`), and those of samples with the bytes of `field`.
    fn list(&self, py: Python<'_>, folder: &str, field: &str) -> PyResult<Listing> {
        let field = self.field(py, field)?;
        let listed = py.detach(|| {
            let (mut folders, mut samples) = (BTreeSet::new(), Vec::new());
            self.each(|index, row| {
                let below = index.key(row).and_then(|key| key.strip_prefix(folder));
                match below.map(|below| below.split_once('/').ok_or(below)) {
                    // Most keys share the folder of the one before.
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
                false
            })?;
            Ok((folders.into_iter().collect(), samples))
        });
        listed.map_err(|error: Error| raise(py, &error))
    }

    /// The stored bytes of `field` of the sample with this key; `None` where there is none.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        field: &str,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let field = self.field(py, field)?;
        let found = py.detach(|| self.each(|index, row| index.key(row) == Some(key)));
        let Some(id) = found.map_err(|error| raise(py, &error))? else { return Ok(None) };
        let held = self.hold(py, id.shard)?;
        let read = py.detach(|| {
            let mut bytes = Vec::new();
            held.bundle.read(id, field, &mut bytes).map(|()| bytes)
        });
        let bytes = read.map_err(|error| raise(py, &error.into()))?;
        Ok(Some(PyBytes::new(py, &bytes)))
    }
}

impl Files {
    fn field(&self, py: Python<'_>, name: &str) -> PyResult<FieldIdx> {
        let found = self.stream.bundle.manifest().field(name);
        found.map_err(|error| raise(py, &error.into()))
    }

    /// Calls `look` with the index of each shard and each row of it until it says yes, and returns
    /// that sample.
    fn each(&self, mut look: impl FnMut(&Index, Row) -> bool) -> Result<Option<SampleId>, Error> {
        let bundle = &self.stream.bundle;
        for shard in ShardIdx::first(bundle.manifest().shards.len()) {
            let index = bundle.index(shard)?;
            if let Some(row) = index.rows().find(|row| look(&index, *row)) {
                return Ok(Some(SampleId { shard, row }));
            }
        }
        Ok(None)
    }

    /// Keeps a shard here: in the room of the loaders that stream the same bundle, where there
    /// are any.
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
        let held = opened(py, &waits, None, move |watch| Held::new(bundle, shard, watch.cancel))?;
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
    held: Here<Arc<Held>>,
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
        let bytes = py.detach(read).map_err(|error: Error| raise(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
