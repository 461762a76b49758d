//! The rows of a table, whatever its format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::boxes;
use super::cell::Cell;
use super::coco::Coco;
use super::indicators::Indicators;
use super::lookup::Lookup;
use super::{csv, json, jsonl, list, lookup, parquet, voc, yolo};
use crate::facts::Names;
use crate::facts::Pattern;
use crate::layout::LayoutError;
use crate::source::SourceError;

/// A callback for each row of a table. It gets the number of the line or row, the names of the
/// columns so far, and at most one cell for each of these.
pub(crate) type Each<'a> = &'a mut dyn FnMut(u64, &[String], &[Cell]) -> Result<(), LayoutError>;

/// Most columns of a table.
pub(super) const MOST_COLUMNS: usize = 4096;
/// The formats of tables, by extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    Tsv,
    JsonLines,
    /// Rows in one JSON document.
    Json,
    Parquet,
    /// Boxes in one JSON file.
    Coco,
    /// Boxes in a folder of text files.
    Yolo,
    /// Boxes in a folder of XML files.
    Voc,
    /// Lines whose parts a pattern names.
    List,
}

impl Format {
    pub(super) fn of(path: &Path) -> Result<Self, LayoutError> {
        if path.is_dir() {
            return boxes::format(path);
        }
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match &*extension {
            "csv" => Ok(Self::Csv),
            "tsv" | "tab" => Ok(Self::Tsv),
            "jsonl" | "ndjson" => Ok(Self::JsonLines),
            "parquet" => Ok(Self::Parquet),
            "json" if json::has_rows(path) => Ok(Self::Json),
            "json" => Ok(Self::Coco),
            "txt" | "lst" | "list" => Ok(Self::List),
            _ => Err(LayoutError::NoTable(path.display().to_string())),
        }
    }
}

/// Reads tables, as often as asked: row by row, but for JSON of boxes, which is parsed once and
/// held.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    coco: Mutex<BTreeMap<PathBuf, Arc<Coco>>>,
    formats: Mutex<BTreeMap<PathBuf, Format>>,
    /// What the lines of each list mean.
    lines: BTreeMap<PathBuf, Vec<Pattern>>,
    /// What is the same in all rows of a table: names of columns, and cells.
    constants: BTreeMap<PathBuf, (Vec<String>, Vec<Cell>)>,
    /// Rows of further tables, which are looked up for each row.
    pub(super) lookups: Vec<Lookup>,
    /// Columns that are one of classes.
    pub(super) indicators: Option<Indicators>,
}

impl Tables {
    pub(crate) fn new(lines: &BTreeMap<PathBuf, Vec<Pattern>>) -> Self {
        let mut tables = Self::default();
        for (path, patterns) in lines {
            match patterns.as_slice() {
                [pattern] if pattern.constants().is_some() => {
                    let pairs = pattern.constants().into_iter().flatten();
                    let pairs = pairs.map(|(name, value)| (name.to_owned(), Cell::written(value)));
                    tables.constants.insert(path.clone(), pairs.unzip());
                }
                _ => drop(tables.lines.insert(path.clone(), patterns.clone())),
            }
        }
        tables
    }

    /// The format of a table, which is looked for once; a list may have any name.
    fn format(&self, path: &Path) -> Result<Format, LayoutError> {
        if self.lines.contains_key(path) {
            return Ok(Format::List);
        }
        let mut known = self.formats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(format) = known.get(path) {
            return Ok(*format);
        }
        let format = Format::of(path)?;
        known.insert(path.to_owned(), format);
        Ok(format)
    }

    /// Calls `each` with the rows of the table at `path`.
    pub(super) fn read(&self, path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
        match &self.indicators {
            Some(indicators) => indicators.rows(path, self, each),
            None => self.read_joined(path, each),
        }
    }

    /// Calls `each` with the rows of the table and of those that are joined with it.
    pub(super) fn read_joined(&self, path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
        match self.lookups.as_slice() {
            [] => self.read_plain(path, each),
            lookups => lookup::rows(path, self, lookups, each),
        }
    }

    /// The patterns of a list's lines.
    pub(super) fn patterns(&self, path: &Path) -> &[Pattern] {
        self.lines.get(path).map_or(&[], Vec::as_slice)
    }

    /// Calls `each` with the rows as they are in the file.
    pub(crate) fn read_plain(&self, path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
        if let Some(lines) = self.lines.get(path) {
            return list::read(path, lines, each);
        }
        let Some((names, values)) = self.constants.get(path) else {
            return self.read_file(path, each);
        };
        // New columns may come with later rows, so these are before them.
        self.read_file(path, &mut |line, columns, cells| {
            each(line, &[names, columns].concat(), &[values, cells].concat())
        })
    }

    fn read_file(&self, path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
        match self.format(path)? {
            Format::List => Err(list::no_pattern(path)),
            Format::Csv => csv::read(path, None, each),
            Format::Tsv => csv::read(path, Some(b'\t'), each),
            Format::JsonLines => jsonl::read(path, each),
            Format::Json => json::read(path, each),
            Format::Parquet => parquet::read(path, each),
            Format::Coco | Format::Voc => self.coco(path)?.rows(path, each),
            Format::Yolo => yolo::read(path, each),
        }
    }

    /// The classes that a file of boxes names, if it does.
    pub(super) fn box_classes(&self, path: &Path) -> Result<Option<Vec<String>>, LayoutError> {
        match self.format(path)? {
            Format::Coco | Format::Voc => Ok(Some(self.coco(path)?.classes())),
            Format::Yolo => Ok(yolo::classes(path)?.map(|found| found.names)),
            _ => Ok(None),
        }
    }

    /// Whether a file has boxes, each with a class.
    pub(super) fn has_boxes(&self, path: &Path) -> Result<bool, LayoutError> {
        Ok(match self.format(path)? {
            Format::Coco | Format::Voc => self.coco(path)?.has_boxes(),
            Format::Yolo => true,
            _ => false,
        })
    }

    /// The number of annotations without a box in a file of boxes.
    pub(super) fn without_box(&self, path: &Path) -> Result<u64, LayoutError> {
        match self.format(path)? {
            Format::Coco => Ok(self.coco(path)?.without_box()),
            _ => Ok(0),
        }
    }

    /// The size of the image that a row is about, if the table has boxes and says it.
    pub(super) fn size(&self, path: &Path, line: u64) -> Result<Option<(u32, u32)>, LayoutError> {
        match self.format(path)? {
            Format::Coco | Format::Voc => Ok(self.coco(path)?.size(line)),
            _ => Ok(None),
        }
    }

    /// The images of boxes that are not within them, in a file of boxes.
    pub(super) fn outside(&self, path: &Path) -> Result<Names, LayoutError> {
        match self.format(path)? {
            Format::Coco => Ok(self.coco(path)?.outside()),
            _ => Ok(Names::default()),
        }
    }

    fn coco(&self, path: &Path) -> Result<Arc<Coco>, LayoutError> {
        let mut known = self.coco.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(coco) = known.get(path) {
            return Ok(Arc::clone(coco));
        }
        let coco = Arc::new(if path.is_dir() { voc::read(path)? } else { Coco::open(path)? });
        known.insert(path.to_owned(), Arc::clone(&coco));
        Ok(coco)
    }
}

/// A fault of a table; `at` is the number of the line or row.
pub(super) fn fault(path: &Path, at: Option<u64>, reason: impl Into<String>) -> LayoutError {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let unit = match &*extension {
        "parquet" => "row",
        "json" if !json::has_rows(path) => "image",
        "json" => "row",
        _ if path.is_dir() => "image",
        _ => "line",
    };
    let at = at.map(|n| format!(" {unit} {n}")).unwrap_or_default();
    SourceError::Table { path: path.display().to_string(), at, reason: reason.into() }.into()
}

pub(super) fn too_many_columns(path: &Path) -> LayoutError {
    fault(path, None, format!("it has more than {MOST_COLUMNS} columns"))
}
