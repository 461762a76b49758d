//! The options by which a source is read.

use std::fs;
use std::path::PathBuf;

use gular_bundle::FieldName;
use serde::Deserialize;

use crate::facts::{Pattern, composed, setting};
use crate::source::{ArchiveLimits, SourceError};

/// What decides how a source is opened and read, of the options of a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceOptions<'a> {
    pub(crate) inputs: Inputs,
    /// What the paths of images mean.
    pub(crate) images: &'a [Pattern],
    /// Fields whose values are files of their own.
    pub(crate) fields: &'a [FieldFiles],
    /// Whether images are to have labels.
    pub(crate) labelled: bool,
    /// Where the source itself has the labels, if the user says it.
    pub(crate) label_column: Option<&'a LabelColumn>,
    pub(crate) classes: Option<&'a Classes>,
    pub(crate) archive: &'a ArchiveLimits,
    pub(crate) max_pixels: u64,
    pub(crate) on_error: OnBadInput,
}

/// The files that are inputs, and what they become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inputs {
    /// Pictures, which become field `image`.
    Images,
    /// NumPy's arrays and TIFF, all of one type and shape, which become field `image`.
    Arrays,
    /// All files, which become field `data` byte for byte.
    Bytes,
    /// The rows of a CSV, each the pixels of an image, 0 to 255, which become field `image`; or
    /// those of a dataset in files of a known form, see [`PixelFiles`](crate::PixelFiles).
    Pixels {
        /// Columns and rows of an image; `None` takes a square of the table's columns. Files of a
        /// known form have a size of their own.
        size: Option<(u32, u32)>,
    },
}

/// The column of labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LabelColumn {
    /// Found by its name, or because it is the only one beside that of file names.
    #[default]
    Find,
    /// The column with this name.
    Named(String),
    /// There are no labels.
    None,
}

/// A field whose values are files, one for each image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldFiles {
    /// The field's name; `mask` is cropped and flipped with the image.
    pub name: FieldName,
    /// The folder or archive with the files; `None` if they are in the source.
    pub files: Option<PathBuf>,
    /// The paths of the files, which have parts in common with the paths of images; `None` if they
    /// are those of the images, except for the extension.
    pub pattern: Option<Pattern>,
}

/// What happens to inputs that cannot be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadInput {
    /// A bad input ends the run; a later run with [`OnBadInput::Skip`] resumes from its shards.
    Fail,
    /// They are left out and listed in `skipped.jsonl`.
    Skip,
}

/// Class names in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Classes {
    /// Classes in a file, one per line without the blanks around it.
    File(PathBuf),
    /// These classes.
    Names(Vec<String>),
    /// These classes, followed by others that paths have.
    Extended(Vec<String>),
}

/// Reads the user's list of classes, if there is one.
pub(crate) fn listed_classes(given: Option<&Classes>) -> Result<Option<Vec<String>>, SourceError> {
    let path = match given {
        None => return Ok(None),
        Some(Classes::Names(names) | Classes::Extended(names)) => return Ok(Some(names.clone())),
        Some(Classes::File(path)) => path,
    };
    let text = fs::read_to_string(path).map_err(|e| SourceError::io("read", path, e))?;
    let classes: Vec<String> =
        text.lines().map(|l| composed(l.trim()).into_owned()).filter(|l| !l.is_empty()).collect();
    let mut sorted = classes.clone();
    sorted.sort();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(setting(
            &["classes"],
            format!("`{}` lists class `{}` twice", path.display(), pair[0]),
        ));
    }
    Ok(Some(classes))
}
