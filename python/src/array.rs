//! A field of a batch that is lent: its memory is returned to the loader with the last reader.

mod dlpack;

use std::sync::Arc;

use gular_runtime::{Batch, Dtype, Values};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use zerocopy::IntoBytes as _;

use crate::process_local::ProcessLocal;

/// Numbers in memory, and the owner of that memory.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// Steps along each axis, in numbers, not bytes.
    pub(crate) strides: Vec<usize>,
    memory: Arc<Memory>,
    which: Which,
    len_bytes: usize,
}

/// The part of its memory that a column has.
#[derive(Debug, Clone)]
enum Which {
    /// A field of a batch.
    Field(String),
    /// The labels of a batch.
    Labels,
    /// The numbers of a batch's samples.
    Ids,
    /// All numbers of a copy.
    All,
}

#[derive(Debug)]
enum Memory {
    /// A batch of the loader. After a fork, the lock of the ring to which it is returned may be
    /// held by a thread that does not exist any more.
    Lent(ProcessLocal<Box<Batch>>),
    /// A copy, in `u64` for its alignment.
    Copied(Vec<u64>),
}

/// A part of a batch, which has a name.
pub(crate) enum Part {
    Numbers(Column),
    Bytes(Vec<Vec<u8>>),
}

/// Returns the fields of `batch`: its own memory, or copies if the loader needs that memory for the
/// next batches. `permuted` pictures have their channels before rows and columns.
pub(crate) fn parts(batch: Batch, permuted: bool, labelled: bool) -> Vec<(String, Part)> {
    let lent = batch.may_be_kept();
    let batch = Arc::new(Memory::Lent(ProcessLocal::new(Box::new(batch))));
    let Memory::Lent(of) = &*batch else { return Vec::new() };
    let column = |which, dtype, shape: Vec<usize>, bytes: &[u8]| {
        if !lent {
            return Column::of(dtype, shape, bytes);
        }
        let (memory, strides, len_bytes) = (Arc::clone(&batch), steps(&shape), bytes.len());
        Column { dtype, shape, strides, memory, which, len_bytes }
    };
    let mut parts = Vec::new();
    for (name, values) in of.fields() {
        let part = match values {
            Values::Bytes(values) => Part::Bytes(values.to_vec()),
            // As pixels are blended, so are the classes of both.
            Values::Array(array)
                if name == "labels" && array.dtype == Dtype::U8 && !of.blended().is_empty() =>
            {
                Part::Numbers(blended_labels(of, array.bytes, array.shape))
            }
            Values::Array(array) => {
                let is_permuted = permuted && array.channels_last;
                let mut made =
                    column(Which::Field(name.to_owned()), array.dtype, array.shape, array.bytes);
                if is_permuted {
                    made.shape[1..].rotate_right(1);
                    made.strides[1..].rotate_right(1);
                }
                Part::Numbers(made)
            }
        };
        parts.push((name.to_owned(), part));
    }
    let n = of.len();
    if labelled {
        let labels = column(Which::Labels, Dtype::I64, vec![n], of.labels().as_bytes());
        parts.push(("label".to_owned(), Part::Numbers(labels)));
    }
    if !of.blended().is_empty() {
        let labels: Vec<i64> = of.blended().iter().map(|other| other.label).collect();
        let weights: Vec<f32> = of.blended().iter().map(|other| other.weight).collect();
        let labels = Column::of(Dtype::I64, vec![n], labels.as_bytes());
        let weights = Column::of(Dtype::F32, vec![n], weights.as_bytes());
        parts.push(("other_label".to_owned(), Part::Numbers(labels)));
        parts.push(("weight".to_owned(), Part::Numbers(weights)));
    }
    // The numbers of samples are far below 2^63.
    let ids = column(Which::Ids, Dtype::I64, vec![n], of.sample_ids().as_bytes());
    parts.push(("index".to_owned(), Part::Numbers(ids)));
    parts
}

/// The classes of each sample of a batch with those of its partner, by their parts.
fn blended_labels(batch: &Batch, labels: &[u8], shape: Vec<usize>) -> Column {
    let classes = (labels.len() / batch.len().max(1)).max(1);
    let row = |at: usize| labels.chunks_exact(classes).nth(at).unwrap_or_default();
    let mut made: Vec<f32> = Vec::with_capacity(labels.len());
    for (at, other) in batch.blended().iter().enumerate() {
        let partner = batch.sample_ids().iter().position(|id| *id == other.sample).unwrap_or(at);
        let pairs = row(at).iter().zip(row(partner));
        made.extend(pairs.map(|(own, theirs)| {
            other.weight * f32::from(*own) + (1.0 - other.weight) * f32::from(*theirs)
        }));
    }
    Column::of(Dtype::F32, shape, made.as_bytes())
}

impl Memory {
    fn copy(bytes: &[u8]) -> Self {
        let mut words = vec![0_u64; bytes.len().div_ceil(8)];
        words.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        Self::Copied(words)
    }
}

/// Returns the steps along each axis of numbers that are stored row by row.
fn steps(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

impl Column {
    /// Makes a column of numbers of `dtype` from `bytes`, with its own memory.
    pub(crate) fn of(dtype: Dtype, shape: Vec<usize>, bytes: &[u8]) -> Self {
        let (memory, strides) = (Arc::new(Memory::copy(bytes)), steps(&shape));
        Self { dtype, strides, shape, memory, which: Which::All, len_bytes: bytes.len() }
    }

    /// Returns the bytes of the column's memory.
    fn bytes(&self) -> &[u8] {
        match (&*self.memory, &self.which) {
            (Memory::Copied(words), _) => &words.as_bytes()[..self.len_bytes],
            (Memory::Lent(batch), Which::Field(name)) => match batch.field(name) {
                Some(Values::Array(array)) => array.bytes,
                _ => &[],
            },
            (Memory::Lent(batch), Which::Labels) => batch.labels().as_bytes(),
            (Memory::Lent(batch), Which::Ids) => batch.sample_ids().as_bytes(),
            (Memory::Lent(_), Which::All) => &[],
        }
    }

    /// Returns the address of the first number.
    pub(crate) fn address(&self) -> usize {
        self.bytes().as_ptr() as usize
    }

    /// Returns the same numbers in separate memory.
    fn copy(&self) -> Self {
        let memory = Arc::new(Memory::copy(self.bytes()));
        Self { memory, which: Which::All, ..self.clone() }
    }

    fn type_name(&self) -> &'static str {
        match self.dtype {
            Dtype::U8 => "uint8",
            Dtype::I8 => "int8",
            Dtype::U16 => "uint16",
            Dtype::I16 => "int16",
            Dtype::U32 => "uint32",
            Dtype::I32 => "int32",
            Dtype::I64 => "int64",
            Dtype::F16 => "float16",
            Dtype::Bf16 => "bfloat16",
            Dtype::F32 => "float32",
            Dtype::F64 => "float64",
        }
    }
}

const NO_BF16: &str = "NumPy has no bfloat16: use DLPack (torch.from_dlpack, \
    jax.numpy.from_dlpack), or set the loader's `numbers` to `\"f16\"` or `\"f32\"`";

/// Numbers of one field of a batch, in the loader's own memory.
///
/// `numpy.asarray`, `numpy.from_dlpack`, `torch.from_dlpack` and `jax.numpy.from_dlpack` view
/// it without a copy. The memory goes back to the loader when the last view is gone.
#[pyclass(frozen, subclass, module = "gular")]
pub(crate) struct Array(pub(crate) Column);

#[pymethods]
impl Array {
    /// The same numbers, for classes derived from this one.
    #[new]
    fn new(of: &Bound<'_, Self>) -> Self {
        Self(of.get().0.clone())
    }

    /// The number of samples, then the shape of one.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.shape)
    }

    /// Steps along each axis, in numbers.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.strides)
    }

    /// The type's name, such as `float32` or `bfloat16`.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.type_name()
    }

    /// Bytes of all numbers.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.len_bytes
    }

    /// The address of the first number.
    #[getter]
    fn ptr(&self) -> usize {
        self.0.address()
    }

    fn __len__(&self) -> usize {
        self.0.shape.first().copied().unwrap_or_default()
    }

    fn __repr__(&self) -> String {
        format!("gular.Array(shape={:?}, dtype={})", self.0.shape, self.0.type_name())
    }

    /// NumPy's array interface, version 3. bfloat16 has none.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(typestr) = self.0.dtype.numpy() else {
            return Err(PyAttributeError::new_err(NO_BF16));
        };
        let bytes = self.0.dtype.size_bytes() as usize;
        let strides: Vec<usize> = self.0.strides.iter().map(|n| n * bytes).collect();
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("shape", PyTuple::new(py, &self.0.shape)?)?;
        interface.set_item("strides", PyTuple::new(py, strides)?)?;
        interface.set_item("data", (self.0.address(), false))?;
        Ok(interface)
    }

    /// Asked by NumPy where there is no array interface: says why.
    #[pyo3(signature = (*_args, **_options))]
    fn __array__(
        &self,
        _args: &Bound<'_, PyTuple>,
        _options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        Err(PyTypeError::new_err(NO_BF16))
    }

    /// `(1, 0)`: the CPU.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    /// A capsule of the array API standard, of version 1 where `max_version` allows.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        if stream.is_some() {
            return Err(PyBufferError::new_err("an array in the CPU's memory has no stream"));
        }
        if dl_device.is_some_and(|device| device != (dlpack::CPU, 0)) {
            return Err(PyBufferError::new_err("the array is in the CPU's memory"));
        }
        let copy = copy.unwrap_or_default();
        let column = if copy { self.0.copy() } else { self.0.clone() };
        dlpack::capsule(py, column, max_version, copy)
    }
}
