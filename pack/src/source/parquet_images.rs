//! Parquet files with the bytes of images, as Hugging Face's hub has them.
//!
//! ```text
//! train-00000-of-00002.parquet     image: {bytes, path}, label: int64, …
//!   ─▶ a tar        train-00000-of-00002-0000000.jpeg … and metadata.jsonl, as in an imagefolder
//! ```
//!
//! A second column of images, such as `mask`, becomes a folder of its own.
//!
//! ```text
//!                   mask/train-00000-of-00002-0000000.png
//! ```
//!
//! The bytes are those of the files from which the dataset was made. Numbers of classes become the
//! names that the file's metadata has for them. Source:
//! <https://huggingface.co/docs/datasets/about_dataset_features#image-feature>.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use gular_bundle::{Backend, Cells, ParquetTable, ReadAt};
use gular_codec::Format;
use serde_json::{Map, Value};

use super::archive::Opening;
use super::spool::Spool;
use crate::source::SourceError;

/// The name that the column of images mostly has.
const IMAGE: &str = "image";
/// The ends of the names of columns with an image, and of what it was called.
const BYTES: &str = ".bytes";
const PATH: &str = ".path";
/// The table of the other columns, and its column of file names. Source: as above, imagefolder.
pub(crate) const METADATA: &str = "metadata.jsonl";
pub(crate) const FILE_NAME: &str = "parquet_row";
/// The text of the metadata that describes the columns.
const FEATURES: &str = "huggingface";
/// The column of the names that images had.
const NAME: &str = "path";
/// The longest part of the file's own name in those of images.
const LONGEST_STEM: usize = 48;
/// Bytes are written to the tar's temporary file at most so many at a time.
const PIECE: usize = 1 << 20;
/// The block of a tar.
const BLOCK: usize = 512;

/// A Parquet file with a column of images.
pub(crate) struct ParquetImages {
    table: ParquetTable,
    /// The names of the columns of images; `image` is the first, if it is one.
    images: Vec<String>,
}

impl ParquetImages {
    /// Opens a file, if it is of this form.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, SourceError> {
        let table = ParquetTable::open(ReadAt::open(path, Backend::Pread)?)?;
        let features = features(&table);
        // Sounds and videos have the same form.
        let is_image = |name: &str| {
            let kind = features.get(name).and_then(|feature| feature.get("_type"));
            kind.is_none_or(|kind| kind == "Image")
        };
        let columns = table.columns();
        let images = columns.iter().filter(|column| table.has_bytes(column));
        let images = images.filter_map(|column| column.strip_suffix(BYTES));
        let mut images: Vec<String> =
            images.filter(|name| is_image(name)).map(str::to_owned).collect();
        images.sort_by_key(|name| name != IMAGE);
        Ok((!images.is_empty()).then_some(Self { table, images }))
    }

    /// The columns of images beside the first.
    pub(crate) fn further(&self) -> &[String] {
        self.images.get(1..).unwrap_or_default()
    }

    /// The columns of the metadata, beside the file names.
    pub(crate) fn columns(&self) -> Vec<String> {
        let columns = self.table.columns().into_iter();
        columns.filter(|column| !self.is_of_image(column)).collect()
    }

    fn is_of_image(&self, column: &str) -> bool {
        let mut rests = self.images.iter().filter_map(|name| column.strip_prefix(name.as_str()));
        rests.any(|rest| rest == BYTES || rest == PATH)
    }

    /// The names of the classes of each column that has numbers of classes.
    pub(crate) fn classes(&self) -> BTreeMap<String, Vec<String>> {
        let mut found = BTreeMap::new();
        for (name, feature) in &features(&self.table) {
            classes_in(name, feature, &mut found);
        }
        found
    }

    /// The images and their table as a tar in a temporary file.
    pub(super) fn to_tar(&self, path: &Path, opening: &Opening<'_>) -> Result<File, SourceError> {
        let packed = path.metadata().map_err(|e| SourceError::io("read", path, e))?.len();
        let in_temp = |e| SourceError::io("write in", opening.temp, e);
        let mut tar = Tar { spool: Spool::new(path, packed, opening)? };
        let mut lines = tempfile::tempfile_in(opening.temp).map_err(in_temp)?;
        let (classes, columns) = (self.classes(), self.table.columns());
        let stem = short_stem(path);
        let fault = |reason: String| {
            let path = path.display().to_string();
            SourceError::ParquetImages { path, reason }
        };
        for column in &self.images {
            if let Some(codec) = self.table.unread_codec(&format!("{column}{BYTES}")) {
                return Err(fault(format!("they are compressed with {codec}")));
            }
        }
        let mut first_row = 0_u64;
        for group in 0..self.table.n_groups() {
            let mut names = Vec::new();
            for (at, column) in self.images.iter().enumerate() {
                let (mut row, mut failed) = (first_row, None);
                let mut take = |bytes: &[u8]| {
                    let Some(format) = Format::sniff(bytes) else {
                        return Err(fault(format!(
                            "row {row} has something else than a picture in the column `{column}`"
                        )));
                    };
                    let extension = format.media_type().rsplit('/').next().unwrap_or("jpg");
                    let name = format!("{stem}-{row:07}.{extension}");
                    let folder = if at == 0 { String::new() } else { format!("{column}/") };
                    tar.file(&format!("{folder}{name}"), bytes.len() as u64, &mut &*bytes)?;
                    if at == 0 {
                        names.push(name);
                    }
                    row += 1;
                    Ok(())
                };
                let read = self.table.bytes(group, &format!("{column}{BYTES}"), &mut |bytes| {
                    take(bytes).map_err(|e| {
                        failed = Some(e);
                        gular_bundle::Error::Stopped { path: path.display().to_string() }
                    })
                });
                let read = match (read, failed) {
                    (_, Some(error)) => return Err(error),
                    (read, None) => read?,
                };
                if let Some(row) = read.iter().position(|has_value| !has_value) {
                    let row = first_row + row as u64;
                    return Err(fault(format!(
                        "row {row} has no bytes in the column `{column}`, only a path"
                    )));
                }
            }
            let (_, cells) = self.table.group(group)?;
            let rows = names.len() as u64;
            for (i, name) in names.into_iter().enumerate() {
                let row = first_row + i as u64;
                let mut line = Map::new();
                for (column, values) in columns.iter().zip(&cells) {
                    let is_path =
                        column.strip_suffix(PATH) == self.images.first().map(String::as_str);
                    if self.is_of_image(column) && !is_path {
                        continue;
                    }
                    let value = match classes.get(column) {
                        Some(names) => by_name(value(values, i), names).map_err(|n| {
                            let n_classes = names.len();
                            fault(format!("row {row} has the class {n} in the column `{column}`, which has {n_classes} classes"))
                        })?,
                        None => value(values, i),
                    };
                    let has_own = columns.iter().any(|column| column == NAME);
                    if !is_path {
                        line.insert(column.clone(), value);
                    } else if !value.is_null() && !has_own {
                        line.insert(NAME.to_owned(), value);
                    }
                }
                line.insert(FILE_NAME.to_owned(), name.into());
                writeln!(lines, "{}", Value::Object(line)).map_err(in_temp)?;
            }
            first_row += rows;
        }
        let len = lines.stream_position().map_err(in_temp)?;
        lines.rewind().map_err(in_temp)?;
        tar.file(METADATA, len, &mut std::io::BufReader::new(lines))?;
        tar.spool.push(&[0; 2 * BLOCK])?;
        tar.spool.finish()
    }
}

/// The descriptions of columns.
fn features(table: &ParquetTable) -> Map<String, Value> {
    let text = table.metadata(FEATURES).unwrap_or_default();
    let mut document: Value = serde_json::from_str(text).unwrap_or_default();
    match document.pointer_mut("/info/features").map(Value::take) {
        Some(Value::Object(features)) => features,
        _ => Map::new(),
    }
}

/// The names of classes in the description of a column, and of those in it.
fn classes_in(name: &str, feature: &Value, found: &mut BTreeMap<String, Vec<String>>) {
    // A list has the description of its elements in it.
    let feature = feature.get("feature").or_else(|| feature.get(0)).unwrap_or(feature);
    if let Some(names) = feature.get("names").and_then(Value::as_array) {
        let names: Option<Vec<String>> =
            names.iter().map(|name| name.as_str().map(str::to_owned)).collect();
        found.extend(names.map(|names| (name.to_owned(), names)));
    } else if let Some(members) = feature.as_object().filter(|of| !of.contains_key("_type")) {
        for (member, feature) in members {
            classes_in(&format!("{name}.{member}"), feature, found);
        }
    }
}

/// The file's own name without its extension, or the first of it and a digest.
fn short_stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match stem.char_indices().nth(LONGEST_STEM) {
        None => stem.into_owned(),
        Some((at, _)) => {
            let digest = blake3::hash(stem.as_bytes()).to_hex();
            format!(
                "{}-{}",
                stem.get(..at).unwrap_or_default(),
                digest.get(..16).unwrap_or_default()
            )
        }
    }
}

/// The class or classes with these numbers; -1, which says that nobody knows the class, is nothing. The
/// error is a number that no class has.
fn by_name(value: Value, names: &[String]) -> Result<Value, i64> {
    match value {
        Value::Array(values) => {
            let named = values.into_iter().map(|value| by_name(value, names));
            Ok(named.collect::<Result<Vec<_>, _>>()?.into())
        }
        value => match value.as_i64() {
            None => Ok(value),
            Some(-1) => Ok(Value::Null),
            Some(n) => {
                let name = usize::try_from(n).ok().and_then(|n| names.get(n));
                name.map(|name| name.as_str().into()).ok_or(n)
            }
        },
    }
}

/// A tar that is written.
struct Tar<'a> {
    spool: Spool<'a>,
}

impl Tar<'_> {
    fn file(
        &mut self,
        name: &str,
        len: u64,
        mut from: &mut dyn std::io::Read,
    ) -> Result<(), SourceError> {
        let mut header = tar::Header::new_ustar();
        header.set_path(name).map_err(|e| SourceError::io("write", Path::new(name), e))?;
        header.set_size(len);
        header.set_mode(0o644);
        header.set_cksum();
        self.spool.push(header.as_bytes())?;
        let mut piece = Vec::new();
        let mut left = len;
        while left > 0 {
            piece.clear();
            let read = (&mut from).take(left.min(PIECE as u64)).read_to_end(&mut piece);
            let n = read.map_err(|e| SourceError::io("read", Path::new(name), e))?;
            if n == 0 {
                let end = std::io::ErrorKind::UnexpectedEof.into();
                return Err(SourceError::io("read", Path::new(name), end));
            }
            self.spool.push(&piece)?;
            left -= n as u64;
        }
        let end = usize::try_from(len % BLOCK as u64).unwrap_or(0);
        self.spool.push([0; BLOCK].get(..(BLOCK - end) % BLOCK).unwrap_or_default())
    }
}

/// The value of a row, in JSON.
fn value(cells: &Cells, i: usize) -> Value {
    fn of<T: Clone + Into<Value>>(all: &[Option<T>], i: usize) -> Value {
        all.get(i).cloned().flatten().map_or(Value::Null, Into::into)
    }
    fn list<T: Clone + Into<Value>>(all: &[Option<Vec<Option<T>>>], i: usize) -> Value {
        let found = all.get(i).cloned().flatten();
        let value = |value: Option<T>| value.map_or(Value::Null, Into::into);
        found.map_or(Value::Null, |list| list.into_iter().map(value).collect::<Vec<_>>().into())
    }
    match cells {
        Cells::Integers(all) => of(all, i),
        Cells::Floats(all) => of(all, i),
        Cells::Texts(all) => of(all, i),
        Cells::Bools(all) => of(all, i),
        Cells::TextLists(all) => list(all, i),
        Cells::IntegerLists(all) => list(all, i),
        Cells::FloatLists(all) => list(all, i),
        Cells::FloatListLists(all) => {
            let lists = all.get(i).cloned().flatten();
            let list = |list: Option<Vec<Option<f64>>>| Value::from(list.unwrap_or_default());
            lists.map_or(Value::Null, |of| of.into_iter().map(list).collect::<Vec<_>>().into())
        }
        // Told as a column that cannot be a field.
        Cells::Unread(_) => Value::Array(vec![Value::Object(Map::new())]),
    }
}
