//! Surveys a safetensors file, whether Gular wrote it or another program.

use std::collections::BTreeMap;

use crate::envelope::{Column, FixedPlaces, Run, Survey, Values};
use crate::tensors::{SafetensorsHeader, Tensor};
use crate::{Dtype, Error, ReadAt};

/// If there are more tensors than this, all of one shape, each is a sample; if fewer, they are
/// fields.
const MOST_FIELDS: usize = 16;

/// Finds the columns of a file. Pairs `X.bytes`, `X.offsets` are columns of bytes; tensors `[n, …]`
/// are columns of fixed values; many tensors of one shape are one sample each.
pub(crate) fn survey(file: &ReadAt) -> Result<Survey, Error> {
    let header = SafetensorsHeader::read_foreign(file)?;
    let tensors: BTreeMap<&str, &Tensor> = header
        .tensors
        .iter()
        .filter(|t| !t.name.starts_with("_pad."))
        .map(|t| (t.name.as_str(), t))
        .collect();
    let pairs: Vec<&str> = header
        .tensors
        .iter()
        .filter_map(|t| t.name.strip_suffix(".bytes"))
        .filter(|name| tensors.contains_key(format!("{name}.offsets").as_str()))
        .collect();
    let plain: Vec<&Tensor> = header
        .tensors
        .iter()
        .filter(|t| !t.name.starts_with("_pad."))
        .filter(|t| !pairs.iter().any(|pair| is_part(&t.name, pair)))
        .collect();
    if let Some(survey) = one_each(&pairs, &plain) {
        return Ok(survey);
    }
    let rows = rows(file, &pairs, &tensors, &plain)?;
    let mut columns = Vec::new();
    for name in &pairs {
        columns.push(pair(file, name, &tensors, rows)?);
    }
    for tensor in plain {
        columns.push(fixed(tensor, rows));
    }
    // Columns are in the order of their data, in which fields were written.
    columns.sort_by_key(|c| {
        let named = |t: &Tensor| t.name == c.name || is_part(&t.name, &c.name);
        header.tensors.iter().position(named)
    });
    Ok(Survey { rows, columns, classes: BTreeMap::new() })
}

fn is_part(tensor: &str, pair: &str) -> bool {
    tensor.strip_prefix(pair).is_some_and(|rest| matches!(rest, ".bytes" | ".offsets"))
}

/// Surveys a file with one tensor per sample, whose name is the key.
fn one_each(pairs: &[&str], plain: &[&Tensor]) -> Option<Survey> {
    let first = plain.first().filter(|_| pairs.is_empty() && plain.len() > MOST_FIELDS)?;
    if plain.iter().any(|t| t.dtype != first.dtype || t.shape != first.shape) {
        return None;
    }
    let keys = plain.iter().map(|t| Some(t.name.clone())).collect();
    let values = Values::Fixed {
        dtype: first.dtype,
        shape: first.shape.clone(),
        places: FixedPlaces::Offsets(plain.iter().map(|t| t.start).collect()),
    };
    let columns = vec![
        Column { name: "image".into(), values },
        Column { name: "key".into(), values: Values::Texts(keys) },
    ];
    Some(Survey { rows: plain.len(), columns, classes: BTreeMap::new() })
}

/// Returns the number of samples: by the offsets, else the first dimension that all tensors share.
fn rows(
    file: &ReadAt,
    pairs: &[&str],
    tensors: &BTreeMap<&str, &Tensor>,
    plain: &[&Tensor],
) -> Result<usize, Error> {
    let first = |t: &Tensor| t.shape.first().copied();
    let n = match pairs.first() {
        Some(name) => {
            let offsets = tensors.get(format!("{name}.offsets").as_str());
            offsets.and_then(|t| first(t)).and_then(|n| n.checked_sub(1))
        }
        None => {
            let n = plain.first().and_then(|t| first(t));
            n.filter(|n| plain.iter().all(|t| first(t) == Some(*n)))
        }
    };
    // Every sample takes at least one byte or an offset in some tensor.
    let n = n.filter(|n| *n <= file.len_bytes()).and_then(|n| usize::try_from(n).ok());
    n.ok_or_else(|| Error::NotInPlace {
        path: file.path(),
        reason: "its tensors do not share their first dimension, so they hold no samples".into(),
    })
}

fn pair(
    file: &ReadAt,
    name: &str,
    tensors: &BTreeMap<&str, &Tensor>,
    rows: usize,
) -> Result<Column, Error> {
    let bad = |reason: String| Error::malformed(file.path(), reason);
    let get = |part: &str| {
        let name = format!("{name}.{part}");
        tensors.get(name.as_str()).copied().ok_or_else(|| bad(format!("it has no tensor `{name}`")))
    };
    let (bytes, offsets) = (get("bytes")?, get("offsets")?);
    let n_offsets = offsets.shape.first().copied().unwrap_or(0);
    if (bytes.dtype, offsets.dtype) != (Dtype::U8, Dtype::I64)
        || n_offsets != (rows as u64).saturating_add(1)
        || offsets.shape.len() != 1
    {
        return Err(bad(format!("`{name}.bytes` and `{name}.offsets` do not fit together")));
    }
    let ends = i64s(file, offsets)?;
    let mut runs = Vec::with_capacity(rows);
    for (row, (start, end)) in ends.iter().zip(ends.iter().skip(1)).enumerate() {
        let run = u64::try_from(*start).ok().zip(u64::try_from(*end).ok());
        let run = run.and_then(|(start, end)| {
            let run = Run { offset: bytes.start.checked_add(start)?, len: end.checked_sub(start)? };
            (run.offset.checked_add(run.len)? <= bytes.end).then_some(run)
        });
        let run = run.ok_or_else(|| {
            bad(format!("value {row} of `{name}` is {start}..{end}, outside its tensor"))
        })?;
        runs.push(run);
    }
    let values = if name == "key" {
        Values::Texts(texts(file, &runs)?)
    } else {
        Values::Bytes(runs.into_iter().map(Some).collect())
    };
    Ok(Column { name: name.to_owned(), values })
}

fn fixed(tensor: &Tensor, rows: usize) -> Column {
    let values = match tensor.shape.split_first() {
        Some((n, shape)) if *n == rows as u64 => Values::Fixed {
            dtype: tensor.dtype,
            shape: shape.to_vec(),
            places: FixedPlaces::Stride(tensor.start),
        },
        _ => Values::NotStored(format!(
            "its shape is {:?}, the first dimension is not the {rows} samples",
            tensor.shape
        )),
    };
    Column { name: tensor.name.clone(), values }
}

fn i64s(file: &ReadAt, tensor: &Tensor) -> Result<Vec<i64>, Error> {
    let len = tensor.end.saturating_sub(tensor.start);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    file.read_at(tensor.start, &mut bytes)?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect())
}

/// Reads the values as UTF-8 texts.
fn texts(file: &ReadAt, runs: &[Run]) -> Result<Vec<Option<String>>, Error> {
    let read = |(row, run): (usize, &Run)| {
        let mut bytes = vec![0; usize::try_from(run.len).unwrap_or(0)];
        file.read_at(run.offset, &mut bytes)?;
        String::from_utf8(bytes).map(Some).map_err(|_| {
            Error::malformed(file.path(), format!("the key of sample {row} is not UTF-8 text"))
        })
    };
    runs.iter().enumerate().map(read).collect()
}
