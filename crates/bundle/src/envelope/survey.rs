//! The result of a survey: what an indexer finds by walking a file's own structure.

use std::collections::BTreeMap;

use crate::envelope::known;
use crate::{Dtype, Envelope, Error, ReadAt};

/// The samples of a file, as columns of byte ranges. Gular or another program may have written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The number of samples; every column has as many values.
    pub rows: usize,
    /// The columns, in the order in which the file has them.
    pub columns: Vec<Column>,
    /// Names of label values, by the column that they belong to; the column's name is empty if the
    /// file does not say which one.
    pub classes: BTreeMap<String, Vec<String>>,
}

/// One part of every sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name of the column in the file; in files that Gular wrote, the field's name, or `key`.
    pub name: String,
    /// Values of the column.
    pub values: Values,
}

/// The values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// Opaque bytes, each in one range of the file; `None` for samples without a value.
    Bytes(Vec<Option<Run>>),
    /// Values of one type and shape, row-major, little-endian, each in one range of the file.
    Fixed {
        /// Type of the elements.
        dtype: Dtype,
        /// The shape of one value.
        shape: Vec<u64>,
        /// Where the values are.
        places: FixedPlaces,
    },
    /// Integers by value, such as labels; `None` for samples without a value.
    Integers(Vec<Option<i64>>),
    /// Texts by value, such as keys and class names; `None` for samples without a value.
    Texts(Vec<Option<String>>),
    /// The values exist, but cannot be read in place, for this reason.
    NotStored(String),
}

/// Where values of equal size are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FixedPlaces {
    /// Value `i` starts at this byte + `i` · the size of one value.
    Stride(u64),
    /// The first byte of each value.
    Offsets(Vec<u64>),
}

/// A contiguous run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// The first byte in the file.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

impl Survey {
    /// Returns the column called `name`.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }
}

/// Walks a file of format `envelope`.
///
/// Only the structure is read, not the values. The memory needed grows with the number of samples.
///
/// # Errors
/// [`Error::Malformed`] when it is damaged or of another format,
/// [`Error::NotInPlace`] when nothing in it could be read in place;
/// [`Error::Unwalked`] of a format that this build leaves out.
pub fn survey(file: &ReadAt, envelope: Envelope) -> Result<Survey, Error> {
    known::survey(file, envelope)
}
