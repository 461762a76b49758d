//! Tables that say more about the images of another one: their rows are looked up.
//!
//! ```text
//! images.txt            1 a/1.jpg ─┐
//! image_class_labels    1 17 ──────┼─ id ─▶ a/1.jpg, 17, train
//! train_test_split      1 1 ───────┘
//! ```
//!
//! Lists are joined by `{id}`. Tables of which each has columns that the other lacks are joined by the
//! names of images, if some names are in both; otherwise their rows are of other images. An image that
//! one of the tables lacks has no row.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::cell::Cell;
use super::columns::find_key;
use super::join::{plain, without_extension};
use super::list;
use super::names::Names;
use super::rows::{Each, Tables, fault};
use super::table::TableOptions;
use crate::Error;

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
}

/// A table's columns, and the one that names images.
struct Head {
    file: PathBuf,
    columns: Vec<String>,
    key: Option<String>,
}

impl Head {
    fn read(file: &Path, options: &TableOptions, tables: &Tables) -> Result<Self, Error> {
        let mut columns: Vec<String> = Vec::new();
        tables.read_plain(file, &mut |_, names, _| {
            columns.extend(names.iter().skip(columns.len()).cloned());
            Ok(())
        })?;
        let given = options.key.as_ref().filter(|key| columns.contains(key));
        let key = given.or_else(|| find_key(&columns)).cloned();
        Ok(Self { file: file.to_owned(), columns, key })
    }

    /// Whether each of two tables has columns that the other lacks, and they share only those that
    /// name images.
    fn adds_to(&self, other: &Self) -> bool {
        let has_more = |a: &Self, b: &Self| {
            let key = a.key.as_ref();
            a.columns.iter().any(|column| Some(column) != key && !b.columns.contains(column))
        };
        let names = [self.key.as_ref(), other.key.as_ref()];
        let shares =
            |column: &String| other.columns.contains(column) && !names.contains(&Some(column));
        has_more(self, other) && has_more(other, self) && !self.columns.iter().any(shares)
    }
}

/// Takes those of the tables whose rows are looked up; the tables that are left, and these.
pub(super) fn take(
    options: &TableOptions,
    tables: &Tables,
) -> Result<(Vec<PathBuf>, Vec<Lookup>), Error> {
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
        Lookup::add(&mut lookups, head, list::ID, list::ID, tables)?;
    }
    let mut heads = Vec::new();
    for file in named {
        heads.push(Head::read(file, options, tables)?);
    }
    // Boxes are what a table of them is for, so nothing looks them up.
    let of_boxes = |head: &Head| tables.has_boxes(&head.file).unwrap_or(false);
    heads.sort_by_key(|head| !of_boxes(head));
    let Some((first, others)) = heads.split_first() else {
        let text = "no list has `{path}`, which names the images";
        return Err(Error::setting(&["labels"], text));
    };
    if !lookups.is_empty() && !first.columns.iter().any(|column| column == list::ID) {
        let reason = format!("it has no `{{{}}}`, by which other lists are joined", list::ID);
        return Err(fault(&first.file, None, reason));
    }
    let (mut files, mut candidates) = (vec![first.file.clone()], Vec::new());
    for head in others {
        match (&first.key, &head.key) {
            (Some(by), Some(own)) if head.adds_to(first) => {
                let head =
                    Head { file: head.file.clone(), columns: head.columns.clone(), key: None };
                Lookup::add(&mut candidates, head, by, own, tables)?;
            }
            _ => files.push(head.file.clone()),
        }
    }
    for candidate in candidates {
        match candidate.has_any(&files, tables)? {
            true => lookups.push(candidate),
            false => files.extend(candidate.files),
        }
    }
    Ok((files, lookups))
}

/// Calls `each` with the rows of a table for which all of `lookups` have one: first their columns.
pub(super) fn rows(
    path: &Path,
    tables: &Tables,
    lookups: &[Lookup],
    each: Each<'_>,
) -> Result<(), Error> {
    let added: Vec<String> = lookups.iter().flat_map(|of| of.columns.iter().cloned()).collect();
    let (mut columns, mut looked) = (added.clone(), 0);
    let mut places: Vec<Option<usize>> = vec![None; lookups.len()];
    tables.read_plain(path, &mut |line, names, cells| {
        for (at, name) in names.iter().enumerate().skip(looked) {
            columns.push(name.clone());
            for (place, of) in places.iter_mut().zip(lookups).filter(|(_, of)| of.by == *name) {
                debug_assert!(!of.columns.contains(name), "a column that both have");
                place.get_or_insert(at);
            }
        }
        looked = names.len();
        let mut all = Vec::with_capacity(columns.len());
        for (place, of) in places.iter().zip(lookups) {
            let word = place.and_then(|at| cells.get(at)).and_then(Cell::word);
            let Some(found) = word.and_then(|word| of.rows.get(&name_of(&word))) else {
                return Ok(());
            };
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
        head: Head,
        by: &str,
        own: &str,
        tables: &Tables,
    ) -> Result<(), Error> {
        let Head { file, mut columns, .. } = head;
        columns.retain(|column| column != own);
        let known = lookups.iter().position(|of: &Self| of.columns == columns && of.own == own);
        let at = known.unwrap_or_else(|| {
            let (by, own) = (by.to_owned(), own.to_owned());
            lookups.push(Self { files: Vec::new(), by, own, columns, rows: HashMap::new() });
            lookups.len() - 1
        });
        match lookups.get_mut(at) {
            Some(lookup) => lookup.read(&file, tables),
            None => Ok(()),
        }
    }

    fn read(&mut self, file: &Path, tables: &Tables) -> Result<(), Error> {
        let mut bytes = 0;
        tables.read_plain(file, &mut |line, names, cells| {
            let cell = |name: &String| {
                names.iter().position(|known| known == name).and_then(|at| cells.get(at))
            };
            let Some(word) = cell(&self.own).and_then(Cell::word) else {
                let reason = format!("the cell of `{}`, by which tables are joined, is empty", self.own);
                return Err(fault(file, Some(line), reason));
            };
            let values: Vec<Cell> = self
                .columns
                .iter()
                .map(|name| cell(name).cloned().unwrap_or(Cell::Missing))
                .collect();
            bytes += word.len() + values.iter().map(Cell::bytes).sum::<usize>();
            if bytes > MOST_BYTES {
                let reason = format!("its rows take more than {MOST_BYTES} bytes, too many to be joined with another table");
                return Err(fault(file, Some(line), reason));
            }
            match self.rows.insert(name_of(&word), values.clone()) {
                Some(other) if other != values => {
                    let reason = format!("another row with the same `{}`, `{word}`, says something else", self.own);
                    Err(fault(file, Some(line), reason))
                }
                _ => Ok(()),
            }
        })?;
        self.files.push(file.to_owned());
        Ok(())
    }

    /// Whether a row of `files` names an image that these name, too.
    fn has_any(&self, files: &[PathBuf], tables: &Tables) -> Result<bool, Error> {
        let mut any = false;
        for file in files {
            tables.read_plain(file, &mut |_, names, cells| {
                let cell =
                    names.iter().position(|name| *name == self.by).and_then(|at| cells.get(at));
                let word = cell.and_then(Cell::word);
                any |= word.is_some_and(|word| self.rows.contains_key(&name_of(&word)));
                Ok(())
            })?;
        }
        Ok(any)
    }

    /// Whether a column only joins lists.
    pub(super) fn is_by_id(&self, column: &str) -> bool {
        self.own == list::ID && self.by == column
    }

    /// How the tables were joined.
    pub(super) fn said(&self) -> JoinedTables {
        let files = self.files.iter().map(|file| file.display().to_string()).collect();
        JoinedTables { files, by: self.by.clone() }
    }

    /// The error where no row was found.
    pub(super) fn nothing_joins(&self, path: &Path) -> Error {
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

/// The name of an image or of a row, in the form in which tables are compared.
fn name_of(word: &str) -> String {
    let plain = plain(word);
    without_extension(&plain).to_owned()
}
