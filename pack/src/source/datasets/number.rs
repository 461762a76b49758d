//! The numbers of a dataset, as bytes in the order of this machine's format.

use gular_bundle::Dtype;
use hdf5_reader::error::{Error, Result};
use hdf5_reader::{ByteOrder, Datatype, H5Type};

/// A number of `N` bytes, the lowest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<const N: usize>(pub(super) [u8; N]);

impl<const N: usize> H5Type for Bytes<N> {
    fn hdf5_type() -> Datatype {
        let size = u8::try_from(N).unwrap_or(u8::MAX);
        Datatype::FixedPoint { size, signed: false, byte_order: ByteOrder::LittleEndian }
    }

    fn from_bytes(bytes: &[u8], dtype: &Datatype) -> Result<Self> {
        let mut number: [u8; N] = bytes
            .get(..N)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| Error::InvalidData("a number is cut short".to_owned()))?;
        if order(dtype) == Some(ByteOrder::BigEndian) {
            number.reverse();
        }
        Ok(Self(number))
    }

    fn element_size(_dtype: &Datatype) -> usize {
        N
    }

    fn native_copy_compatible(dtype: &Datatype) -> bool {
        cfg!(target_endian = "little") && order(dtype) == Some(ByteOrder::LittleEndian)
    }
}

fn order(dtype: &Datatype) -> Option<ByteOrder> {
    match dtype {
        Datatype::FixedPoint { byte_order, .. } | Datatype::FloatingPoint { byte_order, .. } => {
            Some(*byte_order)
        }
        Datatype::Enum { base, .. } => order(base),
        _ => None,
    }
}

/// The type of a dataset's numbers; `None` if it has no numbers, or numbers of a kind that a field
/// cannot have. `raw` is the datatype message.
///
/// Source: HDF5 File Format Specification 3.0, IV.A.2.d.
pub(super) fn dtype_of(dtype: &Datatype, raw: &[u8]) -> Option<Dtype> {
    match dtype {
        Datatype::FixedPoint { size, signed, .. } => {
            // Other precisions leave bits of padding, whose place the library does not tell.
            let [offset, precision] = halves(raw.get(8..12)?)?;
            let whole = offset == 0 && precision == u16::from(*size) * 8;
            let dtype = match (size, signed) {
                (1, false) => Dtype::U8,
                (1, true) => Dtype::I8,
                (2, false) => Dtype::U16,
                (2, true) => Dtype::I16,
                (4, false) => Dtype::U32,
                (4, true) => Dtype::I32,
                (8, true) => Dtype::I64,
                _ => return None,
            };
            whole.then_some(dtype)
        }
        Datatype::FloatingPoint { size, .. } => {
            let [offset, precision] = halves(raw.get(8..12)?)?;
            let parts: [u8; 8] = raw.get(12..20)?.try_into().ok()?;
            // Place and size of the exponent, those of the mantissa, and the exponent's bias.
            let (dtype, ieee) = match size {
                2 => (Dtype::F16, [10, 5, 0, 10, 15, 0, 0, 0]),
                4 => (Dtype::F32, [23, 8, 0, 23, 127, 0, 0, 0]),
                8 => (Dtype::F64, [52, 11, 0, 52, 255, 3, 0, 0]),
                _ => return None,
            };
            let whole = offset == 0 && precision == u16::from(*size) * 8;
            (whole && parts == ieee).then_some(dtype)
        }
        // The booleans of h5py, and other names for numbers.
        Datatype::Enum { base, .. } => {
            let found = dtype_of(base, raw.get(8..)?)?;
            Some(if !has_names(dtype) && found == Dtype::I8 { Dtype::U8 } else { found })
        }
        _ => None,
    }
}

/// Whether numbers of the type stand for names, other than those of booleans.
pub(super) fn has_names(dtype: &Datatype) -> bool {
    let Datatype::Enum { members, .. } = dtype else { return false };
    !members.iter().all(|one| matches!(one.name.as_str(), "FALSE" | "TRUE"))
}

fn halves(bytes: &[u8]) -> Option<[u16; 2]> {
    let [a, b, c, d] = *bytes.first_chunk::<4>()?;
    Some([u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])])
}
