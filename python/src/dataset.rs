//! A split by index: one sample at a time, for loaders that are not ours.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use gular_runtime::{
    Bundle, BundleOptions, DecodeOptions, Decoder, Dtype, Env, Error, FieldIdx, LoaderError,
    SampleId, Split, has_splits, open_bundle,
};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use serde_json::json;

use crate::array::{Array, Column};
use crate::error::raise;
use crate::parse_options;
use crate::process_local::ProcessLocal;
use crate::wait::{Waits, opened};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    source: String,
    split: Split,
    field: String,
    decode: bool,
    cache: Option<PathBuf>,
    token_files: Vec<PathBuf>,
}

/// One field of the samples of a split, by their numbers from 0.
#[pyclass(frozen, module = "gular._gular")]
pub(crate) struct Dataset {
    /// The bundle. Its lock, which keeps the files of a fetched bundle, may have a thread.
    bundle: ProcessLocal<Arc<Bundle>>,
    split: Split,
    field: FieldIdx,
    /// Type and shape of the field, if it has numbers.
    fixed: Option<(Dtype, Vec<usize>)>,
    decode: bool,
    /// Decoders that are not in use.
    decoders: Mutex<Vec<Decoder>>,
}

#[pymethods]
impl Dataset {
    /// Opens the bundle, fetching it first where it is a URL.
    #[new]
    #[pyo3(signature = (settings, tell=None))]
    fn new(py: Python<'_>, settings: &str, tell: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let tell = tell.map(|tell| tell.clone().unbind());
        let settings: Settings = parse_options::parse(py, settings)?;
        let Settings { source, split, field, decode, cache, token_files } = settings;
        let bundle = opened(py, &Waits::default(), tell.as_ref(), move |watch| {
            let options = BundleOptions {
                splits: vec![split],
                cache,
                token_files,
                ..BundleOptions::default()
            };
            let opened = open_bundle(&source, &options, &Env::process(), watch)?;
            has_splits(opened.bundle.manifest(), &[split])?;
            Ok(Arc::new(opened.bundle))
        })?;
        let at = bundle.manifest().field(&field).map_err(|error| raise(py, &error.into()))?;
        let found = at.of(&bundle.manifest().fields).and_then(|field| field.as_fixed());
        let number = |n: &u64| usize::try_from(*n).unwrap_or(usize::MAX);
        let fixed = found.map(|(dtype, shape)| (dtype, shape.iter().map(number).collect()));
        let decoders = Mutex::default();
        let bundle = ProcessLocal::new(bundle);
        Ok(Self { bundle, split, field: at, fixed, decode, decoders })
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.bundle.n_samples(self.split)).unwrap_or(usize::MAX)
    }

    /// The stored bytes; numbers, and pictures where they are to be decoded, as an array.
    fn value<'py>(&self, py: Python<'py>, index: u64) -> PyResult<Bound<'py, PyAny>> {
        let id = self.locate(index)?;
        let read = || {
            let mut bytes = Vec::new();
            self.bundle.read(id, self.field, &mut bytes)?;
            Ok::<_, Error>(match &self.fixed {
                Some((dtype, shape)) => Ok(Column::of(*dtype, shape.clone(), &bytes)),
                None if self.decode => Ok(self.decoded(id, &bytes)?),
                None => Err(bytes),
            })
        };
        match py.detach(read).map_err(|error| raise(py, &error))? {
            Ok(column) => Ok(Bound::new(py, Array(column))?.into_any()),
            Err(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
        }
    }

    /// The class index; -1 where it is unknown, or the bundle has no labels.
    fn label(&self, py: Python<'_>, index: u64) -> PyResult<i32> {
        let id = self.locate(index)?;
        let label = self.bundle.shard(id.shard).and_then(|shard| shard.label(id.row));
        Ok(label.map_err(|error| raise(py, &error.into()))?.unwrap_or(-1))
    }

    /// The sample's key.
    fn key(&self, py: Python<'_>, index: u64) -> PyResult<String> {
        let key = self.bundle.key(self.locate(index)?);
        Ok(key.map_err(|error| raise(py, &error.into()))?.to_string())
    }

    /// The BLAKE3 digest that the stored bytes have.
    fn digest<'py>(&self, py: Python<'py>, index: u64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let id = self.locate(index)?;
        let found = self.bundle.shard(id.shard).and_then(|s| s.digest(id.row, self.field));
        let found = found.map_err(|error| raise(py, &error.into()))?;
        Ok(found.map(|digest| PyBytes::new(py, digest.as_bytes())))
    }

    /// What is known of the bundle, as JSON.
    fn about(&self) -> String {
        let manifest = self.bundle.manifest();
        let sizes: Vec<u64> = manifest.of_split(self.split).map(|shard| shard.samples).collect();
        json!({
            "digest": self.bundle.digest(),
            "folder": self.bundle.dir(),
            "classes": manifest.classes,
            "fields": manifest.fields,
            "sizes": sizes,
        })
        .to_string()
    }
}

impl Dataset {
    fn locate(&self, index: u64) -> PyResult<SampleId> {
        self.bundle.locate(self.split, index).map_err(|_| {
            let n = self.bundle.n_samples(self.split);
            PyIndexError::new_err(format!(
                "there is no sample {index}: the data set has {n} samples"
            ))
        })
    }

    fn decoded(&self, id: SampleId, bytes: &[u8]) -> Result<Column, Error> {
        let free = || self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = free().pop();
        let mut decoder = kept.unwrap_or_else(|| Decoder::new(DecodeOptions::default()));
        let decoded = decoder.decode(bytes);
        free().push(decoder);
        match decoded {
            Ok(image) => {
                let shape = vec![image.height() as usize, image.width() as usize, 3];
                Ok(Column::of(Dtype::U8, shape, image.data()))
            }
            Err(source) => {
                let shard = self.bundle.shard(id.shard)?.data().path();
                let key = self.bundle.key(id)?.to_string();
                Err(LoaderError::Decode { key, shard, row: id.row, source }.into())
            }
        }
    }
}
