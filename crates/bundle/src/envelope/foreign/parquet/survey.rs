//! Surveys a Parquet file, whether Gular wrote it or another program.

use std::collections::BTreeSet;

use crate::envelope::foreign::huggingface;
use crate::envelope::foreign::parquet::FIELDS;
use crate::envelope::foreign::parquet::column::{Column as Walk, Fault};
use crate::envelope::foreign::parquet::footer::Footer;
use crate::envelope::foreign::parquet::schema::{ColumnKind, Leaf};
use crate::envelope::{Column, FixedPlaces, Run, Survey, Values};
use crate::{Dtype, Error, Field, ReadAt};

/// Texts that are kept at a time may take this many times the file's size, since a dictionary can
/// repeat them without taking space, and columns may share their pages; in small files, more.
const MOST_TEXTS: (u64, u64) = (8, 64 << 20);

/// How to rewrite a file so that bytes are stored in it as they are.
const REPACK: &str = "`pq.write_table(pq.read_table(FILE), NEW, compression=\"none\", use_dictionary=False)` of pyarrow rewrites it";

/// How many bytes of texts of `file` may be kept at a time.
pub(super) fn most_texts(file: &ReadAt) -> u64 {
    let (times, least) = MOST_TEXTS;
    file.len_bytes().saturating_mul(times).max(least)
}

/// Finds a column for each leaf; leaves in groups are named by their path.
pub(crate) fn survey(file: &ReadAt) -> Result<Survey, Error> {
    let footer = Footer::read(file)?;
    let rows = usize::try_from(footer.rows().unwrap_or(0)).unwrap_or(0);
    let mut columns: Vec<Column> = Vec::new();
    let mut names = BTreeSet::new();
    let mut left = most_texts(file);
    for (i, leaf) in footer.leaves.iter().enumerate() {
        // A list of groups has several leaves with the same name, of which the first is used.
        if names.insert(leaf.name.as_str()) {
            let chunks =
                footer.groups.iter().filter_map(|g| Some((g.chunks.get(i)?, g.rows))).collect();
            let values = values(&Walk { file, leaf, chunks }, &mut left)?;
            columns.push(Column { name: leaf.name.clone(), values });
        }
    }
    huggingface::join_images(&mut columns);
    let text = |name: &str| footer.metadata.iter().find(|(n, _)| n == name).map(|(_, t)| t);
    if let Some(fields) = text(FIELDS) {
        let fields: Vec<Field> = serde_json::from_str(fields)
            .map_err(|e| Error::malformed(file.path(), format!("its `{FIELDS}`: {e}")))?;
        for field in &fields {
            columns
                .iter_mut()
                .filter(|c| c.name == field.name.as_str())
                .for_each(|c| ours(c, field));
        }
    }
    let classes = text(huggingface::NAME).map(|text| huggingface::classes(text));
    Ok(Survey { rows, columns, classes: classes.unwrap_or_default() })
}

/// Reads the values of a column; `left` bytes of texts may still be kept.
fn values(column: &Walk<'_>, left: &mut u64) -> Result<Values, Error> {
    let found = match &column.leaf.kind {
        ColumnKind::Other(reason) => return Ok(Values::NotStored(reason.clone())),
        ColumnKind::List(_) => return Ok(Values::NotStored("it holds lists".to_owned())),
        ColumnKind::Bools => return Ok(Values::NotStored("it is of type boolean".to_owned())),
        ColumnKind::Bytes => column.runs().map(Values::Bytes),
        ColumnKind::Texts => texts(column, left).map(Values::Texts),
        ColumnKind::Unsigned64 => {
            // A number with more than 63 bits is not a label.
            let value = |b: &[u8]| Ok(Some(Dtype::I64.integer(b)).filter(|value| *value >= 0));
            let values = column.read(&mut |bytes| value(bytes));
            values.map(|all| Values::Integers(all.into_iter().map(Option::flatten).collect()))
        }
        ColumnKind::Fixed(size) => {
            column.runs().and_then(|runs| fixed(&runs, Dtype::U8, vec![*size]))
        }
        ColumnKind::Number { dtype, .. } => numbers(column, *dtype),
    };
    let Leaf { name, .. } = column.leaf;
    match found {
        Ok(values) => Ok(values),
        Err(Fault::NotStored(reason)) => Ok(Values::NotStored(reason)),
        Err(Fault::Compressed(codec)) => {
            let mut reason = format!("compressed with {codec}");
            if column.leaf.kind == ColumnKind::Bytes {
                reason = format!("{reason}; {REPACK}");
            }
            Ok(Values::NotStored(reason))
        }
        Err(Fault::Read(error)) => Err(error),
        Err(Fault::Damaged(reason)) => {
            Err(Error::malformed(column.file.path(), format!("column `{name}`: {reason}")))
        }
    }
}

/// Returns numbers in place if all are stored so, else integers by value.
fn numbers(column: &Walk<'_>, dtype: Dtype) -> Result<Values, Fault> {
    let in_place = column.runs().and_then(|runs| fixed(&runs, dtype, Vec::new()));
    match in_place {
        Err(Fault::NotStored(_) | Fault::Compressed(_)) if dtype.is_integer() => {
            column.read(&mut |bytes| Ok(dtype.integer(bytes))).map(Values::Integers)
        }
        other => other,
    }
}

fn fixed(runs: &[Option<Run>], dtype: Dtype, shape: Vec<u64>) -> Result<Values, Fault> {
    let offsets: Option<Vec<u64>> = runs.iter().map(|run| run.map(|run| run.offset)).collect();
    let offsets =
        offsets.ok_or_else(|| Fault::NotStored("some samples have no value".to_owned()))?;
    Ok(Values::Fixed { dtype, shape, places: FixedPlaces::Offsets(offsets) })
}

pub(super) fn texts(column: &Walk<'_>, left: &mut u64) -> Result<Vec<Option<String>>, Fault> {
    column.read(&mut |bytes| text(bytes, left))
}

/// Reads a text, of which `left` bytes may still be kept.
pub(super) fn text(bytes: &[u8], left: &mut u64) -> Result<String, Fault> {
    *left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
        Fault::NotStored("its strings take many times the size of the file".to_owned())
    })?;
    let text = String::from_utf8(bytes.to_vec());
    text.map_err(|_| Fault::Damaged("a text is not UTF-8".to_owned()))
}

/// Gives a column of a shard that Gular wrote the type and shape of its field.
fn ours(column: &mut Column, field: &Field) {
    let Some((dtype, shape, size)) =
        field.as_fixed().zip(field.size_bytes()).map(|((d, s), size)| (d, s.to_vec(), size))
    else {
        return;
    };
    let places = match &mut column.values {
        Values::Bytes(runs) if runs.iter().flatten().all(|run| run.len == size) => {
            let offsets: Option<Vec<u64>> = runs.iter().map(|r| r.map(|r| r.offset)).collect();
            offsets.map(FixedPlaces::Offsets)
        }
        Values::Fixed { dtype: found, shape, places }
            if shape.is_empty() && found.size_bytes() == size =>
        {
            Some(places.clone())
        }
        _ => None,
    };
    if let Some(places) = places {
        column.values = Values::Fixed { dtype, shape, places };
    }
}
