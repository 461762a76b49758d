//! The samples of a split that an epoch contains.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gular_bundle::{Bundle, Digest, FieldIdx, Index, Row, SampleId, ShardIdx, Split};
use gular_files::parallel;
use gular_order::{KeyedPermutation, key};
use serde::Deserialize;

use super::labels::{LOOKED_THROUGH, UNKNOWN, UnknownLabels, refused};
use crate::Error;

/// The stream of random numbers that deals samples to folds.
const FOLDS: u64 = 1 << 60;

/// The number of samples that a [`Predicate`] is asked about at a time: enough that to call it costs
/// nothing.
const AT_A_TIME: usize = 1024;

/// Conditions that samples must meet to be used. All others are treated as if the split did not
/// have them; all ranks take the same number of steps.
///
/// Samples are chosen once, when the loader is made, from the indexes alone. A state contains a
/// checksum of the chosen samples.
#[derive(Debug, Clone, Default)]
pub struct Select {
    /// Uses only samples for which this is true.
    pub only: Option<Predicate>,
    /// Leaves out samples whose image has one of these digests.
    pub never: Option<Arc<HashSet<Digest>>>,
    /// Uses only the samples of one of several parts, or of all other parts.
    pub fold: Option<Fold>,
}

/// A part of a split, for cross-validation: each sample is in one of `of` folds, whose sizes
/// differ by one at most. `FORMAT.md`, "Orders".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fold {
    /// Number of folds.
    pub of: u64,
    /// The fold, from 0.
    pub number: u64,
    /// Whether this fold is used, for validation, or all others are, for training.
    pub held_out: bool,
    /// The seed of the division: a different seed gives different folds.
    pub seed: u64,
}

/// The facts that a [`Predicate`] gets about a sample.
#[derive(Debug, Clone, Copy)]
pub struct SampleFacts<'a> {
    /// The sample's number in the split.
    pub number: u64,
    /// The sample's key: its path when it was packed.
    pub key: &'a str,
    /// The sample's class; -1 if it is unknown, `None` in a bundle without labels.
    pub label: Option<i32>,
    /// The digest of the sample's image.
    pub digest: Option<Digest>,
}

/// Decides which samples are used.
#[derive(Clone)]
pub struct Predicate(Arc<Decide>);

type Decide = dyn Fn(&[SampleFacts<'_>]) -> Option<Vec<bool>> + Send + Sync;

impl Predicate {
    /// Selects the samples for which `is_used` returns true. It is called for every sample of the
    /// split, and must always return the same for a sample.
    pub fn new(is_used: impl Fn(&SampleFacts<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self::of_many(move |samples| Some(samples.iter().map(&is_used).collect()))
    }

    /// Does the same for many samples at a time: `are_used` returns one answer for each. With
    /// `None` it ends the choice, and the loader is not made: [`LoaderError::Stopped`].
    pub fn of_many(
        are_used: impl Fn(&[SampleFacts<'_>]) -> Option<Vec<bool>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(are_used))
    }

    /// Selects the samples with these keys; keys that no sample has are ignored.
    #[must_use]
    pub fn keys(keys: HashSet<String>) -> Self {
        Self::new(move |sample| keys.contains(sample.key))
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

impl Select {
    fn is_all(&self) -> bool {
        self.only.is_none() && self.never.is_none() && self.fold.is_none()
    }

    pub(super) fn fault(&self) -> Option<String> {
        let fold = self.fold.filter(|fold| fold.number >= fold.of)?;
        Some(format!("fold {} of {}, counted from 0", fold.number, fold.of))
    }

    /// The function that decides about some samples of a split of `n`.
    fn decide(&self, n: u64) -> impl Fn(&[SampleFacts<'_>]) -> Option<Vec<bool>> {
        let dealt = self.fold.map(|fold| {
            let places = KeyedPermutation::new(n, key(fold.seed, 0, FOLDS));
            move |sample: u64| (places.at(sample) % fold.of == fold.number) == fold.held_out
        });
        let is_used = move |sample: &SampleFacts<'_>| {
            let known = |never: &Arc<HashSet<Digest>>| {
                sample.digest.is_some_and(|digest| never.contains(&digest))
            };
            dealt.as_ref().is_none_or(|dealt| dealt(sample.number))
                && !self.never.as_ref().is_some_and(known)
        };
        move |samples: &[SampleFacts<'_>]| {
            // First, so that it is called for every sample.
            let Some(only) = &self.only else {
                return Some(samples.iter().map(&is_used).collect());
            };
            let answers = only.0(samples)?;
            let both =
                answers.iter().zip(samples).map(|(answer, sample)| *answer && is_used(sample));
            (answers.len() == samples.len()).then(|| both.collect())
        }
    }
}

/// The samples that an epoch has, numbered among themselves.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// One bit for each sample of the split, and the number of chosen samples before each word;
    /// `None` if all are chosen.
    bits: Option<(Vec<u64>, Vec<u64>)>,
    n_left_out: u64,
    /// The checksum of the samples that [`Select`] left; `None` if it selects nothing.
    checksum: Option<u64>,
    /// The labels of the chosen samples, if they were requested.
    pub(super) labels: Vec<Option<i32>>,
}

impl Chosen {
    /// The number in the split of the `nth` chosen sample.
    pub(super) fn sample(&self, nth: u64) -> u64 {
        let Some((words, before)) = &self.bits else { return nth };
        let at = before.partition_point(|before| *before <= nth).saturating_sub(1);
        let mut word = words[at];
        for _ in before[at]..nth {
            word &= word - 1;
        }
        at as u64 * 64 + u64::from(word.trailing_zeros())
    }

    pub(super) fn n_left_out(&self) -> u64 {
        self.n_left_out
    }

    pub(super) fn checksum(&self) -> Option<u64> {
        self.checksum
    }

    /// The samples whose bits are set in `words`; the others, `n_left_out`, are not.
    fn of_bits(words: Vec<u64>, n_left_out: u64) -> Self {
        let before = words.iter().scan(0, |sum, word| {
            let before = *sum;
            *sum += u64::from(word.count_ones());
            Some(before)
        });
        let before = before.collect();
        let bits = (n_left_out > 0).then_some((words, before));
        Self { bits, n_left_out, ..Self::default() }
    }
}

/// Returns one bit for each of `n` samples, all set.
fn all_bits(n: u64) -> Vec<AtomicU64> {
    let n_words = usize::try_from(n.div_ceil(64)).unwrap_or(usize::MAX);
    let words: Vec<AtomicU64> = (0..n_words).map(|_| AtomicU64::new(u64::MAX)).collect();
    if let (Some(last), used @ 1..) = (words.last(), n % 64) {
        last.store((1 << used) - 1, Ordering::Relaxed);
    }
    words
}

/// The facts to find out about the samples of a split.
pub(super) struct Asked<'a> {
    pub(super) split: Split,
    pub(super) unknown: UnknownLabels,
    pub(super) select: &'a Select,
    /// Whether the labels are wanted.
    pub(super) labels: bool,
    pub(super) threads: usize,
}

/// Adds to each sample whether it is used; `decide` is asked about many at a time.
fn decided<'a>(
    samples: impl Iterator<Item = (Row, SampleFacts<'a>)>,
    decide: &impl Fn(&[SampleFacts<'_>]) -> Option<Vec<bool>>,
) -> impl Iterator<Item = Result<(Row, SampleFacts<'a>, bool), Error>> {
    let mut samples = samples.peekable();
    let mut ready = Vec::new().into_iter();
    std::iter::from_fn(move || {
        if let Some(next) = ready.next() {
            return Some(Ok(next));
        }
        samples.peek()?;
        let (rows, facts): (Vec<Row>, Vec<SampleFacts<'_>>) =
            samples.by_ref().take(AT_A_TIME).unzip();
        let Some(answers) = decide(&facts) else {
            return Some(Err(super::LoaderError::Stopped.into()));
        };
        let made = rows.into_iter().zip(facts).zip(answers);
        let made: Vec<_> = made.map(|((row, facts), is_used)| (row, facts, is_used)).collect();
        ready = made.into_iter();
        ready.next().map(Ok)
    })
}

/// The result for one shard.
#[derive(Default)]
struct Found {
    n_left_out: u64,
    n_refused: usize,
    first_refused: Option<Row>,
    labels: Vec<Option<i32>>,
}

/// Chooses samples, and subtracts those left out from `shard_samples`, the number of samples of
/// each shard of the split.
pub(super) fn choose(
    bundle: &Bundle,
    asked: &Asked<'_>,
    shard_samples: &mut [u64],
) -> Result<Chosen, Error> {
    let Asked { split, unknown, select, labels, threads } = *asked;
    let by_label = match unknown {
        UnknownLabels::Refuse => shard_samples.len() <= LOOKED_THROUGH,
        UnknownLabels::Drop => true,
        UnknownLabels::Ignore => false,
    };
    if select.is_all() && !labels && !(by_label && bundle.manifest().has_labels()) {
        return Ok(Chosen::default());
    }
    let n = shard_samples.iter().sum::<u64>();
    let decide = select.decide(n);
    let image = bundle.manifest().image();
    let shards = bundle.manifest().shards.iter().enumerate().filter(|(_, s)| s.split == split);
    let mut firsts = Vec::new();
    let mut first = 0;
    for ((shard, _), samples) in shards.zip(shard_samples.iter()) {
        firsts.push((ShardIdx(shard), first));
        first += samples;
    }
    let bits = all_bits(n);
    let found = Mutex::new(Vec::with_capacity(firsts.len()));
    parallel(&firsts, threads, &AtomicBool::new(false), |(shard, first), _| {
        let index = bundle.index(*shard)?;
        let mut of_shard = Found::default();
        let samples =
            (*first..).zip(index.rows()).map(|(n, row)| (row, facts(&index, row, n, image)));
        for decided in decided(samples, &decide) {
            let (row, facts, is_used) = decided?;
            let number = facts.number;
            let is_unknown = facts.label == Some(UNKNOWN);
            if !is_used || is_unknown && unknown == UnknownLabels::Drop {
                let bit = !(1 << (number % 64));
                bits[(number / 64) as usize].fetch_and(bit, Ordering::Relaxed);
                of_shard.n_left_out += 1;
                continue;
            }
            if is_unknown && unknown == UnknownLabels::Refuse && by_label {
                of_shard.n_refused += 1;
                of_shard.first_refused.get_or_insert(row);
            }
            if labels {
                of_shard.labels.push(facts.label);
            }
        }
        found.lock().unwrap_or_else(PoisonError::into_inner).push((*shard, of_shard));
        Ok::<_, Error>(())
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|(shard, _)| shard.0);
    let first = found.iter().find_map(|(shard, found)| Some((*shard, found.first_refused?)));
    if let Some((shard, row)) = first {
        let n_refused: usize = found.iter().map(|(_, found)| found.n_refused).sum();
        let key = bundle.key(SampleId { shard, row })?;
        return Err(refused(&format!(
            "{n_refused} of {n} samples of split `{split}` have no class, the first is `{key}`"
        )));
    }
    for (samples, (_, found)) in shard_samples.iter_mut().zip(&found) {
        *samples -= found.n_left_out;
    }
    let n_left_out = found.iter().map(|(_, found)| found.n_left_out).sum();
    let words = bits.into_iter().map(AtomicU64::into_inner).collect();
    let mut chosen = Chosen::of_bits(words, n_left_out);
    chosen.labels = found.into_iter().flat_map(|(_, found)| found.labels).collect();
    if !select.is_all() {
        let numbers = (0..n - chosen.n_left_out).map(|nth| chosen.sample(nth));
        let sum = numbers.fold(0, |sum: u64, number| sum.wrapping_add(key(0, 0, number)));
        chosen.checksum = Some(sum);
    }
    Ok(chosen)
}

fn facts(index: &Index, row: Row, number: u64, image: Option<FieldIdx>) -> SampleFacts<'_> {
    SampleFacts {
        number,
        key: index.key(row).unwrap_or_default(),
        label: index.label(row),
        digest: image.and_then(|image| index.digest(row, image)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_counted_around_what_does_not() {
        let far: Vec<u64> = (0..300).filter(|n| n % 7 != 3 && *n != 64).collect();
        for gone in [&[][..], &[0], &[3], &[9], &[0, 1, 2], &[2, 5, 6, 9], &[0, 9], &far] {
            for n in [10, 300, 320] {
                let gone: Vec<u64> = gone.iter().copied().filter(|sample| *sample < n).collect();
                let bits = all_bits(n);
                for sample in &gone {
                    bits[(sample / 64) as usize]
                        .fetch_and(!(1 << (sample % 64)), Ordering::Relaxed);
                }
                let words = bits.into_iter().map(AtomicU64::into_inner).collect();
                let chosen = Chosen::of_bits(words, gone.len() as u64);
                let expected: Vec<u64> = (0..n).filter(|sample| !gone.contains(sample)).collect();
                let found: Vec<u64> =
                    (0..expected.len() as u64).map(|nth| chosen.sample(nth)).collect();
                assert_eq!(found, expected, "of {n} without {gone:?}");
                assert_eq!(chosen.n_left_out(), gone.len() as u64);
            }
        }
    }
}
