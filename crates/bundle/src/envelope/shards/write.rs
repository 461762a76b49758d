//! Writes a shard of envelope `shards`.

use crate::envelope::shards::FORMAT;
use crate::envelope::spool::{Spool, ends, starts};
use crate::envelope::{Finished, Layout, Out, ShardSpec};
use crate::index::{Places, Rows, i64_bytes};
use crate::tensors::{MAX_HEADER, Placer, SafetensorsHeader, data_start_for};
use crate::{BundlePath, Dtype, Error, Field, FieldKind};

#[derive(Debug)]
pub(crate) struct Writer {
    data_start: u64,
    /// Values of all fields but the first, which is written to the file directly.
    spools: Vec<Spool>,
}

impl Writer {
    pub(crate) fn begin(out: &mut Out, spec: &ShardSpec<'_>) -> Result<Self, Error> {
        let data_start = data_start_for(header_bound(spec.fields));
        if data_start > MAX_HEADER {
            let (what, path) = ("a safetensors header", out.dir().display().to_string());
            return Err(Error::TooLarge { path, what, found: data_start, limit: MAX_HEADER });
        }
        out.zeros(data_start)?;
        let spools = spec.fields.iter().skip(1).map(|_| Spool::new(out.dir()));
        Ok(Self { data_start, spools: spools.collect() })
    }
}

impl Layout for Writer {
    fn push(&mut self, out: &mut Out, _key: &BundlePath, values: &[&[u8]]) -> Result<(), Error> {
        let Some((first, rest)) = values.split_first() else { return Ok(()) };
        out.write(first)?;
        for (spool, value) in self.spools.iter_mut().zip(rest) {
            spool.push(value)?;
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
                // The first field's bytes are already written, so only the layout is recorded.
                self.data_start
            } else {
                out.zeros(pad)?;
                let start = out.position();
                if let Some(spool) = spools.next() {
                    spool.copy(out)?;
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
        let header = SafetensorsHeader { metadata, tensors: placer.finish() };
        let head = header.to_bytes(self.data_start).ok_or_else(too_long)?;
        Ok(Finished { head, places })
    }
}

/// Returns the most bytes of JSON that the header of a shard with `fields` can need. The header is
/// written last, so the space for it must be known before. Format: `FORMAT.md`, "Envelope
/// `shards`".
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
