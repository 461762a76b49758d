//! A table of labels: the meaning of its columns, and its rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use gular_bundle::{Dtype, Field, FieldName, Split};
use serde::Serialize;
use serde_json::Value;

use super::box_rows;
use super::boxes;
use super::cell::Cell;
use super::columns::{LabelKind, Seen, ValueKind, field};
use super::doubts::{
    are_several, boxes_as_numbers, may_be_splits, no_classes, of_boxes, other_labels, several,
    unknown,
};
use super::gather::Gathered;
use super::indicators::{self, Indicators, are_classes, may_be_classes};
use super::lookup::{self, JoinedTables, Lookup};
use super::rows::{Tables, fault};
use super::values::planned;
use crate::facts::{Doubt, Pattern, RunError, setting};
use crate::facts::{MOST_CLASSES, Numbering, Words, merged};
use crate::layout::{LayoutError, alike};
use crate::source::{LabelColumn, SourceError, all_labels, find_key, find_label, is_of_splits};

/// A bundle has at most 256 fields; the image and its label or labels are two.
const MOST_FIELDS: usize = 254;
/// The field of images that may have several classes. Format: `FORMAT.md`, "Fields".
const LABELS: &str = "labels";

/// The tables of labels, and what their columns mean.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableOptions {
    /// The tables, read as one: CSV, TSV, JSON lines or Parquet, by extension.
    pub files: Vec<PathBuf>,
    /// For lists without a header, what their lines mean: of several patterns, the one that says the
    /// most about a line.
    pub lines: BTreeMap<PathBuf, Vec<Pattern>>,
    /// The column of file names; `None` to find it by its name.
    pub key: Option<String>,
    /// The column of labels.
    pub label: LabelColumn,
    /// The column of splits.
    pub split: Option<String>,
    /// The column of what stays in one split, if fractions make the splits.
    pub group: Option<String>,
    /// The separator of several classes in one cell of text.
    pub separator: Option<String>,
    /// Which further columns become fields.
    pub fields: FieldColumns,
}

impl TableOptions {
    /// Whether it is known without reading them that the tables have no labels.
    pub(crate) fn has_no_labels(&self) -> bool {
        let has_no_label = |file: &PathBuf| {
            self.lists().any(|(list, _)| list == file)
                && !self.lines[file].iter().any(|line| line.has("label"))
        };
        let of_lines = self.files.iter().all(has_no_label);
        self.label == LabelColumn::None || (self.label == LabelColumn::Find && of_lines)
    }

    /// The lists whose lines have patterns; other patterns only add to the rows of tables.
    fn lists(&self) -> impl Iterator<Item = (&PathBuf, &Vec<Pattern>)> {
        let is_list = |lines: &&Vec<Pattern>| lines.iter().any(|line| line.constants().is_none());
        self.lines.iter().filter(move |(_, lines)| is_list(lines))
    }

    /// Whether all tables have boxes, which have classes of their own.
    fn is_of_boxes(&self, tables: &Tables) -> bool {
        self.files.iter().all(|file| tables.has_boxes(file).unwrap_or(false))
    }

    /// The classes that the tables name; several must agree.
    fn box_classes(&self, tables: &Tables) -> Result<Vec<String>, LayoutError> {
        let (mut classes, mut own): (Option<(&PathBuf, Vec<String>)>, _) = (None, true);
        for file in &self.files {
            let Some(found) = tables.box_classes(file)? else { continue };
            own &= tables.has_own_classes(file)?;
            match &mut classes {
                Some((_, known)) if *known == found => {}
                Some((_, known)) if own => {
                    known.extend(found);
                    *known = merged(std::mem::take(known));
                }
                Some((first, _)) => {
                    let reason = format!("its classes differ from those of `{}`", first.display());
                    return Err(fault(file, None, reason));
                }
                None => classes = Some((file, found)),
            }
        }
        Ok(classes.map(|(_, classes)| classes).unwrap_or_default())
    }
}

/// A column of a table that looks like one of splits and was stored as a field, since no column
/// was to set splits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSplit {
    /// Name of the column.
    pub column: String,
    /// Whether its values are text, not numbers.
    pub is_text: bool,
}

/// The further columns that become fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FieldColumns {
    /// All columns that can become fields; the others are reported.
    #[default]
    All,
    /// These columns, each of which must be able to become a field.
    Named(Vec<String>),
}

/// How the columns of the tables were used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableColumns {
    /// The column of file names.
    pub file_names: String,
    /// The column of labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
    /// The column of splits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splits: Option<String>,
    /// Further tables, whose rows were looked up for those of the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<JoinedTables>,
}

/// Tables whose columns have been read.
#[derive(Debug)]
pub(crate) struct Table {
    options: TableOptions,
    tables: Tables,
    key: String,
    label: Option<(String, LabelKind)>,
    /// Further columns.
    columns: Vec<(String, ValueKind)>,
    /// Fields of further columns, behind that of several classes where there is one.
    pub(crate) fields: Vec<Field>,
    pub(crate) classes: Vec<String>,
    numbers: HashMap<String, i64>,
    /// What is not clear about the columns.
    pub(crate) doubts: Vec<Doubt>,
    /// The column that became field `split`, where no column sets splits.
    pub(crate) split_stored: Option<StoredSplit>,
    /// Columns that became no field, and why.
    pub(crate) left_out: Vec<(String, String)>,
    rows: u64,
}

/// The entries of a table for one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableRow<'a> {
    /// The number of the table.
    pub(crate) file: usize,
    /// The number of its line or row.
    pub(crate) line: u64,
    pub(crate) name: &'a str,
    pub(crate) split: Option<Split>,
    /// Empty without a column of groups.
    pub(crate) group: &'a str,
    /// `None` when the cell is empty; -1 without a column of labels of one class.
    pub(crate) label: Option<i64>,
    /// The size of the image of which the row has boxes.
    pub(crate) size: Option<(u32, u32)>,
    /// The values, as the plan lists them.
    pub(crate) values: String,
}

impl Table {
    /// Looks at the columns and gathers the classes; `classes` are those given, if any.
    pub(crate) fn open(
        options: &TableOptions,
        classes: Option<Vec<String>>,
    ) -> Result<Self, LayoutError> {
        let mut tables = Tables::new(&options.lines);
        let label = match &options.label {
            LabelColumn::Named(name) => Some(name.clone()),
            LabelColumn::Find | LabelColumn::None => None,
        };
        tables.given = [options.key.clone(), label];
        let (files, lookups) = lookup::take(options, &tables)?;
        tables.lookups = lookups;
        let options = &TableOptions { files, ..options.clone() };
        let mut survey = Survey::of(options, &tables)?;
        let key = survey.key(options)?;
        let mut doubts = Vec::new();
        if !options.is_of_boxes(&tables)
            && let Some(gathered) = Gathered::find(&key, &options.files, &tables)?
        {
            doubts.push(gathered.doubt());
            tables.gathered = Some(gathered);
            survey = Survey::of(options, &tables)?;
        }
        let indicators = survey.indicators(options, &key, &tables)?;
        let options = &TableOptions {
            label: match &indicators {
                Some(found) => LabelColumn::Named(found.name.clone()),
                None => options.label.clone(),
            },
            ..options.clone()
        };
        if let Some(found) = &indicators {
            if matches!(options.label, LabelColumn::Named(_)) && found.is_one_hot() {
                doubts.push(are_classes(found));
            }
            tables.indicators = indicators;
            survey = Survey::of(options, &tables)?;
        }
        let mut label = survey.label(options, &key, &tables, &mut doubts)?;
        let mut options = options.clone();
        if let Some((name, LabelKind::Name)) = &label
            && options.separator.is_none()
            && let Some((separator, word)) = divided(name, &options.files, &tables)?
        {
            doubts.push(are_several(name, &word, separator));
            options.separator = Some(separator.to_string());
            label = survey.label(&options, &key, &tables, &mut Vec::new())?;
        }
        let options = &options;
        if let Some(split) = &options.split {
            survey.check(split)?;
        }
        if let Some(group) = options.group.as_ref().filter(|group| !survey.columns.contains(group))
        {
            return Err(survey.no_column("groups", Some(group)));
        }
        let given = [Some(&key), label.as_ref().map(|(name, _)| name), options.split.as_ref()];
        let given: BTreeSet<&str> = given.into_iter().flatten().map(String::as_str).collect();
        let mut table = Self {
            options: options.clone(),
            tables,
            columns: Vec::new(),
            fields: Vec::new(),
            classes: Vec::new(),
            numbers: HashMap::new(),
            doubts,
            split_stored: None,
            left_out: Vec::new(),
            rows: survey.rows,
            key: key.clone(),
            label: label.clone(),
        };
        for file in &options.files {
            of_boxes(file, &table.tables, &mut table.doubts)?;
        }
        let of_file = options.box_classes(&table.tables)?;
        if options.files.len() > 1 {
            table.tables.classes = Some(of_file.clone());
        }
        if options.is_of_boxes(&table.tables) && table.label.is_none() {
            if let Some(given) = &classes {
                for file in &options.files {
                    table.tables.number_boxes(file, given)?;
                }
            }
            table.classes = classes.unwrap_or(of_file);
        } else {
            table.name_classes(classes.or((!of_file.is_empty()).then_some(of_file)))?;
        }
        if table.by_name() {
            table.doubts.extend(alike(&table.classes.iter().cloned().collect()));
        }
        let several = matches!(label, Some((_, LabelKind::Names | LabelKind::Numbers)));
        if several {
            let name = FieldName::parse(LABELS).expect("it is a field's name");
            table.fields.push(Field::fixed(name, Dtype::U8, vec![table.classes.len() as u64]));
        }
        survey.choose_fields(options, &given, several, &mut table)?;
        let stored: Vec<String> = table.columns.iter().map(|(name, _)| name.clone()).collect();
        table
            .doubts
            .extend(box_rows::corners_among(&stored).map(|corners| boxes_as_numbers(&corners)));
        Ok(table)
    }

    /// Whether images have one class each.
    pub(crate) fn labelled(&self) -> bool {
        matches!(self.label, Some((_, LabelKind::Name | LabelKind::Number)))
    }

    /// Whether a column says the classes.
    pub(crate) fn has_labels(&self) -> bool {
        self.label.is_some()
    }

    /// Numbers the classes as in `classes`, which has those of paths, too.
    pub(crate) fn renumber(&mut self, classes: &[String]) -> Result<(), LayoutError> {
        let are_numbers = || classes.iter().all(|class| class.parse::<u64>().is_ok());
        if let Some((column, kind)) = &self.label
            && *kind != LabelKind::Name
            && !(*kind == LabelKind::Number && are_numbers())
        {
            let text = format!(
                "a part of the paths names classes, so the column `{column}` must name one of these for each of the other images, and it has numbers or several classes"
            );
            return Err(setting(&["images", "label_column"], text));
        }
        if let Some(field) = self.fields.first() {
            let text = format!(
                "images whose class is in their path have no row, and so no value of the field `{}`",
                field.name
            );
            return Err(setting(&["columns"], text));
        }
        self.numbers = classes.iter().cloned().zip(0..).collect();
        self.classes = classes.to_vec();
        Ok(())
    }

    /// Whether a column says the splits.
    pub(crate) fn has_splits(&self) -> bool {
        self.options.split.is_some()
    }

    /// All files that the rows are from, as messages list them.
    pub(crate) fn all_files(&self) -> String {
        let joined = self.tables.lookups.iter().flat_map(Lookup::files);
        let shown = self.files().iter().chain(joined);
        shown.map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(" or ")
    }

    /// The values of the fields of an image without a row.
    pub(crate) fn nothing(&self) -> Result<String, LayoutError> {
        if let Some(split) = &self.options.split {
            let text = format!(
                "images without a row would have no split, since the column `{split}` sets the splits"
            );
            return Err(setting(&["unlabelled", "split_column"], text));
        }
        let mut values = Vec::with_capacity(self.fields.len());
        if self.several() {
            values.push(Value::Array(Vec::new()));
        }
        for (name, kind) in &self.columns {
            let empty = match kind {
                ValueKind::Arrays { .. } | ValueKind::Lists { .. } => Cell::List(Vec::new()),
                _ => Cell::Missing,
            };
            let value = planned(&empty, kind).ok_or_else(|| {
                let text = format!("images without a row have no value of column `{name}`, which becomes a field of integers or of fixed length");
                setting::<LayoutError>(&["unlabelled", "columns"], text)
            })?;
            values.push(value);
        }
        Ok(if values.is_empty() { String::new() } else { Value::Array(values).to_string() })
    }

    /// Whether classes are given by their names.
    pub(crate) fn by_name(&self) -> bool {
        matches!(self.label, Some((_, LabelKind::Name | LabelKind::Names)))
    }

    /// Whether images may have several classes.
    pub(crate) fn several(&self) -> bool {
        matches!(self.label, Some((_, LabelKind::Names | LabelKind::Numbers)))
    }

    /// Whether all tables are of boxes.
    pub(crate) fn is_of_boxes(&self) -> bool {
        self.options.is_of_boxes(&self.tables)
    }

    /// Returns the columns that are used, and for what.
    pub(crate) fn taken(&self) -> TableColumns {
        TableColumns {
            file_names: self.key.clone(),
            labels: self.label.as_ref().map(|(name, _)| name.clone()),
            splits: self.options.split.clone(),
            joined: self.tables.lookups.iter().map(Lookup::said).collect(),
        }
    }

    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.options.files
    }

    /// Gathers the names of the classes, or takes those given.
    fn name_classes(&mut self, given: Option<Vec<String>>) -> Result<(), LayoutError> {
        let Some((column, kind)) = self.label.clone() else { return Ok(()) };
        let (mut words, mut most) = (BTreeSet::new(), -1_i64);
        // A column of its own is a class, though no image has it.
        let columns = self.tables.indicators.iter().flat_map(Indicators::columns);
        for class in columns.filter(|_| given.is_none()) {
            let cell = Cell::Text(class.clone());
            most = most.max(cell.class_number().unwrap_or(-1));
            words.extend(kind.word(&cell));
        }
        for path in &self.options.files {
            let mut at = Place::new(&column);
            self.tables.read(path, &mut |line, columns, cells| {
                let cell = split_cell(at.cell(columns, cells), self.options.separator.as_deref());
                let cells = match &cell {
                    Cell::List(cells) => cells.as_slice(),
                    cell => std::slice::from_ref(cell),
                };
                let is_class = |cell: &&Cell| **cell != Cell::Missing && !cell.is_nan();
                for cell in cells.iter().filter(is_class) {
                    let changed = || changed(path, line);
                    if let LabelKind::Number | LabelKind::Numbers = kind {
                        let n = cell.class_number().ok_or_else(changed)?;
                        let least = if kind == LabelKind::Number { -1 } else { 0 };
                        if n < least || n > i64::from(i32::MAX) {
                            let reason = format!(
                                "the column `{column}` has the class number {n}, expected 0 to {}",
                                i32::MAX
                            );
                            return Err(fault(path, Some(line), reason));
                        }
                        most = most.max(n);
                    }
                    let word = kind.word(cell).ok_or_else(changed)?;
                    if words.len() <= MOST_CLASSES {
                        words.insert(word);
                    }
                }
                Ok(())
            })?;
        }
        let by_number = matches!(kind, LabelKind::Number | LabelKind::Numbers);
        // A class that no image has is one, too, where images can have several.
        if let Some(indicators) = self.tables.indicators.as_ref().filter(|_| self.several()) {
            words.extend(indicators.columns().iter().cloned());
        }
        self.check_words(&column, &words, by_number)?;
        let words = Words { words, most: by_number.then_some(most) };
        let lone = matches!(kind, LabelKind::Name | LabelKind::Number);
        let numbering = Numbering::new(words, given, lone, &column, &self.shown())?;
        (self.classes, self.numbers) = (numbering.classes, numbering.numbers);
        if self.several() && self.classes.is_empty() {
            let text = format!("no row has a class in column `{column}`");
            return Err(setting(&["label_column", "label_separator"], text));
        }
        Ok(())
    }

    /// Refuses words that are not classes, and notes what they may mean.
    fn check_words(
        &mut self,
        column: &str,
        words: &BTreeSet<String>,
        by_number: bool,
    ) -> Result<(), LayoutError> {
        let fail = |text| Err(setting(&["label_column", "label_separator"], text));
        if by_number && words.contains("-1") {
            if words.iter().all(|word| matches!(word.as_str(), "-1" | "1")) {
                return fail(format!(
                    "the column `{column}` holds only -1 and 1, and -1 would say that the class is unknown: write 0 in place of -1"
                ));
            }
            self.doubts.push(unknown(column));
        }
        // `a,b` is several classes where `a` is one.
        let is_several = |word: &&String| {
            let mut parts = word.split([',', ';']);
            let has_parts = word.contains([',', ';']);
            has_parts && parts.any(|part| words.contains(part.trim()))
        };
        if let Some(word) = words.iter().find(is_several) {
            self.doubts.push(several(column, word));
        }
        match words.iter().find(|word| word.starts_with("['") && word.ends_with("']")) {
            Some(word) => fail(format!(
                "the column `{column}` holds lists that are written as texts, such as `{word}`: write the table as JSON lines, or the classes with a separator between them"
            )),
            None => Ok(()),
        }
    }

    /// Calls `each` with every row.
    pub(crate) fn rows(
        &self,
        each: &mut dyn FnMut(&TableRow<'_>) -> Result<(), LayoutError>,
    ) -> Result<(), LayoutError> {
        let mut rows = 0;
        for (file, path) in self.options.files.iter().enumerate() {
            let mut key = Place::new(&self.key);
            let mut label = self.label.as_ref().map(|(name, _)| Place::new(name));
            let mut split = self.options.split.as_deref().map(Place::new);
            let mut group = self.options.group.as_deref().map(Place::new);
            let mut places: Vec<Place<'_>> =
                self.columns.iter().map(|(name, _)| Place::new(name)).collect();
            self.tables.read(path, &mut |line, columns, cells| {
                rows += 1;
                let changed = || changed(path, line);
                let name = key.cell(columns, cells).word().ok_or_else(|| {
                    fault(
                        path,
                        Some(line),
                        format!("the cell of the file name, `{}`, is empty", self.key),
                    )
                })?;
                let split = match &mut split {
                    None => None,
                    Some(place) => Some(split_of(path, line, place, columns, cells)?),
                };
                let group = match &mut group {
                    None => String::new(),
                    Some(place) => place.cell(columns, cells).word().ok_or_else(|| {
                        let column = place.column;
                        fault(
                            path,
                            Some(line),
                            format!("the cell of the group, `{column}`, is empty"),
                        )
                    })?,
                };
                let mut values = Vec::with_capacity(self.fields.len());
                let label = match &mut label {
                    None => Some(-1),
                    Some(place) => {
                        let cell = place.cell(columns, cells);
                        self.label_of(path, line, cell, &mut values)?
                    }
                };
                for (place, (_, kind)) in places.iter_mut().zip(&self.columns) {
                    let cell = place.cell(columns, cells);
                    values.push(planned(cell, kind).ok_or_else(changed)?);
                }
                let values = match values.is_empty() {
                    true => String::new(),
                    false => Value::Array(values).to_string(),
                };
                let size = self.tables.size(path, line)?;
                let group = &group;
                each(&TableRow { file, line, name: &name, split, group, label, size, values })
            })?;
        }
        if rows != self.rows {
            return Err(changed(Path::new(&self.shown()), rows));
        }
        Ok(())
    }

    /// The class of a cell; several classes become the first of `values`.
    fn label_of(
        &self,
        path: &Path,
        line: u64,
        cell: &Cell,
        values: &mut Vec<Value>,
    ) -> Result<Option<i64>, LayoutError> {
        let number = |cell: &Cell| {
            if let (Some(-1), true) = (cell.class_number(), self.labelled()) {
                return Ok(-1);
            }
            let kind = self.label.as_ref().map_or(LabelKind::Name, |(_, kind)| *kind);
            let word = kind.word(cell).ok_or_else(|| changed(path, line))?;
            match self.numbers.get(&word) {
                Some(number) => Ok(*number),
                None if self.classes.is_empty() => {
                    cell.class_number().ok_or_else(|| changed(path, line))
                }
                None => {
                    let path = format!("{} line {line}", path.display());
                    Err(RunError::unknown_class(path, word, self.classes.len()).into())
                }
            }
        };
        match split_cell(cell, self.options.separator.as_deref()) {
            Cell::Missing if self.several() => {
                values.push(Value::Array(Vec::new()));
                Ok(None)
            }
            Cell::Missing => Ok(None),
            Cell::List(cells) if self.several() => {
                let classes: BTreeSet<i64> = cells.iter().map(number).collect::<Result<_, _>>()?;
                values.push(Value::Array(classes.into_iter().map(Value::from).collect()));
                Ok(Some(-1))
            }
            cell => number(&cell).map(Some),
        }
    }

    fn shown(&self) -> String {
        let shown: Vec<String> = self.files().iter().map(|p| p.display().to_string()).collect();
        shown.join(", ")
    }
}

/// The separator of classes in one cell, and such a cell: `|` in any, or a space in a column of tags,
/// whose parts are classes of other cells.
fn divided(
    column: &str,
    files: &[PathBuf],
    tables: &Tables,
) -> Result<Option<(char, String)>, LayoutError> {
    let mut words = BTreeSet::new();
    for path in files {
        let mut place = Place::new(column);
        tables.read(path, &mut |_, columns, cells| {
            if words.len() <= MOST_CLASSES {
                words.extend(place.cell(columns, cells).word());
            }
            Ok(())
        })?;
    }
    let barred =
        words.iter().find(|word| word.split('|').filter(|part| !part.is_empty()).count() > 1);
    if let Some(word) = barred {
        return Ok(Some(('|', word.clone())));
    }
    let is_known =
        |word: &&String| word.contains(' ') && word.split(' ').any(|part| words.contains(part));
    let spaced = words.iter().filter(|word| column.eq_ignore_ascii_case("tags") && is_known(word));
    let spaced: Vec<&String> = spaced.collect();
    Ok(spaced.first().filter(|_| spaced.len() > 1).map(|word| (' ', (*word).clone())))
}

/// The facts that are known about all tables.
struct Survey {
    columns: Vec<String>,
    seen: Vec<Seen>,
    rows: u64,
    shown: String,
}

impl Survey {
    fn of(options: &TableOptions, tables: &Tables) -> Result<Self, LayoutError> {
        let shown: Vec<String> = options.files.iter().map(|p| p.display().to_string()).collect();
        let mut survey =
            Self { columns: Vec::new(), seen: Vec::new(), rows: 0, shown: shown.join(", ") };
        // With a separator, a column of labels is a column of lists. Which column it is, is not
        // known yet.
        for path in &options.files {
            let mut places: Vec<usize> = Vec::new();
            let before = survey.rows;
            tables.read(path, &mut |_, columns, cells| {
                survey.rows += 1;
                for column in columns.iter().skip(places.len()) {
                    places.push(survey.place(column));
                }
                for (place, cell) in places.iter().zip(cells) {
                    if let Some(seen) = survey.seen.get_mut(*place) {
                        seen.add(cell);
                    }
                }
                Ok(())
            })?;
            if survey.rows == before {
                if let Some(lookup) = tables.lookups.first() {
                    return Err(lookup.nothing_joins(path));
                }
                return Err(fault(path, None, "it has no rows"));
            }
        }
        Ok(survey)
    }

    fn place(&mut self, column: &str) -> usize {
        let known = self.columns.iter().position(|c| c == column);
        known.unwrap_or_else(|| {
            self.columns.push(column.to_owned());
            self.seen.push(Seen::default());
            self.columns.len() - 1
        })
    }

    fn no_column(&self, what: &'static str, wanted: Option<&str>) -> LayoutError {
        SourceError::NoColumn {
            path: self.shown.clone(),
            what,
            wanted: wanted.map(str::to_owned),
            columns: self.columns.clone(),
        }
        .into()
    }

    fn check(&self, name: &str) -> Result<(), LayoutError> {
        match self.columns.iter().any(|c| c == name) {
            true => Ok(()),
            false => Err(self.no_column("splits", Some(name))),
        }
    }

    fn key(&self, options: &TableOptions) -> Result<String, LayoutError> {
        match &options.key {
            Some(key) if self.columns.contains(key) => Ok(key.clone()),
            Some(key) => Err(self.no_column("file names", Some(key))),
            None => {
                find_key(&self.columns).cloned().ok_or_else(|| self.no_column("file names", None))
            }
        }
    }

    /// The columns other than those of file names, splits and groups.
    fn others(&self, options: &TableOptions, key: &str) -> Vec<String> {
        let used = [Some(key), options.split.as_deref(), options.group.as_deref()];
        self.columns.iter().filter(|c| !used.contains(&Some(c.as_str()))).cloned().collect()
    }

    /// The columns that are one of classes: those that the user lists, or those of which exactly one
    /// is 1 in each row, where no column has a name of labels.
    fn indicators(
        &self,
        options: &TableOptions,
        key: &str,
        tables: &Tables,
    ) -> Result<Option<Indicators>, LayoutError> {
        let others = self.others(options, key);
        let listed = match &options.label {
            LabelColumn::Named(names) if !self.columns.contains(names) => {
                names.split(',').map(|name| name.trim().to_owned()).collect()
            }
            LabelColumn::Find if find_label(&others).is_none() => Vec::new(),
            _ => return Ok(None),
        };
        if let Some(name) = listed.iter().find(|name| !self.columns.contains(name)) {
            return Err(self.no_column("labels", Some(name)));
        }
        let seen = |name: &String| {
            let place = self.columns.iter().position(|c| c == name);
            place.and_then(|at| self.seen.get(at))
        };
        let is_sign = |name: &String| seen(name).is_some_and(|seen| seen.is_sign(self.rows));
        if !listed.is_empty() {
            let signs = listed.iter().all(is_sign);
            return Indicators::new(listed, signs, tables, &options.files).map(Some);
        }
        let among = |is: &dyn Fn(&String) -> bool| -> Vec<String> {
            others.iter().filter(|name| is(name) && !is_of_splits(name)).cloned().collect()
        };
        let flags = among(&|name| seen(name).is_some_and(|seen| seen.is_flag(self.rows)));
        let signed = among(&is_sign);
        let unsure = among(&|name| seen(name).is_some_and(|seen| seen.is_unsure_flag(self.rows)));
        let signs = signed.len() > flags.len();
        let columns = if signs { signed } else { flags };
        let are_lists = options.lists().next().is_some() || options.is_of_boxes(tables);
        if unsure.len() > columns.len() && unsure.len() > 1 && !are_lists {
            return Err(indicators::unsure(&unsure).into());
        }
        if columns.len() < 2 || are_lists {
            return Ok(None);
        }
        let found = Indicators::new(columns.clone(), signs, tables, &options.files)?;
        match found.is_one_hot() {
            true => Ok(Some(found)),
            false => Err(may_be_classes(&columns).into()),
        }
    }

    fn label(
        &self,
        options: &TableOptions,
        key: &str,
        tables: &Tables,
        doubts: &mut Vec<Doubt>,
    ) -> Result<Option<(String, LabelKind)>, LayoutError> {
        let name = match &options.label {
            LabelColumn::None => return Ok(None),
            LabelColumn::Find if options.is_of_boxes(tables) => return Ok(None),
            LabelColumn::Named(name) if self.columns.contains(name) => name.clone(),
            LabelColumn::Named(name) => return Err(self.no_column("labels", Some(name))),
            LabelColumn::Find => {
                let others = self.others(options, key);
                let by_name: Vec<&String> = all_labels(&others).collect();
                match (find_label(&others), others.as_slice()) {
                    (Some(name), _) => {
                        if let Some(other) = by_name.into_iter().find(|other| *other != name) {
                            doubts.push(other_labels(name, other));
                        }
                        name.clone()
                    }
                    // The parts of a list have names; without `label`, it has no labels.
                    (None, _) if options.lists().next().is_some() => return Ok(None),
                    (None, [name]) if is_of_splits(name) => {
                        doubts.push(may_be_splits(name));
                        return Ok(None);
                    }
                    (None, _)
                        if tables.gathered.as_ref().is_some_and(|of| !of.texts.is_empty()) =>
                    {
                        return Ok(None);
                    }
                    (None, [name]) if self.all_differ(options, name, tables)? => {
                        doubts.push(no_classes(name));
                        return Ok(None);
                    }
                    (None, [name]) => name.clone(),
                    _ => return Err(self.no_column("labels", None)),
                }
            }
        };
        let kind = if options.separator.is_some() {
            self.separated(options, &name, tables)?
        } else {
            let place = self.columns.iter().position(|c| *c == name);
            let seen = place.and_then(|place| self.seen.get(place)).cloned().unwrap_or_default();
            seen.label(self.rows).map_err(|reason| self.bad_label(&name, &reason))?
        };
        Ok(Some((name, kind)))
    }

    /// Whether each row has another text in a column, or mostly others in lists, as captions have.
    fn all_differ(
        &self,
        options: &TableOptions,
        name: &str,
        tables: &Tables,
    ) -> Result<bool, LayoutError> {
        let (mut known, mut n, mut in_lists) = (BTreeSet::new(), 0, false);
        let mut are_texts = self.rows > 1 && options.separator.is_none();
        for path in &options.files {
            let mut place = Place::new(name);
            tables.read(path, &mut |_, columns, cells| {
                let cells = match place.cell(columns, cells) {
                    Cell::List(cells) => {
                        in_lists = true;
                        cells.as_slice()
                    }
                    cell => std::slice::from_ref(cell),
                };
                for cell in cells {
                    if !are_texts {
                        break;
                    }
                    n += 1;
                    match cell {
                        Cell::Text(text) | Cell::Written(text) => {
                            known.insert(text.trim().to_owned());
                        }
                        _ => are_texts = false,
                    }
                    are_texts &= known.len() <= MOST_CLASSES && (in_lists || known.len() == n);
                }
                Ok(())
            })?;
        }
        Ok(are_texts && known.len() * 2 > n)
    }

    /// Does the same as [`Survey::label`] for cells that are split.
    fn separated(
        &self,
        options: &TableOptions,
        name: &str,
        tables: &Tables,
    ) -> Result<LabelKind, LayoutError> {
        let mut seen = Seen::default();
        for path in &options.files {
            let mut place = Place::new(name);
            tables.read(path, &mut |_, columns, cells| {
                seen.add(&split_cell(place.cell(columns, cells), options.separator.as_deref()));
                Ok(())
            })?;
        }
        match seen.label(self.rows).map_err(|reason| self.bad_label(name, &reason))? {
            LabelKind::Number | LabelKind::Numbers => Ok(LabelKind::Numbers),
            LabelKind::Name | LabelKind::Names => Ok(LabelKind::Names),
        }
    }

    fn bad_label(&self, name: &str, reason: &str) -> LayoutError {
        let text = format!("column `{name}` of `{}` cannot be the labels: {reason}", self.shown);
        setting(&["label_column"], text)
    }

    /// Fields of all further columns, or of those named.
    fn choose_fields(
        &self,
        options: &TableOptions,
        given: &BTreeSet<&str>,
        several: bool,
        table: &mut Table,
    ) -> Result<(), LayoutError> {
        let columns: Vec<&String> = match &options.fields {
            FieldColumns::All => {
                let joins = |c: &&String| table.tables.lookups.iter().any(|of| of.is_by_id(c));
                let rest = self.columns.iter().filter(|c| !given.contains(c.as_str()));
                rest.filter(|c| !joins(c)).collect()
            }
            FieldColumns::Named(names) => names.iter().collect(),
        };
        let mut taken: BTreeSet<String> = ["image", "label"].map(str::to_owned).into();
        if several {
            taken.insert(LABELS.to_owned());
        }
        for column in columns {
            let place = self.columns.iter().position(|c| c == column);
            let Some(seen) = place.and_then(|place| self.seen.get(place)) else {
                return Err(self.no_column("values", Some(column)));
            };
            let of_boxes =
                options.is_of_boxes(&table.tables).then(|| boxes::kind(column)).flatten();
            let kind = of_boxes.unwrap_or_else(|| seen.kind(self.rows));
            let field = field(column, &kind).and_then(|field| {
                let name = field.name.as_str().to_owned();
                if table.columns.len() == MOST_FIELDS {
                    return Err(format!("a bundle has at most {} fields", MOST_FIELDS + 2));
                }
                match taken.insert(name.clone()) {
                    true => Ok(field),
                    false if name == "label" && !table.labelled() => {
                        Err("only a column of classes may be the field `label`".to_owned())
                    }
                    false => Err(format!("there is a field `{name}` already")),
                }
            });
            match (field, &options.fields) {
                (Ok(field), _) => {
                    // `dataset` mostly says where images are from.
                    let is_named = is_of_splits(column) && !column.eq_ignore_ascii_case("dataset");
                    let is_split = is_named || seen.names_splits();
                    if is_split && options.split.is_none() {
                        let is_text = kind == ValueKind::Texts;
                        table.split_stored = Some(StoredSplit { column: column.clone(), is_text });
                    }
                    table.fields.push(field);
                    table.columns.push((column.clone(), kind));
                }
                (Err(reason), FieldColumns::All) => table.left_out.push((column.clone(), reason)),
                (Err(reason), FieldColumns::Named(_)) => {
                    let text = format!("column `{column}` cannot be a field: {reason}");
                    return Err(setting(&["columns"], text));
                }
            }
        }
        Ok(())
    }
}

/// The position of a column in the rows of a table, in which new columns can appear later.
struct Place<'a> {
    column: &'a str,
    looked: usize,
    place: Option<usize>,
}

impl<'a> Place<'a> {
    fn new(column: &'a str) -> Self {
        Self { column, looked: 0, place: None }
    }

    fn cell<'c>(&mut self, columns: &[String], cells: &'c [Cell]) -> &'c Cell {
        if self.place.is_none() && columns.len() > self.looked {
            self.looked = columns.len();
            self.place = columns.iter().position(|c| c == self.column);
        }
        self.place.and_then(|place| cells.get(place)).unwrap_or(&Cell::Missing)
    }
}

/// A cell of labels: of text the list that it spells, where there is a separator; empty texts are
/// missing, whatever the format.
fn split_cell(cell: &Cell, separator: Option<&str>) -> Cell {
    if cell.is_nan() {
        return Cell::Missing;
    }
    let empty = |cell: &Cell| matches!(cell, Cell::Text(text) if text.trim().is_empty());
    match (separator, cell) {
        (_, cell) if empty(cell) => Cell::Missing,
        (_, Cell::List(cells)) => Cell::List(cells.iter().filter(|c| !empty(c)).cloned().collect()),
        (Some(separator), Cell::Text(text) | Cell::Written(text)) => {
            let parts = text.split(separator).map(str::trim).filter(|part| !part.is_empty());
            Cell::List(parts.map(|part| Cell::Written(part.to_owned())).collect())
        }
        (Some(_), Cell::Integer(_)) => Cell::List(vec![cell.clone()]),
        (Some(_), Cell::Bool(b)) => Cell::List(vec![Cell::Written(b.to_string())]),
        _ => cell.clone(),
    }
}

fn split_of(
    path: &Path,
    line: u64,
    place: &mut Place<'_>,
    columns: &[String],
    cells: &[Cell],
) -> Result<Split, LayoutError> {
    let word = place.cell(columns, cells).word().unwrap_or_default();
    crate::facts::split_of(&word).ok_or_else(|| {
        let reason = match word.is_empty() {
            true => {
                "it says no split; a list of splits is joined with it only if both name the images in the same way".to_owned()
            }
            false => format!("`{word}` is not a split; expected `train`, `val` or `test`"),
        };
        fault(path, Some(line), reason)
    })
}

fn changed(path: &Path, line: u64) -> LayoutError {
    fault(path, Some(line), "it changed while it was read")
}
