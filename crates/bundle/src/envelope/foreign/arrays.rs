//! Reads NumPy's `.npy` files, those that [`crate::envelope::npy`] writes and those of NumPy.

use crate::envelope::npy;
use crate::envelope::{FixedPlaces, Run, Values};
use crate::{Dtype, Error, Npy, ReadAt};

/// Returns type, shape and length of the header of an array in C order, from the first bytes of a
/// file; `None` for other files, and for arrays that cannot be read in place.
fn parse(bytes: &[u8]) -> Option<(Dtype, Vec<u64>, u64)> {
    let npy = Npy::parse(bytes).ok()?;
    (!npy.fortran && !npy.big_endian).then_some((npy.dtype, npy.shape, npy.data_at))
}

/// Returns the arrays, each behind its own header, if all have one type and shape; else `None`.
pub(crate) fn arrays(file: &ReadAt, runs: &[Option<Run>]) -> Result<Option<Values>, Error> {
    let mut common: Option<(Dtype, Vec<u64>)> = None;
    let mut offsets = Vec::with_capacity(runs.len());
    let mut head = vec![0; Npy::HEAD_BYTES];
    for run in runs {
        let Some(run) = run else { return Ok(None) };
        let len = usize::try_from(run.len).unwrap_or(usize::MAX).min(Npy::HEAD_BYTES);
        let head = head.get_mut(..len).unwrap_or_default();
        file.read_at(run.offset, head)?;
        let Some((dtype, shape, start)) = parse(head) else { return Ok(None) };
        let size = shape.iter().try_fold(dtype.size_bytes(), |acc, n| acc.checked_mul(*n));
        if size.and_then(|size| size.checked_add(start)) != Some(run.len) {
            return Ok(None);
        }
        let this = (dtype, shape);
        if common.get_or_insert_with(|| this.clone()) != &this {
            return Ok(None);
        }
        offsets.push(run.offset.saturating_add(start));
    }
    let fixed =
        |(dtype, shape)| Values::Fixed { dtype, shape, places: FixedPlaces::Offsets(offsets) };
    Ok(common.map(fixed))
}

/// Returns the type that NumPy calls `descr`; `None` if no field can have that type.
pub(crate) fn dtype(descr: &str) -> Option<Dtype> {
    Dtype::ALL.into_iter().find(|d| {
        let own = npy::descr(*d);
        own == descr || (own.starts_with('|') && own.get(1..) == descr.get(1..))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::npy::header;

    #[test]
    fn headers_parse_again() {
        for dtype in Dtype::ALL {
            for shape in [vec![], vec![3], vec![4, 5], vec![64, 64, 3]] {
                let header = header(dtype, &shape);
                assert_eq!(header.len() % 64, 0);
                assert_eq!(parse(&header), Some((dtype, shape, header.len() as u64)));
            }
        }
        assert!(header(Dtype::U8, &[3]).windows(4).any(|w| w == b"(3,)"));
        assert!(header(Dtype::U8, &[3, 4]).windows(6).any(|w| w == b"(3, 4)"));
    }

    #[test]
    fn other_bytes_are_no_arrays() {
        let fortran = header(Dtype::U8, &[2]);
        let fortran = String::from_utf8_lossy(&fortran).replace("False", "True ").into_bytes();
        for bytes in [&b""[..], b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff{", &fortran] {
            assert_eq!(parse(bytes), None);
        }
    }
}
