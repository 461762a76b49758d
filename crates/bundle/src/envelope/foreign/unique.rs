//! Gives every file of a shard a different name.

use std::collections::HashSet;

use crate::envelope::SAMPLES_NAME;
use crate::envelope::files::{numbered, plain_names};
use crate::{BundlePath, Field};

/// Names the files of a shard's samples, each name once.
#[derive(Debug)]
pub(crate) struct FileNames {
    fields: Vec<Field>,
    taken: HashSet<String>,
}

impl FileNames {
    /// Makes a namer for samples of these fields.
    pub(crate) fn new(fields: &[Field]) -> Self {
        // The list itself must have this name.
        let taken = HashSet::from([SAMPLES_NAME.to_owned()]);
        Self { fields: fields.to_vec(), taken }
    }

    /// Names the files of the next sample, one per field; `None` for `label`.
    pub(crate) fn next(&mut self, key: &BundlePath, values: &[&[u8]]) -> Vec<Option<String>> {
        let plain = plain_names(&self.fields, key, key.as_str(), values);
        let mut free = |name: String| unique(&mut self.taken, &name);
        plain.into_iter().map(|name| name.map(&mut free)).collect()
    }
}

/// Returns `name`, with `~2`, `~3`, … before its extension if it is taken.
pub(crate) fn unique(taken: &mut HashSet<String>, name: &str) -> String {
    numbered(name, |name, _| taken.insert(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::files::list_line;
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
            let values: [&[u8]; 4] = [image, &label, b"", &[0; 8]];
            let files = names.next(&key, &values);
            let [image, mask, depth] = expected;
            let line = list_line(&fields, &key, &files, &values);
            assert_eq!(line, format!("{key}\t{image}\t3\t{mask}\t{depth}\n"));
            let found: Vec<&str> = files.iter().flatten().map(String::as_str).collect();
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
