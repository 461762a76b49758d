//! Which tables are read, and what their columns mean.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gular_bundle::Split;
use serde::Serialize;

use super::lookup::JoinedTables;
use super::rows::{Tables, fault};
use crate::facts::{BoxForm, Pattern, merged};
use crate::layout::LayoutError;
use crate::source::LabelColumn;

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
    /// Splits that values of this column stand for, where these are not words for splits.
    pub split_words: BTreeMap<String, Split>,
    /// The parts of paths, by which rows are joined where they are about such parts.
    pub parts: Vec<String>,
    /// The column of what stays in one split, if fractions make the splits.
    pub group: Option<String>,
    /// The separator of several classes in one cell of text.
    pub separator: Option<String>,
    /// What the four numbers of boxes are; `None` if their columns and values say it.
    pub box_form: Option<BoxForm>,
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
    pub(super) fn lists(&self) -> impl Iterator<Item = (&PathBuf, &Vec<Pattern>)> {
        let is_list = |lines: &&Vec<Pattern>| lines.iter().any(|line| line.constants().is_none());
        self.lines.iter().filter(move |(_, lines)| is_list(lines))
    }

    /// The part of paths that the lines of all lists name, if they name no paths.
    pub(super) fn part_of_lines(&self) -> Option<&String> {
        let lines = || self.lists().flat_map(|(_, lines)| lines);
        let has_all = |name: &str| lines().all(|line| line.has(name));
        let parts = self.parts.iter().find(|part| has_all(part));
        parts.filter(|_| lines().next().is_some() && !lines().any(|line| line.has("path")))
    }

    /// Whether all tables have boxes, which have classes of their own.
    pub(super) fn is_of_boxes(&self, tables: &Tables) -> bool {
        self.files.iter().all(|file| tables.has_boxes(file).unwrap_or(false))
    }

    /// The classes that the tables name; several must agree.
    pub(super) fn box_classes(&self, tables: &Tables) -> Result<Vec<String>, LayoutError> {
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
    /// The part of paths that this column names instead, whose images a row is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
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
