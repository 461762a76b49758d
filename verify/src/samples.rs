//! Finds the samples of a shard whose bytes differ from those that were packed.

use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::{Digest, FieldIdx, Index, ReadAt, Row, SampleId};

use crate::digest::digest;
use crate::verify_report::{ByteRange, merged};

/// The samples of one shard, with everything that is needed to check them.
pub(crate) struct Samples<'a> {
    pub(crate) shard: &'a ReadAt,
    pub(crate) index: &'a Index,
    pub(crate) advance: &'a (dyn Fn(u64) + Sync),
    pub(crate) cancel: &'a AtomicBool,
}

/// The values that were checked.
#[derive(Default)]
pub(crate) struct Seen {
    /// One entry per field, in the manifest's order.
    pub(crate) fields: Vec<BadValues>,
    /// Ranges of the good values, merged.
    pub(crate) good: Vec<ByteRange>,
    /// Number of samples that were checked.
    pub(crate) n_samples: u64,
}

/// The bad values of one field.
#[derive(Default, Clone)]
pub(crate) struct BadValues {
    /// Keys of the samples with bad values, in the index's order.
    pub(crate) keys: Vec<String>,
    /// Ranges of the bad values, merged.
    pub(crate) ranges: Vec<ByteRange>,
}

impl Seen {
    /// Returns the ranges of the bad values of all fields, merged.
    pub(crate) fn bad(&self) -> Vec<ByteRange> {
        merged(self.fields.iter().flat_map(|f| f.ranges.iter().copied()).collect())
    }
}

impl Samples<'_> {
    /// Checks the values of the samples that `wanted` picks by row. If the merged ranges `within`
    /// are given, only samples that touch one of them are checked.
    pub(crate) fn look(&self, wanted: impl Fn(Row) -> bool, within: Option<&[ByteRange]>) -> Seen {
        let n_fields = self.index.n_fields();
        let mut seen = Seen { fields: vec![BadValues::default(); n_fields], ..Seen::default() };
        for row in self.index.rows().filter(|row| wanted(*row)) {
            if self.cancel.load(Ordering::Relaxed) {
                break;
            }
            seen.n_samples += 1;
            for (field, bad) in self.index.fields().zip(&mut seen.fields) {
                // Every range was checked against the shard when the index was parsed.
                let Some((start, len)) = self.index.range(row, field) else { continue };
                let value = ByteRange { start, end: start.saturating_add(len as u64) };
                if within.is_some_and(|within| !touches(within, value)) {
                    continue;
                }
                if self.is_sound(row, field, value) {
                    push(&mut seen.good, value);
                } else {
                    push(&mut bad.ranges, value);
                    bad.keys.push(self.index.key(row).unwrap_or_default().to_owned());
                }
            }
        }
        for bad in &mut seen.fields {
            bad.ranges = merged(std::mem::take(&mut bad.ranges));
        }
        seen.good = merged(seen.good);
        seen
    }

    fn is_sound(&self, row: Row, field: FieldIdx, value: ByteRange) -> bool {
        let ByteRange { start, end } = value;
        let digest = digest(self.shard, start..end, self.advance, self.cancel);
        // For a label, the copy in the index counts.
        let of_label = || Some(Digest::of(&i64::from(self.index.label(row)?).to_le_bytes()));
        let Some(expected) = self.index.digest(row, field).or_else(of_label) else { return false };
        // If reading was stopped, the sample counts as good, since the report is dropped.
        digest.is_ok_and(|found| found.is_none_or(|found| found == expected))
    }
}

/// Appends a range, or extends the last one if the range follows it: values are one behind the
/// other, so the list stays short.
fn push(ranges: &mut Vec<ByteRange>, range: ByteRange) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// Returns whether `range` has a byte in one of the merged ranges `of`.
pub(crate) fn touches(of: &[ByteRange], range: ByteRange) -> bool {
    let after = of.partition_point(|r| r.end <= range.start);
    range.start < range.end && of.get(after).is_some_and(|r| r.start < range.end)
}

/// Returns the bytes of `range` that are in none of the merged ranges `holes`.
pub(crate) fn without(range: ByteRange, holes: &[ByteRange]) -> Vec<ByteRange> {
    let mut left = Vec::new();
    let mut start = range.start;
    let first = holes.partition_point(|h| h.end <= range.start);
    for hole in holes.iter().skip(first).take_while(|h| h.start < range.end) {
        if start < hole.start {
            left.push(ByteRange { start, end: hole.start });
        }
        start = start.max(hole.end);
    }
    if start < range.end {
        left.push(ByteRange { start, end: range.end });
    }
    left
}

/// Returns whether this sample is in the share of all samples that `seed` chooses.
pub(crate) fn is_chosen(sample: SampleId, fraction: f64, seed: u64) -> bool {
    unit(seed, sample.shard.0 as u64, sample.row.0 as u64) < fraction
}

/// Returns a number in 0..1 that depends only on the arguments.
pub(crate) fn unit(seed: u64, shard: u64, row: u64) -> f64 {
    let mut bytes = [0; 24];
    for (slot, value) in bytes.chunks_exact_mut(8).zip([seed, shard, row]) {
        slot.copy_from_slice(&value.to_le_bytes());
    }
    let digest = Digest::of(&bytes);
    let word = digest.as_bytes().first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(of: &[(u64, u64)]) -> Vec<ByteRange> {
        of.iter().map(|(start, end)| ByteRange { start: *start, end: *end }).collect()
    }

    /// Compares ranges with a plain list of bytes.
    #[test]
    fn ranges_are_sets_of_bytes() {
        let holes = ranges(&[(2, 4), (6, 7), (9, 12)]);
        let in_holes = |byte: u64| holes.iter().any(|h| (h.start..h.end).contains(&byte));
        for start in 0..14 {
            for end in start..14 {
                let range = ByteRange { start, end };
                assert_eq!(touches(&holes, range), (start..end).any(in_holes), "{range:?}");
                let left: Vec<u64> =
                    without(range, &holes).into_iter().flat_map(|r| r.start..r.end).collect();
                let expected: Vec<u64> = (start..end).filter(|b| !in_holes(*b)).collect();
                assert_eq!(left, expected, "{range:?}");
            }
        }
    }

    #[test]
    fn the_share_chosen_is_the_share_asked_for() {
        let n = (0..10_000).filter(|row| unit(7, 3, *row) < 0.25).count();
        assert!((2300..2700).contains(&n), "{n}");
    }
}
