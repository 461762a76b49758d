//! A table of pixels: each row is an image, as in `label,pixel1,…,pixel784`, or as in
//! `emotion,pixels,Usage`, where one cell has all pixels.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::Ordering;

use gular_bundle::{BundlePath, Split};

use super::ids::Ids;
use super::pixel_source::PixelSource;
use super::rows::{Form, PixelColumns, PixelRows, Places, RowSplits, Rows, check_shape, key};
use crate::facts::{BadInput, BadInputs, Fault, RunError, split_of};
use crate::source::{
    BOM, Inputs, LabelColumn, MOST_ROW_BYTES, OnBadInput, SourceError, SourceOptions,
    archive::Opening, find_label, find_split, separator_of,
};

/// A picture has at most so many channels, as a TIFF has bands.
const MOST_CHANNELS: u64 = 256;

/// The column with all pixels of an image as text. Source: `fer2013.csv` of FER2013.
const TEXT_COLUMN: &str = "pixels";
/// What the labels of such a table may be called, besides the usual names. Source: as above.
const TEXT_LABELS: [&str; 1] = ["emotion"];
/// Words for splits that FER2013 has, besides the usual ones: its leaderboards were computed from
/// these two.
const SPLIT_WORDS: [(&str, Split); 2] = [("PublicTest", Split::Val), ("PrivateTest", Split::Test)];

/// The meaning of the cells of a row.
#[derive(Debug)]
pub(super) struct Columns {
    separator: u8,
    /// The names of the columns; empty if the first line is a row.
    names: Vec<String>,
    n: usize,
    /// The column of labels.
    label: Option<usize>,
    /// Whether that column becomes the label.
    labelled: bool,
    /// The column of splits.
    split: Option<usize>,
    pixels: PixelCells,
}

/// Where the pixels of a row are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PixelCells {
    /// One in each cell that is nothing else.
    Each,
    /// All `n` of them in one cell, between blanks.
    Text { at: usize, n: usize },
}

/// The cells of a row that are not pixels.
#[derive(Debug, Default)]
pub(super) struct RowCells<'l> {
    label: &'l [u8],
    split: &'l [u8],
}

/// Why a row cannot be packed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RowError {
    #[error("{column} is `{cell}`, expected a whole number from 0 to 255")]
    Pixel { column: String, cell: String },
    #[error("it has {found} cells, the first line has {expected}")]
    Cells { found: usize, expected: usize },
    #[error("{column} has {found} numbers, that of the first row has {expected}")]
    Numbers { column: String, found: usize, expected: usize },
    #[error("{column} is `{cell}`, which cannot be a class number")]
    Class { column: String, cell: String },
    #[error("{column} is `{cell}`, expected a word for a split, such as `Training`")]
    Split { column: String, cell: String },
}

/// Reads all of a table.
///
/// Takes 13 bytes of memory for each row.
pub(super) fn open(
    source: &PixelSource,
    name: &str,
    options: &SourceOptions<'_>,
    opening: &Opening<'_>,
) -> Result<PixelRows, SourceError> {
    let path = &source.path_of(name);
    let io = |e| SourceError::io("read", path, e);
    let file = source.file(name, opening)?;
    let mut lines = Lines::new(file.reader());
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let Some(first_at) = lines.next(&mut first).map_err(io)? else {
        return Err(fault(path, "it is empty".to_owned()));
    };
    let second_at = lines.next(&mut second).map_err(io)?;
    let columns = Columns::new(&first, &second, options, path)?;
    let shape = columns.shape(options, path)?;
    let mut survey = Survey::new(stem_of(path)?, &columns);
    if columns.names.is_empty() {
        survey.row(&first, first_at);
    }
    if let Some(at) = second_at {
        survey.row(&second, at);
    }
    let mut line = Vec::new();
    while let Some(at) = lines.next(&mut line).map_err(io)? {
        if survey.starts.len().is_multiple_of(4096) && opening.cancel.load(Ordering::Relaxed) {
            return Err(RunError::Cancelled.into());
        }
        survey.row(&line, at);
    }
    let Survey { name, mut starts, words, labels, splits, split_words, bad, .. } = survey;
    starts.push(lines.position);
    if options.on_error == OnBadInput::Fail {
        let mut all = BadInputs::default();
        bad.iter().for_each(|(_, bad)| all.push(bad.clone()));
        all.into_result()?;
    }
    let (labelled, said) = (columns.labelled, columns.said(shape));
    let splits = match columns.split {
        Some(_) => RowSplits::Each(splits),
        None => RowSplits::Unknown,
    };
    let (form, places) = (Form::Text(columns), Places::At(starts));
    let mut parts = [Rows { name, first: 0, file, places, form, labels, splits, bad }];
    let classes = match said.labels.as_ref() {
        Some(column) => {
            let shown = path.display().to_string();
            words.into_words(column)?.number(&mut parts, options, column, &shown)?
        }
        None => Vec::new(),
    };
    let (path, parts) = (source.path().to_owned(), parts.into());
    let ignored = BTreeMap::new();
    Ok(PixelRows { path, parts, labelled, classes, columns: said, split_words, ignored })
}

fn fault(path: &Path, reason: String) -> SourceError {
    SourceError::Table { path: path.display().to_string(), at: String::new(), reason }
}

/// The beginning of keys: the file's name without its extensions.
fn stem_of(path: &Path) -> Result<String, SourceError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match BundlePath::parse(&format!("{stem}/0")) {
        Ok(_) => Ok(stem),
        Err(e) => {
            let text = format!("its name cannot begin the keys of its rows: {}", e.reason);
            Err(fault(path, text))
        }
    }
}

fn texts(line: &[u8], separator: u8) -> Vec<String> {
    cells(line, separator).map(|cell| String::from_utf8_lossy(cell).into_owned()).collect()
}

/// The split that a cell names.
fn split_word(cell: &[u8]) -> Option<Split> {
    let word = std::str::from_utf8(cell).ok()?;
    let known = SPLIT_WORDS.iter().find(|(known, _)| word.eq_ignore_ascii_case(known));
    known.map(|(_, split)| *split).or_else(|| split_of(word))
}

impl Columns {
    /// Interprets the columns by the first line, which may name them, and the second.
    fn new(
        first: &[u8],
        second: &[u8],
        options: &SourceOptions<'_>,
        path: &Path,
    ) -> Result<Self, SourceError> {
        let separator = separator_of(first);
        let cells = texts(first, separator);
        let n = cells.len();
        // pandas names unnamed columns like this: 0, 1, 2, and so on.
        let counts = n > 1 && (0_usize..).zip(&cells).all(|(i, cell)| *cell == i.to_string());
        let is_row = !counts && cells.iter().all(|cell| cell.parse::<i64>().is_ok());
        let names = if is_row { Vec::new() } else { cells };
        let row = texts(second, separator);
        let at = |name: &str| names.iter().position(|n| n == name);
        let pixels = match at(TEXT_COLUMN).filter(|_| n > 1 || !row.is_empty()) {
            // A single pixel may have this name, too.
            Some(at) if row.get(at).is_some_and(|cell| cell.contains(' ')) => {
                let n = row.get(at).map_or(0, |cell| cell.split_ascii_whitespace().count());
                PixelCells::Text { at, n }
            }
            _ => PixelCells::Each,
        };
        let has_split =
            |at: &usize| row.get(*at).is_some_and(|cell| split_word(cell.as_bytes()).is_some());
        let split = find_split(&names).and_then(|name| at(name)).filter(has_split);
        let mut columns = Self { separator, names, n, label: None, labelled: false, split, pixels };
        columns.label = columns.find_label(options, path)?;
        columns.split = split.filter(|_| columns.split != columns.label);
        columns.labelled = columns.label.is_some() && options.labelled;
        Ok(columns)
    }

    /// Finds the column of labels.
    fn find_label(
        &self,
        options: &SourceOptions<'_>,
        path: &Path,
    ) -> Result<Option<usize>, SourceError> {
        let no_column = |wanted: Option<&String>| SourceError::NoColumn {
            path: path.display().to_string(),
            what: "labels",
            wanted: wanted.cloned(),
            columns: self.names.clone(),
        };
        let at = |name: &str| self.names.iter().position(|n| n == name);
        if let Some(LabelColumn::None) = options.label_column {
            return Ok(None);
        }
        if let Some(LabelColumn::Named(name)) = options.label_column {
            return at(name).map(Some).ok_or_else(|| no_column(Some(name)));
        }
        if self.names.is_empty() {
            let size = size_of(options);
            let is_label = shape_of(self.n, size).is_none() && shape_of(self.n - 1, size).is_some();
            return Ok(is_label.then_some(0));
        }
        let found = find_label(&self.names).and_then(|name| at(name));
        let PixelCells::Text { .. } = self.pixels else { return Ok(found) };
        let found = found.or_else(|| {
            let is_one = |name: &&String| TEXT_LABELS.iter().any(|l| name.eq_ignore_ascii_case(l));
            self.names.iter().find(is_one).and_then(|name| at(name))
        });
        // Other columns could be labels, and would be lost without a word.
        match found {
            None if options.labelled && !self.unused().is_empty() => Err(no_column(None)),
            found => Ok(found),
        }
    }

    /// The columns that are not packed.
    fn unused(&self) -> Vec<String> {
        let PixelCells::Text { at: text, .. } = self.pixels else { return Vec::new() };
        let used = |at: usize| at == text || self.label == Some(at) || self.split == Some(at);
        let names = (0..).zip(&self.names).filter(|(at, _)| !used(*at));
        names.map(|(_, name)| name.clone()).collect()
    }

    /// How the columns are used, for reports.
    fn said(&self, shape: [u64; 3]) -> PixelColumns {
        let labels = self.label.filter(|_| self.labelled).map(|at| self.called(at));
        let splits = self.split.map(|at| self.called(at));
        PixelColumns { labels, splits, unused: self.unused(), shape, ..PixelColumns::default() }
    }

    fn shape(&self, options: &SourceOptions<'_>, path: &Path) -> Result<[u64; 3], SourceError> {
        let size = size_of(options);
        let n = match self.pixels {
            PixelCells::Each => {
                self.n - usize::from(self.label.is_some()) - usize::from(self.split.is_some())
            }
            PixelCells::Text { n, .. } => n,
        };
        let shape = shape_of(n, size).ok_or_else(|| {
            let label = match self.label {
                Some(at) => format!("besides the column of labels {}", self.called(at)),
                None => "and no column of labels is known".to_owned(),
            };
            let unit = match self.pixels {
                PixelCells::Each => "columns",
                PixelCells::Text { .. } => "numbers",
            };
            let expected = match size {
                Some((w, h)) => format!("a multiple of {w} x {h}"),
                None => format!("n x n {unit} for grey images, or 3 x n x n for colour images"),
            };
            let reason = match self.pixels {
                PixelCells::Each => {
                    format!("it has {n} columns of pixels, {label}; expected {expected}")
                }
                PixelCells::Text { at, .. } => {
                    let column = self.called(at);
                    format!("the first row has {n} numbers in {column}; expected {expected}")
                }
            };
            fault(path, reason)
        })?;
        check_shape(shape, options).map_err(|e| fault(path, e.to_string()))?;
        Ok(shape)
    }

    /// Returns a column's name for messages.
    fn called(&self, at: usize) -> String {
        match self.names.get(at) {
            Some(name) => format!("`{name}`"),
            None => format!("column {}", at + 1),
        }
    }

    /// Adds the pixels of a row to `pixels`, and returns its other cells.
    pub(super) fn read<'l>(
        &self,
        line: &'l [u8],
        pixels: &mut Vec<u8>,
    ) -> Result<RowCells<'l>, RowError> {
        let mut row = RowCells::default();
        let mut n = 0;
        for (at, cell) in cells(line, self.separator).enumerate() {
            n += 1;
            let bad = |cell| RowError::Pixel { column: self.called(at), cell: shown(cell) };
            if self.label == Some(at) {
                row.label = cell;
            } else if self.split == Some(at) {
                row.split = cell;
            } else if let PixelCells::Text { at: text, n: expected } = self.pixels {
                if at != text {
                    continue;
                }
                for number in cell.split(u8::is_ascii_whitespace).filter(|n| !n.is_empty()) {
                    pixels.push(pixel(number).ok_or_else(|| bad(number))?);
                }
                if pixels.len() != expected {
                    let (column, found) = (self.called(at), pixels.len());
                    return Err(RowError::Numbers { column, found, expected });
                }
            } else if let Some(pixel) = pixel(cell) {
                pixels.push(pixel);
            } else if n <= self.n {
                return Err(bad(cell));
            }
        }
        if n != self.n {
            return Err(RowError::Cells { found: n, expected: self.n });
        }
        Ok(row)
    }
}

/// The beginning of a cell, for messages.
fn shown(cell: &[u8]) -> String {
    let cell: String = String::from_utf8_lossy(cell).chars().take(40).collect();
    cell.escape_debug().to_string()
}

fn size_of(options: &SourceOptions<'_>) -> Option<(u32, u32)> {
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
    /// For each row its split, if a column says it.
    splits: Vec<Split>,
    split_words: BTreeMap<String, Split>,
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
        Self {
            name,
            columns,
            starts: Vec::new(),
            words: Ids::default(),
            labels: Vec::new(),
            splits: Vec::new(),
            split_words: BTreeMap::new(),
            bad: Vec::new(),
            pixels: Vec::new(),
        }
    }

    fn row(&mut self, line: &[u8], at: At) {
        let number = self.starts.len() as u64;
        self.starts.push(at.start);
        self.pixels.clear();
        let read = self.columns.read(line, &mut self.pixels);
        let read = read.and_then(|row| Ok((self.label(row.label)?, self.split(row.split)?)));
        let (label, split) = match read {
            Ok(read) => read,
            Err(error) => {
                let reason = format!("line {}: {error}", at.line);
                let fault = Fault::new(reason, Some("repair or remove the row"));
                self.bad.push((number, fault.at(key(&self.name, number))));
                (-1, None)
            }
        };
        self.labels.push(label);
        if self.columns.split.is_some() {
            self.splits.push(split.unwrap_or(Split::Train));
        }
    }

    fn label(&mut self, cell: &[u8]) -> Result<i32, RowError> {
        let Some(at) = self.columns.label.filter(|_| self.columns.labelled) else { return Ok(-1) };
        self.words
            .id(cell)
            .ok_or_else(|| RowError::Class { column: self.columns.called(at), cell: shown(cell) })
    }

    fn split(&mut self, cell: &[u8]) -> Result<Option<Split>, RowError> {
        let Some(at) = self.columns.split else { return Ok(None) };
        let split = split_word(cell).ok_or_else(|| RowError::Split {
            column: self.columns.called(at),
            cell: shown(cell),
        })?;
        let word = String::from_utf8_lossy(cell);
        if !self.split_words.contains_key(&*word) {
            self.split_words.insert(word.into_owned(), split);
        }
        Ok(Some(split))
    }
}

/// Reads lines that are not blank.
struct Lines<R: Read> {
    file: BufReader<R>,
    position: u64,
    line: u64,
}

impl<R: Read> Lines<R> {
    fn new(file: R) -> Self {
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
