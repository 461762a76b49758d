//! Groups the members of a tar into samples, as WebDataset does.

use std::collections::{BTreeMap, HashSet};

use crate::envelope::foreign::arrays;
use crate::envelope::foreign::tar::members::{Member, Members};
use crate::envelope::foreign::tar::{Part, part_of};
use crate::envelope::{Column, Run, Survey, Values};
use crate::{Error, ReadAt};

/// More kinds of members than this are not a dataset.
const MOST_PARTS: usize = 256;
/// A label may have at most this many bytes.
const MAX_LABEL_BYTES: u64 = 64;

/// Makes a column of each kind of member, and a sample of adjacent members with the same stem.
pub(crate) fn survey(file: &ReadAt) -> Result<Survey, Error> {
    let mut members = Members::new(file);
    let mut groups = Groups::default();
    while let Some(member) = members.next()? {
        groups.add(file, &member)?;
    }
    groups.finish(file)
}

/// Splits a name into stem and suffix, at the first dot of its last segment.
fn cut(name: &str) -> Option<(&str, &str)> {
    let segment = name.rfind('/').map_or(0, |slash| slash.saturating_add(1));
    let dot = name.get(segment..)?.find('.').filter(|dot| *dot > 0)?;
    let at = segment.checked_add(dot)?;
    Some((name.get(..at)?, name.get(at.checked_add(1)?..)?)).filter(|(_, s)| !s.is_empty())
}

#[derive(Default)]
struct Groups {
    stem: String,
    /// Digests of all stems; the names themselves are only kept as keys.
    seen: HashSet<[u8; 16]>,
    keys: Vec<String>,
    /// Whether the key is known from a record or from the image's name.
    settled: bool,
    /// For each suffix, in order of appearance: rows and runs.
    parts: Vec<(String, Vec<(usize, Run)>)>,
    by_suffix: BTreeMap<String, usize>,
}

impl Groups {
    fn add(&mut self, file: &ReadAt, member: &Member) -> Result<(), Error> {
        // Names without a dot, or that begin with one, are not part of a sample.
        let Some((stem, suffix)) = cut(&member.name) else { return Ok(()) };
        let refused = |reason: String| Error::NotInPlace { path: file.path(), reason };
        if stem != self.stem || self.keys.is_empty() {
            let hash = blake3::hash(stem.as_bytes());
            let short = hash.as_bytes().first_chunk::<16>().copied().unwrap_or_default();
            if !self.seen.insert(short) {
                let reason = format!("the files of sample `{stem}` are not next to each other");
                return Err(refused(reason));
            }
            stem.clone_into(&mut self.stem);
            self.settled = member.key.is_some();
            self.keys.push(member.key.clone().unwrap_or_else(|| member.name.clone()));
        }
        if !self.settled && part_of(suffix) == Part::Image {
            self.settled = true;
            if let Some(key) = self.keys.last_mut() {
                key.clone_from(&member.name);
            }
        }
        let row = self.keys.len().saturating_sub(1);
        let suffix = suffix.to_ascii_lowercase();
        let at = match self.by_suffix.get(&suffix) {
            Some(at) => *at,
            None if self.parts.len() >= MOST_PARTS => {
                return Err(refused(format!(
                    "its samples have more than {MOST_PARTS} kinds of files"
                )));
            }
            None => {
                self.parts.push((suffix.clone(), Vec::new()));
                self.by_suffix.insert(suffix.clone(), self.parts.len().saturating_sub(1));
                self.parts.len().saturating_sub(1)
            }
        };
        if let Some((_, runs)) = self.parts.get_mut(at) {
            if runs.last().is_some_and(|(last, _)| *last == row) {
                return Err(refused(format!(
                    "sample `{stem}` has two files that end in `.{suffix}`"
                )));
            }
            runs.push((row, member.run));
        }
        Ok(())
    }

    fn finish(self, file: &ReadAt) -> Result<Survey, Error> {
        let rows = self.keys.len();
        if rows == 0 {
            return Err(Error::NoSamples { path: file.path() });
        }
        let mut columns = Vec::new();
        for (name, suffixes, runs) in merge(&self.parts, rows) {
            columns.push(Column { values: values(file, &suffixes, runs)?, name });
        }
        columns.sort_by_key(|c| match c.name.as_str() {
            "image" => 0,
            "label" => 1,
            _ => 2,
        });
        let keys = self.keys.into_iter().map(Some).collect();
        columns.push(Column { name: "key".into(), values: Values::Texts(keys) });
        Ok(Survey { rows, columns, classes: BTreeMap::new() })
    }
}

type Runs = Vec<Option<Run>>;

/// Joins suffixes that are one field, such as `jpg` and `png`. If a sample has several of them,
/// each suffix is a column.
fn merge(parts: &[(String, Vec<(usize, Run)>)], rows: usize) -> Vec<(String, Vec<String>, Runs)> {
    let arrays_only = !parts.iter().any(|(s, _)| s != "npy" && part_of(s) == Part::Image);
    let name_of = |suffix: &str| match part_of(suffix) {
        Part::Image if suffix == "npy" && !arrays_only => suffix.to_owned(),
        Part::Image => "image".to_owned(),
        Part::Label => "label".to_owned(),
        Part::Named(name) => name.to_owned(),
    };
    let mut names: Vec<String> = Vec::new();
    for (suffix, _) in parts {
        let name = name_of(suffix);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut merged = Vec::new();
    for name in names {
        let of_name: Vec<_> = parts.iter().filter(|(s, _)| name_of(s) == name).collect();
        let total: usize = of_name.iter().map(|(_, runs)| runs.len()).sum();
        let mut runs: Runs = vec![None; rows];
        for (row, run) in of_name.iter().flat_map(|(_, runs)| runs) {
            if let Some(slot) = runs.get_mut(*row) {
                *slot = Some(*run);
            }
        }
        if runs.iter().flatten().count() == total {
            merged.push((name, of_name.iter().map(|(s, _)| s.clone()).collect(), runs));
            continue;
        }
        for (suffix, of_suffix) in of_name {
            let mut runs: Runs = vec![None; rows];
            for (row, run) in of_suffix {
                if let Some(slot) = runs.get_mut(*row) {
                    *slot = Some(*run);
                }
            }
            merged.push((suffix.clone(), vec![suffix.clone()], runs));
        }
    }
    merged
}

fn values(file: &ReadAt, suffixes: &[String], runs: Runs) -> Result<Values, Error> {
    let all = |end: &str| suffixes.iter().all(|s| s == end || s.ends_with(&format!(".{end}")));
    if suffixes.iter().any(|s| s.ends_with(".gz")) {
        return Ok(Values::NotStored("the files in it are compressed with gzip".into()));
    }
    if all("cls") {
        return labels(file, &runs);
    }
    if all("npy")
        && let Some(values) = arrays::arrays(file, &runs)?
    {
        return Ok(values);
    }
    Ok(Values::Bytes(runs))
}

/// Returns numbers if all labels are numbers, else texts.
fn labels(file: &ReadAt, runs: &Runs) -> Result<Values, Error> {
    let mut texts = Vec::with_capacity(runs.len());
    for run in runs {
        texts.push(match run {
            None => None,
            Some(run) if run.len > MAX_LABEL_BYTES => {
                let reason = format!("a label has {} bytes, too many for a number", run.len);
                return Ok(Values::NotStored(reason));
            }
            Some(run) => {
                let mut bytes = vec![0; usize::try_from(run.len).unwrap_or(0)];
                file.read_at(run.offset, &mut bytes)?;
                Some(String::from_utf8_lossy(&bytes).trim().to_owned())
            }
        });
    }
    let number = |text: &Option<String>| match text {
        None => Some(None),
        Some(text) => text.parse::<i64>().ok().map(Some),
    };
    let numbers: Option<Vec<Option<i64>>> = texts.iter().map(number).collect();
    Ok(numbers.map_or(Values::Texts(texts), Values::Integers))
}
