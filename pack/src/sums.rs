//! Sums over decoded pixels. Format: `FORMAT.md`, "Manifest", `statistics`.
//!
//! Integers, so that neither threads nor interruptions change them.

use gular_bundle::{Decimal, Statistics};
use serde::{Deserialize, Serialize};

/// Lanes summed side by side: a multiple of 1 and of 3 channels, and of a vector.
const LANES: usize = 24;
/// Rounds until 32-bit lanes are emptied: 65,025 · 65,536 is below 2³².
const ROUNDS: usize = 1 << 16;

/// Exact sums, one a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sums {
    pub(crate) pixels: u64,
    pub(crate) sum: Vec<u128>,
    pub(crate) sum_of_squares: Vec<u128>,
}

impl Sums {
    /// Of 8-bit pixels of `channels` (1 or 3) samples.
    pub(crate) fn of_u8(values: &[u8], channels: usize) -> Self {
        let mut sums = Self::none(values.len(), channels);
        for part in values.chunks(LANES * ROUNDS) {
            let (mut sum, mut squares) = ([0_u32; LANES], [0_u32; LANES]);
            let (rounds, rest) = part.as_chunks::<LANES>();
            for round in rounds {
                for lane in 0..LANES {
                    let v = u16::from(round[lane]);
                    sum[lane] += u32::from(v);
                    squares[lane] += u32::from(v * v);
                }
            }
            for (lane, v) in rest.iter().enumerate() {
                sum[lane] += u32::from(*v);
                squares[lane] += u32::from(*v) * u32::from(*v);
            }
            for lane in 0..LANES {
                sums.sum[lane % channels] += u128::from(sum[lane]);
                sums.sum_of_squares[lane % channels] += u128::from(squares[lane]);
            }
        }
        sums
    }

    /// Of 16-bit pixels of `channels` samples.
    pub(crate) fn of_u16(values: &[u16], channels: usize) -> Self {
        let mut sums = Self::none(values.len(), channels);
        for (channel, sum) in sums.sum.iter_mut().enumerate() {
            let of_channel = || values.iter().skip(channel).step_by(channels).copied();
            // A value has at most 2³⁰ samples: neither sum reaches 2⁶⁴.
            *sum = u128::from(of_channel().map(u64::from).sum::<u64>());
            let squares = of_channel().map(|v| u64::from(v) * u64::from(v)).sum::<u64>();
            sums.sum_of_squares[channel] = u128::from(squares);
        }
        sums
    }

    /// Of a picture whose channels follow each other, from the sums of each.
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

    /// Adds sums of as many channels, or none yet.
    pub(crate) fn add(&mut self, other: &Self) {
        self.pixels += other.pixels;
        for (to, from) in
            [(&mut self.sum, &other.sum), (&mut self.sum_of_squares, &other.sum_of_squares)]
        {
            to.resize(to.len().max(from.len()), 0);
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        }
    }

    /// As the manifest has them; `None` of no pixels.
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
        for channels in [1, 3] {
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
            }
        }
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let n = LANES * ROUNDS + LANES * 3;
        let sums = Sums::of_u8(&vec![255; n], 3);
        assert_eq!((sums.pixels, sums.sum[2]), (n as u64 / 3, n as u128 / 3 * 255));
        assert_eq!(sums.sum_of_squares, [n as u128 / 3 * 65_025; 3]);
        let mut twice = Sums::default();
        twice.add(&sums);
        twice.add(&sums);
        assert_eq!(twice.statistics().unwrap().sum[0].as_str(), (n / 3 * 510).to_string());
        assert_eq!(Sums::default().statistics(), None);
    }
}
