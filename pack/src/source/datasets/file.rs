//! The datasets of one file.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use gular_bundle::{Axes, Dtype};
use hdf5_reader::filters::FilterRegistry;
use hdf5_reader::group::Group;
use hdf5_reader::{
    Dataset, Datatype, FileStorage, Hdf5File, OpenOptions, SliceInfo, SliceInfoElem,
};

use super::fault::MOST_OBJECTS;
use super::lzf;
use super::netcdf::{self, Dimension, Meaning};
use super::npz::NpyRows;
use super::number::{Bytes, dtype_of, has_names};
use crate::source::DatasetFault;

/// Deepest group.
const MOST_LEVELS: usize = 16;
/// Decoded bytes of the largest chunk that is read, and of all chunks that are kept. h5py makes
/// chunks of at most 1 MiB by itself.
const MOST_CHUNK: usize = 256 << 20;
const KEPT_CHUNKS: usize = 64 << 20;
/// Bytes of rows that are read at a time, if the chunks allow it.
const BLOCK: u64 = 8 << 20;

/// Numbers of filters that are registered with the HDF Group.
const LZF: u16 = 32_000;
const ZSTD: u16 = 32_015;

/// What the rows of a dataset are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowKind {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    pub(crate) axes: Option<Axes>,
    pub(crate) nodata: Option<f64>,
}

impl RowKind {
    pub(super) fn bytes(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.dtype.size_bytes(), |n, side| n.checked_mul(*side))
    }

    /// Whether a row has at least two axes that hold something.
    pub(crate) fn is_image(&self) -> bool {
        self.shape.len() >= 2 && self.shape.iter().filter(|n| **n > 1).count() >= 2
    }

    pub(crate) fn is_one(&self) -> bool {
        self.shape.iter().all(|n| *n == 1)
    }
}

/// A dataset of numbers with at least one axis, along which its rows are.
pub(crate) struct Found {
    /// Its path, without the first slash.
    pub(crate) name: String,
    pub(crate) stored: Stored,
    pub(crate) n: u64,
    pub(crate) kind: RowKind,
    /// Why its numbers are not the values that are meant.
    pub(crate) packed: Option<&'static str>,
    /// The attribute that says which numbers are valid.
    pub(super) valid: Option<&'static str>,
    /// Its dimensions, if the file names them.
    pub(crate) dimensions: Vec<Dimension>,
    pub(crate) is_scale: bool,
    /// Whether its numbers stand for names, which are not read.
    pub(crate) has_names: bool,
    /// Whether it stands for a dimension without values.
    pub(super) is_bare: bool,
}

/// Where the numbers of a dataset are.
pub(crate) enum Stored {
    Hdf5(Box<Dataset>),
    /// Each row is a dataset of its own.
    Members(Vec<Dataset>),
    Npy(NpyRows),
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, n, kind, .. } = self;
        f.debug_struct("Found").field("name", name).field("n", n).field("kind", kind).finish()
    }
}

/// A dataset without rows of numbers.
#[derive(Debug)]
pub(super) struct Unread {
    /// Its path, without the first slash.
    pub(crate) name: String,
    /// The number of its rows, if that is known.
    pub(crate) n: Option<u64>,
    /// What its rows are.
    pub(crate) kind: &'static str,
}

/// The datasets of a file, and those without rows of numbers.
pub(super) struct Contents {
    pub(super) found: Vec<Found>,
    pub(super) others: Vec<Unread>,
}

/// Finds the datasets of a file, whose rows are along the first axis; or each of which `is_whole`, and
/// has one row.
pub(super) fn datasets(path: &Path, is_whole: bool) -> Result<Contents, DatasetFault> {
    let storage = FileStorage::open(path)?;
    let options = OpenOptions::default()
        .with_max_chunk_bytes(MOST_CHUNK)
        .with_chunk_cache_bytes(KEPT_CHUNKS)
        .with_max_object_header_bytes(16 << 20)
        .with_filter_registry(filters());
    let file = Hdf5File::from_storage_with_options(Arc::new(storage), options)?;
    let (mut found, mut others) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    let mut open: Vec<(String, Group, usize)> = vec![(String::new(), file.root_group()?, 0)];
    while let Some((path, group, level)) = open.pop() {
        // Links may lead back to a group.
        if level > MOST_LEVELS || !seen.insert(group.address()) {
            continue;
        }
        let (groups, names) = group.member_names()?;
        for name in names {
            let dataset = group.dataset(&name);
            let name = format!("{path}{name}");
            let kind = dataset.as_ref().map_or("not readable", |of| kind_of(of.dtype()));
            // A single value has no rows.
            let n = dataset.as_ref().ok().map(|of| of.shape().first().copied().unwrap_or(0));
            match dataset.map(|dataset| look(&name, dataset, is_whole)) {
                Ok(Some(one)) => found.push(one),
                Ok(None) | Err(_) => others.push(Unread { name, n, kind }),
            }
            if found.len() + others.len() + seen.len() > MOST_OBJECTS {
                return Err(DatasetFault::ManyObjects);
            }
        }
        for name in groups {
            // What a link names may be in another file.
            if let Ok(below) = group.group(&name) {
                open.push((format!("{path}{name}/"), below, level + 1));
            }
        }
        if open.len() > MOST_OBJECTS {
            return Err(DatasetFault::ManyObjects);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    others.sort_by(|a, b| a.name.cmp(&b.name));
    name_dimensions(&mut found, is_whole);
    Ok(Contents { found, others })
}

/// A dataset of rows of numbers, before the names of its dimensions are known.
fn look(name: &str, dataset: Dataset, is_whole: bool) -> Option<Found> {
    let (n, shape) = match dataset.shape() {
        shape if is_whole => (1, shape.to_vec()),
        [n, shape @ ..] => (*n, shape.to_vec()),
        [] => return None,
    };
    let dtype = dtype_of(dataset.dtype(), &dataset.raw_datatype().ok()?)?;
    let Meaning { nodata, packed, valid } = Meaning::of(&dataset);
    let is_scale = netcdf::is_scale(&dataset);
    let scale = |address| Dimension { address, name: String::new() };
    let dimensions = netcdf::scales_of(&dataset).unwrap_or_default().into_iter().map(scale);
    let dimensions = dimensions.collect();
    let kind = RowKind { dtype, shape, axes: None, nodata };
    let (name, has_names) = (name.to_owned(), has_names(dataset.dtype()));
    let is_bare = netcdf::is_bare_dimension(&dataset);
    let stored = Stored::Hdf5(Box::new(dataset));
    Some(Found { name, stored, n, kind, packed, valid, dimensions, is_scale, has_names, is_bare })
}

/// What values of a type that is not read are.
fn kind_of(dtype: &Datatype) -> &'static str {
    match dtype {
        Datatype::FixedPoint { size: 8, signed: false, .. } => "unsigned integers of 64 bits",
        Datatype::FixedPoint { .. } => "integers of another size than 8, 16, 32 or 64 bits",
        Datatype::FloatingPoint { .. } => "floating-point numbers that are not those of IEEE 754",
        Datatype::String { .. } => "texts",
        Datatype::Enum { .. } => "names of values",
        _ => "not numbers",
    }
}

/// Fills in the names of dimensions, which are those of their scales.
fn name_dimensions(found: &mut [Found], are_whole: bool) {
    let scales = found.iter().filter(|one| one.is_scale);
    let scales: Vec<(u64, String)> =
        scales.filter_map(|one| Some((one.address()?, one.name.clone()))).collect();
    for one in found {
        for dimension in &mut one.dimensions {
            let scale = scales.iter().find(|(address, _)| *address == dimension.address);
            dimension.name = scale.map(|(_, name)| name.clone()).unwrap_or_default();
        }
        let of_row = one.dimensions.get(usize::from(!are_whole)..);
        if let Some(of_row) = of_row.filter(|_| !one.dimensions.is_empty()) {
            one.kind.axes = netcdf::axes(of_row);
        }
    }
}

/// The filters of HDF5 itself, and those that h5py and netCDF-4 add.
fn filters() -> FilterRegistry {
    let damaged = |name: &str| {
        hdf5_reader::error::Error::DecompressionError(format!("a chunk of {name} is damaged"))
    };
    let mut filters = FilterRegistry::new();
    filters.register(
        LZF,
        Box::new(move |_, packed, _| lzf::decode(packed, MOST_CHUNK).ok_or_else(|| damaged("LZF"))),
    );
    filters.register(
        ZSTD,
        Box::new(move |_, packed, _| {
            let mut plain = Vec::new();
            let read = zstd::Decoder::new(packed).and_then(|decoder| {
                // One byte more is read, to notice a chunk that is longer than any may be.
                let limited = std::io::Read::take(decoder, MOST_CHUNK as u64 + 1);
                std::io::Read::read_to_end(&mut { limited }, &mut plain)
            });
            let is_whole = read.is_ok() && plain.len() <= MOST_CHUNK;
            is_whole.then_some(plain).ok_or_else(|| damaged("Zstandard"))
        }),
    );
    filters
}

impl Found {
    /// An array, of which nothing more is known.
    pub(super) fn of_array(name: String, n: u64, kind: RowKind, stored: Stored) -> Self {
        Self {
            name,
            stored,
            n,
            kind,
            packed: None,
            valid: None,
            dimensions: Vec::new(),
            is_scale: false,
            has_names: false,
            is_bare: false,
        }
    }

    /// Its address, which says whether it is the scale of a dimension.
    pub(crate) fn address(&self) -> Option<u64> {
        match &self.stored {
            Stored::Hdf5(dataset) => Some(dataset.address()),
            Stored::Members(_) | Stored::Npy(_) => None,
        }
    }

    /// The number of rows that are read at a time: as many as a chunk has, if these are not too
    /// many.
    pub(super) fn rows_per_block(&self) -> u64 {
        let row = self.kind.bytes().unwrap_or(u64::MAX).max(1);
        let of_chunk = match &self.stored {
            Stored::Hdf5(dataset) => dataset.chunks().and_then(|chunks| chunks.first().copied()),
            Stored::Members(_) | Stored::Npy(_) => None,
        };
        let of_chunk = u64::from(of_chunk.unwrap_or(1).max(1));
        let most = (BLOCK / row).max(1);
        match most / of_chunk {
            0 if of_chunk.saturating_mul(row) <= KEPT_CHUNKS as u64 => of_chunk,
            0 => most,
            n => n * of_chunk,
        }
    }

    /// The numbers of some rows, little-endian.
    pub(super) fn rows(&self, start: u64, n: u64) -> Result<Vec<u8>, DatasetFault> {
        let dataset = match &self.stored {
            Stored::Hdf5(dataset) => dataset,
            Stored::Members(members) => return self.members(members, start, n),
            Stored::Npy(array) => {
                let rows = array.rows(start, n, self.kind.bytes().unwrap_or(0));
                return rows
                    .map_err(|source| DatasetFault::Array { dataset: self.name.clone(), source });
            }
        };
        let mut rows = SliceInfo::all(dataset.ndim());
        if let Some(first) = rows.selections.first_mut() {
            let end = start.saturating_add(n).min(self.n);
            *first = SliceInfoElem::Slice { start, end, step: 1 };
        }
        match self.kind.dtype.size_bytes() {
            1 => read::<1>(dataset, &rows),
            2 => read::<2>(dataset, &rows),
            4 => read::<4>(dataset, &rows),
            _ => read::<8>(dataset, &rows),
        }
    }
}

impl Found {
    /// The numbers of some rows, each of which is a whole dataset.
    fn members(&self, members: &[Dataset], start: u64, n: u64) -> Result<Vec<u8>, DatasetFault> {
        let (start, n) = (usize::try_from(start).unwrap_or(0), usize::try_from(n).unwrap_or(0));
        let mut bytes = Vec::new();
        for dataset in members.iter().skip(start).take(n) {
            match self.kind.dtype.size_bytes() {
                1 => read_whole::<1>(dataset, &mut bytes)?,
                2 => read_whole::<2>(dataset, &mut bytes)?,
                4 => read_whole::<4>(dataset, &mut bytes)?,
                _ => read_whole::<8>(dataset, &mut bytes)?,
            }
        }
        Ok(bytes)
    }
}

fn read_whole<const N: usize>(dataset: &Dataset, bytes: &mut Vec<u8>) -> Result<(), DatasetFault> {
    let numbers = dataset.read_array::<Bytes<N>>()?;
    numbers.iter().for_each(|Bytes(number)| bytes.extend_from_slice(number));
    Ok(())
}

fn read<const N: usize>(dataset: &Dataset, rows: &SliceInfo) -> Result<Vec<u8>, DatasetFault> {
    let numbers = dataset.read_slice::<Bytes<N>>(rows)?;
    let mut bytes = Vec::with_capacity(numbers.len().saturating_mul(N));
    numbers.iter().for_each(|Bytes(number)| bytes.extend_from_slice(number));
    Ok(bytes)
}
