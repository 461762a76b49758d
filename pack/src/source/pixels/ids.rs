//! Labels as words, until all are known and can be numbered.

use std::collections::HashMap;

use super::rows::{Rows, key};
use crate::facts::{MOST_CLASSES, Numbering, RunError, Words, setting};
use crate::source::{SourceError, SourceOptions};

/// The words, in the order of their first row.
#[derive(Debug, Default)]
pub(super) struct Ids {
    ids: HashMap<String, i32>,
    /// The highest word that is an integer.
    most: Option<i64>,
    has_names: bool,
}

/// All words, which can also be found by their id.
pub(super) struct KnownWords {
    words: Words,
    by_id: Vec<String>,
    /// The class names in order, if the dataset says them.
    names: Option<Vec<String>>,
}

impl Ids {
    /// Returns the id of a word; `None` if it cannot be a class.
    pub(super) fn id(&mut self, label: &[u8]) -> Option<i32> {
        let word = std::str::from_utf8(label).ok().filter(|word| !word.is_empty())?;
        if let Some(id) = self.ids.get(word) {
            return Some(*id);
        }
        match word.parse::<i64>() {
            // A number with leading zeros, such as `007`, is a name.
            Ok(n) if n.to_string() == word => {
                if !(-1..=i64::from(i32::MAX)).contains(&n) {
                    return None;
                }
                self.most = self.most.max(Some(n));
            }
            _ => self.has_names = true,
        }
        // One word more than allowed is kept, so that the error can be given once all rows are
        // read.
        let id = i32::try_from(self.ids.len().min(MOST_CLASSES)).ok()?;
        if self.ids.len() <= MOST_CLASSES {
            self.ids.insert(word.to_owned(), id);
        }
        Some(id)
    }

    /// Returns all words of `column`.
    pub(super) fn into_words(self, column: &str) -> Result<KnownWords, SourceError> {
        if self.ids.len() > MOST_CLASSES {
            let text = format!("{column} has more than {MOST_CLASSES} classes");
            return Err(setting(&["label_column"], text));
        }
        let mut by_id: Vec<(i32, String)> = self.ids.into_iter().map(|(w, id)| (id, w)).collect();
        by_id.sort_unstable();
        let by_id: Vec<String> = by_id.into_iter().map(|(_, word)| word).collect();
        let most = (!self.has_names).then_some(self.most.unwrap_or(-1));
        Ok(KnownWords {
            words: Words { words: by_id.iter().cloned().collect(), most },
            by_id,
            names: None,
        })
    }
}

impl KnownWords {
    /// The words of labels that are class numbers already, the highest of which is `most`.
    pub(super) fn numbers(most: u8) -> Self {
        let by_id: Vec<String> = (0..=most).map(|n| n.to_string()).collect();
        let words = Words { words: by_id.iter().cloned().collect(), most: Some(most.into()) };
        Self { words, by_id, names: None }
    }

    /// The words of labels that are places in this list.
    pub(super) fn names(names: Vec<String>) -> Self {
        let words = Words { words: names.iter().cloned().collect(), most: None };
        Self { words, by_id: names.clone(), names: Some(names) }
    }

    /// Replaces the ids in `parts` by class numbers, and returns the class names.
    ///
    /// `listed` are the classes that the user gives; `column` and `shown` are for messages.
    pub(super) fn number(
        self,
        parts: &mut [Rows],
        options: &SourceOptions<'_>,
        column: &str,
        shown: &str,
    ) -> Result<Vec<String>, SourceError> {
        let given = crate::source::listed_classes(options.classes)?.or(self.names);
        let Numbering { classes, numbers } =
            Numbering::new(self.words, given, true, column, shown)?;
        for part in parts {
            let Rows { name, first, labels, .. } = part;
            for (row, label) in (*first..).zip(labels) {
                let word = usize::try_from(*label).ok().and_then(|at| self.by_id.get(at));
                let Some(word) = word.filter(|word| *word != "-1") else {
                    *label = -1;
                    continue;
                };
                let number = match numbers.get(word) {
                    Some(number) => i32::try_from(number).ok(),
                    None if classes.is_empty() => word.parse().ok(),
                    None => None,
                };
                let unknown =
                    || RunError::unknown_class(key(name, row), word.clone(), classes.len());
                *label = number.ok_or_else(unknown)?;
            }
        }
        Ok(classes)
    }
}
