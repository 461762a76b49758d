//! Keys of samples in files that have none of ours.

use std::collections::HashMap;
use std::path::Path;

use gular_bundle::{BundlePath, Column, Survey, Values};

use crate::adopt::detect::Source;

/// The keys of a file's samples by a column of texts; the reason when one is no key.
pub(crate) fn by_column(survey: &Survey, column: &str) -> Result<Vec<BundlePath>, String> {
    let texts = match survey.column(column) {
        Some(Column { values: Values::Texts(texts), .. }) => texts,
        _ => return Err(format!("it has no texts `{column}`")),
    };
    let key = |(row, text): (usize, &Option<String>)| {
        let text = text.as_deref().ok_or_else(|| format!("sample {row} has no `{column}`"))?;
        BundlePath::parse(text).map_err(|e| e.to_string())
    };
    texts.iter().enumerate().map(key).collect()
}

/// `<file>/<row>`, the file's name without its extension.
pub(crate) fn by_row(stem: &str, rows: usize) -> Vec<BundlePath> {
    let key = |row: usize| BundlePath::parse(&format!("{stem}/{row:08}"));
    (0..rows).filter_map(|row| key(row).ok()).collect()
}

/// A name for each file that no other has and that keys may begin with.
pub(crate) fn stems(sources: &[Source]) -> Vec<String> {
    let mut times: HashMap<String, u64> = HashMap::new();
    let stem = |path: &Path| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let plain = |c: char| if c.is_control() || matches!(c, '\\' | '/') { '_' } else { c };
        stem.chars().map(plain).collect::<String>()
    };
    let unique = |source: &Source| {
        let stem = stem(&source.path);
        let n = times.entry(stem.to_lowercase()).or_default();
        *n += 1;
        if *n == 1 { stem } else { format!("{stem}~{n}") }
    };
    sources.iter().map(unique).collect()
}
