//! Makes the index of an existing file: of a shard whose index is lost, or of a file that another
//! program wrote.

use crate::envelope::{FixedPlaces, Run, Survey, Values, survey};
use crate::index::{IndexBuilder, Places};
use crate::{BlockTree, BundlePath, Digest, Envelope, Error, Field, FieldIdx, ReadAt, Row};

/// Where the values of a field are in a file, one per sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldPlaces {
    /// Values of a bytes field; an empty value may be anywhere.
    Bytes(Vec<Run>),
    /// Values of a fixed field.
    Fixed(FixedPlaces),
    /// The values of field `label`, if the file does not store them as i64.
    Labels(Vec<i32>),
}

impl FieldPlaces {
    /// Returns where the value of sample `row` is; `None` past the last sample, and for labels by
    /// value.
    #[must_use]
    pub fn run(&self, row: Row, field: &Field) -> Option<Run> {
        match self {
            Self::Bytes(runs) => row.of(runs).copied(),
            Self::Fixed(places) => {
                let len = field.size_bytes()?;
                let offset = match places {
                    FixedPlaces::Stride(base) => {
                        len.checked_mul(row.0 as u64)?.checked_add(*base)?
                    }
                    FixedPlaces::Offsets(offsets) => *row.of(offsets)?,
                };
                Some(Run { offset, len })
            }
            Self::Labels(_) => None,
        }
    }

    fn into_places(self) -> Places {
        match self {
            Self::Bytes(runs) => Places::Offsets(runs.into_iter().map(|r| r.offset).collect()),
            Self::Fixed(FixedPlaces::Stride(base)) => Places::Stride(base),
            Self::Fixed(FixedPlaces::Offsets(offsets)) => Places::Offsets(offsets),
            Self::Labels(_) => Places::IndexOnly,
        }
    }
}

/// An index made for an existing file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InPlace {
    /// The bytes of the index file.
    pub index: Vec<u8>,
    /// The digest of the file that was indexed.
    pub digest: Digest,
}

/// What [`index_in_place`] has just read, for progress.
#[derive(Debug, Clone, Copy)]
pub enum Seen<'a> {
    /// The value of this field, in the next sample.
    Value(FieldIdx, &'a [u8]),
    /// The next block of the file.
    Block(&'a [u8]),
}

/// Makes the index of `file`, whose sample `i` has key `keys[i]` and values at `places`, with one
/// entry per field. Reads the file twice, by samples and by blocks, and shows `watch` everything
/// that it reads; an error of `watch` ends it.
///
/// # Errors
/// [`Error::Malformed`] when a value lies outside the file or is not a value of
/// its field; [`Error::Path`] for what is not a key; [`Error::Io`]; those of `watch`.
pub fn index_in_place<E: From<Error>>(
    file: &ReadAt,
    fields: &[Field],
    keys: &[BundlePath],
    places: Vec<FieldPlaces>,
    watch: &mut dyn FnMut(Seen<'_>) -> Result<(), E>,
) -> Result<InPlace, E> {
    let bad = |reason: String| Error::malformed(file.path(), reason);
    let mut index = IndexBuilder::new(fields);
    let mut value = Vec::new();
    for (row, key) in Row::first(keys.len()).zip(keys) {
        let mut label = None;
        for (i, (field, places)) in fields.iter().zip(&places).enumerate() {
            if let FieldPlaces::Labels(labels) = places {
                label = row.of(labels).copied();
                continue;
            }
            let is_label = field.is_label();
            let run = places.run(row, field);
            let run = run.ok_or_else(|| bad(format!("`{key}` has no field `{}`", field.name)))?;
            read(file, run, field, &mut value)?;
            watch(Seen::Value(FieldIdx(i), &value))?;
            if is_label {
                let wide = value.first_chunk::<8>().map(|b| i64::from_le_bytes(*b));
                let narrow = wide.and_then(|v| i32::try_from(v).ok());
                label = Some(
                    narrow.ok_or_else(|| bad(format!("label {wide:?} is not a 32-bit number")))?,
                );
            }
            let len = field.is_bytes().then(|| i32::try_from(run.len).unwrap_or(i32::MAX));
            index.push_value(FieldIdx(i), len, (!is_label).then(|| Digest::of(&value)));
        }
        index.push_sample(key, label).ok_or_else(|| bad("its keys overflow".into()))?;
    }
    let places: Vec<Places> = places.into_iter().map(FieldPlaces::into_places).collect();
    let mut show = |block: &[u8]| watch(Seen::Block(block));
    let blocks = BlockTree::of_range(file, 0..file.len_bytes(), &mut show)?;
    let index = index.finish(&blocks, &places).ok_or_else(|| bad("its index overflows".into()))?;
    Ok(InPlace { index, digest: blocks.digest() })
}

/// Reads a value into `value`, after a check that its range is within the file.
fn read(file: &ReadAt, run: Run, field: &Field, value: &mut Vec<u8>) -> Result<(), Error> {
    let size = usize::try_from(run.len).ok().filter(|_| i32::try_from(run.len).is_ok());
    let inside = run.offset.checked_add(run.len).is_some_and(|end| end <= file.len_bytes());
    let Some(size) = size.filter(|_| inside) else {
        let reason = format!(
            "{} bytes at {} for field `{}` are past its end or over 2 GiB",
            run.len, run.offset, field.name
        );
        return Err(Error::malformed(file.path(), reason));
    };
    value.resize(size, 0);
    file.read_at(run.offset, value)
}

/// Builds the index of a shard again by walking the shard itself.
///
/// If the shard is undamaged and Gular wrote it, the result is the index byte for byte, except for
/// the [digests of source files](crate::Index::source), which the shard does not contain. The
/// memory needed is that of one shard's tables.
///
/// # Errors
/// Those of [`survey`] and [`index_in_place`]; [`Error::Malformed`] when it does
/// not have these fields.
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
    let key = |key: &Option<String>| match key {
        Some(key) => Ok(BundlePath::parse(key)?),
        None => Err(bad("a sample has no key".into())),
    };
    let keys = keys.iter().map(key).collect::<Result<Vec<_>, _>>()?;
    let places = fields.iter().map(|field| places_of(&found, field)).collect::<Result<Vec<_>, _>>();
    let watch = &mut |_: Seen<'_>| Ok::<_, Error>(());
    Ok(index_in_place(shard, fields, &keys, places.map_err(bad)?, watch)?.index)
}

/// Returns the places of a field in a shard that Gular wrote. The error is the reason if there is
/// no such column.
fn places_of(found: &Survey, field: &Field) -> Result<FieldPlaces, String> {
    let name = field.name.as_str();
    let column = found.column(name).ok_or_else(|| format!("it has no column `{name}`"))?;
    match (&column.values, field.as_fixed()) {
        (Values::Bytes(runs), None) => {
            let runs: Option<Vec<Run>> = runs.iter().copied().collect();
            Ok(FieldPlaces::Bytes(runs.ok_or_else(|| format!("samples lack `{name}`"))?))
        }
        (Values::Fixed { dtype, shape, places }, Some(expected)) => {
            if expected != (*dtype, shape.as_slice()) {
                return Err(format!(
                    "column `{name}` is {} {shape:?}, not the field's",
                    dtype.safetensors_name()
                ));
            }
            Ok(FieldPlaces::Fixed(places.clone()))
        }
        (Values::Integers(labels), Some(_)) if field.is_label() => {
            let narrow = |l: &Option<i64>| l.and_then(|l| i32::try_from(l).ok());
            let labels: Option<Vec<i32>> = labels.iter().map(narrow).collect();
            Ok(FieldPlaces::Labels(labels.ok_or("a label is not a 32-bit number")?))
        }
        (Values::NotStored(reason), _) => Err(format!("column `{name}`: {reason}")),
        _ => Err(format!("column `{name}` is of another kind than the field")),
    }
}
