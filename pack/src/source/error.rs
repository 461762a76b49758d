//! What can be wrong with a source.

use super::{ArchiveLimit, DatasetFault};
use crate::facts::{BadInputs, Outside, RunError, all, room_error};

/// What is wrong with a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// What can end a run at any step.
    #[error(transparent)]
    Run(RunError),
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
    #[error("`{0}` is not a folder or an archive; expected .zip, .tar, .tar.gz, .tgz or .tar.zst")]
    NoSource(String),
    /// An archive that cannot be read.
    #[error("archive `{path}` is damaged: {reason}")]
    BadArchive {
        /// The archive.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A folder of numbered archives that have a file for each part of a sample.
    #[error(
        "`{path}` has shards as WebDataset writes them: their names say nothing about the images in them"
    )]
    Shards {
        /// The folder.
        path: String,
    },
    /// One of the files that a large archive was divided into.
    #[error("`{0}` is one part of an archive that was divided into several files")]
    ArchivePart(String),
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
    /// A folder that leads back to one above it.
    #[error("the symbolic link `{link}` leads back to the folder `{target}` above it")]
    Loop {
        /// The link.
        link: String,
        /// The folder that it leads to.
        target: String,
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
    /// A Parquet file of images that cannot be read as such.
    #[error("the images in `{path}` cannot be read: {reason}")]
    ParquetImages {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// Parquet files that are not one dataset.
    #[error(
        "`{first}` and `{second}` have different columns, images or classes, so they are not one dataset"
    )]
    ParquetSets {
        /// A file.
        first: String,
        /// A file that differs.
        second: String,
    },
    /// Parquet files in several folders.
    #[error("`{first}` and `{second}` are in two folders, so they may not be one dataset")]
    ParquetFolders {
        /// A file.
        first: String,
        /// A file in another folder.
        second: String,
    },
    /// A Parquet file beside others whose names say splits.
    #[error(
        "the name of `{file}` does not say whether it is train, val or test, and those of other files do"
    )]
    ParquetSplit {
        /// The file.
        file: String,
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
}

room_error!(SourceError);

impl SourceError {
    pub(crate) fn datasets(path: &std::path::Path, fault: DatasetFault) -> Self {
        Self::Datasets { path: path.display().to_string(), fault: Box::new(fault) }
    }
}

fn wanted_column(what: &str, wanted: Option<&str>) -> String {
    wanted
        .map_or_else(|| format!("that looks like the column of {what}"), |name| format!("`{name}`"))
}
