//! What folders are read as, and the patterns of folders that are splits.

use std::collections::{BTreeMap, BTreeSet};

use gular_bundle::Split;

use super::folders::{Folder, Folders};
use crate::facts::{Doubt, literal, split_of, split_within};

pub(super) const KEY: &str = "{key}.{ext}";

pub(super) const CLASSES: &str = "{label}/{key}.{ext}";

/// How a source is read.
#[derive(Debug, Default)]
pub(crate) struct Recognised {
    pub(crate) patterns: Vec<String>,
    pub(crate) classes: BTreeSet<String>,
    /// Folders that are splits.
    pub(crate) splits: BTreeMap<String, Split>,
    /// What the user should know.
    pub(crate) doubts: Vec<Doubt>,
}

/// The patterns in a folder in which all folders are splits, if it is such.
pub(super) fn of_splits(folder: &Folder, rest: &str) -> Option<BTreeSet<String>> {
    let of = |word: &String| match (split_of(word), split_within(word)) {
        (Some(_), _) => Some(format!("{{split}}/{rest}")),
        (None, Some(split)) => Some(format!("{{split={split}}}{}/{rest}", literal(word))),
        (None, None) => None,
    };
    let some = folder.inner.keys().any(|word| split_within(word).is_some());
    folder.inner.keys().map(of).collect::<Option<_>>().filter(|_| some)
}

/// The pattern of a folder that is this split.
pub(super) fn of_split(split: Split, folder: &str, rest: &str) -> String {
    format!("{{split={split}}}{}/{rest}", literal(folder))
}

/// The patterns of folders that are splits, each with its class folders or without.
pub(super) fn split_patterns(folders: &Folders, labelled: bool) -> Vec<String> {
    let mut patterns = BTreeSet::new();
    for (name, folder) in &folders.top {
        let has_classes = labelled && folder.below > 0;
        let rest = if has_classes { CLASSES } else { KEY };
        // Where all folders have the same form, one pattern is for all of them.
        let same = !labelled || folders.top.values().all(|other| other.below > 0);
        patterns.insert(match (split_of(name), split_within(name)) {
            (Some(_), _) if same || has_classes => format!("{{split}}/{rest}"),
            (Some(_), _) => format!("{{split:{}}}/{rest}", regex::escape(name)),
            (None, split) => {
                let split = split.unwrap_or(Split::Train);
                format!("{{split={split}}}{}/{rest}", literal(name))
            }
        });
    }
    patterns.into_iter().collect()
}
