//! Joins the rows of a table with the images.
//!
//! A name in the table is the path of an image below the source, or the end of one, or a longer
//! path that ends with one; its extension may be left out. Images and rows are sorted by the last
//! segment of the name without its extension, which is in both forms of a name, then by the segment
//! before it. Names with the same last segment are compared in memory. If all of them have a
//! folder, such as `scene17/image.png`, only those with both segments equal are.
//!
//! A name that fits no image so is compared once more, without its extension and without zeros
//! before a number, which programs for tables remove: `7` is then `0007.jpg`, and `a.jpg` is
//! `a.png`.
//!
//! Of several images that a row may name, it means the only one below the folder of its table, or the
//! only one in a folder that says its split: `Training/1.png` and `Testing/1.png` are two images, and
//! `1` in the table of `train` is the first.
//!
//! Rows may be about a part of paths instead, such as a patient: each is that of all images in whose
//! path this part has its value.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use gular_bundle::Split;

use super::table::{Table, TableRow};
use crate::facts::{Names, Sorter, composed, formats, split_within};
use crate::layout::{Layout, LayoutError};

/// Between a stem and the folder in a key of the sort: below all that names have.
const FOLDER: u8 = 0;
const IMAGE: u8 = 0;
const ROW: u8 = 1;
/// Most images of one name among which that of a row is looked for.
const MOST_ALIKE: usize = 1000;
/// Stands for a split that the table does not give.
const NO_SPLIT: u8 = 255;

/// Collects images and rows, and joins them.
#[derive(Debug)]
pub(crate) struct Join {
    dir: PathBuf,
    /// The part of paths that rows are about, and what finds it.
    part: Option<(String, Layout)>,
    sorter: Sorter,
    images: u64,
    rows: u64,
}

/// The result of the join, and what did not match.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Joined {
    /// Images without a row, or with one that has no label.
    pub(crate) unlabelled: Names,
    /// Rows that match no image.
    pub(crate) unused: Names,
    /// Rows that say again what another one says.
    pub(crate) repeated: Names,
    /// Rows that name an image with another extension or other zeros.
    pub(crate) loosely: Names,
    /// Images that two rows match.
    doubled: Names,
    /// Rows whose name matches several images.
    unclear: Names,
    matched: u64,
}

/// What is known about an image whose row has no label, or which has no row, if it is to be packed.
pub(crate) type Without<'a> = &'a dyn Fn(&str, Option<Said>) -> Option<Said>;

/// The entries of the table for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) split: Option<Split>,
    pub(crate) group: String,
    pub(crate) label: i64,
    /// The size of the image, as a table of boxes says it.
    pub(crate) size: Option<(u32, u32)>,
    pub(crate) values: String,
}

impl Said {
    /// Says nothing but the values of the fields.
    pub(crate) fn nothing(values: String) -> Self {
        Self { split: None, group: String::new(), label: -1, size: None, values }
    }
}

impl Join {
    /// Sorts in folder `dir` what does not fit in `memory_bytes`; `part` is the part of paths that rows
    /// are about, with the layout that finds it.
    pub(crate) fn new(dir: &Path, memory_bytes: usize, part: Option<(String, Layout)>) -> Self {
        let sorter = Sorter::new(dir, memory_bytes);
        Self { dir: dir.to_owned(), part, sorter, images: 0, rows: 0 }
    }

    pub(crate) fn image(&mut self, key: &str, bytes: u64) -> Result<(), LayoutError> {
        self.images += 1;
        let mut record = vec![IMAGE];
        record.extend(bytes.to_le_bytes());
        record.extend_from_slice(key.as_bytes());
        let Some((part, layout)) = &self.part else { return self.push(key, &record) };
        let placed = layout.place(key)?;
        let value =
            placed.as_ref().and_then(|of| of.values.get(part)).unwrap_or_default().to_owned();
        self.push(&value, &record)
    }

    /// Takes all rows of a table; `folders` are those that each of its files names images from.
    pub(crate) fn rows(&mut self, table: &Table, folders: &[String]) -> Result<(), LayoutError> {
        table.rows(&mut |row| {
            let folder = folders.get(row.file).map_or("", String::as_str);
            self.row(row, folder)
        })
    }

    fn row(&mut self, row: &TableRow<'_>, folder: &str) -> Result<(), LayoutError> {
        self.rows += 1;
        let name = match self.part {
            Some(_) => row.name.trim().to_owned(),
            None => plain(row.name),
        };
        let mut record = vec![ROW, row.split.map_or(NO_SPLIT, |split| split as u8)];
        record.extend((row.file as u64).to_le_bytes());
        record.extend(row.line.to_le_bytes());
        record.extend(row.label.unwrap_or(i64::MIN).to_le_bytes());
        let (width, height) = row.size.unwrap_or_default();
        record.extend((u64::from(width) << 32 | u64::from(height)).to_le_bytes());
        for text in [&*composed(folder), name.as_str(), row.group] {
            record.extend((text.len() as u64).to_le_bytes());
            record.extend_from_slice(text.as_bytes());
        }
        record.extend_from_slice(row.values.as_bytes());
        self.push(&name, &record)
    }

    fn push(&mut self, name: &str, record: &[u8]) -> Result<(), LayoutError> {
        if self.part.is_some() {
            return self.sort(name.as_bytes(), record);
        }
        let name = composed(name);
        let mut segments = name.rsplit('/');
        let last = segments.next().unwrap_or(&name);
        let mut key = without_zeros(without_extension(last)).as_bytes().to_vec();
        if let Some(folder) = segments.next() {
            key.push(FOLDER);
            key.extend_from_slice(folder.as_bytes());
        }
        self.sort(&key, record)
    }

    fn sort(&mut self, key: &[u8], record: &[u8]) -> Result<(), LayoutError> {
        self.sorter.push(key, record).map_err(|e| LayoutError::io("sort in", &self.dir, e))
    }

    /// Calls `each` with each image that has a label, from a row or, as `without` says, without one.
    pub(crate) fn finish<E: From<LayoutError>>(
        self,
        table: &Table,
        without: Without<'_>,
        each: &mut dyn FnMut(&str, u64, &Said) -> Result<(), E>,
    ) -> Result<Joined, E> {
        let Self { dir, part: _, sorter, images: n_images, rows: n_rows } = self;
        let io = |e| LayoutError::io("sort in", &dir, e);
        let mut joined = Joined::default();
        let (mut last, mut images, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for pair in sorter.finish().map_err(io)? {
            let (next, record) = pair.map_err(io)?;
            if !are_together(&last, &next) {
                group(&images, &rows, table, &mut joined, without, each)?;
                images.clear();
                rows.clear();
                last = next;
            }
            match record.split_first() {
                Some((&IMAGE, rest)) => images.extend(ImageFile::parse(rest)),
                Some((&ROW, rest)) => rows.extend(Row::parse(rest)),
                _ => {}
            }
        }
        group(&images, &rows, table, &mut joined, without, each)?;
        let Joined { doubled, unclear, unlabelled, unused, matched, .. } = &joined;
        if doubled.n > 0 {
            let (n, names) = (doubled.n, doubled.to_string());
            return Err(LayoutError::DoubledRows { n, names }.into());
        }
        if unclear.n > 0 {
            let (n, names) = (unclear.n, unclear.to_string());
            return Err(LayoutError::UnclearRows { n, names }.into());
        }
        if *matched == 0 && n_images > 0 {
            let (rows, images) = (unused.to_string(), unlabelled.to_string());
            return Err(LayoutError::NothingJoins { n_rows, rows, n_images, images }.into());
        }
        Ok(joined)
    }
}

struct ImageFile {
    key: String,
    bytes: u64,
}

impl ImageFile {
    fn parse(record: &[u8]) -> Option<Self> {
        let (bytes, key) = record.split_first_chunk::<8>()?;
        let key = String::from_utf8(key.to_vec()).ok()?;
        Some(Self { key, bytes: u64::from_le_bytes(*bytes) })
    }
}

struct Row {
    split: Option<Split>,
    file: usize,
    line: u64,
    label: Option<i64>,
    size: Option<(u32, u32)>,
    folder: String,
    name: String,
    group: String,
    values: String,
}

impl Row {
    fn parse(record: &[u8]) -> Option<Self> {
        let (split, rest) = record.split_first()?;
        let (file, rest) = rest.split_first_chunk::<8>()?;
        let (line, rest) = rest.split_first_chunk::<8>()?;
        let (label, rest) = rest.split_first_chunk::<8>()?;
        let label = i64::from_le_bytes(*label);
        let (size, rest) = rest.split_first_chunk::<8>()?;
        let size = u64::from_le_bytes(*size);
        let (folder, rest) = text(rest)?;
        let (name, rest) = text(rest)?;
        let (group, rest) = text(rest)?;
        Some(Self {
            split: Split::ALL.get(usize::from(*split)).copied(),
            file: usize::try_from(u64::from_le_bytes(*file)).ok()?,
            line: u64::from_le_bytes(*line),
            label: (label != i64::MIN).then_some(label),
            size: (size > 0).then_some(((size >> 32) as u32, size as u32)),
            folder,
            name,
            group,
            values: String::from_utf8(rest.to_vec()).ok()?,
        })
    }

    fn says_the_same(&self, other: &Self) -> bool {
        let said = |row: &Self| (row.split, row.label, row.group.clone(), row.values.clone());
        said(self) == said(other)
    }

    /// Returns the row's place in the table. With several tables, which may have the same name, it
    /// contains the path.
    fn at(&self, table: &Table) -> String {
        table.files().get(self.file).map_or_else(String::new, |path| {
            let name = match table.files().len() {
                1 => path.file_name().map_or(path.as_path(), Path::new),
                _ => path,
            };
            format!("{}:{}", name.display(), self.line)
        })
    }
}

fn text(record: &[u8]) -> Option<(String, &[u8])> {
    let (len, rest) = record.split_first_chunk::<8>()?;
    let (text, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}

/// The images that a name may match.
#[derive(Clone, Copy)]
enum Which {
    One(usize),
    Several,
}

/// Whether the record that is sorted by `next` belongs to the group that began with `first`. Names
/// without a folder, which are the first of a stem, may be ends of all the others.
fn are_together(first: &[u8], next: &[u8]) -> bool {
    match first.contains(&FOLDER) {
        true => first == next,
        false => next.split(|b| *b == FOLDER).next() == Some(first),
    }
}

/// Joins images and rows whose names have one stem.
fn group<'r, E: From<LayoutError>>(
    images: &[ImageFile],
    rows: &'r [Row],
    table: &Table,
    joined: &mut Joined,
    without: Without<'_>,
    each: &mut dyn FnMut(&str, u64, &Said) -> Result<(), E>,
) -> Result<(), E> {
    let by_part = table.part().is_some();
    let compared = if rows.is_empty() || by_part { &[] } else { images };
    let paths: Vec<Cow<'_, str>> = compared.iter().map(|image| composed(&image.key)).collect();
    let names = NamesOfImages::new(paths.iter().map(AsRef::as_ref));
    let mut doubled = BTreeSet::new();
    let mut of_image: Vec<Option<&Row>> = images.iter().map(|_| None).collect();
    let mut take =
        |i: usize, row: &'r Row, of_image: &mut [Option<&'r Row>], joined: &mut Joined| {
            match of_image.get(i).copied().flatten() {
                None => of_image[i] = Some(row),
                Some(first) if first.says_the_same(row) => {
                    joined.repeated.push(&format!("{} ({})", row.name, row.at(table)));
                }
                Some(_) if !doubled.insert(i) => {}
                Some(first) => {
                    let (a, b) = (first.at(table), row.at(table));
                    joined.doubled.push(&format!("{} ({a} and {b})", images[i].key));
                }
            }
        };
    let mut left: Vec<&Row> = Vec::new();
    for row in rows {
        let found = match names.find(&row.folder, &row.name) {
            _ if by_part => 0..images.len(),
            None => {
                left.push(row);
                continue;
            }
            Some(Which::One(i)) => i..i + 1,
            Some(Which::Several) => match meant(&paths, row) {
                Some(i) => i..i + 1,
                None => {
                    joined.unclear.push(&format!("{} ({})", row.name, row.at(table)));
                    continue;
                }
            },
        };
        if found.is_empty() {
            joined.unused.push(&row.name);
        }
        found.for_each(|i| take(i, row, &mut of_image, joined));
    }
    // What is left of both may be named with another extension, or with other zeros.
    let bare: Vec<usize> = match left.is_empty() {
        true => Vec::new(),
        false => (0..compared.len()).filter(|i| of_image[*i].is_none()).collect(),
    };
    let plainer_names: Vec<String> =
        bare.iter().map(|i| plainer(&composed(&compared[*i].key))).collect();
    let plainer_names = NamesOfImages::new(plainer_names.iter().map(String::as_str));
    for row in left {
        match plainer_names.find(&row.folder, &plainer(&row.name)) {
            None => joined.unused.push(&row.name),
            Some(Which::One(at)) => {
                let i = bare[at];
                joined.loosely.push(&format!("{} ({})", row.name, images[i].key));
                take(i, row, &mut of_image, joined);
            }
            Some(Which::Several) => {
                joined.unclear.push(&format!("{} ({})", row.name, row.at(table)));
            }
        }
    }
    for (image, row) in images.iter().zip(of_image) {
        joined.matched += u64::from(row.is_some());
        let said = row.map(|row| Said {
            split: row.split,
            group: row.group.clone(),
            label: row.label.unwrap_or(-1),
            size: row.size,
            values: row.values.clone(),
        });
        let said = match row.and_then(|row| row.label) {
            Some(_) => said,
            None => without(&image.key, said),
        };
        match said {
            Some(said) => each(&image.key, image.bytes, &said)?,
            None => joined.unlabelled.push(&image.key),
        }
    }
    Ok(())
}

/// The image of a row whose name several paths end with: the only one below the folder of its table,
/// or, where each is in a folder of some split, the only one of its split.
fn meant(paths: &[Cow<'_, str>], row: &Row) -> Option<usize> {
    let is_named = |path: &str| {
        let ends = [path, without_extension(path)].map(|path| path.strip_suffix(&*row.name));
        ends.into_iter().flatten().any(|before| before.is_empty() || before.ends_with('/'))
    };
    if paths.len() > MOST_ALIKE {
        return None;
    }
    let alike = paths.iter().enumerate().filter(|(_, path)| is_named(path));
    let alike: Vec<(usize, &str)> = alike.map(|(i, path)| (i, &**path)).collect();
    let only = |is: &dyn Fn(&str) -> bool| {
        let mut found = alike.iter().filter(|(_, path)| is(path));
        found.next().filter(|_| found.next().is_none()).map(|(i, _)| *i)
    };
    let folder = format!("{}/", row.folder);
    let below = only(&|path| folder.len() > 1 && path.starts_with(&folder));
    below.or_else(|| {
        let split = |path: &str| path.rsplit('/').skip(1).find_map(split_within);
        let are_known = row.split.is_some() && alike.iter().all(|(_, path)| split(path).is_some());
        only(&|path| are_known && split(path) == row.split)
    })
}

/// The paths of images, and all of their ends, with their extensions and without.
#[derive(Default)]
struct NamesOfImages<'n> {
    paths: HashMap<&'n str, Which>,
    ends: HashMap<&'n str, Which>,
}

impl<'n> NamesOfImages<'n> {
    fn new(names: impl Iterator<Item = &'n str>) -> Self {
        let mut all = Self::default();
        for (i, name) in names.enumerate() {
            let note = |names: &mut HashMap<&'n str, Which>, name| {
                let which = names.entry(name).or_insert(Which::One(i));
                // A name without an extension of images is noted twice.
                if !matches!(which, Which::One(same) if *same == i) {
                    *which = Which::Several;
                }
            };
            for name in [name, without_extension(name)] {
                note(&mut all.paths, name);
                let mut rest = name;
                while let Some((_, end)) = rest.split_once('/') {
                    note(&mut all.ends, end);
                    rest = end;
                }
            }
        }
        all
    }

    /// The image of a row: the one of exactly its name, else one whose path ends with the whole
    /// name, else one whose path is an end of the name.
    fn find(&self, folder: &str, name: &str) -> Option<Which> {
        if !folder.is_empty()
            && let Some(which) = self.paths.get(format!("{folder}/{name}").as_str())
        {
            return Some(*which);
        }
        if let Some(which) = self.paths.get(name).or_else(|| self.ends.get(name)) {
            return Some(*which);
        }
        let mut rest = name;
        while let Some((_, end)) = rest.split_once('/') {
            if let Some(which) = self.paths.get(end) {
                return Some(*which);
            }
            rest = end;
        }
        None
    }
}

/// A name without its extension, and without zeros before a number.
fn plainer(name: &str) -> String {
    let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
    let last = without_zeros(without_extension(last));
    if folder.is_empty() { last.to_owned() } else { format!("{folder}/{last}") }
}

/// A number without the zeros before it, or behind its point as in `7.0`, which is what a column of
/// numbers becomes where one is missing; other names as they are.
fn without_zeros(stem: &str) -> &str {
    let number = stem.strip_suffix(".0").unwrap_or(stem);
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return stem;
    }
    match number.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    }
}

/// A name in one form of Unicode, with one kind of slash, and nothing that means no folder.
pub(super) fn plain(name: &str) -> String {
    let name = name.trim().replace('\\', "/");
    let segments = name.split('/').filter(|segment| !matches!(*segment, "" | "."));
    composed(&segments.collect::<Vec<_>>().join("/")).into_owned()
}

/// Removes the extension if it is one of images.
pub(super) fn without_extension(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && formats::is_image(extension) => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_folders_are_compared_by_folder_unless_one_has_none() {
        assert!(are_together(b"image\0a", b"image\0a"));
        assert!(!are_together(b"image\0a", b"image\0b"));
        assert!(are_together(b"image", b"image\0b"));
        assert!(!are_together(b"image", b"image2\0b"));
        assert!(!are_together(b"", b"image"));
    }

    #[test]
    fn of_several_images_that_of_the_table_or_the_split_is_meant() {
        let row = |folder: &str, split| Row {
            split,
            file: 0,
            line: 1,
            label: None,
            size: None,
            folder: folder.to_owned(),
            name: "1".to_owned(),
            group: String::new(),
            values: String::new(),
        };
        let check = |paths: &[&str], row: Row, expected| {
            let paths: Vec<Cow<'_, str>> = paths.iter().map(|path| Cow::Borrowed(*path)).collect();
            assert_eq!(meant(&paths, &row), expected, "{paths:?}");
        };
        let apart = ["a. Training Set/1.png", "b. Testing Set/1.png", "b. Testing Set/11.png"];
        check(&apart, row("", Some(Split::Test)), Some(1));
        check(&apart, row("", None), None);
        check(&apart, row("", Some(Split::Val)), None);
        check(&apart, row("a. Training Set", None), Some(0));
        check(&["train/a/1.png", "train/b/1.png"], row("train", None), None);
        check(&["train/a/1.png", "b/1.png"], row("", Some(Split::Train)), None);
    }

    #[test]
    fn names_are_compared_without_what_means_nothing() {
        assert_eq!(plain(r".\images\1.jpg"), "images/1.jpg");
        assert_eq!(plain("/data//images/./1.jpg "), "data/images/1.jpg");
        assert_eq!(without_extension("a.b/1.JPG"), "a.b/1");
        assert_eq!(without_extension("v1.0"), "v1.0");
    }
}
