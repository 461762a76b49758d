//! The rows of datasets as files of a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use gular_bundle::{BundlePath, Split, npy_header};
use gular_codec::tiff::Geo;

use super::file::{Contents, Found, RowKind, Stored, Unread, datasets};
use super::labels::LabelRows;
use super::npz;
use crate::facts::{
    Doubt, MOST_BYTES, Pattern, Start, formats, named, split_of, split_within, stem_and_extension,
};
use crate::source::{
    ArchiveLimit, ArchiveLimits, DatasetFault, Inputs, LabelColumn, SourceError, SourceOptions,
    archive::Opening, hidden, spool::unpack, window::Window,
};

/// How names of such files end, in lower case.
const ENDINGS: [&str; 6] = ["h5", "hdf5", "he5", "hdf", "nc", "nc4"];
/// Most files of a folder.
const MOST_FILES: usize = 1000;
/// The first bytes of an HDF5 file, or of what follows a block of the user's.
const MAGIC: &[u8] = b"\x89HDF\r\n\x1a\n";

/// The datasets of a file or of a folder of files.
#[derive(Debug)]
pub(crate) struct DatasetRows {
    path: PathBuf,
    pub(super) columns: Vec<Column>,
    /// Datasets that are not packed.
    unused: Vec<String>,
    /// The folder for temporary files, if rows may be read.
    temp: Option<PathBuf>,
    limits: ArchiveLimits,
    pub(super) labels: OnceLock<LabelRows>,
}

/// One dataset of one split.
#[derive(Debug)]
pub(crate) struct Column {
    /// The folder of its split with a slash, or nothing.
    pub(crate) prefix: String,
    /// The dataset's path without that.
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) found: Found,
    /// The groups that are its rows, sorted, if each is a sample.
    pub(crate) groups: Vec<String>,
    /// Whether its rows are values of samples: those of labels alone are not.
    has_files: bool,
    /// The beginning of each row's file.
    header: Vec<u8>,
    /// All rows, one after the other; or why they cannot be read.
    unpacked: OnceLock<Result<Window, String>>,
}

/// The files of datasets in `path`: itself, or those of a folder that has nothing else to pack.
pub(super) fn files_of(path: &Path) -> Option<Vec<PathBuf>> {
    let metadata = fs::metadata(path).ok()?;
    if metadata.is_file() {
        return (is_hdf5(path) || is_npz(path)).then(|| vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).ok()?.take(MOST_FILES + 1) {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        if hidden(&name) {
            continue;
        }
        let extension = stem_and_extension(&name).1.to_ascii_lowercase();
        let is_packed = formats::is_image(&extension)
            || formats::ARRAYS.iter().any(|(known, _)| *known == extension);
        let is_one = is_npz(&entry.path())
            || ENDINGS.contains(&extension.as_str()) && is_hdf5(&entry.path());
        if entry.path().is_dir() || is_packed && !is_one {
            return None;
        }
        if is_one {
            files.push(entry.path());
        }
    }
    files.sort();
    // Many files of arrays may each be a sample.
    let is_part = |file: &PathBuf| !is_npz_name(file) || split_within(&stem_of(file)).is_some();
    if files.len() > 1 && !files.iter().all(is_part) {
        return None;
    }
    (1..=MOST_FILES).contains(&files.len()).then_some(files)
}

/// Whether `path` is an HDF5, netCDF-4 or `.npz` file, or a folder of such files, whose datasets are
/// packed.
#[must_use]
pub fn has_datasets(path: &Path) -> bool {
    files_of(path).is_some()
}

fn is_npz_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npz"))
}

/// Whether a file has several of NumPy's arrays, whose rows are samples.
fn is_npz(path: &Path) -> bool {
    is_npz_name(path) && npz::has_rows(path)
}

fn stem_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a file is HDF5, which netCDF-4 is, too.
fn is_hdf5(path: &Path) -> bool {
    let Ok(file) = fs::File::open(path) else { return false };
    let starts_at = |at: u64| {
        let mut head = [0; MAGIC.len()];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, at).is_ok() && head == MAGIC
    };
    [0, 512, 1024, 2048].into_iter().any(starts_at)
}

/// A dataset of a split that cannot be packed.
#[derive(Debug)]
pub(crate) struct Other {
    /// The folder of its split with a slash, or nothing.
    pub(crate) prefix: String,
    /// The dataset's path without that.
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) n: Option<u64>,
    /// What its rows are.
    pub(crate) kind: &'static str,
}

/// Datasets of rows, and others.
type Columns = (Vec<Column>, Vec<Other>);

/// Whether patterns name datasets of groups, each of which is a sample: `{key}/image.npy`.
pub(crate) fn are_of_groups(images: &[Pattern]) -> bool {
    let is_of_group = |pattern: &Pattern| {
        let last = pattern.as_str().rsplit_once('/').map(|(_, last)| last);
        last.is_some_and(|last| last.ends_with(".npy") && !last.contains('{'))
    };
    !images.is_empty() && images.iter().all(is_of_group)
}

/// Opens all datasets of `path`, and lists those that have no rows of numbers; or, if `of_groups`, one
/// for each name that datasets have in groups, which are its rows.
pub(crate) fn columns(
    path: &Path,
    limits: &ArchiveLimits,
    of_groups: bool,
) -> Result<Option<Columns>, SourceError> {
    let Some(files) = files_of(path) else { return Ok(None) };
    let (mut columns, mut all_others) = (Vec::<Column>::new(), Vec::new());
    for file in files {
        let fail = |fault| SourceError::datasets(&file, fault);
        let Contents { found, others } = match is_npz_name(&file) {
            true => npz::arrays(&file, limits)?,
            false => datasets(&file, of_groups).map_err(fail)?,
        };
        let split = split_within(&stem_of(&file));
        let are_of_splits = split.is_none() && !of_groups && images_say_splits(&found);
        let place = |name: &str| match (split, name.split_once('/')) {
            (None, None) if are_of_splits => match split_and_rest(name) {
                Some((split, rest)) => (format!("{split}/"), rest.to_owned()),
                None => (String::new(), name.to_owned()),
            },
            (Some(split), _) => (format!("{split}/"), name.to_owned()),
            (None, Some((word, rest))) if split_of(word).is_some() => {
                (format!("{word}/"), rest.to_owned())
            }
            (None, _) => (String::new(), name.to_owned()),
        };
        for Unread { name, n, kind } in others {
            let (prefix, name) = place(&name);
            all_others.push(Other { prefix, name, file: file.clone(), n, kind });
        }
        for found in found {
            let (prefix, name) = place(&found.name);
            let is_path = |name: &str| !name.contains(['{', '}']) && !hidden(name);
            let row = format!("{prefix}{name}/0.npy");
            let is_alone = of_groups && !name.contains('/');
            if found.is_bare || is_alone || !is_path(&name) || BundlePath::parse(&row).is_err() {
                // The number of a dimension's values is not that of its rows.
                let (n, kind) = (Some(if found.is_bare { 0 } else { found.n }), "not nameable");
                all_others.push(Other { prefix, name, file: file.clone(), n, kind });
                continue;
            }
            let same = |column: &&Column| column.prefix == prefix && column.name == name;
            if let Some(other) = columns.iter().find(same) {
                let other = other.file.display().to_string();
                return Err(fail(DatasetFault::Twice { dataset: name, other }));
            }
            let header = npy_header(found.kind.dtype, &found.kind.shape);
            let (file, unpacked) = (file.clone(), OnceLock::new());
            let (has_files, groups) = (true, Vec::new());
            columns.push(Column { prefix, name, file, found, groups, has_files, header, unpacked });
        }
    }
    if of_groups {
        columns = in_groups(columns)?;
    }
    Ok(Some((columns, all_others)))
}

/// Datasets of one name in several groups, as one with a row for each group.
fn in_groups(columns: Vec<Column>) -> Result<Vec<Column>, SourceError> {
    let mut members: BTreeMap<(String, String), BTreeMap<String, Column>> = BTreeMap::new();
    for column in columns {
        let Some((group, name)) = column.name.rsplit_once('/') else { continue };
        let of_name = members.entry((column.prefix.clone(), name.to_owned())).or_default();
        let (group, file) = (group.to_owned(), column.file.clone());
        if let Some(other) = of_name.insert(group, column) {
            let (dataset, other) = (other.name, other.file.display().to_string());
            return Err(SourceError::datasets(&file, DatasetFault::Twice { dataset, other }));
        }
    }
    let mut made = Vec::with_capacity(members.len());
    for ((prefix, name), of_groups) in members {
        let mut groups = Vec::with_capacity(of_groups.len());
        let mut datasets = Vec::with_capacity(of_groups.len());
        let mut first: Option<Column> = None;
        for (group, mut column) in of_groups {
            if let Some(first) = first.as_ref().filter(|first| !first.is_like(&column)) {
                return Err(column.unlike(first, &format!("{prefix}{}/{name}", groups[0])));
            }
            groups.push(group);
            // What is left in its place is not read.
            let stored = std::mem::replace(&mut column.found.stored, Stored::Members(Vec::new()));
            if let Stored::Hdf5(dataset) = stored {
                datasets.push(*dataset);
            }
            first.get_or_insert(column);
        }
        let Some(mut column) = first else { continue };
        column.found.n = groups.len() as u64;
        column.found.stored = Stored::Members(datasets);
        column.found.name.clone_from(&name);
        (column.name, column.groups) = (name, groups);
        made.push(column);
    }
    Ok(made)
}

/// The split that a name begins or ends with, and the rest: `train_images`, `X_test`.
pub(super) fn split_and_rest(name: &str) -> Option<(Split, &str)> {
    let start = name.split_once('_');
    let end = name.rsplit_once('_').map(|(rest, word)| (word, rest));
    let mut both = start.into_iter().chain(end);
    both.find_map(|(word, rest)| split_of(word).map(|split| (split, rest)))
}

/// Whether the names of all datasets of images say a split.
fn images_say_splits(found: &[Found]) -> bool {
    let mut images = found.iter().filter(|one| one.kind.is_image()).peekable();
    let says = |one: &Found| !one.name.contains('/') && split_and_rest(&one.name).is_some();
    images.peek().is_some() && images.all(says)
}

impl DatasetRows {
    /// Opens the datasets that `options` name; `None` if `path` has none.
    pub(crate) fn open(
        path: &Path,
        options: &SourceOptions<'_>,
        temp: Option<&Path>,
    ) -> Result<Option<Self>, SourceError> {
        if options.inputs != Inputs::Arrays {
            return Ok(None);
        }
        let of_groups = are_of_groups(options.images);
        let columns = columns(path, options.archive, of_groups)?;
        let Some((columns, others)) = columns else { return Ok(None) };
        let of_label = |column: &Column| match options.label_column {
            Some(LabelColumn::Named(name)) => column.name == *name,
            _ => false,
        };
        let (mut used, mut unused) = (Vec::new(), Vec::new());
        for mut column in columns {
            column.has_files = column.is_used(options);
            match column.has_files || of_label(&column) {
                true => used.push(column),
                false => unused.push(column),
            }
        }
        for column in &used {
            column.check(options.archive)?;
        }
        check_alike(&used)?;
        let others = others.into_iter().map(|other| other.name);
        let names = unused.into_iter().map(|column| column.name).chain(others);
        let names: BTreeSet<String> = names.collect();
        Ok(Some(Self {
            path: path.to_owned(),
            columns: used,
            unused: names.into_iter().collect(),
            temp: temp.map(Path::to_owned),
            limits: *options.archive,
            labels: OnceLock::new(),
        }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is not clear about the datasets.
    pub(crate) fn doubts(&self) -> Vec<Doubt> {
        let mut texts = Vec::new();
        if !self.unused.is_empty() {
            texts.push(format!("datasets that are not packed: {}", named(self.unused.iter())));
        }
        let valid = |column: &Column| {
            let attribute = column.found.valid.filter(|_| column.has_files)?;
            Some(format!(
                "`{}` says which of its numbers are valid (`{attribute}`), and all are packed as they are",
                column.name
            ))
        };
        texts.extend(self.columns.iter().filter_map(valid).collect::<BTreeSet<_>>());
        texts.into_iter().map(|text| Doubt::new(text, Vec::new())).collect()
    }

    /// Paths and sizes of all rows.
    pub(crate) fn files<E>(
        &self,
        each: &mut dyn FnMut(&str, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        for column in self.columns.iter().filter(|column| column.has_files) {
            for row in 0..column.found.n {
                each(&column.path_of(row), column.file_bytes())?;
            }
        }
        Ok(())
    }

    /// What a row is.
    pub(crate) fn start(&self, key: &str) -> Option<Start> {
        let (column, _) = self.find(key)?;
        let RowKind { dtype, shape, axes, nodata } = column.found.kind.clone();
        let geo = nodata.map(|nodata| Geo { nodata: Some(nodata), ..Geo::default() });
        Some(Start { dtype, shape, axes, geo, is_jpeg: false })
    }

    /// A row as an `.npy` file.
    pub(crate) fn read(&self, key: &str) -> io::Result<Vec<u8>> {
        let (column, row) = self.find(key).ok_or(io::ErrorKind::NotFound)?;
        let never = AtomicBool::new(false);
        let rows = column.unpacked.get_or_init(|| {
            let rows = column.unpack(self.temp.as_deref(), &self.limits, &never);
            rows.map_err(|e| e.to_string())
        });
        let rows = rows.as_ref().map_err(|e| io::Error::other(e.as_str()))?;
        let bytes = column.file_bytes() - column.header.len() as u64;
        let mut file = column.header.clone();
        file.resize(usize::try_from(column.file_bytes()).unwrap_or(0), 0);
        let values = file.get_mut(column.header.len()..).unwrap_or_default();
        rows.read_exact_at(values, row.saturating_mul(bytes))?;
        Ok(file)
    }

    /// Decodes the rows of the images, which otherwise the first one of them would wait for.
    pub(crate) fn unpack_images(
        &self,
        options: &SourceOptions<'_>,
        cancel: &AtomicBool,
    ) -> Result<(), SourceError> {
        for column in self.columns.iter().filter(|column| column.is_image(options)) {
            let rows = column.unpack(self.temp.as_deref(), &self.limits, cancel)?;
            column.unpacked.get_or_init(|| Ok(rows));
        }
        Ok(())
    }

    /// The dataset of a row, and the row's number.
    pub(super) fn find(&self, key: &str) -> Option<(&Column, u64)> {
        let (folder, last) = key.strip_suffix(".npy")?.rsplit_once('/')?;
        let row_of = |column: &Column| {
            let folder = folder.strip_prefix(&column.prefix)?;
            if column.groups.is_empty() {
                return last.parse().ok().filter(|_| folder == column.name);
            }
            let is_name = last == column.name;
            let group = column.groups.binary_search_by(|group| group.as_str().cmp(folder));
            group.ok().filter(|_| is_name).map(|row| row as u64)
        };
        let found = self.columns.iter().find_map(|column| Some((column, row_of(column)?)));
        found.filter(|(column, row)| *row < column.found.n)
    }
}

/// Checks that datasets of one name have rows of one kind in all splits.
fn check_alike(columns: &[Column]) -> Result<(), SourceError> {
    for (at, column) in columns.iter().enumerate() {
        let before = columns.get(..at).unwrap_or_default();
        let first = before.iter().find(|other| other.name == column.name);
        if let Some(first) = first.filter(|first| !first.is_like(column)) {
            return Err(column.unlike(first, &first.file.display().to_string()));
        }
    }
    Ok(())
}

impl Column {
    /// The path of a row.
    pub(crate) fn path_of(&self, row: u64) -> String {
        match usize::try_from(row).ok().and_then(|row| self.groups.get(row)) {
            Some(group) => format!("{}{group}/{}.npy", self.prefix, self.name),
            None => format!("{}{}/{row:07}.npy", self.prefix, self.name),
        }
    }

    /// Whether its rows are of the same kind.
    fn is_like(&self, other: &Self) -> bool {
        self.found.kind == other.found.kind
    }

    /// The error of a dataset whose rows are not those of `first`, which is in `other`.
    fn unlike(&self, first: &Self, other: &str) -> SourceError {
        let text = |kind: &RowKind| {
            let axes = kind.axes.as_ref().map_or("", |axes| axes.as_str());
            let nodata = kind.nodata.map(|n| format!(" nodata {n}")).unwrap_or_default();
            format!("{:?} {:?} {axes}{nodata}", kind.dtype, kind.shape).trim_end().to_owned()
        };
        let fault = DatasetFault::Differ {
            dataset: self.name.clone(),
            found: text(&self.found.kind),
            other: other.to_owned(),
            expected: text(&first.found.kind),
        };
        SourceError::datasets(&self.file, fault)
    }

    /// Whether it is an image or a field.
    pub(super) fn is_used(&self, options: &SourceOptions<'_>) -> bool {
        let path = self.path_of(0);
        let mut of_fields = options.fields.iter().filter_map(|field| field.pattern.as_ref());
        self.is_image(options) || of_fields.any(|pattern| !matches!(pattern.read(&path), Ok(None)))
    }

    pub(super) fn is_image(&self, options: &SourceOptions<'_>) -> bool {
        let path = self.path_of(0);
        options.images.iter().any(|pattern| !matches!(pattern.read(&path), Ok(None)))
    }

    /// Checks that its values are what is stored, and not more than may be unpacked.
    fn check(&self, limits: &ArchiveLimits) -> Result<(), SourceError> {
        let dataset = self.found.name.clone();
        if let Some(attribute) = self.found.packed {
            let fault = DatasetFault::Packed { dataset, attribute };
            return Err(SourceError::datasets(&self.file, fault));
        }
        let row = self.found.kind.bytes().unwrap_or(u64::MAX);
        if row > MOST_BYTES {
            let fault = DatasetFault::LargeRow { dataset, bytes: row };
            return Err(SourceError::datasets(&self.file, fault));
        }
        let packed =
            fs::metadata(&self.file).map_err(|e| SourceError::io("open", &self.file, e))?.len();
        // Rows without numbers have keys of their own.
        let all = row.max(1).saturating_mul(self.found.n);
        let limit = match () {
            () if all > limits.total_bytes => ArchiveLimit::Total,
            () if limits.expands_too_far(packed, all) => ArchiveLimit::Ratio,
            () => return Ok(()),
        };
        let reason = format!("its dataset `{dataset}` has {all} bytes, and the file {packed}");
        Err(SourceError::Expands { path: self.file.display().to_string(), limit, reason })
    }

    fn file_bytes(&self) -> u64 {
        self.found.kind.bytes().unwrap_or(0).saturating_add(self.header.len() as u64)
    }

    /// Decodes all rows into a nameless file.
    fn unpack(
        &self,
        temp: Option<&Path>,
        limits: &ArchiveLimits,
        cancel: &AtomicBool,
    ) -> Result<Window, SourceError> {
        let temp = temp.ok_or_else(|| {
            SourceError::io("read", &self.file, io::Error::other("there is no folder for its rows"))
        })?;
        let packed =
            fs::metadata(&self.file).map_err(|e| SourceError::io("open", &self.file, e))?.len();
        let opening = Opening { limits, temp, cancel };
        let found = &self.found;
        let mut rows = Blocks { found, next: 0, block: Vec::new(), at: 0, fault: None };
        let file = unpack(&self.file, &mut rows, packed, &opening);
        let file = file.map_err(|e| match rows.fault.take() {
            Some(fault) => SourceError::datasets(&self.file, fault),
            None => e,
        })?;
        Window::whole(file).map_err(|e| SourceError::io("read in", temp, e))
    }
}

/// Reads all rows of a dataset, some at a time.
struct Blocks<'a> {
    found: &'a Found,
    /// The next row.
    next: u64,
    block: Vec<u8>,
    /// What has been read of the block.
    at: usize,
    /// Why no more rows can be read.
    fault: Option<DatasetFault>,
}

impl Read for Blocks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            if self.next >= self.found.n || self.found.kind.bytes() == Some(0) {
                return Ok(0);
            }
            let n = self.found.rows_per_block();
            self.block = self.found.rows(self.next, n).map_err(|fault| {
                let error = io::Error::other(fault.to_string());
                self.fault = Some(fault);
                error
            })?;
            self.next = self.next.saturating_add(n);
            self.at = 0;
        }
        let rest = self.block.get(self.at..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.at += n;
        Ok(n)
    }
}
