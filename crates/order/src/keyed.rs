//! Keyed permutations and keyed random numbers: pure functions of (seed, epoch, stream), so that
//! there is no state to save or lose.
//!
//! Normative: `FORMAT.md`, "Orders". The Python reader computes the same.

/// 2⁶⁴ divided by the golden ratio, odd: SplitMix64's increment.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Feistel rounds. Over a million keys, chi² of the pairs of places in 7 to 16
/// values is 19 to 56 deviations off with 8 rounds, 5 with 10, and within noise with 12.
const ROUNDS: usize = 12;

/// SplitMix64's finaliser (Steele, Lea and Flood, 2014).
#[must_use]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the key of a stream of random numbers, for a seed and an epoch.
#[must_use]
pub fn key(seed: u64, epoch: u64, stream: u64) -> u64 {
    [seed, epoch, stream]
        .into_iter()
        .fold(0, |k: u64, v| mix(k.wrapping_add(v).wrapping_add(GOLDEN)))
}

/// A permutation of `0..n` that takes no memory: a balanced Feistel network over the
/// next even number of bits, walked until it lands below `n` (fewer than 4
/// steps on average).
///
/// Such a network over 4 bits or more has only even permutations, so not all orders of 5 or more
/// values are equally likely as a whole (for 16 values half of them never occur); but all places of
/// any two values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedPermutation {
    n: u64,
    half: u32,
    rounds: [u64; ROUNDS],
}

impl KeyedPermutation {
    /// Returns the permutation of `0..n` with `key`.
    #[must_use]
    pub fn new(n: u64, key: u64) -> Self {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        let mut k = key;
        let rounds = [(); ROUNDS].map(|()| {
            k = k.wrapping_add(GOLDEN);
            mix(k)
        });
        Self { n, half: bits.div_ceil(2), rounds }
    }

    /// Returns the number that `position` is mapped to.
    ///
    /// # Panics
    /// When `position` is not below `n`: its cycle may have nothing below `n`.
    #[must_use]
    pub fn at(&self, position: u64) -> u64 {
        assert!(position < self.n, "place {position} of {}", self.n);
        if self.n < 2 {
            return position;
        }
        let mask = (1 << self.half) - 1;
        let mut x = position;
        loop {
            let (mut left, mut right) = (x >> self.half, x & mask);
            for round in self.rounds {
                (left, right) = (right, left ^ (mix(right.wrapping_add(round)) & mask));
            }
            x = left << self.half | right;
            if x < self.n {
                return x;
            }
        }
    }
}

/// Random numbers of one sample in one epoch (SplitMix64 under its key), so
/// that no thread or rank ever changes what a sample becomes.
#[derive(Debug, Clone)]
pub struct KeyedRng(u64);

impl KeyedRng {
    /// Makes the random numbers of sample `sample`: stream 2⁶³ + `sample` of (seed, epoch).
    #[must_use]
    pub fn of_sample(seed: u64, epoch: u64, sample: u64) -> Self {
        Self(key(seed, epoch, sample | 1 << 63))
    }

    /// Returns the number to give to [`KeyedRng::of_sample`] for a sample that an epoch has several
    /// times, here at `position`, so that its augmentations differ.
    #[must_use]
    pub const fn of_position(position: u64) -> u64 {
        position | 1 << 62
    }

    /// Returns the number to give to [`KeyedRng::of_sample`] for random numbers that all samples of
    /// a step share; `position` is the first one of the step, over all ranks.
    #[must_use]
    pub const fn of_step(position: u64) -> u64 {
        position | 1 << 61
    }

    /// Returns the number to give to [`KeyedRng::of_sample`] for the random numbers of a function
    /// of the training program; those of the built-in augmentations have `draws`.
    #[must_use]
    pub const fn of_function(draws: u64) -> u64 {
        draws | 1 << 60
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Returns the next number in `0.0..1.0`, with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the next number in `low..high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// The next number in `0..n`; 0 when `n` is 0. Biased by at most n / 2⁶⁴.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_are_bijections() {
        let around = |k: u32| [(1_u64 << k) - 1, 1 << k, (1 << k) + 1];
        let sizes = (0..=12).chain([16, 20]).flat_map(around).chain([0, 1000, 100_003, 1_000_000]);
        for n in sizes {
            for k in 0..if n < 10_000 { 8 } else { 2 } {
                let permutation = KeyedPermutation::new(n, key(k, 1, 0));
                let mut seen = vec![false; n as usize];
                for i in 0..n {
                    let to = permutation.at(i) as usize;
                    assert!(!std::mem::replace(&mut seen[to], true), "n {n} key {k}: {to} twice");
                }
            }
        }
        let huge = KeyedPermutation::new(u64::MAX, 1);
        assert!(huge.at(u64::MAX - 1) < u64::MAX);
    }

    /// Values the Python reader and FORMAT.md give too.
    #[test]
    fn golden_values_stay() {
        let first = |n, seed, epoch, stream| -> Vec<u64> {
            let permutation = KeyedPermutation::new(n, key(seed, epoch, stream));
            (0..n.min(8)).map(|i| permutation.at(i)).collect()
        };
        assert_eq!(key(7, 3, 0), 0xd0ac_2efa_d2a1_e5d0);
        assert_eq!(first(3, 0, 0, 0), [2, 1, 0]);
        assert_eq!(first(5, 1, 2, 3), [3, 0, 4, 1, 2]);
        assert_eq!(first(10, 0, 0, 0), [0, 2, 3, 9, 5, 8, 7, 6]);
        assert_eq!(first(1000, 7, 3, 0), [684, 389, 956, 522, 48, 759, 417, 241]);
        let imagenet = [530_230, 692_856, 296_913, 868_760, 1_089_373, 1_052_176, 199_773, 161_760];
        assert_eq!(first(1_281_167, 42, 90, 5), imagenet);
    }

    /// Each place of each value is equally likely, over seeds: chi² over n² cells.
    #[test]
    fn small_permutations_are_uniform() {
        for n in [3_u64, 4, 5, 6, 8, 13] {
            let trials = 20_000;
            let mut counts = vec![0_u32; (n * n) as usize];
            for seed in 0..trials {
                let permutation = KeyedPermutation::new(n, key(seed, 0, 0));
                for i in 0..n {
                    counts[(i * n + permutation.at(i)) as usize] += 1;
                }
            }
            let expected = trials as f64 / n as f64;
            let chi2: f64 =
                counts.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
            // (n-1)² degrees of freedom; mean that, deviation sqrt(2·dof).
            let dof = ((n - 1) * (n - 1)) as f64;
            assert!(chi2 < dof + 5.0 * (2.0 * dof).sqrt(), "n {n}: chi² {chi2} for {dof} degrees");
        }
    }

    /// The same for each two places: chi² over n (n-1) cells. With 8 rounds n of 7 to 16 fail, by
    /// up to 14 deviations. A window order permutes as few shards.
    #[test]
    fn pairs_of_places_are_uniform() {
        for n in [3_usize, 4, 7, 8, 9, 13, 16] {
            let trials = 240_000;
            let orders: Vec<u64> = (0..trials)
                .flat_map(|seed| {
                    let permutation = KeyedPermutation::new(n as u64, key(seed, 0, 0));
                    (0..n as u64).map(move |i| permutation.at(i))
                })
                .collect();
            for (a, b) in (0..n.min(5)).flat_map(|b| (0..b).map(move |a| (a, b))) {
                let mut counts = vec![0_u32; n * n];
                for order in orders.chunks(n) {
                    counts[order[a] as usize * n + order[b] as usize] += 1;
                }
                let cells = (n * (n - 1)) as f64;
                let expected = trials as f64 / cells;
                let chi2: f64 = (0..n * n)
                    .filter(|cell| cell / n != cell % n)
                    .map(|cell| (f64::from(counts[cell]) - expected).powi(2) / expected)
                    .sum();
                let dof = cells - 1.0;
                let deviations = (chi2 - dof) / (2.0 * dof).sqrt();
                assert!(deviations < 5.0, "n {n}, places {a} and {b}: {deviations} deviations");
            }
        }
    }

    #[test]
    #[should_panic(expected = "place 5 of 5")]
    fn a_place_past_the_end_does_not_walk_for_ever() {
        let _ = KeyedPermutation::new(5, 0).at(5);
    }

    #[test]
    fn epochs_are_not_correlated() {
        let n = 4096;
        let orders: Vec<Vec<f64>> = (0..6)
            .map(|epoch| {
                let permutation = KeyedPermutation::new(n, key(1, epoch, 0));
                (0..n).map(|i| permutation.at(i) as f64 / n as f64 - 0.5).collect()
            })
            .collect();
        for a in 0..orders.len() {
            for b in 0..a {
                let r: f64 = orders[a].iter().zip(&orders[b]).map(|(x, y)| x * y).sum::<f64>()
                    * 12.0
                    / n as f64;
                assert!(r.abs() < 5.0 / (n as f64).sqrt(), "epochs {a} and {b}: {r}");
            }
        }
    }

    #[test]
    fn random_numbers_fill_their_range() {
        let mut rng = KeyedRng::of_sample(1, 2, 3);
        let mean = (0..10_000).map(|_| rng.unit()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert!((0..1000).all(|_| rng.below(7) < 7 && (2.0..3.0).contains(&rng.between(2.0, 3.0))));
        assert_eq!(rng.below(0), 0);
    }
}
