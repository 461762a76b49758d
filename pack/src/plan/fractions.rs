//! Divides samples into splits so that the fractions are exact, each class has its share, and groups
//! stay together.
//!
//! ```text
//! samples ─ sort by class, then by hash ─▶ each goes to the split that lacks the most so far
//! groups  ─ sort by size, then by hash ──▶ the same, for all samples of a group at once
//! ```
//!
//! Samples of a class follow each other, so each class is divided like the whole.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use gular_bundle::Split;

use super::order::hash;
use crate::facts::{Sorted, Sorter, setting};
use crate::plan::PlanError;

/// Most groups, since they are kept in memory.
const MOST_GROUPS: usize = 1 << 24;

/// 128 bits of the digest of a group's name.
type GroupId = [u8; 16];

/// Samples that wait until all of them are known.
#[derive(Debug)]
pub(super) struct Waiting {
    dir: PathBuf,
    sorter: Sorter,
    n: u64,
    /// For each group, its samples of each class.
    groups: HashMap<GroupId, Vec<(i64, u64)>>,
}

impl Waiting {
    pub(super) fn new(dir: &Path, memory_bytes: usize) -> Self {
        let sorter = Sorter::new(dir, memory_bytes);
        Self { dir: dir.to_owned(), sorter, n: 0, groups: HashMap::new() }
    }

    /// Adds a sample, with the value that it has in the next sort.
    pub(super) fn push(
        &mut self,
        sample: &Sample<'_>,
        seed: u64,
        value: &[u8],
    ) -> Result<(), PlanError> {
        self.n += 1;
        let mut id = GroupId::default();
        if let Some(group) = sample.group {
            let digest = blake3::hash(group.as_bytes());
            id = digest.as_bytes().first_chunk().copied().unwrap_or_default();
            let classes = self.groups.entry(id).or_default();
            match classes.iter_mut().find(|(label, _)| *label == sample.label) {
                Some((_, n)) => *n += 1,
                None => classes.push((sample.label, 1)),
            }
            if self.groups.len() > MOST_GROUPS {
                let text = format!(
                    "there are more than {MOST_GROUPS} groups, too many to divide exactly; divide them by hash"
                );
                return Err(setting(&["fractions_by"], text));
            }
        }
        let class = (sample.label as u64) ^ (1 << 63);
        let place = hash(b"split", seed, sample.key);
        let key = [class.to_be_bytes(), place.to_be_bytes()].concat();
        let record = [&id[..], value].concat();
        self.sorter.push(&key, &record).map_err(|e| PlanError::io("sort in", &self.dir, e))
    }

    /// Decides where each sample goes.
    pub(super) fn divide(self, seed: u64, fractions: &[(Split, f64)]) -> std::io::Result<Divided> {
        let of_group = groups(&self.groups, seed, fractions);
        let quotas = Quotas::new(self.n, fractions);
        Ok(Divided { sorted: self.sorter.finish()?, of_group, quotas })
    }
}

/// A sample that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample<'a> {
    pub(super) key: &'a str,
    pub(super) label: i64,
    pub(super) group: Option<&'a str>,
}

/// Samples and their splits.
pub(super) struct Divided {
    sorted: Sorted,
    of_group: HashMap<GroupId, Split>,
    quotas: Quotas,
}

impl Iterator for Divided {
    type Item = std::io::Result<(Split, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (_, record) = match self.sorted.next()? {
            Ok(pair) => pair,
            Err(e) => return Some(Err(e)),
        };
        let Some((id, value)) = record.split_first_chunk::<16>() else {
            return Some(Err(super::build::damaged_record()));
        };
        let split = match self.of_group.get(id) {
            Some(split) => *split,
            None => self.quotas.take(),
        };
        Some(Ok((split, value.to_vec())))
    }
}

/// How many samples each split has, and how many it should have.
struct Quotas {
    n: u64,
    taken: u64,
    splits: Vec<(Split, u64, u64)>,
}

impl Quotas {
    fn new(n: u64, fractions: &[(Split, f64)]) -> Self {
        let exact: Vec<f64> = fractions.iter().map(|(_, f)| f * n as f64).collect();
        let mut counts: Vec<u64> = exact.iter().map(|x| (x + 1e-9).floor() as u64).collect();
        // What rounding lost goes to those that lost the most.
        let mut order: Vec<usize> = (0..counts.len()).collect();
        let lost = |at: usize| exact.get(at).map_or(0.0, |x| x - (x + 1e-9).floor());
        order.sort_by(|a, b| lost(*b).total_cmp(&lost(*a)).then(a.cmp(b)));
        let left = n.saturating_sub(counts.iter().sum());
        for at in order.into_iter().take(usize::try_from(left).unwrap_or(0)) {
            if let Some(count) = counts.get_mut(at) {
                *count += 1;
            }
        }
        let splits = fractions.iter().zip(counts).map(|((split, _), n)| (*split, n, 0)).collect();
        Self { n, taken: 0, splits }
    }

    /// The split that lacks the most of its share so far.
    fn take(&mut self) -> Split {
        self.taken += 1;
        let (n, taken) = (i128::from(self.n), i128::from(self.taken));
        let lack =
            |(_, quota, has): &(Split, u64, u64)| i128::from(*quota) * taken - i128::from(*has) * n;
        let wants = |(_, quota, has): &&mut (Split, u64, u64)| has < quota;
        let mut best = self.splits.iter_mut().filter(wants);
        let first = best.next();
        let chosen = first.map(|first| {
            best.fold(first, |best, next| if lack(next) > lack(best) { next } else { best })
        });
        chosen.map_or(Split::Train, |(split, _, has)| {
            *has += 1;
            *split
        })
    }
}

/// The split of each group.
fn groups(
    groups: &HashMap<GroupId, Vec<(i64, u64)>>,
    seed: u64,
    fractions: &[(Split, f64)],
) -> HashMap<GroupId, Split> {
    let size = |classes: &[(i64, u64)]| classes.iter().map(|(_, n)| n).sum::<u64>();
    let place = |id: &GroupId| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"gular-plan group").update(&seed.to_le_bytes()).update(id);
        *hasher.finalize().as_bytes()
    };
    let sized = groups.iter().map(|(id, of)| (size(of), place(id), id, of.as_slice()));
    let mut order: Vec<_> = sized.collect();
    order.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let all: u64 = order.iter().map(|(n, ..)| n).sum();
    let mut of_class: HashMap<i64, u64> = HashMap::new();
    for (label, n) in groups.values().flatten() {
        *of_class.entry(*label).or_default() += n;
    }
    let mut has: HashMap<(Split, Option<i64>), u64> = HashMap::new();
    let mut found = HashMap::with_capacity(groups.len());
    for (n, _, id, classes) in order {
        let lacks = |of: Option<i64>, split: Split, fraction: f64, all: u64| {
            let has = has.get(&(split, of)).copied().unwrap_or(0);
            fraction - has as f64 / all.max(1) as f64
        };
        let score = |(split, fraction): &(Split, f64)| {
            let of_classes: f64 = classes
                .iter()
                .map(|(label, m)| {
                    let all = of_class.get(label).copied().unwrap_or(1);
                    lacks(Some(*label), *split, *fraction, all) * *m as f64 / n.max(1) as f64
                })
                .sum();
            lacks(None, *split, *fraction, all) + of_classes
        };
        let wanted = fractions.iter().filter(|(_, fraction)| *fraction > 0.0);
        let best = wanted.map(|of| (score(of), of.0)).reduce(|a, b| if b.0 > a.0 { b } else { a });
        let split = best.map_or(Split::Train, |(_, split)| split);
        *has.entry((split, None)).or_default() += n;
        for (label, m) in classes {
            *has.entry((split, Some(*label))).or_default() += m;
        }
        found.insert(*id, split);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRACTIONS: [(Split, f64); 3] =
        [(Split::Train, 0.7), (Split::Val, 0.2), (Split::Test, 0.1)];

    #[test]
    fn every_prefix_is_divided_like_the_whole() {
        for n in [1, 9, 10, 99, 1000] {
            let mut quotas = Quotas::new(n, &FRACTIONS);
            let mut has: HashMap<Split, u64> = HashMap::new();
            for i in 1..=n {
                *has.entry(quotas.take()).or_default() += 1;
                for (split, fraction) in FRACTIONS {
                    let found = has.get(&split).copied().unwrap_or(0) as f64;
                    assert!((found - fraction * i as f64).abs() < 1.5, "{split} {i} of {n}");
                }
            }
            for (split, fraction) in FRACTIONS {
                let found = has.get(&split).copied().unwrap_or(0) as f64;
                assert!((found - fraction * n as f64).abs() < 1.0, "{split} of {n}");
            }
        }
    }

    #[test]
    fn groups_of_all_sizes_are_divided_as_asked() {
        let mut found: HashMap<GroupId, Vec<(i64, u64)>> = HashMap::new();
        for i in 0..200_u64 {
            let mut id = GroupId::default();
            id[..8].copy_from_slice(&i.to_le_bytes());
            found.insert(id, vec![((i % 3) as i64, 1 + i % 7)]);
        }
        let of_group = groups(&found, 1, &FRACTIONS);
        let mut has: HashMap<(Split, i64), u64> = HashMap::new();
        let mut all: HashMap<i64, u64> = HashMap::new();
        for (id, classes) in &found {
            for (label, n) in classes {
                *has.entry((of_group[id], *label)).or_default() += n;
                *all.entry(*label).or_default() += n;
            }
        }
        for (split, fraction) in FRACTIONS {
            for (label, n) in &all {
                let share = has[&(split, *label)] as f64 / *n as f64;
                assert!((share - fraction).abs() < 0.03, "{split} {label}: {share}");
            }
        }
    }
}
