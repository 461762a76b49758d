//! Element types (IV.A.2.d).

use crate::Dtype;
use crate::envelope::foreign::hdf5::cursor::Cursor;

/// The type of an array's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Datatype {
    /// A number that a fixed field can have.
    Number(Dtype),
    /// Integers of another kind, such as big-endian ones.
    Integer { is_signed: bool, is_big: bool },
    /// Texts of one width, with padding.
    Text,
    /// Bytes without a meaning.
    Opaque,
    /// References to bytes in a global heap.
    VarBytes,
    /// References to texts in a global heap.
    VarText,
    /// A type that cannot be read in place, in words.
    Other(&'static str),
}

/// A type and the bytes one element takes.
pub(super) type Sized = (Datatype, u64);

/// Parses a datatype message; `None` when it is damaged.
pub(super) fn parse(message: &[u8]) -> Option<Sized> {
    let mut at = Cursor::new(message);
    let (class, flags, size) = head(&mut at)?;
    let datatype = match class {
        0 => integer(flags, size, &mut at)?,
        1 => float(flags, size, &mut at)?,
        3 => Datatype::Text,
        5 => Datatype::Opaque,
        // h5py stores booleans as an integer with names for its values.
        8 => match head(&mut at)? {
            (0, flags, base) if base == size => integer(flags, size, &mut at)?,
            _ => Datatype::Other("enumerations of values that are not integers"),
        },
        9 => match (flags & 0xf, head(&mut at)?) {
            (1, _) => Datatype::VarText,
            (0, (0 | 5, _, 1)) => Datatype::VarBytes,
            _ => Datatype::Other("lists of elements other than bytes"),
        },
        2 => Datatype::Other("times"),
        4 => Datatype::Other("bit fields"),
        6 => Datatype::Other("compounds"),
        7 => Datatype::Other("references"),
        10 => Datatype::Other("arrays within an array"),
        _ => Datatype::Other("of an unknown class"),
    };
    (size > 0).then_some((datatype, size))
}

/// Reads class, flags and element size.
fn head(at: &mut Cursor<'_>) -> Option<(u8, u32, u64)> {
    let class = at.u8()? & 0xf;
    let flags = u32::try_from(at.uint(3)?).ok()?;
    Some((class, flags, u64::from(at.u32()?)))
}

fn integer(flags: u32, size: u64, at: &mut Cursor<'_>) -> Option<Datatype> {
    let (is_big, is_signed) = (flags & 1 != 0 && size > 1, flags & 8 != 0);
    let whole = at.u16()? == 0 && u64::from(at.u16()?) == size.checked_mul(8)?;
    Some(match (size, is_signed) {
        _ if !whole => Datatype::Other("integers that do not use all of their bytes"),
        (2 | 4 | 8, _) if is_big => Datatype::Integer { is_signed, is_big },
        (1, false) => Datatype::Number(Dtype::U8),
        (1, true) => Datatype::Number(Dtype::I8),
        (2, false) => Datatype::Number(Dtype::U16),
        (2, true) => Datatype::Number(Dtype::I16),
        (4, false) => Datatype::Number(Dtype::U32),
        (4, true) => Datatype::Number(Dtype::I32),
        (8, true) => Datatype::Number(Dtype::I64),
        (8, false) => Datatype::Integer { is_signed, is_big },
        _ => Datatype::Other("integers of an unusual size"),
    })
}

fn float(flags: u32, size: u64, at: &mut Cursor<'_>) -> Option<Datatype> {
    // The flags are byte order, padding and VAX order; the first bit of the mantissa is implied.
    const LITTLE_IMPLIED: u32 = 0x20;
    let sign = flags >> 8;
    let (offset, bits) = (at.u16()?, at.u16()?);
    let parts = (at.u8()?, at.u8()?, at.u8()?, at.u8()?);
    let bias = at.u32()?;
    let dtype = match (size, bits, sign, parts, bias) {
        (2, 16, 15, (10, 5, 0, 10), 15) => Dtype::F16,
        (2, 16, 15, (7, 8, 0, 7), 127) => Dtype::Bf16,
        (4, 32, 31, (23, 8, 0, 23), 127) => Dtype::F32,
        (8, 64, 63, (52, 11, 0, 52), 1023) => Dtype::F64,
        _ => return Some(Datatype::Other("floats of an unusual format")),
    };
    Some(match (flags & 0xff, offset) {
        (LITTLE_IMPLIED, 0) => Datatype::Number(dtype),
        _ => Datatype::Other("big-endian floats"),
    })
}
