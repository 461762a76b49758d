//! `merge`: joins the predictions for the parts of a bundle into one table.
//!
//! Every part is sorted by key, so the next row of the whole is the smallest of the next rows of
//! the parts: one row of each is in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;

use crate::args::{MergeArgs, Part};
use crate::progress::say;
use crate::score::check_folder_of;
use crate::table::{self, Columns, Row};

pub(crate) fn run(args: &MergeArgs) -> Result<()> {
    check_folder_of(&args.out)?;
    let mut parts = Vec::new();
    for path in &args.parts {
        let part =
            Table::open(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        parts.push(part);
    }
    check_all_there(&parts)?;
    let first = parts.first().context("no parts were given")?;
    let columns = first.columns.clone();
    if let Some(other) = parts.iter().find(|part| part.columns != columns) {
        bail!(
            "`{}` and `{}` have different columns: they are not parts of one prediction",
            first.path.display(),
            other.path.display()
        );
    }
    let n = table::write(&args.out, &columns, Merged::new(parts)?)
        .with_context(|| format!("cannot write `{}`", args.out.display()))?;
    if !args.quiet {
        say!("{n} samples of {} parts", args.parts.len());
    }
    Ok(())
}

/// Checks that the tables are all parts of one prediction, each once, if they say which parts they
/// are.
fn check_all_there(tables: &[Table]) -> Result<()> {
    let Some(Table { part: Some(first), path, .. }) = tables.iter().find(|t| t.part.is_some())
    else {
        return Ok(());
    };
    let mut found: BTreeMap<u64, &Path> = BTreeMap::new();
    for table in tables {
        let other = table.path.display();
        let Some(part) = table.part else {
            bail!(
                "`{}` is a part of a prediction, but `{other}` does not say that it is a part",
                path.display()
            );
        };
        ensure!(
            part.of == first.of,
            "the parts are not of the same prediction: `{}` is one of {} parts, `{other}` is one of {}",
            path.display(),
            first.of,
            part.of
        );
        if let Some(before) = found.insert(part.number, &table.path) {
            bail!("`{}` and `{other}` are both part {}/{}", before.display(), part.number, part.of);
        }
    }
    let missing = (1..=first.of).filter(|number| !found.contains_key(number));
    let named: Vec<String> = missing.take(5).map(|n| format!("{n}/{}", first.of)).collect();
    ensure!(
        named.is_empty(),
        "only {} of {} parts were given; missing: {}{}",
        found.len(),
        first.of,
        named.join(", "),
        if first.of - found.len() as u64 > 5 { ", …" } else { "" }
    );
    Ok(())
}

/// The table of one part.
struct Table {
    path: PathBuf,
    /// The part, if the table says so.
    part: Option<Part>,
    /// The columns, without the one that names the part.
    columns: Columns,
    rows: Rows,
}

enum Rows {
    Csv(csv::StringRecordsIntoIter<File>),
    Parquet(RowIter<'static>),
}

impl Table {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let (names, rows): (Vec<String>, Rows) = if table::is_parquet(path) {
            let reader = SerializedFileReader::new(file)?;
            let schema = reader.metadata().file_metadata().schema();
            let names = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
            (names, Rows::Parquet(RowIter::from_file_into(Box::new(reader))))
        } else {
            let mut reader = csv::Reader::from_reader(file);
            let names = reader.headers()?.iter().map(str::to_owned).collect();
            (names, Rows::Csv(reader.into_records()))
        };
        let is_number =
            |name: &&String| ["probability_", "score_"].iter().any(|start| name.starts_with(start));
        let n_texts = names.iter().take_while(|name| !is_number(name)).count();
        let (texts, numbers) = names.split_at(n_texts);
        ensure!(
            texts.first().is_some_and(|name| name == "key")
                && numbers.iter().all(|n| is_number(&n)),
            "it was not written by `gular-train predict`"
        );
        let mut columns = Columns { texts: texts.to_vec(), numbers: numbers.to_vec() };
        let part = columns.texts.last().and_then(|name| Part::of_column(name));
        if part.is_some() {
            columns.texts.pop();
        }
        Ok(Self { path: path.to_owned(), part, columns, rows })
    }

    fn next(&mut self) -> Result<Option<Row>> {
        let n_texts = self.columns.texts.len();
        let first_number = n_texts + usize::from(self.part.is_some());
        match &mut self.rows {
            Rows::Csv(records) => {
                let Some(record) = records.next().transpose()? else { return Ok(None) };
                let number =
                    |text: &str| text.parse().map_err(|_| anyhow!("`{text}` is not a number"));
                let texts = record.iter().take(n_texts).map(str::to_owned).collect();
                let numbers =
                    record.iter().skip(first_number).map(number).collect::<Result<_>>()?;
                Ok(Some(Row { texts, numbers }))
            }
            Rows::Parquet(rows) => {
                let Some(row) = rows.next().transpose()? else { return Ok(None) };
                let (mut texts, mut numbers) = (Vec::new(), Vec::new());
                for (i, (name, field)) in row.get_column_iter().enumerate() {
                    match field {
                        Field::Str(text) if i < n_texts => texts.push(text.clone()),
                        Field::Str(_) if i < first_number => {}
                        Field::Float(number) if i >= first_number => numbers.push(*number),
                        _ => bail!(
                            "the column `{name}` does not have the type that `gular-train predict` writes"
                        ),
                    }
                }
                Ok(Some(Row { texts, numbers }))
            }
        }
    }

    /// Returns the next row, whose key must come after `last`.
    fn after(&mut self, last: &str) -> Result<Option<Row>> {
        let row = self.next().with_context(|| format!("cannot read `{}`", self.path.display()))?;
        let key = row.as_ref().and_then(|row| row.texts.first());
        ensure!(
            key.is_none_or(|key| last.is_empty() || key.as_str() > last),
            "`{}` is not sorted by key: `{last}` is listed before `{}`",
            self.path.display(),
            key.map_or("", String::as_str)
        );
        Ok(row)
    }
}

/// Iterates over the rows of all parts in the order of keys.
struct Merged {
    parts: Vec<Table>,
    /// The next row of each part that has one: its key, and which part.
    next: BinaryHeap<Reverse<(String, usize)>>,
    rows: Vec<Option<Row>>,
    /// The last key, and the part that it is from.
    last: Option<(String, usize)>,
}

impl Merged {
    fn new(mut parts: Vec<Table>) -> Result<Self> {
        let rows = parts.iter_mut().map(|part| part.after("")).collect::<Result<Vec<_>>>()?;
        let next = rows.iter().enumerate().filter_map(|(i, row)| Some(Reverse((key(row)?, i))));
        Ok(Self { next: next.collect(), parts, rows, last: None })
    }

    fn step(&mut self) -> Result<Option<Row>> {
        let Some(Reverse((next, i))) = self.next.pop() else { return Ok(None) };
        if let Some((_, before)) = self.last.as_ref().filter(|(last, _)| *last == next) {
            bail!(
                "`{next}` is in `{}` and in `{}`: every sample must be in exactly one part",
                self.parts[*before].path.display(),
                self.parts[i].path.display()
            );
        }
        let following = self.parts[i].after(&next)?;
        if let Some(key) = key(&following) {
            self.next.push(Reverse((key, i)));
        }
        self.last = Some((next, i));
        Ok(std::mem::replace(&mut self.rows[i], following))
    }
}

impl Iterator for Merged {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

fn key(row: &Option<Row>) -> Option<String> {
    row.as_ref()?.texts.first().cloned()
}
