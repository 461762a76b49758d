//! Writes a shard of envelope `tar`.

use crate::envelope::foreign::tar::header::{BLOCK, member};
use crate::envelope::foreign::tar::names::{Stems, suffix};
use crate::envelope::{Finished, Layout, Out, ShardSpec, npy};
use crate::index::{Places, Rows};
use crate::{BundlePath, Error, Field};

#[derive(Debug)]
pub(crate) struct Writer {
    fields: Vec<Field>,
    /// For each fixed field, the bytes before its data in a member.
    npy: Vec<Vec<u8>>,
    stems: Stems,
    places: Vec<Places>,
}

impl Writer {
    pub(crate) fn begin(spec: &ShardSpec<'_>) -> Self {
        let npy = |field: &Field| {
            field.as_fixed().map_or(Vec::new(), |(dtype, shape)| npy::header(dtype, shape))
        };
        let places = |field: &Field| match field.is_label() {
            true => Places::IndexOnly,
            false => Places::Offsets(Vec::new()),
        };
        Self {
            npy: spec.fields.iter().map(npy).collect(),
            places: spec.fields.iter().map(places).collect(),
            stems: Stems::default(),
            fields: spec.fields.to_vec(),
        }
    }
}

impl Layout for Writer {
    fn push(&mut self, out: &mut Out, key: &BundlePath, values: &[&[u8]]) -> Result<(), Error> {
        let stem = self.stems.next(key);
        let fields = self.fields.iter().zip(values).zip(&self.npy).zip(&mut self.places);
        for (i, (((field, value), npy), places)) in fields.enumerate() {
            let name = format!("{stem}{}", suffix(field, key, value));
            let label;
            let (before, value): (&[u8], &[u8]) = match places {
                Places::IndexOnly => {
                    let wide = value.first_chunk::<8>().map_or(-1, |b| i64::from_le_bytes(*b));
                    label = wide.to_string();
                    (&[], label.as_bytes())
                }
                _ => (npy, value),
            };
            let size = (before.len() as u64).saturating_add(value.len() as u64);
            let key = (i == 0 && name != key.as_str()).then(|| key.as_str());
            out.write(&member(&name, size, key))?;
            out.write(before)?;
            if let Places::Offsets(offsets) = places {
                offsets.push(out.position());
            }
            out.write(value)?;
            out.align(BLOCK)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>, out: &mut Out, _rows: &Rows<'_>) -> Result<Finished, Error> {
        out.zeros(2 * BLOCK)?;
        Ok(Finished { head: Vec::new(), places: self.places })
    }
}
