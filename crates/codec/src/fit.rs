//! Resizes, crops or pads pictures of any size to a fixed size.

use serde::{Deserialize, Serialize};

use crate::{Error, Rect, picture::byte_len};

/// How a picture is brought to a size with other proportions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// The picture is resized until it covers the size, then its middle is taken: for a square,
    /// torchvision's `Resize` of the short side and `CenterCrop`.
    #[default]
    Crop,
    /// The picture is resized until it fits into the size, in the middle of zeros ("letterbox").
    Pad,
    /// The picture is resized to the size, without regard to its proportions.
    Stretch,
}

/// How one picture is brought to a fixed size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The part of the upright picture that is resized.
    pub region: Rect,
    /// The size to which it is resized: (columns, rows).
    pub size: (u32, u32),
    /// The part of the resized picture that is kept.
    pub keep: Rect,
    /// Where the kept part begins in the result: (column, row).
    pub at: (u32, u32),
}

// A strip of 1 x 100,000 pixels that has to cover a square would grow to gigabytes. If the long
// side is more than this many times what is kept, its ends are cut first, since the crop leaves
// them out anyway.
const LONGEST: u64 = 16;

impl Fit {
    /// Returns how a picture of `from` = (columns, rows) is brought to `to`; none of these may be
    /// 0.
    pub(crate) fn place(self, from: (u32, u32), to: (u32, u32)) -> Placement {
        match self {
            Self::Crop => cover(from, to),
            Self::Pad => within(from, to),
            Self::Stretch => Placement {
                region: Rect::whole(from.0, from.1),
                size: to,
                keep: Rect::whole(to.0, to.1),
                at: (0, 0),
            },
        }
    }
}

fn cover((w, h): (u32, u32), to: (u32, u32)) -> Placement {
    let tall = u64::from(w) * u64::from(to.1) <= u64::from(h) * u64::from(to.0);
    // `across` is the side that is made to fit, and `along` is the side that is cut.
    let (across, along) = if tall { (w, h) } else { (h, w) };
    let (to_across, to_along) = if tall { to } else { (to.1, to.0) };
    let kept = (u64::from(across) * u64::from(to_along) / u64::from(to_across)).max(1);
    let used = narrow(u64::from(along).min(kept * LONGEST));
    let resized = narrow(u64::from(to_across) * u64::from(used) / u64::from(across));
    // Rounding down may leave a strip one pixel short.
    let resized = resized.max(to_along);
    let (start, offset) = ((along - used) / 2, half(resized - to_along));
    let (region, size, keep) = if tall {
        (Rect::new(0, start, w, used), (to.0, resized), Rect::new(0, offset, to.0, to.1))
    } else {
        (Rect::new(start, 0, used, h), (resized, to.1), Rect::new(offset, 0, to.0, to.1))
    };
    Placement { region, size, keep, at: (0, 0) }
}

fn within((w, h): (u32, u32), to: (u32, u32)) -> Placement {
    let wide = u64::from(w) * u64::from(to.1) >= u64::from(h) * u64::from(to.0);
    let scaled = |side: u32, by: u32, of: u32, most: u32| {
        let twice = 2 * u64::from(side) * u64::from(by) + u64::from(of);
        narrow(twice / (2 * u64::from(of))).clamp(1, most)
    };
    let size =
        if wide { (to.0, scaled(h, to.0, w, to.1)) } else { (scaled(w, to.1, h, to.0), to.1) };
    Placement {
        region: Rect::whole(w, h),
        size,
        keep: Rect::whole(size.0, size.1),
        at: ((to.0 - size.0) / 2, (to.1 - size.1) / 2),
    }
}

/// Returns half of `n`, with halves rounded to even, as in torchvision's `CenterCrop`.
fn half(n: u32) -> u32 {
    (f64::from(n) / 2.0).round_ties_even() as u32
}

fn narrow(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Copies the kept part of `resized` into `out`, a picture of `to` that is 0 everywhere else.
pub(crate) fn lay<T: Copy + Default>(
    place: &Placement,
    resized: &[[T; 3]],
    to: (u32, u32),
    out: &mut [[T; 3]],
) {
    if (place.keep.width, place.keep.height) != to {
        out.fill([T::default(); 3]);
    }
    let Rect { x, y, width, height } = place.keep;
    let rows = resized.chunks_exact(place.size.0 as usize).skip(y as usize).take(height as usize);
    let lines = out.chunks_exact_mut(to.0 as usize).skip(place.at.1 as usize);
    let (from, at, width) = (x as usize, place.at.0 as usize, width as usize);
    for (line, row) in lines.zip(rows) {
        line[at..at + width].copy_from_slice(&row[from..from + width]);
    }
}

/// Brings a mask to the size `to`, as [`Decoder::fit`](crate::Decoder::fit) does with its image.
/// `values` is the mask's pixels, each as long as `fill` and `from` = (columns, rows) in size. Each
/// pixel of the result is the one under its centre; it is `fill` where the image is padded.
///
/// # Errors
/// [`Error::BadBuffer`] when `values` is not as long as its size asks for.
pub fn fit_nearest(
    values: &[u8],
    from: (u32, u32),
    fill: &[u8],
    to: (u32, u32),
    fit: Fit,
) -> Result<Vec<u8>, Error> {
    let pixel = fill.len();
    let bad = |(width, height), found| {
        let expected = u64::from(width) * u64::from(height) * pixel as u64;
        Error::BadBuffer { width, height, expected, found }
    };
    let len = |(width, height)| byte_len(width, height, pixel);
    if values.len() != len(from)? || values.is_empty() {
        return Err(bad(from, values.len()));
    }
    if to.0 == 0 || to.1 == 0 {
        return Err(bad(to, 0));
    }
    let Placement { region, size, keep, at } = fit.place(from, to);
    let mut out = fill.repeat(len(to)? / pixel);
    // Returns the column or row of the file for the column or row `kept` of the part that is kept.
    let stored = |kept: u32, skipped: u32, start: u32, len: u32, of: u32| {
        let twice = 2 * u64::from(kept + skipped) + 1;
        u64::from(start) + twice * u64::from(len) / (2 * u64::from(of))
    };
    let columns: Vec<usize> = (0..keep.width)
        .map(|x| stored(x, keep.x, region.x, region.width, size.0) as usize * pixel)
        .collect();
    let lines = out.chunks_exact_mut(to.0 as usize * pixel).skip(at.1 as usize);
    for (y, line) in (0..keep.height).zip(lines) {
        let y = stored(y, keep.y, region.y, region.height, size.1) as usize;
        let row = &values[y * from.0 as usize * pixel..][..from.0 as usize * pixel];
        let cells = line[at.0 as usize * pixel..].chunks_exact_mut(pixel);
        for (cell, x) in cells.zip(&columns) {
            cell.copy_from_slice(&row[*x..][..pixel]);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_lies_where_its_image_lies_and_keeps_its_values() {
        // One part of the mask is 200 and the other 7, so its edge must be where the image's edge
        // is.
        let (w, h) = (41_u32, 30_u32);
        let mask: Vec<u8> = (0..w * h).map(|i| if i % w < 17 { 200 } else { 7 }).collect();
        let image: Vec<u8> = mask.iter().flat_map(|v| [*v; 3]).collect();
        let file = crate::encode_png(&image, w, h).unwrap();
        for fit in [Fit::Crop, Fit::Pad, Fit::Stretch] {
            for to in [(20, 20), (64, 31), (41, 30), (5, 60)] {
                let found = fit_nearest(&mask, (w, h), &[0], to, fit).unwrap();
                let mut moved = vec![0; (to.0 * to.1 * 3) as usize];
                let mut decoder = crate::Decoder::new(crate::DecodeOptions::default());
                decoder.fit(&file, to, fit, &mut moved).unwrap();
                for (value, pixel) in found.iter().zip(moved.chunks(3)) {
                    assert!([0, 7, 200].contains(value), "{value}");
                    let near = value.abs_diff(pixel[0]);
                    assert!(near <= 97 || pixel[0] > 7 && pixel[0] < 200, "{fit:?} {to:?} {near}");
                }
            }
        }
        assert_eq!(fit_nearest(&mask, (w, h), &[0], (w, h), Fit::Crop).unwrap(), mask);
        let wide: Vec<u8> = mask.iter().flat_map(|v| [*v, 9]).collect();
        let narrow = fit_nearest(&mask, (w, h), &[0], (9, 8), Fit::Pad).unwrap();
        let found = fit_nearest(&wide, (w, h), &[0, 9], (9, 8), Fit::Pad).unwrap();
        assert!(found.iter().step_by(2).eq(&narrow));
        assert!(found.iter().skip(1).step_by(2).all(|of| *of == 9), "the fill has it, too");
        assert!(fit_nearest(&mask[1..], (w, h), &[0], (9, 8), Fit::Pad).is_err());
    }

    const SIZES: [(u32, u32); 9] = [
        (640, 480),
        (480, 640),
        (1, 1),
        (1, 100_000),
        (100_000, 1),
        (3, 2),
        (256, 256),
        (257, 255),
        (5000, 33),
    ];

    #[test]
    fn every_picture_fills_every_size() {
        for from in SIZES {
            for to in [(256, 256), (64, 128), (300, 7), (1, 1), (7, 300)] {
                for fit in [Fit::Crop, Fit::Pad, Fit::Stretch] {
                    let p = fit.place(from, to);
                    assert!(
                        p.region.check(from.0, from.1).is_ok(),
                        "{fit:?} {from:?} {to:?} {p:?}"
                    );
                    assert!(
                        p.keep.check(p.size.0, p.size.1).is_ok(),
                        "{fit:?} {from:?} {to:?} {p:?}"
                    );
                    let end = (p.at.0 + p.keep.width, p.at.1 + p.keep.height);
                    assert!(end.0 <= to.0 && end.1 <= to.1, "{fit:?} {from:?} {to:?} {p:?}");
                    if fit != Fit::Pad {
                        assert_eq!(end, to, "{fit:?} {from:?}");
                    }
                    let pixels = u64::from(p.size.0) * u64::from(p.size.1);
                    assert!(pixels <= 40_000_000, "{fit:?} {from:?} {to:?} grows to {pixels}");
                }
            }
        }
    }

    #[test]
    fn a_picture_of_the_size_is_taken_as_it_is() {
        for fit in [Fit::Crop, Fit::Pad, Fit::Stretch] {
            let whole = Rect::whole(300, 200);
            let expected = Placement { region: whole, size: (300, 200), keep: whole, at: (0, 0) };
            assert_eq!(fit.place((300, 200), (300, 200)), expected);
        }
    }

    /// torchvision's `Resize(256)`, then `CenterCrop(256)`.
    #[test]
    fn a_square_crop_is_that_of_torchvision() {
        let check = |from, size, corner: (u32, u32)| {
            let p = Fit::Crop.place(from, (256, 256));
            let keep = Rect::new(corner.0, corner.1, 256, 256);
            assert_eq!((p.region, p.size, p.keep), (Rect::whole(from.0, from.1), size, keep));
        };
        check((500, 375), (341, 256), (42, 0));
        check((375, 500), (256, 341), (0, 42));
        check((333, 500), (256, 384), (0, 64));
        check((64, 64), (256, 256), (0, 0));
    }

    #[test]
    fn padding_lies_on_both_sides() {
        let p = Fit::Pad.place((400, 100), (200, 200));
        assert_eq!((p.size, p.at), ((200, 50), (0, 75)));
        let mut out = vec![[9_u8; 3]; 4 * 4];
        lay(&Fit::Pad.place((4, 2), (4, 4)), &[[7; 3]; 8], (4, 4), &mut out);
        let rows: Vec<u8> = out.chunks(4).map(|row| row[0][0]).collect();
        assert_eq!(rows, [0, 7, 7, 0]);
    }
}
