//! Samples whose class is unknown: label -1 in the index.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use gular_bundle::{Bundle, Row, SampleId, ShardIdx, Split};
use gular_files::parallel;

use crate::Error;

/// The label of an unknown class, as FORMAT.md says.
pub(super) const UNKNOWN: i32 = -1;

/// The label of an unknown class in a batch, under [`UnknownLabels::Ignore`]: what libtorch's
/// cross entropy leaves out of its mean unless told otherwise (`ignore_index`).
pub const IGNORED_LABEL: i64 = -100;

// Looking through them reads nothing that the first epoch would not read, but the first batch
// waits for it: 256 indexes of 1 MB take a core 0.3 s.
const LOOKED_THROUGH: usize = 256;

/// What to do about samples whose class is unknown.
///
/// Such a label is no class: taken for one, it ends a training on the processor, and on a GPU
/// every later call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownLabels {
    /// They are an error: at once, with their number, where the split has at most 256 shards;
    /// else of the first batch that would hold one.
    #[default]
    Refuse,
    /// They are left out, as if the split did not have them: epochs are shorter, by as much on
    /// every rank, and a state says by how many. The indexes of the split are read at once.
    Drop,
    /// They stay, with [`IGNORED_LABEL`]. A mean over a batch is one over
    /// [`Batch::n_labelled`](super::Batch::n_labelled) samples then.
    Ignore,
}

/// Which samples of a split an epoch has.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// For each sample left out, in order: how many that stay come before it.
    stay_before: Vec<u64>,
}

impl Known {
    /// The number in the split of the `nth` sample that stays.
    pub(super) fn sample(&self, nth: u64) -> u64 {
        nth + self.stay_before.partition_point(|before| *before <= nth) as u64
    }

    pub(super) fn n_left_out(&self) -> u64 {
        self.stay_before.len() as u64
    }
}

/// Looks for unknown labels as `how` wants it; takes what is left out off `shard_samples`, the
/// samples of each shard of `split`.
pub(super) fn known(
    bundle: &Bundle,
    split: Split,
    how: UnknownLabels,
    threads: usize,
    shard_samples: &mut [u64],
) -> Result<Known, Error> {
    let look = match how {
        UnknownLabels::Refuse => shard_samples.len() <= LOOKED_THROUGH,
        UnknownLabels::Drop => true,
        UnknownLabels::Ignore => false,
    };
    if !look || !bundle.manifest().has_labels() {
        return Ok(Known::default());
    }
    let unknown = find(bundle, split, threads)?;
    if how == UnknownLabels::Refuse {
        let Some(first) = unknown.iter().find_map(|(shard, rows)| Some((*shard, *rows.first()?)))
        else {
            return Ok(Known::default());
        };
        let n: usize = unknown.iter().map(|(_, rows)| rows.len()).sum();
        let key = bundle.key(SampleId { shard: first.0, row: Row(first.1) })?;
        let of = shard_samples.iter().sum::<u64>();
        return Err(refused(&format!(
            "{n} of {of} samples of split `{split}` have no class, the first is `{key}`"
        )));
    }
    let (mut first, mut left_out) = (0, 0);
    let mut stay_before = Vec::new();
    for (samples, (_, rows)) in shard_samples.iter_mut().zip(&unknown) {
        for row in rows {
            stay_before.push(first + *row as u64 - left_out);
            left_out += 1;
        }
        first += *samples;
        *samples -= rows.len() as u64;
    }
    Ok(Known { stay_before })
}

/// The rows of unknown class of each shard of `split`.
fn find(
    bundle: &Bundle,
    split: Split,
    threads: usize,
) -> Result<Vec<(ShardIdx, Vec<usize>)>, Error> {
    let shards = bundle.manifest().shards.iter().enumerate();
    let shards: Vec<ShardIdx> =
        shards.filter(|(_, shard)| shard.split == split).map(|(i, _)| ShardIdx(i)).collect();
    let found = Mutex::new(Vec::with_capacity(shards.len()));
    parallel(&shards, threads, &AtomicBool::new(false), |shard, _| {
        let opened = bundle.shard(*shard)?;
        let index = opened.index()?;
        let labels = index.labels().enumerate();
        let rows: Vec<usize> =
            labels.filter(|(_, label)| *label == UNKNOWN).map(|(row, _)| row).collect();
        found.lock().unwrap_or_else(PoisonError::into_inner).push((*shard, rows));
        Ok::<_, Error>(())
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|(shard, _)| shard.0);
    Ok(found)
}

/// The error of a class that is unknown.
pub(super) fn refused(what: &str) -> Error {
    let reason = format!("{what}: choose `Drop` or `Ignore`");
    Error::Option { option: "unknown_labels", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_counted_around_what_does_not() {
        for gone in [&[][..], &[0], &[3], &[9], &[0, 1, 2], &[2, 5, 6, 9], &[0, 9]] {
            let stay_before = gone.iter().zip(0..).map(|(sample, before)| sample - before);
            let known = Known { stay_before: stay_before.collect() };
            let expected: Vec<u64> = (0..10).filter(|sample| !gone.contains(sample)).collect();
            let found: Vec<u64> = (0..expected.len() as u64).map(|n| known.sample(n)).collect();
            assert_eq!(found, expected, "without {gone:?}");
        }
    }
}
