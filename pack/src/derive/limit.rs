//! Limits the number of chosen samples, with the same result each time.
//!
//! Samples come in the order of a hash of seed and key, so a smaller limit takes a part of what
//! a larger one takes, and a sample keeps its place when others come and go.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use gular_bundle::{Index, Row, Split};

use super::bases::{Bases, Line};
use super::choose::{Taken, each_line};
use super::options::{DeriveOptions, Limit};
use super::relabel::Relabelled;
use crate::error::Error;
use crate::facts::Names;
use crate::plan::hash;

/// Samples that share a quota: all, or those of a class and split.
type Stratum = Option<(Split, Option<i32>)>;

/// Takes out of `taken` what is over the limit. Takes 32 bytes per sample for that. Returns the
/// classes, as split and name, whose share is so small that none of their samples is left.
pub(super) fn apply(
    bases: &Bases,
    lines: &[Line],
    taken: &mut Taken,
    relabelled: &Relabelled,
    options: &DeriveOptions,
    cancel: &AtomicBool,
) -> Result<Names, Error> {
    let mut lost = Names::default();
    let Some(limit) = options.limit else { return Ok(lost) };
    let stratum = |number: usize, index: &Index, row: Row| -> Stratum {
        let line = lines[number];
        options.stratified.then(|| {
            let said = relabelled.lines.get(number);
            let label = said.and_then(|said| said.label(row));
            let own = || index.label(row).map(|label| bases.label(line, label));
            let split = said.and_then(|said| said.split(row));
            (split.unwrap_or(bases.entry(line).split), label.or_else(own))
        })
    };
    let found = each_line(lines, options.jobs, cancel, |number, line| {
        let index = bases.index(line)?;
        let place = |row: Row| {
            let key = index.key(row).unwrap_or_default();
            (stratum(number, &index, row), hash(b"limit", options.seed, key))
        };
        Ok(taken[number].rows().map(place).collect::<Vec<_>>())
    })?;
    let mut places: BTreeMap<Stratum, Vec<u64>> = BTreeMap::new();
    for (stratum, place) in found.iter().flatten() {
        places.entry(*stratum).or_default().push(*place);
    }
    let counts: Vec<u64> = places.values().map(|places| places.len() as u64).collect();
    let quotas = quotas(&counts, limit);
    // The last place of each stratum that is taken.
    let mut last: BTreeMap<Stratum, u64> = BTreeMap::new();
    for ((stratum, places), quota) in places.iter_mut().zip(quotas) {
        let quota = usize::try_from(quota).unwrap_or(usize::MAX).min(places.len());
        match quota.checked_sub(1) {
            Some(at) => drop(last.insert(*stratum, *places.select_nth_unstable(at).1)),
            None => {
                let Some((split, label)) = stratum else { continue };
                let Some(label) = label.filter(|label| *label >= 0) else { continue };
                let class = usize::try_from(label).ok().and_then(|label| bases.classes.get(label));
                lost.push(&format!("{split}/{}", class.cloned().unwrap_or(label.to_string())));
            }
        }
    }
    for (bits, places) in taken.iter_mut().zip(&found) {
        let rows: Vec<Row> = bits.rows().collect();
        for (row, (stratum, place)) in rows.into_iter().zip(places) {
            if last.get(stratum).is_none_or(|last| place > last) {
                bits.set(row, false);
            }
        }
    }
    Ok(lost)
}

/// Returns how many samples each stratum gets: its share, rounded so that the sum is right.
fn quotas(counts: &[u64], limit: Limit) -> Vec<u64> {
    let all: u64 = counts.iter().sum();
    let wanted = match limit {
        Limit::Samples(n) => n.min(all),
        // At least one sample is taken, however small the share.
        Limit::Share(share) => ((all as f64 * share).round() as u64).clamp(all.min(1), all),
    };
    let parts = |n: &u64| {
        let product = u128::from(*n) * u128::from(wanted);
        (product / u128::from(all.max(1)), product % u128::from(all.max(1)))
    };
    let mut quotas: Vec<u64> = counts.iter().map(|n| parts(n).0 as u64).collect();
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(parts(&counts[*at]).1), *at));
    let left = wanted - quotas.iter().sum::<u64>();
    for at in order.into_iter().take(usize::try_from(left).unwrap_or(0)) {
        quotas[at] += 1;
    }
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_add_up_and_follow_the_counts() {
        let check = |counts: &[u64], limit, expected: &[u64]| {
            assert_eq!(quotas(counts, limit), expected, "{counts:?} {limit:?}");
        };
        check(&[600, 300, 100], Limit::Samples(10), &[6, 3, 1]);
        check(&[600, 300, 100], Limit::Share(0.01), &[6, 3, 1]);
        check(&[1, 1, 1], Limit::Samples(2), &[1, 1, 0]);
        check(&[5, 3], Limit::Samples(100), &[5, 3]);
        check(&[5, 3], Limit::Samples(0), &[0, 0]);
        check(&[5, 3], Limit::Share(1e-9), &[1, 0]);
        check(&[7], Limit::Share(0.5), &[4]);
        check(&[], Limit::Samples(5), &[]);
    }
}
