//! Makes the index of one file.

use std::collections::{BTreeSet, HashMap};

use gular_bundle::{
    BundlePath, Column, Dtype, Field, FieldPlaces, FixedPlaces, ReadAt, Row, Run, Survey, Values,
};
use serde::{Deserialize, Serialize};

use crate::adopt::{columns::Roles, columns::Take, keys::split_and_class};
use crate::error::Error;

/// Finds the values of every field in a file; with `by_folder`, keys begin with
/// their split.
pub(crate) fn places(
    file: &ReadAt,
    survey: &Survey,
    keys: &[BundlePath],
    roles: &Roles,
    by_folder: bool,
) -> Result<Vec<FieldPlaces>, Error> {
    let of_field =
        |role: &(Field, String, Take)| field_places(file, survey, keys, roles, by_folder, role);
    roles.fields.iter().map(of_field).collect()
}

fn field_places(
    file: &ReadAt,
    survey: &Survey,
    keys: &[BundlePath],
    roles: &Roles,
    by_folder: bool,
    (field, column, take): &(Field, String, Take),
) -> Result<FieldPlaces, Error> {
    let classes = || -> HashMap<&str, i32> {
        roles.classes.iter().map(String::as_str).zip(0_i32..).collect()
    };
    let found = survey.column(column);
    match take {
        Take::InPlace => in_place(file, found, field, keys),
        Take::Numbers => numbers(file, found, keys),
        Take::Folder => {
            let classes = classes();
            let label = |key: &BundlePath| {
                let class = split_and_class(key.as_str(), by_folder).1;
                class.and_then(|c| classes.get(c)).copied()
            };
            Ok(FieldPlaces::Labels(keys.iter().map(|k| label(k).unwrap_or(-1)).collect()))
        }
        Take::Words => {
            let classes = classes();
            let label = |text: &Option<String>| {
                text.as_deref().and_then(|t| classes.get(t)).copied().unwrap_or(-1)
            };
            Ok(FieldPlaces::Labels(match found.map(|c| &c.values) {
                Some(Values::Texts(texts)) => texts.iter().map(label).collect(),
                _ => vec![-1; survey.rows],
            }))
        }
    }
}

/// The label of every sample, -1 where it has none; empty without a field of labels.
pub(crate) fn labels(
    file: &ReadAt,
    survey: &Survey,
    keys: &[BundlePath],
    roles: &Roles,
    by_folder: bool,
) -> Result<Vec<i32>, Error> {
    let Some((field, column, take)) = roles.fields.iter().find(|(f, _, _)| f.is_label()) else {
        return Ok(Vec::new());
    };
    // The labels are stored in the index, even if a reader could take them from the file.
    let take = if *take == Take::InPlace { Take::Numbers } else { *take };
    match field_places(
        file,
        survey,
        keys,
        roles,
        by_folder,
        &(field.clone(), column.clone(), take),
    )? {
        FieldPlaces::Labels(labels) => Ok(labels),
        FieldPlaces::Bytes(_) | FieldPlaces::Fixed(_) => Ok(Vec::new()),
    }
}

/// Returns the places of these rows alone.
pub(crate) fn select(places: FieldPlaces, rows: &[usize], field: &Field) -> FieldPlaces {
    let all = |n: usize| rows.len() == n;
    match places {
        FieldPlaces::Bytes(runs) if !all(runs.len()) => {
            FieldPlaces::Bytes(rows.iter().filter_map(|row| runs.get(*row).copied()).collect())
        }
        FieldPlaces::Labels(labels) if !all(labels.len()) => {
            FieldPlaces::Labels(rows.iter().filter_map(|row| labels.get(*row).copied()).collect())
        }
        FieldPlaces::Fixed(_) => {
            let offset = |row: &usize| places.run(Row(*row), field).map(|run| run.offset);
            // Rows without gaps still have one stride.
            match (&places, rows.iter().enumerate().all(|(i, row)| i == *row)) {
                (_, true) => places,
                _ => FieldPlaces::Fixed(FixedPlaces::Offsets(
                    rows.iter().filter_map(offset).collect(),
                )),
            }
        }
        places => places,
    }
}

fn in_place(
    file: &ReadAt,
    column: Option<&Column>,
    field: &Field,
    keys: &[BundlePath],
) -> Result<FieldPlaces, Error> {
    match column.map(|c| &c.values) {
        Some(Values::Fixed { places, .. }) => Ok(FieldPlaces::Fixed(places.clone())),
        Some(Values::Bytes(runs)) => {
            let is_image = field.is_image();
            if let Some(row) = runs.iter().position(Option::is_none).filter(|_| is_image) {
                let key = keys.get(row).map(ToString::to_string).unwrap_or_default();
                return Err(Error::NoImage { path: file.path(), key });
            }
            Ok(FieldPlaces::Bytes(runs.iter().map(|r| r.unwrap_or_default()).collect()))
        }
        // A file without this column: every value is empty.
        _ => Ok(FieldPlaces::Bytes(vec![Run::default(); keys.len()])),
    }
}

fn numbers(
    file: &ReadAt,
    column: Option<&Column>,
    keys: &[BundlePath],
) -> Result<FieldPlaces, Error> {
    let narrow = |row: usize, wide: i64| {
        i32::try_from(wide).map_err(|_| gular_bundle::Error::Value {
            key: keys.get(row).map(ToString::to_string).unwrap_or_default(),
            reason: format!("label {wide} is not a 32-bit number"),
        })
    };
    let labels = match column.map(|c| &c.values) {
        Some(Values::Integers(values)) => values
            .iter()
            .enumerate()
            .map(|(row, v)| v.map_or(Ok(-1), |v| narrow(row, v)))
            .collect::<Result<Vec<i32>, _>>()?,
        Some(Values::Fixed { dtype, places, .. }) => {
            let mut labels = Vec::with_capacity(keys.len());
            for row in 0..keys.len() {
                labels.push(narrow(row, integer(file, *dtype, places, row)?)?);
            }
            labels
        }
        _ => vec![-1; keys.len()],
    };
    Ok(FieldPlaces::Labels(labels))
}

/// Reads one little-endian integer of a column.
fn integer(
    file: &ReadAt,
    dtype: Dtype,
    places: &FixedPlaces,
    row: usize,
) -> Result<i64, gular_bundle::Error> {
    let size = dtype.size_bytes();
    let offset = match places {
        FixedPlaces::Stride(base) => base.saturating_add(size.saturating_mul(row as u64)),
        FixedPlaces::Offsets(offsets) => offsets.get(row).copied().unwrap_or(u64::MAX),
    };
    let mut bytes = [0; 8];
    let part = bytes.get_mut(..usize::try_from(size).unwrap_or(8)).unwrap_or_default();
    file.read_at(offset, part)?;
    Ok(dtype.integer(part))
}

/// The media types of a field's values, by their first bytes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct MediaTypes {
    pub(crate) known: BTreeSet<String>,
    /// Values of no known image type, empty ones not counted.
    pub(crate) unknown: u64,
}

impl MediaTypes {
    pub(crate) fn look(&mut self, value: &[u8]) {
        match gular_bundle::sniff(value) {
            Some(media_type) if self.known.contains(media_type) => {}
            Some(media_type) => drop(self.known.insert(media_type.to_owned())),
            None if value.is_empty() => {}
            None => self.unknown += 1,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.known.extend(other.known.iter().cloned());
        self.unknown += other.unknown;
    }

    /// The media types as a manifest lists them; `column` is a hint for unknown bytes.
    pub(crate) fn list(&self, column: &str) -> Vec<String> {
        let mut types: Vec<String> = self.known.iter().cloned().collect();
        if self.unknown > 0 || types.is_empty() {
            let extension = column.rsplit('.').next().unwrap_or_default();
            types.push(
                match extension {
                    "json" => "application/json",
                    "txt" => "text/plain",
                    _ => "application/octet-stream",
                }
                .to_owned(),
            );
        }
        types
    }
}
