//! The header of NumPy's `.npy` files, which folders, tar and SquashFS use for values of fixed
//! shape.
//!
//! Headers are written as version 1.0. Versions 2.0 and 3.0, which NumPy uses for long headers, are
//! read too.
//!
//! ```text
//! 0  \x93NUMPY 1 0 | u16 length of the dictionary | {'descr': '<u2', …} spaces, line feed | data
//! ```
//!
//! Version 1.0 of numpy's format: `numpy.lib.format`. The data begins at a
//! multiple of 64.

use crate::Dtype;

pub(crate) const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Dictionaries above this are refused; one of 32 dimensions takes 700 bytes.
const MAX_HEADER: usize = 4096;
/// Magic, version, and from version 2.0 on four bytes of length.
const BEFORE_HEADER: usize = 12;

/// The header of an `.npy` file: type, shape and order of its array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Npy {
    /// Type of the elements; `u8` for NumPy's Booleans.
    pub dtype: Dtype,
    /// Shape of the array.
    pub shape: Vec<u64>,
    /// Whether the first axis varies fastest, instead of the last.
    pub fortran: bool,
    /// Whether elements are big-endian.
    pub big_endian: bool,
    /// Bytes before the first element.
    pub data_at: u64,
}

impl Npy {
    /// The largest number of first bytes of a file that [`Npy::parse`] reads.
    pub const HEAD_BYTES: usize = BEFORE_HEADER + MAX_HEADER;

    /// Reads a header; `bytes` begin with it, and may end behind it.
    ///
    /// # Errors
    /// What is wrong, as text.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("it does not begin as an .npy file")?;
        let cut = || "it ends within its header".to_owned();
        let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
        let (len, rest) = match version {
            [1, _] => {
                let (len, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
                (usize::from(u16::from_le_bytes(*len)), rest)
            }
            [2 | 3, _] => {
                let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
                (usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX), rest)
            }
            [major, _] => return Err(format!("version {major} of .npy is not known")),
        };
        if len > MAX_HEADER {
            return Err(format!("its header is {len} bytes, at most {MAX_HEADER} are read"));
        }
        let dict = rest.get(..len).ok_or_else(cut)?;
        let dict = std::str::from_utf8(dict).map_err(|_| "its header is not text")?;
        let data_at = bytes.len().saturating_sub(rest.len()).saturating_add(len);
        let value = |name: &str| {
            let after = dict.split_once(&format!("'{name}':")).map(|(_, after)| after.trim_start());
            after.ok_or_else(|| format!("its header has no `{name}`"))
        };
        let fortran = value("fortran_order")?.starts_with("True");
        let descr = value("descr")?;
        let descr = descr.strip_prefix('\'').and_then(|d| d.split('\'').next());
        let descr = descr.ok_or("it holds records, expected numbers of one type")?;
        let (dtype, big_endian) =
            number(descr).ok_or_else(|| format!("its type `{descr}` is not supported"))?;
        let dims = value("shape")?.strip_prefix('(').and_then(|s| s.split_once(')'));
        let (dims, _) = dims.ok_or("its header has no shape")?;
        let dims = dims.split(',').map(str::trim).filter(|d| !d.is_empty());
        let shape = dims.map(|d| d.parse().ok()).collect::<Option<Vec<u64>>>();
        let shape = shape.ok_or("its header has no shape")?;
        let data_at = u64::try_from(data_at).unwrap_or(u64::MAX);
        Ok(Self { dtype, shape, fortran, big_endian, data_at })
    }

    /// Bytes of all elements; `None` when they overflow.
    #[must_use]
    pub fn data_bytes(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.dtype.size_bytes(), |acc, n| acc.checked_mul(*n))
    }
}

/// Returns the type that NumPy calls `descr`, and whether it is big-endian; `None` if no field has
/// it.
fn number(descr: &str) -> Option<(Dtype, bool)> {
    if let Some(rest) = descr.strip_prefix('>') {
        let little = number(&format!("<{rest}"))?.0;
        return Some((little, little.size_bytes() > 1));
    }
    if matches!(descr, "|b1" | "<b1" | "?") {
        return Some((Dtype::U8, false));
    }
    let kind = descr.strip_prefix(['<', '|', '=']).unwrap_or(descr);
    let known = Dtype::ALL.into_iter().find(|d| self::descr(*d).get(1..) == Some(kind))?;
    Some((known, false))
}

/// The bytes of a file before the data of its array.
#[must_use]
pub fn header(dtype: Dtype, shape: &[u64]) -> Vec<u8> {
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

/// Returns NumPy's name of a type. NumPy has no bfloat16; `ml_dtypes` writes void of two bytes.
pub(crate) fn descr(dtype: Dtype) -> &'static str {
    dtype.numpy().unwrap_or("<V2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_that_is_not_a_tuple_is_refused() {
        let parse = |shape: &str| {
            let dict = format!("{{'descr': '<u2', 'fortran_order': False, 'shape': {shape}, }}");
            let len = (dict.len() as u16).to_le_bytes();
            Npy::parse(&[&b"\x93NUMPY\x01\0"[..], &len, dict.as_bytes()].concat())
        };
        assert_eq!(parse("()").unwrap().shape, [0; 0]);
        assert_eq!(parse("(3, 4)").unwrap().shape, [3, 4]);
        for shape in ["[3, 4]", "3", "(3, 4", "(3, -4)"] {
            assert_eq!(parse(shape).unwrap_err(), "its header has no shape", "{shape}");
        }
    }

    #[test]
    fn the_first_bytes_of_a_file_hold_the_longest_header() {
        let dict = "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }";
        let file = [&b"\x93NUMPY\x02\0\0\x10\0\0"[..], format!("{dict:<4096}").as_bytes(), b"data"]
            .concat();
        assert_eq!(Npy::parse(&file[..Npy::HEAD_BYTES]).unwrap().shape, [3]);
    }
}
