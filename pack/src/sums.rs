//! Sums over decoded pixels. Format: `FORMAT.md`, "Manifest", `statistics`.
//!
//! Integers, so that neither threads nor interruptions change them.

use gular_bundle::{Decimal, Statistics};
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

/// Exact sums, one per channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sums {
    pub(crate) pixels: u64,
    pub(crate) sum: Vec<u128>,
    pub(crate) sum_of_squares: Vec<u128>,
}

impl Sums {
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
        for (to, lanes) in [(&mut self.sum, sum), (&mut self.sum_of_squares, squares)] {
            let channels = to.len();
            for (lane, v) in lanes.iter().enumerate() {
                to[lane % channels] += u128::from(*v);
            }
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
            sum: sum.into_iter().map(u128::from).collect(),
            sum_of_squares: squares.into_iter().map(u128::from).collect(),
            ..Self::none(values.len(), channels)
        }
    }

    /// Returns the sums of a picture whose channels are stored one after the other, from those of
    /// each.
    pub(crate) fn of_planes(planes: &[Self]) -> Self {
        Self {
            pixels: planes.first().map_or(0, |plane| plane.pixels),
            sum: planes.iter().flat_map(|plane| plane.sum.clone()).collect(),
            sum_of_squares: planes.iter().flat_map(|plane| plane.sum_of_squares.clone()).collect(),
        }
    }

    fn none(values: usize, channels: usize) -> Self {
        let pixels = (values / channels) as u64;
        Self { pixels, sum: vec![0; channels], sum_of_squares: vec![0; channels] }
    }

    /// Adds sums of the same number of channels, or the first sums.
    pub(crate) fn add(&mut self, other: &Self) {
        self.pixels += other.pixels;
        for (to, from) in
            [(&mut self.sum, &other.sum), (&mut self.sum_of_squares, &other.sum_of_squares)]
        {
            to.resize(to.len().max(from.len()), 0);
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        }
    }

    /// Returns the statistics for the manifest; `None` if there are no pixels.
    pub(crate) fn statistics(&self) -> Option<Statistics> {
        let texts = |sums: &[u128]| -> Option<Vec<Decimal>> {
            sums.iter().map(|n| Decimal::parse(&n.to_string())).collect()
        };
        (self.pixels > 0).then_some(())?;
        Some(Statistics {
            pixels: self.pixels,
            sum: texts(&self.sum)?,
            sum_of_squares: texts(&self.sum_of_squares)?,
        })
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
                    expected.sum[i % channels] += u128::from(*v);
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
        assert_eq!((sums.pixels, sums.sum[2]), (n as u64 / 3, n as u128 / 3 * 255));
        assert_eq!(sums.sum_of_squares, [n as u128 / 3 * 65_025; 3]);
        for channels in [3, 5] {
            let n = LANES * ROUNDS + LANES * 5;
            let sums = Sums::of_u16(&vec![u16::MAX; n], channels);
            let pixels = (n / channels) as u128;
            assert_eq!(sums.sum, vec![pixels * 65_535; channels]);
            assert_eq!(sums.sum_of_squares, vec![pixels * 65_535 * 65_535; channels]);
        }
        let mut twice = Sums::default();
        twice.add(&sums);
        twice.add(&sums);
        assert_eq!(twice.statistics().unwrap().sum[0].as_str(), (n / 3 * 510).to_string());
        assert_eq!(Sums::default().statistics(), None);
    }
}
