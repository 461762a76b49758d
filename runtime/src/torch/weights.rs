//! Named tensors as safetensors bytes: the same tensors, the same bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use safetensors::{Dtype, SafeTensors, View};
use tch::nn::VarStore;
use tch::{Kind, Tensor};

use crate::Error;

/// All variables of `store` as a safetensors file, under their names.
///
/// Python's `safetensors.torch.load_file` and tch's `VarStore::load` read it.
///
/// # Errors
/// [`Error::Torch`]; [`Error::Tensors`] for a kind that safetensors lacks.
pub fn weights(store: &VarStore) -> Result<Vec<u8>, Error> {
    let named: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
    encode(&named)
}

/// Gives the variables of `store` the values of a safetensors file.
///
/// # Errors
/// [`Error::Tensors`] unless the file has exactly the store's names, shapes and
/// kinds; then nothing was changed.
pub fn load_weights(store: &mut VarStore, bytes: &[u8]) -> Result<(), Error> {
    let mut named: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
    assign(&mut named, bytes)
}

pub(super) fn encode(named: &BTreeMap<String, Tensor>) -> Result<Vec<u8>, Error> {
    let stored = named.iter().map(|(name, tensor)| Ok((name, Stored::new(tensor)?)));
    let stored: Vec<(&String, Stored)> = stored.collect::<Result<_, Error>>()?;
    // Metadata would come in a HashMap's order, another in each process.
    safetensors::serialize(stored, None).map_err(|e| Error::Tensors { reason: e.to_string() })
}

/// Copies the tensors of `bytes` into those of the same names.
pub(super) fn assign(named: &mut BTreeMap<String, Tensor>, bytes: &[u8]) -> Result<(), Error> {
    let wrong = |reason: String| Error::Tensors { reason };
    let file = SafeTensors::deserialize(bytes).map_err(|e| wrong(e.to_string()))?;
    let mut found = BTreeMap::new();
    for (name, view) in file.iter() {
        let Some(target) = named.get(name) else {
            return Err(wrong(format!("it has a tensor `{name}`, the model has none")));
        };
        let shape: Vec<i64> = view.shape().iter().map(|n| *n as i64).collect();
        let (shape_wanted, wanted) = (target.size(), dtype(target.f_kind()?)?);
        if (view.dtype(), &shape) != (wanted, &shape_wanted) {
            let found = view.dtype();
            return Err(wrong(format!(
                "tensor `{name}` is {found:?} {shape:?}, the model's {wanted:?} {shape_wanted:?}"
            )));
        }
        let tensor = Tensor::f_from_data_size(view.data(), &shape, target.f_kind()?)?;
        found.insert(name.to_owned(), tensor);
    }
    if let Some(name) = named.keys().find(|name| !found.contains_key(*name)) {
        return Err(wrong(format!("it has no tensor `{name}`, the model has one")));
    }
    tch::no_grad(|| {
        for (target, tensor) in named.values_mut().zip(found.values()) {
            target.f_copy_(tensor)?;
        }
        Ok(())
    })
}

fn dtype(kind: Kind) -> Result<Dtype, Error> {
    Ok(match kind {
        Kind::Float => Dtype::F32,
        Kind::Double => Dtype::F64,
        Kind::Half => Dtype::F16,
        Kind::BFloat16 => Dtype::BF16,
        Kind::Int64 => Dtype::I64,
        Kind::Int => Dtype::I32,
        Kind::Uint8 => Dtype::U8,
        Kind::Bool => Dtype::BOOL,
        other => {
            return Err(Error::Tensors { reason: format!("a tensor of kind {other:?}") });
        }
    })
}

/// A tensor's bytes, copied to the CPU.
struct Stored {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Stored {
    fn new(tensor: &Tensor) -> Result<Self, Error> {
        let kind = tensor.f_kind()?;
        let tensor = tensor.f_detach()?.f_to_device(tch::Device::Cpu)?.f_contiguous()?;
        let numel = tensor.numel();
        let mut bytes = vec![0; numel * kind.elt_size_in_bytes()];
        tensor.f_copy_data_u8(&mut bytes, numel)?;
        let shape = tensor.size().into_iter().map(|n| usize::try_from(n).unwrap_or(0));
        Ok(Self { dtype: dtype(kind)?, shape: shape.collect(), bytes })
    }
}

impl View for Stored {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}
