//! A bundle as files: each shard, and each sample by its key, for readers that know no bundles.

use std::any::Any;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use gular_runtime::{
    Bundle, BundleOptions, Digest, Env, Error, FieldIdx, Index, LoaderError, OpenOptions, Row,
    SampleId, ShardIdx, Watch, open_bundle,
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
}

/// Names of folders; names of samples and the bytes of each.
type Listing = (Vec<String>, Vec<(String, u64)>);

/// What keeps a shard where it is while it is read.
struct Held {
    bundle: Arc<Bundle>,
    shard: ShardIdx,
    _hold: Option<Box<dyn Any + Send + Sync>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.bundle.source().is_some() {
            // A file that is open takes its room after its removal, too.
            self.bundle.close(self.shard);
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
        let stream = opened(py, &Waits::default(), None, |watch| settings.open(watch))?;
        Ok(Self { stream: Here::new(stream) })
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

impl Settings {
    fn open(self, watch: Watch<'_>) -> Result<Stream, Error> {
        let Self { source, digest, cache, token_files } = self;
        let open = OpenOptions { digest, ..OpenOptions::default() };
        let options = BundleOptions { open, cache, token_files, ..BundleOptions::default() };
        let env = Env::process();
        if let Some(stream) = streams::shared(&source, &options)? {
            return Ok(stream);
        }
        if source.contains("://") {
            return streams::open(&source, options, &env, watch);
        }
        let bundle = Arc::new(open_bundle(&source, &options, &env, watch)?.bundle);
        Ok(Stream { bundle, waits: Waits::default() })
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

    /// Keeps a shard here, after fetching it where it is not.
    fn hold(&self, py: Python<'_>, shard: ShardIdx) -> PyResult<Held> {
        let bundle = Arc::clone(&self.stream.bundle);
        let Some(source) = bundle.source().cloned() else {
            return Ok(Held { bundle, shard, _hold: None });
        };
        let fetched = opened(py, &self.stream.waits, None, move |watch| {
            let hold = source.hold(shard, watch.cancel).map_err(LoaderError::Shard)?;
            // Nobody knows what is read next.
            let brought = source.bring(shard, &|_| u64::MAX, watch.cancel);
            brought.map_err(LoaderError::Shard)?;
            Ok(hold)
        });
        Ok(Held { bundle, shard, _hold: Some(fetched?) })
    }
}

/// A shard as a file. Every byte of it is compared with its block's digest before it is given.
#[pyclass(frozen, module = "gular._gular")]
pub(crate) struct ShardFile {
    held: Here<Held>,
}

#[pymethods]
impl ShardFile {
    /// The bytes from `start` to before `end`, as far as there are.
    fn read<'py>(&self, py: Python<'py>, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let Held { bundle, shard, .. } = &*self.held;
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
