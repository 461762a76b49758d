//! Summarises which samples were delivered at which positions, in a few numbers that do not depend
//! on ranks, threads or restarts. Normative: `FORMAT.md`, "The tally of an epoch".
//!
//! ```text
//!   t = hash(epoch, position, sample, digest of its bytes)      one term per delivered sample
//!   ranges[j] = sum of t over the j-th eighth of the positions  says where about it differs
//!   powers[k] = sum of t · (position + 1)^k                     say exactly where, for a few
//! ```

use std::ops::Range;

use gular_bundle::Digest;
use serde::{Deserialize, Serialize};

use crate::prime::{MODULUS, Root, add, error_values, locator, mul, roots, sub};

/// Ranges of positions that have a sum of their own.
const N_RANGES: usize = 8;
/// Number of sums with powers of the position, from the first power on. Together with the plain sum
/// they are twice as many as the wrong positions that can be found.
const N_POWERS: usize = 7;
/// Numbers that [`Tally::to_sums`] makes: a flag, and two for each of its own.
const N_SUMS: usize = 1 + 2 * (2 + N_RANGES + N_POWERS);

/// Sums over the samples of an epoch that were delivered so far.
///
/// Tallies of ranks, or of what was done before and after a restart, add up by
/// [`Tally::join`], in any order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Number of positions that were delivered.
    pub count: u64,
    /// The number of these positions whose sample could not be decoded.
    pub broken: u64,
    ranges: [u64; N_RANGES],
    powers: [u64; N_POWERS],
}

/// The differences between a tally and the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Differs {
    /// The sums of these positions are wrong, in order, each with the excess of its sum.
    At(Vec<(u64, u64)>),
    /// More sums are wrong than can be told apart, the first of them in this range.
    Within(Range<u64>),
}

/// One sample of an epoch. Its three numbers have names, so that none is taken for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// The position in the epoch, counted from 0 over all ranks.
    pub position: u64,
    /// The sample's number in the split.
    pub sample: u64,
}

/// Computes what `visit` adds to a tally when the sample has digest `digest`.
#[must_use]
pub fn term(visit: Visit, digest: &Digest) -> u64 {
    let Visit { epoch, position, sample } = visit;
    // 64 bytes are one block of BLAKE3, so one round of its compression.
    let mut bytes = [0; 64];
    let parts = [*b"gularsum", epoch.to_le_bytes(), position.to_le_bytes(), sample.to_le_bytes()];
    for (to, part) in bytes.chunks_exact_mut(8).zip(parts) {
        to.copy_from_slice(&part);
    }
    bytes[32..].copy_from_slice(digest.as_bytes());
    let hash = Digest::of(&bytes);
    let first = hash.as_bytes().first_chunk().copied().unwrap_or_default();
    u64::from_le_bytes(first) % MODULUS
}

/// What happened at a position with a wrong sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// No sample was delivered.
    LeftOut,
    /// The right sample was delivered twice.
    Twice,
    /// Another sample was delivered, with this term.
    Instead(u64),
}

impl Wrong {
    /// Explains `excess` at a position where a sample of term `expected` belongs.
    #[must_use]
    pub fn of(excess: u64, expected: u64) -> Self {
        match add(excess, expected) {
            0 => Self::LeftOut,
            _ if excess == expected => Self::Twice,
            found => Self::Instead(found),
        }
    }
}

impl Tally {
    /// Counts the sample with this `term`, delivered at `position` of an epoch of `n_positions`.
    pub fn add(&mut self, term: u64, position: u64, n_positions: u64) {
        self.count += 1;
        let range = &mut self.ranges[range_of(position, n_positions)];
        *range = add(*range, term);
        let x = (position + 1) % MODULUS;
        let mut product = term;
        for power in &mut self.powers {
            product = mul(product, x);
            *power = add(*power, product);
        }
    }

    /// Adds what another rank, or another run of the same epoch, delivered.
    pub fn join(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.broken = self.broken.saturating_add(other.broken);
        let ours = self.ranges.iter_mut().chain(&mut self.powers);
        for (ours, theirs) in ours.zip(other.ranges.iter().chain(&other.powers)) {
            *ours = add(*ours % MODULUS, theirs % MODULUS);
        }
    }

    /// Numbers whose sums over all ranks [`Tally::from_sums`] makes the tally of all ranks
    /// from: integers below 2³², which `f64` adds up exactly for two million ranks.
    #[must_use]
    pub fn to_sums(tally: Option<&Self>) -> [f64; N_SUMS] {
        let mut sums = [0.0; N_SUMS];
        let Some(Self { count, broken, ranges, powers }) = tally else {
            sums[0] = 1.0;
            return sums;
        };
        let numbers = [count, broken].into_iter().chain(ranges).chain(powers);
        for (two, number) in sums[1..].chunks_exact_mut(2).zip(numbers) {
            two.copy_from_slice(&[(number >> 32) as f64, f64::from(*number as u32)]);
        }
        sums
    }

    /// The tally of all ranks, from the sums of what [`Tally::to_sums`] made on each; `None`
    /// where one of them had none.
    #[must_use]
    pub fn from_sums(sums: &[f64]) -> Option<Self> {
        let (none, sums) = sums.split_first()?;
        if *none > 0.0 {
            return None;
        }
        let wide = |two: &[f64]| ((two[0] as u128) << 32) + two[1] as u128;
        let mut numbers = sums.chunks_exact(2).map(wide);
        let mut whole = || numbers.next().and_then(|n| u64::try_from(n).ok());
        let (count, broken) = (whole()?, whole()?);
        let mut rest = numbers.map(|n| (n % u128::from(MODULUS)) as u64);
        let ranges = [(); N_RANGES].map(|()| rest.next().unwrap_or_default());
        let powers = [(); N_POWERS].map(|()| rest.next().unwrap_or_default());
        Some(Self { count, broken, ranges, powers })
    }

    /// Returns how the tally differs from `expected` in an epoch of `n_positions`; `None` if it
    /// does not.
    #[must_use]
    pub fn differs(&self, expected: &Self, n_positions: u64) -> Option<Differs> {
        let ranges: Vec<u64> =
            self.ranges.iter().zip(expected.ranges).map(|(a, b)| sub(*a, b)).collect();
        let powers = self.powers.iter().zip(expected.powers).map(|(a, b)| sub(*a, b));
        let plain = ranges.iter().fold(0, |sum, range| add(sum, *range));
        let sums: Vec<u64> = std::iter::once(plain).chain(powers).collect();
        let first = ranges.iter().position(|range| *range != 0);
        if first.is_none() && sums.iter().all(|sum| *sum == 0) {
            return None;
        }
        let locator = locator(&sums);
        let found: Option<Vec<Root>> =
            locator.and_then(|locator| roots(&locator, 1..n_positions.saturating_add(1)));
        if let Some(found) = found {
            let values = error_values(&found, &sums);
            return Some(Differs::At(found.iter().map(|x| x - 1).zip(values).collect()));
        }
        let at = first.unwrap_or(0) as u64;
        Some(Differs::Within(start_of(at, n_positions)..start_of(at + 1, n_positions)))
    }
}

fn range_of(position: u64, n_positions: u64) -> usize {
    let range = u128::from(position) * N_RANGES as u128 / u128::from(n_positions.max(1));
    (range as usize).min(N_RANGES - 1)
}

/// Returns the first position of a range.
fn start_of(range: u64, n_positions: u64) -> u64 {
    (u128::from(range) * u128::from(n_positions)).div_ceil(N_RANGES as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u64 = 1000;

    fn digest(sample: u64) -> Digest {
        Digest::of(&sample.to_le_bytes())
    }

    fn tally(delivered: impl Iterator<Item = (u64, u64)>) -> Tally {
        let mut tally = Tally::default();
        for (position, sample) in delivered {
            tally.add(term(Visit { epoch: 3, position, sample }, &digest(sample)), position, N);
        }
        tally
    }

    fn whole() -> impl Iterator<Item = (u64, u64)> + Clone {
        (0..N).map(|position| (position, (position * 7 + 3) % N))
    }

    /// The Python reader gives the same, as tests of the peers see.
    #[test]
    fn golden_values_stay() {
        let first = Visit { epoch: 0, position: 0, sample: 0 };
        assert_eq!(term(first, &Digest::from_bytes([0; 32])), TERM);
        let other = Visit { epoch: 3, position: 1, sample: 2 };
        assert_eq!(term(other, &digest(7)), OTHER_TERM);
        let json = serde_json::to_string(&tally(whole().take(5))).unwrap();
        assert_eq!(json, FIVE);
        assert!(json.len() < 450, "{}", json.len());
        assert_eq!(serde_json::from_str::<Tally>(&json).unwrap(), tally(whole().take(5)));
    }

    const TERM: u64 = 999_668_706_992_963_290;
    const OTHER_TERM: u64 = 1_591_663_722_690_544_010;
    const FIVE: &str = concat!(
        r#"{"count":5,"broken":0,"ranges":[413545947997203508,0,0,0,0,0,0,0],"#,
        r#""powers":[1081048513978581422,2002471081874697526,2154358652961540864,"#,
        r#"392551894576911325,1377734166912117656,44154412838684258,39600709402625583]}"#,
    );

    #[test]
    fn no_order_and_no_division_changes_it() {
        let expected = tally(whole());
        assert_eq!(expected.differs(&tally(whole()), N), None);
        for parts in 1..=16 {
            let ranks = (0..parts).map(|rank| tally(whole().skip(rank).step_by(parts)));
            let mut sum = Tally::default();
            let mut sums = [0.0; N_SUMS];
            for rank in ranks.rev() {
                sum.join(&rank);
                for (sum, one) in sums.iter_mut().zip(Tally::to_sums(Some(&rank))) {
                    *sum += one;
                }
            }
            assert_eq!(sum, expected, "{parts} ranks");
            assert_eq!(Tally::from_sums(&sums).as_ref(), Some(&expected), "{parts} ranks");
            sums[0] += Tally::to_sums(None)[0];
            assert_eq!(Tally::from_sums(&sums), None);
        }
    }

    #[test]
    fn up_to_four_wrong_positions_are_found_exactly() {
        let expected = tally(whole());
        let good = |position: u64| {
            let sample = (position * 7 + 3) % N;
            term(Visit { epoch: 3, position, sample }, &digest(sample))
        };
        for wrong in [&[0][..], &[999], &[17, 18], &[0, 999], &[5, 300, 301, 800]] {
            // Positions are left out.
            let out = tally(whole().filter(|(position, _)| !wrong.contains(position)));
            let at: Vec<_> = wrong.iter().map(|p| (*p, sub(0, good(*p)))).collect();
            assert_eq!(out.differs(&expected, N), Some(Differs::At(at)));
            // Positions are delivered twice.
            let twice = whole().chain(whole().filter(|(position, _)| wrong.contains(position)));
            let at: Vec<_> = wrong.iter().map(|p| (*p, good(*p))).collect();
            assert_eq!(tally(twice).differs(&expected, N), Some(Differs::At(at)));
            // Other samples are delivered.
            let other = whole().map(|(p, s)| (p, if wrong.contains(&p) { (s + 1) % N } else { s }));
            let Some(Differs::At(at)) = tally(other).differs(&expected, N) else { panic!() };
            assert_eq!(at.iter().map(|(p, _)| *p).collect::<Vec<_>>(), wrong);
        }
    }

    #[test]
    fn of_more_wrong_positions_the_first_range_is_told() {
        let expected = tally(whole());
        for (wrong, range) in [(130..135, 125..250), (0..40, 0..125), (995..1000, 875..1000)] {
            let out = tally(whole().filter(|(position, _)| !wrong.contains(position)));
            assert_eq!(out.differs(&expected, N), Some(Differs::Within(range)));
        }
        let other_epoch = Tally { count: N, ..Tally::default() };
        assert_eq!(other_epoch.differs(&expected, N), Some(Differs::Within(0..125)));
    }

    #[test]
    fn ranges_cover_the_positions() {
        for n in [1_u64, 2, 7, 8, 9, 1000, 1_281_167, u64::MAX >> 4] {
            for range in 0..N_RANGES as u64 {
                let (from, to) = (start_of(range, n), start_of(range + 1, n));
                for position in [from, to.saturating_sub(1)] {
                    if (from..to).contains(&position) {
                        assert_eq!(range_of(position, n), range as usize, "{position} of {n}");
                    }
                }
            }
        }
    }
}
