//! Tables with a column per class, in which 1 says that the image has the class.

use std::collections::BTreeSet;
use std::path::Path;

use super::cell::Cell;
use super::rows::{Each, Tables, fault};
use crate::facts::{Doubt, WayToRead};
use crate::layout::LayoutError;

/// Most names that messages list.
const MOST_NAMED: usize = 3;

/// Columns that are read as one column of classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Indicators {
    columns: Vec<String>,
    /// Whether an image may have several of the classes, or none.
    several: bool,
    /// How many of the classes some image has.
    n_used: usize,
    /// Whether -1 says that an image has not the class.
    signs: bool,
    /// The name of the column that they become.
    pub(super) name: String,
}

impl Indicators {
    /// Takes these columns of all tables, which hold only 0 and 1, or -1 and 1 if `signs`.
    pub(super) fn new(
        columns: Vec<String>,
        signs: bool,
        tables: &Tables,
        files: &[impl AsRef<Path>],
    ) -> Result<Self, LayoutError> {
        let name = match columns.len().saturating_sub(MOST_NAMED) {
            0 | 1 => columns.join(","),
            more => format!("{},… and {more} more", columns[..MOST_NAMED].join(",")),
        };
        let mut found = Self { columns, several: true, n_used: 0, signs, name };
        let (mut lone, mut used) = (true, BTreeSet::new());
        for path in files {
            let path = path.as_ref();
            found.rows(path, tables, &mut |_, _, cells| {
                let classes = match cells {
                    [Cell::List(classes), ..] => classes.as_slice(),
                    _ => &[],
                };
                lone &= classes.len() == 1;
                used.extend(classes.iter().filter_map(Cell::word));
                Ok(())
            })?;
        }
        found.several = !lone;
        found.n_used = used.len();
        Ok(found)
    }

    /// The classes.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Whether each image has one class.
    pub(super) fn is_one_hot(&self) -> bool {
        !self.several
    }

    /// Whether all images have the same class, so that the columns are hardly those of classes.
    pub(super) fn has_one_class(&self) -> bool {
        !self.several && self.n_used < 2
    }

    fn flag(&self, cell: &Cell) -> Option<bool> {
        match cell.class_number() {
            Some(-1) if self.signs => Some(false),
            _ => flag(cell),
        }
    }

    /// Calls `each` with the rows of a table: first the column of classes, then all others.
    pub(super) fn rows(
        &self,
        path: &Path,
        tables: &Tables,
        each: Each<'_>,
    ) -> Result<(), LayoutError> {
        let mut columns = vec![self.name.clone()];
        // For each column of the table, the class that it is.
        let mut of_class: Vec<Option<&String>> = Vec::new();
        tables.read_gathered(path, &mut |line, names, cells| {
            for name in names.iter().skip(of_class.len()) {
                let class = self.columns.iter().find(|column| *column == name);
                if class.is_none() {
                    columns.push(name.clone());
                }
                of_class.push(class);
            }
            let (mut classes, mut rest) = (Vec::new(), vec![Cell::Missing]);
            for (class, cell) in of_class.iter().zip(cells) {
                match class {
                    None => rest.push(cell.clone()),
                    Some(class) => match self.flag(cell) {
                        Some(true) => classes.push(Cell::Text((*class).clone())),
                        Some(false) => {}
                        None => {
                            let reason = format!(
                                "the column `{class}` has the value `{}`, expected 0 or 1",
                                cell.word().unwrap_or_default()
                            );
                            return Err(fault(path, Some(line), reason));
                        }
                    },
                }
            }
            rest[0] = match (self.several, classes.pop()) {
                (false, Some(class)) => class,
                (_, last) => {
                    classes.extend(last);
                    Cell::List(classes)
                }
            };
            each(line, &columns, &rest)
        })
    }
}

/// Whether an image has the class of a column; an empty cell says that it has not.
pub(super) fn flag(cell: &Cell) -> Option<bool> {
    match (cell, cell.class_number()) {
        (Cell::Missing, _) | (Cell::Bool(false), _) | (_, Some(0)) => Some(false),
        (Cell::Written(word), None) if word.trim().eq_ignore_ascii_case("false") => Some(false),
        (Cell::Written(word), None) if word.trim().eq_ignore_ascii_case("true") => Some(true),
        (Cell::Bool(true), _) | (_, Some(1)) => Some(true),
        _ => None,
    }
}

/// Columns of 0 and 1 where no column has a name of labels.
pub(super) fn may_be_classes(columns: &[String]) -> Doubt {
    let named: Vec<String> =
        columns.iter().take(MOST_NAMED).map(|name| format!("`{name}`")).collect();
    let text = format!(
        "no column has a name of labels; {} columns hold only 0 and 1 ({}{}), and in some rows several or none are 1",
        columns.len(),
        named.join(", "),
        if columns.len() > MOST_NAMED { ", …" } else { "" }
    );
    let column = |when: &str, column: String| WayToRead {
        label_column: Some(column),
        ..WayToRead::new(when, &[])
    };
    Doubt::new(
        text,
        vec![
            column("if these are classes, of which an image can have several", columns.join(",")),
            column("if they are fields, and there are no classes", "none".to_owned()),
        ],
    )
}

/// Columns of 0, 1 and -1, of which nobody knows what -1 means.
pub(super) fn unsure(columns: &[String]) -> Doubt {
    let named = crate::facts::named(columns.iter());
    let text = format!(
        "the columns {named} hold 0 or nothing, 1, and also -1, which often says that nobody is sure: as classes, they need 0 or 1 in its place"
    );
    let label_column = Some("none".to_owned());
    let fields =
        WayToRead { label_column, ..WayToRead::new("to keep all of these as fields", &[]) };
    Doubt::new(text, vec![fields])
}

/// Columns of 0 and 1 that were taken for classes, as one of them is 1 in each row.
pub(super) fn are_classes(found: &Indicators) -> Doubt {
    let text = format!(
        "labels are taken from the columns `{}`, of which exactly one is 1 in each row",
        found.columns.join("`, `")
    );
    let label_column = Some("none".to_owned());
    let fields = WayToRead { label_column, ..WayToRead::new("if they are fields", &[]) };
    Doubt::new(text, vec![fields])
}
