//! What is not clear about tables, with each way to read them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gular_bundle::{Split, other_coordinate};

use super::rows::Tables;
use crate::facts::{Doubt, WayToRead, counted, named, split_like, split_of};
use crate::layout::LayoutError;
use crate::source::split_named;

/// Annotations without a box, of which boxes take no notice, and boxes that are not within their image.
pub(super) fn of_boxes(
    path: &Path,
    tables: &Tables,
    doubts: &mut Vec<Doubt>,
) -> Result<(), LayoutError> {
    let n = tables.without_box(path)?;
    if n > 0 {
        let text = format!("{n} annotations of `{}` have no box and are left out", path.display());
        doubts.push(Doubt::new(text, Vec::new()));
    }
    for (n, what) in tables.unread(path)?.into_iter().zip(["outlines", "points or lines"]) {
        if n > 0 {
            let text = format!(
                "the {what} of {} in `{}` are left out",
                counted(n, "annotation", "annotations"),
                path.display()
            );
            doubts.push(Doubt::new(text, Vec::new()));
        }
    }
    let others = tables.beside_boxes(path);
    if tables.has_boxes(path)? && !others.is_empty() {
        let text = format!(
            "`{}` has a row for each box, of which these columns are left out: {}",
            path.display(),
            named(others.iter())
        );
        doubts.push(Doubt::new(text, Vec::new()));
    }
    let outside = tables.outside(path)?;
    if outside.n > 0 {
        let text = format!(
            "{} of `{}` {} not within the image by its own size: {outside}",
            counted(outside.n, "box", "boxes"),
            path.display(),
            if outside.n == 1 { "is" } else { "are" },
        );
        doubts.push(Doubt::new(text, Vec::new()));
    }
    Ok(())
}

/// Labels are in one of two columns.
pub(super) fn other_labels(name: &str, other: &str) -> Doubt {
    let text =
        format!("labels are taken from the column `{name}`, but `{other}` looks like labels, too");
    let way =
        WayToRead { label_column: Some(other.to_owned()), ..WayToRead::new("to take these", &[]) };
    Doubt::new(text, vec![way])
}

/// A column of texts that all differ.
pub(super) fn no_classes(name: &str) -> Doubt {
    let text = format!(
        "column `{name}` has no classes, as its values are texts or all differ, and becomes a field"
    );
    let when = "if these are the classes";
    let way = WayToRead { label_column: Some(name.to_owned()), ..WayToRead::new(when, &[]) };
    Doubt::new(text, vec![way])
}

/// Columns none of which can have classes.
pub(super) fn are_fields(names: &[String]) -> Doubt {
    let text = format!(
        "no column has classes, so all of them are fields: {}",
        named(names.iter().map(String::as_str))
    );
    Doubt::new(text, Vec::new())
}

/// A column of boxes in a form that is not read.
pub(super) fn boxes_in_text(name: &str) -> Doubt {
    let text = format!(
        "column `{name}` looks like boxes in a form that is not read: a table with a row for each box has the columns `image`, `label`, `xmin`, `ymin`, `xmax` and `ymax`"
    );
    let label_column = Some("none".to_owned());
    let when = format!("to keep the boxes in `{name}` as text, which is not read");
    Doubt::new(text, vec![WayToRead { label_column, ..WayToRead::new(&when, &[]) }])
}

/// The only column of several that can have classes.
pub(super) fn only_classes(name: &str) -> Doubt {
    let text = format!(
        "labels are taken from the column `{name}`, as the others have numbers or texts that all differ"
    );
    let label_column = Some("none".to_owned());
    let way = WayToRead { label_column, ..WayToRead::new("if these are not the classes", &[]) };
    Doubt::new(text, vec![way])
}

/// A column of what many images are taken of or by, or of dates, in a table without other columns.
pub(super) fn may_be_sources(name: &str) -> Doubt {
    let text = format!(
        "column `{name}` says of what or when images were taken, so it is a field, and there are no classes"
    );
    let label_column = Some(name.to_owned());
    let way = WayToRead { label_column, ..WayToRead::new("if these are the classes", &[]) };
    Doubt::new(text, vec![way])
}

/// A column that has the name of splits, in a table without other columns.
pub(super) fn may_be_splits(name: &str) -> Doubt {
    let text =
        format!("column `{name}` has a name of splits, so it is a field, and there are no classes");
    let splits = WayToRead {
        split_column: Some(name.to_owned()),
        label_column: Some("none".to_owned()),
        ..WayToRead::new("if these are the splits", &[])
    };
    let label_column = Some(name.to_owned());
    let classes = WayToRead { label_column, ..WayToRead::new("if these are the classes", &[]) };
    Doubt::new(text, vec![splits, classes])
}

/// A column of classes with -1 in it.
pub(super) fn unknown(name: &str) -> Doubt {
    let text = format!("column `{name}` has the label -1, which says that a class is unknown");
    Doubt::new(text, Vec::new())
}

/// A column whose classes were divided.
pub(super) fn are_several(name: &str, word: &str, separator: char) -> Doubt {
    // Cells without this character are each one class.
    let other = if separator == '|' { ";" } else { "|" };
    let text = format!(
        "column `{name}` has classes such as `{word}`, which are divided at `{separator}`: an image can have several"
    );
    let way = WayToRead {
        label_separator: Some(other.to_owned()),
        ..WayToRead::new("if each is one class", &[])
    };
    Doubt::new(text, vec![way])
}

/// A column whose classes look like several, such as `edema|mass`.
pub(super) fn several(name: &str, word: &str) -> Doubt {
    let text = format!("column `{name}` has the class `{word}`, which looks like several");
    let separator = word.chars().find(|c| [',', ';'].contains(c)).map(String::from);
    let way = WayToRead {
        label_separator: separator,
        ..WayToRead::new("if an image can have several", &[])
    };
    Doubt::new(text, vec![way])
}

/// Columns that may be the sides of one box for each image.
pub(super) fn boxes_as_numbers(columns: &[&String]) -> Doubt {
    let columns = named(columns.iter().copied());
    let text = format!(
        "{columns} may be boxes, and are stored as numbers, which do not move with the image; boxes have the columns `xmin`, `ymin`, `xmax` and `ymax`"
    );
    Doubt::new(text, Vec::new())
}

/// Columns of columns and rows of points, which are stored as they are.
pub(super) fn points_as_numbers(columns: &[&String]) -> Doubt {
    let columns = named(columns.iter().copied());
    let text = format!(
        "{columns} may be points, and are stored as numbers, which do not move with the image: load them with images that are resized as a whole, or give points as `keypoints` of a COCO file, which move"
    );
    Doubt::new(text, Vec::new())
}

/// Whether a column has one coordinate of points, and another column the other.
pub(super) fn is_coordinate(name: &str, columns: &[String]) -> bool {
    other_coordinate(name).is_some_and(|other| columns.contains(&other))
}

/// The only column beside the file names, of integers, whose name is not one of labels.
pub(super) fn are_numbers(name: &str) -> Doubt {
    let text = format!("the numbers in column `{name}` are taken for classes");
    let label_column = Some("none".to_owned());
    let when = "if they are amounts, which become a field";
    Doubt::new(text, vec![WayToRead { label_column, ..WayToRead::new(when, &[]) }])
}

/// A column of labels that has another number in each row.
pub(super) fn all_numbers_differ(name: &str) -> Doubt {
    let text =
        format!("the numbers in column `{name}` all differ, so each image has a class of its own");
    let label_column = Some("none".to_owned());
    let when = "if they are amounts, which become a field";
    Doubt::new(text, vec![WayToRead { label_column, ..WayToRead::new(when, &[]) }])
}

/// Texts in place of values that are missing, apart from `none` and `unknown`, which are as often
/// classes. Source: the texts that pandas' `read_csv` takes for missing by default, and those that
/// the UCI repository's files have.
const MISSING: [&str; 11] =
    ["?", "-", "--", ".", "n/a", "#n/a", "<na>", "na", "null", "nil", "missing"];

/// Classes that are texts of missing values.
pub(super) fn look_missing(column: &str, words: &BTreeSet<String>) -> Option<Doubt> {
    let is_missing = |word: &&String| MISSING.contains(&word.to_lowercase().as_str());
    let found: Vec<&String> = words.iter().filter(is_missing).collect();
    let are =
        if found.len() == 1 { "looks like a missing value" } else { "look like missing values" };
    let text = format!(
        "{} in column `{column}` {are}, and {} taken for {}: leave these cells empty if the class is unknown",
        named(found.iter().copied()),
        if found.len() == 1 { "is" } else { "are" },
        if found.len() == 1 { "a class" } else { "classes" },
    );
    (!found.is_empty()).then(|| Doubt::new(text, Vec::new()))
}

/// What may be between several classes in one cell, beside `,`, `;` and `|`.
const BETWEEN_CLASSES: [&str; 4] = ["+", "&", " and ", " "];

/// Classes such as `a b` and `a+b` where `a` and `b` are classes, too, and such as `17 4`.
pub(super) fn may_be_several(column: &str, words: &BTreeSet<String>) -> Option<Doubt> {
    let is_several = |word: &str, separator: &str| {
        let mut parts = word.split(separator).map(str::trim).filter(|part| !part.is_empty());
        let are_numbers = parts.clone().all(|part| part.parse::<u64>().is_ok());
        // Names have spaces in them, but `+` is rarely a part of one.
        let are_known = match separator.trim() {
            "+" | "&" => parts.any(|part| words.contains(part)),
            _ => parts.all(|part| words.contains(part)),
        };
        word.contains(separator) && (are_known || are_numbers && separator == " ")
    };
    let (word, separator) = BETWEEN_CLASSES.iter().find_map(|separator| {
        let found = words.iter().find(|word| is_several(word, separator))?;
        Some((found, *separator))
    })?;
    let text = format!("column `{column}` has the class `{word}`, which looks like several");
    let way = WayToRead {
        label_separator: Some(separator.to_owned()),
        ..WayToRead::new("if an image can have several", &[])
    };
    Some(Doubt::new(text, vec![way]))
}

/// A column that looks like one of splits and became a field; `words` are its first values.
pub(super) fn stored_split(column: &str, words: &BTreeSet<String>) -> Doubt {
    let text = format!("column `{column}` was stored as a field and does not set splits");
    let column = split_column(column, words, &BTreeMap::new());
    let way = WayToRead { split_column: Some(column), ..WayToRead::new("if it does", &[]) };
    Doubt::new(text, vec![way])
}

/// The option that makes splits of a column with these values, as far as the user or their names say it.
pub(super) fn split_column(
    column: &str,
    words: &BTreeSet<String>,
    known: &BTreeMap<String, Split>,
) -> String {
    let of_name = split_named(column);
    let held_out = if of_name == Some(Split::Train) { Split::Test } else { Split::Train };
    let are_numbers = words.iter().all(|word| word.parse::<u64>().is_ok());
    let are_folds = column.to_lowercase().contains("fold");
    let split = |word: &String| match word.to_lowercase().as_str() {
        // Kaggle's words for the halves of its test set; the public one is what people validate on.
        "publictest" => Some(Split::Val),
        // COCO's further images for validation, on which people train. Source: Karpathy's splits.
        "restval" => Some(Split::Train),
        "1" | "true" | "yes" if of_name.is_some() => of_name,
        "0" | "false" | "no" if of_name.is_some() => Some(held_out),
        // The last fold is the one that is held out.
        _ if are_folds && words.last() == Some(word) => Some(Split::Val),
        _ if are_folds => Some(Split::Train),
        _ if are_numbers => None,
        lower => split_like(lower)
            .or_else(|| Split::ALL.into_iter().find(|split| lower.contains(&split.to_string()))),
    };
    let pairs: Vec<String> = words
        .iter()
        .filter(|word| split_of(word).is_none())
        // Following it as it is ends in an error, which asks for this split.
        .map(|word| match known.get(word.trim()).copied().or_else(|| split(word)) {
            Some(split) => format!("{word}={split}"),
            None => format!("{word}=SPLIT"),
        })
        .collect();
    match pairs.is_empty() {
        true => column.to_owned(),
        false => format!("{column}:{}", pairs.join(",")),
    }
}

/// Several columns that may have the classes.
pub(super) fn which_labels(columns: &[&String]) -> Doubt {
    let text = format!("{} may be the classes", named(columns.iter().copied()));
    let when = match columns {
        [_] => "if all are fields, and there are no classes",
        _ => "if none of them is",
    };
    let way = |column: &&String| WayToRead {
        label_column: Some((*column).clone()),
        ..WayToRead::new(&format!("if `{column}` is"), &[])
    };
    let none = WayToRead { label_column: Some("none".to_owned()), ..WayToRead::new(when, &[]) };
    Doubt::new(text, columns.iter().map(way).chain([none]).collect())
}

/// Numbers of classes with large gaps between them, which stay as they are.
pub(super) fn sparse(name: &str, n: usize, most: i64) -> Doubt {
    let text = format!(
        "the largest of the {n} classes in column `{name}` is {most}: labels are these numbers, and not 0 to {}; a list of the classes, in the order of their numbers, gives others",
        n.saturating_sub(1)
    );
    Doubt::new(text, Vec::new())
}

/// Numbers among words, so that all of them are names.
pub(super) fn mixed(name: &str, word: &str, number: &str) -> Doubt {
    let text = format!(
        "column `{name}` has numbers such as `{number}`, but also `{word}`, so all of them are names of classes: the label of `{number}` is not {number}"
    );
    Doubt::new(text, Vec::new())
}

/// A column of 0 and 1 for each split.
pub(super) fn splits_in_flags<'a>(columns: impl Iterator<Item = &'a String>) -> Doubt {
    let text = format!(
        "columns {} were stored as fields and do not set splits: a single column with the word of each row's split would",
        named(columns)
    );
    Doubt::new(text, Vec::new())
}

/// The column of file names was found by its values.
pub(super) fn found_by_values(name: &str) -> Doubt {
    let text =
        format!("file names are taken from the column `{name}`, since what is in it names images");
    Doubt::new(text, Vec::new())
}
