//! Makes keys for samples in files that contain no keys of ours.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use gular_bundle::{BundlePath, Column, Split, Survey, Values};

use crate::adopt::detect::Source;
use crate::facts::split_of;

/// The keys of a file's samples by a column of texts; the reason when one is not a key.
pub(crate) fn by_column(survey: &Survey, column: &str) -> Result<Vec<BundlePath>, String> {
    let texts = match survey.column(column) {
        Some(Column { values: Values::Texts(texts), .. }) => texts,
        _ => return Err(format!("it has no text column `{column}`")),
    };
    let key = |(row, text): (usize, &Option<String>)| {
        let text = text
            .as_deref()
            .ok_or_else(|| format!("sample {row} has no value in the column `{column}`"))?;
        BundlePath::parse(text).map_err(|e| e.to_string())
    };
    texts.iter().enumerate().map(key).collect()
}

/// The split and the class of a key whose first folders are these; without `by_split` the first one
/// is the class.
pub(crate) fn split_and_class(key: &str, by_split: bool) -> (Option<Split>, Option<&str>) {
    let (split, rest) = match key.split_once('/').filter(|_| by_split) {
        Some((first, rest)) => (split_of(first), rest),
        None => (None, key),
    };
    (split, rest.split_once('/').map(|(class, _)| class))
}

/// `<file>/<row>`, the file's name without its extension.
pub(crate) fn by_row(stem: &str, rows: usize) -> Vec<BundlePath> {
    let key = |row: usize| BundlePath::parse(&format!("{stem}/{row:08}"));
    (0..rows).filter_map(|row| key(row).ok()).collect()
}

/// A name for each file that no other has, letters in lower case, and that keys may
/// begin with.
pub(crate) fn stems(sources: &[Source]) -> Vec<String> {
    let stem = |path: &Path| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let plain = |c: char| if c.is_control() || matches!(c, '\\' | '/') { '_' } else { c };
        match &*stem {
            "." | ".." => stem.replace('.', "_"),
            stem => stem.chars().map(plain).collect::<String>(),
        }
    };
    let mut own: HashSet<String> = HashSet::new();
    let firsts: Vec<(String, bool)> = sources
        .iter()
        .map(|source| stem(&source.path))
        .map(|stem| (stem.clone(), own.insert(stem.to_lowercase())))
        .collect();
    // The number at which the search for the next free one continues.
    let mut times: HashMap<String, u64> = HashMap::new();
    let unique = |(stem, first): (String, bool)| {
        if first {
            return stem;
        }
        let n = times.entry(stem.to_lowercase()).or_insert(1);
        loop {
            *n += 1;
            let numbered = format!("{stem}~{n}");
            if own.insert(numbered.to_lowercase()) {
                return numbered;
            }
        }
    };
    firsts.into_iter().map(unique).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gular_bundle::{Envelope, Split};

    #[test]
    fn stems_differ_whatever_the_files_are_called() {
        let source = |path: &str| Source {
            path: path.into(),
            bytes: 1,
            envelope: Envelope::Tar,
            split: Split::Train,
        };
        let paths =
            ["x/a.tar", "y/a.tar", "y/A.tar", "z/a~2.tar", "z/b\\.tar", "w/a~2.tar", "w/..tar"];
        let found = stems(&paths.map(source));
        assert_eq!(found, ["a", "a~3", "A~4", "a~2", "b_", "a~2~2", "_"]);
    }
}
