//! Where `gular pack` takes labels from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use gular_bundle::Split;
use gular_pack::{
    BoxForm, FieldColumns, Group, LabelColumn, Labels, Pattern, TableOptions, Unlabelled,
    has_parquet_images, split_of,
};

use crate::exit::Failure;
use crate::pack::PackArgs;

/// Parsed `--labels`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LabelsArg {
    Path,
    None,
    Table(PathBuf),
    /// A list without a header, and what its lines mean.
    List(PathBuf, Pattern),
}

impl LabelsArg {
    /// A list, and what its lines mean.
    fn lines(&self) -> Option<(PathBuf, Pattern)> {
        match self {
            Self::List(path, lines) => Some((path.clone(), lines.clone())),
            _ => None,
        }
    }

    fn table(&self) -> Option<PathBuf> {
        match self {
            Self::Table(path) | Self::List(path, _) => Some(path.clone()),
            Self::Path | Self::None => None,
        }
    }
}

/// Returns where the labels are in a table of pixels.
pub(crate) fn of_rows(args: &PackArgs) -> Result<Labels, Failure> {
    let others = [
        ("--images", !args.images.is_empty()),
        ("--key-column", args.key_column.is_some()),
        ("--split-column", args.split_column.is_some()),
        ("--label-separator", args.label_separator.is_some()),
        ("--box-format", args.box_format.is_some()),
        ("--columns", args.columns != ["all"]),
    ];
    if let Some((flag, _)) = others.iter().find(|(_, given)| *given) {
        let text = format!("`{flag}` does not apply to a table of pixels");
        let hint = "leave it out: a table of pixels has only pixels and a column of labels, which `--label-column` chooses".to_owned();
        return Err(Failure::new(text, Some(hint)));
    }
    match args.labels.as_slice() {
        [LabelsArg::None] => Ok(Labels::None),
        [LabelsArg::Path] => Ok(Labels::Column(label_column(args.label_column.as_deref()))),
        _ => {
            let text = "the labels of a table of pixels must be in one of its own columns";
            let hint =
                "name the column with `--label-column`, or pack without labels: `--labels none`"
                    .to_owned();
            Err(Failure::new(text, Some(hint)))
        }
    }
}

/// Returns where the labels are if images are rows of datasets.
pub(crate) fn of_datasets(args: &PackArgs, src: &Path) -> Result<Labels, Failure> {
    match (args.labels.as_slice(), args.label_column.as_deref()) {
        ([LabelsArg::Path], Some(name)) => Ok(Labels::Column(label_column(Some(name)))),
        _ => of_images(args, src),
    }
}

/// Returns where the labels of images are.
pub(crate) fn of_images(args: &PackArgs, src: &Path) -> Result<Labels, Failure> {
    let files: Vec<PathBuf> = args.labels.iter().filter_map(LabelsArg::table).collect();
    if files.is_empty() {
        let of_table = [
            ("--key-column", args.key_column.is_some()),
            ("--label-column", args.label_column.is_some()),
            ("--split-column", args.split_column.is_some()),
            ("--label-separator", args.label_separator.is_some()),
            ("--box-format", args.box_format.is_some()),
            ("--columns", args.columns != ["all"]),
        ];
        let is_given = of_table.iter().any(|(_, given)| *given);
        if is_given && args.labels == [LabelsArg::Path] && has_parquet_images(src) {
            return table(args, files);
        }
        if let Some((flag, _)) = of_table.iter().find(|(_, given)| *given) {
            let text = format!("`{flag}` needs a table of labels, but none was given");
            return Err(Failure::new(
                text,
                Some("give a table with `--labels labels.csv`; for rows of pixels, as those of CIFAR-100, add `--as pixels`".to_owned()),
            ));
        }
        return match args.labels.as_slice() {
            [LabelsArg::None] => Ok(Labels::None),
            [_] => Ok(Labels::Path),
            _ => Err(several_sources()),
        };
    }
    if files.len() < args.labels.len() {
        return Err(several_sources());
    }
    table(args, files)
}

/// The tables, and what their columns are.
fn table(args: &PackArgs, files: Vec<PathBuf>) -> Result<Labels, Failure> {
    let mut seen = BTreeSet::new();
    let files = files.into_iter().filter(|file| seen.insert(file.clone())).collect();
    let mut lines: BTreeMap<PathBuf, Vec<Pattern>> = BTreeMap::new();
    for (path, pattern) in args.labels.iter().filter_map(LabelsArg::lines) {
        lines.entry(path).or_default().push(pattern);
    }
    let (split, split_words) = split_column(args.split_column.as_deref())?;
    let has_splits = lines.values().flatten().any(|lines| lines.has("split"));
    let of_lines = has_splits.then(|| "split".to_owned());
    Ok(Labels::Table(TableOptions {
        files,
        lines,
        key: args.key_column.clone(),
        label: label_column(args.label_column.as_deref()),
        split: split.or(of_lines),
        split_words,
        group: args.group.as_deref().map(group).and_then(|group| match group {
            Group::Column(name) => Some(name),
            Group::Part(_) => None,
        }),
        separator: args.label_separator.clone(),
        box_form: args.box_format,
        fields: match args.columns.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["all"] => FieldColumns::All,
            ["none"] => FieldColumns::Named(Vec::new()),
            _ => FieldColumns::Named(args.columns.clone()),
        },
        ..TableOptions::default()
    }))
}

/// Parsed `--split-column`: `NAME`, or `NAME:VALUE=SPLIT,…`.
pub(crate) fn split_column(
    text: Option<&str>,
) -> Result<(Option<String>, BTreeMap<String, Split>), Failure> {
    let pairs = text.and_then(|text| {
        let (name, words) = text.rsplit_once(':')?;
        let pairs: Option<Vec<_>> = words.split(',').map(|pair| pair.rsplit_once('=')).collect();
        Some((name, pairs?))
    });
    let Some((name, pairs)) = pairs else { return Ok((text.map(str::to_owned), BTreeMap::new())) };
    let mut words = BTreeMap::new();
    for (word, split) in pairs {
        let split = split_of(split.trim()).ok_or_else(|| {
            let text = format!(
                "`--split-column`: `{split}`, which is to be the split of `{word}`, is not one"
            );
            Failure::new(text, Some("write `train`, `val` or `test` in its place".to_owned()))
        })?;
        words.insert(word.trim().to_owned(), split);
    }
    Ok((Some(name.to_owned()), words))
}

/// Parsed `--label-column`.
pub(crate) fn label_column(text: Option<&str>) -> LabelColumn {
    match text {
        None => LabelColumn::Find,
        Some("none") => LabelColumn::None,
        Some(name) => LabelColumn::Named(name.to_owned()),
    }
}

fn several_sources() -> Failure {
    let text = "`--labels path`, `--labels none` and tables cannot be combined";
    Failure::new(text, Some("give `--labels` once, or several times with tables only".to_owned()))
}

/// Parses `--labels`.
pub(crate) fn parse(text: &str) -> Result<LabelsArg, String> {
    Ok(match text {
        "path" | "folder" => LabelsArg::Path,
        "none" => LabelsArg::None,
        list if list.contains('{') => {
            let (path, lines) = list.split_once('=').ok_or(
                "expected a list and the pattern of its lines: `train.txt={path} {label}`",
            )?;
            let lines = Pattern::parse_line(lines).map_err(|e| e.to_string())?;
            LabelsArg::List(path.into(), lines)
        }
        path if path.contains(['.', '/']) || Path::new(path).is_dir() => {
            LabelsArg::Table(path.into())
        }
        _ => {
            return Err("expected `path`, `none`, or a table: a file that ends in .csv, .tsv, \
                        .jsonl or .parquet, a COCO .json, or a folder of YOLO's \
                        texts or Pascal VOC's XML"
                .to_owned());
        }
    })
}

/// Parsed `--group`.
pub(crate) fn group(text: &str) -> Group {
    match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        Some(part) => Group::Part(part.to_owned()),
        None => Group::Column(text.to_owned()),
    }
}

/// Parses `--box-format`.
pub(crate) fn box_format() -> impl TypedValueParser<Value = BoxForm> {
    let of = |word: String| BoxForm::WORDS.iter().find(|(known, _)| *known == word);
    PossibleValuesParser::new(BoxForm::WORDS.map(|(word, _)| word))
        .map(move |word| of(word).map_or(BoxForm::Ends, |(_, form)| *form))
}

/// Parses `--unlabelled`.
pub(crate) fn unlabelled() -> impl TypedValueParser<Value = Unlabelled> {
    PossibleValuesParser::new(["fail", "skip", "keep"]).map(|word| match word.as_str() {
        "skip" => Unlabelled::Skip,
        "keep" => Unlabelled::Keep,
        _ => Unlabelled::Fail,
    })
}
