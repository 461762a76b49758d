//! Writes a shard of envelope `hdf5`.

use crate::envelope::foreign::hdf5::encode::{self, Array};
use crate::envelope::foreign::hdf5::{BFLOAT16, FORMAT};
use crate::envelope::spool::{Spool, ends, starts};
use crate::envelope::{Finished, Layout, Out, ShardSpec};
use crate::index::{Places, Rows, i64_bytes};
use crate::{BundlePath, Dtype, Error, Field, FieldKind};

/// The first field begins here; the superblock is before it.
const DATA_START: u64 = 4096;
/// All other arrays begin at a multiple of this.
const ALIGN: u64 = 64;
/// HDF5 has at most 32 dimensions, one of which counts the samples.
const MOST_DIMS: usize = 31;

#[derive(Debug)]
pub(crate) struct Writer {
    classes: Vec<String>,
    /// Values of all fields but the first, which is written to the file directly.
    spools: Vec<Spool>,
}

impl Writer {
    pub(crate) fn begin(out: &mut Out, spec: &ShardSpec<'_>) -> Result<Self, Error> {
        let deep = |field: &&Field| field.as_fixed().is_some_and(|(_, s)| s.len() > MOST_DIMS);
        if let Some(field) = spec.fields.iter().find(deep) {
            let reason =
                format!("its values have over {MOST_DIMS} dimensions, more than HDF5 allows");
            return Err(Error::Value { key: field.name.to_string(), reason });
        }
        out.zeros(DATA_START)?;
        let spools = spec.fields.iter().skip(1).map(|_| Spool::new(out.dir()));
        Ok(Self { classes: spec.classes.to_vec(), spools: spools.collect() })
    }
}

impl Layout for Writer {
    fn push(&mut self, out: &mut Out, _key: &BundlePath, values: &[&[u8]]) -> Result<(), Error> {
        let Some((first, rest)) = values.split_first() else { return Ok(()) };
        out.write(first)?;
        self.spools.iter_mut().zip(rest).try_for_each(|(spool, value)| spool.push(value))
    }

    fn finish(self: Box<Self>, out: &mut Out, rows: &Rows<'_>) -> Result<Finished, Error> {
        let dir = out.dir().display().to_string();
        let too_long = || Error::malformed(dir.clone(), "the shard is too large for HDF5");
        let n = rows.n();
        let mut arrays = Vec::new();
        let mut places = Vec::with_capacity(rows.fields.len());
        let mut spools = self.spools.into_iter();
        for (i, (field, lengths)) in rows.fields.iter().zip(rows.lengths).enumerate() {
            // The first field's bytes are already in the file.
            let start = match i {
                0 => DATA_START,
                _ => {
                    out.align(ALIGN)?;
                    let start = out.position();
                    spools.next().map_or(Ok(()), |spool| spool.copy(out))?;
                    start
                }
            };
            let len = out.position().saturating_sub(start);
            match &field.kind {
                FieldKind::Bytes { .. } => {
                    let name = format!("{}.bytes", field.name);
                    arrays.push(array(name, Dtype::U8, vec![len], start, len));
                    let ends = [&[0][..], &ends(lengths)].concat();
                    arrays.push(offsets(out, &field.name.to_string(), &ends)?);
                    places.push(Places::Offsets(starts(start, lengths).ok_or_else(too_long)?));
                }
                FieldKind::Fixed { dtype, shape } => {
                    let dims = std::iter::once(n).chain(shape.iter().copied()).collect();
                    let mut array = array(field.name.to_string(), *dtype, dims, start, len);
                    if *dtype == Dtype::Bf16 {
                        array.attributes.extend(encode::texts("dtype", &[BFLOAT16], false));
                    }
                    if field.is_label() {
                        array.attributes.extend(classes(&self.classes));
                    }
                    arrays.push(array);
                    places.push(Places::Stride(start));
                }
            }
        }
        out.align(ALIGN)?;
        let (start, len) = (out.position(), rows.key_bytes.len() as u64);
        out.write(rows.key_bytes)?;
        arrays.push(array("key.bytes".to_owned(), Dtype::U8, vec![len], start, len));
        arrays.push(offsets(out, "key", rows.key_offsets)?);
        out.align(ALIGN)?;
        let about = [
            ("format", FORMAT.to_owned()),
            ("version", crate::VERSION.to_string()),
            ("split", rows.split.to_string()),
        ];
        let about = about.iter().filter_map(|(name, text)| encode::texts(name, &[text], false));
        let (head, tail) =
            encode::objects(out.position(), arrays, about.collect()).ok_or_else(too_long)?;
        out.write(&tail)?;
        Ok(Finished { head, places })
    }
}

/// Writes the offsets at which the values of `name` begin and end.
fn offsets(out: &mut Out, name: &str, ends: &[i64]) -> Result<Array, Error> {
    out.align(ALIGN)?;
    let (start, bytes) = (out.position(), i64_bytes(ends));
    out.write(&bytes)?;
    let (dims, len) = (vec![ends.len() as u64], bytes.len() as u64);
    Ok(array(format!("{name}.offsets"), Dtype::I64, dims, start, len))
}

fn array(name: String, dtype: Dtype, dims: Vec<u64>, start: u64, len: u64) -> Array {
    Array { name, datatype: encode::datatype(dtype), dims, start, len, attributes: Vec::new() }
}

/// Encodes class names as an attribute; `None` if there are none or they do not fit. The manifest
/// has them in any case.
fn classes(classes: &[String]) -> Option<Vec<u8>> {
    let texts: Vec<&str> = classes.iter().map(String::as_str).collect();
    encode::texts("classes", &texts, true)
}
