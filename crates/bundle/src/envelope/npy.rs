//! The header of NumPy's `.npy` files, in which folders, tar and SquashFS hold fixed values.
//!
//! ```text
//! 0  \x93NUMPY 1 0 | u16 length of the dictionary | {'descr': '<u2', …} spaces, line feed | data
//! ```
//!
//! Version 1.0 of numpy's format: `numpy.lib.format`. The data begins at a
//! multiple of 64.

use crate::Dtype;

pub(crate) const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// What precedes the data of an array.
pub(crate) fn header(dtype: Dtype, shape: &[u64]) -> Vec<u8> {
    let dims: Vec<String> = shape.iter().map(|n| format!("{n},")).collect();
    let dict = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
        descr(dtype),
        dims.join(" ").trim_end_matches(if shape.len() > 1 { "," } else { "" })
    );
    let total = dict.len().saturating_add(11).next_multiple_of(64);
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&[1, 0]);
    let len = u16::try_from(total.saturating_sub(10)).unwrap_or(u16::MAX);
    header.extend_from_slice(&len.to_le_bytes());
    header.extend_from_slice(dict.as_bytes());
    header.resize(total.saturating_sub(1), b' ');
    header.push(b'\n');
    header
}

/// numpy has no bfloat16; void of two bytes is what `ml_dtypes` writes.
pub(crate) fn descr(dtype: Dtype) -> &'static str {
    dtype.numpy().unwrap_or("<V2")
}
