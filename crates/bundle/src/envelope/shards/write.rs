//! Writes a shard of envelope `shards`.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use tempfile::{SpooledTempFile, spooled_tempfile_in};

use crate::envelope::shards::FORMAT;
use crate::envelope::{Finished, Layout, Out, Places, Rows, ShardSpec};
use crate::index::i64_bytes;
use crate::tensors::{Header, MAX_HEADER, Placer, data_start_for};
use crate::{BundlePath, Dtype, Error, Field, FieldKind};

/// Fields after the first wait in memory up to this size, then in a temporary file.
const SPOOL_BYTES: usize = 8 << 20;

#[derive(Debug)]
pub(crate) struct Writer {
    data_start: u64,
    /// Values of all fields but the first, which goes straight to the file.
    spools: Vec<SpooledTempFile>,
}

impl Writer {
    pub(crate) fn begin(out: &mut Out, spec: &ShardSpec<'_>) -> Result<Self, Error> {
        let data_start = data_start_for(header_bound(spec.fields));
        if data_start > MAX_HEADER {
            let (what, path) = ("a safetensors header", out.dir().display().to_string());
            return Err(Error::TooLarge { path, what, found: data_start, limit: MAX_HEADER });
        }
        out.zeros(data_start)?;
        let spools =
            spec.fields.iter().skip(1).map(|_| spooled_tempfile_in(SPOOL_BYTES, out.dir()));
        Ok(Self { data_start, spools: spools.collect() })
    }
}

impl Layout for Writer {
    fn push(&mut self, out: &mut Out, _key: &BundlePath, values: &[&[u8]]) -> Result<(), Error> {
        let Some((first, rest)) = values.split_first() else { return Ok(()) };
        out.write(first)?;
        for (spool, value) in self.spools.iter_mut().zip(rest) {
            spool.write_all(value).map_err(|e| Error::io("spool", out.dir(), e))?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>, out: &mut Out, rows: &Rows<'_>) -> Result<Finished, Error> {
        let dir = out.dir().to_owned();
        let too_long =
            || Error::malformed(dir.display().to_string(), "the shard overflows 63 bits");
        let n = rows.n();
        let mut placer = Placer::new(self.data_start);
        let mut places = Vec::with_capacity(rows.fields.len());
        let mut spools = self.spools.into_iter();
        for (i, (field, lengths)) in rows.fields.iter().zip(rows.lengths).enumerate() {
            let ends = ends(lengths);
            let total = ends.last().copied().unwrap_or(0);
            let (name, dtype, shape) = match &field.kind {
                FieldKind::Bytes { .. } => {
                    (format!("{}.bytes", field.name), Dtype::U8, vec![total.unsigned_abs()])
                }
                FieldKind::Fixed { dtype, shape } => {
                    let shape = std::iter::once(n).chain(shape.iter().copied()).collect();
                    (field.name.to_string(), *dtype, shape)
                }
            };
            let pad = placer.place(name, dtype, shape).ok_or_else(too_long)?;
            let start = if i == 0 {
                // Its bytes are already there: only the layout is recorded.
                self.data_start
            } else {
                out.zeros(pad)?;
                let start = out.position();
                if let Some(mut spool) = spools.next() {
                    copy_spool(&mut spool, out, &dir)?;
                }
                start
            };
            if field.is_bytes() {
                let (name, shape) = (format!("{}.offsets", field.name), vec![n.saturating_add(1)]);
                let pad = placer.place(name, Dtype::I64, shape).ok_or_else(too_long)?;
                out.zeros(pad)?;
                out.write(&0_i64.to_le_bytes())?;
                out.write(&i64_bytes(&ends))?;
                places.push(Places::Offsets(starts(start, lengths).ok_or_else(too_long)?));
            } else {
                places.push(Places::Stride(start));
            }
        }
        let keys = [
            ("key.bytes", Dtype::U8, rows.key_bytes.len() as u64, rows.key_bytes.to_vec()),
            ("key.offsets", Dtype::I64, n.saturating_add(1), i64_bytes(rows.key_offsets)),
        ];
        for (name, dtype, len, data) in keys {
            let pad = placer.place(name.to_owned(), dtype, vec![len]).ok_or_else(too_long)?;
            out.zeros(pad)?;
            out.write(&data)?;
        }
        let metadata = vec![
            ("format".to_owned(), FORMAT.to_owned()),
            ("version".to_owned(), crate::VERSION.to_string()),
            ("split".to_owned(), rows.split.to_string()),
            ("fields".to_owned(), fields_json(rows.fields)),
        ];
        let header = Header { metadata, tensors: placer.finish() };
        let head = header.to_bytes(self.data_start).ok_or_else(too_long)?;
        Ok(Finished { head, places })
    }
}

/// Where each value ends, counted from the first.
fn ends(lengths: &[i32]) -> Vec<i64> {
    let mut end = 0_i64;
    let add = |len: &i32| {
        end = end.saturating_add(i64::from(*len));
        end
    };
    lengths.iter().map(add).collect()
}

/// The first byte of each value of a field that begins at `start`; `None` on overflow.
fn starts(start: u64, lengths: &[i32]) -> Option<Vec<u64>> {
    let mut next = start;
    let mut starts = Vec::with_capacity(lengths.len());
    for len in lengths {
        starts.push(next);
        next = next.checked_add(u64::try_from(*len).ok()?)?;
    }
    Some(starts)
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

fn fields_json(fields: &[Field]) -> String {
    serde_json::to_string(fields).expect("fields hold only texts and numbers")
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
