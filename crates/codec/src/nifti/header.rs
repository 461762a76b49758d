//! The header of a file, as numbers.

use super::read::{corrupt, unsupported};
use crate::Error;

/// The bytes of a header of version 2, the longer one.
pub(super) const MOST_BYTES: usize = 540;

/// What is read of a header.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NiftiHeader {
    pub(super) big_endian: bool,
    /// The number of axes, then their lengths.
    pub(super) dim: [i64; 8],
    pub(super) datatype: i64,
    pub(super) bits: i64,
    /// The sign of a place by quaternions, then the distances along each axis.
    pub(super) pixdim: [f64; 8],
    /// Where the numbers begin.
    pub(super) data_at: u64,
    pub(super) slope: f64,
    pub(super) intercept: f64,
    pub(super) units: i64,
    /// Whether the place is told by quaternions, and by rows.
    pub(super) codes: [i64; 2],
    pub(super) quaternion: [f64; 3],
    pub(super) origin: [f64; 3],
    pub(super) rows: [f64; 12],
}

/// Where a version has its members: byte offsets, and the bytes of each.
struct MemberOffsets {
    integers: usize,
    floats: usize,
    codes: usize,
    dim: usize,
    datatype: usize,
    bits: usize,
    pixdim: usize,
    slope: usize,
    units: (usize, usize),
    code: usize,
    quaternion: usize,
    rows: usize,
}

/// Of nifti1.h.
const FIRST: MemberOffsets = MemberOffsets {
    integers: 2,
    floats: 4,
    codes: 2,
    dim: 40,
    datatype: 70,
    bits: 72,
    pixdim: 76,
    slope: 112,
    units: (123, 1),
    code: 252,
    quaternion: 256,
    rows: 280,
};

/// Of nifti2.h.
const SECOND: MemberOffsets = MemberOffsets {
    integers: 8,
    floats: 8,
    codes: 4,
    dim: 16,
    datatype: 12,
    bits: 14,
    pixdim: 104,
    slope: 176,
    units: (500, 4),
    code: 344,
    quaternion: 352,
    rows: 400,
};

/// The version and the byte order of a header, which has a magic number in each case.
fn version(start: &[u8]) -> Option<(&'static MemberOffsets, bool, bool)> {
    let size: [u8; 4] = start.first_chunk().copied()?;
    for big_endian in [false, true] {
        let is = |n: u32| size == if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let magic = |end: usize| start.get(end - 4..end);
        match (magic(348), magic(8)) {
            (Some(b"n+1\0"), _) if is(348) => return Some((&FIRST, big_endian, true)),
            (Some(b"ni1\0"), _) if is(348) => return Some((&FIRST, big_endian, false)),
            (_, Some(b"n+2\0")) if is(540) => return Some((&SECOND, big_endian, true)),
            (_, Some(b"ni2\0")) if is(540) => return Some((&SECOND, big_endian, false)),
            _ => {}
        }
    }
    None
}

/// Whether these bytes begin a header.
pub(super) fn is_header(start: &[u8]) -> bool {
    version(start).is_some()
}

impl NiftiHeader {
    /// Reads the first bytes of a file that is not compressed.
    pub(super) fn parse(start: &[u8]) -> Result<Self, Error> {
        let not = || corrupt("it does not begin as NIfTI of version 1 or 2");
        let (of, big_endian, is_single) = version(start).ok_or_else(not)?;
        if !is_single {
            return Err(unsupported("its numbers are in another file, `.img`"));
        }
        let is_first = of.integers == FIRST.integers;
        let (header, data_at) = if is_first { (348, 108) } else { (MOST_BYTES, 168) };
        if start.len() < header {
            return Err(corrupt("its header is cut short"));
        }
        let bytes = HeaderBytes { bytes: start, big_endian };
        let floats = |at: usize| bytes.float(at, of.floats);
        let data_at = match is_first {
            // A number of this type has no fraction from 2²⁴ on.
            true => Some(floats(data_at)).filter(|at| at.fract() == 0.0).map(|at| at as i64),
            false => Some(bytes.integer(data_at, 8)),
        };
        // Behind the header, four bytes say whether extensions follow.
        let data_at = data_at.and_then(|at| u64::try_from(at).ok());
        let data_at = data_at.filter(|at| *at >= header as u64 + 4);
        let data_at = data_at.ok_or_else(|| corrupt("its numbers begin within its header"))?;
        let row = |from: usize, at: usize| floats(from + at * of.floats);
        Ok(Self {
            big_endian,
            dim: std::array::from_fn(|i| bytes.integer(of.dim + i * of.integers, of.integers)),
            datatype: bytes.integer(of.datatype, 2),
            bits: bytes.integer(of.bits, 2),
            pixdim: std::array::from_fn(|i| row(of.pixdim, i)),
            data_at,
            slope: row(of.slope, 0),
            intercept: row(of.slope, 1),
            units: bytes.integer(of.units.0, of.units.1),
            codes: std::array::from_fn(|i| bytes.integer(of.code + i * of.codes, of.codes)),
            quaternion: std::array::from_fn(|i| row(of.quaternion, i)),
            origin: std::array::from_fn(|i| row(of.quaternion, 3 + i)),
            rows: std::array::from_fn(|i| row(of.rows, i)),
        })
    }
}

struct HeaderBytes<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl HeaderBytes<'_> {
    /// The `n` bytes from `at` on, the highest first, then zeros.
    fn highest_first(&self, at: usize, n: usize) -> [u8; 8] {
        let mut found = [0; 8];
        let of = self.bytes.get(at..at + n).unwrap_or_default();
        match self.big_endian {
            true => found.iter_mut().zip(of).for_each(|(to, from)| *to = *from),
            false => found.iter_mut().zip(of.iter().rev()).for_each(|(to, from)| *to = *from),
        }
        found
    }

    /// An integer with a sign, of up to 8 bytes.
    fn integer(&self, at: usize, n: usize) -> i64 {
        i64::from_be_bytes(self.highest_first(at, n)) >> (64 - 8 * n)
    }

    /// A float of 4 or 8 bytes.
    fn float(&self, at: usize, n: usize) -> f64 {
        let [a, b, c, d, ..] = self.highest_first(at, n);
        match n {
            4 => f32::from_be_bytes([a, b, c, d]).into(),
            _ => f64::from_be_bytes(self.highest_first(at, n)),
        }
    }
}
