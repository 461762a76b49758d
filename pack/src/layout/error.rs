//! Why a source could not be read by patterns.

use super::Unread;
use crate::facts::{
    BadInput, Doubt, OtherFiles, Pattern, PatternError, RunError, TwoReadings, counted, room_error,
};
use crate::source::SourceError;

/// What is wrong with a layout.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// What can end a run at any step.
    #[error(transparent)]
    Run(RunError),
    /// What is wrong with the source.
    #[error(transparent)]
    Source(SourceError),
    /// A text that is not a pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The folders can be read in several ways.
    #[error(transparent)]
    Doubt(#[from] Doubt),
    /// A known dataset that has something that is not read.
    #[error("this is {title}, which has {}, and these are not read", unread.what)]
    Unread {
        /// The dataset.
        title: String,
        /// What is not read, and how to convert it.
        unread: Unread,
    },
    /// A path that a pattern divides in two ways.
    #[error(
        "the pattern `{pattern}` fits `{path}` in two ways: `{name}` may be `{short}` or `{long}`"
    )]
    TwoReadings {
        /// The file.
        path: Box<str>,
        /// The pattern.
        pattern: Box<str>,
        /// The first name whose values differ.
        name: String,
        /// Its shortest value.
        short: String,
        /// Its longest value.
        long: String,
    },
    /// A path that two patterns fit equally well.
    #[error("the patterns `{first}` and `{second}` fit `{path}` equally well")]
    TwoPatterns {
        /// The file.
        path: String,
        /// One of the patterns.
        first: String,
        /// The other pattern.
        second: String,
    },
    /// A word that is not a split.
    #[error(
        "`{path}` has the split `{word}`; expected a word for `train`, `val` or `test`, such as `training`, `dev` or `eval`"
    )]
    UnknownSplit {
        /// The file.
        path: String,
        /// What should have been a split.
        word: String,
    },
    /// A value of a column of splits that is not one.
    #[error(
        "`{word}` in column `{column}` of `{path}` line {line} is not a split; expected `train`, `val` or `test`"
    )]
    NoSplit {
        /// The table.
        path: String,
        /// Its line.
        line: u64,
        /// What should have been a split.
        word: String,
        /// The column.
        column: String,
        /// The column with the splits that its values may stand for.
        meant: String,
    },
    /// A file of annotations in a format that is not read.
    #[error("`{path}` is in the format of {name}, which is not read")]
    UnreadFormat {
        /// The file.
        path: String,
        /// The program or dataset.
        name: &'static str,
        /// How to convert it.
        convert: &'static str,
    },
    /// A name that no field may have.
    #[error("the pattern `{pattern}` names a part `{name}`, which cannot be the name of a field")]
    NoField {
        /// The pattern.
        pattern: String,
        /// The name.
        name: String,
    },
    /// A name that is nearly one that means something.
    #[error(
        "the pattern `{pattern}` has a part `{name}`, which would become a field of text; `{meant}` may be meant"
    )]
    Meant {
        /// The pattern.
        pattern: String,
        /// The name.
        name: String,
        /// The name that may be meant.
        meant: &'static str,
    },
    /// A name that one pattern has and another has not.
    #[error("the pattern `{pattern}` has no `{name}`, which `{other}` has")]
    Lacks {
        /// The pattern without the name.
        pattern: String,
        /// The name.
        name: String,
        /// The pattern with the name.
        other: String,
    },
    /// Paths and fractions that both say the split.
    #[error("the folders are splits already, so fractions cannot make splits")]
    SplitTwice {
        /// Patterns that take no split from the folders.
        patterns: Vec<String>,
    },
    /// Patterns of a field and of the images, which have no name in common.
    #[error(
        "the pattern `{pattern}` has no part in common with `{images}`, so no file belongs to an image"
    )]
    NothingShared {
        /// The pattern of the field.
        pattern: String,
        /// A pattern of the images.
        images: String,
    },
    /// Images that no pattern fits.
    #[error("{} no pattern: {images}; {} {patterns}", if *n == 1 { "1 image fits".to_owned() } else { format!("{n} images fit") }, if *one { "the pattern is" } else { "the patterns are" })]
    Unmatched {
        /// Number of images.
        n: u64,
        /// The first images.
        images: String,
        /// The patterns.
        patterns: String,
        /// Whether there is one pattern.
        one: bool,
    },
    /// There is nothing to pack.
    #[error("no {what} below `{path}`{ignored}")]
    NoImages {
        /// The kind of file that was looked for.
        what: &'static str,
        /// The folder.
        path: String,
        /// Other files that were found, beginning with `; `, or nothing.
        ignored: String,
        /// What these are, for the most part.
        others: OtherFiles,
        /// The images that were left out, where that was all of them.
        left_out: Vec<BadInput>,
    },
    /// There are many arrays beside pictures, which may be their previews or masks.
    #[error(
        "`{path}` has {pictures} pictures beside {arrays} TIFF, NumPy or JPEG 2000 files, which would be left out"
    )]
    ManyArrays {
        /// The folder or archive.
        path: String,
        /// The number of arrays.
        arrays: u64,
        /// The number of pictures.
        pictures: u64,
    },
    /// A file that is not a table.
    #[error(
        "`{0}` is not a table; its name must end in .csv, .tsv, .jsonl or .parquet, or in .json for COCO's boxes"
    )]
    NoTable(String),
    /// A list whose lines have no names.
    #[error("the list `{path}` has no line of names; its first line is `{first}`")]
    NoLines {
        /// The file.
        path: String,
        /// Its first line.
        first: String,
    },
    /// Images for which a table has two rows.
    #[error("{} more than one row in the table: {names}", counted(*n, "image has", "images have"))]
    DoubledRows {
        /// Number of images.
        n: u64,
        /// The first images, and the places of their rows.
        names: String,
    },
    /// Rows whose name matches several images.
    #[error("{} more than one image: {names}", counted(*n, "row matches", "rows match"))]
    UnclearRows {
        /// Number of rows.
        n: u64,
        /// The first rows, and their places.
        names: String,
    },
    /// A table that names other images.
    #[error(
        "no row of the table matches an image: the {n_rows} rows name {rows}; the {n_images} images are {images}"
    )]
    NothingJoins {
        /// Number of rows.
        n_rows: u64,
        /// The first rows.
        rows: String,
        /// Number of images.
        n_images: u64,
        /// The first images.
        images: String,
    },
}

impl LayoutError {
    /// Makes the error of a `path` that `pattern` divides in two ways.
    pub(crate) fn two_readings(path: &str, pattern: &Pattern, two: TwoReadings) -> Self {
        let TwoReadings { name, values: [short, long] } = two;
        let (path, pattern) = (path.into(), pattern.to_string().into());
        Self::TwoReadings { path, pattern, name, short, long }
    }
}

room_error!(LayoutError, SourceError as Source(Run));
