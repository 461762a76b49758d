//! The samples of a split that the user asked for, and the check that there are any.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use gular_runtime::{LoaderSettings, Predicate, Split};
use pyo3::prelude::*;

use crate::error::named;

/// The number of unknown keys that an error names.
const NAMED: usize = 3;

/// The user's request for samples of a split.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) split: Split,
    /// The option that selects samples; the first one if there are several.
    pub(crate) by: Option<&'static str>,
    pub(crate) keys: Option<Keys>,
}

/// Samples by their keys.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    all: Arc<Vec<String>>,
    /// Keys that no sample had so far.
    unknown: Arc<Mutex<HashSet<String>>>,
}

/// A part of the request that no sample fits.
#[derive(Debug)]
pub(crate) enum Unmet {
    Keys { split: Split, first: Vec<String>, unknown: usize, of: usize },
    NoneLeft { split: Split, by: &'static str, of: u64 },
}

impl Asked {
    /// Returns the request in `settings`, whose keys are taken; `selects` says whether the user has
    /// given a function.
    pub(crate) fn of(settings: &mut LoaderSettings, selects: bool) -> Self {
        let by = [
            ("keys", settings.only.is_some()),
            ("select", selects),
            ("never", settings.never.is_some()),
            ("fold", settings.fold.is_some()),
        ];
        let by = by.into_iter().find_map(|(option, is_given)| is_given.then_some(option));
        Self { split: settings.split, by, keys: settings.only.take().map(Keys::new) }
    }

    /// Returns what is missing, after all samples were examined and `n` of `of` are left.
    pub(crate) fn unmet(&self, n: u64, of: u64) -> Option<Unmet> {
        let split = self.split;
        self.keys.as_ref().and_then(|keys| keys.unmet(split)).or_else(|| {
            let by = self.by.filter(|_| n == 0)?;
            Some(Unmet::NoneLeft { split, by, of })
        })
    }
}

impl Keys {
    pub(crate) fn new(all: Vec<String>) -> Self {
        let unknown = all.iter().cloned().collect();
        Self { all: Arc::new(all), unknown: Arc::new(Mutex::new(unknown)) }
    }

    /// Returns a predicate that is true for the samples with these keys, and records each key that
    /// it finds.
    pub(crate) fn predicate(&self) -> Predicate {
        let wanted: HashSet<String> = self.all.iter().cloned().collect();
        let unknown = Arc::clone(&self.unknown);
        Predicate::new(move |sample| {
            let is_wanted = wanted.contains(sample.key);
            if is_wanted {
                unknown.lock().unwrap_or_else(PoisonError::into_inner).remove(sample.key);
            }
            is_wanted
        })
    }

    fn unmet(&self, split: Split) -> Option<Unmet> {
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        let first = self.all.iter().filter(|key| unknown.contains(*key)).take(NAMED);
        let first: Vec<String> = first.cloned().collect();
        let (unknown, of) = (unknown.len(), self.all.len());
        (unknown > 0).then_some(Unmet::Keys { split, first, unknown, of })
    }
}

impl Unmet {
    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Keys { split, first, unknown, of } => {
                let mut names = format!("`{}`", first.join("`, `"));
                if *unknown > first.len() {
                    names += &format!(" and {} more", unknown - first.len());
                }
                let what = format!(
                    "split `{split}` has no sample {names}: {unknown} of {of} `keys` are unknown"
                );
                let hint = "give the paths that the images had when they were packed; \
                            a loader returns them as `batch[\"key\"]`";
                named(py, "SampleError", &what, Some(hint), first.first().map(String::as_str))
            }
            Self::NoneLeft { split, by, of } => {
                let what = format!(
                    "option `{by}`: none of the {of} samples of split `{split}` were selected"
                );
                named(py, "OptionError", &what, None, None)
            }
        }
    }
}
