//! A table of pixels: each row is an image, as in `label,pixel1,…,pixel784`.
//!
//! ```text
//! .csv ─ every row read and checked ─▶ where rows begin, labels ─▶ rows, each by a positional read
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::BundlePath;
use gular_codec::Limits;
use serde::Serialize;

use crate::error::{BadInput, BadInputs, Fault};
use crate::labels::{
    BOM, MOST_CLASSES, MOST_ROW_BYTES, Numbering, Words, find_label, separator_of,
};
use crate::plan::listed_classes;
use crate::{Error, Inputs, LabelColumn, Labels, OnBadInput, PlanOptions};

/// A picture has at most so many channels, as a TIFF has bands.
const MOST_CHANNELS: u64 = 256;

/// How the columns of a table of pixels were used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PixelColumns {
    /// The column of labels: its name, or `column 1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
    /// Height, width and channels of an image. The columns of pixels fill it row by row, with the
    /// channels of a pixel together.
    pub shape: [u64; 3],
}

/// A table whose rows have been found and checked.
#[derive(Debug)]
pub(crate) struct PixelTable {
    path: PathBuf,
    file: File,
    columns: Columns,
    /// The beginning of keys: the file's name without its extension.
    name: String,
    /// Height, width, channels.
    shape: [u64; 3],
    /// The offset of each row, and the end of the last.
    starts: Vec<u64>,
    /// The label of every row: -1 for an unknown class.
    labels: Vec<i32>,
    /// Rows that cannot be packed, by number, in order.
    bad: Vec<(u64, BadInput)>,
    classes: Vec<String>,
}

/// The meaning of the cells of a row.
#[derive(Debug)]
struct Columns {
    separator: u8,
    /// The names of the columns; empty if the first line is a row.
    names: Vec<String>,
    n: usize,
    /// The column of labels.
    label: Option<usize>,
    /// Whether that column becomes the label.
    labelled: bool,
}

impl PixelTable {
    /// Reads all of the table at `path`.
    ///
    /// Takes 12 bytes of memory for each row.
    pub(crate) fn open(
        path: &Path,
        options: &PlanOptions,
        cancel: &AtomicBool,
    ) -> Result<Self, Error> {
        let io = |e| Error::io("read", path, e);
        let open = || File::open(path).map_err(|e| Error::io("open", path, e));
        let mut lines = Lines::new(open()?);
        let mut first = Vec::new();
        let Some(at) = lines.next(&mut first).map_err(io)? else {
            return Err(fault(path, "", "it is empty".to_owned()));
        };
        let columns = Columns::new(&first, options, path)?;
        let shape = columns.shape(options, path)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Err(e) = BundlePath::parse(&format!("{stem}/0")) {
            let text = format!("its name cannot begin the keys of its rows: {}", e.reason);
            return Err(fault(path, "", text));
        }
        let mut survey = Survey::new(stem, &columns);
        if columns.names.is_empty() {
            survey.row(&first, at);
        }
        let mut line = Vec::new();
        while let Some(at) = lines.next(&mut line).map_err(io)? {
            if survey.starts.len().is_multiple_of(4096) && cancel.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            survey.row(&line, at);
        }
        let Survey { name, mut starts, words, mut labels, bad, .. } = survey;
        starts.push(lines.position);
        if options.on_error == OnBadInput::Fail {
            let mut all = BadInputs::default();
            bad.iter().for_each(|(_, bad)| all.push(bad.clone()));
            if let Some(error) = all.into_error() {
                return Err(error);
            }
        }
        let mut classes = Vec::new();
        if columns.labelled {
            let column = columns.label.map(|at| columns.called(at)).unwrap_or_default();
            let shown = path.display().to_string();
            let ids = words.into_words(&column)?;
            let listed = listed_classes(options)?;
            let Numbering { classes: names, numbers } =
                Numbering::new(ids.words, listed, true, &column, &shown)?;
            for (row, label) in (0..).zip(&mut labels) {
                let word = usize::try_from(*label).ok().and_then(|at| ids.by_id.get(at));
                let Some(word) = word.filter(|word| *word != "-1") else {
                    *label = -1;
                    continue;
                };
                let number = match numbers.get(word) {
                    Some(number) => i32::try_from(*number).ok(),
                    None if names.is_empty() => word.parse().ok(),
                    None => None,
                };
                *label = number.ok_or_else(|| Error::UnknownClass {
                    path: key(&name, row),
                    class: word.clone(),
                    list: "the list of classes".to_owned(),
                    n: names.len(),
                })?;
            }
            classes = names;
        }
        let path = path.to_owned();
        Ok(Self { file: open()?, path, columns, name, shape, starts, labels, bad, classes })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Height, width, channels.
    pub(crate) fn shape(&self) -> [u64; 3] {
        self.shape
    }

    /// Whether rows have labels.
    pub(crate) fn labelled(&self) -> bool {
        self.columns.labelled
    }

    /// Class names in label order.
    pub(crate) fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns how the table's columns were used.
    pub(crate) fn columns(&self) -> PixelColumns {
        let labels = self.columns.label.filter(|_| self.labelled());
        PixelColumns { labels: labels.map(|at| self.columns.called(at)), shape: self.shape }
    }

    /// Returns the rows that are left out.
    pub(crate) fn bad(&self) -> impl Iterator<Item = &BadInput> {
        self.bad.iter().map(|(_, bad)| bad)
    }

    /// Keys and lengths of all rows that can be packed.
    pub(crate) fn files(
        &self,
        each: &mut dyn FnMut(&str, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut bad = self.bad.iter().map(|(number, _)| *number).peekable();
        for (number, place) in (0..).zip(self.starts.windows(2)) {
            if bad.next_if_eq(&number).is_none() {
                each(&key(&self.name, number), place[1] - place[0])?;
            }
        }
        Ok(())
    }

    /// The label of a row.
    pub(crate) fn label(&self, key: &str) -> i64 {
        let number = self.number(key).and_then(|number| usize::try_from(number).ok());
        number.and_then(|number| self.labels.get(number)).map_or(-1, |label| (*label).into())
    }

    fn number(&self, key: &str) -> Option<u64> {
        key.strip_prefix(&self.name)?.strip_prefix('/')?.parse().ok()
    }

    /// The pixels of a row, `[height, width, channels]`.
    pub(crate) fn pixels(&self, key: &str) -> Result<Vec<u8>, Fault> {
        let changed = || {
            let reason = "it is not what it was when the run began".to_owned();
            Fault::new(reason, Some("run again when no program is writing to the file"))
        };
        let number = self.number(key).and_then(|number| usize::try_from(number).ok());
        let place = number.and_then(|at| self.starts.get(at..)?.first_chunk::<2>());
        let [start, end] = *place.ok_or_else(changed)?;
        let mut line = vec![0; usize::try_from(end - start).map_err(|_| changed())?];
        self.file
            .read_exact_at(&mut line, start)
            .map_err(|e| Fault::new(format!("it cannot be read: {e}"), None))?;
        let mut pixels = Vec::with_capacity(self.columns.n);
        self.columns.pixels(&line, &mut pixels).map_err(|_| changed())?;
        Ok(pixels)
    }
}

/// Rows are numbered from 0, as in a data frame.
fn key(name: &str, number: u64) -> String {
    format!("{name}/{number:07}")
}

fn fault(path: &Path, at: &str, reason: String) -> Error {
    Error::Table { path: path.display().to_string(), at: at.to_owned(), reason }
}

impl Columns {
    /// Interprets the columns by the first line, which may name them.
    fn new(first: &[u8], options: &PlanOptions, path: &Path) -> Result<Self, Error> {
        let separator = separator_of(first);
        let cells: Vec<String> = cells(first, separator)
            .map(|cell| String::from_utf8_lossy(cell).into_owned())
            .collect();
        let n = cells.len();
        // pandas names unnamed columns like this: 0, 1, 2, and so on.
        let counts = n > 1 && (0_usize..).zip(&cells).all(|(i, cell)| *cell == i.to_string());
        let is_row = !counts && cells.iter().all(|cell| cell.parse::<i64>().is_ok());
        let names = if is_row { Vec::new() } else { cells };
        let size = size_of(options);
        let find = || match names.as_slice() {
            [] => (shape_of(n, size).is_none() && shape_of(n - 1, size).is_some()).then_some(0),
            names => find_label(names).and_then(|name| names.iter().position(|n| n == name)),
        };
        let label = match &options.labels {
            Labels::Column(LabelColumn::None) => None,
            Labels::Column(LabelColumn::Named(name)) => {
                let found =
                    names.iter().position(|n| n == name).ok_or_else(|| Error::NoColumn {
                        path: path.display().to_string(),
                        what: "labels",
                        wanted: Some(name.clone()),
                        columns: names.clone(),
                    })?;
                Some(found)
            }
            _ => find(),
        };
        let labelled = label.is_some() && options.labels != Labels::None;
        Ok(Self { separator, names, n, label, labelled })
    }

    fn shape(&self, options: &PlanOptions, path: &Path) -> Result<[u64; 3], Error> {
        let n = self.n - usize::from(self.label.is_some());
        let size = size_of(options);
        let shape = shape_of(n, size).ok_or_else(|| {
            let label = match self.label {
                Some(at) => format!("besides the column of labels {}", self.called(at)),
                None => "and no column of labels is known".to_owned(),
            };
            let expected = match size {
                Some((w, h)) => format!("a multiple of {w} x {h}"),
                None => "n x n columns for grey images, or 3 x n x n for colour images".to_owned(),
            };
            let reason = format!("it has {n} columns of pixels, {label}; expected {expected}");
            fault(path, "", reason)
        })?;
        let side = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let limits = Limits { max_pixels: options.max_pixels };
        limits.check(side(shape[1]), side(shape[0])).map_err(|e| fault(path, "", e.to_string()))?;
        Ok(shape)
    }

    /// Returns a column's name for messages.
    fn called(&self, at: usize) -> String {
        match self.names.get(at) {
            Some(name) => format!("`{name}`"),
            None => format!("column {}", at + 1),
        }
    }

    /// Adds the pixels of a row to `pixels`; its label.
    fn pixels<'l>(&self, line: &'l [u8], pixels: &mut Vec<u8>) -> Result<&'l [u8], String> {
        let mut label: &[u8] = b"";
        let mut n = 0;
        for (at, cell) in cells(line, self.separator).enumerate() {
            n += 1;
            if self.label == Some(at) {
                label = cell;
            } else if let Some(pixel) = pixel(cell) {
                pixels.push(pixel);
            } else if n <= self.n {
                let cell = String::from_utf8_lossy(cell).into_owned();
                let cell: String = cell.chars().take(40).collect();
                return Err(format!(
                    "{} is `{}`, expected a whole number from 0 to 255",
                    self.called(at),
                    cell.escape_debug()
                ));
            }
        }
        if n != self.n {
            return Err(format!("it has {n} cells, the first line has {}", self.n));
        }
        Ok(label)
    }
}

fn size_of(options: &PlanOptions) -> Option<(u32, u32)> {
    match options.inputs {
        Inputs::Pixels { size } => size,
        _ => None,
    }
}

/// Returns height, width and channels of `n` numbers.
fn shape_of(n: usize, size: Option<(u32, u32)>) -> Option<[u64; 3]> {
    let n = u64::try_from(n).ok().filter(|n| *n > 0)?;
    if let Some((width, height)) = size {
        let pixels = u64::from(width) * u64::from(height);
        let channels = n.checked_div(pixels)?;
        let fits = channels * pixels == n && (1..=MOST_CHANNELS).contains(&channels);
        return fits.then_some([height.into(), width.into(), channels]);
    }
    let square = |n: u64| Some(n.isqrt()).filter(|side| side * side == n);
    let grey = square(n).map(|side| [side, side, 1]);
    grey.or_else(|| {
        let side = square(n / 3).filter(|_| n.is_multiple_of(3))?;
        Some([side, side, 3])
    })
}

fn cells(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    line.trim_ascii().split(move |b| *b == separator).map(|cell| {
        let cell = cell.trim_ascii();
        cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell)
    })
}

fn pixel(cell: &[u8]) -> Option<u8> {
    if cell.is_empty() {
        return None;
    }
    cell.iter().try_fold(0_u8, |n, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

/// The results of the pass over all rows.
struct Survey<'a> {
    name: String,
    columns: &'a Columns,
    starts: Vec<u64>,
    words: Ids,
    /// For each row the id of its word, until all are known.
    labels: Vec<i32>,
    bad: Vec<(u64, BadInput)>,
    pixels: Vec<u8>,
}

/// The place of a line.
#[derive(Clone, Copy)]
struct At {
    line: u64,
    start: u64,
}

impl<'a> Survey<'a> {
    fn new(name: String, columns: &'a Columns) -> Self {
        let (starts, labels, bad) = (Vec::new(), Vec::new(), Vec::new());
        Self { name, columns, starts, words: Ids::default(), labels, bad, pixels: Vec::new() }
    }

    fn row(&mut self, line: &[u8], at: At) {
        let number = self.starts.len() as u64;
        self.starts.push(at.start);
        self.pixels.clear();
        let label = self.columns.pixels(line, &mut self.pixels).and_then(|label| {
            if !self.columns.labelled {
                return Ok(-1);
            }
            self.words.id(label).ok_or_else(|| {
                let column = self.columns.label.map(|at| self.columns.called(at));
                let label = String::from_utf8_lossy(label);
                let label: String = label.chars().take(40).collect();
                format!(
                    "{} is `{}`, which cannot be a class number",
                    column.unwrap_or_default(),
                    label.escape_debug()
                )
            })
        });
        self.labels.push(*label.as_ref().unwrap_or(&-1));
        if let Err(reason) = label {
            let reason = format!("line {}: {reason}", at.line);
            self.bad.push((
                number,
                Fault::new(reason, Some("repair or remove the row")).at(key(&self.name, number)),
            ));
        }
    }
}

/// The words, in the order of their first row.
#[derive(Debug, Default)]
struct Ids {
    ids: HashMap<String, i32>,
    /// The highest word that is an integer.
    most: Option<i64>,
    has_names: bool,
}

/// All words, which can also be found by their id.
struct Known {
    words: Words,
    by_id: Vec<String>,
}

impl Ids {
    fn id(&mut self, label: &[u8]) -> Option<i32> {
        let word = std::str::from_utf8(label).ok().filter(|word| !word.is_empty())?;
        if let Some(id) = self.ids.get(word) {
            return Some(*id);
        }
        match word.parse::<i64>() {
            // A number with leading zeros, such as `007`, is a name.
            Ok(n) if n.to_string() == word => {
                if !(-1..=i64::from(i32::MAX)).contains(&n) {
                    return None;
                }
                self.most = self.most.max(Some(n));
            }
            _ => self.has_names = true,
        }
        // One word more than allowed is kept, so that the error can be given once all rows are
        // read.
        let id = i32::try_from(self.ids.len().min(MOST_CLASSES)).ok()?;
        if self.ids.len() <= MOST_CLASSES {
            self.ids.insert(word.to_owned(), id);
        }
        Some(id)
    }

    fn into_words(self, column: &str) -> Result<Known, Error> {
        if self.ids.len() > MOST_CLASSES {
            let text = format!("{column} has more than {MOST_CLASSES} classes");
            return Err(Error::setting(&["label_column"], text));
        }
        let mut by_id: Vec<(i32, String)> = self.ids.into_iter().map(|(w, id)| (id, w)).collect();
        by_id.sort_unstable();
        let by_id: Vec<String> = by_id.into_iter().map(|(_, word)| word).collect();
        let most = (!self.has_names).then_some(self.most.unwrap_or(-1));
        Ok(Known { words: Words { words: by_id.iter().cloned().collect(), most }, by_id })
    }
}

/// Reads lines that are not blank.
struct Lines {
    file: BufReader<File>,
    position: u64,
    line: u64,
}

impl Lines {
    fn new(file: File) -> Self {
        Self { file: BufReader::with_capacity(1 << 20, file), position: 0, line: 0 }
    }

    /// Reads the next line into `line`.
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Option<At>> {
        loop {
            line.clear();
            let mut start = self.position;
            let n = (&mut self.file).take(MOST_ROW_BYTES).read_until(b'\n', line)?;
            if n == 0 {
                return Ok(None);
            }
            self.position += n as u64;
            self.line += 1;
            if n as u64 == MOST_ROW_BYTES {
                let text = format!("line {} has more than {MOST_ROW_BYTES} bytes", self.line);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            if start == 0 && line.starts_with(BOM) {
                line.drain(..BOM.len());
                start = BOM.len() as u64;
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(At { line: self.line, start }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_columns_says_the_shape() {
        assert_eq!(shape_of(784, None), Some([28, 28, 1]));
        assert_eq!(shape_of(2352, None), Some([28, 28, 3]));
        assert_eq!(shape_of(785, None), None);
        assert_eq!(shape_of(0, None), None);
        assert_eq!(shape_of(12, Some((3, 2))), Some([2, 3, 2]));
        assert_eq!(shape_of(13, Some((3, 2))), None);
        assert_eq!(shape_of(5, Some((3, 2))), None);
    }

    #[test]
    fn a_pixel_is_a_whole_number_up_to_255() {
        for (text, expected) in [("0", Some(0)), ("255", Some(255)), ("007", Some(7))] {
            assert_eq!(pixel(text.as_bytes()), expected, "{text}");
        }
        for text in ["", "256", "-1", "1.0", "a", "1e2", "999999999999"] {
            assert_eq!(pixel(text.as_bytes()), None, "{text}");
        }
        let found: Vec<&[u8]> = cells(b"\"7\", 1 ,2\r\n", b',').collect();
        assert_eq!(found, [b"7", b"1", b"2"]);
    }
}
