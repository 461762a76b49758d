//! From differences back to samples, in place, little-endian afterwards.

use super::Number;
use super::directory::Order;

/// Undoes predictor 2 in a row of `samples` per pixel.
pub(super) fn horizontal(row: &mut [u8], samples: usize, bytes: usize) {
    let pixel = samples * bytes;
    macro_rules! sum {
        ($type:ty, $n:literal) => {
            for at in (pixel..row.len()).step_by($n) {
                let read =
                    |at: usize| row[at..].first_chunk().map_or(0, |b| <$type>::from_le_bytes(*b));
                let sum = read(at).wrapping_add(read(at - pixel));
                row[at..at + $n].copy_from_slice(&sum.to_le_bytes());
            }
        };
    }
    match bytes {
        1 => (pixel..row.len()).for_each(|at| row[at] = row[at].wrapping_add(row[at - pixel])),
        2 => sum!(u16, 2),
        4 => sum!(u32, 4),
        _ => sum!(u64, 8),
    }
}

/// Undoes predictor 3: differences of bytes, whose highest of all samples come first.
pub(super) fn floating(row: &mut [u8], samples: usize, number: Number, scratch: &mut Vec<u8>) {
    let bytes = number.bytes();
    for at in samples..row.len() {
        row[at] = row[at].wrapping_add(row[at - samples]);
    }
    scratch.clear();
    scratch.extend_from_slice(row);
    let n = row.len() / bytes;
    for (i, value) in row.chunks_exact_mut(bytes).enumerate() {
        for (place, byte) in value.iter_mut().rev().enumerate() {
            *byte = scratch[place * n + i];
        }
    }
}

/// Makes samples little-endian.
pub(super) fn to_little(values: &mut [u8], bytes: usize, order: Order) {
    if order == Order::Big && bytes > 1 {
        values.chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_add_up_for_each_band() {
        let mut row: Vec<u8> =
            [10_u16, 65_535, 1, 2, 65_535, 65_535].iter().flat_map(|v| v.to_le_bytes()).collect();
        horizontal(&mut row, 2, 2);
        let values: Vec<u16> =
            row.as_chunks().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        assert_eq!(values, [10, 65_535, 11, 1, 10, 0]);
    }

    #[test]
    fn floats_come_back_from_planes_of_bytes() {
        let values = [1.5_f32, -2.25, 3e-9, f32::MAX];
        let mut row: Vec<u8> =
            (0..4).flat_map(|place| values.map(|v| v.to_be_bytes()[place])).collect();
        for at in (1..row.len()).rev() {
            row[at] = row[at].wrapping_sub(row[at - 1]);
        }
        floating(&mut row, 1, Number::F32, &mut Vec::new());
        let found: Vec<f32> =
            row.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert_eq!(found, values);
    }
}
