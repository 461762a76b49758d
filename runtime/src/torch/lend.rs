//! Lends the numbers of a batch as tensors: they use the batch's memory, which is returned when the
//! last tensor is dropped.

use std::sync::Arc;

use gular_bundle::Dtype;
use tch::{Kind, Tensor};

use super::foreign::{Lent, tensor_over};
use crate::{Array, Batch, Error, Values};

/// libtorch's name of a type. tch has no names for `u16` and `u32`: the next larger type is used.
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

/// Returns field `name` of `batch` as a tensor; images have shape `[n, channels, height, width]` in
/// any layout. The memory is lent, or copied if libtorch lacks the type.
pub(super) fn lend(batch: &Arc<Batch>, name: &str) -> Result<Option<Tensor>, Error> {
    let Some(Values::Array(array)) = batch.field(name) else { return Ok(None) };
    if array.shape.contains(&0) || matches!(array.dtype, Dtype::U16 | Dtype::U32) {
        return copy(batch, name);
    }
    let (sizes, strides) = axes(&array);
    tensor_over(batch, Lent::Field(name), (&sizes, &strides), kind(array.dtype)).map(Some)
}

/// Returns the labels of `batch`, lent.
pub(super) fn lend_labels(batch: &Arc<Batch>) -> Result<Tensor, Error> {
    let labels = batch.labels();
    if labels.is_empty() {
        return Ok(Tensor::f_from_slice(labels)?);
    }
    tensor_over(batch, Lent::Labels, (&[labels.len() as i64], &[1]), Kind::Int64)
}

/// Does the same as [`lend`], but copies the memory.
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
    Ok(Some(if array.channels_last { tensor.f_permute([0, 3, 1, 2])? } else { tensor }))
}

/// Sizes and strides; of pictures whose pixels lie one after the other the channels come first.
fn axes(array: &Array<'_>) -> (Vec<i64>, Vec<i64>) {
    let mut sizes: Vec<i64> = array.shape.iter().map(|n| *n as i64).collect();
    let mut strides = vec![1; sizes.len()];
    for axis in (1..sizes.len()).rev() {
        strides[axis - 1] = strides[axis] * sizes[axis];
    }
    if array.channels_last {
        sizes[1..].rotate_right(1);
        strides[1..].rotate_right(1);
    }
    (sizes, strides)
}
