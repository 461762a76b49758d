//! The errors of packing, adopting, deriving and converting.

use crate::facts::{RunError, counted, room_error, some};
use crate::layout::LayoutError;
use crate::plan::PlanError;
use crate::shards::ShardError;
use crate::source::SourceError;

/// Why bundles could not be packed, adopted, converted or derived.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What can end a run at any step.
    #[error(transparent)]
    Run(RunError),
    /// What is wrong with the source.
    #[error(transparent)]
    Source(SourceError),
    /// What is not clear about the meaning of the source.
    #[error(transparent)]
    Layout(LayoutError),
    /// Why a plan cannot be made.
    #[error(transparent)]
    Plan(PlanError),
    /// Why shards could not be written.
    #[error(transparent)]
    Shard(ShardError),
    /// A text that is not a condition on samples.
    #[error(transparent)]
    Condition(#[from] gular_bundle::FilterError),
    /// The bundle's folder is inside its own source.
    #[error("the output `{out}` is inside the source `{source_dir}`")]
    Inside {
        /// The output folder.
        out: String,
        /// The source folder.
        source_dir: String,
    },
    /// Bundles that cannot be combined.
    #[error(
        "the bundles cannot be combined: `{path}` has {what} {found}, expected {expected} as in the first bundle"
    )]
    Unlike {
        /// The bundle.
        path: String,
        /// What differs.
        what: String,
        /// The value in the first bundle.
        expected: String,
        /// The value in this bundle.
        found: String,
    },
    /// A key that samples of several bundles have.
    #[error("{} in more than one of the bundles: {keys}", counted(*n, "key is", "keys are"))]
    SharedKeys {
        /// Number of such keys.
        n: u64,
        /// The first keys.
        keys: String,
    },
    /// A list of keys that no sample has.
    #[error("the list has {} that no sample has: {keys}", counted(*n, "key", "keys"))]
    NoSuchKeys {
        /// Number of keys in the list.
        n: u64,
        /// The first keys.
        keys: String,
    },
    /// A bundle whose samples are not pictures.
    #[error("`{0}` has no field `image`, so its samples are not images that could be compared")]
    NoPictures(String),
    /// A new version with another setting than its base.
    #[error(
        "the {setting} must be the same as in the base, so that old and new images are stored alike: the base has {}, this pack has {}",
        or_none(old),
        or_none(new)
    )]
    UnlikeBase {
        /// `payload`, `envelope`, `classes`, or what the manifest calls it in `made`.
        setting: &'static str,
        /// The value in the base.
        old: Option<String>,
        /// The value in the new version.
        new: Option<String>,
    },
    /// A new version with another field than its base.
    #[error("{}", unlike_field(name, old.as_deref(), new.as_deref()))]
    UnlikeField {
        /// The field's name.
        name: String,
        /// The field's type, shape and so on in the base.
        old: Option<String>,
        /// The field's type, shape and so on in the new version.
        new: Option<String>,
    },
    /// A bundle that does not say which files its values were made from.
    #[error(
        "the samples of `{0}` cannot be compared with source files: the bundle does not store the digests of the files that its images were made from"
    )]
    NoSources(String),
    /// A bundle without samples.
    #[error("no sample is left: the selection excludes all {of} samples")]
    NothingTaken {
        /// Number of samples that there were.
        of: u64,
    },
    /// Parts that do not make up one bundle.
    #[error("these parts cannot be merged to a bundle: {}", .0.join("\n  also "))]
    Parts(Vec<String>),
    /// A shard that was written again does not hold what the first one did.
    #[error("reading `{path}` back gave different data than was written: {what} differs")]
    NotEqual {
        /// The new shard.
        path: String,
        /// What differs.
        what: String,
    },
    /// A column whose values are not stored runs of bytes.
    #[error("the column `{column}` cannot be read in place: {reason}")]
    NotInPlace {
        /// The column.
        column: String,
        /// What prevents its use.
        reason: String,
    },
    /// Texts that cannot be keys.
    #[error("the column `{column}` cannot be used for keys: {reason}")]
    BadKeys {
        /// The column.
        column: String,
        /// Why they cannot be keys.
        reason: String,
    },
    /// Samples whose label is missing or -1, where that is not to be.
    #[error("{n} samples have no label or an unknown one: {}", some(keys, *n))]
    UnknownLabels {
        /// Number of samples.
        n: u64,
        /// The keys of the first.
        keys: Vec<String>,
    },
    /// A sample whose input is missing.
    #[error("sample `{key}` of `{path}` has no image")]
    NoImage {
        /// The file.
        path: String,
        /// The sample's key.
        key: String,
    },
    /// A file that would be overwritten.
    #[error("two samples would be written to the same file: `{0}` already exists")]
    Exists(String),
    /// The name of a new file is already used.
    #[error("`{0}` already exists")]
    FileExists(String),
    /// A folder without anything to adopt.
    #[error(
        "the folder `{path}` has no file that can be adopted; expected files that end in {known}"
    )]
    NoFiles {
        /// The folder.
        path: String,
        /// The extensions that are searched for.
        known: String,
    },
    /// Files of several formats, which cannot be one bundle.
    #[error(
        "all files must have the same format: `{first}` has the format `{format}`, `{second}` has `{other}`"
    )]
    MixedFormats {
        /// The first file.
        first: String,
        /// Its format.
        format: &'static str,
        /// A file of another format.
        second: String,
        /// The format of the other file.
        other: &'static str,
    },
}

room_error!(
    Error,
    SourceError as Source(Run),
    LayoutError as Layout(Run, Source),
    PlanError as Plan(Run, Source, Layout),
    ShardError as Shard(Run, Plan)
);

fn unlike_field(name: &str, old: Option<&str>, new: Option<&str>) -> String {
    match (old, new) {
        (None, Some(new)) => {
            format!("this pack has a field named `{name}` (`{new}`), and the base has none")
        }
        (Some(old), None) => {
            format!("the base has a field named `{name}` (`{old}`), and this pack has none")
        }
        _ => format!(
            "the field `{name}` must be the same as in the base: the base has `{}`, this pack has `{}`",
            old.unwrap_or_default(),
            new.unwrap_or_default()
        ),
    }
}

fn or_none(value: &Option<String>) -> String {
    value.as_ref().map_or_else(|| "none".to_owned(), |value| format!("`{value}`"))
}
