//! The header of a `.beton`: its fields, and the layout of a row.

use crate::envelope::foreign::arrays;
use crate::envelope::foreign::le::{u16_at, u32_at, u64_at};
use crate::{Dtype, Error, MAX_SHARD_SAMPLES, ReadAt};

/// Bytes before the fields.
const HEADER: usize = 24;
/// Bytes of a field: its type, its name, its arguments.
const FIELD: usize = 1 + NAME + 1024;
const NAME: usize = 16;
/// More fields than this are not a dataset.
const MAX_FIELDS: u16 = 256;
/// The version of FFCV 0.0.2 and later.
const VERSION: u16 = 2;

/// The part of the file before the pages.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) rows: u64,
    pub(super) fields: Vec<Spec>,
    /// The first byte of row 0.
    pub(super) first_row: u64,
    /// Bytes from a row to the next, at least 1.
    pub(super) row_bytes: u64,
    /// Where the pages end and the allocation table begins.
    pub(super) table: u64,
}

/// A field.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) kind: FfcvKind,
    /// Offset of the field in a row.
    pub(super) at: usize,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FfcvKind {
    /// The number itself is in the row.
    Number(Dtype),
    /// `u8` mode, `u16` width, `u16` height, `u64` first byte.
    Image,
    /// `u64` first byte, `u64` bytes.
    Bytes,
    /// Like bytes, with a zero at its end.
    Json,
    /// `u64` first byte.
    Array(Dtype, Vec<u64>),
    /// An array of a type that no field of a bundle has.
    OtherArray(String),
}

impl FfcvKind {
    /// Returns the field's bytes in a row, and their alignment: by NumPy's rules for C structs, in
    /// which FFCV's own structs are not aligned.
    fn layout(&self) -> (usize, usize) {
        match self {
            Self::Number(_) | Self::Array(..) | Self::OtherArray(_) => (8, 8),
            Self::Image => (13, 1),
            Self::Bytes | Self::Json => (16, 1),
        }
    }
}

impl Header {
    pub(super) fn open(file: &ReadAt) -> Result<Self, Error> {
        let bad = |reason: String| Error::malformed(file.path(), reason);
        let cut = || bad("it is cut short".to_owned());
        let mut head = [0; HEADER];
        file.read_at(0, &mut head).map_err(|_| cut())?;
        let version = u16_at(&head, 0).unwrap_or(0);
        if version != VERSION {
            let reason = format!("its version is {version}, only version {VERSION} can be read");
            return Err(Error::NotInPlace { path: file.path(), reason });
        }
        let n_fields = u16_at(&head, 2).unwrap_or(0);
        let rows = u64_at(&head, 8).unwrap_or(0);
        let table = u64_at(&head, 16).unwrap_or(0);
        if table == 0 {
            return Err(bad("it was never finished: it has no allocation table".to_owned()));
        }
        if n_fields == 0 || n_fields > MAX_FIELDS {
            return Err(bad(format!("its header names {n_fields} fields")));
        }
        let page = u32_at(&head, 4).unwrap_or(0);
        if !page.is_power_of_two() {
            return Err(bad(format!("its pages of {page} bytes are not a power of two")));
        }
        let mut bytes = vec![0; usize::from(n_fields).saturating_mul(FIELD)];
        file.read_at(HEADER as u64, &mut bytes).map_err(|_| cut())?;
        let first_row = (HEADER as u64).saturating_add(bytes.len() as u64);
        let (fields, row_bytes) = fields(file, &bytes)?;
        let end = rows.checked_mul(row_bytes).and_then(|size| size.checked_add(first_row));
        let fits = end.is_some_and(|end| end <= table) && table <= file.len_bytes();
        if !fits || rows > MAX_SHARD_SAMPLES {
            return Err(bad(format!("it has no room for {rows} samples")));
        }
        Ok(Self { rows, fields, first_row, row_bytes, table })
    }
}

/// Reads the fields, and returns them with the bytes of a row.
fn fields(file: &ReadAt, bytes: &[u8]) -> Result<(Vec<Spec>, u64), Error> {
    let mut fields: Vec<Spec> = Vec::new();
    let (mut at, mut widest) = (0_usize, 1_usize);
    for bytes in bytes.chunks_exact(FIELD) {
        let (kind, rest) = bytes.split_first().unwrap_or((&u8::MAX, &[]));
        let (name, arguments) = rest.split_at_checked(NAME).unwrap_or_default();
        let name = name.split(|b| *b == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name)
            .map_err(|_| Error::malformed(file.path(), "the name of a field is not UTF-8"))?;
        let kind = match kind {
            0 => FfcvKind::Number(Dtype::F64),
            1 => FfcvKind::Number(Dtype::I64),
            2 => FfcvKind::Image,
            3 => FfcvKind::Bytes,
            4 | 6 => array(arguments).ok_or_else(|| {
                Error::malformed(file.path(), format!("the type of field `{name}`"))
            })?,
            5 => FfcvKind::Json,
            other => {
                let reason = format!("type {other} of field `{name}` is not one of FFCV's own");
                return Err(Error::NotInPlace { path: file.path(), reason });
            }
        };
        let (size, align) = kind.layout();
        at = at.next_multiple_of(align);
        widest = widest.max(align);
        fields.push(Spec { name: unlike(name, &fields), kind, at });
        at = at.saturating_add(size);
    }
    Ok((fields, at.next_multiple_of(widest) as u64))
}

/// Returns the name, or the name with `~2`, `~3`, … if another field has it, since FFCV cuts names
/// at 16 letters.
fn unlike(name: &str, fields: &[Spec]) -> String {
    let taken = |name: &String| fields.iter().any(|f| f.name == *name);
    let mut names = (2..).map(|n| format!("{name}~{n}"));
    let name = name.to_owned();
    if taken(&name) { names.find(|n| !taken(n)).unwrap_or(name) } else { name }
}

/// Parses the arguments of an array: `u64` × 32 dimensions, with zeros behind the last; `u64`
/// length of the type; the type as JSON, such as `[["", "<f4"]]`.
fn array(arguments: &[u8]) -> Option<FfcvKind> {
    let dims = (0..32_usize).map(|i| u64_at(arguments, i.saturating_mul(8)));
    let mut shape = dims.collect::<Option<Vec<u64>>>()?;
    while shape.last() == Some(&0) {
        shape.pop();
    }
    let len = usize::try_from(u64_at(arguments, 256)?).ok()?;
    let text = arguments.get(264..264_usize.checked_add(len)?)?;
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    let only = value.as_array().filter(|types| types.len() == 1)?.first()?.as_array()?;
    let descr = only.get(1).and_then(serde_json::Value::as_str).filter(|_| only.len() == 2);
    let size =
        |dtype: Dtype| shape.iter().try_fold(dtype.size_bytes(), |acc, n| acc.checked_mul(*n));
    match descr.and_then(arrays::dtype) {
        Some(dtype) if size(dtype)? == 0 => None,
        Some(dtype) => Some(FfcvKind::Array(dtype, shape)),
        None => {
            let shown: String = String::from_utf8_lossy(text).chars().take(64).collect();
            Some(FfcvKind::OtherArray(format!("its arrays are of type `{shown}`")))
        }
    }
}
