//! Names of files in formats that store every value as a separate file: folders and file system
//! images.
//!
//! ```text
//! <key>                 image, where the key ends as its bytes do
//! <key>.jpg             image, where it does not
//! <key>.mask.png        other bytes
//! <key>.depth.npy       fixed values behind an npy header
//! samples.tsv           key, label, and the files of each sample, in order
//! ```
//!
//! A folder has one folder per split. If the keys already begin with a folder that is named
//! after the split, that folder is used, and no second one is added.

use crate::envelope::{media, npy};
use crate::{BundlePath, Field, FieldKind};

/// The list of samples beside the files.
pub const SAMPLES_NAME: &str = "samples.tsv";

/// The files of one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleFiles {
    /// One name per field; `None` for `label`.
    pub names: Vec<Option<String>>,
    /// The sample's line in [`SAMPLES_NAME`], with its line feed.
    pub line: String,
}

/// The first line of [`SAMPLES_NAME`].
#[must_use]
pub fn samples_header(fields: &[Field]) -> String {
    let names: Vec<&str> = fields.iter().map(|f| f.name.as_str()).collect();
    format!("key\t{}\n", names.join("\t"))
}

/// Returns the line in [`SAMPLES_NAME`] of a sample whose files are `names`.
pub(crate) fn list_line(
    fields: &[Field],
    key: &BundlePath,
    names: &[Option<String>],
    values: &[&[u8]],
) -> String {
    let mut line = key.to_string();
    for ((_, name), value) in fields.iter().zip(names).zip(values) {
        line.push('\t');
        match name {
            Some(name) => line.push_str(name),
            None => {
                let label = value.first_chunk::<8>().map_or(-1, |b| i64::from_le_bytes(*b));
                line.push_str(&label.to_string());
            }
        }
    }
    line.push('\n');
    line
}

/// Returns the names of a sample's files as if there were no other sample; `None` for `label`. The
/// sample's path is `below`, which is its key or the end of its key.
pub(crate) fn plain_names(
    fields: &[Field],
    key: &BundlePath,
    below: &str,
    values: &[&[u8]],
) -> Vec<Option<String>> {
    let name = |(field, value): (&Field, &&[u8])| {
        (!field.is_label()).then(|| file_name(field, key, below, value))
    };
    fields.iter().zip(values).map(name).collect()
}

/// The bytes of a file of field `field` before the value's own bytes.
#[must_use]
pub fn file_head(field: &Field) -> Vec<u8> {
    field.as_fixed().map_or(Vec::new(), |(dtype, shape)| npy::header(dtype, shape))
}

/// The extension of a value: by its first bytes, its field, or its key.
pub(crate) fn extension<'a>(field: &Field, key: &'a BundlePath, value: &[u8]) -> &'a str {
    let media_types = match &field.kind {
        FieldKind::Fixed { .. } => return "npy",
        FieldKind::Bytes { media_types } => media_types,
    };
    let own = key.as_str().rsplit_once('.').map_or("", |(_, e)| e);
    let single = match media_types.as_slice() {
        [single] => Some(single.as_str()),
        _ => None,
    };
    match media::sniff(value).or(single) {
        // An extension such as `.JPEG` is kept as it is.
        Some(media_type) if media::of_extension(own) == Some(media_type) => own,
        Some(media_type) => media::extension_of(media_type).unwrap_or("bin"),
        None if field.is_image() && media::of_extension(own).is_some() => own,
        None => "bin",
    }
}

/// Returns the file name of a value whose sample has the path `below`: its key or the end of it.
fn file_name(field: &Field, key: &BundlePath, below: &str, value: &[u8]) -> String {
    let extension = extension(field, key, value);
    let own = key.as_str().rsplit_once('.').map_or("", |(_, e)| e);
    match field.is_image() {
        true if own == extension => below.to_owned(),
        true => format!("{below}.{extension}"),
        false => format!("{below}.{}.{extension}", field.name),
    }
}

/// Returns the first of `name`, and `name` with `~2`, `~3`, … before its extension, for which
/// `is_free` is true. `is_free` also gets the number, which is 1 for `name` itself.
pub(crate) fn numbered(name: &str, mut is_free: impl FnMut(&str, u64) -> bool) -> String {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut free = name.to_owned();
    let mut n = 1_u64;
    while !is_free(&free, n) {
        n = n.saturating_add(1);
        free = format!("{stem}~{n}.{extension}");
    }
    free
}
