//! Named tensors as safetensors bytes: equal tensors give equal bytes.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use gular_bundle::{Digest, StreamDigest};
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensors};
use tch::nn::VarStore;
use tch::{Kind, Tensor};

use crate::Error;

/// Returns all variables of `store` as a safetensors file, under their names.
///
/// Python's `safetensors.torch.load_file` and tch's `VarStore::load` read it.
///
/// # Errors
/// [`Error::Torch`]; [`Error::Tensors`] for a kind that safetensors lacks.
pub fn weights(store: &VarStore) -> Result<Vec<u8>, Error> {
    let named: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
    encode(&named)
}

/// Writes [`weights`] to the file `path`, under a temporary name first; returns their digest.
/// Needs a few megabytes besides the model.
///
/// # Errors
/// [`Error::Io`], and those of [`weights`]; then no file of that name was changed.
pub fn write_weights(store: &VarStore, path: &Path) -> Result<Digest, Error> {
    write_weights_about(store, &BTreeMap::new(), path)
}

/// Does the same as [`write_weights`], with texts in the file's metadata that describe the weights.
/// `safe_open(…).metadata()` of Python's safetensors returns them, and so does
/// [`WeightsFile::about`](super::WeightsFile::about).
///
/// # Errors
/// Those of [`write_weights`].
pub fn write_weights_about(
    store: &VarStore,
    about: &BTreeMap<String, String>,
    path: &Path,
) -> Result<Digest, Error> {
    let mut temp = gular_files::temp_in(gular_files::folder_of(path))?;
    let named: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
    let mut digest = StreamDigest::new();
    write_about(&named, about, &mut |piece| {
        digest.update(piece);
        temp.write_all(piece).map_err(|e| Error::io("write", path, e))
    })?;
    gular_files::persist(temp, path)?;
    Ok(digest.finish())
}

/// Sets the variables of `store` to the values in a safetensors file.
///
/// # Errors
/// [`Error::Tensors`] unless the file has exactly the store's names, shapes and
/// kinds; then nothing was changed.
pub fn load_weights(store: &mut VarStore, bytes: &[u8]) -> Result<(), Error> {
    let mut named: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
    assign(&mut named, bytes)
}

pub(super) fn encode(named: &BTreeMap<String, Tensor>) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    write(named, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

/// Gives `out` the bytes of a safetensors file of `named`, in order; no more than
/// [`PIECE_BYTES`] of them are in memory at a time.
pub(super) fn write(
    named: &BTreeMap<String, Tensor>,
    out: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    write_about(named, &BTreeMap::new(), out)
}

/// Does the same as [`write`], with texts in the file's metadata.
pub(super) fn write_about(
    named: &BTreeMap<String, Tensor>,
    about: &BTreeMap<String, String>,
    out: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let wrong = |reason: String| Error::Tensors { reason };
    let mut tensors = Vec::with_capacity(named.len());
    for (name, tensor) in named {
        tensors.push((dtype(tensor.f_kind()?)?, name, tensor));
    }
    // The widest types are first, as in the format's own library, so that all are aligned.
    tensors.sort_by(|(a, _, _), (b, _, _)| b.cmp(a));
    let mut infos = Vec::with_capacity(tensors.len());
    let mut end = 0;
    for (dtype, name, tensor) in &tensors {
        let start = end;
        end += tensor.numel() * tensor.f_kind()?.elt_size_in_bytes();
        let shape = tensor.size().into_iter().map(|n| usize::try_from(n).unwrap_or(0)).collect();
        infos.push((
            (*name).clone(),
            TensorInfo { dtype: *dtype, shape, data_offsets: (start, end) },
        ));
    }
    let tensors_of = Metadata::new(None, infos).map_err(|e| wrong(e.to_string()))?;
    let mut header = serde_json::to_vec(&tensors_of).map_err(|e| wrong(e.to_string()))?;
    if !about.is_empty() {
        // The library's own metadata would come in a HashMap's order, another in each process.
        let mut texts = serde_json::to_vec(about).map_err(|e| wrong(e.to_string()))?;
        texts.splice(..0, *b"{\"__metadata__\":");
        if !named.is_empty() {
            texts.push(b',');
        }
        header.splice(..1, texts);
    }
    header.resize(header.len().next_multiple_of(8), b' ');
    out(&(header.len() as u64).to_le_bytes())?;
    out(&header)?;
    let mut piece = Vec::new();
    for (_, _, tensor) in tensors {
        for next in Pieces::of(tensor)? {
            next?.read(&mut piece)?;
            out(&piece)?;
        }
    }
    Ok(())
}

/// Copies the tensors of `bytes` into those of the same names.
pub(super) fn assign(named: &mut BTreeMap<String, Tensor>, bytes: &[u8]) -> Result<(), Error> {
    let wrong = |reason: String| Error::Tensors { reason };
    let file = SafeTensors::deserialize(bytes).map_err(|e| wrong(e.to_string()))?;
    // All tensors are compared before any is changed.
    for (name, view) in file.iter() {
        let Some(target) = named.get(name) else {
            return Err(wrong(format!("it has a tensor `{name}`, which the model does not have")));
        };
        let shape: Vec<i64> = view.shape().iter().map(|n| *n as i64).collect();
        let (shape_wanted, wanted) = (target.size(), dtype(target.f_kind()?)?);
        if (view.dtype(), &shape) != (wanted, &shape_wanted) {
            let found = view.dtype();
            return Err(wrong(format!(
                "its tensor `{name}` is {found:?} {shape:?}, expected {wanted:?} {shape_wanted:?} as in the model"
            )));
        }
    }
    if let Some(name) = named.keys().find(|name| file.tensor(name).is_err()) {
        return Err(wrong(format!("it has no tensor `{name}`, which the model needs")));
    }
    tch::no_grad(|| {
        for (name, target) in named {
            let view = file.tensor(name).map_err(|e| wrong(e.to_string()))?;
            let (size, kind) = (target.size(), target.f_kind()?);
            target.f_copy_(&Tensor::f_from_data_size(view.data(), &size, kind)?)?;
        }
        Ok(())
    })
}

/// A tensor of its own with the same values, on the CPU.
pub(super) fn copy(tensor: &Tensor) -> Result<Tensor, Error> {
    let mut copy = Tensor::f_empty(tensor.size(), (tensor.f_kind()?, tch::Device::Cpu))?;
    copy.f_copy_(&tensor.f_detach()?)?;
    Ok(copy)
}

/// The bytes of a tensor that are handled at a time: few enough beside any model, enough for a
/// disk and a network to be busy.
pub(super) const PIECE_BYTES: usize = 4 << 20;

/// The numbers of a tensor, in pieces, in the order in which a file has them.
pub(super) struct Pieces {
    /// The numbers in one dimension; the tensor's own memory if that is contiguous.
    flat: Tensor,
    kind: Kind,
    at: usize,
}

/// Some consecutive numbers of a tensor.
pub(super) struct Piece {
    /// The numbers, in one dimension.
    pub(super) numbers: Tensor,
    kind: Kind,
}

impl Pieces {
    pub(super) fn of(tensor: &Tensor) -> Result<Self, Error> {
        Ok(Self { flat: tensor.f_detach()?.f_reshape([-1])?, kind: tensor.f_kind()?, at: 0 })
    }
}

impl Iterator for Pieces {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let most = PIECE_BYTES / self.kind.elt_size_in_bytes();
        let n = most.min(self.flat.numel() - self.at);
        if n == 0 {
            return None;
        }
        let numbers = self.flat.f_narrow(0, self.at as i64, n as i64);
        self.at += n;
        Some(numbers.map(|numbers| Piece { numbers, kind: self.kind }).map_err(Error::from))
    }
}

impl Piece {
    pub(super) fn len_bytes(&self) -> usize {
        self.numbers.numel() * self.kind.elt_size_in_bytes()
    }

    /// Replaces `out` by the piece's bytes.
    pub(super) fn read(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.resize(self.len_bytes(), 0);
        self.read_into(out)
    }

    /// Writes the piece's bytes to `out`, which has their length.
    pub(super) fn read_into(&self, out: &mut [u8]) -> Result<(), Error> {
        let numbers = self.numbers.f_to_device(tch::Device::Cpu)?;
        Ok(numbers.f_copy_data_u8(out, numbers.numel())?)
    }

    /// Sets the piece's numbers from their bytes.
    pub(super) fn set(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let numbers = Tensor::f_from_data_size(bytes, &self.numbers.size(), self.kind)?;
        Ok(self.numbers.f_copy_(&numbers)?)
    }
}

pub(super) fn dtype(kind: Kind) -> Result<Dtype, Error> {
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
            return Err(Error::Tensors {
                reason: format!(
                    "a tensor has the type {other:?}, which safetensors does not support"
                ),
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use safetensors::View;
    use tch::Device;

    use super::*;

    fn named() -> BTreeMap<String, Tensor> {
        let cpu = |kind| (kind, Device::Cpu);
        let wide = Tensor::arange(3 << 20, cpu(Kind::Float));
        let last = Tensor::arange(24, cpu(Kind::Float)).view([2, 3, 2, 2]);
        [
            // This tensor has three pieces.
            ("wide", wide),
            ("turned", last.permute([0, 2, 3, 1])),
            ("half", Tensor::arange(7, cpu(Kind::Half))),
            ("double", Tensor::arange(5, cpu(Kind::Double))),
            ("count", Tensor::from(7_i64)),
            ("flags", Tensor::from_slice(&[true, false, true])),
            ("none", Tensor::zeros([0, 4], cpu(Kind::Float))),
        ]
        .map(|(name, tensor)| (name.to_owned(), tensor))
        .into()
    }

    /// The form that the format's own library needs: all bytes at once.
    struct Whole(Dtype, Vec<usize>, Vec<u8>);

    impl View for Whole {
        fn dtype(&self) -> Dtype {
            self.0
        }

        fn shape(&self) -> &[usize] {
            &self.1
        }

        fn data(&self) -> std::borrow::Cow<'_, [u8]> {
            (&self.2).into()
        }

        fn data_len(&self) -> usize {
            self.2.len()
        }
    }

    #[test]
    fn a_file_written_in_pieces_is_that_of_the_library() {
        let named = named();
        let whole = |(name, tensor): (&String, &Tensor)| {
            let kind = tensor.kind();
            let mut bytes = vec![0; tensor.numel() * kind.elt_size_in_bytes()];
            tensor.contiguous().copy_data_u8(&mut bytes, tensor.numel());
            let shape = tensor.size().into_iter().map(|n| n as usize).collect();
            (name.clone(), Whole(dtype(kind).unwrap(), shape, bytes))
        };
        let expected = safetensors::serialize(named.iter().map(whole), None).unwrap();
        assert!(encode(&named).unwrap() == expected);
        let mut again: BTreeMap<String, Tensor> =
            named.iter().map(|(name, tensor)| (name.clone(), tensor.zeros_like())).collect();
        assign(&mut again, &expected).unwrap();
        assert_eq!(again, named);
    }

    #[test]
    fn no_piece_is_longer_than_it_may_be() {
        let (mut longest, mut n) = (0, 0);
        write(&named(), &mut |piece| {
            (longest, n) = (longest.max(piece.len()), n + 1);
            Ok(())
        })
        .unwrap();
        assert_eq!((longest, n), (PIECE_BYTES, 2 + 3 + 5));
    }
}
