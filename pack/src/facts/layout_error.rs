//! Why a source could not be read by patterns.

use super::{Doubt, PatternError};

/// What is wrong with a layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A text that is not a pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The folders can be read in several ways.
    #[error(transparent)]
    Doubt(#[from] Doubt),
    /// A path that a pattern divides in two ways.
    #[error(
        "the pattern `{pattern}` fits `{path}` in two ways: `{name}` may be `{short}` or `{long}`"
    )]
    TwoReadings {
        /// The file.
        path: String,
        /// The pattern.
        pattern: String,
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
}
