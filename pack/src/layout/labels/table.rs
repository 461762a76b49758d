//! A table of labels: the meaning of its columns, and its rows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gular_bundle::{Dtype, Field, FieldName, Split};
use serde_json::Value;

use super::box_rows;
use super::boxes;
use super::cell::Cell;
use super::columns::{LabelKind, Seen, ValueKind, field};
use super::doubts::{
    all_numbers_differ, are_several, boxes_as_numbers, found_by_values, is_coordinate,
    look_missing, may_be_several, mixed, of_boxes, points_as_numbers, several, sparse,
    split_column, splits_in_flags, stored_split, unknown,
};
use super::gather::Gathered;
use super::indicators::{Indicators, are_classes};
use super::lookup::{self, Lookup};
use super::rows::{Tables, fault};
use super::survey::{Place, Survey, divided, part_named, split_cell};
use super::table_options::{FieldColumns, TableColumns, TableOptions};
use super::values::planned;
use crate::facts::{
    ClassNumbers, Doubt, MOST_CLASSES, Numbering, RunError, Words, setting, split_of,
};
use crate::layout::{LayoutError, alike};
use crate::source::{LabelColumn, is_of_numbered_splits, is_of_splits, may_be_of_splits};

/// A bundle has at most 256 fields; the image and its label or labels are two.
const MOST_FIELDS: usize = 254;
/// From here on, numbers of classes with large gaps are told.
const SPARSE: i64 = 100;
/// The field of images that may have several classes. Format: `FORMAT.md`, "Fields".
const LABELS: &str = "labels";

/// Tables whose columns have been read.
#[derive(Debug)]
pub(crate) struct Table {
    options: TableOptions,
    tables: Tables,
    key: String,
    /// The part of paths that rows are about, where they are not about images.
    part: Option<String>,
    label: Option<(String, LabelKind)>,
    /// The first values of the column of splits, as messages show them.
    split_values: BTreeSet<String>,
    /// Further columns.
    columns: Vec<(String, ValueKind)>,
    /// Fields of further columns, behind that of several classes where there is one.
    pub(crate) fields: Vec<Field>,
    pub(crate) classes: Vec<String>,
    numbers: ClassNumbers,
    /// What is not clear about the columns.
    pub(crate) doubts: Vec<Doubt>,
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
        tables.box_form = options.box_form;
        let (files, lookups) = lookup::take(options, &tables)?;
        tables.lookups = lookups;
        let options = &TableOptions { files, ..options.clone() };
        let mut survey = Survey::of(options, &tables)?;
        let key = match options.is_of_boxes(&tables) {
            true => boxes::FILE_NAME.to_owned(),
            false => survey.key(options)?,
        };
        let mut doubts = Vec::new();
        if !options.is_of_boxes(&tables)
            && let Some(gathered) = Gathered::find(&key, &options.files, &tables)?
        {
            doubts.push(gathered.doubt());
            tables.gathered = Some(gathered);
            survey = Survey::of(options, &tables)?;
        }
        let indicators = survey.indicators(options, &key, &tables)?;
        let (given_label, mut listed) = (options.label.clone(), None);
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
            // The user's list is in the order in which the classes are numbered.
            let are_listed = matches!(given_label, LabelColumn::Named(_));
            listed = are_listed.then(|| found.columns().to_vec());
            tables.indicators = indicators;
            survey = Survey::of(options, &tables)?;
        }
        let classes = classes.or(listed);
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
        let split_values = match &options.split {
            None => BTreeSet::new(),
            Some(split) => match survey.seen_of(split) {
                Some(seen) => seen.words().clone(),
                None => return Err(survey.no_column("splits", Some(split))),
            },
        };
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
            numbers: ClassNumbers::default(),
            doubts,
            left_out: Vec::new(),
            rows: survey.rows,
            part: options.part_of_lines().or_else(|| part_named(&options.parts, &key)).cloned(),
            key: key.clone(),
            label: label.clone(),
            split_values,
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
        table.choose_fields(&survey, options, &given, several)?;
        let stored: Vec<String> = table.columns.iter().map(|(name, _)| name.clone()).collect();
        let corners = box_rows::corners_among(&stored);
        let is_point = |(name, kind): &&(String, ValueKind)| {
            let are_words = matches!(kind, ValueKind::Texts | ValueKind::Lists { integers: false });
            !are_words && is_coordinate(name, &stored)
        };
        let points: Vec<&String> =
            table.columns.iter().filter(is_point).map(|(name, _)| name).collect();
        match corners {
            Some(corners) => table.doubts.push(boxes_as_numbers(&corners)),
            None if !points.is_empty() => {
                let doubt = points_as_numbers(&points);
                table.doubts.push(doubt);
            }
            None => {}
        }
        Ok(table)
    }

    /// Fields of all further columns, or of those named.
    fn choose_fields(
        &mut self,
        survey: &Survey,
        options: &TableOptions,
        given: &BTreeSet<&str>,
        several: bool,
    ) -> Result<(), LayoutError> {
        let columns: Vec<&String> = match &options.fields {
            FieldColumns::All => {
                let joins = |c: &&String| self.tables.lookups.iter().any(|of| of.is_by_id(c));
                let rest = survey.columns.iter().filter(|c| !given.contains(c.as_str()));
                rest.filter(|c| !joins(c)).collect()
            }
            FieldColumns::Named(names) => names.iter().collect(),
        };
        let mut taken: BTreeSet<String> = ["image", "label"].map(str::to_owned).into();
        if several {
            taken.insert(LABELS.to_owned());
        }
        let mut of_splits: Vec<(&String, &Seen)> = Vec::new();
        for column in columns {
            let Some(seen) = survey.seen_of(column) else {
                return Err(survey.no_column("values", Some(column)));
            };
            let of_boxes = options.is_of_boxes(&self.tables).then(|| boxes::kind(column)).flatten();
            let kind = of_boxes.unwrap_or_else(|| seen.kind(survey.rows));
            let field = field(column, &kind).and_then(|field| {
                let name = field.name.as_str().to_owned();
                if self.columns.len() == MOST_FIELDS {
                    return Err(format!("a bundle has at most {} fields", MOST_FIELDS + 2));
                }
                if field.is_mask() && field.as_fixed().is_none() {
                    return Err("a field `mask` has pixels, and this column has text".to_owned());
                }
                match taken.insert(name.clone()) {
                    true => Ok(field),
                    false if name == "label" && !self.labelled() => {
                        Err("only a column of classes may be the field `label`".to_owned())
                    }
                    false => Err(format!("there is a field `{name}` already")),
                }
            });
            match (field, &options.fields) {
                (Ok(field), _) => {
                    // `dataset` mostly says where images are from.
                    let is_named = is_of_splits(column) && !column.eq_ignore_ascii_case("dataset");
                    let is_named = is_named
                        || is_of_numbered_splits(column)
                        || (may_be_of_splits(column) && seen.may_be_splits());
                    let is_split = is_named || seen.names_splits();
                    let is_told = |doubt: &Doubt| {
                        doubt.readings.iter().any(|way| way.split_column.as_ref() == Some(column))
                    };
                    if is_split && options.split.is_none() && !self.doubts.iter().any(is_told) {
                        of_splits.push((column, seen));
                    }
                    self.fields.push(field);
                    self.columns.push((column.clone(), kind));
                }
                (Err(reason), FieldColumns::All) => self.left_out.push((column.clone(), reason)),
                (Err(reason), FieldColumns::Named(_)) => {
                    let text = format!("column `{column}` cannot be a field: {reason}");
                    return Err(setting(&["columns"], text));
                }
            }
        }
        let are_flags = of_splits.iter().all(|(_, seen)| seen.is_flag(survey.rows));
        match of_splits.as_slice() {
            [_, _, ..] if are_flags => {
                self.doubts.push(splits_in_flags(of_splits.iter().map(|(column, _)| *column)));
            }
            all => self
                .doubts
                .extend(all.iter().map(|(column, seen)| stored_split(column, seen.words()))),
        }
        Ok(())
    }

    /// Tells that the column of file names was found by its values.
    pub(crate) fn with_found_key(mut self) -> Self {
        self.doubts.push(found_by_values(&self.key));
        self
    }

    /// The column of file names.
    pub(crate) fn key_name(&self) -> &str {
        &self.key
    }

    /// The part of paths that rows are about, if they are not about images.
    pub(crate) fn part(&self) -> Option<&str> {
        self.part.as_deref()
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
        self.numbers = ClassNumbers::new(classes);
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
            part: self.part.clone(),
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
        let (mut words, mut most, mut unknown_class) = (BTreeSet::new(), -1_i64, false);
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
                    // Beside names, too, it says that a class is unknown.
                    if kind == LabelKind::Name && cell.class_number() == Some(-1) {
                        unknown_class = true;
                        continue;
                    }
                    if words.len() <= MOST_CLASSES {
                        words.insert(word);
                    }
                }
                Ok(())
            })?;
        }
        if unknown_class {
            self.doubts.push(unknown(&column));
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
        let is_number = |word: &&String| word.parse::<i64>().is_ok();
        let (numbers, others): (Vec<&String>, Vec<&String>) = words.iter().partition(is_number);
        let most = numbers.iter().filter_map(|word| word.parse::<i64>().ok()).max().unwrap_or(0);
        if by_number && most >= SPARSE && most as u64 > 2 * words.len() as u64 {
            self.doubts.push(sparse(column, words.len(), most));
        }
        if let (false, [number, ..], [word, ..]) =
            (by_number, numbers.as_slice(), others.as_slice())
            && numbers.len() > others.len()
        {
            self.doubts.push(mixed(column, word, number));
        }
        if by_number && words.len() as u64 == self.rows && self.rows > 2 {
            self.doubts.push(all_numbers_differ(column));
        }
        // `a,b` is several classes where `a` is one.
        let is_several = |word: &&String| {
            let mut parts = word.split([',', ';']);
            let has_parts = word.contains([',', ';']);
            has_parts && parts.any(|part| words.contains(part.trim()))
        };
        if let Some(word) = words.iter().find(is_several) {
            self.doubts.push(several(column, word));
        } else if self.options.separator.is_none() {
            self.doubts.extend(may_be_several(column, words));
        }
        self.doubts.extend(look_missing(column, words));
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
                    Some(place) => {
                        let word = place.cell(columns, cells).word().unwrap_or_default();
                        let split = self.split_of(&word);
                        Some(split.ok_or_else(|| self.no_split(path, line, word, place.column))?)
                    }
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
                Some(number) => Ok(number),
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

    fn split_of(&self, word: &str) -> Option<Split> {
        self.options.split_words.get(word.trim()).copied().or_else(|| split_of(word))
    }

    fn no_split(&self, path: &Path, line: u64, word: String, column: &str) -> LayoutError {
        if word.is_empty() {
            let reason = "it says no split; a list of splits is joined with it only if both name the images in the same way";
            return fault(path, Some(line), reason);
        }
        let meant = split_column(column, &self.split_values, &self.options.split_words);
        let (path, column) = (path.display().to_string(), column.to_owned());
        LayoutError::NoSplit { path, line, word, column, meant }
    }

    fn shown(&self) -> String {
        let shown: Vec<String> = self.files().iter().map(|p| p.display().to_string()).collect();
        shown.join(", ")
    }
}

fn changed(path: &Path, line: u64) -> LayoutError {
    fault(path, Some(line), "it changed while it was read")
}
