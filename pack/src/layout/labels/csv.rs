//! Tables of separated values, whose first line names the columns.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use super::cell::Cell;
use super::rows::{Each, MOST_COLUMNS, fault, too_many_columns};
use crate::layout::LayoutError;
use crate::source::{BOM, MOST_ROW_BYTES, find_key, separator_of};

/// The first line is looked at so far for what separates cells.
const FIRST_LINE: usize = 64 << 10;

/// Reads a table; without `separator` the first line tells it.
pub(super) fn read(path: &Path, separator: Option<u8>, each: Each<'_>) -> Result<(), LayoutError> {
    let io = |e| LayoutError::io("read", path, e);
    let mut file = BufReader::with_capacity(FIRST_LINE, File::open(path).map_err(io)?);
    let (mut skipped, mut given) = (0, separator);
    let mut start = file.fill_buf().map_err(io)?;
    if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
        let reason =
            "it is UTF-16; tables are read as UTF-8, which `iconv -f UTF-16 -t UTF-8` makes of it";
        return Err(fault(path, None, reason));
    }
    // Excel's first line `sep=;` names no columns.
    let line = start.iter().position(|b| *b == b'\n').map_or(0, |end| end + 1);
    if let Some(said) = start.strip_prefix(BOM).unwrap_or(start).strip_prefix(b"sep=") {
        given = said.first().copied().or(given);
        file.consume(line);
        skipped = 1;
        start = file.fill_buf().map_err(io)?;
    }
    let separator = given.unwrap_or_else(|| separator_of(start));
    let first = start.iter().position(|b| *b == b'\n');
    let crlf = first.and_then(|end| start.get(..end)).is_some_and(|line| line.ends_with(b"\r"));
    if start.starts_with(BOM) {
        file.consume(BOM.len());
    }
    let left = Rc::new(std::cell::Cell::new(MOST_ROW_BYTES));
    let file = Bounded { inner: file, left: Rc::clone(&left) };
    let mut reader = ::csv::ReaderBuilder::new().delimiter(separator).from_reader(file);
    // The crate takes `\r` for the end of a line, and counts its `\n` with the next one.
    let late = std::cell::Cell::new(0);
    let bad = |e: ::csv::Error| {
        let line = e.position().map(|at| at.line() + late.get());
        match e.into_kind() {
            ::csv::ErrorKind::Io(e) => LayoutError::io("read", path, e),
            ::csv::ErrorKind::Utf8 { err, .. } => fault(
                path,
                line,
                format!(
                    "{err}; tables are read as UTF-8, which `iconv -f WINDOWS-1252 -t UTF-8` makes of most others"
                ),
            ),
            ::csv::ErrorKind::UnequalLengths { expected_len, len, .. } => fault(
                path,
                line,
                format!("it has {len} cells, but the first line has {expected_len}"),
            ),
            _ => fault(path, line, "it cannot be read"),
        }
    };
    let columns: Vec<String> = reader
        .headers()
        .map_err(bad)?
        .iter()
        .map(|name| unquoted(name).trim().to_owned())
        .collect();
    if columns.len() > MOST_COLUMNS {
        return Err(too_many_columns(path));
    }
    let mut names = HashSet::new();
    // Some programs write columns without names.
    let mut named = columns.iter().filter(|name| !name.is_empty());
    if let Some(name) = named.find(|name| !names.insert(*name)) {
        return Err(fault(path, Some(1), format!("two columns are named `{name}`")));
    }
    late.set(u64::from(crlf) + skipped);
    let mut record = ::csv::StringRecord::new();
    loop {
        left.set(MOST_ROW_BYTES);
        if !reader.read_record(&mut record).map_err(bad)? {
            return Ok(());
        }
        let line = record.position().map_or(0, ::csv::Position::line) + late.get();
        let cells: Vec<Cell> = record.iter().map(|cell| list_or_text(unquoted(cell))).collect();
        each(line, &columns, &cells)?;
    }
}

/// A cell, which may be a list of texts or of integers in JSON.
fn list_or_text(cell: &str) -> Cell {
    let list = Some(cell.trim()).filter(|text| text.starts_with('[') && text.ends_with(']'));
    let texts = list.and_then(|list| serde_json::from_str::<Vec<String>>(list).ok());
    if let Some(texts) = texts {
        return Cell::List(texts.into_iter().map(Cell::Text).collect());
    }
    let integers = list.and_then(|list| serde_json::from_str::<Vec<i64>>(list).ok());
    match integers {
        Some(integers) => Cell::List(integers.into_iter().map(Cell::Integer).collect()),
        None => Cell::written(cell),
    }
}

/// A cell without the quotes that are behind a blank, as in `1.jpg, "red fox"`.
fn unquoted(cell: &str) -> &str {
    let inside = cell.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.filter(|_| cell.starts_with(' ')).unwrap_or(cell)
}

/// Whether the first line of a text has several columns, of which one is named as those of files are.
pub(super) fn names_files(path: &Path) -> bool {
    let mut line = String::new();
    let file = File::open(path).map(|file| BufReader::new(file.take(FIRST_LINE as u64)));
    let read = file.and_then(|mut file| file.read_line(&mut line));
    let separator = char::from(separator_of(line.as_bytes()));
    let names: Vec<String> = line.split(separator).map(|name| name.trim().to_owned()).collect();
    read.is_ok() && names.len() > 1 && find_key(&names).is_some()
}

/// Ends with an error when a row takes more than its share: a quote that is never closed would
/// bring all of a file into memory.
struct Bounded<R> {
    inner: R,
    left: Rc<std::cell::Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            let text = format!("a row has more than {MOST_ROW_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let n = self.inner.read(buf)?;
        self.left.set(left.saturating_sub(n as u64));
        Ok(n)
    }
}
