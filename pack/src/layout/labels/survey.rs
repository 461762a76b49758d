//! The columns of tables as they are, and those that are found by their names and values.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::cell::Cell;
use super::columns::{LabelKind, Seen};
use super::doubts::{
    are_fields, are_numbers, boxes_in_text, is_coordinate, may_be_sources, may_be_splits,
    no_classes, only_classes, other_labels, which_labels,
};
use super::indicators::{self, Indicators, may_be_classes};
use super::rows::{Tables, fault};
use super::table_options::TableOptions;
use crate::facts::{Doubt, KEY, MOST_CLASSES, is_of_source, is_of_times, setting};
use crate::layout::LayoutError;
use crate::source::{
    LabelColumn, SourceError, all_labels, find_key, find_label, is_of_boxes, is_of_classes,
    is_of_ids, is_of_run_lengths, is_of_splits, is_of_texts,
};

/// What the column of file names is called in errors.
pub(crate) const KEY_COLUMN: &str = "file names";

/// The separator of classes in one cell, and such a cell: `|` in any, or a comma or a space in a column of
/// tags of which two have a word in common.
pub(super) fn divided(
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
    // A word that is in two of them is a class of its own. Between two commas, there may be blanks.
    let found = [',', ' '].into_iter().find_map(|separator| {
        let mut seen = BTreeSet::new();
        let parts = words.iter().filter(|_| column.trim().eq_ignore_ascii_case("tags"));
        let of = |word: &'_ String| -> BTreeSet<String> {
            word.split(separator).map(|part| part.trim().to_owned()).collect()
        };
        let is_shared = parts.flat_map(of).any(|part| !seen.insert(part));
        let divided = words.iter().find(|word| word.contains(separator));
        divided.filter(|_| is_shared).map(|word| (separator, word.clone()))
    });
    Ok(found)
}

/// The facts that are known about all tables.
pub(super) struct Survey {
    pub(super) columns: Vec<String>,
    seen: Vec<Seen>,
    pub(super) rows: u64,
    shown: String,
}

impl Survey {
    pub(super) fn of(options: &TableOptions, tables: &Tables) -> Result<Self, LayoutError> {
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
            // A split may have no images.
            let is_empty_list = options.lists().any(|(list, _)| list == path)
                && std::fs::metadata(path).is_ok_and(|list| list.len() == 0);
            if survey.rows == before && !(is_empty_list && options.files.len() > 1) {
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

    pub(super) fn no_column(&self, what: &'static str, wanted: Option<&str>) -> LayoutError {
        SourceError::NoColumn {
            path: self.shown.clone(),
            what,
            wanted: wanted.map(str::to_owned),
            columns: self.columns.clone(),
        }
        .into()
    }

    pub(super) fn seen_of(&self, name: &str) -> Option<&Seen> {
        let place = self.columns.iter().position(|column| column == name);
        place.and_then(|at| self.seen.get(at))
    }

    pub(super) fn key(&self, options: &TableOptions) -> Result<String, LayoutError> {
        match &options.key {
            Some(key) if self.columns.contains(key) => Ok(key.clone()),
            Some(key) => Err(self.no_column(KEY_COLUMN, Some(key))),
            // Of the words in a list, `{path}` is the image, then `{key}` and other parts of paths.
            None if let Some(part) = options.part_of_lines() => Ok(part.clone()),
            None => {
                let of_part =
                    || self.columns.iter().find(|c| part_named(&options.parts, c).is_some());
                let found = find_key(&self.columns).or_else(of_part);
                found.cloned().ok_or_else(|| self.no_column(KEY_COLUMN, None))
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
    pub(super) fn indicators(
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
        let seen = |name: &String| self.seen_of(name);
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
            true if found.has_one_class() => Ok(None),
            true => Ok(Some(found)),
            false => Err(may_be_classes(&columns).into()),
        }
    }

    pub(super) fn label(
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
                    (None, [name]) if is_of_source(name) || is_of_times(name) => {
                        doubts.push(may_be_sources(name));
                        return Ok(None);
                    }
                    (None, _)
                        if tables.gathered.as_ref().is_some_and(|of| !of.texts.is_empty()) =>
                    {
                        return Ok(None);
                    }
                    (None, others)
                        if let Some(name) = others.iter().find(|name| is_of_boxes(name)) =>
                    {
                        return Err(boxes_in_text(name).into());
                    }
                    (None, others) => {
                        let may_be = self.with_classes(options, others, tables)?;
                        match (may_be.as_slice(), others) {
                            ([], [name]) => doubts.push(no_classes(name)),
                            ([], [_, ..])
                                if !others.iter().any(|name| is_of_splits(name))
                                    || others.iter().any(|name| is_of_texts(name)) =>
                            {
                                doubts.push(are_fields(others));
                            }
                            ([name], [_]) => {
                                let kind = self.seen_of(name).map(|seen| seen.label(self.rows));
                                if kind == Some(Ok(LabelKind::Number)) {
                                    doubts.push(are_numbers(name));
                                }
                            }
                            ([name], _) if self.is_named_class(name) => {
                                doubts.push(only_classes(name));
                            }
                            (several, _) => {
                                // Letters are coordinates.
                                let is_asked = |name: &&&String| name.len() > 1 && !is_of_ids(name);
                                let asked: Vec<&String> =
                                    several.iter().filter(is_asked).copied().collect();
                                return Err(match (1..=MOST_ASKED).contains(&asked.len()) {
                                    true => which_labels(&asked).into(),
                                    false => self.no_column("labels", None),
                                });
                            }
                        }
                        let Some(name) = may_be.first() else { return Ok(None) };
                        (*name).clone()
                    }
                }
            }
        };
        if is_of_run_lengths(&name) {
            let reason = "it has run lengths of masks, which are not read: write the masks as PNG";
            return Err(self.bad_label(&name, reason));
        }
        let kind = if options.separator.is_some() {
            self.separated(options, &name, tables)?
        } else {
            let seen = self.seen_of(&name).cloned().unwrap_or_default();
            seen.label(self.rows).map_err(|reason| self.bad_label(&name, &reason))?
        };
        Ok(Some((name, kind)))
    }

    /// Those of the columns that can have classes: not texts that all differ, nor amounts.
    fn with_classes<'a>(
        &self,
        options: &TableOptions,
        columns: &'a [String],
        tables: &Tables,
    ) -> Result<Vec<&'a String>, LayoutError> {
        let mut found = Vec::new();
        for name in columns {
            let is_label = self.seen_of(name).is_some_and(|seen| seen.label(self.rows).is_ok());
            let is_split = is_of_splits(name) || self.seen_of(name).is_some_and(Seen::names_splits);
            // Of a single column, the reason is told where its cells are not labels.
            if (is_label || columns.len() == 1)
                && !is_of_texts(name)
                && !(columns.len() > 1 && (is_split || self.is_point(name, columns)))
                && !self.all_differ(options, name, tables)?
            {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// Whether a column has numbers that are one coordinate of points, as its name says.
    fn is_point(&self, name: &str, columns: &[String]) -> bool {
        let are_words = self.seen_of(name).is_some_and(|seen| {
            matches!(seen.label(self.rows), Ok(LabelKind::Name | LabelKind::Names))
        });
        !are_words && is_coordinate(name, columns)
    }

    /// Whether a column has words, or numbers that its name says to be those of classes.
    fn is_named_class(&self, name: &str) -> bool {
        let kind = self.seen_of(name).map(|seen| seen.label(self.rows));
        // Numbers and words may as well be those of patients, cameras or places.
        kind.is_some_and(|kind| kind.is_ok()) && is_of_classes(name)
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
                        Cell::Integer(number) if is_of_ids(name) => {
                            known.insert(number.to_string());
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
}

/// More columns that may have the classes are named without a command for each.
const MOST_ASKED: usize = 4;

/// The position of a column in the rows of a table, in which new columns can appear later.
pub(super) struct Place<'a> {
    pub(super) column: &'a str,
    looked: usize,
    place: Option<usize>,
}

impl<'a> Place<'a> {
    pub(super) fn new(column: &'a str) -> Self {
        Self { column, looked: 0, place: None }
    }

    pub(super) fn cell<'c>(&mut self, columns: &[String], cells: &'c [Cell]) -> &'c Cell {
        if self.place.is_none() && columns.len() > self.looked {
            self.looked = columns.len();
            self.place = columns.iter().position(|c| c == self.column);
        }
        self.place.and_then(|place| cells.get(place)).unwrap_or(&Cell::Missing)
    }
}

/// A cell of labels: of text the list that it spells, where there is a separator; empty texts are
/// missing, whatever the format.
pub(super) fn split_cell(cell: &Cell, separator: Option<&str>) -> Cell {
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

/// The part of paths that has the name of a column; one named `key` mostly has whole names.
pub(super) fn part_named<'a>(parts: &'a [String], column: &str) -> Option<&'a String> {
    let named = super::super::tables_beside::part(column);
    parts.iter().find(|part| *part != KEY && part.eq_ignore_ascii_case(&named))
}
