//! The fields of a batch: how its slots store them, and how they are borrowed.

use gular_bundle::{Dtype, FieldIdx};
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// A field of a batch, as the slots store it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) field: FieldIdx,
    /// The type and shape of a sample's numbers; `None` for bytes of any length.
    pub(super) fixed: Option<(Dtype, Vec<usize>)>,
    /// Whether the shape ends with channels, after rows and columns.
    pub(super) channels_last: bool,
}

impl Column {
    /// Bytes of a sample; `None` if each has a different length, or if the number overflows.
    pub(super) fn row_bytes(&self) -> Option<usize> {
        let (dtype, shape) = self.fixed.as_ref()?;
        let size = usize::try_from(dtype.size_bytes()).ok()?;
        shape.iter().try_fold(size, |bytes, n| bytes.checked_mul(*n))
    }
}

/// The values of one field for all samples of a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Values<'a> {
    /// Numbers of one type and shape for each sample.
    Array(Array<'a>),
    /// Bytes of each sample, such as a text.
    Bytes(&'a [Vec<u8>]),
}

impl<'a> Values<'a> {
    /// The numbers; `None` if the field holds bytes.
    #[must_use]
    pub fn array(&self) -> Option<&Array<'a>> {
        match self {
            Self::Array(array) => Some(array),
            Self::Bytes(_) => None,
        }
    }

    /// The bytes; `None` if the field holds numbers.
    #[must_use]
    pub fn bytes(&self) -> Option<&'a [Vec<u8>]> {
        match self {
            Self::Array(_) => None,
            Self::Bytes(values) => Some(values),
        }
    }
}

/// Numbers as they are in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Array<'a> {
    /// The numbers' type.
    pub dtype: Dtype,
    /// The number of samples, then the shape of one: row-major.
    pub shape: Vec<usize>,
    /// Whether the shape ends with channels, after rows and columns.
    pub channels_last: bool,
    /// The numbers, in this machine's byte order.
    pub bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// The numbers as `T`; `None` if they are of another type.
    #[must_use]
    pub fn values<T: Element>(&self) -> Option<&'a [T]> {
        <[T]>::ref_from_bytes(self.bytes).ok().filter(|_| T::DTYPE == self.dtype)
    }
}

/// A type of numbers that bundles can contain.
pub trait Element: FromBytes + Immutable + KnownLayout {
    /// The type's name in bundles.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($type:ty, $dtype:ident;)*) => {
        $(impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
        })*
    };
}

elements! {
    u8, U8; i8, I8; u16, U16; i16, I16; u32, U32; i32, I32; i64, I64; f32, F32; f64, F64;
    half::f16, F16; half::bf16, Bf16;
}
