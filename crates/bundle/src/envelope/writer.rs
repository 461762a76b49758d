//! Writes one shard of any envelope, and its index.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use gular_files::{persist_both, temp_in};

use crate::envelope::{Out, known};
use crate::index::{IndexBuilder, Places, Rows};
use crate::{
    BundlePath, Digest, Envelope, Error, Field, FieldIdx, FileEntry, MAX_SHARD_SAMPLES, ShardEntry,
    Split,
};

/// The settings that all samples of a shard share.
#[derive(Debug, Clone, Copy)]
pub struct ShardSpec<'a> {
    /// The file format.
    pub envelope: Envelope,
    /// The split of all samples of the shard.
    pub split: Split,
    /// The parts of every sample.
    pub fields: &'a [Field],
    /// Class names, which some formats carry.
    pub classes: &'a [String],
}

impl<'a> ShardSpec<'a> {
    /// A shard without class names.
    #[must_use]
    pub fn new(envelope: Envelope, split: Split, fields: &'a [Field]) -> Self {
        Self { envelope, split, fields, classes: &[] }
    }
}

/// Writes samples in the format of an envelope. [`ShardWriter`] does everything else: checks,
/// digests, index and names.
pub(crate) trait Layout: fmt::Debug + Send {
    /// Adds one sample: one value per field, in the order of the fields. Sizes of fixed values were
    /// checked before.
    fn push(&mut self, out: &mut Out, key: &BundlePath, values: &[&[u8]]) -> Result<(), Error>;

    /// Writes what is left, and says where every value is.
    fn finish(self: Box<Self>, out: &mut Out, rows: &Rows<'_>) -> Result<Finished, Error>;
}

/// The result of a finished layout.
pub(crate) struct Finished {
    /// Bytes that replace the file's first ones, which were written as zeros within the first
    /// block; empty if nothing is replaced.
    pub(crate) head: Vec<u8>,
    /// One entry per field.
    pub(crate) places: Vec<Places>,
}

/// Writes one shard and its index.
///
/// Files appear in the data folder under their final, content-addressed names
/// when [`ShardWriter::finish`] returns; before that nothing but a temporary
/// file exists, which goes when the writer is dropped.
#[derive(Debug)]
pub struct ShardWriter {
    dir: PathBuf,
    envelope: Envelope,
    split: Split,
    fields: Vec<Field>,
    layout: Box<dyn Layout>,
    out: Out,
    index: IndexBuilder,
}

impl ShardWriter {
    /// Starts a shard in folder `dir`.
    ///
    /// # Errors
    /// [`Error::Io`] when no temporary file can be made there,
    /// [`Error::Unfit`] or [`Error::Value`] when the envelope cannot hold such fields.
    pub fn create(dir: &Path, spec: &ShardSpec<'_>) -> Result<Self, Error> {
        let mut out = Out::create(dir)?;
        let layout = known::begin(&mut out, spec)?;
        Ok(Self {
            dir: dir.to_owned(),
            envelope: spec.envelope,
            split: spec.split,
            fields: spec.fields.to_vec(),
            layout,
            out,
            index: IndexBuilder::new(spec.fields),
        })
    }

    /// Samples written so far.
    #[must_use]
    pub fn n_samples(&self) -> u64 {
        self.index.n_samples()
    }

    /// Adds a sample: one value per field, in the order of the fields; fixed values as
    /// little-endian bytes, row-major.
    ///
    /// # Errors
    /// [`Error::Value`] when a value does not fit its field; then nothing was
    /// added. [`Error::Io`] when writing fails; then the shard is lost.
    pub fn push(&mut self, key: &BundlePath, values: &[&[u8]]) -> Result<(), Error> {
        self.push_made(key, values, None)
    }

    /// Adds a sample like [`ShardWriter::push`]; `source` is the digest of the file that field
    /// `image` was made from, if the index should have it.
    ///
    /// # Errors
    /// Those of [`ShardWriter::push`].
    pub fn push_made(
        &mut self,
        key: &BundlePath,
        values: &[&[u8]],
        source: Option<Digest>,
    ) -> Result<(), Error> {
        let label = self.check(key, values)?;
        self.layout.push(&mut self.out, key, values)?;
        for (i, (field, value)) in self.fields.iter().zip(values).enumerate() {
            let len = field.is_bytes().then(|| i32::try_from(value.len()).unwrap_or(i32::MAX));
            let digest = (!field.is_label()).then(|| Digest::of(value));
            self.index.push_value(FieldIdx(i), len, digest);
        }
        self.index.push_sample(key, label).ok_or_else(|| Error::Value {
            key: key.to_string(),
            reason: "the keys of this shard are 2⁶³ bytes or more".into(),
        })?;
        if let Some(source) = source {
            self.index.push_source(source);
        }
        Ok(())
    }

    /// Checks that all values fit their fields, and returns the label as the index stores it.
    fn check(&self, key: &BundlePath, values: &[&[u8]]) -> Result<Option<i32>, Error> {
        let wrong = |reason: String| Error::Value { key: key.to_string(), reason };
        if values.len() != self.fields.len() {
            return Err(wrong(format!(
                "{} values were given for {} fields",
                values.len(),
                self.fields.len()
            )));
        }
        if self.n_samples() >= MAX_SHARD_SAMPLES {
            return Err(wrong(format!(
                "the shard already has {MAX_SHARD_SAMPLES} samples, the most that one may have"
            )));
        }
        let mut label = None;
        for (field, value) in self.fields.iter().zip(values) {
            let found = value.len() as u64;
            if i32::try_from(found).is_err() {
                return Err(wrong(format!(
                    "field `{}` has {found} bytes, more than the limit of 2 GiB",
                    field.name
                )));
            }
            if let Some(expected) = field.size_bytes().filter(|expected| *expected != found) {
                return Err(wrong(format!(
                    "field `{}` has {found} bytes, expected {expected}",
                    field.name
                )));
            }
            if field.is_label() {
                let wide = value.first_chunk::<8>().map(|b| i64::from_le_bytes(*b));
                let narrow = wide.and_then(|v| i32::try_from(v).ok());
                label =
                    Some(narrow.ok_or_else(|| {
                        wrong(format!("its label {wide:?} is not a 32-bit number"))
                    })?);
            }
        }
        Ok(label)
    }

    /// Completes the shard and its index and gives both their final names.
    ///
    /// # Errors
    /// [`Error::Io`]; then neither file exists under a final name, or only a
    /// whole shard without its index.
    pub fn finish(mut self) -> Result<ShardEntry, Error> {
        let samples = self.index.n_samples();
        let rows = self.index.rows(self.split);
        let Finished { head, places } = self.layout.finish(&mut self.out, &rows)?;
        let written = self.out.finish(&head)?;
        let index = self.index.finish(&written.blocks, &places);
        let index = index.ok_or_else(|| {
            Error::malformed(self.dir.display().to_string(), "the shard overflows 63 bits")
        })?;
        let (digest, bytes) = (written.blocks.digest(), written.blocks.len_bytes());
        let file = entry(self.split, digest, self.envelope.extension(), bytes)?;
        let index_len = index.len() as u64;
        let index_entry = entry(self.split, Digest::of(&index), "index.safetensors", index_len)?;
        let mut temp = temp_in(&self.dir)?;
        temp.write_all(&index).map_err(|e| Error::io("write", temp.path(), e))?;
        let [shard, of_index] = [&file, &index_entry].map(|of| self.dir.join(of.name.as_str()));
        persist_both((written.temp, &shard), (temp, &of_index))?;
        Ok(ShardEntry { split: self.split, file, samples, index: index_entry, view: None })
    }
}

fn entry(split: Split, digest: Digest, extension: &str, bytes: u64) -> Result<FileEntry, Error> {
    let name = BundlePath::parse(&format!("{split}-{}.{extension}", digest.short_hex()))?;
    Ok(FileEntry { name, bytes, digest })
}
