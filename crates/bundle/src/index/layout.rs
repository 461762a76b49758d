//! The offsets of an index's parts in its file, so that one entry can be read without the rest.
//!
//! A layout takes a few hundred bytes per shard, whatever the number of samples.

use std::ops::Range;
use std::sync::Arc;

use crate::{Digest, Error, FieldIdx, ReadAt, Row, View};

/// The parts of one index file. Made by [`Index::parse`](crate::Index::parse), which compares
/// every part with the file's length.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Samples of the index's file, including those that the view leaves out.
    pub(super) n_stored: usize,
    pub(super) shard_bytes: u64,
    /// One entry per field, in the manifest's order.
    pub(super) fields: Vec<FieldLayout>,
    /// First byte of `label`.
    pub(super) labels: Option<u64>,
    /// First byte of `key.offsets`.
    pub(super) key_offsets: u64,
    pub(super) key_bytes: Range<u64>,
    /// First byte of `key.source`, if the index has it.
    pub(super) sources: Option<u64>,
    pub(super) block_cvs: Range<u64>,
    /// The view, which says which samples count; without one all do.
    pub(super) view: Option<Arc<View>>,
}

/// The entries of the index for one field.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FieldLayout {
    pub(super) place: Place,
    /// First byte of `<field>.digest`; `None` for `label`.
    pub(super) digests: Option<u64>,
}

/// Where the values of one field are in a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Value `i` is `size` bytes at `base + i * size`.
    Strided { base: u64, size: u64 },
    /// Value `i` starts at the byte that entry `i` of the i64 list at byte `offsets` gives.
    Listed { offsets: u64, lengths: Lengths },
    /// The shard does not store field `label` as 8-byte integers; the index has the values.
    IndexOnly,
}

/// How the lengths of listed values are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lengths {
    /// Entry `i` of the i32 list at this byte is the length of value `i`.
    Listed(u64),
    /// All values have this length.
    All(i32),
}

impl Layout {
    pub(crate) fn n_samples(&self) -> usize {
        self.view.as_ref().map_or(self.n_stored, |view| view.n_samples())
    }

    /// Returns the row of the file that has sample `row`; `None` past the last.
    pub(crate) fn stored(&self, row: Row) -> Option<Row> {
        match &self.view {
            Some(view) => view.stored(row),
            None => (row.0 < self.n_stored).then_some(row),
        }
    }

    pub(crate) fn n_fields(&self) -> usize {
        self.fields.len()
    }

    /// Returns whether the index has the values of this field, so that bytes in the shard are
    /// ignored.
    pub(crate) fn is_index_only(&self, field: FieldIdx) -> bool {
        field.of(&self.fields).is_some_and(|f| f.place == Place::IndexOnly)
    }

    /// Returns first byte and length of a value in the shard; `None` past the last sample, and for
    /// values that only the index has.
    pub(crate) fn range(
        &self,
        file: &ReadAt,
        row: Row,
        field: FieldIdx,
    ) -> Result<Option<(u64, usize)>, Error> {
        let (Some(of), Some(row)) = (field.of(&self.fields), self.stored(row)) else {
            return Ok(None);
        };
        Ok(match &of.place {
            Place::Strided { base, size } => strided(*base, *size, row),
            Place::Listed { offsets, lengths } => {
                let offset = i64::from_le_bytes(entry(file, *offsets, row)?);
                let len = match lengths {
                    Lengths::Listed(lengths) => i32::from_le_bytes(entry(file, *lengths, row)?),
                    Lengths::All(len) => *len,
                };
                u64::try_from(offset).ok().zip(usize::try_from(len).ok())
            }
            Place::IndexOnly => None,
        })
    }

    /// Returns the digest of a value; `None` for `label` and past the last sample.
    pub(crate) fn digest(
        &self,
        file: &ReadAt,
        row: Row,
        field: FieldIdx,
    ) -> Result<Option<Digest>, Error> {
        let digests = field.of(&self.fields).and_then(|f| f.digests);
        let (Some(digests), Some(row)) = (digests, self.stored(row)) else { return Ok(None) };
        Ok(Some(Digest::from_bytes(entry(file, digests, row)?)))
    }

    /// Returns the digest of the file that a sample's image was made from, if it is known.
    pub(crate) fn source(&self, file: &ReadAt, row: Row) -> Result<Option<Digest>, Error> {
        let (Some(sources), Some(row)) = (self.sources, self.stored(row)) else { return Ok(None) };
        let digest = entry(file, sources, row)?;
        Ok((digest != [0; 32]).then(|| Digest::from_bytes(digest)))
    }

    /// Returns the class of a sample; `None` without labels and past the last sample.
    pub(crate) fn label(&self, file: &ReadAt, row: Row) -> Result<Option<i32>, Error> {
        let Some(row) = self.stored(row) else { return Ok(None) };
        if let Some(label) = self.view.as_ref().and_then(|view| view.label(row)) {
            return Ok(Some(label));
        }
        let Some(labels) = self.labels else { return Ok(None) };
        Ok(Some(i32::from_le_bytes(entry(file, labels, row)?)))
    }

    /// Returns which bytes of the file are the key of sample `row`; `None` past the last.
    pub(crate) fn key(&self, file: &ReadAt, row: Row) -> Result<Option<Range<u64>>, Error> {
        let Some(row) = self.stored(row) else { return Ok(None) };
        let at = (row.0 as u64).saturating_mul(8).saturating_add(self.key_offsets);
        let mut pair = [[0; 8]; 2];
        file.read_at(at, pair.as_flattened_mut())?;
        let [start, end] = pair.map(i64::from_le_bytes);
        let at = |offset: i64| self.key_bytes.start.checked_add(u64::try_from(offset).ok()?);
        let range = at(start).zip(at(end)).filter(|(a, b)| a <= b && *b <= self.key_bytes.end);
        Ok(range.map(|(start, end)| start..end))
    }
}

/// Reads entry `row` of the list of `N`-byte values at byte `start`.
fn entry<const N: usize>(file: &ReadAt, start: u64, row: Row) -> Result<[u8; N], Error> {
    let mut out = [0; N];
    let at = (row.0 as u64).saturating_mul(N as u64).saturating_add(start);
    file.read_at(at, &mut out)?;
    Ok(out)
}

/// Returns first byte and length of value `row`, if values are back to back.
pub(super) fn strided(base: u64, size: u64, row: Row) -> Option<(u64, usize)> {
    let offset = (row.0 as u64).checked_mul(size)?.checked_add(base)?;
    Some((offset, usize::try_from(size).ok()?))
}
