//! Names of files, where every value is a file of its own: in a directory and
//! in a file system image.
//!
//! ```text
//! <key>                 image, where the key ends as its bytes do
//! <key>.jpg             image, where it does not
//! <key>.mask.png        other bytes
//! <key>.depth.npy       fixed values behind an npy header
//! samples.tsv           key, label, and the files of each sample, in order
//! ```
//!
//! A directory has a folder a split. Where the keys themselves begin with one that
//! names the split, it is that folder, and not a second one below it.

use std::collections::{BTreeMap, HashSet};

use crate::envelope::{media, npy};
use crate::{Bundle, BundlePath, Error, Field, FieldKind, Split};

/// The list of samples beside the files.
pub const SAMPLES_NAME: &str = "samples.tsv";

/// Names the files of samples, each name once.
#[derive(Debug)]
pub struct FileNames {
    fields: Vec<Field>,
    /// Folders of the key that the files are not below.
    left_out: usize,
    taken: HashSet<String>,
}

/// The files of one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleFiles {
    /// One a field; `None` for `label`.
    pub names: Vec<Option<String>>,
    /// The sample's line in [`SAMPLES_NAME`], with its line feed.
    pub line: String,
}

impl FileNames {
    /// Names for samples of these fields.
    #[must_use]
    pub fn new(fields: &[Field]) -> Self {
        // The list itself must keep its name.
        let taken = HashSet::from([SAMPLES_NAME.to_owned()]);
        Self { fields: fields.to_vec(), left_out: 0, taken }
    }

    /// Names below the folder of a split; `in_keys` as [`splits_are_in_keys`] says.
    #[must_use]
    pub fn in_split(fields: &[Field], in_keys: bool) -> Self {
        Self { left_out: usize::from(in_keys), ..Self::new(fields) }
    }

    /// The first line of [`SAMPLES_NAME`].
    #[must_use]
    pub fn header(&self) -> String {
        let names: Vec<&str> = self.fields.iter().map(|f| f.name.as_str()).collect();
        format!("key\t{}\n", names.join("\t"))
    }

    /// The files of the next sample.
    pub fn next(&mut self, key: &BundlePath, values: &[&[u8]]) -> SampleFiles {
        let mut names = Vec::with_capacity(self.fields.len());
        let mut line = key.to_string();
        let below = key.as_str().splitn(self.left_out.saturating_add(1), '/').last();
        let below = below.unwrap_or_default();
        for (field, value) in self.fields.iter().zip(values) {
            line.push('\t');
            if field.name.as_str() == "label" {
                let label = value.first_chunk::<8>().map_or(-1, |b| i64::from_le_bytes(*b));
                line.push_str(&label.to_string());
                names.push(None);
                continue;
            }
            let name = unique(&mut self.taken, &file_name(field, key, below, value));
            line.push_str(&name);
            names.push(Some(name));
        }
        line.push('\n');
        SampleFiles { names, line }
    }
}

/// Whether all keys of a bundle begin with a folder that names their split (`train`,
/// `val` or `valid` or `validation`, `test`), one and the same for all of a split.
///
/// # Errors
/// Those of reading an index.
pub fn splits_are_in_keys(bundle: &Bundle) -> Result<bool, Error> {
    let mut folders: BTreeMap<Split, String> = BTreeMap::new();
    for (number, entry) in bundle.manifest().shards.iter().enumerate() {
        let shard = bundle.shard(number)?;
        for row in 0..shard.index().n_samples() {
            let first = shard.index().key(row).and_then(|key| key.split_once('/'));
            let Some((first, _)) = first.filter(|(f, _)| Split::parse(f) == Some(entry.split))
            else {
                return Ok(false);
            };
            match folders.get(&entry.split) {
                Some(folder) if folder != first => return Ok(false),
                Some(_) => {}
                None => drop(folders.insert(entry.split, first.to_owned())),
            }
        }
    }
    Ok(true)
}

/// What a file of field `field` holds before the value's own bytes.
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
        // `.JPEG` stays what it is.
        Some(media_type) if media::of_extension(own) == Some(media_type) => own,
        Some(media_type) => media::extension_of(media_type).unwrap_or("bin"),
        None if field.name.as_str() == "image" && media::of_extension(own).is_some() => own,
        None => "bin",
    }
}

/// The name of a value whose sample lies at `below`, the key or its end.
fn file_name(field: &Field, key: &BundlePath, below: &str, value: &[u8]) -> String {
    let extension = extension(field, key, value);
    let own = key.as_str().rsplit_once('.').map_or("", |(_, e)| e);
    match field.name.as_str() {
        "image" if own == extension => below.to_owned(),
        "image" => format!("{below}.{extension}"),
        name => format!("{below}.{name}.{extension}"),
    }
}

/// `name`, or with `~2`, `~3`, … before its extension where it is taken.
pub(crate) fn unique(taken: &mut HashSet<String>, name: &str) -> String {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut unique = name.to_owned();
    let mut n = 2_u64;
    while !taken.insert(unique.clone()) {
        unique = format!("{stem}~{n}.{extension}");
        n = n.saturating_add(1);
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, FieldName};

    #[test]
    fn names_are_keys_where_they_can_be() {
        let fields = [
            Field::bytes(FieldName::image(), vec!["image/jpeg".into()]),
            Field::label(),
            Field::bytes(FieldName::parse("mask").unwrap(), vec!["image/png".into()]),
            Field::fixed(FieldName::parse("depth").unwrap(), Dtype::F32, vec![2]),
        ];
        let mut names = FileNames::new(&fields);
        let mut check = |key: &str, image: &[u8], expected: [&str; 3]| {
            let key = BundlePath::parse(key).unwrap();
            let label = 3_i64.to_le_bytes();
            let files = names.next(&key, &[image, &label, b"", &[0; 8]]);
            let [image, mask, depth] = expected;
            assert_eq!(files.line, format!("{key}\t{image}\t3\t{mask}\t{depth}\n"));
            let found: Vec<&str> = files.names.iter().flatten().map(String::as_str).collect();
            assert_eq!(found, expected);
        };
        let jpeg = b"\xff\xd8\xff\xe0";
        check("c/a.JPEG", jpeg, ["c/a.JPEG", "c/a.JPEG.mask.png", "c/a.JPEG.depth.npy"]);
        check("c/a.png", jpeg, ["c/a.png.jpg", "c/a.png.mask.png", "c/a.png.depth.npy"]);
        let taken =
            ["c/a.png.mask~2.png", "c/a.png.mask.png.mask.png", "c/a.png.mask.png.depth.npy"];
        check("c/a.png.mask.png", b"\x89PNG", taken);
        check(
            "samples.tsv",
            b"?",
            ["samples.tsv.jpg", "samples.tsv.mask.png", "samples.tsv.depth.npy"],
        );
    }
}
