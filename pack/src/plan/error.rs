//! Why a plan cannot be made.

use gular_bundle::FieldName;

use crate::facts::{RunError, counted, room_error};
use crate::layout::LayoutError;
use crate::source::SourceError;

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// What can end a run at any step.
    #[error(transparent)]
    Run(RunError),
    /// What is wrong with the source.
    #[error(transparent)]
    Source(SourceError),
    /// What is not clear about the meaning of the source.
    #[error(transparent)]
    Layout(LayoutError),
    /// Two names that other file systems would take for one.
    #[error("`{first}` and `{second}` differ only in upper and lower case")]
    CaseCollision {
        /// One of the keys.
        first: String,
        /// The other key.
        second: String,
    },
    /// Images for which a table has no label.
    #[error("{} no label: {images}; {why}", counted(*n, "image has", "images have"))]
    Unlabelled {
        /// Number of images.
        n: u64,
        /// The first images.
        images: String,
        /// Where labels were searched for.
        why: String,
    },
    /// Images of 8 and of 16 bits, where all are to have one type.
    #[error("the images differ in depth: `{narrow}` has 8 bits per value, `{wide}` has 16")]
    MixedDepth {
        /// The first image with 8 bits.
        narrow: String,
        /// The first image with 16 bits.
        wide: String,
    },
    /// Arrays of unlike types or shapes, which one field cannot hold.
    #[error("the arrays differ: {most}; {others}")]
    MixedArrays {
        /// How many have the most common type and shape, which it is, and the first of them.
        most: String,
        /// How many have another one, the first of them and what it is.
        others: String,
        /// Whether these two differ in rows and columns only.
        only_size: bool,
    },
    /// The axes of an array are not known: which of them holds the bands, say.
    #[error("`{key}` has the shape {shape:?}, which can be read in more than one way")]
    UnknownAxes {
        /// The array.
        key: String,
        /// The field that it is of.
        field: FieldName,
        /// Its shape.
        shape: Vec<u64>,
    },
    /// An array of more or fewer axes than can be named.
    #[error("`{key}` has the shape {shape:?}, and an image that is an array needs 1 to 5 axes")]
    NoAxes {
        /// The array.
        key: String,
        /// Its shape.
        shape: Vec<u64>,
    },
    /// The axes that were given are not those of an array.
    #[error("the axes that were given do not fit `{key}`: {reason}")]
    WrongAxes {
        /// The array.
        key: String,
        /// What was expected and found.
        reason: String,
    },
}

room_error!(PlanError, SourceError as Source(Run), LayoutError as Layout(Run, Source));
