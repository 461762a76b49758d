//! The errors of packing, adopting, deriving and converting.

use std::fmt;
use std::io;

use gular_bundle::{Digest, FieldName};
use gular_files::Size;

use crate::facts::{ArchiveLimit, DatasetFault, LayoutError, Outside, Part};

/// Why bundles could not be packed, adopted, converted or derived.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(gular_files::Error),
    /// A text that is not a condition on samples.
    #[error(transparent)]
    Condition(#[from] gular_bundle::FilterError),
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
    /// There are many more arrays than pictures, which may be their previews.
    #[error(
        "`{path}` has {pictures} pictures beside {arrays} TIFF, NumPy or JPEG 2000 files, which would be left out"
    )]
    MostlyArrays {
        /// The folder or archive.
        path: String,
        /// The number of arrays.
        arrays: u64,
        /// The number of pictures.
        pictures: u64,
    },
    /// There is nothing to pack but files of a format that is not read.
    #[error("`{path}` {}: {} is not read{ignored}", if *is_file { "cannot be packed" } else { "has nothing that can be packed" }, format.name)]
    Outside {
        /// The file, or the folder or archive with the files.
        path: String,
        /// Whether it is a file, and no folder or archive.
        is_file: bool,
        /// Files that were found, beginning with `; `, or nothing.
        ignored: String,
        /// The format.
        format: &'static Outside,
    },
    /// A path that is neither a folder nor an archive.
    #[error(
        "`{path}` is not a folder or an archive; expected .zip, .tar, .tar.gz, .tgz or .tar.zst"
    )]
    NoSource {
        /// The file.
        path: String,
    },
    /// An archive that cannot be read.
    #[error("archive `{path}` is damaged: {reason}")]
    BadArchive {
        /// The archive.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// One of the files that a large archive was divided into.
    #[error("`{path}` is one part of an archive that was divided into several files")]
    ArchivePart {
        /// The part.
        path: String,
    },
    /// Members that are not plain files of safe names.
    #[error("archive `{path}` has members that cannot be packed: {bad}")]
    BadMembers {
        /// The archive.
        path: String,
        /// The files, and the reason for each.
        bad: BadInputs,
    },
    /// An archive that takes more room unpacked than it may.
    #[error("archive `{path}` is refused, it may be a decompression bomb: {reason}")]
    Expands {
        /// The archive.
        path: String,
        /// The limit that it exceeds.
        limit: ArchiveLimit,
        /// How far it expands.
        reason: String,
    },
    /// The paths of the images cannot be read.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A folder that leads back to one above it.
    #[error("the symbolic link `{link}` leads back to the folder `{target}` above it")]
    Loop {
        /// The link.
        link: String,
        /// The folder that it leads to.
        target: String,
    },
    /// Two names that other file systems would take for one.
    #[error("`{first}` and `{second}` differ only in upper and lower case")]
    CaseCollision {
        /// One of the keys.
        first: String,
        /// The other key.
        second: String,
    },
    /// A class folder that the given list of classes does not have.
    #[error("`{path}` has the class `{class}`, which is not one of the {n} classes in `{list}`")]
    UnknownClass {
        /// A file in the folder.
        path: String,
        /// The folder's name.
        class: String,
        /// The file with the list.
        list: String,
        /// Number of classes in the list.
        n: usize,
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
    /// A file that is not a table.
    #[error(
        "`{path}` is not a table; its name must end in .csv, .tsv, .jsonl or .parquet, or in .json for COCO's boxes"
    )]
    NoTable {
        /// The file.
        path: String,
    },
    /// A list whose lines have no names.
    #[error("the list `{path}` has no line of names; its first line is `{first}`")]
    NoLines {
        /// The file.
        path: String,
        /// Its first line.
        first: String,
    },
    /// A table that cannot be read.
    #[error("the table `{path}`{at} cannot be read: {reason}")]
    Table {
        /// The file.
        path: String,
        /// The line or row, beginning with a space, or nothing.
        at: String,
        /// What is wrong.
        reason: String,
    },
    /// Files of pixels that do not make one dataset.
    #[error("`{path}` cannot be packed as one dataset: {reason}")]
    PixelFiles {
        /// The folder, archive or file.
        path: String,
        /// What is missing, or can be read in several ways.
        reason: String,
    },
    /// A file of pixels, or of what belongs to them, that cannot be read.
    #[error("`{path}` cannot be read as a file of {content}: {reason}")]
    PixelFile {
        /// The file.
        path: String,
        /// What it should have, such as `labels`.
        content: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A file of datasets that cannot be read, or not as the rows of samples.
    #[error("`{path}` cannot be packed: {fault}")]
    Datasets {
        /// The file.
        path: String,
        /// What is wrong.
        #[source]
        fault: Box<DatasetFault>,
    },
    /// A file of images without its file of labels.
    #[error("the images in `{images}` have no labels: `{missing}` is missing beside it")]
    NoLabels {
        /// The file of images.
        images: String,
        /// The name of the file of labels.
        missing: String,
    },
    /// A column that a table does not have.
    #[error("the table `{path}` has no column {}; its columns are {}", wanted_column(what, wanted.as_deref()), all(columns))]
    NoColumn {
        /// The table.
        path: String,
        /// What the column should contain.
        what: &'static str,
        /// The column's name, if it was given.
        wanted: Option<String>,
        /// The columns that exist.
        columns: Vec<String>,
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
    /// Files that cannot be packed.
    #[error("{0}")]
    BadInputs(BadInputs),
    /// The bundle's folder is inside its own source.
    #[error("the output `{out}` is inside the source `{source_dir}`")]
    Inside {
        /// The output folder.
        out: String,
        /// The source folder.
        source_dir: String,
    },
    /// Something that makes no sense was asked for.
    #[error("{0}")]
    Option(String),
    /// Settings that make no sense, or not together.
    #[error("{text}")]
    Setting {
        /// Their names, such as `fractions`.
        names: &'static [&'static str],
        /// What is wrong.
        text: String,
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
    #[error("`{path}` has no field `image`, so its samples are not images that could be compared")]
    NoPictures {
        /// The bundle.
        path: String,
    },
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
        "the samples of `{path}` cannot be compared with source files: the bundle does not store the digests of the files that its images were made from"
    )]
    NoSources {
        /// The bundle.
        path: String,
    },
    /// A bundle without samples.
    #[error("no sample is left: the selection excludes all {of} samples")]
    NothingTaken {
        /// Number of samples that there were.
        of: u64,
    },
    /// The file system has too little space.
    #[error("not enough disk space: `{path}` has {} free, and the bundle needs about {}", Size(*free), Size(*needed))]
    NoSpace {
        /// The folder.
        path: String,
        /// Bytes that the bundle needs.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The file system became full while packing.
    #[error(
        "{}: {source}. {} {} more are needed{}",
        out_of_space(source), about(*files), Size(*needed), left(source, *free)
    )]
    Full {
        /// Bytes that the unfinished shards need.
        needed: u64,
        /// Bytes free now, without the unfinished files.
        free: u64,
        /// The number of files that can still be created, which can run out before bytes do.
        files: u64,
        /// The writer's error.
        source: gular_bundle::Error,
    },
    /// The folder already contains a bundle.
    #[error("`{path}` already holds bundle {digest}")]
    AlreadyBundle {
        /// The folder.
        path: String,
        /// The bundle in it.
        digest: Digest,
    },
    /// The folder contains other files.
    #[error(
        "the folder `{path}` is not empty, and does not hold an interrupted run: it contains `{found}`"
    )]
    NotEmpty {
        /// The folder.
        path: String,
        /// A file in the folder.
        found: String,
    },
    /// An interrupted run from another source or with other options.
    #[error(
        "`{path}` holds an interrupted run from another source or with other options (that run: {found}, this run: {expected})"
    )]
    OtherPlan {
        /// The folder.
        path: String,
        /// The present plan's digest, or the present source.
        expected: String,
        /// The settings of the run in the folder.
        found: String,
    },
    /// A folder that is not a finished part.
    #[error("`{path}` is not a finished part of a bundle: {reason}")]
    BadPart {
        /// The folder, or its `part.json`.
        path: String,
        /// Why it is not one.
        reason: String,
    },
    /// Parts that do not make up one bundle.
    #[error("these parts cannot be merged to a bundle: {}", faults.join("\n  also "))]
    Parts {
        /// Each part that is missing, given twice, or of another pack.
        faults: Vec<String>,
    },
    /// The folder holds a finished part, not a place for something else.
    #[error("`{path}` already holds part {part} of a pack")]
    AlreadyPart {
        /// The folder.
        path: String,
        /// The part in it.
        part: Part,
    },
    /// An interrupted run of another part, or of the whole.
    #[error("`{path}` holds an interrupted run that packed {found}; this run packs {expected}")]
    OtherPart {
        /// The folder.
        path: String,
        /// `part i/N`, or `all parts`.
        expected: String,
        /// The part of the run in the folder.
        found: String,
    },
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
    #[error("two samples would be written to the same file: `{path}` already exists")]
    Exists {
        /// The file.
        path: String,
    },
    /// The name of a new file is already used.
    #[error("`{path}` already exists")]
    FileExists {
        /// The file.
        path: String,
    },
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
    /// Another process is packing into this folder.
    #[error("another process is writing into `{path}`")]
    Busy {
        /// The folder.
        path: String,
    },
    /// The caller asked to stop, and there is nothing from which the next run could continue.
    #[error("stopped")]
    Cancelled,
    /// The caller asked to stop while shards were written; the next run continues there.
    #[error("stopped; {done} of {total} shards in `{path}` are finished and kept")]
    Unfinished {
        /// The output folder.
        path: String,
        /// Number of finished shards.
        done: usize,
        /// The number of all shards.
        total: usize,
    },
    /// The writer's error.
    #[error(transparent)]
    Bundle(gular_bundle::Error),
}

impl From<gular_bundle::Error> for Error {
    fn from(error: gular_bundle::Error) -> Self {
        match error {
            gular_bundle::Error::Stopped { .. } => Self::Cancelled,
            other => Self::Bundle(other),
        }
    }
}

/// The files of a source without images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OtherFiles {
    /// Of any kind, or none.
    #[default]
    Any,
    /// Pictures in a format that is not packed as such.
    Pictures,
    /// Arrays, or TIFF.
    Arrays,
    /// Archives.
    Archives,
    /// Tables, whose columns may be pixels.
    Tables,
}

/// A file that cannot be packed, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
#[error("`{path}`: {reason}")]
pub struct BadInput {
    /// The file, below the source folder.
    pub path: String,
    /// What is wrong with the file: expected and found.
    pub reason: String,
    /// What can be done about the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Which setting would accept it.
    #[serde(skip)]
    pub remedy: Remedy,
}

/// The change with which a bad input would be accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Remedy {
    /// Only a different file would be accepted.
    #[default]
    Repair,
    /// A higher limit of pixels would accept it.
    AllowMorePixels,
    /// A lower limit of pixels, or fewer threads, would accept it.
    UseLessMemory,
    /// A smaller side would accept it.
    Shrink,
    /// Three channels instead of one would accept it.
    KeepColour,
    /// It would be accepted if the axes of the field's arrays were named.
    NameAxes,
    /// It would be accepted if the field were not on its image's pixels.
    NotOnImage,
    /// It would be accepted if all pictures of the field had colours, or all one channel.
    SameColours,
    /// A choice of what the pages of a file are would accept it.
    ChoosePages,
    /// Take the first picture of an animation.
    TakeFirstFrame,
    /// It would be accepted if locations were not compared.
    Align,
    /// It would be accepted if coarser files were brought to the pixels of the finest.
    Resample,
    /// It would be accepted as a mask if the classes of its colours were given.
    NameColours,
    /// Leaving the names of bands out of account would accept it.
    IgnoreBandNames,
}

/// What is wrong with an input, and what can be done about it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) reason: String,
    pub(crate) hint: Option<&'static str>,
    pub(crate) remedy: Remedy,
}

impl Fault {
    pub(crate) fn new(reason: String, hint: Option<&'static str>) -> Self {
        Self { reason, hint, remedy: Remedy::Repair }
    }

    /// Returns this fault with the path of its file.
    pub(crate) fn at(self, path: String) -> BadInput {
        let Self { reason, hint, remedy } = self;
        BadInput { path, reason, hint: hint.map(str::to_owned), remedy }
    }
}

impl From<gular_codec::Error> for Fault {
    fn from(error: gular_codec::Error) -> Self {
        let remedy = match error {
            gular_codec::Error::TooLarge { .. } | gular_codec::Error::ManyNumbers { .. } => {
                Remedy::AllowMorePixels
            }
            gular_codec::Error::Memory { .. } => Remedy::UseLessMemory,
            gular_codec::Error::Pages { .. } => Remedy::ChoosePages,
            gular_codec::Error::Frames => Remedy::TakeFirstFrame,
            _ => Remedy::Repair,
        };
        Self { remedy, ..Self::new(error.to_string(), error.hint()) }
    }
}

/// Most files that cannot be packed and are named.
const MOST_NAMED: usize = 20;

/// Files with something wrong: the first ones, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BadInputs {
    /// The first of these files, at most 20.
    pub named: Vec<BadInput>,
    /// Number of such files that were found. If the run ended because of them, not every file was
    /// read, so there may be more.
    pub n: u64,
}

impl BadInputs {
    pub(crate) fn push(&mut self, bad: BadInput) {
        self.n += 1;
        if self.named.len() < MOST_NAMED {
            self.named.push(bad);
        }
    }

    /// Adds the files of another part of the run.
    pub(crate) fn add(&mut self, other: Self) {
        self.n += other.n;
        let room = MOST_NAMED.saturating_sub(self.named.len());
        self.named.extend(other.named.into_iter().take(room));
    }

    pub(crate) fn into_error(self) -> Option<Error> {
        (self.n > 0).then_some(Error::BadInputs(self))
    }
}

impl fmt::Display for BadInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, bad) in self.named.iter().enumerate() {
            write!(f, "{}{bad}", if i == 0 { "" } else { "\n  also " })?;
        }
        match self.n.saturating_sub(self.named.len() as u64) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// Whether a quota ended the write: the disk may have space then.
fn is_quota(source: &gular_bundle::Error) -> bool {
    matches!(source, gular_bundle::Error::Io(error) if error.kind() == io::ErrorKind::QuotaExceeded)
}

fn out_of_space(source: &gular_bundle::Error) -> &'static str {
    if is_quota(source) { "your quota on this file system is used up" } else { "the disk is full" }
}

fn left(source: &gular_bundle::Error, free: u64) -> String {
    if is_quota(source) { String::new() } else { format!(", and {} are free", Size(free)) }
}

fn wanted_column(what: &str, wanted: Option<&str>) -> String {
    wanted
        .map_or_else(|| format!("that looks like the column of {what}"), |name| format!("`{name}`"))
}

fn all(names: &[String]) -> String {
    let named: Vec<String> = names.iter().take(20).cloned().collect();
    some(&named, names.len() as u64)
}

/// Words for a number of things: `1 row matches`, `2 rows match`.
pub(crate) fn counted(n: u64, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

/// Most names in a sentence.
const MOST_IN_A_SENTENCE: usize = 3;

/// Some names, and how many more there are.
pub(crate) fn named<'a, S: AsRef<str> + 'a + ?Sized>(names: impl Iterator<Item = &'a S>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{}`", name.as_ref())).collect();
    match names.as_slice() {
        [one] => one.clone(),
        [first @ .., last] if names.len() <= MOST_IN_A_SENTENCE => {
            format!("{} and {last}", first.join(", "))
        }
        _ => {
            let more = names.len().saturating_sub(MOST_IN_A_SENTENCE) as u64;
            let first = names.get(..MOST_IN_A_SENTENCE).unwrap_or_default();
            format!("{} and {}", first.join(", "), counted(more, "other", "others"))
        }
    }
}

/// Lists some of `n` names.
fn some(names: &[String], n: u64) -> String {
    let named: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let more = n.saturating_sub(names.len() as u64);
    let end = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &end
}

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

impl Error {
    /// Settings that make no sense, or not together.
    pub(crate) fn setting(names: &'static [&'static str], text: impl Into<String>) -> Self {
        Self::Setting { names, text: text.into() }
    }

    pub(crate) fn datasets(path: &std::path::Path, fault: DatasetFault) -> Self {
        Self::Datasets { path: path.display().to_string(), fault: Box::new(fault) }
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl AsRef<std::path::Path>,
        source: io::Error,
    ) -> Self {
        Self::Io(gular_files::Error::new(action, path, source))
    }
}

/// So few files that can still be created may be what is short, and not bytes.
pub const FEW_FILES: u64 = 10_000;

/// Begins a sentence about bytes; says before how many files can still be created, if that may be
/// what is short.
fn about(files: u64) -> String {
    if files >= FEW_FILES {
        return "About".to_owned();
    }
    let more = counted(files, "more file", "more files");
    format!("The limit on the number of files allows only {more}. Apart from that, about")
}

impl From<gular_files::Error> for Error {
    fn from(error: gular_files::Error) -> Self {
        // A full disk is reported in the same way as by the bundle's own writer.
        Self::Bundle(error.into())
    }
}
