//! Builds the index of a shard again from the shard alone.

use crate::block::{block_cv, n_blocks};
use crate::envelope::{FixedPlaces, Places, Survey, Values, survey};
use crate::index::IndexBuilder;
use crate::{BLOCK_BYTES, BundlePath, Digest, Envelope, Error, Field, ReadAt};

/// Builds the index of a shard again by walking the shard itself.
///
/// Reads the whole file once: samples and blocks are hashed anew. For an
/// undamaged shard that we wrote the result is the index byte for byte.
/// Memory: the tables of one shard.
///
/// # Errors
/// Those of [`survey`]; [`Error::Malformed`] when it does not have these fields.
pub fn rebuild_index(
    shard: &ReadAt,
    envelope: Envelope,
    fields: &[Field],
) -> Result<Vec<u8>, Error> {
    let bad = |reason: String| Error::malformed(shard.path(), reason);
    let found = survey(shard, envelope)?;
    let keys = match found.column("key").map(|c| &c.values) {
        Some(Values::Texts(keys)) if keys.len() == found.rows => keys,
        _ => return Err(bad("it has no column `key`".into())),
    };
    let columns = fields.iter().map(|field| column(&found, field)).collect::<Result<Vec<_>, _>>();
    let columns = columns.map_err(bad)?;

    let mut index = IndexBuilder::new(fields);
    let mut value = Vec::new();
    for (row, key) in keys.iter().enumerate() {
        let mut label = None;
        for (i, (field, found)) in fields.iter().zip(&columns).enumerate() {
            let is_label = field.name.as_str() == "label";
            if let Found::Labels(labels) = found {
                label = labels.get(row).copied();
                index.push_value(i, None, None);
                continue;
            }
            let (offset, len) = found
                .run(row, field)
                .ok_or_else(|| bad(format!("sample {row} has no field `{}`", field.name)))?;
            let size = usize::try_from(len).ok().filter(|_| i32::try_from(len).is_ok());
            let size = size.ok_or_else(|| bad(format!("a value of {len} bytes is too large")))?;
            if offset.checked_add(len).is_none_or(|end| end > shard.len_bytes()) {
                return Err(bad(format!("field `{}` of sample {row} lies outside", field.name)));
            }
            value.resize(size, 0);
            shard.read_at(offset, &mut value)?;
            if is_label {
                let wide = value.first_chunk::<8>().map(|b| i64::from_le_bytes(*b));
                let narrow = wide.and_then(|v| i32::try_from(v).ok());
                label = Some(narrow.ok_or_else(|| bad("a label is no 32-bit number".into()))?);
            }
            let len = field.is_bytes().then(|| i32::try_from(len).unwrap_or(i32::MAX));
            index.push_value(i, len, (!is_label).then(|| Digest::of(&value)));
        }
        let key = key.as_deref().ok_or_else(|| bad(format!("sample {row} has no key")))?;
        index
            .push_sample(&BundlePath::parse(key)?, label)
            .ok_or_else(|| bad("its keys overflow".into()))?;
    }
    let places: Vec<Places> = columns.into_iter().map(Found::into_places).collect();
    let blocks = hash_blocks(shard)?;
    index
        .finish(shard.len_bytes(), &blocks, &places)
        .ok_or_else(|| bad("its index overflows".into()))
}

/// A column that holds a field's values.
enum Found<'a> {
    Bytes(Vec<(u64, u64)>),
    Fixed(&'a FixedPlaces),
    Labels(Vec<i32>),
}

impl Found<'_> {
    fn run(&self, row: usize, field: &Field) -> Option<(u64, u64)> {
        match self {
            Self::Bytes(runs) => runs.get(row).copied(),
            Self::Fixed(places) => {
                let size = field.size_bytes()?;
                let offset = match places {
                    FixedPlaces::Stride(base) => {
                        size.checked_mul(row as u64)?.checked_add(*base)?
                    }
                    FixedPlaces::Offsets(offsets) => *offsets.get(row)?,
                };
                Some((offset, size))
            }
            Self::Labels(_) => None,
        }
    }

    fn into_places(self) -> Places {
        match self {
            Self::Bytes(runs) => Places::Offsets(runs.into_iter().map(|(o, _)| o).collect()),
            Self::Fixed(FixedPlaces::Stride(base)) => Places::Stride(*base),
            Self::Fixed(FixedPlaces::Offsets(offsets)) => Places::Offsets(offsets.clone()),
            Self::Labels(_) => Places::IndexOnly,
        }
    }
}

/// The column of a field; the reason when it is not there or another.
fn column<'a>(found: &'a Survey, field: &Field) -> Result<Found<'a>, String> {
    let name = field.name.as_str();
    let column = found.column(name).ok_or_else(|| format!("it has no column `{name}`"))?;
    match (&column.values, field.is_bytes()) {
        (Values::Bytes(runs), true) => {
            let runs: Option<Vec<_>> = runs.iter().map(|r| r.map(|r| (r.offset, r.len))).collect();
            Ok(Found::Bytes(runs.ok_or_else(|| format!("samples lack `{name}`"))?))
        }
        (Values::Fixed { dtype, shape, places }, false) => {
            let expected = field.as_fixed();
            if expected != Some((*dtype, shape.as_slice())) {
                return Err(format!(
                    "column `{name}` is {} {shape:?}, not the field's",
                    dtype.safetensors_name()
                ));
            }
            Ok(Found::Fixed(places))
        }
        (Values::Integers(labels), false) if name == "label" => {
            let narrow = |l: &Option<i64>| l.and_then(|l| i32::try_from(l).ok());
            let labels: Option<Vec<i32>> = labels.iter().map(narrow).collect();
            Ok(Found::Labels(labels.ok_or("a label is no 32-bit number")?))
        }
        (Values::NotStored(reason), _) => Err(format!("column `{name}`: {reason}")),
        _ => Err(format!("column `{name}` is of another kind than the field")),
    }
}

pub(crate) fn hash_blocks(shard: &ReadAt) -> Result<Vec<[u8; 32]>, Error> {
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
