//! Why something cannot be shown.

use std::io;

use gular_bundle::{Bundle, Dtype, Field, SampleId};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server could not be started.
    #[error("cannot listen at 127.0.0.1, port {port}: {source}")]
    Listen {
        /// The port; 0 for any.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// The bundle could not be read.
    #[error(transparent)]
    Bundle(#[from] gular_bundle::Error),
    /// A value of a published bundle did not arrive.
    #[error(transparent)]
    NotBrought(#[from] gular_bundle::NotBrought),
    /// A condition is not one.
    #[error(transparent)]
    Filter(#[from] gular_bundle::FilterError),
    /// The loader refused.
    #[error(transparent)]
    Loader(#[from] gular_runtime::Error),
    /// Equal or similar images could not be found.
    #[error(transparent)]
    Pack(#[from] gular_pack::Error),
    /// A value cannot be shown as a picture.
    #[error("field `{field}` of `{key}` cannot be shown: {source}")]
    Picture {
        /// The sample's key.
        key: String,
        /// The field's name.
        field: String,
        /// Why.
        source: PictureError,
    },
    /// Pictures were requested of a page that only has training runs.
    #[error("this page was opened without the bundle, which has the samples and their pictures")]
    NoBundle,
    /// A table of predictions cannot be read, or it is not clear what it says.
    #[error("`{path}` cannot be shown as predictions: {source}")]
    Predictions {
        /// The path.
        path: String,
        /// Why.
        source: TableError,
    },
    /// A path is not that of a training run.
    #[error("`{path}` cannot be shown as a training run: {reason}")]
    Run {
        /// The path.
        path: String,
        /// Why.
        reason: String,
    },
    /// A parameter of a request has an impossible value.
    #[error("`{name}`: {reason}")]
    Parameter {
        /// The parameter's name.
        name: &'static str,
        /// What was expected and what was found.
        reason: String,
    },
    /// The loader delivered other samples than the one that is to be shown.
    #[error(
        "sample {wanted} of the split was requested, and the loader delivered {found:?}: this is a bug in gular"
    )]
    OtherSample {
        /// The number of the sample in its split.
        wanted: u64,
        /// The numbers of those that came.
        found: Vec<u64>,
    },
    /// There is a newer request of the same kind, or the client has left.
    #[error("a newer request took the place of this one: show it again")]
    Unwanted,
}

impl Error {
    pub(crate) fn picture(
        bundle: &Bundle,
        sample: SampleId,
        field: &Field,
        source: PictureError,
    ) -> Self {
        let key = bundle.key(sample).map(|key| key.to_string()).unwrap_or_default();
        Self::Picture { key, field: field.name.to_string(), source }
    }
}

/// Why a value is not a picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// The bytes are not those of an array.
    #[error("it is not an array")]
    NotArray,
    /// The array has no rows and columns, or its length is another one.
    #[error("{dtype:?} {shape:?} is not a picture")]
    Shape {
        /// The type of its numbers.
        dtype: Dtype,
        /// Its axes.
        shape: Vec<u64>,
    },
    /// A picture has one band or three.
    #[error("{found} bands were chosen, expected one or three")]
    BandCount {
        /// How many were chosen.
        found: usize,
    },
    /// A band that the value does not have.
    #[error("band {band} does not exist: there are {n}, counted from 0")]
    NoBand {
        /// The band.
        band: usize,
        /// How many there are.
        n: usize,
    },
    /// It could not be decoded, made smaller or encoded.
    #[error(transparent)]
    Codec(#[from] gular_codec::Error),
}

/// Why a table of predictions is not shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A column is missing.
    #[error("expected a column `{}`, found only `{}`", expected.join("` or `"), found.join("`, `"))]
    Column {
        /// The names that it may have.
        expected: &'static [&'static str],
        /// The columns of the table.
        found: Vec<String>,
    },
    /// Two columns have one name.
    #[error("it has two columns `{column}`: leave one out, or give it another name")]
    TwoColumns {
        /// Their name.
        column: String,
    },
    /// A column has classes by name and by number.
    #[error(
        "it has names of classes, such as `{name}`, and numbers, such as `{number}`, in one column: write only one of the two"
    )]
    Mixed {
        /// A cell that is a name.
        name: String,
        /// A cell that is a number.
        number: String,
    },
    /// A cell is the name of one class and the number of another.
    #[error(
        "`{cell}` is the name of one class and the number of another, and no cell says which is meant: write classes by names that are not numbers"
    )]
    Unclear {
        /// The cell.
        cell: String,
    },
    /// A column of a Parquet file that is needed has another type.
    #[error("column `{column}` is not read: {reason}")]
    Unread {
        /// Its name.
        column: String,
        /// Why.
        reason: String,
    },
    /// The CSV file cannot be read.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// The Parquet file cannot be read.
    #[error(transparent)]
    Parquet(#[from] gular_bundle::Error),
}
