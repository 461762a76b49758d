//! A split by index: one sample at a time, for loaders that are not ours.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use gular_runtime::{
    Access, Bundle, BundleOptions, CodecError, DecodeOptions, Decoder, Dtype, Env, Error, FieldIdx,
    LoaderError, OrientationPolicy, SampleId, Split, Watch, bit_depth, has_splits, open_bundle,
};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use serde_json::json;
use zerocopy::IntoBytes as _;

use crate::array::{Array, Column};
use crate::error::{raise, raise_of_bytes};
use crate::exit::detached;
use crate::parse_options;
use crate::process_local::ProcessLocal;
use crate::wait::{Finish, Making};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    source: String,
    split: Split,
    field: String,
    decode: bool,
    orientation: bool,
    cache: Option<PathBuf>,
    token_files: Vec<PathBuf>,
}

/// One field of the samples of a split, by their numbers from 0.
#[pyclass(frozen, module = "gular._gular")]
pub(crate) struct Dataset {
    /// The bundle. Its lock, which keeps the files of a fetched bundle, may have a thread.
    bundle: ProcessLocal<Arc<Bundle>>,
    source: String,
    split: Split,
    field: FieldIdx,
    /// Type and shape of the field, if it has numbers.
    fixed: Option<(Dtype, Vec<usize>)>,
    decode: bool,
    /// Whether the values are masks, of classes and not of colours.
    is_mask: bool,
    options: DecodeOptions,
    /// Decoders that are not in use.
    decoders: Mutex<Vec<Decoder>>,
}

#[pymethods]
impl Dataset {
    /// Begins to open the bundle, fetching it first where it is a URL.
    #[staticmethod]
    fn make(py: Python<'_>, settings: &str) -> PyResult<Making> {
        let settings: Settings = parse_options::parse(py, settings)?;
        Ok(Making::start(move |watch, _| {
            let made = Self::open(settings, watch)?;
            Ok(Box::new(move |py: Python<'_>| Ok(Py::new(py, made)?.into_any())) as Finish)
        }))
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
        let raise = |error| raise_of_bytes(py, &self.source, &error, raise);
        match detached(py, read).map_err(raise)? {
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
    fn open(settings: Settings, watch: Watch<'_>) -> Result<Self, Error> {
        let Settings { source, split, field, decode, orientation, cache, token_files } = settings;
        let orientation =
            if orientation { OrientationPolicy::Apply } else { OrientationPolicy::Ignore };
        let decoding = DecodeOptions { orientation, ..DecodeOptions::default() };
        let access = Access { token_files, ..Access::default() };
        let options =
            BundleOptions { splits: vec![split], cache, access, ..BundleOptions::default() };
        let bundle = open_bundle(&source, &options, &Env::process(), watch)?.bundle;
        has_splits(bundle.manifest(), &[split])?;
        let at = bundle.manifest().field(&field)?;
        let of = at.of(&bundle.manifest().fields);
        let is_mask = of.is_some_and(gular_runtime::Field::is_mask);
        let found = of.and_then(|field| field.as_fixed());
        let number = |n: &u64| usize::try_from(*n).unwrap_or(usize::MAX);
        let fixed = found.map(|(dtype, shape)| (dtype, shape.iter().map(number).collect()));
        let bundle = ProcessLocal::new(Arc::new(bundle));
        let (field, options, decoders) = (at, decoding, Mutex::default());
        Ok(Self { bundle, source, split, field, fixed, decode, is_mask, options, decoders })
    }

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
        let mut decoder = kept.unwrap_or_else(|| Decoder::new(self.options));
        let decoded =
            if self.is_mask { mask(&mut decoder, bytes) } else { picture(&mut decoder, bytes) };
        free().push(decoder);
        match decoded {
            Ok(column) => Ok(column),
            Err(source) => {
                let shard = self.bundle.shard(id.shard)?.data().path();
                let key = self.bundle.key(id)?.to_string();
                Err(LoaderError::Decode { key, shard, row: id.row, source }.into())
            }
        }
    }
}

fn picture(decoder: &mut Decoder, bytes: &[u8]) -> Result<Column, CodecError> {
    let image = decoder.decode(bytes)?;
    let shape = vec![image.height() as usize, image.width() as usize, 3];
    Ok(Column::of(Dtype::U8, shape, image.data()))
}

/// The values of a mask as they are stored, of as many bits.
fn mask(decoder: &mut Decoder, bytes: &[u8]) -> Result<Column, CodecError> {
    let ((width, height), values) = decoder.decode_values(bytes)?;
    let shape = vec![height as usize, width as usize];
    if bit_depth(bytes) == Some(16) {
        return Ok(Column::of(Dtype::U16, shape, values.as_bytes()));
    }
    // Values of up to 8 bits.
    let narrow: Vec<u8> = values.iter().map(|value| *value as u8).collect();
    Ok(Column::of(Dtype::U8, shape, &narrow))
}
