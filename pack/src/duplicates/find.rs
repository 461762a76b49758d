//! Reads the digests of bundles and lists equal samples.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::{Bundle, Digest, Field, FieldIdx, Row, SampleId, Shard, ShardIdx, Split};

use super::groups::{DuplicateGroup, DuplicateSample, Duplicates, MOST_NAMED};
use super::join::{Entry, Place, equal};
use super::list::List;
use crate::error::Error;
use crate::facts::RunError;

/// A bundle in which duplicates are searched.
pub struct Among<'a> {
    /// The bundle.
    pub bundle: &'a Bundle,
    /// Whether a shard exists; others are ignored.
    pub has: &'a (dyn Fn(ShardIdx) -> bool + Sync),
}

/// Options of [`find_duplicates`].
#[derive(Debug, Clone)]
pub struct DuplicateOptions {
    /// Bytes of memory for digests, 24 each; of more samples the indexes are read again.
    pub memory_bytes: usize,
    /// A file for all of them, as CSV; an earlier one is replaced.
    pub list: Option<PathBuf>,
    /// The most groups of a kind that are named: in several splits, and in one.
    pub named: usize,
}

impl Default for DuplicateOptions {
    fn default() -> Self {
        Self { memory_bytes: 256 << 20, list: None, named: MOST_NAMED }
    }
}

/// Finds values of field `image` (or of the first field, if a bundle has no `image`) that several
/// samples of `among` have. With `other`, finds values that samples of both have.
///
/// # Errors
/// Those of reading the indexes and of writing the list; [`RunError::Cancelled`].
pub fn find_duplicates(
    among: &Among<'_>,
    other: Option<&Among<'_>>,
    options: &DuplicateOptions,
    cancel: &AtomicBool,
) -> Result<Duplicates, Error> {
    let both: Vec<&Among<'_>> = std::iter::once(among).chain(other).collect();
    let mut list = options.list.as_deref().map(List::create).transpose()?;
    let mut found = Duplicates::default();
    for shelf in &both {
        found.compared += shelf.shards().map(|(_, samples, _)| samples).sum::<u64>();
    }
    let mut samples = |take: &mut dyn FnMut(&[u8; 32], Place)| {
        for (n, shelf) in both.iter().enumerate() {
            shelf.digests(n, take, cancel)?;
        }
        Ok(())
    };
    equal(found.compared, options.memory_bytes, &mut samples, &mut |entries| {
        let in_both = entries.iter().any(|e| e.place.bundle() == 0)
            && entries.iter().any(|e| e.place.bundle() == 1);
        if other.is_some() && !in_both {
            return Ok(());
        }
        found.add(group(&both, entries, list.as_mut())?, options.named);
        Ok(())
    })?;
    if let Some(list) = list {
        list.finish()?;
    }
    Ok(found)
}

impl Among<'_> {
    /// The shards that are there, with their samples and split.
    pub(super) fn shards(&self) -> impl Iterator<Item = (ShardIdx, u64, Split)> {
        let shards = &self.bundle.manifest().shards;
        let numbered = ShardIdx::first(shards.len()).zip(shards);
        numbered.filter(|(i, _)| (self.has)(*i)).map(|(i, s)| (i, s.samples, s.split))
    }

    /// The field whose values are compared.
    pub(super) fn field(&self) -> FieldIdx {
        let fields = &self.bundle.manifest().fields;
        let image = self.bundle.manifest().image();
        let first = || fields.iter().position(|f| !Field::is_label(f)).map(FieldIdx);
        image.or_else(first).unwrap_or_default()
    }

    fn digests(
        &self,
        number: usize,
        take: &mut dyn FnMut(&[u8; 32], Place),
        cancel: &AtomicBool,
    ) -> Result<(), Error> {
        let field = self.field();
        for (shard, ..) in self.shards() {
            if cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled.into());
            }
            let index = self.bundle.shard(shard)?.index()?;
            for row in index.rows() {
                if let Some(digest) = index.digest(row, field) {
                    take(digest.as_bytes(), Place::new(number, SampleId { shard, row }));
                }
            }
        }
        Ok(())
    }

    /// Describes the sample at a place.
    pub(super) fn sample(&self, place: Place) -> Result<DuplicateSample, Error> {
        let at = self.at(place)?;
        let label = at.shard.label(at.row)?;
        at.sample(place.bundle(), label)
    }

    /// Returns where a sample is, and what its index says about it.
    fn at(&self, place: Place) -> Result<At, Error> {
        let SampleId { shard: number, row } = place.sample();
        let split = number.of(&self.bundle.manifest().shards).map(|s| s.split);
        let shard = self.bundle.shard(number)?;
        Ok(At { shard, number, row, split: split.unwrap_or(Split::Train) })
    }
}

/// A sample, with what its index says about it.
struct At {
    shard: Arc<Shard>,
    number: ShardIdx,
    row: Row,
    split: Split,
}

impl At {
    fn gone(&self) -> Error {
        let (index, n_samples) = (self.row.0 as u64, self.shard.n_samples() as u64);
        gular_bundle::Error::OutOfRange { what: "its index".into(), index, n_samples }.into()
    }

    fn sample(&self, bundle: usize, label: Option<i32>) -> Result<DuplicateSample, Error> {
        let key = self.shard.key(self.row)?.ok_or_else(|| self.gone())?;
        let place = SampleId { shard: self.number, row: self.row };
        Ok(DuplicateSample { bundle, split: self.split, key, label, place })
    }
}

/// Makes the group of samples with the same digest; only the first ones are kept in memory.
fn group(
    both: &[&Among<'_>],
    entries: &[Entry],
    mut list: Option<&mut List>,
) -> Result<DuplicateGroup, Error> {
    let mut group = DuplicateGroup {
        digest: Digest::from_bytes([0; 32]),
        n: entries.len() as u64,
        splits: Vec::new(),
        labels_differ: false,
        samples: Vec::new(),
    };
    let mut first_label = None;
    for (i, entry) in entries.iter().enumerate() {
        let number = entry.place.bundle();
        let Some(shelf) = both.get(number) else { continue };
        let at = shelf.at(entry.place)?;
        if i == 0 {
            let digest = at.shard.digest(at.row, shelf.field())?;
            group.digest = digest.ok_or_else(|| at.gone())?;
        }
        if !group.splits.contains(&at.split) {
            group.splits.push(at.split);
        }
        let label = at.shard.label(at.row)?;
        // In two bundles, the same number can mean different classes.
        group.labels_differ |= both.len() == 1 && *first_label.get_or_insert(label) != label;
        let kept = group.samples.len() < MOST_NAMED;
        if kept || list.is_some() {
            let sample = at.sample(number, label)?;
            if let Some(list) = &mut list {
                list.push(&group.digest, &shelf.bundle.dir().display().to_string(), &sample)?;
            }
            if kept {
                group.samples.push(sample);
            }
        }
    }
    group.splits.sort();
    Ok(group)
}
