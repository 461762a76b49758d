//! STL-10 in its own files.
//!
//! ```text
//! train_X.bin   red, green and blue of an image, each column by column │ the next image …
//! train_y.bin   its class, from 1
//! ```
//!
//! Source: <https://cs.stanford.edu/~acoates/stl10/>. The 100,000 images without a class, of
//! `unlabeled_X.bin`, are left out.

use std::collections::BTreeMap;
use std::io::Read as _;

use gular_bundle::Split;

use super::files::base_name;
use super::ids::KnownWords;
use super::pixel_source::PixelSource;
use super::rows::{
    Form, PixelColumns, PixelRows, Places, RowSplits, Rows, bad, check_shape, wants_labels,
};
use crate::facts::setting;
use crate::source::archive::Opening;
use crate::source::{LabelColumn, SourceError, SourceOptions};

/// Height, width and channels of all images.
const SHAPE: [u64; 3] = [96, 96, 3];
const IMAGE_BYTES: u64 = 96 * 96 * 3;
const CLASS_NAMES: &str = "class_names.txt";
const SPLITS: [(Split, &str, &str); 2] =
    [(Split::Train, "train_X.bin", "train_y.bin"), (Split::Test, "test_X.bin", "test_y.bin")];

/// The files of STL-10.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StlFiles {
    /// Images and labels of each split.
    pub(super) parts: Vec<(Split, String, String)>,
    pub(super) class_names: Option<String>,
}

impl StlFiles {
    /// Those among `names`.
    pub(super) fn among(names: &[String]) -> Option<Self> {
        let named = |wanted: &str| names.iter().find(|name| base_name(name) == wanted).cloned();
        let part = |(split, images, labels): &(Split, &str, &str)| {
            Some((*split, named(images)?, named(labels)?))
        };
        let parts: Vec<_> = SPLITS.iter().filter_map(part).collect();
        (!parts.is_empty()).then(|| Self { parts, class_names: named(CLASS_NAMES) })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.class_names.as_deref() == Some(name)
            || self.parts.iter().any(|(_, images, labels)| images == name || labels == name)
    }
}

/// Opens the files.
pub(super) fn open(
    source: &PixelSource,
    files: &StlFiles,
    options: &SourceOptions<'_>,
    opening: &Opening<'_>,
) -> Result<PixelRows, SourceError> {
    if let Some(LabelColumn::Named(name)) = options.label_column {
        let text = format!("these files have no columns, so none can be called `{name}`");
        return Err(setting(&["label_column"], text));
    }
    check_shape(SHAPE, options).map_err(|e| bad(source.path(), "images", e.to_string()))?;
    let labelled = wants_labels(options);
    let (mut parts, mut split_words) = (Vec::new(), BTreeMap::new());
    for (split, images, labels) in &files.parts {
        let (path, file) = (source.path_of(images), source.file(images, opening)?);
        if file.len() == 0 || !file.len().is_multiple_of(IMAGE_BYTES) {
            let reason =
                format!("it has {} bytes, expected a multiple of {IMAGE_BYTES}", file.len());
            return Err(bad(&path, "images", reason));
        }
        let n = file.len() / IMAGE_BYTES;
        let labels = match labelled {
            true => labels_of(source, labels, n, opening)?,
            false => Vec::new(),
        };
        split_words.insert(base_name(images).to_owned(), *split);
        parts.push(Rows {
            name: split.to_string(),
            first: 0,
            file,
            places: Places::Every { start: 0, stride: IMAGE_BYTES, len: IMAGE_BYTES, n },
            form: Form::Columns,
            labels,
            splits: RowSplits::All(*split),
            bad: Vec::new(),
        });
    }
    let mut classes = Vec::new();
    if labelled {
        let most = parts.iter().flat_map(|part| part.labels.iter().copied()).max().unwrap_or(0);
        let names = names_of(source, files, opening)?;
        let names =
            names.filter(|names| usize::try_from(most).is_ok_and(|most| most < names.len()));
        let known = match names {
            Some(names) => KnownWords::names(names),
            None => KnownWords::numbers(u8::try_from(most).unwrap_or(u8::MAX)),
        };
        let shown = source.path().display().to_string();
        classes = known.number(&mut parts, options, "labels", &shown)?;
    }
    let labels = labelled.then(|| {
        let names = files.parts.iter().map(|(_, _, labels)| format!("`{}`", base_name(labels)));
        names.collect::<Vec<_>>().join(", ")
    });
    let columns = PixelColumns { labels, shape: SHAPE, ..PixelColumns::default() };
    let (path, ignored) = (source.path().to_owned(), BTreeMap::new());
    Ok(PixelRows { path, parts, labelled, classes, columns, split_words, ignored })
}

/// The classes of `n` images, from 0.
fn labels_of(
    source: &PixelSource,
    name: &str,
    n: u64,
    opening: &Opening<'_>,
) -> Result<Vec<i32>, SourceError> {
    let (path, file) = (source.path_of(name), source.file(name, opening)?);
    if file.len() != n {
        return Err(bad(&path, "labels", format!("it has {} labels for {n} images", file.len())));
    }
    let mut bytes = Vec::new();
    file.reader().read_to_end(&mut bytes).map_err(|e| SourceError::io("read", &path, e))?;
    let label = |byte: &u8| byte.checked_sub(1).map(i32::from);
    let labels: Option<Vec<i32>> = bytes.iter().map(label).collect();
    labels.ok_or_else(|| bad(&path, "labels", "it has the class 0, expected 1 or more".to_owned()))
}

fn names_of(
    source: &PixelSource,
    files: &StlFiles,
    opening: &Opening<'_>,
) -> Result<Option<Vec<String>>, SourceError> {
    let Some(name) = &files.class_names else { return Ok(None) };
    let mut text = String::new();
    let file = source.file(name, opening)?;
    file.reader()
        .take(1 << 20)
        .read_to_string(&mut text)
        .map_err(|e| SourceError::io("read", source.path_of(name), e))?;
    Ok(Some(text.trim_end().lines().map(|name| name.trim().to_owned()).collect()))
}
