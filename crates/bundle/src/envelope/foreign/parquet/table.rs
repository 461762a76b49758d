//! A Parquet file as a table: cells by value, one row group at a time.

use std::collections::BTreeSet;

use crate::envelope::foreign::parquet::codec;
use crate::envelope::foreign::parquet::column::{Column, Fault};
use crate::envelope::foreign::parquet::footer::Footer;
use crate::envelope::foreign::parquet::schema::ColumnKind;
use crate::envelope::foreign::parquet::survey::most_texts;
use crate::{Dtype, Error, ReadAt};

/// A Parquet file of small values, such as the labels of images. Only numbers and texts are read.
#[derive(Debug)]
pub struct ParquetTable {
    file: ReadAt,
    footer: Footer,
    /// The leaves that are columns; a list of groups has several leaves with the same name.
    leaves: Vec<usize>,
}

/// Lists of numbers in a cell; `None` for lists and numbers that are missing.
pub type FloatLists = Vec<Option<Vec<Option<f64>>>>;

/// The cells of a column in a row group; `None` for empty cells.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Integers of at most 64 bits.
    Integers(Vec<Option<i64>>),
    /// Numbers.
    Floats(Vec<Option<f64>>),
    /// Texts.
    Texts(Vec<Option<String>>),
    /// Lists of texts.
    TextLists(Vec<Option<Vec<Option<String>>>>),
    /// Lists of integers.
    IntegerLists(Vec<Option<Vec<Option<i64>>>>),
    /// Lists of numbers.
    FloatLists(Vec<Option<Vec<Option<f64>>>>),
    /// Lists of lists of numbers.
    FloatListLists(Vec<Option<FloatLists>>),
    /// Truth values.
    Bools(Vec<Option<bool>>),
    /// The column is not read, for this reason.
    Unread(String),
}

impl ParquetTable {
    /// Reads the file's footer.
    ///
    /// # Errors
    /// [`Error::Malformed`] and the like when it is not Parquet, or damaged.
    pub fn open(file: ReadAt) -> Result<Self, Error> {
        let footer = Footer::read(&file)?;
        let mut names = BTreeSet::new();
        let named = footer.leaves.iter().enumerate();
        let leaves = named.filter(|(_, leaf)| names.insert(leaf.name.clone())).map(|(i, _)| i);
        Ok(Self { leaves: leaves.collect(), file, footer })
    }

    /// The names of the columns.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        let leaf = |i: &usize| self.footer.leaves.get(*i).map(|leaf| leaf.name.clone());
        self.leaves.iter().filter_map(leaf).collect()
    }

    /// The text that the file's metadata has by this name.
    #[must_use]
    pub fn metadata(&self, name: &str) -> Option<&str> {
        let found = self.footer.metadata.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.as_str())
    }

    /// Whether a column holds bytes that are not texts.
    #[must_use]
    pub fn has_bytes(&self, column: &str) -> bool {
        self.footer.leaves.iter().any(|leaf| leaf.name == column && leaf.kind == ColumnKind::Bytes)
    }

    /// Calls `each` with the bytes of each value of a column in a row group, in order, one page at a
    /// time in memory; returns which rows have a value.
    ///
    /// # Errors
    /// [`Error::Malformed`] when there is no such column, or it is damaged or not read, and the errors
    /// of `each`.
    pub fn bytes(
        &self,
        group: usize,
        column: &str,
        each: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Vec<bool>, Error> {
        let malformed = |reason: String| {
            Error::malformed(self.file.path(), format!("column `{column}`: {reason}"))
        };
        let at = self.footer.leaves.iter().position(|leaf| leaf.name == column);
        let of_group = self.footer.groups.get(group);
        let found = at.zip(of_group).and_then(|(at, group)| {
            Some((self.footer.leaves.get(at)?, group.chunks.get(at)?, group.rows))
        });
        let Some((leaf, chunk, rows)) = found else {
            return Err(malformed("it is missing".to_owned()));
        };
        let column = Column { file: &self.file, leaf, chunks: vec![(chunk, rows)] };
        let read = column.read(&mut |bytes| each(bytes).map_err(Fault::Read));
        let values = read.map_err(|fault| match fault {
            Fault::Read(error) => error,
            Fault::NotStored(reason) | Fault::Damaged(reason) => malformed(reason),
            Fault::Compressed(codec) => malformed(format!("it is compressed with {codec}")),
        })?;
        Ok(values.iter().map(Option::is_some).collect())
    }

    /// The name of the compression of a column that is not read; nothing if all of it is.
    #[must_use]
    pub fn unread_codec(&self, column: &str) -> Option<String> {
        let at = self.footer.leaves.iter().position(|leaf| leaf.name == column)?;
        let chunks = self.footer.groups.iter().filter_map(|group| group.chunks.get(at));
        let unread = chunks.map(|chunk| chunk.codec).find(|codec| !codec::is_read(*codec));
        unread.map(codec::name)
    }

    /// Returns the number of row groups.
    #[must_use]
    pub fn n_groups(&self) -> usize {
        self.footer.groups.len()
    }

    /// Returns the number of rows of a row group, and its cells, column by column.
    ///
    /// # Errors
    /// [`Error::Malformed`] when a column is damaged.
    pub fn group(&self, number: usize) -> Result<(usize, Vec<Cells>), Error> {
        let Some(group) = self.footer.groups.get(number) else { return Ok((0, Vec::new())) };
        let mut left = most_texts(&self.file);
        let mut columns = Vec::with_capacity(self.leaves.len());
        for i in &self.leaves {
            let Some((leaf, chunk)) = self.footer.leaves.get(*i).zip(group.chunks.get(*i)) else {
                continue;
            };
            let column = Column { file: &self.file, leaf, chunks: vec![(chunk, group.rows)] };
            columns.push(match cells(&column, &mut left) {
                Ok(cells) => cells,
                Err(Fault::NotStored(reason)) => Cells::Unread(reason),
                Err(Fault::Compressed(codec)) => {
                    Cells::Unread(format!("it is compressed with {codec}"))
                }
                Err(Fault::Read(error)) => return Err(error),
                Err(Fault::Damaged(reason)) => {
                    let reason = format!("column `{}`: {reason}", leaf.name);
                    return Err(Error::malformed(self.file.path(), reason));
                }
            });
        }
        Ok((usize::try_from(group.rows).unwrap_or(usize::MAX), columns))
    }
}

const OTHER_LISTS: &str = "it holds lists of other things than texts or numbers";

/// Reads the cells of a column; `left` bytes of texts may still be kept.
fn cells(column: &Column<'_>, left: &mut u64) -> Result<Cells, Fault> {
    match &column.leaf.kind {
        ColumnKind::Number { dtype: dtype @ (Dtype::F16 | Dtype::F32 | Dtype::F64), .. } => column
            .read(&mut |bytes| number(*dtype, bytes).ok_or_else(cut_number))
            .map(Cells::Floats),
        ColumnKind::Bools => column.read(&mut |bytes| Ok(bytes == [1])).map(Cells::Bools),
        ColumnKind::Number { dtype, .. } if dtype.is_integer() => {
            column.read(&mut |bytes| Ok(dtype.integer(bytes))).map(Cells::Integers)
        }
        ColumnKind::Unsigned64 => column
            .read(&mut |bytes| {
                let value = Dtype::I64.integer(bytes);
                let large = || Fault::NotStored("it has integers of more than 63 bits".to_owned());
                (value >= 0).then_some(value).ok_or_else(large)
            })
            .map(Cells::Integers),
        ColumnKind::Texts => super::survey::texts(column, left).map(Cells::Texts),
        ColumnKind::Number { .. } => Err(Fault::NotStored("it holds other numbers".to_owned())),
        ColumnKind::Bytes | ColumnKind::Fixed(_) => {
            Err(Fault::NotStored("it holds bytes".to_owned()))
        }
        ColumnKind::List(element) => match &**element {
            ColumnKind::Texts => {
                column.lists(&mut |b| super::survey::text(b, left)).map(Cells::TextLists)
            }
            ColumnKind::Number { dtype, .. } if dtype.is_integer() => {
                column.lists(&mut |bytes| Ok(dtype.integer(bytes))).map(Cells::IntegerLists)
            }
            ColumnKind::Number { dtype: dtype @ (Dtype::F32 | Dtype::F64), .. } => {
                let number = |b: &[u8]| number(*dtype, b).ok_or_else(cut_number);
                column.lists(&mut |bytes| number(bytes)).map(Cells::FloatLists)
            }
            ColumnKind::List(inner) => match **inner {
                ColumnKind::Number { dtype: dtype @ (Dtype::F32 | Dtype::F64), .. } => {
                    let number = |b: &[u8]| number(dtype, b).ok_or_else(cut_number);
                    column.nested(&mut |bytes| number(bytes)).map(Cells::FloatListLists)
                }
                ColumnKind::Number { dtype, .. } if dtype.is_integer() => column
                    .nested(&mut |bytes| Ok(dtype.integer(bytes) as f64))
                    .map(Cells::FloatListLists),
                _ => Err(Fault::NotStored(OTHER_LISTS.to_owned())),
            },
            _ => Err(Fault::NotStored(OTHER_LISTS.to_owned())),
        },
        ColumnKind::Other(reason) => Err(Fault::NotStored(reason.clone())),
    }
}

/// The value of a float of 16 bits (IEEE 754, binary16).
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    match exponent {
        0 => sign * fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2_f64.powi(exponent.saturating_sub(15)),
    }
}

/// Reads a float.
fn number(dtype: Dtype, bytes: &[u8]) -> Option<f64> {
    match dtype {
        Dtype::F16 => bytes.try_into().map(u16::from_le_bytes).map(half).ok(),
        Dtype::F32 => bytes.try_into().map(f32::from_le_bytes).map(f64::from).ok(),
        _ => bytes.try_into().map(f64::from_le_bytes).ok(),
    }
}

fn cut_number() -> Fault {
    Fault::Damaged("a number is cut".to_owned())
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn floats_of_16_bits_are_read() {
        for (bits, value) in [
            (0, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_953_125),
            (0x7bff, 65_504.0),
            (1, 2_f64.powi(-24)),
            (0x7c00, f64::INFINITY),
        ] {
            assert_eq!(half(bits), value, "{bits:x}");
        }
        assert!(half(0x7e00).is_nan());
    }
}
