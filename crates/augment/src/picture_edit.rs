//! A sample as the user's own augmentation sees it.

use std::fmt;
use std::sync::Arc;

use gular_codec::Rect;

use crate::Affine;
use gular_order::KeyedRng;

/// A function that changes samples. It runs in the loader's threads, after cropping and resizing,
/// before pixels become numbers.
///
/// It must depend on nothing but the sample and its random numbers, so that threads, ranks and
/// resumes never change a batch.
#[derive(Clone)]
pub struct Augment(Arc<Function>);

type Function = dyn Fn(&mut PictureEdit<'_>, &mut KeyedRng) + Send + Sync;

impl Augment {
    /// Wraps `function`, which changes one sample.
    #[must_use]
    pub fn new(
        function: impl Fn(&mut PictureEdit<'_>, &mut KeyedRng) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(function))
    }

    /// Changes `picture`; returns where its points went, step by step.
    ///
    /// # Errors
    /// Why what the function did is not possible.
    pub fn apply(
        &self,
        picture: &mut PictureEdit<'_>,
        rng: &mut KeyedRng,
    ) -> Result<Vec<Affine>, String> {
        picture.steps.clear();
        (self.0)(picture, rng);
        let steps = std::mem::take(&mut picture.steps);
        picture.refused.take().map_or(Ok(steps), Err)
    }
}

impl fmt::Debug for Augment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Augment(..)")
    }
}

/// The pixels of a picture, `[height, width, channels]`.
#[derive(Debug)]
pub enum Pixels<'a> {
    /// Values from 0 to 255.
    U8(&'a mut [u8]),
    /// Values from 0 to 65,535.
    U16(&'a mut [u16]),
    /// Values of fields of floats or signed numbers, as they are stored. Functions that change
    /// colours expect 0 to 1 and clip other values, as in torchvision.
    F32(&'a mut [f32]),
}

/// A sample that can still be changed: its picture, in the size for the batch, and its mask.
///
/// Methods that move the picture move the mask, too, and all other fields on its pixels and its
/// boxes: a function that moves pixels itself leaves these behind. Methods that are named after functions of
/// torchvision have the same results; for channels of whole numbers, they may differ by 1.
#[derive(Debug)]
pub struct PictureEdit<'a> {
    /// The picture.
    pub pixels: Pixels<'a>,
    /// Number of columns.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// Number of channels, as stored.
    pub channels: usize,
    /// The field `mask`, if the batch has it.
    pub mask: Option<MaskView<'a>>,
    /// The other fields that move with the picture; of planes, each is one of these.
    pub others: Vec<MaskView<'a>>,
    /// Where the points of the picture went, step by step.
    steps: Vec<Affine>,
    /// The sample's number in its split.
    pub sample: u64,
    /// The sample's key.
    pub key: &'a str,
    /// The requested change that is not possible.
    refused: Option<String>,
}

/// A mask: values of `pixel` bytes, in this machine's order, `[height, width]`.
#[derive(Debug)]
pub struct MaskView<'a> {
    /// The values.
    pub bytes: &'a mut [u8],
    /// Bytes of a value, or of all channels of a pixel.
    pub pixel: usize,
    /// The bytes of a pixel that lies outside the stored mask.
    pub fill: &'a [u8],
}

impl<'a> PictureEdit<'a> {
    /// A picture of `width` by `height` pixels alone, of the sample with this number and key.
    #[must_use]
    pub fn new(
        pixels: Pixels<'a>,
        (width, height, channels): (usize, usize, usize),
        (sample, key): (u64, &'a str),
    ) -> Self {
        let (mask, others, steps, refused) = (None, Vec::new(), Vec::new(), None);
        Self { pixels, width, height, channels, mask, others, steps, sample, key, refused }
    }
}

impl PictureEdit<'_> {
    /// Mirrors the picture left to right.
    pub fn flip_horizontal(&mut self) {
        let width = self.width;
        self.each(&mut Mirror { width, rows: false }, &Affine::mirror(width));
    }

    /// Mirrors the picture top to bottom.
    pub fn flip_vertical(&mut self) {
        let width = self.width;
        self.each(&mut Mirror { width, rows: true }, &Affine::mirror_rows(self.height));
    }

    /// Turns counter-clockwise by `turns` quarters, as `torch.rot90` does. An odd number changes
    /// the shape of a picture that is not square; the batch is then an error.
    pub fn rotate_90(&mut self, turns: u32) {
        let turns = turns % 4;
        if turns % 2 == 1 && self.width != self.height {
            let (width, height) = (self.width, self.height);
            self.refused = Some(format!(
                "`rotate_90({turns})` would change {width} x {height} pixels to {height} x {width}: \
                crop squares, or turn by 2 quarters"
            ));
            return;
        }
        if turns >= 2 {
            self.flip_horizontal();
            self.flip_vertical();
        }
        if turns % 2 == 1 {
            let side = self.width;
            self.each(&mut Turn { side }, &Affine::turn(side));
        }
    }

    /// Moves the picture by `right` columns and `down` rows (negative: left, up), and fills the gap
    /// with zeros. With both from -p to p it is a crop after padding by p.
    pub fn shift(&mut self, right: i64, down: i64) {
        let (width, height) = (self.width, self.height);
        self.each(&mut Shift { width, height, right, down }, &Affine::shift(right, down));
    }

    /// Pads the picture with `padding` zeros on each side, and crops a random part of the original
    /// size: `RandomCrop(size, padding=padding)`. For another size, use
    /// [`Transform::Crop`](crate::Transform::Crop) instead.
    pub fn pad_crop(&mut self, padding: u32, rng: &mut KeyedRng) {
        let mut by = || rng.below(2 * u64::from(padding) + 1).cast_signed() - i64::from(padding);
        // The rows are drawn first, as in torchvision.
        let down = by();
        self.shift(by(), down);
    }

    /// Overwrites a random rectangle: `RandomErasing(1, scale, ratio, value)`, of `scale` of the
    /// area, height / width within `ratio`; nothing where none fits in ten attempts. The mask
    /// stays.
    ///
    /// Torchvision's defaults are (0.02, 0.33), (0.3, 3.3) and 0. `value` is in units of the
    /// pixels, 0 to 255 for those of 8 bits, which are normalised afterwards.
    pub fn random_erase(
        &mut self,
        scale: (f64, f64),
        ratio: (f64, f64),
        value: f32,
        rng: &mut KeyedRng,
    ) {
        let (width, height) = (self.width as f64, self.height as f64);
        let log_ratio = (libm::log(ratio.0), libm::log(ratio.1));
        for _ in 0..10 {
            let area = width * height * rng.between(scale.0, scale.1);
            let aspect = libm::exp(rng.between(log_ratio.0, log_ratio.1));
            let h = (area * aspect).sqrt().round_ties_even();
            let w = (area / aspect).sqrt().round_ties_even();
            if w < width && h < height {
                let (w, h) = (w as u32, h as u32);
                let y = rng.below(self.height as u64 - u64::from(h) + 1) as u32;
                let x = rng.below(self.width as u64 - u64::from(w) + 1) as u32;
                self.erase(Rect::new(x, y, w, h), value);
                return;
            }
        }
    }

    /// Overwrites `rect`, as far as it lies within, with `value`: `erase`. The mask stays.
    pub fn erase(&mut self, rect: Rect, value: f32) {
        let rows = clip(rect.y, rect.height, self.height);
        let columns = clip(rect.x, rect.width, self.width);
        let (width, channels) = (self.width, self.channels);
        for y in rows {
            let cells =
                (y * width + columns.start) * channels..(y * width + columns.end) * channels;
            match &mut self.pixels {
                Pixels::U8(values) => values[cells].fill(value as u8),
                Pixels::U16(values) => values[cells].fill(value as u16),
                Pixels::F32(values) => values[cells].fill(value),
            }
        }
    }

    /// Applies `job`, which moves points by `moved`, to the picture and all that moves with it.
    fn each(&mut self, job: &mut impl Move, moved: &Affine) {
        self.steps.push(*moved);
        match &mut self.pixels {
            Pixels::U8(values) => job.pixels(values, self.channels, &[]),
            Pixels::U16(values) => job.pixels(values, self.channels, &[]),
            Pixels::F32(values) => job.pixels(values, self.channels, &[]),
        }
        for mask in self.mask.iter_mut().chain(&mut self.others) {
            job.pixels(mask.bytes, mask.pixel, mask.fill);
        }
    }
}

/// The part of `start..start + len` that is below `end`.
fn clip(start: u32, len: u32, end: usize) -> std::ops::Range<usize> {
    let stop = (start as usize).saturating_add(len as usize).min(end);
    (start as usize).min(stop)..stop
}

/// Moves pixels that have `n` values each.
trait Move {
    /// `fill` are the values of a pixel that lies outside, which has zeros if there are none.
    fn pixels<T: Copy + Default>(&mut self, values: &mut [T], n: usize, fill: &[T]);
}

struct Mirror {
    width: usize,
    /// Whether rows are exchanged; otherwise columns are.
    rows: bool,
}

impl Move for Mirror {
    fn pixels<T: Copy + Default>(&mut self, values: &mut [T], n: usize, _: &[T]) {
        let line = self.width * n;
        if self.rows {
            let rows = values.len() / line;
            let (upper, lower) = values.split_at_mut(rows / 2 * line);
            let below = lower.chunks_exact_mut(line).rev();
            upper.chunks_exact_mut(line).zip(below).for_each(|(a, b)| a.swap_with_slice(b));
        } else {
            for row in values.chunks_exact_mut(line) {
                row.reverse();
                row.chunks_exact_mut(n).for_each(<[T]>::reverse);
            }
        }
    }
}

/// Rotates by a quarter, counter-clockwise.
struct Turn {
    side: usize,
}

impl Move for Turn {
    fn pixels<T: Copy + Default>(&mut self, values: &mut [T], n: usize, _: &[T]) {
        let from = values.to_vec();
        for (to, cell) in values.chunks_exact_mut(n).enumerate() {
            let (y, x) = (to / self.side, to % self.side);
            let at = (x * self.side + self.side - 1 - y) * n;
            cell.copy_from_slice(&from[at..at + n]);
        }
    }
}

struct Shift {
    width: usize,
    height: usize,
    right: i64,
    down: i64,
}

impl Move for Shift {
    fn pixels<T: Copy + Default>(&mut self, values: &mut [T], n: usize, fill: &[T]) {
        let from = values.to_vec();
        let source = |at: usize, by: i64, len: usize| {
            let source = i64::try_from(at).ok()?.checked_sub(by)?;
            usize::try_from(source).ok().filter(|source| *source < len)
        };
        for (to, cell) in values.chunks_exact_mut(n).enumerate() {
            let x = source(to % self.width, self.right, self.width);
            let y = source(to / self.width, self.down, self.height);
            match x.zip(y) {
                None if fill.len() == cell.len() => cell.copy_from_slice(fill),
                None => cell.fill(T::default()),
                Some((x, y)) => cell.copy_from_slice(&from[(y * self.width + x) * n..][..n]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what `job` makes of a picture and its mask, whose pixels have two channels with the
    /// pixel's number.
    fn moved(width: usize, height: usize, job: impl Fn(&mut PictureEdit<'_>)) -> Vec<u8> {
        let names = 1..=(width * height) as u8;
        let mut pixels: Vec<u8> = names.clone().flat_map(|i| [i, 100 + i]).collect();
        let mut mask: Vec<u8> = names.flat_map(|i| [i, 0, 200]).collect();
        let mut picture = PictureEdit {
            mask: Some(MaskView { bytes: &mut mask, pixel: 3, fill: &[] }),
            ..PictureEdit::new(Pixels::U8(&mut pixels), (width, height, 2), (0, ""))
        };
        job(&mut picture);
        assert_eq!(picture.refused, None);
        for (pixel, mask) in pixels.chunks(2).zip(mask.chunks(3)) {
            assert_eq!(pixel[0], mask[0], "the mask went another way");
            assert!(pixel[0] == 0 || (pixel[1], mask[2]) == (100 + pixel[0], 200));
        }
        pixels.chunks(2).map(|pixel| pixel[0]).collect()
    }

    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the name of a method is of one lifetime, and a closure of any"
    )]
    #[test]
    fn pictures_and_masks_move_together() {
        assert_eq!(moved(3, 2, |picture| picture.flip_horizontal()), [3, 2, 1, 6, 5, 4]);
        assert_eq!(moved(3, 2, |picture| picture.flip_vertical()), [4, 5, 6, 1, 2, 3]);
        assert_eq!(moved(2, 3, |picture| picture.flip_vertical()), [5, 6, 3, 4, 1, 2]);
        // This is torch.rot90 of [[1, 2], [3, 4]].
        assert_eq!(moved(2, 2, |picture| picture.rotate_90(1)), [2, 4, 1, 3]);
        assert_eq!(moved(2, 2, |picture| picture.rotate_90(2)), [4, 3, 2, 1]);
        assert_eq!(moved(2, 2, |picture| picture.rotate_90(7)), [3, 1, 4, 2]);
        assert_eq!(moved(3, 1, |picture| picture.rotate_90(6)), [3, 2, 1]);
        assert_eq!(moved(3, 2, |picture| picture.shift(1, 0)), [0, 1, 2, 0, 4, 5]);
        assert_eq!(moved(3, 2, |picture| picture.shift(-2, -1)), [6, 0, 0, 0, 0, 0]);
        assert_eq!(moved(3, 2, |picture| picture.shift(i64::MIN, 9)), [0; 6]);
    }

    #[test]
    fn crops_after_padding_move_by_up_to_that_in_each_direction() {
        let mut seen = std::collections::BTreeSet::new();
        for sample in 0..300 {
            // The pixel in the middle has number 5.
            let rng = || KeyedRng::of_sample(1, 2, sample);
            let made = moved(3, 3, |picture| picture.pad_crop(1, &mut rng()));
            seen.insert(made.iter().position(|v| *v == 5).unwrap());
        }
        assert_eq!(seen.len(), 9);
    }

    #[test]
    fn random_erasing_takes_the_area_it_is_told() {
        let (mut sum, mut n) = (0, 0);
        for sample in 0..500 {
            let mut pixels = vec![1_u8; 60 * 40 * 2];
            let picture = &mut PictureEdit::new(Pixels::U8(&mut pixels), (60, 40, 2), (sample, ""));
            let mut rng = KeyedRng::of_sample(3, 4, sample);
            picture.random_erase((0.1, 0.2), (0.5, 2.0), 9.0, &mut rng);
            let erased = pixels.iter().filter(|v| **v == 9).count();
            assert_eq!(erased + pixels.iter().filter(|v| **v == 1).count(), pixels.len());
            let part = erased as f64 / pixels.len() as f64;
            assert!((0.09..0.21).contains(&part), "{part}");
            sum += erased;
            n += pixels.len();
        }
        let mean = sum as f64 / n as f64;
        assert!((0.145..0.155).contains(&mean), "{mean}");
        // No rectangle fits.
        let mut pixels = [1_u8; 4];
        let (pixels_of, width, height) = (Pixels::U8(&mut pixels), 2, 2);
        let mut picture = PictureEdit::new(pixels_of, (width, height, 1), (0, ""));
        let mut rng = KeyedRng::of_sample(0, 0, 0);
        picture.random_erase((1.0, 1.0), (1.0, 1.0), 9.0, &mut rng);
        assert_eq!(pixels, [1; 4]);
    }

    #[test]
    fn what_is_erased_is_cut_at_the_border() {
        let mut pixels: Vec<u16> = (1..=6).collect();
        let mut erase = |rect| {
            let pixels = Pixels::U16(&mut pixels);
            let (width, height, channels) = (3, 2, 1);
            let mut picture = PictureEdit::new(pixels, (width, height, channels), (0, ""));
            picture.erase(rect, 700.0);
        };
        erase(Rect::new(2, 1, 9, 9));
        erase(Rect::new(5, 0, 1, 1));
        erase(Rect::new(0, 0, 1, 1));
        assert_eq!(pixels, [700, 2, 3, 4, 5, 700]);
    }
}
