//! Hugging Face's imagefolder: images, and a table of a fixed name that says more about them.
//!
//! ```text
//! metadata.csv           file_name,text      beside the images, or in the folder above them; or
//! train/metadata.jsonl   {"file_name": …}    one per split
//! ```
//!
//! Other columns are fields; only a column with a name of labels is the class. Source:
//! <https://huggingface.co/docs/datasets/image_dataset#imagefolder>.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::facts::{Doubt, WayToRead, literal, named, split_of};
use crate::layout::{
    Cell, Folders, Labels, LayoutError, TableOptions, Tables, one_folder, recognise,
};
use crate::plan::PlanOptions;
use crate::source::{
    Inputs, LabelColumn, Source, SourceError, find_label, hidden, is_of_splits, media_type_of,
};

/// The names of such tables.
const NAMES: [&str; 3] = ["metadata.csv", "metadata.jsonl", "metadata.parquet"];
/// The column of file names, and the end of the names of columns with further files.
const KEY: &str = "file_name";
const FURTHER: &str = "_file_name";
/// Most folders, and folders in folders, in which a table is looked for.
const MOST_FOLDERS: usize = 64;
const TITLE: &str = "Hugging Face's imagefolder with metadata";

/// The options of such a folder, if `source` is one and the caller says nothing about it.
///
/// Archives that must be unpacked to be listed are not looked into; what a table in another one
/// begins with is unpacked in folder `temp`.
pub(crate) fn of_imagefolder(
    source: &Path,
    options: &PlanOptions,
    temp: &Path,
) -> Result<Option<PlanOptions>, LayoutError> {
    if !options.says_nothing() || options.labels != Labels::Path {
        return Ok(None);
    }
    let Some(opened) = listed(source, options, temp)? else { return Ok(None) };
    let files = match &opened {
        Source::Archive(_) => tables_among(&opened)?,
        _ => tables_in(source),
    };
    let Some(first) = files.first() else { return Ok(None) };
    let head = Head::of(first, &opened, temp)?;
    if let Some(doubt) = head.further(source, first) {
        return Err(doubt.into());
    }
    if !head.columns.iter().any(|column| column == KEY) {
        return Ok(None);
    }
    let further = further_tables(&opened, &files, temp)?;
    if !further.is_empty() {
        return Err(tables_in_tables(&files, &further, &head.columns).into());
    }
    if let Some(patterns) = classes(&opened, options)? {
        return Err(folders_and_table(&patterns, &files).into());
    }
    let label = match find_label(&head.columns) {
        Some(_) => LabelColumn::Find,
        None => LabelColumn::None,
    };
    let split = match &opened {
        Source::Folder(_) if options.fractions.is_empty() => column_of_splits(&files)?,
        _ => None,
    };
    let told = split.iter().map(|column| {
        let text =
            format!("splits are taken from the column `{column}`, which has only words for them");
        Doubt::new(text, Vec::new())
    });
    let taken = options.taken.iter().cloned().chain(told).collect();
    let key = Some(KEY.to_owned());
    let table = TableOptions { files, key, label, split, ..TableOptions::default() };
    let dataset = Some(TITLE.to_owned());
    Ok(Some(PlanOptions { labels: Labels::Table(table), dataset, taken, ..options.clone() }))
}

/// The column of splits of the only table, if it has words for several splits and nothing else, however
/// they are spelled.
fn column_of_splits(files: &[PathBuf]) -> Result<Option<String>, LayoutError> {
    let [file] = files else { return Ok(None) };
    let mut column = None;
    let (mut splits, mut are_words) = (BTreeSet::new(), true);
    Tables::new(&BTreeMap::new()).read_plain(file, &mut |_, columns, cells| {
        if !are_words {
            return Ok(());
        }
        let at = columns.iter().position(|column| is_of_splits(column));
        column = at.and_then(|at| columns.get(at).cloned());
        let word = at.and_then(|at| cells.get(at)).and_then(Cell::word);
        let split = word.and_then(|word| split_of(word.trim()));
        are_words = split.is_some();
        splits.extend(split);
        Ok(())
    })?;
    Ok(column.filter(|_| are_words && splits.len() > 1))
}

/// The source, if its files can be listed without unpacking anything.
fn listed(
    source: &Path,
    options: &PlanOptions,
    temp: &Path,
) -> Result<Option<Source>, LayoutError> {
    let is_plain = |name: &str| name.ends_with(".zip") || name.ends_with(".tar");
    let lower = |name: &str| name.to_ascii_lowercase();
    if !source.is_dir() {
        let name = lower(&source.to_string_lossy());
        let open = || Source::open(source, &options.source(), None, &false.into());
        return Ok(is_plain(&name).then(open).transpose()?);
    }
    let folder = Source::Folder(source.to_owned());
    let mut archives =
        fs::read_dir(source).into_iter().flatten().flatten().map(|entry| entry.path());
    match archives.any(|path| is_plain(&lower(&path.to_string_lossy()))) {
        true => Ok(Some(Source::open(source, &options.source(), Some(temp), &false.into())?)),
        false => Ok(Some(folder)),
    }
}

/// The tables of an archive, as [`tables_in`] finds them.
fn tables_among(source: &Source) -> Result<Vec<PathBuf>, LayoutError> {
    let mut by_depth: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    source.files::<SourceError>(&mut |name, _| {
        if name.rsplit('/').next().is_some_and(|own| NAMES.contains(&own)) {
            by_depth.entry(name.matches('/').count()).or_default().push(name.to_owned());
        }
        Ok(())
    })?;
    let first = by_depth.into_iter().next().filter(|(depth, _)| *depth < 3);
    let mut found = first.map(|(_, names)| names).unwrap_or_default();
    found.sort();
    let folder = |name: &String| name.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let are_apart = found.windows(2).all(|pair| folder(&pair[0]) != folder(&pair[1]));
    let paths = found.iter().map(|name| source.path().join(name));
    Ok(if are_apart { paths.collect() } else { Vec::new() })
}

/// The tables: the one of `source`, or those in folders in it.
fn tables_in(source: &Path) -> Vec<PathBuf> {
    let mut folders = vec![source.to_owned()];
    for _ in 0..3 {
        let found = folders.iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
        let found: Vec<PathBuf> = found.filter(|path| path.is_file()).collect();
        if !found.is_empty() {
            // With two tables in one folder, nobody knows which one counts.
            let n = found.iter().filter_map(|path| path.parent()).collect::<Vec<_>>();
            let are_apart = n.windows(2).all(|pair| pair[0] != pair[1]);
            return if are_apart { found } else { Vec::new() };
        }
        let entries = folders.iter().flat_map(fs::read_dir).flatten().flatten();
        let below = entries.map(|entry| entry.path()).filter(|path| {
            path.is_dir() && !hidden(&path.file_name().unwrap_or_default().to_string_lossy())
        });
        folders = below.take(MOST_FOLDERS + 1).collect();
        folders.sort();
        if folders.len() > MOST_FOLDERS {
            break;
        }
    }
    Vec::new()
}

/// Other tables of images, in folders further down than `tables`.
fn further_tables(
    source: &Source,
    tables: &[PathBuf],
    temp: &Path,
) -> Result<Vec<PathBuf>, LayoutError> {
    let mut found = Vec::new();
    source.files::<SourceError>(&mut |name, _| {
        let own = name.rsplit('/').next().unwrap_or(name);
        let path = source.path().join(name);
        if NAMES.contains(&own) && !tables.contains(&path) {
            found.push(path);
        }
        Ok(())
    })?;
    // What cannot be read may be one.
    found.retain(|path| {
        Head::of(path, source, temp)
            .map_or(true, |head| head.columns.iter().any(|column| column == KEY))
    });
    found.sort();
    Ok(found)
}

/// Each image has the table of the nearest folder above it, so that some rows may count for nothing.
fn tables_in_tables(tables: &[PathBuf], further: &[PathBuf], columns: &[String]) -> Doubt {
    let shown = |path: &PathBuf| path.display().to_string();
    let upper: Vec<String> = tables.iter().map(shown).collect();
    let all: Vec<String> = upper.iter().cloned().chain(further.iter().map(shown)).collect();
    let text = format!("tables of images are in folders of several levels: {}", named(all.iter()));
    let of = |when: &str, tables: Vec<String>| WayToRead {
        tables: Some(tables),
        label_column: find_label(columns).is_none().then(|| "none".to_owned()),
        ..WayToRead::new(when, &[])
    };
    let ways = vec![
        of("to take all of them, if no image is in two", all),
        of("to take the upper ones", upper),
    ];
    Doubt::new(text, ways)
}

/// The patterns of the images, if folders look like classes.
fn classes(source: &Source, options: &PlanOptions) -> Result<Option<Vec<String>>, LayoutError> {
    let mut folders = Folders::new(one_folder(source, options.inputs)?);
    source.files::<SourceError>(&mut |name, bytes| {
        if media_type_of(name, Inputs::Images).is_some() {
            folders.add(name, bytes);
        }
        Ok(())
    })?;
    let found = recognise(&folders, true).ok().filter(|found| found.classes.len() > 1);
    Ok(found.map(|found| found.patterns))
}

/// Both folders and a table may say the classes.
fn folders_and_table(patterns: &[String], files: &[PathBuf]) -> Doubt {
    let tables: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let text = format!("images are in class folders, and `{}` is about them, too", tables[0]);
    let by_table = WayToRead {
        tables: Some(tables.clone()),
        ..WayToRead::new("to take the table, as Hugging Face does", &[])
    };
    let both = WayToRead {
        tables: Some(tables),
        label_column: Some("none".to_owned()),
        ..WayToRead::new("to take classes from folders and fields from the table", &patterns)
    };
    let by_folder = WayToRead::new("to take the folders alone", &patterns);
    Doubt::new(text, vec![by_table, both, by_folder])
}

/// The columns of a table, and the cells of its first row.
struct Head {
    columns: Vec<String>,
    cells: Vec<Cell>,
}

impl Head {
    /// Reads a table in a source.
    fn of(file: &Path, source: &Source, temp: &Path) -> Result<Self, LayoutError> {
        let Source::Archive(_) = source else { return Self::read(file) };
        let name = file.strip_prefix(source.path()).ok().and_then(Path::to_str).unwrap_or_default();
        let bytes = source.head(name, usize::MAX).map_err(|e| LayoutError::io("read", file, e))?;
        let kept = tempfile::tempdir_in(temp)
            .map_err(|e| LayoutError::io("create a folder in", temp, e))?;
        let path = kept.path().join(file.file_name().unwrap_or_default());
        fs::write(&path, bytes).map_err(|e| LayoutError::io("write", &path, e))?;
        Self::read(&path)
    }

    fn read(file: &Path) -> Result<Self, LayoutError> {
        let mut head = Self { columns: Vec::new(), cells: Vec::new() };
        Tables::new(&BTreeMap::new()).read_plain(file, &mut |_, columns, cells| {
            if head.columns.is_empty() {
                (head.columns, head.cells) = (columns.to_vec(), cells.to_vec());
            }
            Ok(())
        })?;
        Ok(head)
    }

    /// Refuses a second column of files: where these are, a pattern says.
    fn further(&self, source: &Path, file: &Path) -> Option<Doubt> {
        let named = |column: &&String| column.as_str() == KEY || column.ends_with(FURTHER);
        let mut named: Vec<&String> = self.columns.iter().filter(named).collect();
        named.sort_by_key(|column| column.as_str() != KEY);
        let (image, others) = named.split_first().filter(|(_, others)| !others.is_empty())?;
        let below = file.parent().and_then(|folder| folder.strip_prefix(source).ok());
        let below = below.map(|path| path.display().to_string()).unwrap_or_default();
        let below = if below.is_empty() { below } else { format!("{below}/") };
        let path = |column: &str| {
            let at = self.columns.iter().position(|known| known == column)?;
            Some(format!("{below}{}", self.cells.get(at)?.word()?))
        };
        let text = format!(
            "`{}` names several files of each image, in the columns {}; patterns say where they are",
            file.display(),
            crate::facts::named(named.iter().map(|column| column.as_str()))
        );
        let first = path(image)?;
        let fields = others.iter().filter_map(|column| {
            let name = column.strip_suffix(FURTHER)?.to_lowercase();
            Some((name, pattern(&path(column)?, &first)?))
        });
        let way = WayToRead {
            files: fields.collect(),
            ..WayToRead::new(
                "if they have the same names in each row",
                &[&pattern(&first, &first)?],
            )
        };
        Some(Doubt::new(text, vec![way]))
    }
}

/// The pattern of files such as `path`, if it has the name of `image` in it.
fn pattern(path: &str, image: &str) -> Option<String> {
    let name = image.rsplit('/').next()?;
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let (folders, own) = path.rsplit_once('/').map_or(("", path), |(folders, own)| (folders, own));
    let (before, after) = own.split_once(stem)?;
    let (after, _) = after.rsplit_once('.').unwrap_or((after, ""));
    let folders = if folders.is_empty() { String::new() } else { format!("{}/", literal(folders)) };
    Some(format!("{folders}{}{{key}}{}.{{ext}}", literal(before), literal(after)))
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn further_files_are_told_by_the_first_row() {
        let of = |path: &str, image: &str| pattern(path, image);
        assert_eq!(of("in/1.jpg", "in/1.jpg").as_deref(), Some("in/{key}.{ext}"));
        assert_eq!(of("m/1_mask.png", "1.jpg").as_deref(), Some("m/{key}_mask.{ext}"));
        assert_eq!(of("m/7.png", "1.jpg"), None);
    }
}
