//! Crops and resizes a picture of any size to the size that a network takes.
//!
//! The part that is cropped depends on (seed, epoch, sample) and the picture's size alone, so
//! threads, ranks and resumes never change a pixel. Sizes follow torchvision: `RandomResizedCrop`,
//! `RandomCrop`, `RandomHorizontalFlip`, `Resize`, `CenterCrop`; the random numbers are ours.

use gular_codec::{Rect, Resize};
use gular_order::KeyedRng;
use serde::{Deserialize, Deserializer};

/// Attempts at a random crop before the middle is taken, as in torchvision.
const ATTEMPTS: u32 = 10;
// Ratio of the sides above which the ends of the long side, which the crop leaves out anyway, are
// cut first. `Eval` resizes the whole picture before it crops the middle, as torchvision does, and
// a strip of 1 x 100,000 pixels would grow to gigabytes.
const LONGEST: u32 = 16;

/// How each picture is cropped, resized and flipped.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Transform {
    /// A random part, resized, at times mirrored: for training. torchvision's
    /// `RandomResizedCrop((height, width), scale, ratio)`, `RandomHorizontalFlip(flip)`.
    #[serde(rename = "random")]
    Train {
        /// Number of columns of the result.
        width: u32,
        /// Number of rows of the result.
        height: u32,
        /// Smallest and largest part of the picture's area.
        scale: (f64, f64),
        /// Smallest and largest width / height of the part.
        ratio: (f64, f64),
        /// How often it is mirrored left to right, 0 to 1.
        flip: f64,
    },
    /// A random part as it is, at times mirrored, of the picture with zeros around it.
    /// torchvision's `RandomCrop((height, width), padding, pad_if_needed=True)`,
    /// `RandomHorizontalFlip(flip)`.
    #[serde(rename = "pad")]
    Crop {
        /// Number of columns of the result.
        width: u32,
        /// Number of rows of the result.
        height: u32,
        /// Zeros on each side, in pixels.
        padding: u32,
        /// How often it is mirrored left to right, 0 to 1.
        flip: f64,
    },
    /// The short side made `resize_short`, then the middle: for evaluation. torchvision's
    /// `Resize(resize_short)`, `CenterCrop((height, width))`, with zeros where the resized
    /// picture is smaller than that.
    #[serde(rename = "center", deserialize_with = "center")]
    Eval {
        /// The short side after resizing, in pixels.
        resize_short: u32,
        /// Columns of the result; it or `height` is at most `resize_short`.
        width: u32,
        /// Number of rows of the result.
        height: u32,
    },
    /// Leaves the picture as it is, for a function that brings it to the size of the batch:
    /// the loader's option `each`.
    Whole {
        /// Number of columns in the batch.
        width: u32,
        /// Number of rows in the batch.
        height: u32,
    },
    /// Resizes the whole picture, without keeping its proportions.
    Resize {
        /// Number of columns of the result.
        width: u32,
        /// Number of rows of the result.
        height: u32,
    },
}

/// The part of a picture that becomes its row of the batch, and how it is resized and mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The part of the upright picture that is used.
    pub region: Rect,
    /// The way in which that part is resized; mirroring comes last, when only the kept part is
    /// left.
    pub resize: Resize,
    /// The part of the result that is kept; `None` keeps all of it.
    pub keep: Option<Rect>,
    /// The zeros around what is kept, before it is mirrored; `None` where there are none.
    pub pad: Option<Pad>,
}

/// The size of a picture of zeros, and the place on it where another picture is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pad {
    /// Columns of zeros to the left of it; with `width` of them nothing of it is seen.
    pub left: u32,
    /// Number of rows of zeros above the picture.
    pub top: u32,
    /// Number of columns of the result.
    pub width: u32,
    /// Number of rows of the result.
    pub height: u32,
}

impl Placement {
    /// The part of the resized picture that is kept.
    #[must_use]
    pub fn kept(&self) -> Rect {
        self.keep.unwrap_or(Rect::whole(self.resize.width, self.resize.height))
    }

    /// Returns columns and rows of the result.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        let kept = self.kept();
        self.pad.map_or((kept.width, kept.height), |pad| (pad.width, pad.height))
    }

    /// The part of the picture that is kept, where nothing is resized.
    #[must_use]
    pub fn straight(&self) -> Option<Rect> {
        let Self { region, resize, .. } = self;
        let kept = self.kept();
        ((region.width, region.height) == (resize.width, resize.height)).then(|| Rect {
            x: region.x + kept.x,
            y: region.y + kept.y,
            ..kept
        })
    }

    /// The rows of the picture that are needed, and what is done to a picture of these alone.
    #[must_use]
    pub fn rows(&self) -> (std::ops::Range<u32>, Self) {
        let kept = self.straight();
        let region = kept.unwrap_or(self.region);
        let rows = region.y..region.y + region.height;
        let region = Rect { y: 0, ..region };
        let resize = Resize { width: region.width, height: region.height, ..self.resize };
        match kept {
            Some(_) => (rows, Self { region, resize, keep: None, ..*self }),
            None => (rows, Self { region, ..*self }),
        }
    }

    /// Values of what is kept, of pixels of `channels` channels.
    #[must_use]
    pub fn len(&self, channels: usize) -> usize {
        let kept = self.kept();
        kept.width as usize * kept.height as usize * channels
    }
}

impl Transform {
    /// `RandomResizedCrop(size)` with torchvision's ranges, mirrored half the time.
    #[must_use]
    pub fn train(size: u32) -> Self {
        let (scale, ratio) = ((0.08, 1.0), (3.0 / 4.0, 4.0 / 3.0));
        Self::Train { width: size, height: size, scale, ratio, flip: 0.5 }
    }

    /// `CenterCrop(size)` after a resize to 8/7 of it, as 224 is cut from 256.
    #[must_use]
    pub fn eval(size: u32) -> Self {
        Self::Eval { resize_short: short_of(size), width: size, height: size }
    }

    /// Returns (width, height) of every result.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        match *self {
            Self::Train { width, height, .. }
            | Self::Crop { width, height, .. }
            | Self::Eval { width, height, .. }
            | Self::Whole { width, height }
            | Self::Resize { width, height } => (width, height),
        }
    }

    /// Why this transform can have no result, if so.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let (width, height) = self.size();
        if width == 0 || height == 0 {
            return Some(format!("the result has {width} x {height} pixels"));
        }
        let often = |flip: f64| {
            (!(0.0..=1.0).contains(&flip)).then(|| format!("flip is {flip}, expected 0 to 1"))
        };
        match *self {
            Self::Train { scale, ratio, flip, .. } => {
                let range = |(low, high): (f64, f64)| low > 0.0 && low <= high && high.is_finite();
                if !range(scale) || scale.1 > 1.0 {
                    return Some(format!("scale is {scale:?}, expected 0 < low <= high <= 1"));
                }
                if !range(ratio) {
                    return Some(format!("ratio is {ratio:?}, expected 0 < low <= high"));
                }
                often(flip)
            }
            Self::Crop { flip, .. } => often(flip),
            Self::Eval { resize_short, .. } => {
                let longest = resize_short.saturating_mul(LONGEST);
                (width.min(height) > resize_short || width.max(height) > longest).then(|| {
                    format!(
                        "a crop of {width} x {height} pixels does not fit in images with a short side of {resize_short}"
                    )
                })
            }
            Self::Whole { .. } | Self::Resize { .. } => None,
        }
    }

    /// Chooses the placement of an upright picture of `width` by `height` pixels, neither of them
    /// 0.
    ///
    /// `rng` is drawn from only by [`Transform::Train`] and [`Transform::Crop`].
    #[must_use]
    pub fn place(&self, width: u32, height: u32, rng: &mut KeyedRng) -> Placement {
        match *self {
            Self::Train { width: w, height: h, scale, ratio, flip } => {
                let region = random_region(width, height, scale, ratio, rng);
                let flip = rng.unit() < flip;
                let resize = Resize { flip, ..Resize::to(w, h) };
                Placement { region, resize, keep: None, pad: None }
            }
            Self::Crop { width: w, height: h, padding, flip } => {
                let y = random_start(height, h, padding, rng);
                let x = random_start(width, w, padding, rng);
                let flip = rng.unit() < flip;
                window((width, height), (x, y), (w, h), flip)
            }
            Self::Eval { resize_short, width: w, height: h } => {
                middle(width, height, resize_short, (w, h))
            }
            Self::Whole { .. } => resized((width, height), (width, height)),
            Self::Resize { width: w, height: h } => resized((width, height), (w, h)),
        }
    }
}

/// The whole of a picture of size `of`, stretched to `to`.
fn resized(of: (u32, u32), to: (u32, u32)) -> Placement {
    let (region, resize) = (Rect::whole(of.0, of.1), Resize::to(to.0, to.1));
    Placement { region, resize, keep: None, pad: None }
}

/// torchvision's `RandomResizedCrop.get_params`.
///
/// `exp` and `log` are `libm`'s, compiled in: the system's may round otherwise
/// on another machine, and a crop would move by a pixel.
fn random_region(
    width: u32,
    height: u32,
    scale: (f64, f64),
    ratio: (f64, f64),
    rng: &mut KeyedRng,
) -> Rect {
    let area = f64::from(width) * f64::from(height);
    let log_ratio = (libm::log(ratio.0), libm::log(ratio.1));
    for _ in 0..ATTEMPTS {
        let target = area * rng.between(scale.0, scale.1);
        let aspect = libm::exp(rng.between(log_ratio.0, log_ratio.1));
        let w = (target * aspect).sqrt().round_ties_even();
        let h = (target / aspect).sqrt().round_ties_even();
        if w >= 1.0 && w <= f64::from(width) && h >= 1.0 && h <= f64::from(height) {
            let (w, h) = (w as u32, h as u32);
            let y = rng.below(u64::from(height - h) + 1) as u32;
            let x = rng.below(u64::from(width - w) + 1) as u32;
            return Rect::new(x, y, w, h);
        }
    }
    let found = f64::from(width) / f64::from(height);
    let side = |length: f64, most: u32| (length.round_ties_even() as u32).clamp(1, most);
    let (w, h) = if found < ratio.0 {
        (width, side(f64::from(width) / ratio.0, height))
    } else if found > ratio.1 {
        (side(f64::from(height) * ratio.1, width), height)
    } else {
        (width, height)
    };
    Rect::new((width - w) / 2, (height - h) / 2, w, h)
}

/// The start of a part of `part` pixels on a side of `length` pixels with `padding` zeros before
/// and after it: torchvision's `RandomCrop.get_params`, after the padding of `pad_if_needed`.
fn random_start(length: u32, part: u32, padding: u32, rng: &mut KeyedRng) -> i64 {
    let (length, part, padding) = (i64::from(length), i64::from(part), i64::from(padding));
    let missing = (part - length - 2 * padding).max(0);
    let zeros = padding + missing;
    let starts = (length + 2 * zeros - part).unsigned_abs() + 1;
    rng.below(starts).cast_signed() - zeros
}

/// The `size` pixels at `at` of a picture of `of` pixels, which has zeros around it.
fn window(of: (u32, u32), at: (i64, i64), size: (u32, u32), flip: bool) -> Placement {
    // Returns for one side: the start of the visible part, its length, and the zeros before it.
    let seen = |of: u32, at: i64, size: u32| {
        let end = (at + i64::from(size)).min(i64::from(of));
        let start = at.max(0);
        let number = |n: i64| u32::try_from(n).unwrap_or(0);
        (end > start).then(|| (number(start), number(end - start), number(start - at)))
    };
    let (columns, rows) = (seen(of.0, at.0, size.0), seen(of.1, at.1, size.1));
    let (region, left, top) = match columns.zip(rows) {
        Some(((x, w, left), (y, h, top))) => (Rect::new(x, y, w, h), left, top),
        // Zeros alone: some pixel, put where it is not seen.
        None => (Rect::new(0, 0, 1, 1), size.0, size.1),
    };
    let resize = Resize { flip, ..Resize::to(region.width, region.height) };
    let pad = Pad { left, top, width: size.0, height: size.1 };
    let whole = (region.width, region.height) == size && (left, top) == (0, 0);
    Placement { region, resize, keep: None, pad: (!whole).then_some(pad) }
}

/// torchvision's `Resize(resize_short)` and `CenterCrop((height, width))`, of `crop`: (width,
/// height).
fn middle(width: u32, height: u32, resize_short: u32, crop: (u32, u32)) -> Placement {
    let short = width.min(height);
    let longest = short.saturating_mul(LONGEST);
    let (w, h) = (width.min(longest), height.min(longest));
    let region = Rect::new((width - w) / 2, (height - h) / 2, w, h);
    let long = u64::from(resize_short) * u64::from(w.max(h)) / u64::from(short.max(1));
    let long = u32::try_from(long).unwrap_or(u32::MAX);
    let (to_width, to_height) = if w <= h { (resize_short, long) } else { (long, resize_short) };
    // Returns for one side: the pixels before the kept part, the length of that part, and the zeros
    // before it.
    let side = |length: u32, crop: u32| match length.checked_sub(crop) {
        Some(over) => ((f64::from(over) / 2.0).round_ties_even() as u32, crop, 0),
        None => (0, length, (crop - length) / 2),
    };
    let ((x, w, left), (y, h, top)) = (side(to_width, crop.0), side(to_height, crop.1));
    let pad = Pad { left, top, width: crop.0, height: crop.1 };
    let pad = ((w, h) != crop).then_some(pad);
    let keep = Some(Rect::new(x, y, w, h));
    Placement { region, resize: Resize::to(to_width, to_height), keep, pad }
}

/// The short side before a crop of `size` pixels is cut from it.
fn short_of(size: u32) -> u32 {
    size.saturating_add(size / 7)
}

/// Reads a [`Transform::Eval`] whose `resize_short` may be left out.
fn center<'de, D: Deserializer<'de>>(from: D) -> Result<(u32, u32, u32), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Center {
        resize_short: Option<u32>,
        width: u32,
        height: u32,
    }
    let Center { resize_short, width, height } = Center::deserialize(from)?;
    Ok((resize_short.unwrap_or(short_of(width.min(height))), width, height))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rng(sample: u64) -> KeyedRng {
        KeyedRng::of_sample(1, 2, sample)
    }

    #[test]
    fn random_parts_lie_within_and_keep_their_ranges() {
        let transform = Transform::train(32);
        for (width, height) in [(640, 480), (33, 500), (1, 1), (7, 3), (10_000, 10)] {
            let mut flipped = 0;
            for sample in 0..500 {
                let Placement { region: r, resize, keep, pad } =
                    transform.place(width, height, &mut rng(sample));
                assert!(r.width > 0 && r.x + r.width <= width, "{r}");
                assert!(r.height > 0 && r.y + r.height <= height, "{r}");
                assert_eq!((resize.width, resize.height, keep, pad), (32, 32, None, None));
                flipped += u32::from(resize.flip);
                if (width, height) == (640, 480) {
                    let part = f64::from(r.width * r.height) / (640.0 * 480.0);
                    let ratio = f64::from(r.width) / f64::from(r.height);
                    assert!((0.075..=1.0).contains(&part), "{part}");
                    assert!((0.74..=1.35).contains(&ratio), "{ratio}");
                }
            }
            assert!((180..320).contains(&flipped), "{flipped} of 500 mirrored");
        }
    }

    #[test]
    fn the_middle_is_taken_where_no_part_fits() {
        let check = |width, height, expected| {
            let (scale, ratio) = ((1.0, 1.0), (0.75, 1.25));
            let transform = Transform::Train { width: 8, height: 8, scale, ratio, flip: 0.0 };
            assert_eq!(transform.place(width, height, &mut rng(0)).region, expected);
        };
        check(1000, 100, Rect::new(437, 0, 125, 100));
        check(90, 1000, Rect::new(0, 440, 90, 120));
    }

    /// Sizes after `Resize(256)`, corners of `CenterCrop(224)`.
    #[test]
    fn evaluation_sizes_are_those_of_torchvision() {
        let check = |width, height, resized, corner| {
            let eval = Transform::eval(224);
            let Placement { region, resize, keep, pad } = eval.place(width, height, &mut rng(0));
            assert_eq!(region, Rect::whole(width, height));
            assert_eq!((resize.width, resize.height), resized);
            let (x, y) = corner;
            assert_eq!((keep, pad), (Some(Rect::new(x, y, 224, 224)), None));
        };
        check(500, 375, (341, 256), (58, 16));
        check(375, 500, (256, 341), (16, 58));
        check(64, 64, (256, 256), (16, 16));
        check(333, 500, (256, 384), (16, 80));
    }

    /// `CenterCrop((height, width))` of torchvision, which pads what is too small.
    #[test]
    fn the_middle_may_be_wider_than_high_and_wider_than_the_picture() {
        let check = |width, height, keep, pad: Option<(u32, u32)>| {
            let eval = Transform::Eval { resize_short: 100, width: 151, height: 80 };
            let place = eval.place(width, height, &mut rng(0));
            let pad = pad.map(|(left, top)| Pad { left, top, width: 151, height: 80 });
            assert_eq!((place.keep, place.pad), (Some(keep), pad));
            assert_eq!(place.size(), (151, 80));
        };
        check(200, 100, Rect::new(24, 10, 151, 80), None);
        check(100, 200, Rect::new(0, 60, 100, 80), Some((25, 0)));
    }

    #[test]
    fn random_crops_lie_anywhere_on_the_padded_picture() {
        let crop = |width, height, padding| Transform::Crop { width, height, padding, flip: 0.5 };
        let (mut starts, mut flips) = (std::collections::BTreeSet::new(), 0);
        for sample in 0..2000 {
            let place = crop(5, 3, 1).place(6, 4, &mut rng(sample));
            let Placement { region: r, resize, keep, pad } = place;
            assert_eq!(((resize.width, resize.height), keep), ((r.width, r.height), None));
            assert_eq!(place.size(), (5, 3));
            let (left, top) = pad.map_or((0, 0), |pad| (pad.left, pad.top));
            starts.insert((i64::from(r.x) - i64::from(left), i64::from(r.y) - i64::from(top)));
            assert!(left + r.width <= 5 && r.x + r.width <= 6, "{place:?}");
            assert!(top + r.height <= 3 && r.y + r.height <= 4, "{place:?}");
            assert_eq!(pad.is_none(), (r.width, r.height) == (5, 3));
            flips += u32::from(resize.flip);
        }
        let all: Vec<(i64, i64)> = (-1..=2).flat_map(|x| (-1..=2).map(move |y| (x, y))).collect();
        assert_eq!(starts.into_iter().collect::<Vec<_>>(), all);
        assert!((900..1100).contains(&flips), "{flips}");
        // As with `pad_if_needed`, each side gets as many zeros as are missing.
        for sample in 0..200 {
            let place = crop(9, 2, 0).place(4, 4, &mut rng(sample));
            let pad = place.pad.unwrap();
            assert!(pad.left <= 5 && (place.region.x, place.region.width) == (0, 4), "{place:?}");
            assert_eq!((place.region.height, pad.top), (2, 0));
            // If a picture is smaller than its padding, the crop often contains nothing of it.
            let place = crop(2, 2, 9).place(1, 1, &mut rng(sample));
            let pad = place.pad.unwrap();
            assert!((pad.left, pad.top) == (2, 2) || pad.left < 2 && pad.top < 2);
        }
    }

    #[test]
    fn a_strip_does_not_grow_without_bound() {
        let Placement { region, resize, keep, .. } =
            Transform::eval(224).place(100_000, 1, &mut rng(0));
        assert_eq!(region, Rect::new(49_992, 0, 16, 1));
        assert_eq!((resize.width, resize.height), (4096, 256));
        assert_eq!(keep, Some(Rect::new(1936, 16, 224, 224)));
    }

    #[test]
    fn a_sample_is_placed_the_same_each_time_and_otherwise_in_another_epoch() {
        let place = |epoch, sample| {
            let mut rng = KeyedRng::of_sample(9, epoch, sample);
            Transform::train(64).place(400, 300, &mut rng)
        };
        assert_eq!(place(0, 5), place(0, 5));
        assert_ne!(place(0, 5), place(1, 5));
        assert_ne!(place(0, 5), place(0, 6));
    }

    /// Computed by a Python program of the same formulas. Whoever changes these
    /// breaks training runs that are to be resumed.
    #[test]
    fn golden_placements_stay() {
        let place = |sample| Transform::train(64).place(400, 300, &mut rng(sample));
        let check = |sample, region, flip| {
            assert_eq!((place(sample).region, place(sample).resize.flip), (region, flip));
        };
        check(0, Rect::new(18, 7, 352, 278), true);
        check(1, Rect::new(179, 32, 146, 153), false);
        check(u64::MAX >> 1, Rect::new(280, 94, 118, 141), false);
    }

    #[test]
    fn transforms_without_a_result_are_named() {
        let train =
            |scale, ratio, flip| Transform::Train { width: 8, height: 8, scale, ratio, flip };
        let eval = |width, height| Transform::Eval { resize_short: 10, width, height };
        let crop = |flip| Transform::Crop { width: 8, height: 8, padding: 0, flip };
        for (transform, word) in [
            (Transform::train(0), "0 x 0"),
            (train((0.0, 1.0), (1.0, 1.0), 0.5), "scale"),
            (train((0.5, 2.0), (1.0, 1.0), 0.5), "scale"),
            (train((0.5, 1.0), (2.0, 1.0), 0.5), "ratio"),
            (train((0.5, 1.0), (1.0, f64::NAN), 0.5), "ratio"),
            (train((0.5, 1.0), (1.0, 1.0), 1.5), "flip"),
            (eval(11, 12), "crop of 11 x 12"),
            (eval(161, 2), "crop of 161 x 2"),
            (crop(-0.1), "flip"),
        ] {
            assert!(transform.fault().unwrap().contains(word), "{transform:?}");
        }
        assert_eq!(Transform::train(224).fault(), None);
        assert_eq!(eval(160, 10).fault(), None);
        let (width, height) = (224, 224);
        assert_eq!(Transform::eval(224), Transform::Eval { resize_short: 256, width, height });
    }
}
