//! CIFAR-10 and CIFAR-100 in their own files.
//!
//! ```text
//! binary:  label │ 1024 red │ 1024 green │ 1024 blue │ the next row …   CIFAR-100: coarse, fine │ …
//! Python:  a pickle of {"data": array of n x 3072, "labels": list of n, …}
//! ```
//!
//! Source: <https://www.cs.toronto.edu/~kriz/cifar.html>.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::atomic::Ordering;

use gular_bundle::Split;

use super::files::{CifarFiles, base_name};
use super::ids::KnownWords;
use super::pickle::{Pickle, PickleError};
use super::pixel_source::PixelSource;
use super::rows::{
    Form, PixelColumns, PixelRows, Places, RowSplits, Rows, bad, check_shape, wants_labels,
};
use crate::facts::RunError;
use crate::source::{LabelColumn, SourceError, SourceOptions, archive::Opening, window::Window};

/// Height, width and channels of all images.
const SHAPE: [u64; 3] = [32, 32, 3];
/// Bytes of an image.
const IMAGE_BYTES: u64 = 32 * 32 * 3;
/// The longest list of class names.
const MOST_NAME_BYTES: u64 = 1 << 20;

/// A kind of labels: its name in batches, and that of its class names.
struct LabelKind {
    labels: &'static str,
    names: &'static str,
    /// The file with the class names of the binary form.
    names_file: &'static str,
}

const OF_TEN: [LabelKind; 1] =
    [LabelKind { labels: "labels", names: "label_names", names_file: "batches.meta.txt" }];
/// The first kind is that of torchvision's labels. The binary form has them in reverse order.
const OF_HUNDRED: [LabelKind; 2] = [
    LabelKind {
        labels: "fine_labels",
        names: "fine_label_names",
        names_file: "fine_label_names.txt",
    },
    LabelKind {
        labels: "coarse_labels",
        names: "coarse_label_names",
        names_file: "coarse_label_names.txt",
    },
];

/// Opens the batches of CIFAR-10 or CIFAR-100.
pub(super) fn open(
    source: &PixelSource,
    files: &CifarFiles,
    options: &SourceOptions<'_>,
    opening: &Opening<'_>,
) -> Result<PixelRows, SourceError> {
    let shown = source.path().display().to_string();
    check_shape(SHAPE, options).map_err(|e| bad(source.path(), "images", e.to_string()))?;
    let kinds = if files.form.is_hundred { OF_HUNDRED.as_slice() } else { OF_TEN.as_slice() };
    let (kind, kind_at) = label_kind(kinds, options, &shown)?;
    let labelled = wants_labels(options);
    let mut parts: Vec<Rows> = Vec::new();
    let mut split_words = BTreeMap::new();
    for (split, name) in &files.batches {
        let of_split = parts.iter().filter(|part| part.name == split.name());
        let first = of_split.map(|part| part.places.n()).sum();
        let file = source.file(name, opening)?;
        let path = source.path_of(name);
        let (places, labels) = match files.form.is_binary {
            true => {
                // In CIFAR-100, the coarse label is before the fine one.
                let at = kinds.len() - 1 - kind_at;
                binary(&path, &file, kinds.len(), labelled.then_some(at), opening)?
            }
            false => python(&path, &file, kind.labels, labelled)?,
        };
        split_words.insert(base_name(name).to_owned(), *split);
        parts.push(batch(*split, first, file, places, labels));
    }
    let mut classes = Vec::new();
    if labelled {
        let most = parts.iter().flat_map(|part| part.labels.iter().copied()).max().unwrap_or(0);
        let names = class_names(source, files, kind, opening)?;
        let known = match names {
            Some(names) => {
                check_labels(source, &parts, names.len(), kind)?;
                KnownWords::names(names)
            }
            None => KnownWords::numbers(u8::try_from(most).unwrap_or(u8::MAX)),
        };
        classes = known.number(&mut parts, options, kind.labels, &shown)?;
    }
    let others = kinds.iter().filter(|other| labelled && other.labels != kind.labels);
    let columns = PixelColumns {
        labels: labelled.then(|| format!("`{}`", kind.labels)),
        other_labels: others.map(|other| other.labels.to_owned()).collect(),
        shape: SHAPE,
        ..PixelColumns::default()
    };
    let (path, ignored) = (source.path().to_owned(), BTreeMap::new());
    Ok(PixelRows { path, parts, labelled, classes, columns, split_words, ignored })
}

fn batch(split: Split, first: u64, file: Window, places: Places, labels: Vec<i32>) -> Rows {
    Rows {
        name: split.to_string(),
        first,
        file,
        places,
        form: Form::Planes,
        labels,
        splits: RowSplits::All(split),
        bad: Vec::new(),
    }
}

/// The kind of labels that the user wants, and its place among all.
fn label_kind(
    kinds: &'static [LabelKind],
    options: &SourceOptions<'_>,
    shown: &str,
) -> Result<(&'static LabelKind, usize), SourceError> {
    let named = match options.label_column {
        Some(LabelColumn::Named(name)) => Some(name),
        _ => None,
    };
    let mut kinds_at = kinds.iter().zip(0..);
    let found = kinds_at.find(|(kind, _)| named.is_none_or(|name| name == kind.labels));
    found.ok_or_else(|| SourceError::NoColumn {
        path: shown.to_owned(),
        what: "labels",
        wanted: named.cloned(),
        columns: kinds.iter().map(|kind| kind.labels.to_owned()).collect(),
    })
}

/// The rows of a binary batch; `label` is the place of the wanted one among a row's `n_labels`.
fn binary(
    path: &Path,
    file: &Window,
    n_labels: usize,
    label: Option<usize>,
    opening: &Opening<'_>,
) -> Result<(Places, Vec<i32>), SourceError> {
    let stride = n_labels as u64 + IMAGE_BYTES;
    if file.len() == 0 || !file.len().is_multiple_of(stride) {
        let reason = format!("it has {} bytes, expected a multiple of {stride}", file.len());
        return Err(bad(path, "CIFAR's images", reason));
    }
    let n = file.len() / stride;
    let mut labels = Vec::new();
    if let Some(at) = label {
        let mut reader = BufReader::with_capacity(1 << 20, file.reader());
        let mut row = vec![0; n_labels + usize::try_from(IMAGE_BYTES).unwrap_or(0)];
        for number in 0..n {
            if number.is_multiple_of(4096) && opening.cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled.into());
            }
            reader.read_exact(&mut row).map_err(|e| SourceError::io("read", path, e))?;
            labels.push(row.get(at).copied().unwrap_or_default().into());
        }
    }
    Ok((Places::Every { start: n_labels as u64, stride, len: IMAGE_BYTES, n }, labels))
}

fn unpickled(path: &Path, file: &Window, content: &'static str) -> Result<Pickle, SourceError> {
    Pickle::read(file.reader()).map_err(|e| match e {
        PickleError::Io(e) => SourceError::io("read", path, e),
        e => bad(path, content, e.to_string()),
    })
}

/// The rows of a batch that is a pickle.
fn python(
    path: &Path,
    file: &Window,
    labels: &str,
    labelled: bool,
) -> Result<(Places, Vec<i32>), SourceError> {
    let content = "CIFAR's images";
    let pickle = unpickled(path, file, content)?;
    let keys = || pickle.keys().iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    let array = pickle.byte_array("data").ok_or_else(|| {
        let expected = "expected an array of unsigned bytes in C order as `data`";
        bad(path, content, format!("{expected}, found {}", keys()))
    })?;
    let n = array.shape.first().copied().unwrap_or(0);
    let is_of_planes = matches!(array.shape.as_slice(), [_, IMAGE_BYTES] | [_, 3, 32, 32]);
    let len = n.saturating_mul(IMAGE_BYTES);
    let end = array.bytes.start.saturating_add(array.bytes.len);
    if n == 0 || !is_of_planes || array.bytes.len != len || end > file.len() {
        let (shape, bytes) = (&array.shape, array.bytes.len);
        let reason = format!(
            "its array has the shape {shape:?} and {bytes} bytes, expected [n, {IMAGE_BYTES}]"
        );
        return Err(bad(path, content, reason));
    }
    let mut found = Vec::new();
    if labelled {
        let ints = pickle.ints(labels).ok_or_else(|| {
            bad(path, content, format!("it has no list of integers `{labels}`, but {}", keys()))
        })?;
        if ints.len() as u64 != n {
            let reason = format!("it has {} labels and {n} images", ints.len());
            return Err(bad(path, content, reason));
        }
        let label = |int: i64| u8::try_from(int).map(i32::from);
        let checked: Result<Vec<i32>, _> = ints.iter().map(|int| label(*int)).collect();
        found = checked.map_err(|_| {
            bad(path, content, "a label is not an integer from 0 to 255".to_owned())
        })?;
    }
    let places =
        Places::Every { start: array.bytes.start, stride: IMAGE_BYTES, len: IMAGE_BYTES, n };
    Ok((places, found))
}

/// The class names in the files beside the batches.
fn class_names(
    source: &PixelSource,
    files: &CifarFiles,
    kind: &LabelKind,
    opening: &Opening<'_>,
) -> Result<Option<Vec<String>>, SourceError> {
    let content = "class names";
    if !files.form.is_binary {
        let Some(name) = files.names.first() else { return Ok(None) };
        let (path, file) = (source.path_of(name), source.file(name, opening)?);
        let pickle = unpickled(&path, &file, content)?;
        let names = pickle.texts(kind.names).ok_or_else(|| {
            bad(&path, content, format!("it has no list of texts `{}`", kind.names))
        })?;
        return Ok(Some(names));
    }
    let Some(name) = files.names.iter().find(|name| base_name(name) == kind.names_file) else {
        return Ok(None);
    };
    let (path, file) = (source.path_of(name), source.file(name, opening)?);
    let mut text = String::new();
    file.reader()
        .take(MOST_NAME_BYTES)
        .read_to_string(&mut text)
        .map_err(|e| SourceError::io("read", &path, e))?;
    let names = text.trim_end().lines().map(|name| name.trim().to_owned());
    Ok(Some(names.collect()))
}

/// Checks that every label has a name.
fn check_labels(
    source: &PixelSource,
    parts: &[Rows],
    n_names: usize,
    kind: &LabelKind,
) -> Result<(), SourceError> {
    let labels = parts.iter().flat_map(|part| part.labels.iter().copied());
    match labels.max().filter(|most| usize::try_from(*most).is_ok_and(|most| most >= n_names)) {
        None => Ok(()),
        Some(most) => {
            let labels = kind.labels;
            let reason =
                format!("`{labels}` has the label {most}, and there are {n_names} class names");
            Err(bad(source.path(), "CIFAR's images", reason))
        }
    }
}
