//! Labels in a dataset: the number of a class in each row, or a 1 at its place.

use std::collections::{BTreeMap, BTreeSet};

use gular_bundle::Dtype;

use super::file::Found;
use super::rows::{Column, DatasetRows};
use crate::facts::{Numbering, RunError, Words};
use crate::source::{DatasetFault, LabelColumn, SourceError, SourceOptions, listed_classes};

/// The labels of all rows, by the folder of their split.
#[derive(Debug, Default)]
pub(crate) struct LabelRows {
    labels: BTreeMap<String, Vec<i32>>,
    classes: Vec<String>,
}

impl DatasetRows {
    /// Reads the labels and returns the classes; `None` if there are no labels. Takes 4 bytes of
    /// memory for each row.
    pub(crate) fn read_labels(
        &self,
        options: &SourceOptions<'_>,
    ) -> Result<Option<Vec<String>>, SourceError> {
        let Some(LabelColumn::Named(name)) = options.label_column else { return Ok(None) };
        if let Some(known) = self.labels.get() {
            return Ok(Some(known.classes.clone()));
        }
        let images = self.columns.iter().filter(|column| column.is_image(options));
        let mut labels = BTreeMap::new();
        for image in images {
            let is_label = |of: &&Column| of.prefix == image.prefix && of.name == *name;
            let Some(of_label) = self.columns.iter().find(is_label) else {
                let images = format!("{}{}", image.prefix, image.name);
                return Err(SourceError::NoLabels { images, missing: name.clone() });
            };
            let (found, expected) = (of_label.found.n, image.found.n);
            let dataset = of_label.found.name.clone();
            if found != expected || of_label.groups != image.groups {
                let fault = DatasetFault::Labels { dataset, found, expected };
                return Err(SourceError::datasets(&of_label.file, fault));
            }
            let of_rows = classes_of(&of_label.found);
            let of_rows = of_rows.map_err(|fault| SourceError::datasets(&of_label.file, fault))?;
            labels.insert(image.prefix.clone(), of_rows);
        }
        let numbers: BTreeSet<i32> = labels.values().flatten().copied().collect();
        let words = Words {
            words: numbers.iter().map(ToString::to_string).collect(),
            most: numbers.last().map(|most| i64::from(*most)),
        };
        let shown = self.path().display().to_string();
        let given = listed_classes(options.classes)?;
        let Numbering { classes, numbers } = Numbering::new(words, given, true, name, &shown)?;
        for label in labels.values_mut().flatten().filter(|label| **label >= 0) {
            let number = numbers.get(&label.to_string());
            *label = match number.map(i32::try_from) {
                Some(Ok(number)) => number,
                None if classes.is_empty() => *label,
                _ => {
                    let (class, n) = (label.to_string(), classes.len());
                    return Err(RunError::unknown_class(shown, class, n).into());
                }
            };
        }
        let rows = self.labels.get_or_init(|| LabelRows { labels, classes });
        Ok(Some(rows.classes.clone()))
    }

    /// The label of a row of an image.
    pub(crate) fn label(&self, key: &str) -> Option<i64> {
        let labels = self.labels.get()?;
        let (column, row) = self.find(key)?;
        let of_split = labels.labels.get(&column.prefix)?;
        of_split.get(usize::try_from(row).ok()?).map(|label| (*label).into())
    }
}

/// The class of each row; -1 for a negative number and for the nodata value, which stand for no class.
fn classes_of(found: &Found) -> Result<Vec<i32>, DatasetFault> {
    let row_bytes = found.kind.bytes().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let number = usize::try_from(found.kind.dtype.size_bytes()).unwrap_or(1);
    let is_one = found.kind.is_one();
    let mut classes = Vec::new();
    let mut next = 0_u64;
    while next < found.n && row_bytes > 0 {
        let n = found.rows_per_block();
        for row in found.rows(next, n)?.chunks_exact(row_bytes) {
            let mut numbers = row.chunks_exact(number).map(|bytes| value(found.kind.dtype, bytes));
            let class = match is_one {
                true => numbers.next().flatten().map(|class| match found.kind.nodata {
                    Some(none) if none == f64::from(class) => -1,
                    _ => class.max(-1),
                }),
                false => place_of_one(numbers),
            };
            let row = classes.len() as u64;
            classes.push(class.ok_or_else(|| {
                let dataset = found.name.clone();
                DatasetFault::NotAClass { dataset, row }
            })?);
        }
        next = next.saturating_add(n);
    }
    Ok(classes)
}

/// The place of the only 1 among zeros.
fn place_of_one(numbers: impl Iterator<Item = Option<i32>>) -> Option<i32> {
    let mut place = None;
    for (at, number) in (0..).zip(numbers) {
        match number? {
            0 => {}
            1 if place.is_none() => place = Some(at),
            _ => return None,
        }
    }
    place
}

/// A number as an integer, if it is one.
fn value(dtype: Dtype, bytes: &[u8]) -> Option<i32> {
    let whole = |number: f64| {
        let is_whole = number.trunc() == number && number.abs() <= f64::from(i32::MAX);
        is_whole.then_some(number as i32)
    };
    match dtype {
        Dtype::U8 => bytes.first().map(|n| (*n).into()),
        Dtype::I8 => bytes.first().map(|n| n.cast_signed().into()),
        Dtype::U16 => bytes.first_chunk().map(|n| u16::from_le_bytes(*n).into()),
        Dtype::I16 => bytes.first_chunk().map(|n| i16::from_le_bytes(*n).into()),
        Dtype::U32 => bytes.first_chunk().and_then(|n| u32::from_le_bytes(*n).try_into().ok()),
        Dtype::I32 => bytes.first_chunk().map(|n| i32::from_le_bytes(*n)),
        Dtype::I64 => bytes.first_chunk().and_then(|n| i64::from_le_bytes(*n).try_into().ok()),
        Dtype::F16 => {
            bytes.first_chunk().and_then(|n| whole(half::f16::from_le_bytes(*n).to_f64()))
        }
        Dtype::F32 => bytes.first_chunk().and_then(|n| whole(f32::from_le_bytes(*n).into())),
        Dtype::F64 => bytes.first_chunk().and_then(|n| whole(f64::from_le_bytes(*n))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hot_rows_have_one_one() {
        let check = |numbers: &[i32], expected| {
            assert_eq!(place_of_one(numbers.iter().map(|n| Some(*n))), expected, "{numbers:?}");
        };
        check(&[0, 0, 1], Some(2));
        check(&[1, 0, 1], None);
        check(&[0, 0], None);
        check(&[0, 2], None);
    }

    #[test]
    fn numbers_are_classes_if_they_are_whole() {
        assert_eq!(value(Dtype::F64, &3_f64.to_le_bytes()), Some(3));
        assert_eq!(value(Dtype::F32, &0.5_f32.to_le_bytes()), None);
        assert_eq!(value(Dtype::F64, &f64::NAN.to_le_bytes()), None);
        assert_eq!(value(Dtype::I64, &i64::MAX.to_le_bytes()), None);
        assert_eq!(value(Dtype::I8, &[255]), Some(-1));
    }
}
