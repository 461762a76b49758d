//! The first rows of a table beside the images, which show what its rows are about.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use gular_bundle::FieldName;

use super::folders::Folders;
use super::split_lists::path_and_class;
use super::tables_beside::part;
use crate::facts::{Pattern, stem_and_extension};
use crate::source::{find_key, find_label, separator_of};

/// So much of a table is read, and so many rows of it are looked at.
const MOST_BYTES: u64 = 64 << 10;
const MOST_ROWS: usize = 500;

/// The columns of a list.
const OF_LIST: [&str; 2] = ["path", "label"];

/// The first rows of a table of separated values, or of a list.
pub(super) struct FirstRows {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl FirstRows {
    /// Reads them; none of other files, and of those in archives.
    pub(super) fn read(table: &str) -> Option<Self> {
        let is_text = [".csv", ".tsv"].iter().any(|end| table.to_lowercase().ends_with(end));
        let start = start_of(table).filter(|_| is_text)?;
        let start = start.trim_start_matches('\u{feff}');
        let mut reader = ::csv::ReaderBuilder::new()
            .delimiter(separator_of(start.as_bytes()))
            .flexible(true)
            .trim(::csv::Trim::All)
            .from_reader(start.as_bytes());
        let texts = |record: &::csv::StringRecord| record.iter().map(str::to_owned).collect();
        let columns = texts(reader.headers().ok()?);
        let rows = reader.records().map_while(Result::ok).take(MOST_ROWS);
        Some(Self { columns, rows: rows.map(|row| texts(&row)).collect() })
    }

    /// Reads those of a list in which each line has the path of an image and its class behind it.
    pub(super) fn of_list(list: &str) -> Option<Self> {
        let start = start_of(list)?;
        let lines = start.lines().take(MOST_ROWS);
        let rows = lines.filter_map(|line| Some(path_and_class(line)?.map(str::to_owned).to_vec()));
        Some(Self { columns: OF_LIST.map(str::to_owned).to_vec(), rows: rows.collect() })
    }

    /// The path of each image and its class, where columns have names of these.
    pub(super) fn classes_of_paths(&self) -> impl Iterator<Item = (&str, &str)> {
        let [key, label] = [find_key(&self.columns), find_label(&self.columns)];
        let columns = key.zip(label);
        columns.into_iter().flat_map(|(key, label)| self.cells(key).zip(self.cells(label)))
    }

    fn cells(&self, column: &str) -> impl Iterator<Item = &str> {
        let at = self.columns.iter().position(|of| of == column);
        self.rows.iter().filter_map(move |row| row.get(at?).map(String::as_str))
    }

    /// Whether rows are about images of these folders, as far as their names are known.
    pub(super) fn are_of_images(&self, folders: &Folders) -> bool {
        let is_image = |cell: &str| {
            let name = cell.rsplit(['/', '\\']).next().unwrap_or(cell);
            let mut names = folders.some_names();
            names.any(|of| of == name || stem_and_extension(of).0 == name)
        };
        match find_key(&self.columns) {
            Some(key) => self.cells(key).any(is_image),
            None => self.columns.iter().any(|column| self.cells(column).any(is_image)),
        }
    }

    /// The first column all of whose cells are such, and the part of paths that it is joined with.
    pub(super) fn column_of(&self, is: &dyn Fn(&str) -> bool) -> Option<(&String, String)> {
        let is_whole = |column: &&String| !self.rows.is_empty() && self.cells(column).all(is);
        let column = self.columns.iter().find(is_whole).filter(|_| self.columns.len() > 1)?;
        let part = part(column);
        // Names that mean something else in patterns cannot be those of columns.
        let meant = ["key", "ext", "label", "labels", "split", "path", "class", "image", "data"];
        let is_part = FieldName::parse(&part).is_some() && !meant.contains(&part.as_str());
        let is_pattern = || Pattern::parse(&format!("{{{part}}}/{{key}}.{{ext}}")).is_ok();
        (is_part && is_pattern()).then_some((column, part))
    }
}

/// The beginning of a file.
fn start_of(file: &str) -> Option<String> {
    let mut start = Vec::new();
    let file = File::open(Path::new(file)).ok()?;
    BufReader::new(file.take(MOST_BYTES)).read_to_end(&mut start).ok()?;
    Some(String::from_utf8_lossy(&start).into_owned())
}
