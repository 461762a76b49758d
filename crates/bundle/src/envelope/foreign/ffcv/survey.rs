//! Walks the rows of a `.beton`.

use std::collections::BTreeMap;

use crate::envelope::foreign::ffcv::header::{FfcvKind, Header, Spec};
use crate::envelope::foreign::ffcv::images::{self, ImageEntry};
use crate::envelope::foreign::le::u64_at;
use crate::envelope::{Column, FixedPlaces, Run, Survey, Values};
use crate::{Error, ReadAt};

/// Rows are read in pieces of about this size.
const PIECE: u64 = 1 << 20;

/// Finds a column for each field; the file has no keys.
pub(crate) fn survey(file: &ReadAt) -> Result<Survey, Error> {
    let header = Header::open(file)?;
    let mut found: Vec<Found> = header.fields.iter().map(Found::of).collect();
    let per_piece = PIECE.checked_div(header.row_bytes).unwrap_or(1).max(1);
    let mut piece = Vec::new();
    let mut row = 0;
    while row < header.rows {
        let n = header.rows.saturating_sub(row).min(per_piece);
        let start = header.first_row.saturating_add(row.saturating_mul(header.row_bytes));
        piece.resize(usize::try_from(n.saturating_mul(header.row_bytes)).unwrap_or(0), 0);
        file.read_at(start, &mut piece)?;
        let rows = piece.chunks_exact(usize::try_from(header.row_bytes).unwrap_or(usize::MAX));
        for (bytes, row) in rows.zip(row..) {
            let start = header.first_row.saturating_add(row.saturating_mul(header.row_bytes));
            for (field, found) in header.fields.iter().zip(&mut found) {
                found.add(field, bytes, start, header.table).ok_or_else(|| {
                    let reason =
                        format!("field `{}` of sample {row} is past the last page", field.name);
                    Error::malformed(file.path(), reason)
                })?;
            }
        }
        row = row.saturating_add(n);
    }
    let column = |(field, found): (&Spec, Found)| {
        let values = match (found, &field.kind) {
            (Found::Images(images), _) => images::values(file, &header, &images)?,
            (Found::Runs(runs), _) => Values::Bytes(runs),
            (Found::Offsets(offsets), FfcvKind::Array(dtype, shape)) => Values::Fixed {
                dtype: *dtype,
                shape: shape.clone(),
                places: FixedPlaces::Offsets(offsets),
            },
            (Found::Offsets(offsets), FfcvKind::Number(dtype)) => Values::Fixed {
                dtype: *dtype,
                shape: Vec::new(),
                places: FixedPlaces::Offsets(offsets),
            },
            (Found::Nothing | Found::Offsets(_), FfcvKind::OtherArray(reason)) => {
                Values::NotStored(reason.clone())
            }
            (Found::Nothing | Found::Offsets(_), _) => {
                Values::NotStored("it has no values".to_owned())
            }
        };
        Ok(Column { name: field.name.clone(), values })
    };
    let columns = header.fields.iter().zip(found).map(column).collect::<Result<_, Error>>()?;
    Ok(Survey {
        rows: usize::try_from(header.rows).unwrap_or(0),
        columns,
        classes: BTreeMap::new(),
    })
}

/// The values of a field that were found in the rows so far.
enum Found {
    Images(Vec<ImageEntry>),
    Runs(Vec<Option<Run>>),
    Offsets(Vec<u64>),
    Nothing,
}

impl Found {
    fn of(field: &Spec) -> Self {
        match field.kind {
            FfcvKind::Image => Self::Images(Vec::new()),
            FfcvKind::Bytes | FfcvKind::Json => Self::Runs(Vec::new()),
            FfcvKind::Array(..) | FfcvKind::Number(_) => Self::Offsets(Vec::new()),
            FfcvKind::OtherArray(_) => Self::Nothing,
        }
    }

    /// Adds the value of a row that begins at `start`; `None` if the value is not before `end`.
    fn add(&mut self, field: &Spec, row: &[u8], start: u64, end: u64) -> Option<()> {
        let number = |at: usize| u64_at(row, field.at.checked_add(at)?);
        match self {
            Self::Images(images) => images.push(ImageEntry::parse(row, field.at)?),
            Self::Runs(runs) => {
                let (offset, len) = (number(0)?, number(8)?);
                offset.checked_add(len).filter(|past| *past <= end)?;
                // JSON has a zero byte at its end.
                let len = len.saturating_sub(u64::from(field.kind == FfcvKind::Json));
                runs.push(Some(Run { offset, len }));
            }
            Self::Offsets(offsets) => match &field.kind {
                FfcvKind::Array(dtype, shape) => {
                    let offset = number(0)?;
                    let size =
                        shape.iter().try_fold(dtype.size_bytes(), |acc, n| acc.checked_mul(*n))?;
                    offset.checked_add(size).filter(|past| *past <= end)?;
                    offsets.push(offset);
                }
                _ => offsets.push(start.checked_add(field.at as u64)?),
            },
            Self::Nothing => {}
        }
        Some(())
    }
}
