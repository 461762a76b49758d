//! The numbers of a batch as tensors: its own memory, lent until the last tensor is gone.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use gular_bundle::Dtype;
use tch::{Kind, Tensor};
use torch_sys::C_tensor;

use crate::{Array, Batch, Error, Layout, Values};

/// As libtorch names a type. tch has no names for `u16` and `u32`: these are the next larger.
pub(super) fn kind(dtype: Dtype) -> Kind {
    match dtype {
        Dtype::U8 => Kind::Uint8,
        Dtype::I8 => Kind::Int8,
        Dtype::I16 => Kind::Int16,
        Dtype::U16 | Dtype::I32 => Kind::Int,
        Dtype::U32 | Dtype::I64 => Kind::Int64,
        Dtype::F16 => Kind::Half,
        Dtype::Bf16 => Kind::BFloat16,
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
    }
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
        // What `kind` gives besides.
        _ => 0,
    }
}

/// Field `name` of `batch` as a tensor; images of shape `[n, channels, height, width]` in any
/// layout. Where libtorch lacks the type they are copied, else lent.
pub(super) fn lend(batch: &Arc<Batch>, name: &str) -> Result<Option<Tensor>, Error> {
    let Some(Values::Array(array)) = batch.field(name) else { return Ok(None) };
    if array.shape.contains(&0) || matches!(array.dtype, Dtype::U16 | Dtype::U32) {
        return copy(batch, name);
    }
    let (sizes, strides) = axes(&array, name == "image", batch.layout());
    // SAFETY: the array is the batch's memory, in which `axes` finds its places.
    #[expect(unsafe_code, reason = "a tensor over the memory of a batch")]
    let tensor = unsafe { over(array.bytes.as_ptr(), &sizes, &strides, kind(array.dtype), batch) };
    tensor.map(Some)
}

/// The labels of `batch`, lent.
pub(super) fn lend_labels(batch: &Arc<Batch>) -> Result<Tensor, Error> {
    let labels = batch.labels();
    if labels.is_empty() {
        return Ok(Tensor::f_from_slice(labels)?);
    }
    let start = labels.as_ptr().cast::<u8>();
    // SAFETY: as many `i64`, one after the other, as the tensor is told.
    #[expect(unsafe_code, reason = "a tensor over the memory of a batch")]
    unsafe {
        over(start, &[labels.len() as i64], &[1], Kind::Int64, batch)
    }
}

/// As [`lend`], with memory of its own.
pub(super) fn copy(batch: &Batch, name: &str) -> Result<Option<Tensor>, Error> {
    let Some(Values::Array(array)) = batch.field(name) else { return Ok(None) };
    let shape: Vec<i64> = array.shape.iter().map(|n| *n as i64).collect();
    let tensor = match array.dtype {
        Dtype::U16 => {
            let values = array.values::<u16>().unwrap_or_default();
            let wide: Vec<i32> = values.iter().map(|v| i32::from(*v)).collect();
            Tensor::f_from_slice(&wide)?.f_view(&shape[..])?
        }
        Dtype::U32 => {
            let values = array.values::<u32>().unwrap_or_default();
            let wide: Vec<i64> = values.iter().map(|v| i64::from(*v)).collect();
            Tensor::f_from_slice(&wide)?.f_view(&shape[..])?
        }
        dtype => Tensor::f_from_data_size(array.bytes, &shape, kind(dtype))?,
    };
    let pixels_last = name == "image" && batch.layout() == Layout::ChannelsLast;
    Ok(Some(if pixels_last { tensor.f_permute([0, 3, 1, 2])? } else { tensor }))
}

/// Sizes and strides; of images whose pixels lie one after the other the channels come first.
fn axes(array: &Array<'_>, image: bool, layout: Layout) -> (Vec<i64>, Vec<i64>) {
    let mut sizes: Vec<i64> = array.shape.iter().map(|n| *n as i64).collect();
    let mut strides = vec![1; sizes.len()];
    for axis in (1..sizes.len()).rev() {
        strides[axis - 1] = strides[axis] * sizes[axis];
    }
    if image && layout == Layout::ChannelsLast {
        sizes[1..].rotate_right(1);
        strides[1..].rotate_right(1);
    }
    (sizes, strides)
}

#[expect(unsafe_code, reason = "libtorch's C++, which tch does not offer")]
mod foreign {
    use super::{C_tensor, c_int, c_void};

    // SAFETY: what `lend.cpp` defines.
    unsafe extern "C" {
        pub(super) fn gular_lend(
            data: *mut c_void,
            sizes: *const i64,
            strides: *const i64,
            n_axes: usize,
            kind: c_int,
            owner: *mut c_void,
            give_back: extern "C" fn(*mut c_void),
        ) -> *mut C_tensor;
    }
}

/// A tensor over memory of `batch`, which it keeps from being filled again.
///
/// # Safety
/// Numbers of `kind` lie from `start` on at all places that `sizes` and `strides` name, in
/// memory of `batch`.
#[expect(unsafe_code, reason = "a tensor over the memory of a batch")]
unsafe fn over(
    start: *const u8,
    sizes: &[i64],
    strides: &[i64],
    kind: Kind,
    batch: &Arc<Batch>,
) -> Result<Tensor, Error> {
    let owner = Box::into_raw(Box::new(Arc::clone(batch)));
    // SAFETY: the memory is the batch's, which `owner` keeps until `give_back` is called. It is
    // written again only then, by a thread that was given it since; a training that writes to
    // the tensor writes to what nobody else reads, as the batch is lent to nobody else.
    let tensor = unsafe {
        foreign::gular_lend(
            start.cast_mut().cast(),
            sizes.as_ptr(),
            strides.as_ptr(),
            sizes.len(),
            code(kind),
            owner.cast(),
            give_back,
        )
    };
    if tensor.is_null() {
        let reason = format!("libtorch makes no tensor of {sizes:?} over the memory of a batch");
        return Err(Error::Tensors { reason });
    }
    // SAFETY: a tensor made by `new` in C++, as tch's own are, and owned by nobody else.
    Ok(unsafe { Tensor::from_ptr(tensor) })
}

/// The last tensor of a batch's field is gone.
#[expect(unsafe_code, reason = "a callback of C++")]
extern "C" fn give_back(owner: *mut c_void) {
    // SAFETY: made by `over`, and handed over to this one call.
    drop(unsafe { Box::from_raw(owner.cast::<Arc<Batch>>()) });
}
