//! Undoes the predictor in place: differences become samples, which are then little-endian.

use super::Number;
use super::directory::ByteOrder;

/// Undoes predictor 2 in a row of `samples` per pixel.
pub(super) fn horizontal(row: &mut [u8], samples: usize, bytes: usize) {
    match bytes {
        1 => add_up(row, samples, |[a]: [u8; 1], [b]| [a.wrapping_add(b)]),
        2 => add_up(row, samples, |a, b| {
            u16::from_le_bytes(a).wrapping_add(u16::from_le_bytes(b)).to_le_bytes()
        }),
        4 => add_up(row, samples, |a, b| {
            u32::from_le_bytes(a).wrapping_add(u32::from_le_bytes(b)).to_le_bytes()
        }),
        _ => add_up(row, samples, |a, b| {
            u64::from_le_bytes(a).wrapping_add(u64::from_le_bytes(b)).to_le_bytes()
        }),
    }
}

/// Adds to each number the number `samples` before it.
fn add_up<const B: usize>(
    row: &mut [u8],
    samples: usize,
    add: impl Fn([u8; B], [u8; B]) -> [u8; B],
) {
    let numbers = row.as_chunks_mut::<B>().0;
    match samples {
        1 => add_pixels::<B, 1>(numbers, add),
        2 => add_pixels::<B, 2>(numbers, add),
        3 => add_pixels::<B, 3>(numbers, add),
        4 => add_pixels::<B, 4>(numbers, add),
        _ => {
            let mut pixels = numbers.chunks_mut(samples);
            let Some(mut before) = pixels.next() else { return };
            for now in pixels {
                let both = now.iter_mut().zip(before.iter());
                both.for_each(|(now, before)| *now = add(*now, *before));
                before = now;
            }
        }
    }
}

/// Does the same as [`add_up`], with the previous pixel in registers.
fn add_pixels<const B: usize, const N: usize>(
    numbers: &mut [[u8; B]],
    add: impl Fn([u8; B], [u8; B]) -> [u8; B],
) {
    let mut before = [[0; B]; N];
    for pixel in numbers.as_chunks_mut::<N>().0 {
        for (now, before) in pixel.iter_mut().zip(&mut before) {
            *now = add(*now, *before);
            *before = *now;
        }
    }
}

/// Undoes predictor 3: differences of bytes, in which the highest bytes of all samples come first.
pub(super) fn floating(row: &mut [u8], samples: usize, number: Number, scratch: &mut Vec<u8>) {
    horizontal(row, samples, 1);
    scratch.clear();
    scratch.extend_from_slice(row);
    match number.bytes() {
        2 => gather::<2>(row, scratch),
        4 => gather::<4>(row, scratch),
        _ => gather::<8>(row, scratch),
    }
}

/// Joins the bytes of each number, which are in as many planes, the highest first.
fn gather<const B: usize>(row: &mut [u8], planes: &[u8]) {
    let numbers = row.as_chunks_mut::<B>().0;
    if numbers.is_empty() {
        return;
    }
    for (place, plane) in (0..B).rev().zip(planes.chunks_exact(numbers.len())) {
        let places = numbers.iter_mut().filter_map(|number| number.get_mut(place));
        places.zip(plane).for_each(|(place, byte)| *place = *byte);
    }
}

/// Makes samples little-endian.
pub(super) fn to_little(values: &mut [u8], bytes: usize, order: ByteOrder) {
    if order == ByteOrder::Big && bytes > 1 {
        values.chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_add_up_for_each_band_whatever_their_number_and_type() {
        for bytes in [1, 2, 4, 8] {
            for samples in 1..=6 {
                let mut row: Vec<u8> =
                    (0..7 * samples * bytes).map(|i| (i * 151 + i / 3) as u8).collect();
                let number = |row: &[u8], i: usize| {
                    row[i * bytes..][..bytes]
                        .iter()
                        .rev()
                        .fold(0_u64, |n, b| n << 8 | u64::from(*b))
                };
                let most = u64::MAX >> (64 - 8 * bytes);
                let mut expected: Vec<u64> = (0..7 * samples).map(|i| number(&row, i)).collect();
                for i in samples..expected.len() {
                    expected[i] = expected[i].wrapping_add(expected[i - samples]) & most;
                }
                horizontal(&mut row, samples, bytes);
                let found: Vec<u64> = (0..7 * samples).map(|i| number(&row, i)).collect();
                assert_eq!(found, expected, "{samples} samples of {bytes} bytes");
            }
        }
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
