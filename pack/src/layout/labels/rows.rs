//! The rows of a table, whatever its format.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::box_rows::BoxColumns;
use super::boxes;
use super::cell::Cell;
use super::coco::Coco;
use super::gather::Gathered;
use super::indicators::Indicators;
use super::lookup::Lookup;
use super::object_lines::ObjectLines;
use super::{
    box_rows, counted, csv, json, jsonl, labelme, list, lookup, parquet, scalabel, voc, wider, yolo,
};
use crate::facts::{BoxForm, Names, Pattern, RunError};
use crate::layout::{LayoutError, check_format};
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
    /// Boxes in a folder of text files with a line per thing.
    Lines(ObjectLines),
    /// Boxes in Scalabel's JSON.
    Scalabel,
    /// Boxes in a folder of LabelMe's JSON files.
    LabelMe,
    /// Rows below their number and the names of columns.
    Counted,
    /// Faces in one list.
    Wider,
    /// Boxes in the rows of a table.
    Boxes,
    /// Lines whose parts a pattern names.
    List,
}

impl Format {
    /// Whether a file is parsed once, and held.
    fn is_parsed(self) -> bool {
        matches!(
            self,
            Self::Coco
                | Self::Voc
                | Self::LabelMe
                | Self::Lines(_)
                | Self::Scalabel
                | Self::Wider
                | Self::Boxes
        )
    }

    pub(super) fn of(path: &Path) -> Result<Self, LayoutError> {
        if path.is_dir() {
            return boxes::format(path);
        }
        check_format(path)?;
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match &*extension {
            "csv" => Ok(Self::Csv),
            "tsv" | "tab" => Ok(Self::Tsv),
            "jsonl" | "ndjson" => Ok(Self::JsonLines),
            "parquet" => Ok(Self::Parquet),
            "json" if scalabel::is_file(path) => Ok(Self::Scalabel),
            "json" if json::has_rows(path) => Ok(Self::Json),
            "json" => Ok(Self::Coco),
            "txt" if wider::is_list(path) => Ok(Self::Wider),
            "txt" if counted::is_table(path) => Ok(Self::Counted),
            "txt" if csv::names_files(path) => Ok(Self::Csv),
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
    /// The columns of names and of labels that the user gives.
    pub(super) given: [Option<String>; 2],
    /// What the user says that the numbers of boxes are.
    pub(super) box_form: Option<BoxForm>,
    /// The classes of all files of boxes, where each has some of them.
    pub(super) classes: Option<Vec<String>>,
    /// What the lines of each list mean.
    lines: BTreeMap<PathBuf, Vec<Pattern>>,
    /// What is the same in all rows of a table: names of columns, and cells.
    constants: BTreeMap<PathBuf, (Vec<String>, Vec<Cell>)>,
    /// The classes of each file's categories, if the user named them.
    of_boxes: BTreeMap<PathBuf, HashMap<i64, i64>>,
    /// Rows of further tables, which are looked up for each row.
    pub(super) lookups: Vec<Lookup>,
    /// Columns that are one of classes.
    pub(super) indicators: Option<Indicators>,
    /// Columns that have a list for each image, which has several rows.
    pub(super) gathered: Option<Gathered>,
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
        let mut known = self.formats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(format) = known.get(path) {
            return Ok(*format);
        }
        let own = self.own_format(path)?;
        let format = if self.box_columns(path, own).is_some() { Format::Boxes } else { own };
        known.insert(path.to_owned(), format);
        Ok(format)
    }

    /// The format of a file, whatever its columns mean.
    fn own_format(&self, path: &Path) -> Result<Format, LayoutError> {
        if self.lines.contains_key(path) { Ok(Format::List) } else { Format::of(path) }
    }

    /// The columns of boxes, of which a row has one or all of an image.
    fn box_columns(&self, path: &Path, own: Format) -> Option<BoxColumns> {
        use Format::{Csv, Json, JsonLines, List, Parquet, Tsv};
        let is_table = matches!(own, Csv | Tsv | JsonLines | Json | Parquet | List);
        let [key, class] = self.given.each_ref().map(Option::as_deref);
        let read = |each: Each<'_>| self.read_as(own, path, each);
        let found = || box_rows::find_columns(&read, key, class);
        is_table.then(found).flatten().map(|columns| columns.with_form(self.box_form))
    }

    /// The columns of a table of boxes that say something else, and are left out.
    pub(super) fn beside_boxes(&self, path: &Path) -> Vec<String> {
        let own = self.own_format(path).ok();
        let columns = own.and_then(|own| self.box_columns(path, own));
        columns.map(|columns| columns.others).unwrap_or_default()
    }

    /// Calls `each` with the rows of the table at `path`.
    pub(super) fn read(&self, path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
        match &self.indicators {
            Some(indicators) => indicators.rows(path, self, each),
            None => self.read_gathered(path, each),
        }
    }

    /// Calls `each` with a row for each image, of tables in which images have several.
    pub(super) fn read_gathered(&self, path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
        match &self.gathered {
            Some(gathered) => gathered.rows(path, self, each),
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
        // The rows of boxes have none of what the patterns of lines set.
        let of_boxes = match self.lines.get(path).map(Vec::as_slice) {
            Some([pattern]) if self.format(path)? == Format::Boxes => {
                let pairs = pattern.set_values();
                pairs.map(|(name, value)| (name.to_owned(), Cell::written(value))).unzip()
            }
            _ => (Vec::new(), Vec::new()),
        };
        let (names, values) = self.constants.get(path).unwrap_or(&of_boxes);
        if names.is_empty() {
            return self.read_file(path, each);
        }
        // New columns may come with later rows, so these are before them.
        self.read_file(path, &mut |line, columns, cells| {
            each(line, &[names, columns].concat(), &[values, cells].concat())
        })
    }

    fn read_file(&self, path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
        self.read_as(self.format(path)?, path, each)
    }

    fn read_as(&self, format: Format, path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
        match format {
            Format::List => match self.lines.get(path) {
                Some(lines) => list::read(path, lines, each),
                None => Err(list::no_pattern(path)),
            },
            Format::Csv => csv::read(path, None, each),
            Format::Counted => counted::read(path, each),
            Format::Tsv => csv::read(path, Some(b'\t'), each),
            Format::JsonLines => jsonl::read(path, each),
            Format::Json => json::read(path, each),
            Format::Parquet => parquet::read(path, each),
            Format::Coco
            | Format::Voc
            | Format::LabelMe
            | Format::Lines(_)
            | Format::Scalabel
            | Format::Wider
            | Format::Boxes => {
                let coco = self.coco(path)?;
                let joined = self.classes.as_deref().and_then(|all| coco.numbers_in(all).ok());
                coco.rows(path, self.of_boxes.get(path).or(joined.as_ref()), each)
            }
            Format::Yolo => yolo::read(path, each),
        }
    }

    /// The classes that a file of boxes names, if it does.
    pub(super) fn box_classes(&self, path: &Path) -> Result<Option<Vec<String>>, LayoutError> {
        match self.format(path)? {
            format if format.is_parsed() => Ok(Some(self.coco(path)?.classes())),
            Format::Yolo => Ok(yolo::classes(path)?.map(|found| found.names)),
            _ => Ok(None),
        }
    }

    /// Whether the classes of a file of boxes are only those of its boxes, not all that there are.
    pub(super) fn has_own_classes(&self, path: &Path) -> Result<bool, LayoutError> {
        Ok(!matches!(self.format(path)?, Format::Coco | Format::Yolo))
    }

    /// Numbers the classes of the boxes of a file by their names in `classes`. The classes of YOLO
    /// are numbers already.
    pub(super) fn number_boxes(
        &mut self,
        path: &Path,
        classes: &[String],
    ) -> Result<(), LayoutError> {
        if self.format(path)?.is_parsed() {
            let numbers = self.coco(path)?.numbers_in(classes).map_err(|class| {
                RunError::unknown_class(path.display().to_string(), class, classes.len())
            })?;
            self.of_boxes.insert(path.to_owned(), numbers);
        }
        Ok(())
    }

    /// Whether a file has boxes, each with a class.
    pub(super) fn has_boxes(&self, path: &Path) -> Result<bool, LayoutError> {
        Ok(match self.format(path)? {
            format if format.is_parsed() => self.coco(path)?.has_boxes(),
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

    /// The numbers of outlines and of points in a file of boxes.
    pub(super) fn unread(&self, path: &Path) -> Result<[u64; 2], LayoutError> {
        match self.format(path)? {
            format if format.is_parsed() => Ok(self.coco(path)?.unread()),
            Format::Yolo => Ok([yolo::outlines(path)?, 0]),
            _ => Ok([0, 0]),
        }
    }

    /// The size of the image that a row is about, if the table has boxes and says it.
    pub(super) fn size(&self, path: &Path, line: u64) -> Result<Option<(u32, u32)>, LayoutError> {
        match self.format(path)? {
            format if format.is_parsed() => Ok(self.coco(path)?.size(line)),
            _ => Ok(None),
        }
    }

    /// The images of boxes that are not within them, in a file of boxes.
    pub(super) fn outside(&self, path: &Path) -> Result<Names, LayoutError> {
        match self.format(path)? {
            format if format.is_parsed() => Ok(self.coco(path)?.outside()),
            _ => Ok(Names::default()),
        }
    }

    fn coco(&self, path: &Path) -> Result<Arc<Coco>, LayoutError> {
        let mut known = self.coco.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(coco) = known.get(path) {
            return Ok(Arc::clone(coco));
        }
        let coco = Arc::new(match self.format(path)? {
            Format::Voc => voc::read(path)?,
            Format::Lines(lines) => lines.read(path)?,
            Format::Scalabel => scalabel::read(path)?,
            Format::LabelMe => labelme::read(path)?,
            Format::Wider => wider::read(path)?,
            Format::Boxes => {
                let own = self.own_format(path)?;
                let columns = self
                    .box_columns(path, own)
                    .ok_or_else(|| fault(path, None, "it changed while it was read"))?;
                box_rows::read(path, &columns, &|each| self.read_as(own, path, each))?
            }
            _ => Coco::open(path)?,
        });
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
