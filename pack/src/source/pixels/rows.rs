//! Rows of pixels at their places in files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gular_bundle::Split;
use gular_codec::Limits;
use serde::Serialize;

use super::super::archive::Opening;
use super::files::{FileSet, FoundSet};
use super::pixel_source::PixelSource;
use super::table::Columns;
use super::{cifar, idx, stl, table};
use crate::facts::{BadInput, Fault, setting};
use crate::source::{Inputs, LabelColumn, SourceError, SourceOptions, window::Window};

/// How rows of pixels were read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PixelColumns {
    /// Where the labels are: a column's name, or `column 1`, or files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
    /// Other labels that the source has, which could be taken instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_labels: Vec<String>,
    /// The column of splits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splits: Option<String>,
    /// Columns that are neither pixels nor labels nor splits, and are not packed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<String>,
    /// Whether the images are known to have rows and columns exchanged in their files, as those of
    /// EMNIST. They are packed as they are.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_transposed: bool,
    /// Height, width and channels of an image. The columns of pixels fill it row by row, with the
    /// channels of a pixel together.
    pub shape: [u64; 3],
}

/// All rows of a source, found and checked.
#[derive(Debug)]
pub(crate) struct PixelRows {
    pub(crate) path: PathBuf,
    pub(super) parts: Vec<Rows>,
    /// Whether rows have labels.
    pub(crate) labelled: bool,
    /// Class names in label order.
    pub(crate) classes: Vec<String>,
    /// How the rows were read.
    pub(crate) columns: PixelColumns,
    /// The words or files that say splits.
    pub(crate) split_words: BTreeMap<String, Split>,
    /// Files beside those of the dataset: the number of each extension.
    pub(crate) ignored: BTreeMap<String, u64>,
}

/// Rows that follow each other in one file.
#[derive(Debug)]
pub(super) struct Rows {
    /// The beginning of keys.
    pub(super) name: String,
    /// The number of the first row among all of this name.
    pub(super) first: u64,
    pub(super) file: Window,
    pub(super) places: Places,
    pub(super) form: Form,
    /// The label of every row: -1 for an unknown class; empty without labels.
    pub(super) labels: Vec<i32>,
    pub(super) splits: RowSplits,
    /// Rows that cannot be packed, by their place in this file, in order.
    pub(super) bad: Vec<(u64, BadInput)>,
}

/// Where rows are in their file.
#[derive(Debug)]
pub(super) enum Places {
    /// `n` rows of `len` bytes, which begin `stride` bytes apart.
    Every { start: u64, stride: u64, len: u64, n: u64 },
    /// The offset of each row, and the end of the last.
    At(Vec<u64>),
}

/// What the bytes of a row are.
#[derive(Debug)]
pub(super) enum Form {
    /// Cells of a table.
    Text(Columns),
    /// Pixels, the channels of a pixel together.
    Pixels,
    /// All pixels of the first channel, then those of the next.
    Planes,
    /// The same, of which each channel is column by column.
    Columns,
}

/// The splits of rows.
#[derive(Debug)]
pub(super) enum RowSplits {
    Unknown,
    /// All rows are in this one.
    All(Split),
    /// For each row its own.
    Each(Vec<Split>),
}

impl Places {
    pub(super) fn n(&self) -> u64 {
        match self {
            Self::Every { n, .. } => *n,
            Self::At(starts) => (starts.len() as u64).saturating_sub(1),
        }
    }

    /// Offset and length of a row.
    fn get(&self, at: u64) -> Option<(u64, u64)> {
        match self {
            Self::Every { start, stride, len, n } => {
                (at < *n).then(|| (start.saturating_add(at.saturating_mul(*stride)), *len))
            }
            Self::At(starts) => {
                let at = usize::try_from(at).ok()?;
                let [start, end] = *starts.get(at..)?.first_chunk::<2>()?;
                Some((start, end.saturating_sub(start)))
            }
        }
    }
}

impl PixelRows {
    /// Finds the files of `path`, a folder, an archive or a table, and their rows.
    ///
    /// Takes 4 bytes of memory for each row, and 13 for each of a table. What is compressed is
    /// unpacked in folder `temp`.
    pub(crate) fn open(
        path: &Path,
        options: &SourceOptions<'_>,
        temp: &Path,
        cancel: &std::sync::atomic::AtomicBool,
    ) -> Result<Self, SourceError> {
        let opening = Opening { limits: options.archive, temp, cancel };
        let source = PixelSource::open(path, options, &opening)?;
        let FoundSet { set, ignored } = source.file_set()?;
        let is_table = matches!(set, FileSet::Table(_));
        if !is_table && matches!(options.inputs, Inputs::Pixels { size: Some(_) }) {
            let text = "the width and the height of these images are said by their files";
            return Err(setting(&["size"], text));
        }
        let rows = match set {
            FileSet::Table(name) => table::open(&source, &name, options, &opening),
            FileSet::Idx(files) => idx::open(&source, &files, options, &opening),
            FileSet::Cifar(files) => cifar::open(&source, &files, options, &opening),
            FileSet::Stl(files) => stl::open(&source, &files, options, &opening),
        };
        rows.map(|rows| Self { ignored, ..rows })
    }

    /// Height, width, channels.
    pub(crate) fn shape(&self) -> [u64; 3] {
        self.columns.shape
    }

    /// Returns the rows that are left out.
    pub(crate) fn bad(&self) -> impl Iterator<Item = &BadInput> {
        self.parts.iter().flat_map(|part| part.bad.iter().map(|(_, bad)| bad))
    }

    /// Keys and lengths of all rows that can be packed.
    pub(crate) fn files<E>(
        &self,
        each: &mut dyn FnMut(&str, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        for part in &self.parts {
            let mut bad = part.bad.iter().map(|(at, _)| *at).peekable();
            for at in 0..part.places.n() {
                let Some((_, len)) = part.places.get(at) else { continue };
                if bad.next_if_eq(&at).is_none() {
                    each(&key(&part.name, part.first + at), len)?;
                }
            }
        }
        Ok(())
    }

    /// The label of a row, and its split if the source says it.
    pub(crate) fn label_and_split(&self, key: &str) -> (i64, Option<Split>) {
        let Some((part, at)) = self.find(key) else { return (-1, None) };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let split = match &part.splits {
            RowSplits::Unknown => None,
            RowSplits::All(split) => Some(*split),
            RowSplits::Each(splits) => splits.get(at).copied(),
        };
        (part.labels.get(at).map_or(-1, |label| (*label).into()), split)
    }

    /// The part that has a row, and the row's place in it.
    fn find(&self, key: &str) -> Option<(&Rows, u64)> {
        let (name, number) = key.rsplit_once('/')?;
        let number: u64 = number.parse().ok()?;
        self.parts.iter().filter(|part| part.name == name).find_map(|part| {
            let at = number.checked_sub(part.first)?;
            (at < part.places.n()).then_some((part, at))
        })
    }

    /// The pixels of a row, `[height, width, channels]`.
    pub(crate) fn pixels(&self, key: &str) -> Result<Vec<u8>, Fault> {
        let (part, at) = self.find(key).ok_or_else(changed)?;
        let (start, len) = part.places.get(at).ok_or_else(changed)?;
        let mut row = vec![0; usize::try_from(len).map_err(|_| changed())?];
        part.file
            .read_exact_at(&mut row, start)
            .map_err(|e| Fault::new(format!("it cannot be read: {e}"), None))?;
        match &part.form {
            Form::Pixels => Ok(row),
            Form::Planes => Ok(together(&row, self.shape())),
            Form::Columns => Ok(turned(&together(&row, self.shape()), self.shape())),
            Form::Text(columns) => {
                let mut pixels = Vec::new();
                columns.read(&row, &mut pixels).map_err(|_| changed())?;
                Ok(pixels)
            }
        }
    }
}

fn changed() -> Fault {
    let reason = "it is not what it was when the run began".to_owned();
    Fault::new(reason, Some("run again when no program is writing to the file"))
}

/// Rows are numbered from 0, as in a data frame and in torchvision's datasets.
pub(super) fn key(name: &str, number: u64) -> String {
    format!("{name}/{number:07}")
}

/// Whether rows are to have labels.
pub(super) fn wants_labels(options: &SourceOptions<'_>) -> bool {
    options.labelled && options.label_column != Some(&LabelColumn::None)
}

/// Checks that images may be so large.
pub(super) fn check_shape(
    shape: [u64; 3],
    options: &SourceOptions<'_>,
) -> Result<(), gular_codec::Error> {
    let [height, width, _] = shape.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Limits { max_pixels: options.max_pixels }.check(width, height)
}

/// Puts the channels of each pixel together.
fn together(planes: &[u8], [height, width, channels]: [u64; 3]) -> Vec<u8> {
    let side = |n: u64| usize::try_from(n).unwrap_or(0);
    let (n, channels) = (side(height.saturating_mul(width)), side(channels));
    let of_pixel = |at: usize| (0..channels).filter_map(move |c| planes.get(c * n + at).copied());
    (0..n).flat_map(of_pixel).collect()
}

/// Pixels that were column by column, row by row.
fn turned(pixels: &[u8], [height, width, channels]: [u64; 3]) -> Vec<u8> {
    let side = |n: u64| usize::try_from(n).unwrap_or(0);
    let (height, width, channels) = (side(height), side(width), side(channels));
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (x * height + y) * channels));
    places.filter_map(|at| pixels.get(at..at + channels)).flatten().copied().collect()
}

/// The error of a file of pixels, or of their labels (`content`).
pub(super) fn bad(path: &Path, content: &'static str, reason: String) -> SourceError {
    SourceError::PixelFile { path: path.display().to_string(), content, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_become_pixels() {
        let planes = [1, 2, 3, 4, 11, 12, 13, 14, 21, 22, 23, 24];
        let expected = [1, 11, 21, 2, 12, 22, 3, 13, 23, 4, 14, 24];
        assert_eq!(together(&planes, [2, 2, 3]), expected);
        let columns = [1, 11, 2, 12, 3, 13, 4, 14, 5, 15, 6, 16];
        assert_eq!(turned(&columns, [2, 3, 2]), [1, 11, 3, 13, 5, 15, 2, 12, 4, 14, 6, 16]);
    }

    #[test]
    fn a_place_past_the_last_row_is_none() {
        let every = Places::Every { start: 16, stride: 5, len: 4, n: 2 };
        assert_eq!([0, 1, 2].map(|at| every.get(at)), [Some((16, 4)), Some((21, 4)), None]);
        let at = Places::At(vec![3, 7, 8]);
        assert_eq!([0, 1, 2].map(|i| at.get(i)), [Some((3, 4)), Some((7, 1)), None]);
        assert_eq!((every.n(), at.n(), Places::At(Vec::new()).n()), (2, 2, 0));
    }
}
