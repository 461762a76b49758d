//! A file of weights, whichever program wrote it: its tensors, its metadata, and a network that
//! loads its values.

use std::collections::BTreeMap;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tch::nn::VarStore;
use tch::{Kind, Tensor};

use super::weights::dtype;
use crate::Error;

/// The name of a counter in PyTorch's batch norm. With the default momentum it is never used; tch
/// has none.
const COUNTER: &str = ".num_batches_tracked";

/// Named tensors, and texts about them.
#[derive(Debug)]
pub struct WeightsFile<'a> {
    tensors: SafeTensors<'a>,
    about: BTreeMap<String, String>,
}

impl<'a> WeightsFile<'a> {
    /// Parses the bytes of a safetensors file.
    ///
    /// # Errors
    /// [`Error::Tensors`] when they are not one.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let wrong = |e: safetensors::SafeTensorError| Error::Tensors { reason: e.to_string() };
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(wrong)?;
        let about = metadata.metadata().iter().flatten();
        let about = about.map(|(name, text)| (name.clone(), text.clone())).collect();
        Ok(Self { tensors: SafeTensors::deserialize(bytes).map_err(wrong)?, about })
    }

    /// The shape of the tensor `name`, if there is one.
    #[must_use]
    pub fn shape(&self, name: &str) -> Option<Vec<i64>> {
        self.tensors.tensor(name).ok().map(|view| shape(&view))
    }

    /// Returns the text `name` of the file, as it was given to
    /// [`write_weights_about`](super::write_weights_about).
    #[must_use]
    pub fn about(&self, name: &str) -> Option<&str> {
        self.about.get(name).map(String::as_str)
    }

    /// Sets the variables of `store` to the values in the file. Floats of another width are
    /// converted; the counters that PyTorch keeps with a batch norm are passed over.
    ///
    /// # Errors
    /// [`Error::Tensors`] names the first variable, in the order of names, that it lacks or has in
    /// another shape, else the first tensor that the store has no variable for; then nothing was
    /// changed. [`Error::Torch`].
    pub fn load(&self, store: &mut VarStore) -> Result<(), Error> {
        let wrong = |reason: String| Error::Tensors { reason };
        let mut named: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
        for (name, target) in &named {
            let Ok(view) = self.tensors.tensor(name) else {
                return Err(wrong(format!(
                    "the weights have no tensor `{name}`, which the network needs"
                )));
            };
            let (found, of_file, expected) = (shape(&view), view.dtype(), target.size());
            let kind = dtype(target.f_kind()?)?;
            let fits = of_file == kind || is_float(of_file) && is_float(kind);
            if found != expected || !fits {
                return Err(wrong(format!(
                    "the tensor `{name}` of the weights is {of_file:?} {found:?}, expected {kind:?} {expected:?} as in the network"
                )));
            }
        }
        let mut names = self.tensors.names();
        names.sort_unstable();
        let is_extra = |name: &&str| !named.contains_key(*name) && !name.ends_with(COUNTER);
        if let Some(name) = names.into_iter().find(is_extra) {
            return Err(wrong(format!(
                "the weights have a tensor `{name}`, which the network does not have"
            )));
        }
        tch::no_grad(|| {
            for (name, target) in &mut named {
                let view = self.tensors.tensor(name).map_err(|e| wrong(e.to_string()))?;
                let kind = kind(view.dtype()).unwrap_or(target.f_kind()?);
                let values = Tensor::f_from_data_size(view.data(), &shape(&view), kind)?;
                target.f_copy_(&values)?;
            }
            Ok(())
        })
    }
}

fn shape(view: &TensorView<'_>) -> Vec<i64> {
    view.shape().iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect()
}

fn is_float(dtype: Dtype) -> bool {
    kind(dtype).is_some()
}

fn kind(dtype: Dtype) -> Option<Kind> {
    Some(match dtype {
        Dtype::F16 => Kind::Half,
        Dtype::BF16 => Kind::BFloat16,
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use tch::{Device, nn};

    use super::super::weights::{encode, weights, write_weights_about};
    use super::*;

    fn store(n: i64) -> VarStore {
        let store = VarStore::new(Device::Cpu);
        let _ = nn::linear(store.root() / "fc", 4, n, nn::LinearConfig::default());
        let _ = nn::batch_norm1d(store.root() / "bn", 4, nn::BatchNormConfig::default());
        store
    }

    fn fault(file: &VarStore, into: &mut VarStore) -> String {
        let bytes = weights(file).unwrap();
        WeightsFile::parse(&bytes).unwrap().load(into).unwrap_err().to_string()
    }

    #[test]
    fn what_does_not_fit_is_named_with_both_shapes() {
        let told = fault(&store(3), &mut store(2));
        assert!(
            told.contains("`fc.bias` of the weights is F32 [3], expected F32 [2]"),
            "the first by name: {told}"
        );
        let other = VarStore::new(Device::Cpu);
        let _ = nn::linear(other.root() / "fc", 4, 3, nn::LinearConfig::default());
        assert!(fault(&other, &mut store(3)).contains("have no tensor `bn.bias`"));
        let mut other = other;
        assert!(
            fault(&store(3), &mut other).contains("have a tensor `bn.bias`, which the network")
        );
        assert!(WeightsFile::parse(b"no such file").is_err());
    }

    #[test]
    fn other_floats_are_converted_and_counters_passed_over() {
        let of = store(3);
        let other = |(name, tensor): (String, Tensor)| {
            let kind = if name.starts_with("bn") { Kind::Double } else { Kind::BFloat16 };
            (name, tensor.to_kind(kind))
        };
        let mut named: BTreeMap<String, Tensor> = of.variables().into_iter().map(other).collect();
        named.insert("bn.num_batches_tracked".into(), Tensor::from(7_i64));
        let mut into = store(3);
        let bytes = encode(&named).unwrap();
        WeightsFile::parse(&bytes).unwrap().load(&mut into).unwrap();
        for (name, tensor) in into.variables() {
            assert_eq!(tensor, named[&name].to_kind(Kind::Float), "{name}");
        }
        named.insert("bn.weight".into(), Tensor::from_slice(&[1_i64, 2, 3, 4]));
        let bytes = encode(&named).unwrap();
        let told = WeightsFile::parse(&bytes).unwrap().load(&mut into).unwrap_err().to_string();
        assert!(told.contains("`bn.weight` of the weights is I64 [4], expected F32 [4]"), "{told}");
    }

    #[test]
    fn a_file_says_what_it_was_told_of_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights.safetensors");
        let about = BTreeMap::from([("a".to_owned(), "\"1\"".to_owned())]);
        let of = store(3);
        write_weights_about(&of, &about, &path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let file = WeightsFile::parse(&bytes).unwrap();
        assert_eq!((file.about("a"), file.about("b")), (Some("\"1\""), None));
        assert_eq!(file.shape("fc.weight"), Some(vec![3, 4]));
        assert_eq!(file.shape("fc.other"), None);
        let mut again = store(3);
        file.load(&mut again).unwrap();
        assert_eq!(weights(&again).unwrap(), weights(&of).unwrap());
        // Data begin where the format's own library would have them.
        assert!(bytes[..8].iter().any(|byte| *byte > 0) && bytes[0].is_multiple_of(8));
    }
}
