//! Orders that draw samples: by weights, or with all classes equally often.
//!
//! Pure functions of (seed, epoch, position) as the others are, so that no state of a generator
//! has to be kept; a sample may come several times in an epoch, or never. Normative: `FORMAT.md`,
//! "Orders".

use std::sync::Arc;

use serde::Deserialize;

use crate::keyed::{KeyedPermutation, key};

/// Streams of random numbers of drawn orders: one per position or round.
const DRAWS: u64 = 1 << 62;
/// The first of the streams of random numbers, one for each class and pass over it.
const PASSES: u64 = 1 << 61;

/// How much more often one sample of a split is drawn than another: one number per sample, in
/// the split's numbering.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<f64>")]
pub struct Weights {
    weights: Arc<[u32]>,
    checksum: u64,
}

impl Weights {
    /// Keeps the weights as they are given.
    #[must_use]
    pub fn new(weights: Vec<u32>) -> Self {
        let numbered = weights.iter().zip(0..);
        let checksum =
            numbered.fold(0, |sum: u64, (w, i)| sum.wrapping_add(key(0, u64::from(*w), i)));
        Self { weights: weights.into(), checksum }
    }

    /// Scales weights so that the largest becomes 2³² − 1; `None` if one is negative or not a
    /// number, or if all are 0.
    #[must_use]
    pub fn scaled(weights: &[f64]) -> Option<Self> {
        let largest = weights.iter().copied().fold(0.0, f64::max);
        let good = |w: &f64| w.is_finite() && *w >= 0.0;
        let scaled = |w: &f64| (w / largest * f64::from(u32::MAX)).round_ties_even() as u32;
        (largest > 0.0 && weights.iter().all(good))
            .then(|| Self::new(weights.iter().map(scaled).collect()))
    }

    /// The weights, one per sample.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.weights
    }

    /// A checksum for states: a different list gives a different number.
    #[must_use]
    pub const fn checksum(&self) -> u64 {
        self.checksum
    }
}

impl TryFrom<Vec<f64>> for Weights {
    type Error = &'static str;

    fn try_from(weights: Vec<f64>) -> Result<Self, Self::Error> {
        Self::scaled(&weights).ok_or("expected weights of 0 or more, and not all 0")
    }
}

/// The weights or classes that an order draws from; samples are numbered among those chosen.
#[derive(Debug)]
pub enum Draws {
    /// The sum of the weights up to and with each sample.
    Weighted(Vec<u64>),
    /// The samples of each class that has some.
    Balanced(Vec<Vec<u64>>),
}

impl Draws {
    /// Returns draws by weight; `None` if all weights are 0.
    pub fn weighted(weights: impl ExactSizeIterator<Item = u32>) -> Option<Self> {
        // A scan does not know its length, and a list that grows takes up to twice its size.
        let mut sums: Vec<u64> = Vec::with_capacity(weights.len());
        sums.extend(weights.scan(0_u64, |sum, weight| {
            *sum += u64::from(weight);
            Some(*sum)
        }));
        (*sums.last()? > 0).then_some(Self::Weighted(sums))
    }

    /// Returns draws by class; `None` if no sample has a class.
    pub fn balanced(labels: impl Iterator<Item = Option<i32>>) -> Option<Self> {
        let mut classes: Vec<Vec<u64>> = Vec::new();
        for (sample, label) in (0..).zip(labels) {
            let Some(class) = label.and_then(|label| usize::try_from(label).ok()) else { continue };
            if classes.len() <= class {
                classes.resize_with(class + 1, Vec::new);
            }
            classes[class].push(sample);
        }
        classes.retain(|samples| !samples.is_empty());
        (!classes.is_empty()).then_some(Self::Balanced(classes))
    }

    /// Returns the sample at `position` of an epoch.
    #[must_use]
    pub fn at(&self, seed: u64, epoch: u64, position: u64) -> u64 {
        match self {
            Self::Weighted(sums) => {
                let all = sums.last().copied().unwrap_or_default();
                let random = key(seed, epoch, DRAWS + position);
                let drawn = ((u128::from(random) * u128::from(all)) >> 64) as u64;
                sums.partition_point(|sum| *sum <= drawn) as u64
            }
            Self::Balanced(classes) => {
                let n_classes = classes.len() as u64;
                let (round, place) = (position / n_classes, position % n_classes);
                let of_round = KeyedPermutation::new(n_classes, key(seed, epoch, DRAWS + round));
                let class = of_round.at(place);
                let samples = &classes[class as usize];
                let n = samples.len() as u64;
                let stream = PASSES + round / n * n_classes + class;
                let within = KeyedPermutation::new(n, key(seed, epoch, stream));
                samples[within.at(round % n) as usize]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Python reader has the same values.
    #[test]
    fn golden_values_stay() {
        let weights = Weights::new((0..10).map(|i| i * i).collect());
        assert_eq!(weights.checksum(), CHECKSUM);
        let draws = Draws::weighted(weights.as_slice().iter().copied()).unwrap();
        let first: Vec<u64> = (0..12).map(|position| draws.at(7, 3, position)).collect();
        assert_eq!(first, WEIGHTED);
        let labels = [0, 0, 0, 0, 0, 2, 2, 0, -1, 5];
        let draws = Draws::balanced(labels.into_iter().map(Some)).unwrap();
        let first: Vec<u64> = (0..12).map(|position| draws.at(7, 3, position)).collect();
        assert_eq!(first, BALANCED);
        assert_eq!(Weights::scaled(&[1.0, 0.0, 0.3]).unwrap().as_slice(), SCALED);
    }

    const CHECKSUM: u64 = 2_849_359_914_551_407_473;
    const WEIGHTED: [u64; 12] = [6, 9, 7, 7, 8, 9, 9, 8, 7, 6, 2, 9];
    const BALANCED: [u64; 12] = [6, 9, 7, 5, 9, 1, 3, 6, 9, 0, 9, 5];
    const SCALED: [u32; 3] = [u32::MAX, 0, 1_288_490_188];

    #[test]
    fn samples_come_as_often_as_they_weigh() {
        let weights = [1_u32, 0, 5, 10, 0, 4];
        let draws = Draws::weighted(weights.into_iter()).unwrap();
        let n = 100_000;
        let mut counts = [0_u32; 6];
        for position in 0..n {
            counts[draws.at(1, 2, position) as usize] += 1;
        }
        for (count, weight) in counts.into_iter().zip(weights) {
            let p = f64::from(weight) / 20.0;
            let (expected, deviation) = (p * n as f64, (n as f64 * p * (1.0 - p)).sqrt());
            assert!((f64::from(count) - expected).abs() <= 5.0 * deviation, "{counts:?}");
        }
    }

    #[test]
    fn classes_come_equally_often_and_their_samples_too() {
        let labels = [vec![0; 50], vec![1; 3], vec![4; 7], vec![-1; 9]].concat();
        let draws = Draws::balanced(labels.iter().copied().map(Some)).unwrap();
        let mut counts = vec![0_u32; labels.len()];
        for position in 0..300 {
            let drawn = draws.at(1, 2, position) as usize;
            counts[drawn] += 1;
        }
        let of = |range: std::ops::Range<usize>| &counts[range];
        for (range, least) in [(0..50, 2), (50..53, 33), (53..60, 14)] {
            assert_eq!(of(range.clone()).iter().sum::<u32>(), 100, "{range:?}");
            assert!(of(range).iter().all(|n| *n == least || *n == least + 1), "{counts:?}");
        }
        assert_eq!(of(60..69), [0; 9]);
    }

    #[test]
    fn weights_that_draw_nothing_are_none() {
        assert!(Draws::weighted([0, 0].into_iter()).is_none());
        assert!(Draws::weighted([].into_iter()).is_none());
        assert!(Draws::balanced([Some(-1), None].into_iter()).is_none());
        for wrong in [&[][..], &[0.0], &[1.0, f64::NAN], &[1.0, -1.0], &[f64::INFINITY]] {
            assert_eq!(Weights::scaled(wrong), None, "{wrong:?}");
        }
    }
}
