//! What is wrong with a file of datasets.

use std::io;

use crate::facts::MOST_BYTES;

/// Most groups and datasets of a file.
pub(crate) const MOST_OBJECTS: usize = 10_000;

/// Why a file of datasets cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetFault {
    /// The file, or the dataset, is damaged or uses what is not read.
    #[error("{0}")]
    Format(#[from] Box<hdf5_reader::error::Error>),
    /// An array that cannot be read to its end.
    #[error("`{dataset}` cannot be read: {source}")]
    Array {
        /// The array.
        dataset: String,
        /// Why.
        source: io::Error,
    },
    /// More groups and datasets than are looked at.
    #[error("it has more than {MOST_OBJECTS} groups and datasets")]
    ManyObjects,
    /// A dataset whose numbers are not those that are meant.
    #[error(
        "the numbers of `{dataset}` may not be the values themselves: it has the attribute `{attribute}`"
    )]
    Packed {
        /// The dataset.
        dataset: String,
        /// The attribute.
        attribute: &'static str,
    },
    /// A row that is larger than a value may be.
    #[error("a row of `{dataset}` has {bytes} bytes, and a value may have at most {MOST_BYTES}")]
    LargeRow {
        /// The dataset.
        dataset: String,
        /// The bytes of a row.
        bytes: u64,
    },
    /// A dataset that another file of the same split also has.
    #[error("it and `{other}` both have a dataset `{dataset}` for the same split")]
    Twice {
        /// The dataset.
        dataset: String,
        /// The other file.
        other: String,
    },
    /// Datasets of one name that differ.
    #[error("its dataset `{dataset}` has rows of {found}, and that of `{other}` of {expected}")]
    Differ {
        /// The dataset.
        dataset: String,
        /// Type, shape and meaning here.
        found: String,
        /// The other file.
        other: String,
        /// Those in the other file.
        expected: String,
    },
    /// Labels that are not those of the images.
    #[error("`{dataset}` has {found} labels, and there are {expected} images")]
    Labels {
        /// The dataset of labels.
        dataset: String,
        /// Its rows.
        found: u64,
        /// The rows of the image.
        expected: u64,
    },
    /// Labels of a kind that is not read.
    #[error("`{dataset}` seems to have the labels, and they cannot be read: they are {found}")]
    LabelType {
        /// The dataset of labels.
        dataset: String,
        /// What it has.
        found: String,
    },
    /// A label that is not a class.
    #[error("row {row} of `{dataset}` is not a class: expected an integer, or one 1 among zeros")]
    NotAClass {
        /// The dataset of labels.
        dataset: String,
        /// The row.
        row: u64,
    },
}

impl From<hdf5_reader::error::Error> for DatasetFault {
    fn from(error: hdf5_reader::error::Error) -> Self {
        Self::Format(Box::new(error))
    }
}
