//! Sums over decoded pixels. Format: `FORMAT.md`, "Manifest", "Statistics".
//!
//! Neither threads nor interruptions change them: sums of integers are exact, and floats are added
//! up in the order of pixels, samples and shards.

use std::iter::StepBy;
use std::ops::RangeInclusive;
use std::slice::Iter;

use gular_bundle::{Axes, Decimal, Dtype, Statistics};
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// Lanes summed side by side: a multiple of 1, 2, 3, 4, 6, 8 and 12 channels, and of a vector.
const LANES: usize = 24;
/// Rounds until 32-bit lanes are emptied: 65,535 · 65,536 is below 2³².
const ROUNDS: usize = 1 << 16;
/// Lanes of 8-bit values: so many that they are a loop, which compilers turn into full vectors; of
/// [`LANES`] they make a row of single steps.
const NARROW_LANES: usize = 8 * LANES;
/// Rounds, like [`ROUNDS`], with two values each, whose sums have 16 bits: 2 · 255 · 128 is below
/// 2¹⁶.
const NARROW_ROUNDS: usize = 128;

/// Numbers of channels whose pixels are summed.
const MOST_CHANNELS: RangeInclusive<usize> = 1..=256;
/// Pixels that are summed channel by channel while the CPU has them in its cache.
const BLOCK_PIXELS: usize = 4096;

/// Where an array has the values of each channel: those of one channel are in runs of `run` values,
/// and the channels take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Channels {
    n: usize,
    /// 1 if channels are the last axis.
    run: usize,
}

impl Channels {
    /// Returns the channels, axis `c`, of an array; `None` if it is not a picture, or has too many.
    pub(crate) fn of(axes: &Axes, shape: &[u64]) -> Option<Self> {
        axes.grid(shape).filter(|grid| grid.height > 0 && grid.width > 0)?;
        let (n, after) = match axes.place('c') {
            None => (1, &[][..]),
            Some(at) => (*shape.get(at)?, shape.get(at + 1..)?),
        };
        let n = usize::try_from(n).ok().filter(|n| MOST_CHANNELS.contains(n))?;
        let run = after.iter().try_fold(1_u64, |run, side| run.checked_mul(*side))?;
        Some(Self { n, run: usize::try_from(run).ok().filter(|run| *run > 0)? })
    }
}

/// Which pixels of an array have a value; NaN and the infinities never are one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Valid<'a> {
    /// The value that means "not measured".
    pub(crate) nodata: Option<f64>,
    /// 0 for each pixel that has no value in any channel.
    pub(crate) mask: Option<&'a [u8]>,
}

/// Sums, one per channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sums {
    /// All pixels, valid or not.
    pub(crate) pixels: u64,
    /// Valid pixels of each channel; empty if these are all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) counts: Vec<u64>,
    /// Exact sums; empty for floats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sum: Vec<i128>,
    /// Exact sums, or the largest number where one is larger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sum_of_squares: Vec<u128>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) floats: Vec<FloatSums>,
}

/// Sums of one channel of floats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "[String; 4]", into = "[String; 4]")]
pub(crate) struct FloatSums {
    sum: Compensated,
    squares: Compensated,
}

/// A sum of floats, and what it lost by rounding (Neumaier 1974).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Compensated {
    sum: f64,
    lost: f64,
}

impl Compensated {
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        self.lost += match self.sum.abs() >= value.abs() {
            true => (self.sum - sum) + value,
            false => (value - sum) + self.sum,
        };
        self.sum = sum;
    }

    fn join(&mut self, other: Self) {
        self.add(other.sum);
        self.lost += other.lost;
    }

    /// The sum as a decimal; `None` if it is infinite or too long.
    fn decimal(self) -> Option<Decimal> {
        // Without the sign of zero.
        let sum = self.sum + self.lost + 0.0;
        Decimal::parse(&sum.to_string())
    }
}

impl From<FloatSums> for [String; 4] {
    fn from(FloatSums { sum, squares }: FloatSums) -> Self {
        let bits = |number: f64| format!("{:016x}", number.to_bits());
        [bits(sum.sum), bits(sum.lost), bits(squares.sum), bits(squares.lost)]
    }
}

impl TryFrom<[String; 4]> for FloatSums {
    type Error = std::num::ParseIntError;

    fn try_from([sum, lost, squares, lost_of_squares]: [String; 4]) -> Result<Self, Self::Error> {
        let number = |text: &str| u64::from_str_radix(text, 16).map(f64::from_bits);
        let sum = Compensated { sum: number(&sum)?, lost: number(&lost)? };
        let squares = Compensated { sum: number(&squares)?, lost: number(&lost_of_squares)? };
        Ok(Self { sum, squares })
    }
}

impl Sums {
    /// Sums the valid values of an array, little-endian, in the order of its axes.
    pub(crate) fn of_array(
        bytes: &[u8],
        dtype: Dtype,
        channels: Channels,
        valid: Valid<'_>,
    ) -> Self {
        let of = (bytes, channels, valid);
        match (dtype, channels, valid) {
            (Dtype::U8, Channels { n, run: 1 }, Valid { nodata: None, mask: None }) => {
                Self::of_u8(bytes, n)
            }
            (Dtype::U16, Channels { n, run: 1 }, Valid { nodata: None, mask: None }) => {
                Self::of_u16_le(bytes, n)
            }
            (Dtype::U8, ..) => Self::whole(of, |v| u8::from_le_bytes(v).into()),
            (Dtype::I8, ..) => Self::whole(of, |v| i8::from_le_bytes(v).into()),
            (Dtype::U16, ..) => Self::whole(of, |v| u16::from_le_bytes(v).into()),
            (Dtype::I16, ..) => Self::whole(of, |v| i16::from_le_bytes(v).into()),
            (Dtype::U32, ..) => Self::whole(of, |v| u32::from_le_bytes(v).into()),
            (Dtype::I32, ..) => Self::whole(of, |v| i32::from_le_bytes(v).into()),
            (Dtype::I64, ..) => Self::whole(of, i64::from_le_bytes),
            (Dtype::F16, ..) => {
                Self::of_floats(of, |n| f16::from_f64(n).to_f64(), |v| f16::from_le_bytes(v).into())
            }
            (Dtype::Bf16, ..) => Self::of_floats(
                of,
                |n| bf16::from_f64(n).to_f64(),
                |v| bf16::from_le_bytes(v).into(),
            ),
            (Dtype::F32, ..) => {
                Self::of_floats(of, |n| f64::from(n as f32), |v| f32::from_le_bytes(v).into())
            }
            (Dtype::F64, ..) => Self::of_floats(of, |n| n, f64::from_le_bytes),
        }
    }

    /// Sums integers of `B` bytes.
    fn whole<const B: usize>(
        (bytes, channels, valid): (&[u8], Channels, Valid<'_>),
        number: impl Fn([u8; B]) -> i64,
    ) -> Self {
        let mut sums = Self::none(bytes.len() / B, channels.n);
        let mut counts = vec![0; channels.n];
        // Beyond this the cast has the nearest number, and no value has a fraction.
        let nodata = valid.nodata.filter(|n| n.fract() == 0.0).map(|n| n as i64);
        each_block::<B>(bytes, channels, valid.mask, |channel, values, mask| {
            let (mut count, mut sum, mut squares) = (0, 0, 0);
            if B <= 2 {
                let (mut narrow, mut squares64) = (0_i64, 0_u64);
                for (i, v) in values.enumerate() {
                    let v = number(*v);
                    let keep = keeps(mask, i) & (Some(v) != nodata);
                    let v = if keep { v } else { 0 };
                    count += u64::from(keep);
                    narrow += v;
                    squares64 += (v * v).cast_unsigned();
                }
                (sum, squares) = (i128::from(narrow), u128::from(squares64));
            } else {
                for (i, v) in values.enumerate() {
                    let v = number(*v);
                    if keeps(mask, i) && Some(v) != nodata {
                        let square = u128::from(v.unsigned_abs()).pow(2);
                        (count, sum) = (count + 1, sum + i128::from(v));
                        squares = u128::saturating_add(squares, square);
                    }
                }
            }
            add_at(&mut counts, channel, |n| n + count);
            add_at(&mut sums.sum, channel, |n| n.saturating_add(sum));
            add_at(&mut sums.sum_of_squares, channel, |n| n.saturating_add(squares));
        });
        sums.with_counts(counts)
    }

    /// Sums floats of `B` bytes; `rounded` rounds to their type.
    fn of_floats<const B: usize>(
        (bytes, channels, valid): (&[u8], Channels, Valid<'_>),
        rounded: impl Fn(f64) -> f64,
        number: impl Fn([u8; B]) -> f64,
    ) -> Self {
        let n = channels.n;
        let pixels = (bytes.len() / B / n) as u64;
        let mut floats = vec![FloatSums::default(); n];
        let mut counts = vec![0; n];
        let nodata = valid.nodata.map(rounded);
        each_block::<B>(bytes, channels, valid.mask, |channel, values, mask| {
            let mut count = 0;
            let mut sums = floats.get(channel).copied().unwrap_or_default();
            for (i, v) in values.enumerate() {
                let v = number(*v);
                if keeps(mask, i) && v.is_finite() && Some(v) != nodata {
                    count += 1;
                    sums.sum.add(v);
                    sums.squares.add(v * v);
                }
            }
            add_at(&mut floats, channel, |_| sums);
            add_at(&mut counts, channel, |n| n + count);
        });
        Self { pixels, floats, ..Self::default() }.with_counts(counts)
    }

    fn with_counts(mut self, counts: Vec<u64>) -> Self {
        if counts.iter().any(|n| *n != self.pixels) {
            self.counts = counts;
        }
        self
    }

    /// Sums 8-bit pixels of `channels` samples.
    pub(crate) fn of_u8(values: &[u8], channels: usize) -> Self {
        match LANES.is_multiple_of(channels) {
            true => Self::narrow(values, channels),
            false => Self::by_pixel(values, channels, |v| u32::from(*v)),
        }
    }

    /// Sums 16-bit pixels of `channels` samples.
    pub(crate) fn of_u16(values: &[u16], channels: usize) -> Self {
        Self::wide(values, channels, |v| u32::from(*v))
    }

    /// Does the same as [`Sums::of_u16`] for little-endian bytes.
    pub(crate) fn of_u16_le(bytes: &[u8], channels: usize) -> Self {
        Self::wide(bytes.as_chunks().0, channels, |v| u32::from(u16::from_le_bytes(*v)))
    }

    /// Sums in 16 bits, and squares two at a time, as vectors have most of them: at twice the rate
    /// of lanes of 32 bits.
    fn narrow(values: &[u8], channels: usize) -> Self {
        let (mut sum, mut squares) = ([0_u64; NARROW_LANES], [0_u64; NARROW_LANES]);
        for part in values.chunks(2 * NARROW_LANES * NARROW_ROUNDS) {
            let (rounds, rest) = part.as_chunks::<{ 2 * NARROW_LANES }>();
            let (mut sum16, mut squares32) = ([0_u16; NARROW_LANES], [0_u32; NARROW_LANES]);
            for round in rounds {
                let (some, others) = round.split_at(NARROW_LANES);
                let lanes = sum16.iter_mut().zip(&mut squares32);
                for ((sum, squares), (v, w)) in lanes.zip(some.iter().zip(others)) {
                    let [v, w] = [i16::from(*v), i16::from(*w)];
                    *sum += (v + w).cast_unsigned();
                    let [v, w] = [i32::from(v), i32::from(w)];
                    *squares += (v * v + w * w).cast_unsigned();
                }
            }
            sum.iter_mut().zip(sum16).for_each(|(sum, v)| *sum += u64::from(v));
            squares.iter_mut().zip(squares32).for_each(|(sum, v)| *sum += u64::from(v));
            for (i, v) in rest.iter().map(|v| u64::from(*v)).enumerate() {
                sum[i % LANES] += v;
                squares[i % LANES] += v * v;
            }
        }
        let mut sums = Self::none(values.len(), channels);
        sums.add_lanes(&sum, &squares);
        sums
    }

    /// Sums values; `number` returns a number below 65,536.
    fn wide<T>(values: &[T], channels: usize, number: impl Fn(&T) -> u32) -> Self {
        if !LANES.is_multiple_of(channels) {
            return Self::by_pixel(values, channels, number);
        }
        let mut sums = Self::none(values.len(), channels);
        for part in values.chunks(LANES * ROUNDS) {
            let (mut sum, mut squares) = ([0_u32; LANES], [0_u64; LANES]);
            let (rounds, rest) = part.as_chunks::<LANES>();
            for round in rounds {
                for lane in 0..LANES {
                    let v = number(&round[lane]);
                    sum[lane] += v;
                    squares[lane] += u64::from(v * v);
                }
            }
            for (lane, v) in rest.iter().enumerate() {
                let v = number(v);
                sum[lane] += v;
                squares[lane] += u64::from(v * v);
            }
            sums.add_lanes(&sum.map(u64::from), &squares);
        }
        sums
    }

    /// Adds what lanes have, whose number is a multiple of that of the channels.
    fn add_lanes(&mut self, sum: &[u64], squares: &[u64]) {
        let channels = self.sum.len();
        for (lane, (v, squares)) in sum.iter().zip(squares).enumerate() {
            self.sum[lane % channels] += i128::from(*v);
            self.sum_of_squares[lane % channels] += u128::from(*squares);
        }
    }

    /// Sums pixels of which lanes do not hold a whole number.
    fn by_pixel<T>(values: &[T], channels: usize, number: impl Fn(&T) -> u32) -> Self {
        let (mut sum, mut squares) = (vec![0_u64; channels], vec![0_u64; channels]);
        for pixel in values.chunks_exact(channels) {
            for ((sum, squares), v) in sum.iter_mut().zip(&mut squares).zip(pixel) {
                let v = u64::from(number(v));
                *sum += v;
                // A value has at most 2³⁰ samples: neither sum reaches 2⁶⁴.
                *squares += v * v;
            }
        }
        Self {
            sum: sum.into_iter().map(i128::from).collect(),
            sum_of_squares: squares.into_iter().map(u128::from).collect(),
            ..Self::none(values.len(), channels)
        }
    }

    fn none(values: usize, channels: usize) -> Self {
        let pixels = (values / channels) as u64;
        let (sum, sum_of_squares) = (vec![0; channels], vec![0; channels]);
        Self { pixels, sum, sum_of_squares, ..Self::default() }
    }

    /// Adds sums of the same number of channels, or the first sums.
    pub(crate) fn add(&mut self, other: &Self) {
        let channels = self.n_channels().max(other.n_channels());
        if !(self.counts.is_empty() && other.counts.is_empty()) {
            let counts = |of: &Self, channel| of.counts.get(channel).copied().unwrap_or(of.pixels);
            let both = |channel| counts(self, channel) + counts(other, channel);
            self.counts = (0..channels).map(both).collect();
        }
        self.pixels += other.pixels;
        self.sum.resize(self.sum.len().max(other.sum.len()), 0);
        self.sum.iter_mut().zip(&other.sum).for_each(|(to, from)| *to = to.saturating_add(*from));
        self.sum_of_squares.resize(self.sum_of_squares.len().max(other.sum_of_squares.len()), 0);
        let squares = self.sum_of_squares.iter_mut().zip(&other.sum_of_squares);
        squares.for_each(|(to, from)| *to = to.saturating_add(*from));
        self.floats.resize(self.floats.len().max(other.floats.len()), FloatSums::default());
        for (to, from) in self.floats.iter_mut().zip(&other.floats) {
            to.sum.join(from.sum);
            to.squares.join(from.squares);
        }
    }

    fn n_channels(&self) -> usize {
        self.sum.len().max(self.floats.len())
    }

    /// Returns the statistics for the manifest; `None` if there are no pixels, or if sums are larger
    /// than can be written.
    pub(crate) fn statistics(&self) -> Option<Statistics> {
        (self.pixels > 0).then_some(())?;
        let Self { pixels, counts, sum, sum_of_squares, floats } = self;
        if !floats.is_empty() {
            let counts = match counts.is_empty() {
                true => vec![*pixels; floats.len()],
                false => counts.clone(),
            };
            return Some(Statistics {
                pixels: 0,
                counts,
                sum: floats.iter().map(|of| of.sum.decimal()).collect::<Option<_>>()?,
                sum_of_squares: floats
                    .iter()
                    .map(|of| of.squares.decimal())
                    .collect::<Option<_>>()?,
            });
        }
        let exact = |n: &u128| (*n < u128::MAX).then(|| Decimal::parse(&n.to_string()))?;
        Some(Statistics {
            pixels: if counts.is_empty() { *pixels } else { 0 },
            counts: counts.clone(),
            sum: sum.iter().map(|n| Decimal::parse(&n.to_string())).collect::<Option<_>>()?,
            sum_of_squares: sum_of_squares.iter().map(exact).collect::<Option<_>>()?,
        })
    }
}

fn add_at<T: Copy>(sums: &mut [T], channel: usize, sum: impl Fn(T) -> T) {
    if let Some(to) = sums.get_mut(channel) {
        *to = sum(*to);
    }
}

/// Whether a mask keeps pixel `i`.
fn keeps(mask: Option<&[u8]>, i: usize) -> bool {
    mask.is_none_or(|mask| mask.get(i).is_some_and(|keep| *keep != 0))
}

/// The values that a block of pixels has in one channel.
type OfBlock<'a, const B: usize> = StepBy<Iter<'a, [u8; B]>>;

/// Calls `with` for each channel of each block of pixels, with its values and the block's mask.
fn each_block<'a, const B: usize>(
    bytes: &'a [u8],
    channels: Channels,
    mask: Option<&'a [u8]>,
    mut with: impl FnMut(usize, OfBlock<'a, B>, Option<&'a [u8]>),
) {
    let cells = bytes.as_chunks::<B>().0;
    let Channels { n, run } = channels;
    // Pixels that lie one after the other in each channel.
    let (pixels, step) = if run == 1 { (cells.len() / n, n) } else { (run, 1) };
    for (group, cells) in cells.chunks_exact((pixels * n).max(1)).enumerate() {
        for from in (0..pixels).step_by(BLOCK_PIXELS) {
            let to = (from + BLOCK_PIXELS).min(pixels);
            let of_all = group * pixels + from..group * pixels + to;
            let mask = mask.map(|mask| mask.get(of_all).unwrap_or_default());
            for channel in 0..n {
                let part = match step {
                    1 => channel * pixels + from..channel * pixels + to,
                    _ => from * n + channel..to * n,
                };
                with(channel, cells.get(part).unwrap_or_default().iter().step_by(step), mask);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_adding_one_by_one() {
        for channels in [1, 2, 3, 4, 5, 8, 13] {
            for n in [0, 1, 7, 8, 9, 1000] {
                let values: Vec<u8> = (0..n * channels).map(|i| (i * 37 + i / 5) as u8).collect();
                let mut expected = Sums::none(values.len(), channels);
                for (i, v) in values.iter().enumerate() {
                    expected.sum[i % channels] += i128::from(*v);
                    expected.sum_of_squares[i % channels] += u128::from(*v) * u128::from(*v);
                }
                assert_eq!(Sums::of_u8(&values, channels), expected);
                let wide: Vec<u16> = values.iter().map(|v| u16::from(*v)).collect();
                assert_eq!(Sums::of_u16(&wide, channels), expected);
                let bytes: Vec<u8> = wide.iter().flat_map(|v| v.to_le_bytes()).collect();
                assert_eq!(Sums::of_u16_le(&bytes, channels), expected);
            }
        }
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let n = LANES * ROUNDS + LANES * 3;
        let sums = Sums::of_u8(&vec![255; n], 3);
        assert_eq!((sums.pixels, sums.sum[2]), (n as u64 / 3, n as i128 / 3 * 255));
        assert_eq!(sums.sum_of_squares, [n as u128 / 3 * 65_025; 3]);
        for channels in [3, 5] {
            let n = LANES * ROUNDS + LANES * 5;
            let sums = Sums::of_u16(&vec![u16::MAX; n], channels);
            let pixels = (n / channels) as u128;
            assert_eq!(sums.sum, vec![pixels.cast_signed() * 65_535; channels]);
            assert_eq!(sums.sum_of_squares, vec![pixels * 65_535 * 65_535; channels]);
        }
        let mut twice = Sums::default();
        twice.add(&sums);
        twice.add(&sums);
        assert_eq!(twice.statistics().unwrap().sum[0].as_str(), (n / 3 * 510).to_string());
        assert_eq!(Sums::default().statistics(), None);
    }

    /// A number as the bytes of a type.
    type Stored<'a> = &'a dyn Fn(f64) -> Vec<u8>;

    /// Sums as they are defined, value by value.
    fn check(
        dtype: Dtype,
        bytes: &[u8],
        channels: Channels,
        valid: Valid<'_>,
        expected: &[[f64; 3]],
    ) {
        let sums = Sums::of_array(bytes, dtype, channels, valid);
        let found = sums.statistics().unwrap();
        let number = |text: &Decimal| text.as_str().parse::<f64>().unwrap();
        let found: Vec<[f64; 3]> = (0..expected.len())
            .map(|c| {
                [found.count(c) as f64, number(&found.sum[c]), number(&found.sum_of_squares[c])]
            })
            .collect();
        assert_eq!(found, expected, "{dtype:?} {channels:?} {valid:?}");
        let text = serde_json::to_string(&sums).unwrap();
        assert_eq!(serde_json::from_str::<Sums>(&text).unwrap(), sums);
    }

    #[test]
    fn only_valid_values_of_each_channel_are_summed_whatever_their_type() {
        // Two channels: 3 -9 4, and 2 5 -9.
        let values = [3.0, 2.0, -9.0, 5.0, 4.0, -9.0];
        let all = [[3.0, -2.0, 106.0], [3.0, -2.0, 110.0]];
        let some = [[2.0, 7.0, 25.0], [2.0, 7.0, 29.0]];
        let masked = [[1.0, 4.0, 16.0], [1.0, 5.0, 25.0]];
        let (none, nodata) = (Valid::default(), Valid { nodata: Some(-9.0), mask: None });
        let mask = Valid { mask: Some(&[0, 1, 255]), ..nodata };
        let two = last(2);
        let types: [(Dtype, Stored<'_>); 8] = [
            (Dtype::I8, &|v| (v as i8).to_le_bytes().to_vec()),
            (Dtype::I16, &|v| (v as i16).to_le_bytes().to_vec()),
            (Dtype::I32, &|v| (v as i32).to_le_bytes().to_vec()),
            (Dtype::I64, &|v| (v as i64).to_le_bytes().to_vec()),
            (Dtype::F16, &|v| f16::from_f64(v).to_le_bytes().to_vec()),
            (Dtype::Bf16, &|v| bf16::from_f64(v).to_le_bytes().to_vec()),
            (Dtype::F32, &|v| (v as f32).to_le_bytes().to_vec()),
            (Dtype::F64, &|v| v.to_le_bytes().to_vec()),
        ];
        for (dtype, stored) in types {
            let bytes: Vec<u8> = values.iter().flat_map(|v| stored(*v)).collect();
            check(dtype, &bytes, two, none, &all);
            check(dtype, &bytes, two, nodata, &some);
            check(dtype, &bytes, two, mask, &masked);
            let planes: Vec<u8> =
                [3.0, -9.0, 4.0, 2.0, 5.0, -9.0].iter().flat_map(|v| stored(*v)).collect();
            check(dtype, &planes, Channels { n: 2, run: 3 }, nodata, &some);
        }
        let unsigned = |bytes: &[u8], dtype| {
            let nodata = Valid { nodata: Some(0.0), mask: None };
            check(dtype, bytes, last(1), nodata, &[[2.0, 300.0, 50_000.0]]);
        };
        unsigned(&[200, 100].map(u16::to_le_bytes).concat(), Dtype::U16);
        unsigned(&[200, 0, 100, 0].map(u32::to_le_bytes).concat(), Dtype::U32);
        unsigned(&[100, 0, 200], Dtype::U8);
        // What the type cannot have is no value of it.
        let beyond = Valid { nodata: Some(-1e30), mask: None };
        check(Dtype::U8, &[7], last(1), beyond, &[[1.0, 7.0, 49.0]]);
    }

    #[test]
    fn floats_that_are_no_numbers_are_no_values_and_small_ones_are_not_lost() {
        let sums = |values: &[f64]| {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            Sums::of_array(&bytes, Dtype::F64, last(1), Valid::default())
        };
        let odd = sums(&[1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -2.5]);
        let found = odd.statistics().unwrap();
        assert_eq!((found.count(0), found.sum[0].as_str()), (2, "-1.5"));
        assert_eq!((odd.pixels, found.pixels), (5, 0));
        assert_eq!(sums(&[1e16, 1.0, -1e16]).statistics().unwrap().sum[0].as_str(), "1");
        // A sum that cannot be written is left out.
        assert_eq!(sums(&[1e200, 1.0]).statistics(), None);
        assert_eq!(sums(&[f64::NAN]).statistics().unwrap().counts, [0]);

        // Parts of a shard's samples are joined in order, with what each has lost.
        let mut joined = sums(&[1e16, 1.0]);
        joined.add(&sums(&[-1e16, f64::NAN]));
        let found = joined.statistics().unwrap();
        assert_eq!((found.count(0), found.sum[0].as_str()), (3, "1"));
    }

    #[test]
    fn counts_stay_right_when_only_some_samples_have_pixels_without_a_value() {
        let sums = |nodata| {
            let valid = Valid { nodata, mask: None };
            Sums::of_array(&[1, 2, 3, 4], Dtype::U8, last(2), valid)
        };
        let mut all = Sums::default();
        for nodata in [None, Some(3.0), None] {
            all.add(&sums(nodata));
        }
        let found = all.statistics().unwrap();
        assert_eq!((all.pixels, found.counts), (6, vec![5, 6]));
        assert_eq!(found.sum.iter().map(Decimal::as_str).collect::<Vec<_>>(), ["9", "18"]);
        // As an earlier release wrote it, and as it is still written where all pixels count.
        let text = "{\"pixels\":2,\"sum\":[4,6],\"sum_of_squares\":[10,20]}";
        assert_eq!(serde_json::to_string(&sums(None)).unwrap(), text);
        assert_eq!(serde_json::from_str::<Sums>(text).unwrap(), sums(None));
        let large = i64::MIN.to_le_bytes().repeat(5);
        let large = Sums::of_array(&large, Dtype::I64, last(1), Valid::default());
        assert_eq!((large.sum[0], large.statistics()), (5 * i128::from(i64::MIN), None));
    }

    fn last(n: usize) -> Channels {
        Channels { n, run: 1 }
    }

    #[test]
    fn channels_are_where_the_axes_say() {
        let check = |axes: &str, shape: &[u64], expected: Option<(usize, usize)>| {
            let found = Channels::of(&axes.parse().unwrap(), shape);
            assert_eq!(found, expected.map(|(n, run)| Channels { n, run }), "{axes} {shape:?}");
        };
        check("yxc", &[64, 48, 13], Some((13, 1)));
        check("cyx", &[3, 8, 9], Some((3, 72)));
        check("tcyx", &[5, 3, 8, 9], Some((3, 72)));
        check("zyx", &[5, 8, 9], Some((1, 1)));
        check("yx", &[28, 28], Some((1, 1)));
        check("c", &[28], None);
        check("yxc", &[8, 8, 300], None);
        check("yxc", &[8, 8], None);
        check("cyx", &[3, 0, 9], None);
    }

    #[test]
    fn series_are_summed_by_band() {
        // Two times, two bands, two pixels.
        let bytes = [1, 2, 10, 20, 3, 4, 30, 40];
        let channels = Channels::of(&"tcyx".parse().unwrap(), &[2, 2, 1, 2]).unwrap();
        let sums = Sums::of_array(&bytes, Dtype::U8, channels, Valid::default());
        assert_eq!((sums.pixels, sums.sum), (4, vec![10, 100]));
    }
}
