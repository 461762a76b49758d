//! An open shard: reads values where its index says, and checks them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Digest, Error, Field, FieldIdx, Index, Location, ReadAt, Row, SampleFault};

/// When the bytes of a sample are compared with the digest in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckWhen {
    /// Whoever brought the files here checked them block by block.
    OnFetch,
    /// The first time a sample is read since its shard was opened.
    #[default]
    FirstTouch,
    /// Every time.
    Always,
}

/// An open shard with its index.
#[derive(Debug)]
pub struct Shard {
    data: ReadAt,
    index: Index,
    fields: Vec<String>,
    check: CheckWhen,
    /// One bit a sample and field: seen whole since the shard was opened.
    checked: Vec<AtomicU64>,
}

impl Shard {
    /// `index` was accepted, and `data` is as long as the manifest says.
    pub(crate) fn new(data: ReadAt, index: Index, fields: &[Field], check: CheckWhen) -> Self {
        let bits = index.n_samples().saturating_mul(fields.len());
        Self {
            data,
            fields: fields.iter().map(|f| f.name.to_string()).collect(),
            check,
            checked: (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            index,
        }
    }

    /// Where its samples lie.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The shard's own bytes.
    #[must_use]
    pub fn data(&self) -> &ReadAt {
        &self.data
    }

    /// The class of sample `row`; `None` without labels or past the last sample.
    #[must_use]
    pub fn label(&self, row: Row) -> Option<i32> {
        self.index.labels.as_ref().and_then(|labels| row.of(labels)).copied()
    }

    /// The digest that field `field` of sample `row` must have; `None` for `label`, and past the
    /// last sample.
    #[must_use]
    pub fn digest(&self, row: Row, field: FieldIdx) -> Option<Digest> {
        let digests = field.of(&self.index.digests)?;
        row.of(digests).copied().map(Digest::from_bytes)
    }

    /// Bytes of field `field` of sample `row`, without reading them.
    #[must_use]
    pub fn len_of(&self, row: Row, field: FieldIdx) -> Option<usize> {
        field.of(&self.index.locations)?.range(row).map(|(_, len)| len)
    }

    /// Reads field `field` of sample `row` into `out`, replacing what it held.
    ///
    /// # Errors
    /// Those of [`Shard::fetch`] and [`Shard::check`]. `out` is then unspecified.
    pub fn read(&self, row: Row, field: FieldIdx, out: &mut Vec<u8>) -> Result<(), Error> {
        self.fetch(row, field, out)?;
        self.check(row, field, out)
    }

    /// The first half of [`Shard::read`], for who measures the two apart: the
    /// bytes are not to be used before [`Shard::check`] accepts them.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; those of [`ReadAt::read_at`]. `out` is then unspecified.
    pub fn fetch(&self, row: Row, field: FieldIdx, out: &mut Vec<u8>) -> Result<(), Error> {
        if let (Some(Location::IndexOnly), Some(label)) =
            (field.of(&self.index.locations), self.label(row))
        {
            out.clear();
            out.extend_from_slice(&i64::from(label).to_le_bytes());
            return Ok(());
        }
        let (offset, len) = self.range(row, field)?;
        // Lengths were checked against the shard when the index was read.
        out.resize(len, 0);
        self.data.read_at(offset, out)
    }

    /// As [`Shard::fetch`], and lends the bytes: a map's own, which no one copies, or
    /// `buffer`'s.
    ///
    /// # Errors
    /// Those of [`Shard::fetch`].
    pub fn view<'a>(
        &'a self,
        row: Row,
        field: FieldIdx,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        if let Ok((offset, len)) = self.range(row, field)
            && let Some(bytes) = self.data.mapped(offset, len)
        {
            return Ok(bytes);
        }
        self.fetch(row, field, buffer)?;
        Ok(buffer)
    }

    /// Compares `bytes`, fetched as field `field` of sample `row`, with the
    /// digest in the index, when [`OpenOptions::check`] asks for it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::SampleDigest`] when they are not those packed.
    pub fn check(&self, row: Row, field: FieldIdx, bytes: &[u8]) -> Result<(), Error> {
        let Some(expected) = field.of(&self.index.digests).and_then(|d| row.of(d)) else {
            // `label`: the reader uses the index's copy, which the manifest's digest covers.
            return Ok(());
        };
        let (offset, len) = self.range(row, field)?;
        let (word, bit) = self.bit(row, field);
        let seen = word.is_some_and(|w| w.load(Ordering::Relaxed) & bit != 0);
        if self.check == CheckWhen::OnFetch || (self.check == CheckWhen::FirstTouch && seen) {
            return Ok(());
        }
        let (expected, found) = (Digest::from_bytes(*expected), Digest::of(bytes));
        if found != expected {
            return Err(Error::SampleDigest(Box::new(SampleFault {
                path: self.data.path(),
                key: self.index.key(row).unwrap_or_default().to_owned(),
                field: field.of(&self.fields).cloned().unwrap_or_default(),
                offset,
                end: offset.saturating_add(len as u64),
                expected,
                found,
            })));
        }
        if let Some(word) = word {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(())
    }

    fn range(&self, row: Row, field: FieldIdx) -> Result<(u64, usize), Error> {
        let range = field.of(&self.index.locations).and_then(|l| l.range(row));
        range.ok_or_else(|| Error::OutOfRange {
            what: self.data.path(),
            index: row.0 as u64,
            n_samples: self.index.n_samples() as u64,
        })
    }

    fn bit(&self, row: Row, field: FieldIdx) -> (Option<&AtomicU64>, u64) {
        let bit = row.0.saturating_mul(self.fields.len()).saturating_add(field.0);
        (self.checked.get(bit / 64), 1_u64 << (bit % 64))
    }
}
