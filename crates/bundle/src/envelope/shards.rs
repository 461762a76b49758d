//! Envelope `shards`: a safetensors file any tool can read.
//!
//! ```text
//! 0     header, padded to 4096 (or the next multiple that fits)
//! 4096  first field: image.bytes u8 [total]       (or image [n, …] when fixed)
//!       image.offsets i64 [n + 1]
//!       further fields: <field>.bytes, <field>.offsets, or <field> [n, …]
//!       key.bytes u8, key.offsets i64 [n + 1]
//! ```
//!
//! Format: `FORMAT.md`, "Envelope `shards`".

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, SpooledTempFile, spooled_tempfile_in};

use crate::block::{BlockHasher, block_cv, n_blocks};
use crate::durable::{WriteBack, persist, temp_in};
use crate::index::{IndexBuilder, i64_bytes};
use crate::tensors::{Header, MAX_HEADER, Placer, data_start_for};
use crate::{
    BLOCK_BYTES, BundlePath, Digest, Dtype, Error, Field, FieldKind, FileEntry, MAX_SHARD_SAMPLES,
    ReadAt, ShardEntry, Split,
};

const FORMAT: &str = "gular-shard";
/// Writes go out in pieces of this many bytes: small ones leave the page cache
/// in small folios, which read up to 40 % slower.
const WRITE_BYTES: usize = 1 << 20;
/// The disk is kept busy from this many bytes on.
const SYNC_BYTES: usize = 16 << 20;
/// Fields after the first wait in memory up to this size, then in a temporary file.
const SPOOL_BYTES: usize = 8 << 20;

/// Writes one shard and its index.
///
/// Files appear in the data folder under their final, content-addressed names
/// when [`ShardWriter::finish`] returns; before that nothing but a temporary
/// file exists, which goes when the writer is dropped.
#[derive(Debug)]
pub struct ShardWriter {
    dir: PathBuf,
    split: Split,
    fields: Vec<Field>,
    data_start: u64,
    out: Out,
    spools: Vec<SpooledTempFile>,
    /// End of each sample's value, per bytes field.
    ends: Vec<Vec<i64>>,
    index: IndexBuilder,
}

/// The file being written: buffered, hashed on the way.
#[derive(Debug)]
struct Out {
    temp: NamedTempFile,
    write_back: WriteBack,
    /// Bytes written since the last request to write back.
    unsynced: usize,
    buffer: Vec<u8>,
    hasher: BlockHasher,
}

impl Out {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.buffer.len().saturating_add(bytes.len()) > WRITE_BYTES {
            self.flush()?;
        }
        if bytes.len() >= WRITE_BYTES {
            self.hasher.update(bytes);
            self.temp.write_all(bytes).map_err(|e| Error::io("write", self.temp.path(), e))?;
            self.written(bytes.len());
            return Ok(());
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn written(&mut self, len: usize) {
        self.unsynced = self.unsynced.saturating_add(len);
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.write_back.request();
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.hasher.update(&self.buffer);
        self.temp.write_all(&self.buffer).map_err(|e| Error::io("write", self.temp.path(), e))?;
        self.written(self.buffer.len());
        self.buffer.clear();
        Ok(())
    }

    fn position(&self) -> u64 {
        self.hasher.len_bytes().saturating_add(self.buffer.len() as u64)
    }
}

impl ShardWriter {
    /// Starts a shard of `split` in folder `dir`, whose samples have `fields`.
    ///
    /// # Errors
    /// [`Error::Io`] when no temporary file can be made there.
    pub fn create(dir: &Path, split: Split, fields: &[Field]) -> Result<Self, Error> {
        let data_start = data_start_for(header_bound(fields));
        let temp = temp_in(dir)?;
        let write_back =
            WriteBack::start(temp.as_file()).map_err(|e| Error::io("write back", dir, e))?;
        let mut out = Out {
            temp,
            write_back,
            unsynced: 0,
            buffer: Vec::with_capacity(WRITE_BYTES),
            hasher: BlockHasher::new(),
        };
        let start = usize::try_from(data_start).unwrap_or(usize::MAX);
        if data_start > MAX_HEADER {
            let what = "a safetensors header";
            let path = dir.display().to_string();
            return Err(Error::TooLarge { path, what, found: data_start, limit: MAX_HEADER });
        }
        out.write(&vec![0; start])?;
        Ok(Self {
            dir: dir.to_owned(),
            split,
            fields: fields.to_vec(),
            data_start,
            out,
            spools: fields.iter().skip(1).map(|_| spooled_tempfile_in(SPOOL_BYTES, dir)).collect(),
            ends: vec![Vec::new(); fields.len()],
            index: IndexBuilder::new(fields),
        })
    }

    /// Samples written so far.
    #[must_use]
    pub fn n_samples(&self) -> u64 {
        self.index.n_samples()
    }

    /// Adds a sample: one value a field, in the order of the fields; fixed
    /// values as little-endian bytes, row-major.
    ///
    /// # Errors
    /// [`Error::Value`] when a value does not fit its field; then nothing was
    /// added. [`Error::Io`] when writing fails; then the shard is lost.
    pub fn push(&mut self, key: &BundlePath, values: &[&[u8]]) -> Result<(), Error> {
        let label = self.check(key, values)?;
        for (i, (field, value)) in self.fields.iter().zip(values).enumerate() {
            let end = self.ends.get(i).and_then(|e| e.last().copied()).unwrap_or(0);
            let value_len = i64::try_from(value.len()).unwrap_or(i64::MAX);
            match i.checked_sub(1).and_then(|s| self.spools.get_mut(s)) {
                None => self.out.write(value)?,
                Some(spool) => {
                    spool.write_all(value).map_err(|e| Error::io("spool", &self.dir, e))?;
                }
            }
            let place =
                field.is_bytes().then(|| (end, i32::try_from(value.len()).unwrap_or(i32::MAX)));
            let digest = (field.name.as_str() != "label").then(|| Digest::of(value));
            self.index.push_value(i, place, digest);
            if let (true, Some(ends)) = (field.is_bytes(), self.ends.get_mut(i)) {
                ends.push(end.saturating_add(value_len));
            }
        }
        self.index.push_sample(key, label).ok_or_else(|| Error::Value {
            key: key.to_string(),
            reason: "the keys of this shard overflow 63 bits".into(),
        })
    }

    /// The label as the index stores it, when all values fit their fields.
    fn check(&self, key: &BundlePath, values: &[&[u8]]) -> Result<Option<i32>, Error> {
        let wrong = |reason: String| Error::Value { key: key.to_string(), reason };
        if values.len() != self.fields.len() {
            return Err(wrong(format!("{} values for {} fields", values.len(), self.fields.len())));
        }
        if self.n_samples() >= MAX_SHARD_SAMPLES {
            return Err(wrong(format!("the shard already has {MAX_SHARD_SAMPLES} samples")));
        }
        let mut label = None;
        for (field, value) in self.fields.iter().zip(values) {
            let found = value.len() as u64;
            if i32::try_from(found).is_err() {
                return Err(wrong(format!(
                    "field `{}` is {found} bytes, at most 2 GiB fit",
                    field.name
                )));
            }
            if let Some(expected) = field.size_bytes().filter(|expected| *expected != found) {
                return Err(wrong(format!(
                    "field `{}` is {found} bytes, expected {expected}",
                    field.name
                )));
            }
            if field.name.as_str() == "label" {
                let wide = value.first_chunk::<8>().map(|b| i64::from_le_bytes(*b));
                let narrow = wide.and_then(|v| i32::try_from(v).ok());
                label = Some(
                    narrow.ok_or_else(|| wrong(format!("label {wide:?} is no 32-bit number")))?,
                );
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
        let too_long = || Error::malformed(self_path(&self.dir), "the shard overflows 63 bits");
        let n = self.index.n_samples();
        let mut placer = Placer::new(self.data_start);
        let mut bases = vec![None; self.fields.len()];
        let mut shifts = vec![0_i64; self.fields.len()];
        let mut spools = std::mem::take(&mut self.spools).into_iter();
        for (i, field) in self.fields.iter().enumerate() {
            let ends = self.ends.get(i).map(Vec::as_slice).unwrap_or_default();
            let total = u64::try_from(ends.last().copied().unwrap_or(0)).unwrap_or(0);
            let (name, dtype, shape) = match &field.kind {
                FieldKind::Bytes { .. } => {
                    (format!("{}.bytes", field.name), Dtype::U8, vec![total])
                }
                FieldKind::Fixed { dtype, shape } => {
                    let shape = std::iter::once(n).chain(shape.iter().copied()).collect();
                    (field.name.to_string(), *dtype, shape)
                }
            };
            let start = if i == 0 {
                // Its bytes are already there: only the layout is recorded.
                placer.place(name, dtype, shape).ok_or_else(too_long)?;
                self.data_start
            } else {
                let pad = placer.place(name, dtype, shape).ok_or_else(too_long)?;
                write_zeros(&mut self.out, pad)?;
                let start = self.out.position();
                if let Some(mut spool) = spools.next() {
                    copy_spool(&mut spool, &mut self.out, &self.dir)?;
                }
                start
            };
            let start = i64::try_from(start).map_err(|_| too_long())?;
            if let Some(shift) = shifts.get_mut(i) {
                *shift = start;
            }
            if field.is_bytes() {
                let shape = vec![n.saturating_add(1)];
                let pad = placer
                    .place(format!("{}.offsets", field.name), Dtype::I64, shape)
                    .ok_or_else(too_long)?;
                write_zeros(&mut self.out, pad)?;
                self.out.write(&0_i64.to_le_bytes())?;
                self.out.write(&i64_bytes(ends))?;
            } else if let Some(base) = bases.get_mut(i) {
                *base = Some(start);
            }
        }
        let keys = [
            (
                "key.bytes",
                Dtype::U8,
                self.index.key_bytes().len() as u64,
                self.index.key_bytes().to_vec(),
            ),
            ("key.offsets", Dtype::I64, n.saturating_add(1), i64_bytes(self.index.key_offsets())),
        ];
        for (name, dtype, len, data) in keys {
            let pad = placer.place(name.to_owned(), dtype, vec![len]).ok_or_else(too_long)?;
            write_zeros(&mut self.out, pad)?;
            self.out.write(&data)?;
        }
        self.out.flush()?;

        let metadata = vec![
            ("format".to_owned(), FORMAT.to_owned()),
            ("version".to_owned(), crate::VERSION.to_string()),
            ("split".to_owned(), self.split.to_string()),
            ("fields".to_owned(), fields_json(&self.fields)),
        ];
        let header = Header { metadata, tensors: placer.finish() };
        let patch = header.to_bytes(self.data_start).ok_or_else(too_long)?;
        let Out { temp, write_back, hasher, .. } = self.out;
        temp.as_file().write_all_at(&patch, 0).map_err(|e| Error::io("write", temp.path(), e))?;
        let bytes = hasher.len_bytes();
        let (blocks, digest) = hasher.finish(&patch);

        write_back.finish().map_err(|e| Error::io("write", temp.path(), e))?;
        let index = self.index.finish(bytes, &blocks, &bases, &shifts).ok_or_else(too_long)?;
        let index_digest = Digest::of(&index);
        let shard = entry(self.split, digest, "safetensors", bytes)?;
        let index_entry = entry(self.split, index_digest, "index.safetensors", index.len() as u64)?;
        persist(temp, &self.dir.join(shard.name.as_str()))?;
        let mut index_temp = temp_in(&self.dir)?;
        index_temp.write_all(&index).map_err(|e| Error::io("write", index_temp.path(), e))?;
        persist(index_temp, &self.dir.join(index_entry.name.as_str()))?;
        Ok(ShardEntry { split: self.split, file: shard, samples: n, index: index_entry })
    }
}

/// The most bytes of JSON that the header of a shard with `fields` can need:
/// it is written last, so its room must be known before. Format: `FORMAT.md`,
/// "Envelope `shards`".
fn header_bound(fields: &[Field]) -> u64 {
    // A field has up to two tensors and their padding, 400 bytes each and its
    // name; the metadata repeats its description with every quote escaped.
    let each =
        fields.iter().map(|f| 800_usize.saturating_add(f.name.as_str().len().saturating_mul(4)));
    let tensors: usize = each.fold(0, usize::saturating_add);
    let described = fields_json(fields).len().saturating_mul(2);
    tensors.saturating_add(described).saturating_add(800) as u64
}

fn self_path(dir: &Path) -> String {
    dir.display().to_string()
}

fn entry(split: Split, digest: Digest, extension: &str, bytes: u64) -> Result<FileEntry, Error> {
    let name = BundlePath::parse(&format!("{split}-{}.{extension}", digest.short_hex()))?;
    Ok(FileEntry { name, bytes, digest })
}

fn fields_json(fields: &[Field]) -> String {
    serde_json::to_string(fields).expect("fields hold only texts and numbers")
}

fn write_zeros(out: &mut Out, n: u64) -> Result<(), Error> {
    out.write(&vec![0; usize::try_from(n).unwrap_or(0)])
}

fn copy_spool(spool: &mut SpooledTempFile, out: &mut Out, dir: &Path) -> Result<(), Error> {
    let io = |e| Error::io("read a temporary file of", dir, e);
    spool.seek(SeekFrom::Start(0)).map_err(io)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let n = spool.read(&mut buffer).map_err(io)?;
        match buffer.get(..n) {
            Some(piece) if n > 0 => out.write(piece)?,
            _ => return Ok(()),
        }
    }
}

/// Builds the index of a shard again by walking the shard itself.
///
/// Reads the whole file once: samples and blocks are hashed anew. For an
/// undamaged shard the result is the index byte for byte, since a writer has
/// no other choice. Memory: the tables of one shard.
///
/// # Errors
/// [`Error::Malformed`] when the file is no shard of format `gular-shard`.
pub fn rebuild_index(shard: &ReadAt) -> Result<Vec<u8>, Error> {
    let path = shard.path();
    let bad = |reason: &str| Error::malformed(path.clone(), reason);
    let header = Header::read(shard)?;
    header.check_format(&path, FORMAT)?;
    let fields: Vec<Field> = header
        .metadata("fields")
        .and_then(|json| serde_json::from_str(json).ok())
        .ok_or_else(|| bad("its metadata has no valid `fields`"))?;
    let key_offsets = read_i64s(shard, &header, "key.offsets")?;
    let key_bytes = read_tensor(shard, &header, "key.bytes", Dtype::U8)?;
    let rows = key_offsets.len().checked_sub(1).ok_or_else(|| bad("`key.offsets` is empty"))?;

    let mut index = IndexBuilder::new(&fields);
    let mut bases = vec![None; fields.len()];
    let mut columns = Vec::new();
    let mut label_base = None;
    for (i, field) in fields.iter().enumerate() {
        let name =
            if field.is_bytes() { format!("{}.bytes", field.name) } else { field.name.to_string() };
        let tensor = header.tensor(&name).ok_or_else(|| bad("a field has no tensor"))?;
        let base = i64::try_from(tensor.start).map_err(|_| bad("a tensor starts past 63 bits"))?;
        let offsets = if field.is_bytes() {
            let offsets = read_i64s(shard, &header, &format!("{}.offsets", field.name))?;
            (offsets.len() == key_offsets.len())
                .then_some(Some(offsets))
                .ok_or_else(|| bad("fields differ in their number of samples"))?
        } else {
            if let Some(slot) = bases.get_mut(i) {
                *slot = Some(base);
            }
            if field.name.as_str() == "label" {
                label_base = Some(tensor.start);
            }
            None
        };
        columns.push((tensor.clone(), offsets));
    }
    let mut value = Vec::new();
    for row in 0..rows {
        for (i, (field, (tensor, offsets))) in fields.iter().zip(&columns).enumerate() {
            let place = match offsets {
                Some(offsets) => {
                    offsets.get(row).copied().zip(offsets.get(row.saturating_add(1)).copied())
                }
                None => field.size_bytes().and_then(|size| {
                    let start = size.checked_mul(row as u64)?;
                    i64::try_from(start).ok().zip(i64::try_from(start.checked_add(size)?).ok())
                }),
            };
            let (start, end) = place.ok_or_else(|| bad("a field has too few values"))?;
            let len =
                end.checked_sub(start).and_then(|len| i32::try_from(len).ok()).filter(|l| *l >= 0);
            let at = u64::try_from(start).ok().and_then(|s| tensor.start.checked_add(s));
            let (Some(len), Some(at)) = (len, at) else {
                return Err(bad("an offset is out of order"));
            };
            let len_u64 = u64::from(len.unsigned_abs());
            if at.checked_add(len_u64).is_none_or(|end| end > tensor.end) {
                return Err(bad("a value ends past its tensor"));
            }
            let absolute = i64::try_from(at).map_err(|_| bad("an offset is past 63 bits"))?;
            value.resize(usize::try_from(len_u64).unwrap_or(0), 0);
            shard.read_at(at, &mut value)?;
            let digest = (field.name.as_str() != "label").then(|| Digest::of(&value));
            index.push_value(i, field.is_bytes().then_some((absolute, len)), digest);
        }
        let label = match label_base {
            None => None,
            Some(base) => {
                let mut bytes = [0; 8];
                let at = (row as u64).checked_mul(8).and_then(|o| o.checked_add(base));
                shard.read_at(at.ok_or_else(|| bad("a label is past 63 bits"))?, &mut bytes)?;
                let label = i32::try_from(i64::from_le_bytes(bytes));
                Some(label.map_err(|_| bad("a label is no 32-bit number"))?)
            }
        };
        let key = key_offsets.get(row).zip(key_offsets.get(row.saturating_add(1)));
        let key = key
            .and_then(|(s, e)| key_bytes.get(usize::try_from(*s).ok()?..usize::try_from(*e).ok()?));
        let key = key
            .and_then(|k| std::str::from_utf8(k).ok())
            .ok_or_else(|| bad("a key is no UTF-8 text"))?;
        index
            .push_sample(&BundlePath::parse(key)?, label)
            .ok_or_else(|| bad("its keys overflow"))?;
    }
    let blocks = hash_blocks(shard)?;
    let shifts = vec![0; fields.len()];
    index
        .finish(shard.len_bytes(), &blocks, &bases, &shifts)
        .ok_or_else(|| bad("its index overflows"))
}

fn read_tensor(
    shard: &ReadAt,
    header: &Header,
    name: &str,
    dtype: Dtype,
) -> Result<Vec<u8>, Error> {
    let tensor = header.tensor(name).filter(|t| t.dtype == dtype && t.shape.len() == 1);
    let tensor = tensor.ok_or_else(|| {
        Error::malformed(shard.path(), format!("it has no tensor `{name}` of the right type"))
    })?;
    let len = tensor.end.saturating_sub(tensor.start);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    shard.read_at(tensor.start, &mut bytes)?;
    Ok(bytes)
}

fn read_i64s(shard: &ReadAt, header: &Header, name: &str) -> Result<Vec<i64>, Error> {
    let bytes = read_tensor(shard, header, name, Dtype::I64)?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect())
}

fn hash_blocks(shard: &ReadAt) -> Result<Vec<[u8; 32]>, Error> {
    let n = n_blocks(shard.len_bytes());
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut blocks = Vec::new();
    for block in 0..n {
        let start = block.saturating_mul(BLOCK_BYTES as u64);
        let len = shard.len_bytes().saturating_sub(start).min(BLOCK_BYTES as u64);
        let piece = buffer.get_mut(..usize::try_from(len).unwrap_or(0)).unwrap_or_default();
        shard.read_at(start, piece)?;
        blocks.push(block_cv(block, piece, n == 1));
    }
    Ok(blocks)
}
