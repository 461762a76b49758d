//! Surveys an HDF5 file, whether Gular wrote it or another program.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::envelope::foreign::hdf5::dataset::{Dataset, is_ours, text_of};
use crate::envelope::foreign::hdf5::datatype::Datatype;
use crate::envelope::foreign::hdf5::file::Hdf5;
use crate::envelope::foreign::hdf5::global_heap::Heaps;
use crate::envelope::foreign::hdf5::layout::Layout;
use crate::envelope::foreign::hdf5::rows::{self, Stored};
use crate::envelope::foreign::hdf5::{UNDEFINED, group, object};
use crate::envelope::{Column, FixedPlaces, Run, Survey, Values};
use crate::{Dtype, Error, ReadAt};

/// If there are more datasets than this, all alike, each is a sample; if fewer, they are fields.
const MOST_FIELDS: usize = 16;
/// Longer paths are not keys.
const MOST_PATH_BYTES: usize = 4095;
/// Datasets with one of these names contain class names.
const CLASS_NAMES: [&str; 5] =
    ["classes", "class_names", "label_names", "list_classes", "categories"];

/// Finds the columns of a file. Datasets `[n, …]` are columns, pairs `X.bytes` and `X.offsets`
/// columns of bytes; many datasets that fit neither are one sample each.
pub(crate) fn survey(file: &ReadAt) -> Result<Survey, Error> {
    let file = &Hdf5::open(file)?;
    let mut heaps = Heaps::default();
    let mut datasets = datasets(file, &mut heaps)?;
    if datasets.is_empty() {
        return Err(file.refused("it has no datasets"));
    }
    if !is_ours(file, &object::messages(file, file.root)?)? && is_one_each(&datasets) {
        return one_each(file, &datasets);
    }
    // Columns are in the order of their data, in which fields were written.
    datasets.sort_by_key(|d| match d.layout {
        Layout::Contiguous { address, .. } => address,
        _ => UNDEFINED,
    });
    table(file, &mut heaps, &datasets)
}

/// All datasets, by path.
fn datasets(file: &Hdf5<'_>, heaps: &mut Heaps) -> Result<Vec<Dataset>, Error> {
    let mut seen = HashSet::new();
    let mut datasets = Vec::new();
    let mut objects = vec![(String::new(), file.root)];
    while let Some((path, address)) = objects.pop() {
        // A second path may lead to an object that was seen, and a group may contain itself.
        if !seen.insert(address) {
            continue;
        }
        file.charge(path.len() as u64)?;
        let messages = object::messages(file, address)?;
        if let Some(dataset) = Dataset::parse(file, heaps, &path, &messages)? {
            datasets.push(dataset);
            continue;
        }
        // Links are pushed in reverse, since the last is taken from the stack first.
        for (name, address) in group::links(file, &messages)?.into_iter().rev() {
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            if path.len() > MOST_PATH_BYTES {
                return Err(file.refused(format!("it has paths of over {MOST_PATH_BYTES} bytes")));
            }
            objects.push((path, address));
        }
    }
    Ok(datasets)
}

/// Returns whether each dataset is one sample, and not a field of all samples.
fn is_one_each(datasets: &[Dataset]) -> bool {
    let is_value =
        |d: &Dataset| d.datatype == Datatype::Opaque && d.shape.as_ref().is_some_and(Vec::is_empty);
    let is_encoded = |d: &Dataset| {
        d.datatype == Datatype::Number(Dtype::U8) && d.rows().is_some_and(|(_, s)| s.is_empty())
    };
    let Some((first, others)) = datasets.split_first() else { return false };
    let one_length = others.iter().all(|d| d.rows().map(|r| r.0) == first.rows().map(|r| r.0));
    // Columns of numbers may be alike too, but images have several dimensions.
    let one_shape = first.rows().is_some_and(|(_, s)| !s.is_empty())
        && others.iter().all(|d| d.shape == first.shape && d.datatype == first.datatype);
    let by_path = by_path(datasets);
    let is_pair = datasets.iter().any(|d| pair_of(&d.path, &by_path).is_some());
    datasets.iter().all(is_value)
        || (datasets.iter().all(is_encoded) && !one_length && !is_pair)
        || (datasets.len() > MOST_FIELDS && !is_pair && (one_shape || !one_length))
}

/// Makes a sample of every dataset, with its path as the key.
fn one_each(file: &Hdf5<'_>, datasets: &[Dataset]) -> Result<Survey, Error> {
    let values = match each(file, datasets)? {
        Ok(values) => values,
        Err(reason) => Values::NotStored(reason),
    };
    let keys = datasets.iter().map(|d| Some(d.path.clone())).collect();
    let columns = vec![
        Column { name: "image".to_owned(), values },
        Column { name: "key".to_owned(), values: Values::Texts(keys) },
    ];
    Ok(Survey { rows: datasets.len(), columns, classes: BTreeMap::new() })
}

fn each(file: &Hdf5<'_>, datasets: &[Dataset]) -> Result<Result<Values, String>, Error> {
    let mut runs = Vec::with_capacity(datasets.len());
    let mut common: Option<(&Datatype, &[u64])> = None;
    for dataset in datasets {
        let refused = |reason: &str| Ok(Err(format!("dataset `{}`: {reason}", dataset.path)));
        let shape = dataset.shape.as_deref();
        let Some((shape, len)) = shape.and_then(|s| Some((s, dataset.size_of(s)?))) else {
            return refused("it has no value");
        };
        let run = match &dataset.layout {
            Layout::Other(reason) => return refused(reason),
            Layout::Chunked { .. } => return refused("it is stored in chunks"),
            Layout::Contiguous { address: UNDEFINED, .. } => {
                return refused("it was never written");
            }
            Layout::Contiguous { address, len: stored } => {
                file.place(*address, len).filter(|_| len <= *stored)
            }
        };
        let offset = run.ok_or_else(|| {
            file.bad(format!("the {len} bytes of `{}` are missing", dataset.path))
        })?;
        runs.push(Run { offset, len });
        let is_bytes = dataset.datatype == Datatype::Opaque
            || (dataset.datatype == Datatype::Number(Dtype::U8) && shape.len() == 1);
        let this = if is_bytes { (&Datatype::Opaque, &[][..]) } else { (&dataset.datatype, shape) };
        if *common.get_or_insert(this) != this {
            return refused("it has another type or shape than those before it");
        }
    }
    Ok(match common {
        Some((Datatype::Opaque, _)) => Ok(Values::Bytes(runs.into_iter().map(Some).collect())),
        Some((Datatype::Number(dtype), shape)) => Ok(Values::Fixed {
            dtype: *dtype,
            shape: shape.to_vec(),
            places: FixedPlaces::Offsets(runs.into_iter().map(|r| r.offset).collect()),
        }),
        other => Err(match other {
            Some((Datatype::Other(what), _)) => format!("its elements are {what}"),
            _ => "its datasets hold no images".to_owned(),
        }),
    })
}

/// Makes a column of every dataset.
fn table(file: &Hdf5<'_>, heaps: &mut Heaps, datasets: &[Dataset]) -> Result<Survey, Error> {
    let by_path = by_path(datasets);
    let rows = n_rows(datasets, &by_path);
    // Every sample takes at least a byte or an offset in the file.
    let rows = rows.filter(|n| *n <= file.len_bytes()).and_then(|n| usize::try_from(n).ok());
    let rows = rows.ok_or_else(|| file.refused("its datasets hold no samples"))?;
    let mut columns = Vec::new();
    let mut classes = BTreeMap::new();
    for dataset in datasets {
        if !dataset.classes.is_empty() {
            classes.insert(dataset.path.clone(), dataset.classes.clone());
        }
        let values = match pair_of(&dataset.path, &by_path) {
            Some(Part::Offsets) => continue,
            Some(Part::Bytes(name, offsets)) => {
                let values = match pair(file, dataset, offsets, rows)? {
                    Values::Bytes(runs) if name == "key" => texts(file, &runs)?,
                    values => values,
                };
                columns.push(Column { name: name.to_owned(), values });
                continue;
            }
            None => values(file, heaps, dataset, rows)?,
        };
        let named = dataset.path.rsplit('/').next().unwrap_or_default();
        if let (Values::Texts(texts), true) = (&values, CLASS_NAMES.contains(&named)) {
            classes.insert(String::new(), texts.iter().flatten().cloned().collect());
        }
        let fits = dataset.rows().is_some_and(|(n, _)| n == rows as u64);
        let values = if fits {
            values
        } else {
            let shape = dataset.shape.clone().unwrap_or_default();
            Values::NotStored(format!("its shape is {shape:?}, not that of {rows} samples"))
        };
        columns.push(Column { name: dataset.path.clone(), values });
    }
    Ok(Survey { rows, columns, classes })
}

/// Returns the number of samples: by the first pair's offsets, else the first dimension that most
/// datasets have, and the largest of several such dimensions.
fn n_rows(datasets: &[Dataset], by_path: &ByPath<'_>) -> Option<u64> {
    let pair = datasets.iter().find_map(|d| match pair_of(&d.path, by_path)? {
        Part::Bytes(_, offsets) => offsets.rows()?.0.checked_sub(1),
        Part::Offsets => None,
    });
    if pair.is_some() {
        return pair;
    }
    let n_of = |d: &Dataset| d.rows().map(|(n, _)| n);
    let mut votes: HashMap<u64, u64> = HashMap::new();
    for n in datasets.iter().filter_map(n_of) {
        let count = votes.entry(n).or_default();
        *count = count.saturating_add(1);
    }
    let votes = |d: &Dataset| n_of(d).and_then(|n| votes.get(&n));
    let bytes = |d: &Dataset| d.shape.as_deref().and_then(|s| d.size_of(s));
    datasets.iter().max_by_key(|d| (votes(d), bytes(d))).and_then(n_of)
}

type ByPath<'d> = HashMap<&'d str, &'d Dataset>;

fn by_path(datasets: &[Dataset]) -> ByPath<'_> {
    datasets.iter().map(|d| (d.path.as_str(), d)).collect()
}

/// The part that a dataset is in a column of bytes.
enum Part<'d> {
    /// The bytes, with the column's name and the dataset of its offsets.
    Bytes(&'d str, &'d Dataset),
    Offsets,
}

fn pair_of<'d>(path: &'d str, by_path: &ByPath<'d>) -> Option<Part<'d>> {
    if let Some(name) = path.strip_suffix(".bytes") {
        return Some(Part::Bytes(name, by_path.get(format!("{name}.offsets").as_str())?));
    }
    let name = path.strip_suffix(".offsets")?;
    by_path.get(format!("{name}.bytes").as_str()).map(|_| Part::Offsets)
}

/// Makes a column of bytes from its two datasets.
fn pair(file: &Hdf5<'_>, bytes: &Dataset, offsets: &Dataset, rows: usize) -> Result<Values, Error> {
    let name = &bytes.path;
    let expected = Some((rows as u64).saturating_add(1));
    if (&bytes.datatype, &offsets.datatype)
        != (&Datatype::Number(Dtype::U8), &Datatype::Number(Dtype::I64))
        || offsets.rows().filter(|r| r.1.is_empty()).map(|r| r.0) != expected
        || bytes.shape.as_ref().is_none_or(|s| s.len() != 1)
    {
        return Err(file.bad(format!("`{name}` and `{}` do not fit together", offsets.path)));
    }
    let (values, ends) = match (rows::rows(file, bytes)?, rows::rows(file, offsets)?) {
        (Ok(values), Ok(ends)) => (values, ends),
        (Err(reason), _) | (_, Err(reason)) => return Ok(Values::NotStored(reason)),
    };
    let FixedPlaces::Stride(base) = values.places else {
        return Ok(Values::NotStored("its bytes are stored in chunks".to_owned()));
    };
    let ends = ends.read(file)?;
    let ends = ends.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b));
    let mut runs = Vec::with_capacity(rows);
    for (row, (start, end)) in ends.clone().zip(ends.skip(1)).enumerate() {
        let run = u64::try_from(start).ok().zip(u64::try_from(end).ok());
        let run = run.filter(|(_, end)| *end <= values.n).and_then(|(start, end)| {
            Some(Run { offset: base.checked_add(start)?, len: end.checked_sub(start)? })
        });
        let run = run.ok_or_else(|| {
            file.bad(format!("value {row} is {start}..{end} of `{name}`, outside it"))
        })?;
        runs.push(Some(run));
    }
    Ok(Values::Bytes(runs))
}

/// Reads the values as UTF-8 texts.
fn texts(file: &Hdf5<'_>, runs: &[Option<Run>]) -> Result<Values, Error> {
    let read = |(row, run): (usize, &Option<Run>)| {
        let Some(run) = run else { return Ok(None) };
        String::from_utf8(file.raw(run.offset, run.len)?)
            .map(Some)
            .map_err(|_| file.bad(format!("the key of sample {row} is not UTF-8 text")))
    };
    Ok(Values::Texts(runs.iter().enumerate().map(read).collect::<Result<_, _>>()?))
}

/// Returns the rows of a dataset of any type.
fn values(
    file: &Hdf5<'_>,
    heaps: &mut Heaps,
    dataset: &Dataset,
    rows: usize,
) -> Result<Values, Error> {
    let not_stored = |reason: &str| Ok(Values::NotStored(reason.to_owned()));
    if let Datatype::Other(what) = dataset.datatype {
        return not_stored(&format!("its elements are {what}"));
    }
    if dataset.path.ends_with(".bytes") {
        return not_stored("it has no offsets that say where each value begins");
    }
    let stored = match rows::rows(file, dataset)? {
        Ok(stored) => stored,
        Err(reason) => return Ok(Values::NotStored(reason)),
    };
    let shape = dataset.rows().map(|(_, shape)| shape).unwrap_or_default();
    let is_list = shape.iter().all(|n| *n == 1);
    match dataset.datatype {
        Datatype::Number(dtype) => {
            Ok(Values::Fixed { dtype, shape: shape.to_vec(), places: stored.places })
        }
        Datatype::Integer { is_big, .. } if !is_list => not_stored(if is_big {
            "its elements are big-endian integers"
        } else {
            "its elements are u64, which fields do not support"
        }),
        _ if !is_list || dataset.element != stored.size => {
            not_stored(&format!("it has {shape:?} of them for each sample"))
        }
        Datatype::Integer { is_signed, is_big } => {
            let bytes = stored.read(file)?;
            let number = |value: &[u8]| integer(value, is_signed, is_big);
            let numbers: Option<Vec<_>> =
                elements(&bytes, &stored).map(|v| number(v).map(Some)).collect();
            match numbers {
                Some(numbers) => Ok(Values::Integers(numbers)),
                None => not_stored("it has integers of 2⁶³ and above"),
            }
        }
        Datatype::Text => {
            let bytes = stored.read(file)?;
            Ok(Values::Texts(elements(&bytes, &stored).map(|v| Some(text_of(v))).collect()))
        }
        Datatype::VarText => {
            let bytes = stored.read(file)?;
            let text = |element| heaps.text(file, element).map(Some);
            Ok(Values::Texts(elements(&bytes, &stored).map(text).collect::<Result<_, _>>()?))
        }
        Datatype::VarBytes => {
            let bytes = stored.read(file)?;
            let run = |element| heaps.run(file, element);
            Ok(Values::Bytes(elements(&bytes, &stored).map(run).collect::<Result<_, _>>()?))
        }
        Datatype::Opaque => {
            let run = |row| stored.offset(row).map(|offset| Run { offset, len: stored.size });
            Ok(Values::Bytes((0..rows as u64).map(run).collect()))
        }
        Datatype::Other(what) => not_stored(what),
    }
}

/// Returns the elements of an array that has one element per row.
fn elements<'b>(bytes: &'b [u8], stored: &Stored) -> impl Iterator<Item = &'b [u8]> + use<'b> {
    bytes.chunks_exact(usize::try_from(stored.size).unwrap_or(usize::MAX).max(1))
}

/// Reads an integer of two, four or eight bytes; `None` if it is too large.
fn integer(bytes: &[u8], is_signed: bool, is_big: bool) -> Option<i64> {
    let mut wide = [0; 8];
    let from_low = bytes.iter().rev();
    let ordered: Vec<u8> = if is_big { from_low.copied().collect() } else { bytes.to_vec() };
    let fill = ordered.last().is_some_and(|b| is_signed && *b >= 0x80);
    wide.fill(if fill { u8::MAX } else { 0 });
    wide.get_mut(..ordered.len())?.copy_from_slice(&ordered);
    if is_signed {
        Some(i64::from_le_bytes(wide))
    } else {
        u64::from_le_bytes(wide).try_into().ok()
    }
}
