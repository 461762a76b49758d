//! Walks an Arrow stream or file, ours or another.

use arrow_schema::Schema;

use crate::envelope::arrow::batch::{Batch, parse};
use crate::envelope::arrow::messages::Messages;
use crate::envelope::arrow::values::{Fault, Part, Reader};
use crate::envelope::{Column, FixedPlaces, Survey, Values, huggingface};
use crate::{Error, MAX_SHARD_SAMPLES, ReadAt};

/// A column of the schema each; those of structs by their path.
pub(crate) fn survey(file: &ReadAt) -> Result<Survey, Error> {
    let (mut messages, schema) = Messages::open(file)?;
    let bad = |reason: String| Error::malformed(file.path(), reason);
    let mut rows = 0_u64;
    let mut columns: Vec<(String, Part)> = Vec::new();
    while let Some(message) = messages.next()? {
        let batch = parse(&message).map_err(bad)?;
        rows = rows.saturating_add(batch.rows);
        // A column of nulls takes no bytes: nothing else bounds its rows.
        if batch.rows > file.len_bytes().saturating_mul(8) || rows > MAX_SHARD_SAMPLES {
            return Err(bad(format!("a batch of {} rows", batch.rows)));
        }
        let found = read(file, &schema, batch).map_err(|fault| match fault {
            Fault::Damaged(reason) => bad(format!("the batch at byte {}: {reason}", message.body)),
            Fault::Read(error) => error,
        })?;
        if columns.is_empty() {
            columns = found;
        } else {
            join(&mut columns, found);
        }
    }
    let columns = columns.into_iter().map(|(name, part)| Column { name, values: part.into() });
    let mut columns: Vec<Column> = columns.collect();
    huggingface::join_images(&mut columns);
    let classes = schema.metadata().get(huggingface::NAME).map(|text| huggingface::classes(text));
    Ok(Survey {
        rows: usize::try_from(rows).unwrap_or(0),
        columns,
        classes: classes.unwrap_or_default(),
    })
}

fn read(file: &ReadAt, schema: &Schema, batch: Batch) -> Result<Vec<(String, Part)>, Fault> {
    let plain = batch.compression.is_none();
    let mut reader = Reader { file, parts: batch.parts, plain };
    let mut found = Vec::new();
    for column in schema.fields() {
        found.extend(reader.column(column, batch.rows)?);
    }
    if let Some(codec) = batch.compression {
        for (_, part) in &mut found {
            *part = Part::NotStored(format!("it is compressed ({codec})"));
        }
    }
    Ok(found)
}

/// Appends the values of a further batch.
fn join(columns: &mut [(String, Part)], found: Vec<(String, Part)>) {
    for ((_, all), (_, more)) in columns.iter_mut().zip(found) {
        match (&mut *all, more) {
            (Part::Bytes(all), Part::Bytes(more)) => all.extend(more),
            (Part::Texts(all), Part::Texts(more)) => all.extend(more),
            (Part::Integers(all), Part::Integers(more)) => all.extend(more),
            (
                Part::Fixed { dtype, shape, offsets },
                Part::Fixed { dtype: d, shape: s, offsets: more },
            ) if (&*dtype, &*shape) == (&d, &s) => offsets.extend(more),
            (Part::NotStored(_), _) => {}
            (_, Part::NotStored(reason)) => *all = Part::NotStored(reason),
            _ => *all = Part::NotStored("its batches differ".to_owned()),
        }
    }
}

impl From<Part> for Values {
    fn from(part: Part) -> Self {
        match part {
            Part::Bytes(runs) => Self::Bytes(runs),
            Part::Fixed { dtype, shape, offsets } => {
                Self::Fixed { dtype, shape, places: FixedPlaces::Offsets(offsets) }
            }
            Part::Integers(values) => Self::Integers(values),
            Part::Texts(texts) => Self::Texts(texts),
            Part::NotStored(reason) => Self::NotStored(reason),
        }
    }
}
