//! Surveys an Arrow stream or file, whether Gular wrote it or another program.

use arrow_schema::{DataType, Fields, Schema};

use crate::envelope::foreign::arrow::batch::{Batch, parse};
use crate::envelope::foreign::arrow::bounds::Budget;
use crate::envelope::foreign::arrow::messages::Messages;
use crate::envelope::foreign::arrow::values::{Fault, Part, Reader};
use crate::envelope::foreign::huggingface;
use crate::envelope::{Column, FixedPlaces, Survey, Values};
use crate::{Error, MAX_SHARD_SAMPLES, ReadAt};

/// Names of columns may take no more bytes than this together, since a column repeats the names of
/// all structs around it.
const MAX_NAMES: usize = 16 << 20;

/// Finds a column for each column of the schema; columns in structs are named by their path.
pub(crate) fn survey(file: &ReadAt) -> Result<Survey, Error> {
    let (mut messages, schema) = Messages::open(file)?;
    let bad = |reason: String| Error::malformed(file.path(), reason);
    let mut rows = 0_u64;
    let mut budget = Budget::of(file);
    let mut parts: Vec<Part> = Vec::new();
    let (mut names, mut left) = (Vec::new(), MAX_NAMES);
    list(schema.fields(), "", &mut left, &mut names).map_err(bad)?;
    while let Some(message) = messages.next()? {
        let batch = parse(&message).map_err(bad)?;
        let (before, more) = (rows, batch.rows);
        rows = rows.saturating_add(more);
        // A column of nulls takes no bytes, so only this bounds the number of its rows.
        if more > file.len_bytes().saturating_mul(8) || rows > MAX_SHARD_SAMPLES {
            return Err(bad(format!("a batch of {more} rows")));
        }
        let found = read(file, &schema, batch, &mut budget).map_err(|fault| match fault {
            Fault::Damaged(reason) => bad(format!("the batch at byte {}: {reason}", message.body)),
            Fault::Read(error) => error,
        })?;
        // Without rows there are no lists whose length could be compared.
        if before == 0 {
            parts = found;
        } else if more > 0 {
            for (all, more) in parts.iter_mut().zip(found) {
                join(file, all, more)?;
            }
        }
    }
    let column = |(name, part)| Ok(Column { name, values: values(part, &mut budget)? });
    let columns: Result<Vec<Column>, String> = names.into_iter().zip(parts).map(column).collect();
    let mut columns = columns.map_err(bad)?;
    huggingface::join_images(&mut columns);
    let text = schema.metadata().get(huggingface::NAME);
    let classes = text.map(|text| huggingface::classes(text)).unwrap_or_default();
    Ok(Survey { rows: usize::try_from(rows).unwrap_or(0), columns, classes })
}

/// Lists the names of columns in order. For a struct, the columns inside it are listed.
fn list(
    columns: &Fields,
    prefix: &str,
    left: &mut usize,
    names: &mut Vec<String>,
) -> Result<(), String> {
    for column in columns {
        let name = format!("{prefix}{}", column.name());
        let fits = left.checked_sub(name.len());
        *left = fits
            .ok_or_else(|| format!("the names of its columns take more than {MAX_NAMES} bytes"))?;
        match column.data_type() {
            DataType::Struct(children) => list(children, &format!("{name}."), left, names)?,
            _ => names.push(name),
        }
    }
    Ok(())
}

fn read(
    file: &ReadAt,
    schema: &Schema,
    batch: Batch,
    budget: &mut Budget,
) -> Result<Vec<Part>, Fault> {
    let plain = batch.compression.is_none();
    let mut reader = Reader { file, parts: batch.parts, plain, budget };
    let mut found = Vec::new();
    for column in schema.fields() {
        reader.column(column, batch.rows, &mut found)?;
    }
    if let Some(codec) = batch.compression {
        for part in &mut found {
            *part = Part::NotStored(format!("it is compressed ({codec})"));
        }
    }
    Ok(found)
}

/// Appends the values of a further batch. Integers are left in place if no batch has nulls; else
/// all are read.
fn join(file: &ReadAt, all: &mut Part, more: Part) -> Result<(), Error> {
    let more = match (&mut *all, more) {
        (Part::Fixed { .. }, Part::Integers(more)) => {
            if let Some(read) = integers(file, all)? {
                *all = Part::Integers(read);
            }
            Part::Integers(more)
        }
        (Part::Integers(_), more) => match integers(file, &more)? {
            Some(read) => Part::Integers(read),
            None => more,
        },
        (_, more) => more,
    };
    match (&mut *all, more) {
        (Part::Bytes(all), Part::Bytes(more)) => all.extend(more),
        (Part::Texts(all), Part::Texts(more)) => all.extend(more),
        (Part::Integers(all), Part::Integers(more)) => all.extend(more),
        (
            Part::Fixed { dtype, shape, batches },
            Part::Fixed { dtype: d, shape: s, batches: more },
        ) if (&*dtype, &*shape) == (&d, &s) => batches.extend(more),
        (Part::NotStored(_), _) => {}
        (_, Part::NotStored(reason)) => *all = Part::NotStored(reason),
        _ => *all = Part::NotStored("its batches differ".to_owned()),
    }
    Ok(())
}

/// Reads single integers that are stored in place, after their ranges were checked.
fn integers(file: &ReadAt, part: &Part) -> Result<Option<Vec<Option<i64>>>, Error> {
    let Part::Fixed { dtype, shape, batches } = part else { return Ok(None) };
    if !shape.is_empty() || !dtype.is_integer() {
        return Ok(None);
    }
    let size = usize::try_from(dtype.size_bytes()).unwrap_or(1);
    let mut values = Vec::new();
    for (start, rows) in batches {
        let mut bytes = vec![0; usize::try_from(*rows).unwrap_or(0).saturating_mul(size)];
        file.read_at(*start, &mut bytes)?;
        values.extend(bytes.chunks_exact(size).map(|value| Some(dtype.integer(value))));
    }
    Ok(Some(values))
}

fn values(part: Part, budget: &mut Budget) -> Result<Values, String> {
    Ok(match part {
        Part::Bytes(runs) => Values::Bytes(runs),
        Part::Fixed { dtype, shape, batches } => {
            let size = shape.iter().fold(dtype.size_bytes(), |size, n| size.saturating_mul(*n));
            let mut offsets = Vec::new();
            for (start, rows) in batches {
                budget.take(rows)?;
                let offset = |row: u64| start.saturating_add(row.saturating_mul(size));
                offsets.extend((0..rows).map(offset));
            }
            Values::Fixed { dtype, shape, places: FixedPlaces::Offsets(offsets) }
        }
        Part::Integers(values) => Values::Integers(values),
        Part::Texts(texts) => Values::Texts(texts),
        Part::NotStored(reason) => Values::NotStored(reason),
    })
}
