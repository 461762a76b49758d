//! Access to parts of libtorch that tch does not offer: four C++ functions of our own, and access
//! to a tensor's memory.
//!
//! All unsafe code for tensors is here, behind functions that check their arguments, so that no
//! caller can break a promise.

#![expect(unsafe_code, reason = "libtorch's C++, which tch does not offer")]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::Arc;

use tch::kind::Element;
use tch::{Device, Kind, Tensor};
use torch_sys::C_tensor;
use zerocopy::IntoBytes as _;

use crate::{Batch, Error, Values};

// SAFETY: what `autocast.cpp`, `grad.cpp` and `lend.cpp` define, with these types.
unsafe extern "C" {
    fn gular_autocast_begin(gpu: bool) -> c_int;
    fn gular_autocast_end(gpu: bool, before: c_int);
    fn gular_forget_grad(variable: *mut C_tensor);
    fn gular_lend(
        data: *mut c_void,
        sizes: *const i64,
        strides: *const i64,
        n_axes: usize,
        kind: c_int,
        owner: *mut c_void,
        give_back: extern "C" fn(*mut c_void),
    ) -> *mut C_tensor;
}

/// Mixed precision in bf16 on this thread, until it is dropped.
pub(super) struct Casting {
    gpu: bool,
    before: c_int,
    /// The flags belong to this thread.
    _here: PhantomData<*const ()>,
}

impl Casting {
    /// `None` where libtorch has none for GPUs, or for CPUs.
    pub(super) fn begin(gpu: bool) -> Option<Self> {
        // SAFETY: sets flags of this thread, which dropping this sets back.
        let before = unsafe { gular_autocast_begin(gpu) };
        (before >= 0).then_some(Self { gpu, before, _here: PhantomData })
    }
}

impl Drop for Casting {
    fn drop(&mut self) {
        // SAFETY: follows the call that gave `before`, on the same thread.
        unsafe { gular_autocast_end(self.gpu, self.before) };
    }
}

/// Removes the gradient of `variable`.
pub(super) fn forget_grad(variable: &mut Tensor) {
    // SAFETY: the tensor lives as long as the call; a variable's gradient may be replaced by
    // nothing at any time outside a backward pass, and that borrows no gradient of ours.
    unsafe { gular_forget_grad(variable.as_mut_ptr()) }
}

/// The numbers of a batch that are lent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lent<'a> {
    Field(&'a str),
    Labels,
}

/// A tensor of `kind` over memory of `batch`, which it keeps from being filled again: at all
/// places that `sizes` and `strides` name, in numbers.
///
/// # Errors
/// [`Error::Tensors`] where the batch has less, or libtorch makes no such tensor.
pub(super) fn tensor_over(
    batch: &Arc<Batch>,
    of: Lent<'_>,
    (sizes, strides): (&[i64], &[i64]),
    kind: Kind,
) -> Result<Tensor, Error> {
    let values = match of {
        Lent::Field(name) => batch.field(name),
        Lent::Labels => None,
    };
    let bytes = match (of, &values) {
        (Lent::Labels, _) => batch.labels().as_bytes(),
        (Lent::Field(_), Some(Values::Array(array))) => array.bytes,
        (Lent::Field(_), _) => &[],
    };
    let refused = || {
        let reason = format!(
            "libtorch could not make a tensor of shape {sizes:?} over the memory of a batch"
        );
        Error::Tensors { reason }
    };
    if !fits(bytes.len(), sizes, strides, kind) {
        return Err(refused());
    }
    let owner = Box::into_raw(Box::new(Arc::clone(batch)));
    // SAFETY: `fits` saw that all numbers are in `bytes`, the batch's memory, which `owner` keeps
    // until `give_back` is called. It is written again only then, by a thread that got it since. If
    // a training run writes to the tensor, nobody else reads that memory, since the batch is lent
    // only once.
    let tensor = unsafe {
        gular_lend(
            bytes.as_ptr().cast_mut().cast(),
            sizes.as_ptr(),
            strides.as_ptr(),
            sizes.len(),
            code(kind),
            owner.cast(),
            give_back,
        )
    };
    if tensor.is_null() {
        return Err(refused());
    }
    // SAFETY: a tensor made by `new` in C++, as tch's own are, and owned by nobody else.
    Ok(unsafe { Tensor::from_ptr(tensor) })
}

/// Whether a tensor of numbers of `kind` fits into so many bytes.
fn fits(len_bytes: usize, sizes: &[i64], strides: &[i64], kind: Kind) -> bool {
    let last = sizes.iter().zip(strides).try_fold(0_i64, |last, (n, step)| {
        let steps = n.checked_sub(1).filter(|steps| *steps >= 0 && *step >= 0)?;
        last.checked_add(steps.checked_mul(*step)?)
    });
    let end = last.and_then(|last| usize::try_from(last).ok()?.checked_add(1));
    let end = end.and_then(|end| end.checked_mul(kind.elt_size_in_bytes()));
    sizes.len() == strides.len() && end.is_some_and(|end| end <= len_bytes)
}

/// Is called when the last tensor over a batch is gone.
extern "C" fn give_back(owner: *mut c_void) {
    // SAFETY: made by `tensor_over`, and handed over to this one call.
    drop(unsafe { Box::from_raw(owner.cast::<Arc<Batch>>()) });
}

/// The number of a type in `c10/core/ScalarType.h`.
fn code(kind: Kind) -> c_int {
    match kind {
        Kind::Int8 => 1,
        Kind::Int16 => 2,
        Kind::Int => 3,
        Kind::Int64 => 4,
        Kind::Half => 5,
        Kind::Float => 6,
        Kind::Double => 7,
        Kind::BFloat16 => 15,
        // Anything else that is lent.
        _ => 0,
    }
}

/// The memory of a tensor of `T` on the CPU.
///
/// # Errors
/// [`Error::Tensors`] for a tensor elsewhere, of another type, or not contiguous.
pub(super) fn host_numbers<T: Element>(tensor: &mut Tensor) -> Result<&mut [T], Error> {
    let (device, kind) = (tensor.device(), tensor.f_kind()?);
    if device != Device::Cpu || kind != T::KIND || !tensor.is_contiguous() {
        let reason =
            format!("a sum over TCP of a tensor that is {kind:?} on {device:?} or not contiguous");
        return Err(Error::Tensors { reason });
    }
    let len = tensor.numel();
    if len == 0 {
        return Ok(&mut []);
    }
    let start = tensor.data_ptr().cast::<T>();
    // SAFETY: contiguous numbers of that kind on the CPU, as checked, aligned by
    // libtorch; the borrow is mutable, and libtorch works on them in this thread only.
    Ok(unsafe { std::slice::from_raw_parts_mut(start, len) })
}

/// The kernel of `cuda`, compiled for the CPU: what it makes of `images` images of `pixels`
/// pixels, `how` being scales, means and standard deviations of each channel; as bytes.
#[cfg(all(test, feature = "cuda"))]
pub(super) fn convert_on_host(
    (stored, numbers, layout): (gular_bundle::Dtype, crate::Numbers, crate::AxisOrder),
    from: &[u8],
    how: &[f32],
    pixels: usize,
    images: usize,
) -> Vec<u8> {
    use crate::{AxisOrder, Numbers};
    use gular_bundle::Dtype;

    // SAFETY: the function is defined in `convert_on_host.cpp`.
    unsafe extern "C" {
        fn gular_convert_on_host(
            wide: bool,
            number: i32,
            planar: bool,
            from: *const c_void,
            to: *mut c_void,
            how: *const f32,
            channels: u32,
            pixels: u32,
            images: u32,
        );
    }
    let channels = how.len() / 3;
    let n = images * pixels * channels;
    assert_eq!(from.len(), n * stored.size_bytes() as usize);
    let mut to = vec![0; n * numbers.dtype(stored).size_bytes() as usize];
    let number = match numbers {
        Numbers::F32 | Numbers::Stored => 0,
        Numbers::Bf16 => 1,
        Numbers::F16 => 2,
    };
    // SAFETY: as many numbers as the counts say, as checked above.
    unsafe {
        gular_convert_on_host(
            stored == Dtype::U16,
            number,
            layout == AxisOrder::Contiguous,
            from.as_ptr().cast(),
            to.as_mut_ptr().cast(),
            how.as_ptr(),
            channels as u32,
            pixels as u32,
            images as u32,
        );
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_behind_the_memory_is_not_lent() {
        assert!(fits(24, &[2, 3], &[3, 1], Kind::Float));
        assert!(!fits(23, &[2, 3], &[3, 1], Kind::Float));
        assert!(fits(6, &[2, 1, 3], &[3, 3, 1], Kind::Uint8));
        assert!(!fits(24, &[2, 3], &[4, 1], Kind::Float));
        assert!(!fits(24, &[2, 3], &[3], Kind::Float));
        for bad in [[0, 1], [-1, 1], [1, -1], [i64::MAX, i64::MAX]] {
            assert!(!fits(usize::MAX, &bad[..1], &bad[1..], Kind::Double), "{bad:?}");
        }
    }

    #[test]
    fn only_numbers_of_the_type_are_shown() {
        let mut tensor = Tensor::from_slice(&[1_f32, 2.0]);
        assert_eq!(host_numbers::<f32>(&mut tensor).unwrap(), [1.0, 2.0]);
        assert!(host_numbers::<f64>(&mut tensor).is_err());
        assert!(
            host_numbers::<f32>(&mut Tensor::ones([2, 3], (Kind::Float, Device::Cpu)).tr())
                .is_err()
        );
    }
}
