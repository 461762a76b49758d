//! Tables that say more about the images of another one: their rows are looked up.
//!
//! ```text
//! images.txt            1 a/1.jpg ─┐
//! image_class_labels    1 17 ──────┼─ id ─▶ a/1.jpg, 17, train
//! train_test_split      1 1 ───────┘
//! ```
//!
//! Lists are joined by `{id}`. Tables in one folder, of which each has columns that the other lacks, are
//! joined by a column of both that names the images of one of them, otherwise by the columns that name
//! images; if no name is in both, their rows are of other images. An image that one of the tables lacks
//! has no row.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::cell::Cell;
use super::join::{plain, without_extension};
use super::list;
use super::rows::{Each, Tables, fault};
use super::table_options::TableOptions;
use crate::facts::{Names, setting};
use crate::layout::LayoutError;
use crate::source::find_key;

/// The most memory that looked up rows may take, nearly.
const MOST_BYTES: usize = 1 << 30;

/// Tables whose rows were looked up for those of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JoinedTables {
    /// The tables.
    pub files: Vec<String>,
    /// The column of the other table by which they are joined.
    pub by: String,
}

/// The rows of tables that have the same columns, by what they are looked up by.
#[derive(Debug)]
pub(super) struct Lookup {
    files: Vec<PathBuf>,
    /// The column by which rows are looked up: of the table that is read, and of these.
    by: String,
    own: String,
    columns: Vec<String>,
    rows: HashMap<String, Vec<Cell>>,
    /// Memory that the rows take, nearly.
    bytes: usize,
}

/// A table's columns, and the one that names images.
struct Head {
    file: PathBuf,
    columns: Vec<String>,
    key: Option<String>,
}

impl Head {
    fn read(file: &Path, options: &TableOptions, tables: &Tables) -> Result<Self, LayoutError> {
        let mut columns: Vec<String> = Vec::new();
        tables.read_plain(file, &mut |_, names, _| {
            columns.extend(names.iter().skip(columns.len()).cloned());
            Ok(())
        })?;
        let given = options.key.as_ref().filter(|key| columns.contains(key));
        let key = given.or_else(|| find_key(&columns)).cloned();
        Ok(Self { file: file.to_owned(), columns, key })
    }

    /// The columns by which a table's rows are looked up for those of `first`, in that and in this: a
    /// column of both that names the images of one of them, or those that name the images of each.
    /// `None` if the rows are of other images, or if the tables share more.
    fn joins(&self, first: &Self) -> Option<(String, String)> {
        let (by, own) = (first.key.as_ref()?, self.key.as_ref()?);
        let (by, own) = match (self.columns.contains(by), first.columns.contains(own)) {
            (true, _) => (by, by),
            (false, true) => (own, own),
            (false, false) => (by, own),
        };
        let of_first = |column: &&String| *column != by && first.columns.contains(column);
        let new = self.columns.iter().filter(|column| *column != own);
        let adds = new.clone().next().is_some() && first.columns.len() > 1;
        (adds && !new.clone().any(|column| of_first(&column))).then(|| (by.clone(), own.clone()))
    }
}

/// Takes those of the tables whose rows are looked up; the tables that are left, and these.
pub(super) fn take(
    options: &TableOptions,
    tables: &Tables,
) -> Result<(Vec<PathBuf>, Vec<Lookup>), LayoutError> {
    if options.files.len() < 2 {
        return Ok((options.files.clone(), Vec::new()));
    }
    let is_by_id = |file: &&PathBuf| {
        let patterns = tables.patterns(file);
        !patterns.is_empty() && list::is_looked_up(patterns)
    };
    let (by_id, named): (Vec<_>, Vec<_>) = options.files.iter().partition(is_by_id);
    let mut lookups = Vec::new();
    for file in by_id {
        let head = Head::read(file, options, tables)?;
        Lookup::add(&mut lookups, &head, list::ID, list::ID, tables)?;
    }
    let mut heads = Vec::new();
    for file in named {
        heads.push(Head::read(file, options, tables)?);
    }
    // Boxes are what a table of them is for, so nothing looks them up; the `{path}` of a list is
    // what names its images, whatever the columns of tables do.
    let of_boxes = |head: &Head| tables.has_boxes(&head.file).unwrap_or(false);
    heads.sort_by_key(|head| (!of_boxes(head), tables.patterns(&head.file).is_empty()));
    let Some((first, others)) = heads.split_first() else {
        let text = "no list has `{path}`, which names the images";
        return Err(setting(&["labels"], text));
    };
    if !lookups.is_empty() && !first.columns.iter().any(|column| column == list::ID) {
        let reason = format!("it has no `{{{}}}`, by which other lists are joined", list::ID);
        return Err(fault(&first.file, None, reason));
    }
    // Names in tables of two folders may be those of images in the one and in the other.
    let is_elsewhere = |head: &Head| {
        let are_tables =
            [first, head].iter().all(|of| tables.patterns(&of.file).is_empty() && !of_boxes(of));
        are_tables && head.file.parent() != first.file.parent()
    };
    let (mut files, mut candidates) = (vec![first.file.clone()], Vec::new());
    for head in others {
        match head.joins(first).filter(|_| !is_elsewhere(head)) {
            Some((by, own)) => Lookup::add(&mut candidates, head, &by, &own, tables)?,
            None => files.push(head.file.clone()),
        }
    }
    for mut candidate in candidates {
        match candidate.shorten_to(&files, tables)? {
            true => lookups.push(candidate),
            false => files.extend(candidate.files),
        }
    }
    check_columns(first, &lookups)?;
    Ok((files, lookups))
}

/// Refuses tables of which two have a column that does not join them.
fn check_columns(first: &Head, lookups: &[Lookup]) -> Result<(), LayoutError> {
    let mut seen: BTreeSet<&String> = first.columns.iter().collect();
    for lookup in lookups {
        let twice = lookup.columns.iter().find(|column| !seen.insert(column));
        if let (Some(column), Some(file)) = (twice, lookup.files.first()) {
            let reason =
                format!("another table that it is joined with has the column `{column}`, too");
            return Err(fault(file, None, reason));
        }
    }
    Ok(())
}

/// Calls `each` with the rows of a table for which all of `lookups` have one: first their columns.
pub(super) fn rows(
    path: &Path,
    tables: &Tables,
    lookups: &[Lookup],
    each: Each<'_>,
) -> Result<(), LayoutError> {
    let added: Vec<String> = lookups.iter().flat_map(|of| of.columns.iter().cloned()).collect();
    let (mut columns, mut looked) = (added.clone(), 0);
    let mut places: Vec<Option<usize>> = vec![None; lookups.len()];
    tables.read_plain(path, &mut |line, names, cells| {
        for (at, name) in names.iter().enumerate().skip(looked) {
            columns.push(name.clone());
            for (place, _) in places.iter_mut().zip(lookups).filter(|(_, of)| of.by == *name) {
                place.get_or_insert(at);
            }
        }
        looked = names.len();
        let mut all = Vec::with_capacity(columns.len());
        for (place, of) in places.iter().zip(lookups) {
            let cell = place.and_then(|at| cells.get(at)).unwrap_or(&Cell::Missing);
            let name = of.name_of(cell).ok_or_else(|| no_name(path, line, &of.by))?;
            let Some(found) = of.rows.get(&name) else { return Ok(()) };
            all.extend(found.iter().cloned());
        }
        all.extend(cells.iter().cloned());
        each(line, &columns, &all)
    })
}

impl Lookup {
    /// Reads a table into the one of `lookups` that has its columns, or into a new one.
    fn add(
        lookups: &mut Vec<Self>,
        head: &Head,
        by: &str,
        own: &str,
        tables: &Tables,
    ) -> Result<(), LayoutError> {
        let columns: Vec<String> =
            head.columns.iter().filter(|column| *column != own).cloned().collect();
        let known = lookups.iter().position(|of: &Self| of.columns == columns && of.own == own);
        let at = known.unwrap_or_else(|| {
            let (by, own) = (by.to_owned(), own.to_owned());
            let (files, rows) = (Vec::new(), HashMap::new());
            lookups.push(Self { files, by, own, columns, rows, bytes: 0 });
            lookups.len() - 1
        });
        match lookups.get_mut(at) {
            Some(lookup) => lookup.read(&head.file, tables),
            None => Ok(()),
        }
    }

    fn read(&mut self, file: &Path, tables: &Tables) -> Result<(), LayoutError> {
        let (mut places, mut own, mut looked) = (vec![None; self.columns.len()], None, 0);
        tables.read_plain(file, &mut |line, names, cells| {
            if names.len() > looked {
                looked = names.len();
                let place = |column: &String| names.iter().position(|name| name == column);
                places = self.columns.iter().map(place).collect();
                own = place(&self.own);
            }
            let cell = |place: Option<usize>| {
                place.and_then(|at| cells.get(at)).unwrap_or(&Cell::Missing)
            };
            let name =
                self.name_of(cell(own)).ok_or_else(|| no_name(file, line, &self.own))?;
            let values: Vec<Cell> = places.iter().map(|place| cell(*place).clone()).collect();
            self.bytes += name.len() + values.iter().map(Cell::bytes).sum::<usize>();
            if self.bytes > MOST_BYTES {
                let reason = format!(
                    "its rows take more than {MOST_BYTES} bytes, too many to be joined with another table"
                );
                return Err(fault(file, Some(line), reason));
            }
            match self.rows.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(values);
                    Ok(())
                }
                Entry::Occupied(entry) if *entry.get() == values => Ok(()),
                Entry::Occupied(entry) => {
                    let reason = format!(
                        "another row with the same `{}`, `{}`, says something else",
                        self.own,
                        entry.key()
                    );
                    Err(fault(file, Some(line), reason))
                }
            }
        })?;
        self.files.push(file.to_owned());
        Ok(())
    }

    /// What a row is looked up by, in the form in which names of images are compared if it is one.
    fn name_of(&self, cell: &Cell) -> Option<String> {
        let word = cell.word().or_else(|| cell.class_number().map(|number| number.to_string()))?;
        if self.by == self.own && self.own == list::ID {
            return Some(word);
        }
        let plain = plain(&word);
        Some(without_extension(&plain).to_owned())
    }

    /// Leaves out folders that all names begin with, until a row of `files` names an image that these
    /// name, too; whether one does. Lists often begin with the folder of all images.
    fn shorten_to(&mut self, files: &[PathBuf], tables: &Tables) -> Result<bool, LayoutError> {
        while !self.has_any(files, tables)? {
            let first = self.rows.keys().next().and_then(|name| name.split_once('/'));
            let Some((folder, _)) = first else { return Ok(false) };
            let folder = format!("{folder}/");
            if !self.rows.keys().all(|name| name.starts_with(&folder)) {
                return Ok(false);
            }
            let rows = std::mem::take(&mut self.rows).into_iter();
            self.rows = rows.map(|(name, row)| (name[folder.len()..].to_owned(), row)).collect();
        }
        Ok(true)
    }

    /// Whether a row of `files` names an image that these name, too.
    fn has_any(&self, files: &[PathBuf], tables: &Tables) -> Result<bool, LayoutError> {
        let mut any = false;
        for file in files {
            tables.read_plain(file, &mut |_, names, cells| {
                let cell =
                    names.iter().position(|name| *name == self.by).and_then(|at| cells.get(at));
                let name = cell.and_then(|cell| self.name_of(cell));
                any |= name.is_some_and(|name| self.rows.contains_key(&name));
                Ok(())
            })?;
        }
        Ok(any)
    }

    /// Whether a column only joins lists.
    pub(super) fn is_by_id(&self, column: &str) -> bool {
        self.own == list::ID && self.by == column
    }

    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// How the tables were joined.
    pub(super) fn said(&self) -> JoinedTables {
        let files = self.files.iter().map(|file| file.display().to_string()).collect();
        JoinedTables { files, by: self.by.clone() }
    }

    /// The error where no row was found.
    pub(super) fn nothing_joins(&self, path: &Path) -> LayoutError {
        let mut names = Names::default();
        self.rows.keys().for_each(|name| names.push(name));
        let files: Vec<String> =
            self.files.iter().map(|file| format!("`{}`", file.display())).collect();
        let reason = format!(
            "no row of it has a `{}` that is among those of {}: {names}",
            self.by,
            files.join(", ")
        );
        fault(path, None, reason)
    }
}

fn no_name(path: &Path, line: u64, column: &str) -> LayoutError {
    let reason = format!("the cell of `{column}`, by which tables are joined, is empty");
    fault(path, Some(line), reason)
}
