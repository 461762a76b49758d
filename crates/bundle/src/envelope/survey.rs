//! The result of a survey: what an indexer finds by walking a file's own structure.

use std::collections::BTreeMap;

use crate::envelope::known;
use crate::{Dtype, Envelope, Error, ReadAt};

/// The samples of a file, ours or somebody else's, as columns of stored runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The number of samples; every column has as many values.
    pub rows: usize,
    /// The columns of the file, in its order.
    pub columns: Vec<Column>,
    /// Names of label values, by the column that the file gives them to; by
    /// the empty name where it does not say which.
    pub classes: BTreeMap<String, Vec<String>>,
}

/// One part of every sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name in the file; in files that Gular wrote, the field's name, or `key`.
    pub name: String,
    /// Its values.
    pub values: Values,
}

/// The values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// Opaque bytes, each one stored run; `None` where there is nothing.
    Bytes(Vec<Option<Run>>),
    /// Values of one type and shape, row-major, little-endian, each one stored run.
    Fixed {
        /// The type of their elements.
        dtype: Dtype,
        /// The shape of one value.
        shape: Vec<u64>,
        /// Where they are.
        places: FixedPlaces,
    },
    /// Integers by value: labels. `None` where there is nothing.
    Integers(Vec<Option<i64>>),
    /// Texts by value: keys, class names. `None` where there is nothing.
    Texts(Vec<Option<String>>),
    /// They exist, but cannot be read in place, for this reason.
    NotStored(String),
}

/// Where values of equal size are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FixedPlaces {
    /// Value `i` starts at this byte + `i` · the size of one.
    Stride(u64),
    /// The first byte of each.
    Offsets(Vec<u64>),
}

/// A contiguous run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// The first byte in the file.
    pub offset: u64,
    /// How many there are.
    pub len: u64,
}

impl Survey {
    /// The column of this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }
}

/// Walks a file of format `envelope`.
///
/// Reads structure, not values; memory follows the number of samples.
///
/// # Errors
/// [`Error::Malformed`] when it is damaged or of another format,
/// [`Error::NotInPlace`] when nothing in it could be read in place;
/// [`Error::Unwalked`] of a format that this build leaves out.
pub fn survey(file: &ReadAt, envelope: Envelope) -> Result<Survey, Error> {
    known::survey(file, envelope)
}
