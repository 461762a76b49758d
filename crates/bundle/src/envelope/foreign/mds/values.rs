//! Turns the byte ranges of a column's values into typed values.

use crate::envelope::foreign::le::u32_at;
use crate::envelope::foreign::mds::encoding::{Encoding, dtype_of};
use crate::envelope::{FixedPlaces, Run, Values};
use crate::{Dtype, Error, ReadAt};

/// Texts up to the length of the longest key are read; columns with longer ones are bytes.
const MAX_TEXT: u64 = 4095;
/// The longest head of an array: its type, its rank, and 63 dimensions.
const MAX_HEAD: usize = 2 + 63 * 8;

/// Returns the values of a column, after a check that each is within the file.
pub(super) fn values(file: &ReadAt, encoding: &Encoding, runs: Vec<Run>) -> Result<Values, Error> {
    match encoding {
        Encoding::Bytes => Ok(Values::Bytes(runs.into_iter().map(Some).collect())),
        Encoding::Text | Encoding::Digits if runs.iter().any(|run| run.len > MAX_TEXT) => {
            Ok(Values::Bytes(runs.into_iter().map(Some).collect()))
        }
        Encoding::Text => Ok(Values::Texts(texts(file, &runs)?)),
        Encoding::Digits => {
            let texts = texts(file, &runs)?;
            let number = |text: &Option<String>| text.as_ref()?.parse::<i64>().ok().map(Some);
            let numbers: Option<Vec<Option<i64>>> = texts.iter().map(number).collect();
            Ok(numbers.map_or(Values::Texts(texts), Values::Integers))
        }
        Encoding::Unsigned => unsigned(file, &runs),
        Encoding::Fixed(dtype, shape) => {
            let places = FixedPlaces::Offsets(runs.into_iter().map(|run| run.offset).collect());
            Ok(Values::Fixed { dtype: *dtype, shape: shape.clone(), places })
        }
        Encoding::Array(dtype) => behind_heads(file, &runs, |head| array(head, *dtype)),
        Encoding::Pixels => behind_heads(file, &runs, pixels),
        Encoding::Refused(reason) => Ok(Values::NotStored(reason.clone())),
    }
}

fn texts(file: &ReadAt, runs: &[Run]) -> Result<Vec<Option<String>>, Error> {
    let text = |run: &Run| {
        let mut bytes = vec![0; usize::try_from(run.len).unwrap_or(0)];
        file.read_at(run.offset, &mut bytes)?;
        String::from_utf8(bytes).map(Some).map_err(|_| {
            Error::malformed(file.path(), format!("the text at byte {} is not UTF-8", run.offset))
        })
    };
    runs.iter().map(text).collect()
}

/// Reads unsigned integers, since a label may have this type.
fn unsigned(file: &ReadAt, runs: &[Run]) -> Result<Values, Error> {
    let mut numbers = Vec::with_capacity(runs.len());
    for run in runs {
        let mut bytes = [0; 8];
        file.read_at(run.offset, &mut bytes)?;
        match i64::try_from(u64::from_le_bytes(bytes)) {
            Ok(number) => numbers.push(Some(number)),
            Err(_) => return Ok(Values::NotStored("its `uint64` pass 63 bits".to_owned())),
        }
    }
    Ok(Values::Integers(numbers))
}

/// The part of a value before its array.
struct Head {
    dtype: Dtype,
    shape: Vec<u64>,
    /// Bytes of the head itself.
    len: usize,
}

/// Why an array cannot be used.
enum Fault {
    Damaged,
    /// The reason.
    Refused(String),
}

/// Reads arrays that each have a head, and must all have one type and shape.
fn behind_heads(
    file: &ReadAt,
    runs: &[Run],
    parse: impl Fn(&[u8]) -> Result<Head, Fault>,
) -> Result<Values, Error> {
    let mut common: Option<(Dtype, Vec<u64>)> = None;
    let mut offsets = Vec::with_capacity(runs.len());
    let mut buffer = [0; MAX_HEAD];
    for run in runs {
        let len = usize::try_from(run.len).unwrap_or(usize::MAX).min(MAX_HEAD);
        let bytes = buffer.get_mut(..len).unwrap_or_default();
        file.read_at(run.offset, bytes)?;
        let bad = || Error::malformed(file.path(), format!("the array at byte {}", run.offset));
        let head = match parse(bytes) {
            Ok(head) => head,
            Err(Fault::Refused(reason)) => return Ok(Values::NotStored(reason)),
            Err(Fault::Damaged) => return Err(bad()),
        };
        let size =
            head.shape.iter().try_fold(head.dtype.size_bytes(), |acc, n| acc.checked_mul(*n));
        let len = size.and_then(|size| size.checked_add(head.len as u64));
        if len != Some(run.len) {
            return Err(bad());
        }
        offsets.push(run.offset.saturating_add(head.len as u64));
        let this = (head.dtype, head.shape);
        if *common.get_or_insert_with(|| this.clone()) != this {
            return Ok(Values::NotStored("its arrays differ in type or shape".to_owned()));
        }
    }
    Ok(match common {
        Some((dtype, shape)) => {
            Values::Fixed { dtype, shape, places: FixedPlaces::Offsets(offsets) }
        }
        None => Values::NotStored("it has no values".to_owned()),
    })
}

/// Parses the head of an array: `[u8 type] u8 (rank << 2 | log2 of the bytes of a dimension)
/// dimensions`.
fn array(bytes: &[u8], dtype: Option<Dtype>) -> Result<Head, Fault> {
    let mut at = 0_usize;
    let dtype = match dtype {
        Some(dtype) => dtype,
        None => {
            let number = *bytes.first().ok_or(Fault::Damaged)?;
            at = 1;
            dtype_of(number).ok_or_else(|| {
                Fault::Refused(format!("type {number} of its arrays is not known"))
            })?
        }
    };
    let byte = *bytes.get(at).ok_or(Fault::Damaged)?;
    let (rank, width) = (usize::from(byte >> 2), 1_usize << (byte & 3));
    let start = at.saturating_add(1);
    let len = start.saturating_add(rank.saturating_mul(width));
    let dims = bytes.get(start..len).ok_or(Fault::Damaged)?;
    let dim = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |acc, b| (acc << 8) | u64::from(*b));
    Ok(Head { dtype, shape: dims.chunks_exact(width).map(dim).collect(), len })
}

/// Parses the head of pixels: `u32 width, u32 height, u32 length of the mode, mode`.
fn pixels(bytes: &[u8]) -> Result<Head, Fault> {
    let number = |at| u32_at(bytes, at).ok_or(Fault::Damaged);
    let (width, height, mode_len) = (number(0)?, number(4)?, number(8)?);
    let len = usize::try_from(mode_len).unwrap_or(usize::MAX).saturating_add(12);
    let channels = match bytes.get(12..len).ok_or(Fault::Damaged)? {
        b"RGB" => 3,
        b"L" => 1,
        mode => {
            let mode: String = String::from_utf8_lossy(mode).chars().take(16).collect();
            return Err(Fault::Refused(format!(
                "its pixels are of mode `{mode}`, RGB and L are read"
            )));
        }
    };
    Ok(Head { dtype: Dtype::U8, shape: vec![height.into(), width.into(), channels], len })
}
