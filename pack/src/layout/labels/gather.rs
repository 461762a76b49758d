//! Tables in which most images have several rows, which say several things about an image.
//!
//! ```text
//! image,caption
//! 1.jpg,a cat         ─▶   1.jpg   ["a cat", "an animal"]
//! 1.jpg,an animal
//! ```
//!
//! Columns in which the rows of an image differ become lists; the others have one value.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::cell::Cell;
use super::join::{plain, without_extension};
use super::rows::{Each, Tables, fault};
use crate::facts::{Doubt, RunError, WayToRead, named};
use crate::layout::LayoutError;

/// Whether images have several rows is seen in so many rows.
const FIRST_ROWS: usize = 1 << 16;
/// The most memory that the rows of a table may take, nearly.
const MOST_BYTES: usize = 1 << 30;

/// Columns that have a list for each image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gathered {
    key: String,
    lists: BTreeSet<String>,
    /// Those of them whose texts mostly differ, as captions do and classes do not.
    pub(super) texts: BTreeSet<String>,
    /// The most rows of an image.
    most: usize,
}

/// The rows of an image.
struct Group {
    line: u64,
    rows: Vec<Vec<Cell>>,
}

impl Gathered {
    /// The lists of these tables, if at least half of the images have rows that differ.
    pub(super) fn find(
        key: &str,
        files: &[PathBuf],
        tables: &Tables,
    ) -> Result<Option<Self>, LayoutError> {
        let mut several = false;
        for path in files {
            several |= has_several(key, path, tables)?;
        }
        if !several {
            return Ok(None);
        }
        let key = key.to_owned();
        let mut found = Self { key, lists: BTreeSet::new(), texts: BTreeSet::new(), most: 0 };
        let mut seen: HashMap<String, (HashSet<String>, usize)> = HashMap::new();
        for path in files {
            let (columns, groups) = found.groups(path, tables)?;
            for Group { rows, .. } in &groups {
                found.most = found.most.max(rows.len());
                for (at, column) in columns.iter().enumerate() {
                    let mut cells = rows.iter().map(|row| row.get(at).unwrap_or(&Cell::Missing));
                    let first = cells.next();
                    if *column != found.key && cells.any(|cell| Some(cell) != first) {
                        found.lists.insert(column.clone());
                    }
                    for cell in rows.iter().filter_map(|row| row.get(at)) {
                        let (texts, n) = seen.entry(column.clone()).or_default();
                        *n += 1;
                        if let Cell::Text(text) | Cell::Written(text) = cell
                            && cell.number().is_none()
                        {
                            texts.insert(text.trim().to_owned());
                        }
                    }
                }
            }
        }
        for column in &found.lists {
            if seen.get(column).is_some_and(|(texts, n)| texts.len() * 2 > *n) {
                found.texts.insert(column.clone());
            }
        }
        Ok(Some(found).filter(|found| !found.lists.is_empty()))
    }

    /// Calls `each` with one row for each image.
    pub(super) fn rows(
        &self,
        path: &Path,
        tables: &Tables,
        each: Each<'_>,
    ) -> Result<(), LayoutError> {
        let (columns, groups) = self.groups(path, tables)?;
        for Group { line, mut rows } in groups {
            let cells: Vec<Cell> = (0..columns.len())
                .map(|at| {
                    let is_list = columns.get(at).is_some_and(|name| self.lists.contains(name));
                    let cells = rows
                        .iter_mut()
                        .filter_map(|row| Some(std::mem::replace(row.get_mut(at)?, Cell::Missing)));
                    match is_list {
                        true => Cell::List(whole(cells.collect())),
                        false => cells.into_iter().next().unwrap_or(Cell::Missing),
                    }
                })
                .collect();
            each(line, &columns, &cells)?;
        }
        Ok(())
    }

    /// The columns of a table, and its rows by image, in the order in which images come first.
    fn groups(
        &self,
        path: &Path,
        tables: &Tables,
    ) -> Result<(Vec<String>, Vec<Group>), LayoutError> {
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        let (mut columns, mut bytes) = (Vec::new(), 0);
        tables.read_joined(path, &mut |line, names, cells| {
            if names.len() > columns.len() {
                columns = names.to_vec();
            }
            bytes += cells.iter().map(Cell::bytes).sum::<usize>();
            if bytes > MOST_BYTES {
                let reason = format!(
                    "images have several rows, and all of them take more than {MOST_BYTES} bytes: write one row per image"
                );
                return Err(fault(path, Some(line), reason));
            }
            let name = name_of(&self.key, names, cells);
            match name.map(|name| known.entry(name)) {
                Some(Entry::Occupied(at)) => {
                    if let Some(group) = groups.get_mut(*at.get()) {
                        group.rows.push(cells.to_vec());
                    }
                }
                entry => {
                    if let Some(Entry::Vacant(vacant)) = entry {
                        vacant.insert(groups.len());
                    }
                    groups.push(Group { line, rows: vec![cells.to_vec()] });
                }
            }
            Ok(())
        })?;
        Ok((columns, groups))
    }

    /// What the user should know.
    pub(super) fn doubt(&self) -> Doubt {
        let lists = named(self.lists.iter());
        let text = format!(
            "most images have several rows, up to {}, which are read together: {lists} {} a list for each image",
            self.most,
            if self.lists.len() == 1 { "has" } else { "have" }
        );
        Doubt::new(text, Vec::<WayToRead>::new())
    }
}

/// The values of an image in a column. Those that are missing among texts are empty ones, so that the
/// lists of two columns have the same order.
fn whole(cells: Vec<Cell>) -> Vec<Cell> {
    let is_text = |cell: &Cell| matches!(cell, Cell::Text(_) | Cell::Written(_));
    let are_texts = cells.iter().any(is_text);
    let present = |cell: Cell| match cell {
        Cell::Missing if are_texts => Some(Cell::Text(String::new())),
        Cell::Missing => None,
        cell => Some(cell),
    };
    cells.into_iter().filter_map(present).collect()
}

/// Whether at least half of the images in the first rows have rows that differ.
fn has_several(key: &str, path: &Path, tables: &Tables) -> Result<bool, LayoutError> {
    let mut first: HashMap<String, (Vec<Cell>, bool)> = HashMap::new();
    let mut n = 0;
    let read = tables.read_joined(path, &mut |_, names, cells| {
        n += 1;
        if n > FIRST_ROWS {
            return Err(RunError::Cancelled.into());
        }
        if let Some(name) = name_of(key, names, cells) {
            match first.entry(name) {
                Entry::Vacant(vacant) => drop(vacant.insert((cells.to_vec(), false))),
                Entry::Occupied(mut known) => {
                    let (cells_before, differs) = known.get_mut();
                    *differs |= cells_before.as_slice() != cells;
                }
            }
        }
        Ok(())
    });
    match read {
        // What follows is not looked at.
        Err(LayoutError::Run(RunError::Cancelled)) if n > FIRST_ROWS => {}
        read => read?,
    }
    let several = first.values().filter(|(_, differs)| *differs).count();
    Ok(several > 0 && several * 2 >= first.len())
}

fn name_of(key: &str, names: &[String], cells: &[Cell]) -> Option<String> {
    let cell = names.iter().position(|name| name == key).and_then(|at| cells.get(at))?;
    Some(without_extension(&plain(&cell.word()?)).to_owned())
}
