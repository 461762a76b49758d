//! From a picture of any size to one of the size a network takes.
//!
//! What is cut is a function of (seed, epoch, sample) and the picture's size
//! alone, so threads, ranks and resumes never change a pixel. Sizes follow
//! torchvision: `RandomResizedCrop`, `RandomHorizontalFlip`, `Resize`,
//! `CenterCrop`; the random numbers are ours.

use gular_codec::{Rect, Resize};

use crate::order::KeyedRng;

/// Attempts at a random crop before the middle is taken, as in torchvision.
const ATTEMPTS: u32 = 10;
// `Eval` makes the whole picture small before it cuts the middle, as torchvision
// does; a strip of 1 x 100,000 pixels would grow to gigabytes. Above this ratio the
// ends of the long side, which the crop leaves out anyway, are cut first.
const LONGEST: u32 = 16;

/// What is done to each picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transform {
    /// A random part, resized to a square, at times mirrored: for training.
    Train {
        /// Side of the result in pixels.
        size: u32,
        /// Smallest and largest part of the picture's area.
        scale: (f64, f64),
        /// Smallest and largest width / height of the part.
        ratio: (f64, f64),
        /// How often it is mirrored left to right, 0 to 1.
        flip: f64,
    },
    /// The short side made `resize_short`, then the middle square: for evaluation.
    Eval {
        /// The short side after resizing, in pixels.
        resize_short: u32,
        /// Side of the result in pixels, at most `resize_short`.
        crop: u32,
    },
    /// The whole picture, stretched.
    Resize {
        /// Columns of the result.
        width: u32,
        /// Rows of the result.
        height: u32,
    },
}

/// How one picture becomes its row of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The part of the upright picture that is used.
    pub region: Rect,
    /// What that part is made into; mirrored last, when only what is kept is left.
    pub resize: Resize,
    /// The part of the result that is kept; `None` keeps all of it.
    pub keep: Option<Rect>,
}

impl Placement {
    /// The part of the resized picture that is kept.
    pub(crate) fn kept(&self) -> Rect {
        self.keep.unwrap_or(Rect::whole(self.resize.width, self.resize.height))
    }

    /// The part of the picture that is kept, where nothing is resized.
    pub(crate) fn straight(&self) -> Option<Rect> {
        let Self { region, resize, .. } = self;
        let kept = self.kept();
        ((region.width, region.height) == (resize.width, resize.height)).then(|| Rect {
            x: region.x + kept.x,
            y: region.y + kept.y,
            ..kept
        })
    }

    /// Values of the result, of pixels of `channels` channels.
    pub(crate) fn len(&self, channels: usize) -> usize {
        let kept = self.kept();
        kept.width as usize * kept.height as usize * channels
    }
}

impl Transform {
    /// `RandomResizedCrop(size)` with torchvision's ranges, mirrored half the time.
    #[must_use]
    pub fn train(size: u32) -> Self {
        Self::Train { size, scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0), flip: 0.5 }
    }

    /// `CenterCrop(size)` after a resize to 8/7 of it, as 224 is cut from 256.
    #[must_use]
    pub fn eval(size: u32) -> Self {
        Self::Eval { resize_short: size.saturating_add(size / 7), crop: size }
    }

    /// (width, height) of every result.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        match *self {
            Self::Train { size, .. } => (size, size),
            Self::Eval { crop, .. } => (crop, crop),
            Self::Resize { width, height } => (width, height),
        }
    }

    /// Why this transform can have no result, if so.
    pub(crate) fn fault(&self) -> Option<String> {
        let (width, height) = self.size();
        if width == 0 || height == 0 {
            return Some(format!("the result has {width} x {height} pixels"));
        }
        match *self {
            Self::Train { scale, ratio, flip, .. } => {
                let range = |(low, high): (f64, f64)| low > 0.0 && low <= high && high.is_finite();
                if !range(scale) || scale.1 > 1.0 {
                    return Some(format!("scale is {scale:?}, expected 0 < low <= high <= 1"));
                }
                if !range(ratio) {
                    return Some(format!("ratio is {ratio:?}, expected 0 < low <= high"));
                }
                (!(0.0..=1.0).contains(&flip)).then(|| format!("flip is {flip}, expected 0 to 1"))
            }
            Self::Eval { resize_short, crop } => (crop > resize_short)
                .then(|| format!("a crop of {crop} pixels from a short side of {resize_short}")),
            Self::Resize { .. } => None,
        }
    }

    /// What to do to an upright picture of `width` by `height` pixels, neither 0.
    ///
    /// `rng` is drawn from only by [`Transform::Train`].
    #[must_use]
    pub fn place(&self, width: u32, height: u32, rng: &mut KeyedRng) -> Placement {
        match *self {
            Self::Train { size, scale, ratio, flip } => {
                let region = random_region(width, height, scale, ratio, rng);
                let flip = rng.unit() < flip;
                let resize = Resize { flip, ..Resize::to(size, size) };
                Placement { region, resize, keep: None }
            }
            Self::Eval { resize_short, crop } => middle(width, height, resize_short, crop),
            Self::Resize { width: w, height: h } => Placement {
                region: Rect::whole(width, height),
                resize: Resize::to(w, h),
                keep: None,
            },
        }
    }
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

/// torchvision's `Resize(resize_short)` and `CenterCrop(crop)`.
fn middle(width: u32, height: u32, resize_short: u32, crop: u32) -> Placement {
    let short = width.min(height);
    let longest = short.saturating_mul(LONGEST);
    let (w, h) = (width.min(longest), height.min(longest));
    let region = Rect::new((width - w) / 2, (height - h) / 2, w, h);
    let long = u64::from(resize_short) * u64::from(w.max(h)) / u64::from(short.max(1));
    let long = u32::try_from(long).unwrap_or(u32::MAX);
    let (to_width, to_height) = if w <= h { (resize_short, long) } else { (long, resize_short) };
    let offset = |length: u32| (f64::from(length - crop) / 2.0).round_ties_even() as u32;
    let keep = Rect::new(offset(to_width), offset(to_height), crop, crop);
    Placement { region, resize: Resize::to(to_width, to_height), keep: Some(keep) }
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
                let Placement { region: r, resize, keep } =
                    transform.place(width, height, &mut rng(sample));
                assert!(r.width > 0 && r.x + r.width <= width, "{r}");
                assert!(r.height > 0 && r.y + r.height <= height, "{r}");
                assert_eq!((resize.width, resize.height, keep), (32, 32, None));
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
            let transform =
                Transform::Train { size: 8, scale: (1.0, 1.0), ratio: (0.75, 1.25), flip: 0.0 };
            assert_eq!(transform.place(width, height, &mut rng(0)).region, expected);
        };
        check(1000, 100, Rect::new(437, 0, 125, 100));
        check(90, 1000, Rect::new(0, 440, 90, 120));
    }

    /// Sizes after `Resize(256)`, corners of `CenterCrop(224)`.
    #[test]
    fn evaluation_sizes_are_those_of_torchvision() {
        let check = |width, height, resized, corner| {
            let eval = Transform::Eval { resize_short: 256, crop: 224 };
            let Placement { region, resize, keep } = eval.place(width, height, &mut rng(0));
            assert_eq!(region, Rect::whole(width, height));
            assert_eq!((resize.width, resize.height), resized);
            let (x, y) = corner;
            assert_eq!(keep, Some(Rect::new(x, y, 224, 224)));
        };
        check(500, 375, (341, 256), (58, 16));
        check(375, 500, (256, 341), (16, 58));
        check(64, 64, (256, 256), (16, 16));
        check(333, 500, (256, 384), (16, 80));
    }

    #[test]
    fn a_strip_does_not_grow_without_bound() {
        let Placement { region, resize, keep } =
            Transform::Eval { resize_short: 256, crop: 224 }.place(100_000, 1, &mut rng(0));
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
    /// breaks trainings that are to be resumed.
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
        let train = |scale, ratio, flip| Transform::Train { size: 8, scale, ratio, flip };
        for (transform, word) in [
            (Transform::train(0), "0 x 0"),
            (train((0.0, 1.0), (1.0, 1.0), 0.5), "scale"),
            (train((0.5, 2.0), (1.0, 1.0), 0.5), "scale"),
            (train((0.5, 1.0), (2.0, 1.0), 0.5), "ratio"),
            (train((0.5, 1.0), (1.0, f64::NAN), 0.5), "ratio"),
            (train((0.5, 1.0), (1.0, 1.0), 1.5), "flip"),
            (Transform::Eval { resize_short: 10, crop: 11 }, "crop of 11"),
        ] {
            assert!(transform.fault().unwrap().contains(word), "{transform:?}");
        }
        assert_eq!(Transform::train(224).fault(), None);
        assert_eq!(Transform::eval(224), Transform::Eval { resize_short: 256, crop: 224 });
    }
}
