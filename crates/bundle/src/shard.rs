//! An open shard: reads values at the offsets in its index, and checks them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;

use crate::index::Layout;
use crate::read_at::Identity;
use crate::{Digest, Error, FieldIdx, Index, ReadAt, Row, SampleFault};

/// When the bytes of a sample are checked against their digest in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckWhen {
    /// Never: the files were checked block by block when they were fetched.
    OnFetch,
    /// The first time a sample is read since its bundle was opened.
    #[default]
    FirstTouch,
    /// Every time a sample is read.
    Always,
}

/// Facts about a closed shard, so that it need not be verified again.
#[derive(Debug)]
pub(crate) struct Known {
    /// The identities of the shard's file and of the index's, when they were opened.
    files: [Option<Identity>; 2],
    /// Where the parts of the accepted index are.
    layout: Arc<Layout>,
    /// One bit per sample and field, set if the bytes were right; empty if no check needs it.
    checked: Vec<AtomicU64>,
}

impl Known {
    /// Starts the facts about a shard whose `index` was accepted, and whose `data` has the length
    /// in the manifest.
    pub(crate) fn new(data: &ReadAt, index: &Index, check: CheckWhen) -> Arc<Self> {
        let bits = match check {
            CheckWhen::FirstTouch => index.n_samples().saturating_mul(index.n_fields()),
            CheckWhen::OnFetch | CheckWhen::Always => 0,
        };
        Arc::new(Self {
            files: [data.identity(), index.file().identity()],
            layout: Arc::clone(index.layout()),
            checked: (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Returns whether the facts are about these two files, and neither was written to.
    pub(crate) fn is_of(&self, data: &ReadAt, index: &ReadAt) -> bool {
        let files = [data.identity(), index.identity()];
        self.files == files && files.iter().all(Option::is_some)
    }

    pub(crate) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn bit(&self, row: Row, field: FieldIdx) -> (Option<&AtomicU64>, u64) {
        let n_fields = self.layout.n_fields();
        let bit = row.0.saturating_mul(n_fields).saturating_add(field.0);
        (self.checked.get(bit / 64), 1_u64 << (bit % 64))
    }
}

/// The index of an open shard.
#[derive(Debug)]
pub(crate) enum Sidecar {
    /// The index is in memory or mapped.
    Held(Arc<Index>),
    /// The index was accepted, and its entries are read from the disk one by one.
    OnDisk(ReadAt),
}

/// The entry of the index for one field of a sample.
#[derive(Debug, Clone, Copy)]
pub struct SampleEntry {
    row: Row,
    field: FieldIdx,
    label: Option<i32>,
    digest: Option<Digest>,
    place: Option<(u64, usize)>,
}

impl SampleEntry {
    /// The label of the sample, like [`Shard::label`].
    #[must_use]
    pub fn label(&self) -> Option<i32> {
        self.label
    }

    /// The digest of the value, like [`Shard::digest`].
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The field that this entry is about.
    #[must_use]
    pub fn field(&self) -> FieldIdx {
        self.field
    }
}

/// An open shard with its index.
#[derive(Debug)]
pub struct Shard {
    data: ReadAt,
    sidecar: Sidecar,
    known: Arc<Known>,
    /// Names of the fields.
    fields: Arc<[String]>,
    check: CheckWhen,
}

impl Shard {
    /// Makes a shard of these two files, which `known` is about.
    pub(crate) fn new(
        data: ReadAt,
        sidecar: Sidecar,
        known: Arc<Known>,
        fields: Arc<[String]>,
        check: CheckWhen,
    ) -> Self {
        Self { data, sidecar, known, fields, check }
    }

    /// The index of the shard; if it was left on the disk, it is read as a whole first.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Malformed`] when the file was changed since it was opened.
    pub fn index(&self) -> Result<Arc<Index>, Error> {
        match &self.sidecar {
            Sidecar::Held(index) => Ok(Arc::clone(index)),
            Sidecar::OnDisk(file) => {
                let held = file.read_whole()?;
                file.check_unchanged()?;
                Ok(Arc::new(Index::again(held, Arc::clone(&self.known.layout))))
            }
        }
    }

    /// The number of samples.
    #[must_use]
    pub fn n_samples(&self) -> usize {
        self.known.layout.n_samples()
    }

    /// The shard's own bytes.
    #[must_use]
    pub fn data(&self) -> &ReadAt {
        &self.data
    }

    /// The class of sample `row`; `None` without labels or past the last sample.
    ///
    /// # Errors
    /// Those of [`Shard::index`].
    pub fn label(&self, row: Row) -> Result<Option<i32>, Error> {
        self.known.layout.label(self.entries()?, row)
    }

    /// The key of sample `row`; `None` past the last.
    ///
    /// # Errors
    /// Those of [`Shard::index`].
    pub fn key(&self, row: Row) -> Result<Option<String>, Error> {
        let mut key = Vec::new();
        let found = self.key_of(self.entries()?, row, &mut key)?;
        Ok(found.then(|| String::from_utf8(key).ok()).flatten())
    }

    /// Returns everything that a reader of field `field` of sample `row` needs, in one step, so
    /// that an index on the disk is only compared once. The sample's key replaces what `key` held;
    /// it is empty past the last sample.
    ///
    /// # Errors
    /// Those of [`Shard::index`].
    pub fn entry(&self, row: Row, field: FieldIdx, key: &mut String) -> Result<SampleEntry, Error> {
        let (file, layout) = (self.entries()?, &self.known.layout);
        let mut bytes = std::mem::take(key).into_bytes();
        self.key_of(file, row, &mut bytes)?;
        // The key is valid UTF-8, since keys were checked when the index was accepted.
        *key = String::from_utf8(bytes).unwrap_or_default();
        Ok(SampleEntry {
            row,
            field,
            label: layout.label(file, row)?,
            digest: layout.digest(file, row, field)?,
            place: layout.range(file, row, field)?,
        })
    }

    fn key_of(&self, file: &ReadAt, row: Row, key: &mut Vec<u8>) -> Result<bool, Error> {
        key.clear();
        let Some(range) = self.known.layout.key(file, row)? else { return Ok(false) };
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        // Keys of an accepted index are not longer; a longer one means that the file has changed.
        key.resize(len.min(crate::BundlePath::MAX_LEN), 0);
        file.read_at(range.start, key)?;
        Ok(true)
    }

    /// Returns the digest that field `field` of sample `row` must have; `None` for `label` and past
    /// the last sample.
    ///
    /// # Errors
    /// Those of [`Shard::index`].
    pub fn digest(&self, row: Row, field: FieldIdx) -> Result<Option<Digest>, Error> {
        self.known.layout.digest(self.entries()?, row, field)
    }

    /// Returns the digest of the sample's source file, like [`Index::source`].
    ///
    /// # Errors
    /// Those of [`Shard::index`].
    pub fn source(&self, row: Row) -> Result<Option<Digest>, Error> {
        self.known.layout.source(self.entries()?, row)
    }

    /// Returns first byte and length of field `field` of sample `row`; `None` past the last, and
    /// for a label that only the index has.
    ///
    /// # Errors
    /// Those of [`Shard::index`].
    pub fn range(&self, row: Row, field: FieldIdx) -> Result<Option<(u64, usize)>, Error> {
        self.known.layout.range(self.entries()?, row, field)
    }

    /// Returns the number of bytes of field `field` of sample `row`, without reading them.
    ///
    /// # Errors
    /// Those of [`Shard::index`].
    pub fn len_of(&self, row: Row, field: FieldIdx) -> Result<Option<usize>, Error> {
        Ok(self.range(row, field)?.map(|(_, len)| len))
    }

    /// Reads field `field` of sample `row` into `out`, replacing what it held.
    ///
    /// # Errors
    /// Those of [`Shard::fetch`] and [`Shard::check`]. `out` is then unspecified.
    pub fn read(&self, row: Row, field: FieldIdx, out: &mut Vec<u8>) -> Result<(), Error> {
        self.fetch(row, field, out)?;
        self.check(row, field, out)
    }

    /// Reads a value without checking it, which is the first half of [`Shard::read`], so that the
    /// two halves can be measured separately. The bytes must not be used before [`Shard::check`]
    /// accepts them.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; those of [`ReadAt::read_at`]. `out` is then unspecified.
    pub fn fetch(&self, row: Row, field: FieldIdx, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.known.layout.is_index_only(field)
            && let Some(label) = self.label(row)?
        {
            out.clear();
            out.extend_from_slice(&i64::from(label).to_le_bytes());
            return Ok(());
        }
        let (offset, len) = self.place(row, field)?;
        out.resize(len, 0);
        self.data.read_at(offset, out)
    }

    /// Reads like [`Shard::fetch`], and lends the bytes: those of the map, without a copy, or those
    /// in `buffer`.
    ///
    /// # Errors
    /// Those of [`Shard::fetch`].
    pub fn view<'a>(
        &'a self,
        row: Row,
        field: FieldIdx,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        if !self.data.is_read_in_pieces()
            && let Some((offset, len)) = self.range(row, field)?
            && let Some(bytes) = self.data.mapped(offset, len)
        {
            return Ok(bytes);
        }
        self.fetch(row, field, buffer)?;
        Ok(buffer)
    }

    /// Lends the value of `entry`, like [`Shard::view`] and [`Shard::view_part`].
    ///
    /// # Errors
    /// Those of [`Shard::view`] and [`Shard::view_part`].
    pub fn view_entry<'a>(
        &'a self,
        entry: &SampleEntry,
        part: Option<Range<usize>>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        let &SampleEntry { row, field, place, .. } = entry;
        let elsewhere = place.is_none() || self.known.layout.is_index_only(field);
        if elsewhere && part.is_none() {
            return self.view(row, field, buffer);
        }
        let value = self.within(row, place)?;
        let part = part.unwrap_or(0..value.1);
        let offset = self.part_of(row, value, &part)?;
        self.view_at(offset, part.len(), buffer)
    }

    /// Reads a part of the value of `entry`, like [`Shard::read_part`].
    ///
    /// # Errors
    /// Those of [`Shard::read_part`].
    pub fn read_entry(
        &self,
        entry: &SampleEntry,
        start: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let part = start..start.saturating_add(out.len());
        let offset = self.part_of(entry.row, self.within(entry.row, entry.place)?, &part)?;
        self.data.read_at(offset, out)
    }

    /// Returns whether [`Shard::check`] would accept any bytes of field `field` of sample `row`,
    /// since the right ones were seen or are taken for granted. Then a part of them may be read
    /// alone.
    #[must_use]
    pub fn is_checked(&self, row: Row, field: FieldIdx) -> bool {
        let (word, bit) = self.known.bit(row, field);
        match self.check {
            CheckWhen::OnFetch => true,
            CheckWhen::FirstTouch => {
                row.0 < self.n_samples()
                    && word.is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
            }
            CheckWhen::Always => false,
        }
    }

    /// Lends only the bytes `part` of field `field` of sample `row`, like [`Shard::view`], without
    /// checking them against a digest: see [`Shard::is_checked`].
    ///
    /// # Errors
    /// [`Error::Malformed`] for a part that the value has not; those of [`Shard::fetch`].
    pub fn view_part<'a>(
        &'a self,
        row: Row,
        field: FieldIdx,
        part: Range<usize>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        let offset = self.part_of(row, self.place(row, field)?, &part)?;
        self.view_at(offset, part.len(), buffer)
    }

    fn view_at<'a>(
        &'a self,
        offset: u64,
        len: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Error> {
        if !self.data.is_read_in_pieces()
            && let Some(bytes) = self.data.mapped(offset, len)
        {
            return Ok(bytes);
        }
        buffer.resize(len, 0);
        self.data.read_at(offset, buffer)?;
        Ok(buffer)
    }

    /// Fills `out` with bytes of a value from `start` on, unchecked like those of
    /// [`Shard::view_part`].
    ///
    /// # Errors
    /// Those of [`Shard::view_part`].
    pub fn read_part(
        &self,
        row: Row,
        field: FieldIdx,
        start: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let part = start..start.saturating_add(out.len());
        let offset = self.part_of(row, self.place(row, field)?, &part)?;
        self.data.read_at(offset, out)
    }

    /// Compares `bytes`, fetched as field `field` of sample `row`, with the digest in the index, if
    /// [`OpenOptions::check`](crate::OpenOptions::check) asks for it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::SampleDigest`] when they are not those packed; those of
    /// [`Shard::index`].
    pub fn check(&self, row: Row, field: FieldIdx, bytes: &[u8]) -> Result<(), Error> {
        if row.0 >= self.n_samples() {
            return Err(self.out_of_range(row));
        }
        if self.is_checked(row, field) {
            return Ok(());
        }
        let Some(expected) = self.digest(row, field)? else {
            // Field `label` has no digest: readers use the index's copy, which the manifest's
            // digest covers.
            return Ok(());
        };
        let found = Digest::of(bytes);
        if found != expected {
            let (offset, len) = self.place(row, field)?;
            return Err(Error::SampleDigest(Box::new(SampleFault {
                path: self.data.path(),
                key: self.key(row)?.unwrap_or_default(),
                field: field.of(&self.fields).cloned().unwrap_or_default(),
                offset,
                end: offset.saturating_add(len as u64),
                expected,
                found,
            })));
        }
        if let (Some(word), bit) = self.known.bit(row, field) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// Returns the bytes of the index in memory, not counting those of a map.
    pub(crate) fn index_bytes(&self) -> u64 {
        match &self.sidecar {
            Sidecar::Held(index) if !index.file().is_mapped() => index.file().len_bytes(),
            _ => 0,
        }
    }

    /// Returns the number of open files and maps.
    pub(crate) fn n_files(&self) -> usize {
        match &self.sidecar {
            Sidecar::Held(index) if !index.file().is_mapped() => 1,
            _ => 2,
        }
    }

    /// The file from which single entries of the index are read.
    fn entries(&self) -> Result<&ReadAt, Error> {
        match &self.sidecar {
            Sidecar::Held(index) => Ok(index.file()),
            Sidecar::OnDisk(file) => {
                file.check_unchanged()?;
                Ok(file)
            }
        }
    }

    /// Does the same as [`Shard::range`], and fails for a field without a range.
    fn place(&self, row: Row, field: FieldIdx) -> Result<(u64, usize), Error> {
        self.within(row, self.range(row, field)?)
    }

    /// Checks that a value has a place, and that it is within the shard.
    fn within(&self, row: Row, place: Option<(u64, usize)>) -> Result<(u64, usize), Error> {
        let found = place.ok_or_else(|| self.out_of_range(row))?;
        // The index was accepted, so all values are within the shard. But no length that was read
        // later is used to reserve memory without this check.
        let end = found.0.checked_add(found.1 as u64);
        if end.is_none_or(|end| end > self.data.len_bytes()) {
            let reason = format!("its index was changed: sample {row} is outside of the shard");
            return Err(Error::malformed(self.data.path(), reason));
        }
        Ok(found)
    }

    /// Returns the offset of the bytes `part` of a value.
    fn part_of(
        &self,
        row: Row,
        (offset, len): (u64, usize),
        part: &Range<usize>,
    ) -> Result<u64, Error> {
        if part.start > part.end || part.end > len {
            let reason =
                format!("bytes {part:?} of sample {row} are past its end: it has {len} bytes");
            return Err(Error::malformed(self.data.path(), reason));
        }
        // The sum is within the file, as the value's end is.
        Ok(offset.saturating_add(part.start as u64))
    }

    fn out_of_range(&self, row: Row) -> Error {
        Error::OutOfRange {
            what: self.data.path(),
            index: row.0 as u64,
            n_samples: self.n_samples() as u64,
        }
    }
}
