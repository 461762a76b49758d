//! The options of known datasets, which are laid out in ways of their own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gular_bundle::FieldName;

use crate::facts::{Pattern, RunError, literal, setting};
use crate::layout::{Card, Labels, LayoutError, TableOptions, Unlabelled, datasets};
use crate::plan::{PayloadOptions, PlanOptions};
use crate::source::{
    FieldFiles, Inputs, LabelColumn, PixelFiles, Source, SourceError, first_line, first_members,
    pixel_files,
};

/// The options of a known dataset, if `source` is one and the caller says nothing about it.
pub(crate) fn of_known(
    source: &Path,
    options: &PlanOptions,
) -> Result<Option<PlanOptions>, LayoutError> {
    let is_by_path = matches!(options.labels, Labels::Path | Labels::None);
    if !options.says_nothing() || !is_by_path || options.dataset.is_some() {
        return Ok(None);
    }
    let own = datasets().map_err(RunError::Option)?;
    if let Some(card) = of_pixels(source, options, &own)? {
        return card.options_of_pixels(options).map(Some);
    }
    let Some(files) = Files::of(source, options)? else { return Ok(None) };
    let is_open = |card: &&Card| {
        card.pixels.is_none() && !(options.labels == Labels::None && card.has_labels())
    };
    let mut cards = options.cards.iter().chain(&own).filter(is_open);
    let found = cards.find_map(|card| Some((card, files.prefix_of(card)?)));
    found.map(|(card, prefix)| card.options(source, &prefix, options)).transpose()
}

/// The known dataset of rows of pixels that `source` is.
fn of_pixels<'c>(
    source: &Path,
    options: &'c PlanOptions,
    own: &'c [Card],
) -> Result<Option<&'c Card>, LayoutError> {
    let mut cards = options.cards.iter().chain(own);
    if let Some(kind) = pixel_files(source, &options.source())? {
        return Ok(cards.find(|card| card.pixels == Some(kind)));
    }
    let mut tables = cards.filter(|card| card.pixels == Some(PixelFiles::Table)).peekable();
    if tables.peek().is_none() {
        return Ok(None);
    }
    let Some(files) = Files::of(source, options)? else {
        let members = if source.is_file() { first_members(source) } else { Vec::new() };
        let has = |path: &String| members.iter().any(|name| Path::new(name).ends_with(path));
        return Ok(tables.find(|card| card.has.iter().all(has)));
    };
    Ok(tables.find(|card| files.prefix_of(card).is_some()))
}

/// What a source has, as far as cards ask.
enum Files<'a> {
    Folder(&'a Path),
    /// All names in an archive.
    Archive(Vec<String>),
}

/// The longest first line of a table that is looked at.
const MOST_LINE: u64 = 64 << 10;
/// Most folders around a dataset, as in `VOCdevkit/VOC2012/`.
const MOST_AROUND: usize = 3;
/// Most members of an archive whose names are looked at.
const MOST_NAMES: usize = 1 << 20;

impl<'a> Files<'a> {
    /// Lists an archive that need not be unpacked for that.
    fn of(source: &'a Path, options: &PlanOptions) -> Result<Option<Self>, LayoutError> {
        if source.is_dir() {
            return Ok(Some(Self::Folder(source)));
        }
        let name = source.to_string_lossy().to_lowercase();
        if !name.ends_with(".zip") && !name.ends_with(".tar") {
            return Ok(None);
        }
        let never = false.into();
        let opened = Source::open(source, &options.source(), None, &never)?;
        let mut names = Vec::new();
        opened.files::<SourceError>(&mut |name, _| {
            if names.len() < MOST_NAMES {
                names.push(name.to_owned());
            }
            Ok(())
        })?;
        names.sort();
        Ok(Some(Self::Archive(names)))
    }

    fn has(&self, path: &str) -> bool {
        match self {
            Self::Folder(folder) => match path.strip_suffix('/') {
                Some(path) => folder.join(path).is_dir(),
                None => folder.join(path).is_file(),
            },
            Self::Archive(names) => {
                let at = names.partition_point(|name| name.as_str() < path);
                let found = names.get(at).map(String::as_str);
                found.is_some_and(|name| {
                    name == path || (path.ends_with('/') && name.starts_with(path))
                })
            }
        }
    }

    /// Where a dataset begins, if all files by which it is recognised are there, and its tables have
    /// the columns.
    fn prefix_of(&self, card: &Card) -> Option<String> {
        let has = |prefix: &String| {
            card.has.iter().all(|path| self.has(&format!("{prefix}{path}")))
                && card
                    .tables
                    .iter()
                    .all(|table| self.has_columns(&format!("{prefix}{table}"), card))
        };
        self.prefixes().into_iter().find(has)
    }

    /// Whether the first line of a table has the columns of a card; other competitions have files of
    /// the same names. Of a member of an archive, it is not known.
    fn has_columns(&self, table: &str, card: &Card) -> bool {
        let Self::Folder(folder) = self else { return true };
        let wanted = card.key_column.iter().chain(&card.label_column);
        let wanted = wanted.flat_map(|columns| columns.split(','));
        if !table.ends_with(".csv") {
            return true;
        }
        let line = first_line(&folder.join(table), MOST_LINE);
        let columns: Vec<&str> =
            line.trim_start_matches('\u{feff}').split([',', ';', '\t']).collect();
        let has = |name: &str| columns.iter().any(|column| column.trim().trim_matches('"') == name);
        line.is_empty() || wanted.into_iter().all(|name| name == "none" || has(name.trim()))
    }

    /// The places where the dataset may begin: the source, and the one folder in it, and so on.
    fn prefixes(&self) -> Vec<String> {
        let mut prefixes = vec![String::new()];
        while prefixes.len() <= MOST_AROUND
            && let Some(last) = prefixes.last()
            && let Some(one) = self.one_folder(last)
        {
            let next = format!("{last}{one}/");
            prefixes.push(next);
        }
        prefixes
    }

    /// The only folder below `prefix`.
    fn one_folder(&self, prefix: &str) -> Option<String> {
        match self {
            Self::Folder(folder) => {
                let entries = fs::read_dir(folder.join(prefix)).into_iter().flatten().flatten();
                let names = entries.filter(|entry| entry.path().is_dir());
                let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
                let names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
                match names.as_slice() {
                    [one] => Some(one.clone()),
                    _ => None,
                }
            }
            Self::Archive(names) => {
                let top = |name: &String| {
                    let below = name.strip_prefix(prefix)?;
                    below.split_once('/').map(|(top, _)| top.to_owned())
                };
                let first = names.first().and_then(top);
                first.clone().filter(|_| names.iter().all(|name| top(name) == first))
            }
        }
    }
}

impl Card {
    /// The options with which it is packed, if its images are rows of pixels.
    fn options_of_pixels(&self, given: &PlanOptions) -> Result<PlanOptions, LayoutError> {
        if given.payload != PayloadOptions::Encoded {
            let text = format!(
                "the images of this dataset ({}) are pixels already, and are stored unchanged",
                self.title
            );
            return Err(setting(&["payload"], text));
        }
        let column = self.label_column.clone().map_or(LabelColumn::Find, LabelColumn::Named);
        Ok(PlanOptions {
            inputs: Inputs::Pixels { size: None },
            labels: match given.labels {
                Labels::None => Labels::None,
                _ => Labels::Column(column),
            },
            dataset: Some(self.title.clone()),
            ..given.clone()
        })
    }

    /// The options with which it is packed, below `prefix` in `source`.
    fn options(
        &self,
        source: &Path,
        prefix: &str,
        given: &PlanOptions,
    ) -> Result<PlanOptions, LayoutError> {
        if let Some(unread) = &self.unread {
            let (title, unread) = (self.title.clone(), unread.clone());
            return Err(LayoutError::Unread { title, unread });
        }
        let below = literal(prefix);
        let pattern = |text: &String| Pattern::parse(&format!("{below}{text}"));
        let images: Result<Vec<Pattern>, _> = self.images.iter().map(pattern).collect();
        let images = images?;
        let bad =
            |text: &str| RunError::Option(format!("the dataset `{}` has `{text}`", self.name));
        let mut lines = BTreeMap::new();
        let mut files = Vec::new();
        for list in &self.lists {
            let (file, line) = list.split_once('=').ok_or_else(|| bad(list))?;
            let path = source.join(format!("{prefix}{file}"));
            if !files.contains(&path) {
                files.push(path.clone());
            }
            let line = Pattern::parse_line(line)?;
            lines.entry(path).or_insert_with(Vec::new).push(line);
        }
        files.extend(self.tables.iter().map(|file| source.join(format!("{prefix}{file}"))));
        let of_lines = lines.values().flatten().any(|line| line.has("split"));
        let split = self.split_column.clone().or_else(|| of_lines.then(|| "split".to_owned()));
        let labels = match files.is_empty() {
            true => given.labels.clone(),
            false => Labels::Table(TableOptions {
                files,
                lines,
                split,
                split_words: self.split_words.clone(),
                key: self.key_column.clone(),
                label: self.label_column.clone().map_or(LabelColumn::Find, LabelColumn::Named),
                ..TableOptions::default()
            }),
        };
        let field = |text: &String| {
            let (name, files) = text.split_once('=').ok_or_else(|| bad(text))?;
            let name = FieldName::parse(name).ok_or_else(|| bad(text))?;
            let pattern = Pattern::parse(&format!("{below}{files}"))?;
            Ok::<_, LayoutError>(FieldFiles { name, files: None, pattern: Some(pattern) })
        };
        Ok(PlanOptions {
            images,
            labels,
            fields: self.fields.iter().map(field).collect::<Result<_, _>>()?,
            unlabelled: if self.leaves_out { Unlabelled::Skip } else { given.unlabelled },
            dataset: Some(self.title.clone()),
            ..given.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_card_can_be_used() {
        let cards = datasets().unwrap();
        let mut names: Vec<&str> = cards.iter().map(|card| card.name.as_str()).collect();
        for card in &cards {
            let given = PlanOptions::default();
            if card.unread.is_some() {
                assert!(card.options(Path::new("x"), "", &given).is_err(), "{}", card.name);
                continue;
            }
            let options = match card.pixels {
                Some(_) => card.options_of_pixels(&given).unwrap(),
                None => card.options(Path::new("x"), "in{1}/", &given).unwrap(),
            };
            let is_read = card.pixels.is_some() || !options.images.is_empty();
            assert!(is_read && card.source.contains("://"), "{}", card.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cards.len());
    }
}
