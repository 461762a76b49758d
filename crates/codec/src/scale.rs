//! Decodes a JPEG at a fraction of its size if it will be made smaller anyway.
//!
//! ```text
//! file 8 x 8 ─ IDCT of fewer coefficients ─▶ 4 x 4, 2 x 2 or 1 ─ resize ─▶ result
//! ```
//!
//! A pixel of the smaller picture is made of `step` by `step` pixels of the file, on a grid that
//! begins at the file's corner. A region may begin and end between two lines of this grid.

use serde::Deserialize;

use crate::{Rect, Resize, picture::CHANNELS};

/// Whether a JPEG may be decoded at a fraction of its size before it is resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scaling {
    /// Every pixel of the region is decoded.
    #[default]
    Full,
    /// A region that shrinks to a sixth or less on both sides is decoded at 1/2, 1/4 or 1/8: the
    /// smallest that leaves three pixels, on both sides, for each pixel of the result (three
    /// of its colours, where these are coarser, as in 4:2:2). No value is more than 24 of 255
    /// away from that of [`Scaling::Full`], and no picture more than 5 on average.
    ///
    /// Only pictures of nothing but hard edges between saturated colours differ that much. On 667
    /// photographs values differed by at most 13, by 1.7 on average over the worst picture and by
    /// 0.5 over half of them; the peak signal-to-noise ratio was at least 37 dB, and 50 dB in the
    /// median. The same region of the same file always gives the same result.
    ///
    /// Only [`ResizeFilter::Bilinear`](crate::ResizeFilter::Bilinear) and libjpeg-turbo scale. With
    /// zune-jpeg, and for PNG and CMYK, this is the same as [`Scaling::Full`].
    Reduced,
}

/// Pixels that decoding leaves, on either side, for each pixel of the result.
//
// Against the full decode, on 667 photographs; the worst of the three steps:
//
//   margin   mean difference        largest difference   PSNR in dB
//            median  99 %  worst    99 %  worst          worst  1 %   median
//   1         2.5    7.8   11.5      77    111            24.6  27.3   36.2
//   1.5       1.3    3.0    5.2      31     36            31.5  36.0   42.0
//   2         1.0    2.0    3.3      19     21            35.8  38.6   44.7
//   3         0.5    1.1    1.7      12     13            37.8  42.5   49.7
//   4         0.4    1.0    1.8      12     13            37.0  42.1   51.2
//
// From whole pictures of 4, 12 and 48 megapixels to 224 pixels, 3 takes the same steps as 2.
// `examples/large_photos` measures what it makes.
const MARGIN: u32 = 3;

/// Returns the largest step by which `region` may be decoded smaller on its way to `to`: 1, 2, 4 or
/// 8.
///
/// `cell` returns for a step how many columns and rows of the smaller picture share a colour;
/// `None` if that is not known.
pub(crate) fn step(region: Rect, to: &Resize, cell: impl Fn(u32) -> Option<(u32, u32)>) -> u32 {
    let leaves = |len: u32, of: u32, step: u32| {
        u64::from(len) >= u64::from(of) * u64::from(step) * u64::from(MARGIN)
    };
    let fits = |step: &u32| {
        cell(*step).is_some_and(|(columns, rows)| {
            leaves(region.width, to.width, step * columns)
                && leaves(region.height, to.height, step * rows)
        })
    };
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// Returns the pixels of the grid that `region` touches.
pub(crate) fn touched(region: Rect, step: u32) -> Rect {
    let Rect { x, y, width, height } = region;
    let (left, top) = (x / step, y / step);
    let (right, bottom) = ((x + width).div_ceil(step), (y + height).div_ceil(step));
    Rect::new(left, top, right - left, bottom - top)
}

/// Weighs the outermost rows and columns of `rect`, which are those that `region` touches: each
/// counts only as far as `region` covers it, and the rest is taken from its neighbour inside. The
/// rows of `pixels` are `stride` pixels long.
///
/// Otherwise the resizer would count them whole, including pixels beside the region, and what fills
/// the last block at the picture's end. On photographs these values differed from the full decode
/// by twice as much as any others.
pub(crate) fn weigh_edges(pixels: &mut [u8], stride: usize, rect: Rect, region: Rect, step: u32) {
    let (left, right) = covered(region.x, region.width, step);
    let (top, bottom) = covered(region.y, region.height, step);
    let line = |row: u32| {
        let start = (row as usize * stride + rect.x as usize) * CHANNELS;
        start..start + rect.width as usize * CHANNELS
    };
    let (first, last) = (rect.y, rect.y + rect.height - 1);
    for row in first..=last {
        let (row, _) = pixels[line(row)].as_chunks_mut::<CHANNELS>();
        if let [edge, inner, ..] = row {
            mix(edge, inner, left, step);
        }
        if let [.., inner, edge] = row {
            mix(edge, inner, right, step);
        }
    }
    for (edge, inner, covered) in [(first, first + 1, top), (last, last.saturating_sub(1), bottom)]
    {
        // This fails if there is only one row, which has no neighbour.
        if let Ok([edge, inner]) = pixels.get_disjoint_mut([line(edge), line(inner)]) {
            mix(edge, inner, covered, step);
        }
    }
}

/// Returns how many of the first and last `step` pixels from `start` on are within `len`.
fn covered(start: u32, len: u32, step: u32) -> (u32, u32) {
    (step - start % step, (start + len - 1) % step + 1)
}

fn mix(edge: &mut [u8], inner: &[u8], covered: u32, step: u32) {
    if covered < step {
        for (edge, inner) in edge.iter_mut().zip(inner) {
            let sum = u32::from(*edge) * covered + u32::from(*inner) * (step - covered);
            // A mean of bytes is a byte.
            *edge = ((sum + step / 2) / step) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_pixels_are_left_on_both_sides() {
        let check = |(width, height), to: (u32, u32), expected| {
            let region = Rect::new(5, 9, width, height);
            let to = Resize::to(to.0, to.1);
            assert_eq!(step(region, &to, |_| Some((1, 1))), expected, "{width} x {height}");
            assert_eq!(step(region, &to, |_| None), 1);
            let coarse = Rect::new(1, 2, width.saturating_mul(4), height.saturating_mul(2));
            assert_eq!(step(coarse, &to, |_| Some((4, 2))), expected);
        };
        check((1343, 5000), (224, 224), 1);
        check((1344, 1344), (224, 224), 2);
        check((2688, 2687), (224, 224), 2);
        check((2688, 2688), (224, 224), 4);
        check((65_535, 5376), (224, 224), 8);
        check((65_535, 223), (224, 224), 1);
        check((48, 24), (2, 1), 8);
    }

    #[test]
    fn a_region_touches_what_it_covers_in_part() {
        let check = |region, step, expected, first, last| {
            assert_eq!(touched(region, step), expected);
            assert_eq!(covered(region.x, region.width, step), first);
            assert_eq!(covered(region.y, region.height, step), last);
        };
        check(Rect::new(0, 8, 16, 9), 8, Rect::new(0, 1, 2, 2), (8, 8), (8, 1));
        check(Rect::new(7, 3, 2, 2), 4, Rect::new(1, 0, 2, 2), (1, 1), (1, 1));
        check(Rect::new(5, 6, 7, 8), 1, Rect::new(5, 6, 7, 8), (1, 1), (1, 1));
    }

    #[test]
    fn edges_count_as_much_as_is_covered_of_them() {
        // The picture is 4 x 3 pixels, of which 3 x 3 are touched: 1/4 of the first column, and 1/2
        // of the last row.
        let row = [[0_u8; 3], [100; 3], [200; 3], [40; 3]];
        let mut pixels = [row, row.map(|p| p.map(|v| v / 2)), [[8; 3]; 4]].concat();
        let rect = Rect::new(0, 0, 3, 3);
        weigh_edges(pixels.as_flattened_mut(), 4, rect, Rect::new(3, 4, 9, 10), 4);
        let red: Vec<u8> = pixels.iter().map(|pixel| pixel[0]).collect();
        assert_eq!(red, [75, 100, 200, 40, 38, 50, 100, 20, 23, 29, 54, 8]);
        let one = &mut [9, 9, 9];
        weigh_edges(one, 1, Rect::whole(1, 1), Rect::new(1, 1, 2, 1), 8);
        assert_eq!(one, &[9; 3]);
    }
}
