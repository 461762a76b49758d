//! The first rows of a table beside the images, which show what its rows are about.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use gular_bundle::FieldName;

use super::folders::Folders;
use super::tables_beside::part;
use crate::facts::{Pattern, stem_and_extension};
use crate::source::{find_key, separator_of};

/// So much of a table is read, and so many rows of it are looked at.
const MOST_BYTES: u64 = 64 << 10;
const MOST_ROWS: usize = 50;

/// The first rows of a table of separated values.
pub(super) struct FirstRows {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl FirstRows {
    /// Reads them; none of other files, and of those in archives.
    pub(super) fn read(table: &str) -> Option<Self> {
        let is_text = [".csv", ".tsv"].iter().any(|end| table.to_lowercase().ends_with(end));
        let mut start = Vec::new();
        let file = File::open(Path::new(table)).ok().filter(|_| is_text)?;
        BufReader::new(file.take(MOST_BYTES)).read_to_end(&mut start).ok()?;
        let start = String::from_utf8_lossy(&start);
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
        let meant = ["key", "ext", "label", "split", "path", "class", "image", "data"];
        let is_part = FieldName::parse(&part).is_some() && !meant.contains(&part.as_str());
        let is_pattern = || Pattern::parse(&format!("{{{part}}}/{{key}}.{{ext}}")).is_ok();
        (is_part && is_pattern()).then_some((column, part))
    }
}
