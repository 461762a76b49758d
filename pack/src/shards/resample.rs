//! Numbers between pixels.

use gular_codec::Rect;
use gular_codec::tiff::Number;
use half::f16;

/// Pixels of a file, and how they are understood.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coarse<'a> {
    /// The pixels of `rect`, row by row, with all bands of each.
    pub(super) values: &'a [u8],
    /// 0 for each pixel that has no value, if there are such.
    pub(super) valid: Option<&'a [u8]>,
    pub(super) rect: Rect,
    pub(super) number: Number,
    pub(super) bands: usize,
    pub(super) nodata: Option<f64>,
}

/// The pixels of `target`, a rectangle of an image, by bilinear interpolation between the centres of
/// the pixels of a coarser file; which of them have a value, if not all have.
///
/// `to_file` is the transform from columns and rows of the image to those of the file. Beyond the
/// outermost centres, the outermost values are repeated. A pixel whose nearest one has no value has
/// none; else pixels without a value are left out of the mean. Whole numbers are rounded to the
/// nearest, halves upwards, as GDAL does.
pub(super) fn bilinear(
    coarse: Coarse<'_>,
    to_file: &[f64; 6],
    target: Rect,
) -> (Vec<u8>, Option<Vec<u8>>) {
    macro_rules! of {
        ($type:ty, $decode:expr, $encode:expr) => {
            bilinear_of(
                coarse,
                to_file,
                target,
                |b| $decode(<$type>::from_le_bytes(b)),
                |v: f64| $encode(v).to_le_bytes(),
            )
        };
        (whole $type:ty) => {
            of!($type, |n| n as f64, |v: f64| (v + 0.5).floor() as $type)
        };
    }
    match coarse.number {
        Number::U8 => of!(whole u8),
        Number::I8 => of!(whole i8),
        Number::U16 => of!(whole u16),
        Number::I16 => of!(whole i16),
        Number::U32 => of!(whole u32),
        Number::I32 => of!(whole i32),
        Number::I64 => of!(whole i64),
        Number::F16 => of!(f16, f16::to_f64, f16::from_f64),
        Number::F32 => of!(f32, f64::from, |v: f64| v as f32),
        Number::F64 => of!(f64, |n: f64| n, |v: f64| v),
    }
}

fn bilinear_of<const B: usize>(
    coarse: Coarse<'_>,
    to_file: &[f64; 6],
    target: Rect,
    decode: impl Fn([u8; B]) -> f64,
    encode: impl Fn(f64) -> [u8; B],
) -> (Vec<u8>, Option<Vec<u8>>) {
    let Coarse { values, valid, rect, number, bands, nodata } = coarse;
    let cells = values.as_chunks::<B>().0;
    let nodata = nodata.and_then(|nodata| number.encode(nodata));
    let nodata: Option<[u8; B]> = nodata.and_then(|nodata| nodata.try_into().ok());
    let [x0, a, b, y0, d, e] = *to_file;
    let pixels = target.width as usize * target.height as usize;
    let mut made = Vec::with_capacity(pixels * bands * B);
    let mut kept = valid.map(|_| Vec::with_capacity(pixels));
    // The nearest value, up or down, that is not nodata: one more or less, as GDAL's warper has it.
    let beside = |mean: f64| {
        let up = encode(mean + 1.0);
        if nodata == Some(up) { encode(mean - 1.0) } else { up }
    };
    // The value at a place of the part that was read, if there is one.
    let value = |column: usize, row: usize, band: usize| {
        let at = row * rect.width as usize + column;
        let cell = *cells.get(at * bands + band)?;
        let is_masked = valid.is_some_and(|valid| valid.get(at) == Some(&0));
        let number = decode(cell);
        (!is_masked && nodata != Some(cell) && !number.is_nan()).then_some(number)
    };
    for row in target.y..target.y + target.height {
        for column in target.x..target.x + target.width {
            let (x, y) = (f64::from(column) + 0.5, f64::from(row) + 0.5);
            let along = |at: f64, from: u32, n: u32| {
                let last = f64::from(n.saturating_sub(1));
                let at = (at - 0.5 - f64::from(from)).clamp(0.0, last);
                // A whole number of at most `last`.
                let first = at.floor();
                (first as usize, (first + 1.0).min(last) as usize, at - first)
            };
            let (left, right, of_right) = along(x0 + x * a + y * b, rect.x, rect.width);
            let (top, bottom, of_bottom) = along(y0 + x * d + y * e, rect.y, rect.height);
            let nearest = (
                if of_right < 0.5 { left } else { right },
                if of_bottom < 0.5 { top } else { bottom },
            );
            let four = [
                (left, top, (1.0 - of_right) * (1.0 - of_bottom)),
                (right, top, of_right * (1.0 - of_bottom)),
                (left, bottom, (1.0 - of_right) * of_bottom),
                (right, bottom, of_right * of_bottom),
            ];
            let mut has_value = false;
            for band in 0..bands {
                let mean = value(nearest.0, nearest.1, band).map(|_| {
                    let (mut sum, mut weights) = (0.0, 0.0);
                    for (column, row, weight) in four {
                        if let (Some(value), true) = (value(column, row, band), weight > 0.0) {
                            sum += value * weight;
                            weights += weight;
                        }
                    }
                    sum / weights
                });
                has_value |= mean.is_some();
                let at = nearest.1 * rect.width as usize + nearest.0;
                let stored = || cells.get(at * bands + band).copied().unwrap_or([0; B]);
                let made_of = |mean: f64| match encode(mean) {
                    // What has a value does not become the one that means there is none.
                    made if nodata == Some(made) => beside(mean),
                    made => made,
                };
                made.extend(mean.map_or_else(|| nodata.unwrap_or_else(stored), made_of));
            }
            if let Some(kept) = &mut kept {
                kept.push(u8::from(has_value));
            }
        }
    }
    (made, kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: [f64; 6] = [0.0, 0.5, 0.0, 0.0, 0.0, 0.5];

    fn u16s(values: &[u16]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn coarse(values: &[u8], (width, height): (u32, u32)) -> Coarse<'_> {
        let rect = Rect::whole(width, height);
        Coarse { values, valid: None, rect, number: Number::U16, bands: 1, nodata: None }
    }

    #[test]
    fn numbers_lie_between_those_of_the_nearest_pixels() {
        let values = u16s(&[0, 100, 200, 300]);
        let (made, valid) = bilinear(coarse(&values, (2, 2)), &HALF, Rect::whole(4, 4));
        let expected = [0, 25, 75, 100, 50, 75, 125, 150, 150, 175, 225, 250, 200, 225, 275, 300];
        assert_eq!((made, valid), (u16s(&expected), None));
        // A part is the same as that part of the whole.
        let (made, _) = bilinear(coarse(&values, (2, 2)), &HALF, Rect::new(1, 2, 2, 1));
        assert_eq!(made, u16s(&[175, 225]));
    }

    #[test]
    fn pixels_without_a_value_count_for_nothing_and_stay_without_one() {
        let values = u16s(&[0, 100]);
        let of = Coarse { nodata: Some(0.0), ..coarse(&values, (2, 1)) };
        assert_eq!(bilinear(of, &HALF, Rect::whole(4, 2)).0, u16s(&[0, 0, 100, 100].repeat(2)));
        let of = Coarse { valid: Some(&[0, 255]), ..coarse(&values, (2, 1)) };
        let (made, valid) = bilinear(of, &HALF, Rect::whole(4, 2));
        assert_eq!(made, u16s(&[0, 0, 100, 100].repeat(2)));
        assert_eq!(valid.unwrap(), [0, 0, 1, 1, 0, 0, 1, 1]);
    }

    #[test]
    fn a_value_does_not_become_nodata() {
        let values: Vec<u8> = [-3_i16, 1].iter().flat_map(|v| v.to_le_bytes()).collect();
        let of = Coarse { number: Number::I16, nodata: Some(-2.0), ..coarse(&values, (2, 1)) };
        let made = bilinear(of, &HALF, Rect::whole(4, 1)).0;
        let found: Vec<i16> =
            made.as_chunks::<2>().0.iter().map(|b| i16::from_le_bytes(*b)).collect();
        assert_eq!(found, [-3, -1, 0, 1]);
    }

    #[test]
    fn every_type_is_interpolated() {
        let check = |number, values: Vec<u8>, expected: Vec<u8>| {
            let of = Coarse { number, ..coarse(&values, (2, 1)) };
            assert_eq!(
                bilinear(of, &[0.0, 1.0 / 3.0, 0.0, 0.0, 0.0, 1.0], Rect::new(2, 0, 1, 1)).0,
                expected
            );
        };
        // A third of the way from 1 to 4, and from -4 to -1.
        check(Number::U8, vec![1, 4], vec![2]);
        check(
            Number::I8,
            [-4_i8, -1].map(i8::cast_unsigned).to_vec(),
            vec![(-3_i8).cast_unsigned()],
        );
        check(
            Number::I32,
            [-4_i32, -1].map(i32::to_le_bytes).concat(),
            (-3_i32).to_le_bytes().into(),
        );
        let near = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
        let values = [1.0_f32, 4.0].map(f32::to_le_bytes).concat();
        let of = Coarse { number: Number::F32, ..coarse(&values, (2, 1)) };
        let (made, _) = bilinear(of, &[0.0, 1.0 / 3.0, 0.0, 0.0, 0.0, 1.0], Rect::new(2, 0, 1, 1));
        assert!((near(&made) - 2.0).abs() < 1e-6);
    }
}
