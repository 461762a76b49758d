//! Parquet files with images, as Hugging Face's hub has them: read as an imagefolder, with the
//! classes in the order of their numbers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gular_bundle::FieldName;

use crate::facts::{literal, split_of, split_within};
use crate::layout::{Labels, LayoutError, TableOptions};
use crate::plan::PlanOptions;
use crate::source::{
    Classes, FILE_NAME, FieldFiles, Inputs, LabelColumn, METADATA, ParquetImages, Source,
    SourceError, find_label, hidden, media_type_of,
};

const TITLE: &str = "Hugging Face's Parquet with images";
const END: &str = ".parquet";
/// What columns of masks are called. Source: scene_parse_150, sidewalk-semantic and FoodSeg103 on
/// Hugging Face's hub.
const MASKS: [&str; 4] = ["mask", "label", "annotation", "segmentation"];

/// The options of such a file or folder, if `source` is one and the caller says nothing about its
/// images; a table without files says what the columns are.
pub(crate) fn of_parquet(
    source: &Path,
    options: &PlanOptions,
) -> Result<Option<PlanOptions>, LayoutError> {
    let given = match &options.labels {
        Labels::Path => TableOptions::default(),
        Labels::Table(table) if table.files.is_empty() => table.clone(),
        Labels::Table(_) | Labels::None | Labels::Column(_) => return Ok(None),
    };
    let Some(names) = names(source)?.filter(|_| options.says_nothing()) else { return Ok(None) };
    let (mut first, mut plain): (Option<(&String, ParquetImages)>, Option<&String>) = (None, None);
    for name in &names {
        let path = if name.is_empty() { source.to_owned() } else { source.join(name) };
        let Some(images) = ParquetImages::open(&path)? else {
            plain.get_or_insert(name);
            continue;
        };
        match &first {
            None => first = Some((name, images)),
            Some((other, known))
                if (known.columns(), known.classes(), known.further())
                    != (images.columns(), images.classes(), images.further()) =>
            {
                let (first, second) = ((*other).clone(), name.clone());
                return Err(SourceError::ParquetSets { first, second }.into());
            }
            Some(_) => {}
        }
    }
    let Some((first, images)) = first else { return Ok(None) };
    if let Some(plain) = plain {
        let (first, second) = (first.clone(), plain.clone());
        return Err(SourceError::ParquetSets { first, second }.into());
    }
    let label = label_of(&images, &given.label);
    let classes = match &label {
        LabelColumn::Named(label) => images.classes().remove(label),
        LabelColumn::Find | LabelColumn::None => of_boxes(&images),
    };
    let folders = folders(&names, given.split.is_some())?;
    let parse = |text: String| text.parse().map_err(LayoutError::from);
    let (mut patterns, mut fields) = (Vec::new(), options.fields.clone());
    for folder in &folders {
        patterns.push(parse(format!("{folder}{{key:[^/]+}}.{{ext}}"))?);
    }
    for column in images.further() {
        let name = if MASKS.contains(&column.as_str()) { "mask" } else { column };
        let (Some(name), [folder]) = (FieldName::parse(name), folders.as_slice()) else {
            let path = source.display().to_string();
            let reason = format!(
                "it has a second column of images, `{column}`, which becomes a field only if it has the name of one, and files have names such as `train-00000-of-00001.parquet`"
            );
            return Err(SourceError::ParquetImages { path, reason }.into());
        };
        let pattern = parse(format!("{folder}{}/{{key}}.{{ext}}", literal(column)))?;
        fields.push(FieldFiles { name, files: None, pattern: Some(pattern) });
    }
    let table = |name: &String| {
        let folder = name.strip_suffix(END).unwrap_or_default();
        source.join(folder).join(METADATA)
    };
    let labels = Labels::Table(TableOptions {
        files: names.iter().map(table).collect(),
        key: Some(FILE_NAME.to_owned()),
        label,
        ..given
    });
    Ok(Some(PlanOptions {
        images: patterns,
        fields,
        labels,
        classes: options.classes.clone().or(classes.map(Classes::Names)),
        dataset: Some(TITLE.to_owned()),
        ..options.clone()
    }))
}

/// The column of labels: the one that is given, that has a name of labels, or the only one of classes.
/// Of several, the user chooses.
fn label_of(images: &ParquetImages, given: &LabelColumn) -> LabelColumn {
    if *given != LabelColumn::Find {
        return given.clone();
    }
    // What is in objects is of boxes, not of the image.
    let mut classes: Vec<String> =
        images.classes().into_keys().filter(|name| !name.contains('.')).collect();
    match (find_label(&images.columns()), classes.len()) {
        (Some(label), _) => LabelColumn::Named(label.clone()),
        (None, 0) => LabelColumn::None,
        (None, 1) => classes.pop().map_or(LabelColumn::None, LabelColumn::Named),
        (None, _) => LabelColumn::Find,
    }
}

/// The classes of boxes: of a column beside their `bbox`, as in `objects.category`.
fn of_boxes(images: &ParquetImages) -> Option<Vec<String>> {
    let columns = images.columns();
    let is_of_boxes = |name: &String| {
        let boxes = name.rsplit_once('.').map(|(objects, _)| format!("{objects}.bbox"));
        boxes.is_some_and(|boxes| columns.contains(&boxes))
    };
    let mut all = images.classes().into_iter().filter(|(name, _)| is_of_boxes(name));
    all.next().map(|(_, names)| names).filter(|_| all.next().is_none())
}

/// The patterns of the folders that files are read as, with the split that each is: that in its name,
/// or the folder around it. Without any, all files are of one split.
fn folders(names: &[String], by_column: bool) -> Result<Vec<String>, LayoutError> {
    let found: Vec<(String, Option<String>)> = names.iter().map(|name| folder(name)).collect();
    let has_split = |(_, of): &&(String, Option<String>)| of.is_some();
    let (with, without) =
        (found.iter().find(has_split), found.iter().position(|of| of.1.is_none()));
    if let (Some(_), Some(at), false) = (with, without, by_column) {
        let file = names.get(at).cloned().unwrap_or_default();
        return Err(SourceError::ParquetSplit { file }.into());
    }
    let pairs = || found.iter().zip(names);
    let first = pairs().next();
    let other = first.and_then(|((around, _), _)| pairs().find(|((of, _), _)| of != around));
    if let (Some((_, first)), Some((_, second))) = (first, other) {
        let (first, second) = (first.clone(), second.clone());
        return Err(SourceError::ParquetFolders { first, second }.into());
    }
    let around = first.map_or("", |((around, _), _)| around.as_str());
    let is_file = names.iter().all(String::is_empty);
    let all: BTreeSet<String> = match (with, by_column) {
        _ if is_file => [String::new()].into(),
        (Some(_), false) => found.into_iter().filter_map(|(_, pattern)| pattern).collect(),
        _ => [format!("{around}{{**}}/")].into(),
    };
    Ok(all.into_iter().collect())
}

/// What is around the folder that a file is read as, and the pattern of that folder if something in it
/// says the split.
fn folder(name: &str) -> (String, Option<String>) {
    let (folders, own) = name.rsplit_once('/').unwrap_or(("", name));
    let stem = own.strip_suffix(END).unwrap_or(own);
    let slashed = |folder: &str| match folder {
        "" => String::new(),
        folder => format!("{}/", literal(folder)),
    };
    let around = slashed(folders);
    // `train-00000-of-00002`, also with a digest behind it.
    let part = stem.split_once("-of-").and_then(|(before, _)| before.rsplit_once('-'));
    let word = part.map_or(stem, |(word, _)| word);
    if part.is_some() && split_of(word).is_some() {
        return (around.clone(), Some(format!("{around}{{split:[a-z]+}}-{{*}}/")));
    }
    if let Some(split) = split_within(word) {
        let pattern = format!("{{split={split}}}{around}{}/", literal(stem));
        return (around, Some(pattern));
    }
    // `default/train/0000.parquet`
    let (outer, last) = folders.rsplit_once('/').unwrap_or(("", folders));
    match split_of(last) {
        Some(_) => (slashed(outer), Some(format!("{}{{split}}/{{*}}/", slashed(outer)))),
        None => (around, None),
    }
}

/// Whether a source is of this form, so that columns can be chosen without a table.
#[must_use]
pub fn has_parquet_images(source: &Path) -> bool {
    let is_of_images = |name: &String| {
        let path = if name.is_empty() { source.to_owned() } else { source.join(name) };
        ParquetImages::open(&path).is_ok_and(|found| found.is_some())
    };
    names(source)
        .is_ok_and(|found| found.is_some_and(|names| names.first().is_some_and(is_of_images)))
}

/// The Parquet files of a source below it, in order; an empty name for the source itself. `None` where
/// there are none, or images beside them.
fn names(source: &Path) -> Result<Option<Vec<String>>, LayoutError> {
    if source.is_file() {
        let is_table = source.to_string_lossy().ends_with(END);
        return Ok(is_table.then(|| vec![String::new()]));
    }
    if !source.is_dir() {
        return Ok(None);
    }
    let (mut names, mut has_images) = (Vec::new(), false);
    let folder = Source::Folder(PathBuf::from(source));
    folder.files::<SourceError>(&mut |name, _| {
        has_images |= media_type_of(name, Inputs::Images).is_some();
        if name.ends_with(END) && !hidden(name) {
            names.push(name.to_owned());
        }
        Ok(())
    })?;
    names.sort();
    Ok(Some(names).filter(|names| !names.is_empty() && !has_images))
}
