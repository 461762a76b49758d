//! Reads an index. Format: `FORMAT.md`, "Index".

use crate::block::{BlockTree, n_blocks};
use crate::index::FORMAT;
use crate::manifest::MAX_SHARD_SAMPLES;
use crate::tensors::{Header, MAX_HEADER, Tensor};
use crate::{BundlePath, Dtype, Error, Field, FieldKind, Row};

/// Where the values of one field lie in a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// Value `i` is `size` bytes at `base + i * size`.
    Strided {
        /// First byte of value 0.
        base: u64,
        /// Bytes of each value.
        size: u64,
    },
    /// Value `i` is `lengths[i]` bytes at `offsets[i]`.
    Listed {
        /// First bytes.
        offsets: Vec<i64>,
        /// Lengths in bytes.
        lengths: Vec<i32>,
    },
    /// Of field `label`: the shard has no 8-byte integer of it, [`Index::labels`] has the values.
    IndexOnly,
}

impl Location {
    /// First byte and length of value `row`; `None` past the last, and for
    /// values that lie in the index alone.
    #[must_use]
    pub fn range(&self, row: Row) -> Option<(u64, usize)> {
        match self {
            Self::Strided { base, size } => {
                let offset = (row.0 as u64).checked_mul(*size)?.checked_add(*base)?;
                Some((offset, usize::try_from(*size).ok()?))
            }
            Self::Listed { offsets, lengths } => Some((
                u64::try_from(*row.of(offsets)?).ok()?,
                usize::try_from(*row.of(lengths)?).ok()?,
            )),
            Self::IndexOnly => None,
        }
    }
}

/// A parsed index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// One entry a field, in the manifest's order.
    pub locations: Vec<Location>,
    /// One entry a field; empty for `label`, else one digest a sample.
    pub digests: Vec<Vec<[u8; 32]>>,
    /// Class of each sample, when the bundle has labels.
    pub labels: Option<Vec<i32>>,
    /// What the shard's blocks hash to.
    pub blocks: BlockTree,
    key_offsets: Vec<i64>,
    key_bytes: Vec<u8>,
}

impl Index {
    /// The number of samples.
    #[must_use]
    pub fn n_samples(&self) -> usize {
        self.key_offsets.len().saturating_sub(1)
    }

    /// All samples, in order.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = Row> + ExactSizeIterator + use<> {
        Row::first(self.n_samples())
    }

    /// The key of sample `row`; `None` past the last.
    #[must_use]
    pub fn key(&self, row: Row) -> Option<&str> {
        let start = usize::try_from(*row.of(&self.key_offsets)?).ok()?;
        let end = usize::try_from(*self.key_offsets.get(row.0.checked_add(1)?)?).ok()?;
        std::str::from_utf8(self.key_bytes.get(start..end)?).ok()
    }

    /// Reads an index of a shard of `shard_bytes` with `fields`; `path` is for messages.
    ///
    /// This checks the file by itself; of a bundle's index [`Index::accept`] checks more.
    ///
    /// Every range is checked against the shard, every key against the rules
    /// of [`BundlePath`], so that later look-ups cannot leave the file.
    ///
    /// # Errors
    /// [`Error::Malformed`] naming the rule broken, [`Error::Format`], [`Error::TooNew`].
    pub fn parse(
        path: &str,
        bytes: &[u8],
        fields: &[Field],
        shard_bytes: u64,
    ) -> Result<Self, Error> {
        let bad = |reason: String| Error::malformed(path, reason);
        let first =
            bytes.first_chunk::<8>().ok_or_else(|| bad(format!("it has {} bytes", bytes.len())))?;
        let start = Header::data_start(path, *first, bytes.len() as u64, MAX_HEADER)?;
        let start = usize::try_from(start).map_err(|_| bad("its header is too long".into()))?;
        let header =
            Header::parse(path, bytes.get(..start).unwrap_or_default(), bytes.len() as u64)?;
        header.check_format(path, FORMAT)?;
        let file = Tensors { path, bytes, header: &header };

        let n = file.scalar_metadata("samples")?;
        if n > MAX_SHARD_SAMPLES {
            return Err(bad(format!(
                "it lists {n} samples, over the limit of {MAX_SHARD_SAMPLES}"
            )));
        }
        let shard = file.scalar_metadata("shard_bytes")?;
        if shard != shard_bytes {
            return Err(bad(format!(
                "it describes a shard of {shard} bytes, expected {shard_bytes}"
            )));
        }
        let rows = usize::try_from(n).map_err(|_| bad(format!("it lists {n} samples")))?;

        let mut locations = Vec::with_capacity(fields.len());
        let mut digests = Vec::with_capacity(fields.len());
        for field in fields {
            let location = file.location(field, n)?;
            check_ranges(path, field, &location, rows, shard_bytes)?;
            locations.push(location);
            digests.push(if field.is_label() {
                Vec::new()
            } else {
                file.cvs(&format!("{}.digest", field.name), n)?
            });
        }
        let has_label = fields.iter().any(Field::is_label);
        let labels = if has_label { Some(file.i32s("label", n)?) } else { None };

        let key_offsets = file.i64s("key.offsets", n.saturating_add(1))?;
        let key_bytes = file.any_u8("key.bytes")?.to_vec();
        let cvs = file.cvs("block.cv", n_blocks(shard_bytes))?;
        let blocks = BlockTree::new(cvs, shard_bytes);
        let index = Self {
            locations,
            digests,
            labels,
            blocks: blocks.ok_or_else(|| bad("`block.cv` has not one value per block".into()))?,
            key_offsets,
            key_bytes,
        };
        index.check_keys(path)?;
        Ok(index)
    }

    fn check_keys(&self, path: &str) -> Result<(), Error> {
        let last = i64::try_from(self.key_bytes.len()).unwrap_or(i64::MAX);
        if self.key_offsets.first() != Some(&0) || self.key_offsets.last() != Some(&last) {
            return Err(Error::malformed(path, "`key.offsets` does not span `key.bytes`"));
        }
        for row in self.rows() {
            let key = self.key(row).ok_or_else(|| {
                Error::malformed(path, format!("the key of sample {row} is no UTF-8 text"))
            })?;
            BundlePath::parse(key)?;
        }
        Ok(())
    }
}

fn check_ranges(
    path: &str,
    field: &Field,
    location: &Location,
    rows: usize,
    shard_bytes: u64,
) -> Result<(), Error> {
    let check = |row: Row| {
        let range = location.range(row);
        let end = range.and_then(|(offset, len)| offset.checked_add(len as u64));
        if end.is_none_or(|end| end > shard_bytes) {
            let reason = format!(
                "field `{}` of sample {row} lies outside the shard's {shard_bytes} bytes",
                field.name
            );
            return Err(Error::malformed(path, reason));
        }
        Ok(())
    };
    match location {
        Location::Strided { .. } => rows.checked_sub(1).map_or(Ok(()), |last| check(Row(last))),
        Location::Listed { .. } => Row::first(rows).try_for_each(check),
        Location::IndexOnly => Ok(()),
    }
}

/// Typed access to the tensors of a parsed file.
struct Tensors<'a> {
    path: &'a str,
    bytes: &'a [u8],
    header: &'a Header,
}

impl<'a> Tensors<'a> {
    fn bad(&self, reason: String) -> Error {
        Error::malformed(self.path, reason)
    }

    fn scalar_metadata(&self, name: &str) -> Result<u64, Error> {
        let value = self.header.metadata(name).and_then(|v| v.parse().ok());
        value.ok_or_else(|| self.bad(format!("its metadata has no number `{name}`")))
    }

    fn data(&self, tensor: &Tensor) -> &'a [u8] {
        let range = usize::try_from(tensor.start).ok().zip(usize::try_from(tensor.end).ok());
        range.and_then(|(start, end)| self.bytes.get(start..end)).unwrap_or_default()
    }

    fn tensor(&self, name: &str, dtype: Dtype, shape: &[u64]) -> Result<&'a [u8], Error> {
        let tensor = self
            .header
            .tensor(name)
            .ok_or_else(|| self.bad(format!("it has no tensor `{name}`")))?;
        if tensor.dtype != dtype || tensor.shape != shape {
            return Err(self.bad(format!(
                "tensor `{name}` is {} {:?}, expected {} {shape:?}",
                tensor.dtype.safetensors_name(),
                tensor.shape,
                dtype.safetensors_name()
            )));
        }
        Ok(self.data(tensor))
    }

    fn any_u8(&self, name: &str) -> Result<&'a [u8], Error> {
        let tensor = self
            .header
            .tensor(name)
            .ok_or_else(|| self.bad(format!("it has no tensor `{name}`")))?;
        self.tensor(name, Dtype::U8, &[tensor.end.saturating_sub(tensor.start)])
    }

    fn i64s(&self, name: &str, n: u64) -> Result<Vec<i64>, Error> {
        let data = self.tensor(name, Dtype::I64, &[n])?;
        Ok(data.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect())
    }

    fn i32s(&self, name: &str, n: u64) -> Result<Vec<i32>, Error> {
        let data = self.tensor(name, Dtype::I32, &[n])?;
        Ok(data.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect())
    }

    fn cvs(&self, name: &str, n: u64) -> Result<Vec<[u8; 32]>, Error> {
        Ok(self.tensor(name, Dtype::U8, &[n, 32])?.as_chunks::<32>().0.to_vec())
    }

    fn location(&self, field: &Field, n: u64) -> Result<Location, Error> {
        let name = &field.name;
        match &field.kind {
            FieldKind::Bytes { .. } => Ok(Location::Listed {
                offsets: self.i64s(&format!("{name}.offset"), n)?,
                lengths: self.i32s(&format!("{name}.length"), n)?,
            }),
            FieldKind::Fixed { .. } => {
                let size = field.size_bytes().unwrap_or(u64::MAX);
                let base = format!("{name}.base");
                if self.header.tensor(&base).is_some() {
                    let base = self.i64s(&base, 1)?.first().and_then(|b| u64::try_from(*b).ok());
                    let base =
                        base.ok_or_else(|| self.bad(format!("`{name}.base` is negative")))?;
                    return Ok(Location::Strided { base, size });
                }
                let length = i32::try_from(size)
                    .map_err(|_| self.bad(format!("a value of `{name}` is over 2 GiB")))?;
                let offset = format!("{name}.offset");
                if field.is_label() && self.header.tensor(&offset).is_none() {
                    return Ok(Location::IndexOnly);
                }
                let offsets = self.i64s(&offset, n)?;
                let lengths = vec![length; offsets.len()];
                Ok(Location::Listed { offsets, lengths })
            }
        }
    }
}
