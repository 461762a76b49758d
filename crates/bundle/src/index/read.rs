//! Reads an index. Format: `FORMAT.md`, "Index".
//!
//! The bytes of the file are kept unchanged, in memory or mapped, and values are read from them
//! when they are asked for. Nothing is copied into lists.

use std::sync::Arc;

use crate::block::{BlockTree, n_blocks};
use crate::index::layout::{FieldLayout, Layout, Lengths, Place, strided};
use crate::index::{FORMAT, SOURCE};
use crate::manifest::MAX_SHARD_SAMPLES;
use crate::tensors::{MAX_HEADER, SafetensorsHeader, Tensor};
use crate::{BundlePath, Digest, Dtype, Error, Field, FieldIdx, FieldKind, ReadAt, Row, View};

/// An index whose rules were checked, as views on the bytes of its file.
#[derive(Debug)]
pub struct Index {
    /// The file, in memory or mapped, and never read in pieces.
    file: ReadAt,
    layout: Arc<Layout>,
}

impl Index {
    /// The number of samples.
    #[must_use]
    pub fn n_samples(&self) -> usize {
        self.layout.n_samples()
    }

    /// The number of fields of each sample.
    #[must_use]
    pub fn n_fields(&self) -> usize {
        self.layout.n_fields()
    }

    /// All samples, in order.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = Row> + ExactSizeIterator + use<> {
        Row::first(self.n_samples())
    }

    /// All fields, in the manifest's order.
    pub fn fields(&self) -> impl DoubleEndedIterator<Item = FieldIdx> + ExactSizeIterator + use<> {
        FieldIdx::first(self.n_fields())
    }

    /// The key of sample `row`; `None` past the last.
    #[must_use]
    pub fn key(&self, row: Row) -> Option<&str> {
        let range = self.layout.key(&self.file, row).ok()??;
        std::str::from_utf8(self.file.lent(&range)?).ok()
    }

    /// Returns first byte and length of field `field` of sample `row` in the shard; `None` past the
    /// last, and for a field that [only the index has](Index::is_index_only).
    #[must_use]
    pub fn range(&self, row: Row, field: FieldIdx) -> Option<(u64, usize)> {
        self.layout.range(&self.file, row, field).ok()?
    }

    /// Returns whether `field` is `label` and the shard has no 8-byte integers for it.
    #[must_use]
    pub fn is_index_only(&self, field: FieldIdx) -> bool {
        self.layout.is_index_only(field)
    }

    /// Returns the digest that field `field` of sample `row` must have. `None` past the last
    /// sample, and for `label`, whose value in the index is the one that counts.
    #[must_use]
    pub fn digest(&self, row: Row, field: FieldIdx) -> Option<Digest> {
        self.layout.digest(&self.file, row, field).ok()?
    }

    /// The digest of the file that the image of sample `row` was made from, where the index has
    /// it; `None` past the last.
    #[must_use]
    pub fn source(&self, row: Row) -> Option<Digest> {
        self.layout.source(&self.file, row).ok()?
    }

    /// The class of sample `row`; `None` when the bundle has no labels, and past the last.
    #[must_use]
    pub fn label(&self, row: Row) -> Option<i32> {
        self.layout.label(&self.file, row).ok()?
    }

    /// Returns the classes of all samples in order; no classes if the bundle has no labels.
    pub fn labels(&self) -> impl Iterator<Item = i32> {
        let (all, of_view) = match &self.layout.view {
            None => (self.layout.labels.map_or(0, |_| self.n_samples()), 0),
            Some(_) => (0, self.n_samples()),
        };
        let bytes = self.part(self.layout.labels.unwrap_or(0), all, 4);
        let all = bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b));
        all.chain(Row::first(of_view).filter_map(|row| self.label(row)))
    }

    /// Returns the row of sample `row` in the index's file and in the shard, which differs if a
    /// view leaves samples out. `None` past the last.
    #[must_use]
    pub fn stored_row(&self, row: Row) -> Option<Row> {
        self.layout.stored(row)
    }

    /// The number of samples in the index's file, including those that a view leaves out.
    #[must_use]
    pub fn n_stored(&self) -> usize {
        self.layout.n_stored
    }

    /// The view; `None` if the index has none.
    #[must_use]
    pub fn view(&self) -> Option<&View> {
        self.layout.view.as_deref()
    }

    /// Returns whether `other` lists the same number of samples with the same labels and digests.
    #[must_use]
    pub fn has_samples_of(&self, other: &Self) -> bool {
        let mut digests = self.fields().flat_map(|field| self.rows().map(move |row| (row, field)));
        self.n_samples() == other.n_samples()
            && self.n_fields() == other.n_fields()
            && self.labels().eq(other.labels())
            && digests.all(|(row, field)| self.digest(row, field) == other.digest(row, field))
    }

    /// The digests of the shard's blocks.
    #[must_use]
    pub fn blocks(&self) -> BlockTree {
        let cvs = self.file.lent(&self.layout.block_cvs).unwrap_or_default();
        BlockTree::of_index(cvs.as_chunks::<32>().0, self.layout.shard_bytes)
    }

    /// Reads an index of a shard of `shard_bytes` with `fields`; `path` is for messages.
    ///
    /// This checks the file by itself; [`Index::accept`] checks more for an index of a bundle.
    ///
    /// Every range is checked against the shard, every key against the rules
    /// of [`BundlePath`], so that later look-ups cannot leave the file.
    ///
    /// # Errors
    /// [`Error::Malformed`] naming the rule broken, [`Error::Format`], [`Error::TooNew`].
    pub fn parse(
        path: &str,
        bytes: impl Into<Vec<u8>>,
        fields: &[Field],
        shard_bytes: u64,
    ) -> Result<Self, Error> {
        Self::parse_file(path, ReadAt::in_memory(path, bytes.into()), fields, shard_bytes)
    }

    /// Does the same as [`Index::parse`], for a file in memory or mapped.
    pub(super) fn parse_file(
        path: &str,
        file: ReadAt,
        fields: &[Field],
        shard_bytes: u64,
    ) -> Result<Self, Error> {
        let bytes = file.lent(&(0..file.len_bytes())).unwrap_or_default();
        let layout = Arc::new(parse(path, bytes, fields, shard_bytes, LabelsAre::There)?);
        let index = Self { file, layout };
        index.check_keys(path)?;
        Ok(index)
    }

    /// Does the same as [`Index::parse_file`], with a view, which may have the labels.
    pub(super) fn parse_viewed(
        path: &str,
        file: ReadAt,
        fields: &[Field],
        shard_bytes: u64,
        view: View,
    ) -> Result<Self, Error> {
        let bytes = file.lent(&(0..file.len_bytes())).unwrap_or_default();
        let mut layout = parse(path, bytes, fields, shard_bytes, LabelsAre::MaybeInView)?;
        let (expected, found) = (layout.n_stored, view.n_stored());
        if found != expected {
            let reason = format!("it lists {expected} samples, but its view was made for {found}");
            return Err(Error::malformed(path, reason));
        }
        let has_label = fields.iter().any(Field::is_label);
        if has_label && layout.labels.is_none() && view.n_labels() != view.n_samples() {
            let (n, of) = (view.n_labels(), view.n_samples());
            let reason =
                format!("it has no labels, but its view has labels for {n} of {of} samples");
            return Err(Error::malformed(path, reason));
        }
        if !has_label && view.n_labels() > 0 {
            return Err(Error::malformed(
                path,
                "its view has labels, but the bundle has no field `label`",
            ));
        }
        // If the view has labels, those in the shard are not used.
        for (field, of) in fields.iter().zip(&mut layout.fields) {
            if field.is_label() && view.n_labels() > 0 {
                of.place = Place::IndexOnly;
            }
        }
        layout.view = Some(Arc::new(view));
        let index = Self { file, layout: Arc::new(layout) };
        index.check_keys(path)?;
        Ok(index)
    }

    /// Returns an index that was accepted before, from a file in memory or mapped that has not
    /// changed.
    pub(crate) fn again(file: ReadAt, layout: Arc<Layout>) -> Self {
        Self { file, layout }
    }

    pub(crate) fn file(&self) -> &ReadAt {
        &self.file
    }

    pub(crate) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Returns the bytes of `n` values of `size` bytes from byte `start` on.
    fn part(&self, start: u64, n: usize, size: u64) -> &[u8] {
        let end = (n as u64).saturating_mul(size).saturating_add(start);
        self.file.lent(&(start..end)).unwrap_or_default()
    }

    fn check_keys(&self, path: &str) -> Result<(), Error> {
        // Keys of samples that the view leaves out are checked too: a view does not make an index
        // valid.
        let offsets = self.part(self.layout.key_offsets, self.n_stored().saturating_add(1), 8);
        let offsets = offsets.as_chunks::<8>().0;
        let key_bytes = self.file.lent(&self.layout.key_bytes).unwrap_or_default();
        let last = i64::try_from(key_bytes.len()).unwrap_or(i64::MAX);
        let at = |offset: Option<&[u8; 8]>| offset.map(|b| i64::from_le_bytes(*b));
        if at(offsets.first()) != Some(0) || at(offsets.last()) != Some(last) {
            return Err(Error::malformed(path, "`key.offsets` does not cover all of `key.bytes`"));
        }
        for (row, pair) in Row::first(self.n_stored()).zip(offsets.windows(2)) {
            let range = |i: usize| usize::try_from(at(pair.get(i))?).ok();
            let key = range(0).zip(range(1)).and_then(|(start, end)| key_bytes.get(start..end));
            let key = key.and_then(|key| std::str::from_utf8(key).ok()).ok_or_else(|| {
                Error::malformed(path, format!("the key of sample {row} is not UTF-8 text"))
            })?;
            BundlePath::check(key)?;
        }
        Ok(())
    }
}

/// Where the labels of a bundle with labels are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LabelsAre {
    /// In the index.
    There,
    /// In the shard, or all of them in its view.
    MaybeInView,
}

/// Returns where the parts of the index `bytes` are, after checking the rules for everything
/// but keys.
fn parse(
    path: &str,
    bytes: &[u8],
    fields: &[Field],
    shard_bytes: u64,
    labels_are: LabelsAre,
) -> Result<Layout, Error> {
    let bad = |reason: String| Error::malformed(path, reason);
    let first = bytes
        .first_chunk::<8>()
        .ok_or_else(|| bad(format!("it has only {} bytes", bytes.len())))?;
    let start = SafetensorsHeader::data_start(path, *first, bytes.len() as u64, MAX_HEADER)?;
    let start = usize::try_from(start).map_err(|_| bad("its header is too long".into()))?;
    let header =
        SafetensorsHeader::parse(path, bytes.get(..start).unwrap_or_default(), bytes.len() as u64)?;
    header.check_format(path, FORMAT)?;
    let file = Tensors { path, bytes, header: &header };

    let n = file.scalar_metadata("samples")?;
    if n > MAX_SHARD_SAMPLES {
        return Err(bad(format!(
            "it lists {n} samples, more than the limit of {MAX_SHARD_SAMPLES}"
        )));
    }
    let shard = file.scalar_metadata("shard_bytes")?;
    if shard != shard_bytes {
        return Err(bad(format!("it describes a shard of {shard} bytes, expected {shard_bytes}")));
    }
    let n_samples = usize::try_from(n).map_err(|_| bad(format!("it lists {n} samples")))?;

    let mut layouts = Vec::with_capacity(fields.len());
    for field in fields {
        let place = file.place(field, n)?;
        file.check_ranges(field, &place, n_samples, shard_bytes)?;
        let digests = if field.is_label() {
            None
        } else {
            Some(file.tensor(&format!("{}.digest", field.name), Dtype::U8, &[n, 32])?.start)
        };
        layouts.push(FieldLayout { place, digests });
    }
    let has_label = fields.iter().any(Field::is_label);
    let missing = labels_are == LabelsAre::MaybeInView && header.tensor("label").is_none();
    let labels = if has_label && !missing {
        Some(file.tensor("label", Dtype::I32, &[n])?.start)
    } else {
        None
    };

    let key_offsets = file.tensor("key.offsets", Dtype::I64, &[n.saturating_add(1)])?.start;
    let key_bytes = file.any_u8("key.bytes")?;
    let sources = match header.tensor(SOURCE) {
        Some(_) => Some(file.tensor(SOURCE, Dtype::U8, &[n, 32])?.start),
        None => None,
    };
    let cvs = file.tensor("block.cv", Dtype::U8, &[n_blocks(shard_bytes), 32])?;
    Ok(Layout {
        n_stored: n_samples,
        shard_bytes,
        fields: layouts,
        labels,
        key_offsets,
        key_bytes: key_bytes.start..key_bytes.end,
        sources,
        block_cvs: cvs.start..cvs.end,
        view: None,
    })
}

/// Typed access to the tensors of a parsed file.
struct Tensors<'a> {
    path: &'a str,
    bytes: &'a [u8],
    header: &'a SafetensorsHeader,
}

impl<'a> Tensors<'a> {
    fn bad(&self, reason: String) -> Error {
        Error::malformed(self.path, reason)
    }

    fn scalar_metadata(&self, name: &str) -> Result<u64, Error> {
        let value = self.header.metadata(name).and_then(|v| v.parse().ok());
        value.ok_or_else(|| self.bad(format!("its metadata has no number `{name}`")))
    }

    /// Returns the bytes `start..end` of the file; the header was compared with the file's length.
    fn data(&self, start: u64, end: u64) -> &'a [u8] {
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        range.and_then(|(start, end)| self.bytes.get(start..end)).unwrap_or_default()
    }

    fn named(&self, name: &str) -> Result<&'a Tensor, Error> {
        self.header.tensor(name).ok_or_else(|| self.bad(format!("it has no tensor `{name}`")))
    }

    fn tensor(&self, name: &str, dtype: Dtype, shape: &[u64]) -> Result<&'a Tensor, Error> {
        let tensor = self.named(name)?;
        if tensor.dtype != dtype || tensor.shape != shape {
            return Err(self.bad(format!(
                "tensor `{name}` is {} {:?}, expected {} {shape:?}",
                tensor.dtype.safetensors_name(),
                tensor.shape,
                dtype.safetensors_name()
            )));
        }
        Ok(tensor)
    }

    fn any_u8(&self, name: &str) -> Result<&'a Tensor, Error> {
        let tensor = self.named(name)?;
        self.tensor(name, Dtype::U8, &[tensor.end.saturating_sub(tensor.start)])
    }

    fn place(&self, field: &Field, n: u64) -> Result<Place, Error> {
        let name = &field.name;
        let listed = |lengths: Lengths| {
            let offsets = self.tensor(&format!("{name}.offset"), Dtype::I64, &[n])?.start;
            Ok(Place::Listed { offsets, lengths })
        };
        match &field.kind {
            FieldKind::Bytes { .. } => {
                // The order of these checks decides which missing tensor is reported first.
                listed(Lengths::All(0))?;
                let lengths = self.tensor(&format!("{name}.length"), Dtype::I32, &[n])?;
                listed(Lengths::Listed(lengths.start))
            }
            FieldKind::Fixed { .. } => {
                let size = field.size_bytes().unwrap_or(u64::MAX);
                let base = format!("{name}.base");
                if self.header.tensor(&base).is_some() {
                    let base = self.tensor(&base, Dtype::I64, &[1])?;
                    let base = self.data(base.start, base.end).first_chunk::<8>();
                    let base = base.and_then(|b| u64::try_from(i64::from_le_bytes(*b)).ok());
                    let base =
                        base.ok_or_else(|| self.bad(format!("`{name}.base` is negative")))?;
                    return Ok(Place::Strided { base, size });
                }
                let length = i32::try_from(size)
                    .map_err(|_| self.bad(format!("a value of `{name}` is larger than 2 GiB")))?;
                if field.is_label() && self.header.tensor(&format!("{name}.offset")).is_none() {
                    return Ok(Place::IndexOnly);
                }
                listed(Lengths::All(length))
            }
        }
    }

    /// Checks that every value is within the shard.
    fn check_ranges(
        &self,
        field: &Field,
        place: &Place,
        n_samples: usize,
        shard_bytes: u64,
    ) -> Result<(), Error> {
        let check = |row: usize, range: Option<(u64, usize)>| {
            let end = range.and_then(|(offset, len)| offset.checked_add(len as u64));
            if end.is_none_or(|end| end > shard_bytes) {
                return Err(self.bad(format!(
                    "field `{}` of sample {row} lies outside the shard's {shard_bytes} bytes",
                    field.name
                )));
            }
            Ok(())
        };
        let n = n_samples as u64;
        let list =
            |start: u64, size: u64| self.data(start, n.saturating_mul(size).saturating_add(start));
        match place {
            Place::Strided { base, size } => n_samples
                .checked_sub(1)
                .map_or(Ok(()), |last| check(last, strided(*base, *size, Row(last)))),
            Place::Listed { offsets, lengths } => {
                let offsets = list(*offsets, 8).as_chunks::<8>().0;
                let (listed, all) = match lengths {
                    Lengths::Listed(lengths) => (list(*lengths, 4).as_chunks::<4>().0, 0),
                    Lengths::All(len) => (&[][..], *len),
                };
                let lengths = listed.iter().map(|b| i32::from_le_bytes(*b));
                let lengths = lengths.chain(std::iter::repeat(all));
                for ((row, offset), len) in offsets.iter().enumerate().zip(lengths) {
                    let offset = u64::try_from(i64::from_le_bytes(*offset)).ok();
                    check(row, offset.zip(usize::try_from(len).ok()))?;
                }
                Ok(())
            }
            Place::IndexOnly => Ok(()),
        }
    }
}
