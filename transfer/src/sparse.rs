//! Reads single samples of a published bundle: only their bytes are fetched, and each value is
//! checked against its own digest.
//!
//! ```text
//! index ─▶ where each value is ─▶ values near each other: one request ─▶ digest of each
//! ```
//!
//! A client requests little more than the bytes that it wants. How much is transferred between
//! cache and origin depends on the cache: XRootD's fetches the blocks that contain the bytes, 1 MiB
//! or what its operator chose, and others fetch the whole shard.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use gular_bundle::{Digest, FieldIdx, Index, Row, ShardEntry};
use gular_files::parallel;
use gular_pelican::{Client, WrongBytes};

use crate::{Error, RemoteBundle, Watch};

/// For each 16 bytes that are wanted, one byte between values may be requested, which is worth
/// saving a request.
const GAPS_OF: u64 = 16;

/// The largest gap that is read if values are small and many, such as one number per sample:
/// one request then replaces thousands.
const SMALL_GAP: u64 = 4 << 10;

/// The longest gap that is read: another request takes a round trip, in which a fast connection
/// transfers this much.
const MOST_GAP: u64 = 64 << 10;

/// The most bytes of one request, so that memory stays bounded; only a longer value is fetched whole.
const MOST_OF_ONE: u64 = 8 << 20;

/// The wanted samples of one shard, and the wanted fields.
#[derive(Debug, Clone, Copy)]
pub struct Sparse<'a> {
    /// The shard.
    pub shard: &'a ShardEntry,
    /// Index of the shard.
    pub index: &'a Index,
    /// The samples, in any order.
    pub rows: &'a [Row],
    /// The fields; values that are only in the index are not given.
    pub fields: &'a [FieldIdx],
}

/// How much [`read_samples`] requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SparseReport {
    /// Values that were given.
    pub values: u64,
    /// Bytes of these values.
    pub bytes_wanted: u64,
    /// Bytes that servers were asked for.
    pub bytes_asked: u64,
    /// Ranges that servers were asked for; each is one request if nothing fails.
    pub ranges: u64,
}

impl SparseReport {
    /// Adds the counts of another call.
    pub(crate) fn add(&mut self, other: &Self) {
        self.values += other.values;
        self.bytes_wanted += other.bytes_wanted;
        self.bytes_asked += other.bytes_asked;
        self.ranges += other.ranges;
    }
}

/// A callback that gets each value, from any thread.
pub type GiveValue<'a> = dyn Fn(Row, FieldIdx, &[u8]) -> Result<(), Error> + Sync + 'a;

/// Reads the wanted values, with `jobs` requests at the same time, and gives each value after
/// comparing its digest.
///
/// # Errors
/// [`gular_pelican::Error::Corrupt`] where no server has the right bytes, and names the sample;
/// others of [`Client::read_range`]; those of `give`; [`Error::NoSample`] for a row that the
/// shard does not have.
pub fn read_samples(
    client: &Client,
    remote: &RemoteBundle,
    wanted: &Sparse<'_>,
    jobs: usize,
    give: &GiveValue<'_>,
    watch: Watch<'_>,
) -> Result<SparseReport, Error> {
    read_with_gaps(client, remote, (wanted, 0), jobs, give, watch)
}

/// Does the same as [`read_samples`] for small values: it reads small gaps as well, whatever their
/// number.
pub(crate) fn read_small(
    client: &Client,
    remote: &RemoteBundle,
    wanted: &Sparse<'_>,
    jobs: usize,
    give: &GiveValue<'_>,
    watch: Watch<'_>,
) -> Result<SparseReport, Error> {
    read_with_gaps(client, remote, (wanted, SMALL_GAP), jobs, give, watch)
}

/// Reads any gap of up to `small` bytes together with the values around it.
fn read_with_gaps(
    client: &Client,
    remote: &RemoteBundle,
    (wanted, small): (&Sparse<'_>, u64),
    jobs: usize,
    give: &GiveValue<'_>,
    watch: Watch<'_>,
) -> Result<SparseReport, Error> {
    let runs = runs(values(wanted)?, small);
    let (n, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    parallel(&runs, jobs, watch.cancel, |run: &Run, stop| -> Result<(), Error> {
        let accepts = |bytes: &[u8]| run.check(bytes, wanted.index);
        let file = &wanted.shard.file;
        let found =
            remote.read_range(client, file, run.range.clone(), &accepts, watch.until(stop))?;
        for value in &run.values {
            let value_bytes = run.bytes_of(value, &found).unwrap_or_default();
            give(value.row, value.field, value_bytes)?;
            n.fetch_add(1, Ordering::Relaxed);
            bytes.fetch_add(value_bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    })?;
    if watch.is_cancelled() {
        return Err(Error::cancelled());
    }
    Ok(SparseReport {
        values: n.into_inner(),
        bytes_wanted: bytes.into_inner(),
        bytes_asked: runs.iter().map(|run| run.range.end - run.range.start).sum(),
        ranges: runs.len() as u64,
    })
}

/// A wanted value and where it is in the shard.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Value {
    row: Row,
    field: FieldIdx,
    range: Range<u64>,
    digest: Digest,
}

/// Values that one request fetches together.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    range: Range<u64>,
    values: Vec<Value>,
}

impl Run {
    fn bytes_of<'b>(&self, value: &Value, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let at = |position: u64| usize::try_from(position.checked_sub(self.range.start)?).ok();
        bytes.get(at(value.range.start)?..at(value.range.end)?)
    }

    /// Checks that each value has its digest.
    fn check(&self, bytes: &[u8], index: &Index) -> Result<(), WrongBytes> {
        for value in &self.values {
            let found = self.bytes_of(value, bytes).map(Digest::of);
            if found != Some(value.digest) {
                let key = index.key(value.row).unwrap_or_default();
                let why =
                    format!("the bytes of sample `{key}` do not match the digest of the sample");
                return Err(WrongBytes::not_accepted(why));
            }
        }
        Ok(())
    }
}

/// Returns the wanted values in the order of the shard's bytes, each once.
fn values(wanted: &Sparse<'_>) -> Result<Vec<Value>, Error> {
    let mut values = Vec::new();
    for &row in wanted.rows {
        let no_sample = || Error::NoSample {
            shard: wanted.shard.file.name.to_string(),
            row,
            samples: wanted.index.n_samples(),
        };
        for &field in wanted.fields {
            if row.0 >= wanted.index.n_samples() {
                return Err(no_sample());
            }
            // For a field without digests, the values are in the index.
            let Some(digest) = wanted.index.digest(row, field) else { continue };
            let (start, len) = wanted.index.range(row, field).ok_or_else(no_sample)?;
            let end = start.saturating_add(len as u64);
            values.push(Value { row, field, range: start..end, digest });
        }
    }
    values.sort_by_key(|value| (value.range.start, value.row.0, value.field.0));
    values.dedup();
    Ok(values)
}

/// Joins values that are near each other, if few bytes are between them, or no gap is larger than
/// `small`.
fn runs(values: Vec<Value>, small: u64) -> Vec<Run> {
    let wanted = values.iter().map(|value| value.range.end - value.range.start).sum::<u64>();
    let mut gaps_left = wanted / GAPS_OF;
    let mut runs: Vec<Run> = Vec::new();
    for value in values {
        if let Some(run) = runs.last_mut() {
            let gap = value.range.start.saturating_sub(run.range.end);
            let end = run.range.end.max(value.range.end);
            let is_near = gap <= MOST_GAP.min(gaps_left).max(small);
            if is_near && end - run.range.start <= MOST_OF_ONE {
                gaps_left = gaps_left.saturating_sub(gap);
                run.range.end = end;
                run.values.push(value);
                continue;
            }
        }
        runs.push(Run { range: value.range.clone(), values: vec![value] });
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(range: Range<u64>) -> Value {
        Value { row: Row(0), field: FieldIdx(0), range, digest: Digest::of(b"") }
    }

    fn check(values: &[Range<u64>], expected: &[Range<u64>]) {
        let runs = runs(values.iter().cloned().map(value).collect(), 0);
        let found: Vec<Range<u64>> = runs.iter().map(|run| run.range.clone()).collect();
        assert_eq!(found, expected, "{values:?}");
        assert_eq!(runs.iter().map(|run| run.values.len()).sum::<usize>(), values.len());
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
    fn neighbours_come_together_and_strangers_do_not() {
        check(&[], &[]);
        check(&[0..100, 100..200], &[0..200]);
        // 320 bytes are wanted, so 20 may be between them.
        check(&[0..160, 170..330], &[0..330]);
        check(&[0..160, 181..341], &[0..160, 181..341]);
        check(&[0..160, 175..255, 265..345], &[0..255, 265..345]);
        // Two samples that share their bytes.
        check(&[10..20, 10..20], &[10..20]);
        check(
            &[0..MOST_OF_ONE, MOST_OF_ONE..MOST_OF_ONE + 1],
            &[0..MOST_OF_ONE, MOST_OF_ONE..MOST_OF_ONE + 1],
        );
        // The values are a number of every hundredth sample.
        let numbers: Vec<Value> = (0..1000).map(|i| value(i * 800..i * 800 + 8)).collect();
        assert_eq!(runs(numbers.clone(), SMALL_GAP).len(), 1);
        assert!(runs(numbers, 0).len() > 900);
    }
}
