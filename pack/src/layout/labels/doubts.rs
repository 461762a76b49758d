//! What is not clear about tables, with each way to read them.

use std::path::Path;

use super::rows::Tables;
use crate::facts::{Doubt, WayToRead, counted};
use crate::layout::LayoutError;

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
    let others = tables.beside_boxes(path);
    if tables.has_boxes(path)? && !others.is_empty() {
        let text = format!(
            "`{}` has a row for each box, of which these columns are left out: {}",
            path.display(),
            crate::facts::named(others.iter())
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
        "column `{name}` has another text in each row, so it is a field, and there are no classes"
    );
    let when = "if these are the classes";
    let way = WayToRead { label_column: Some(name.to_owned()), ..WayToRead::new(when, &[]) };
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
    let text = format!(
        "column `{name}` has classes such as `{word}`, which are divided at `{separator}`: an image can have several"
    );
    Doubt::new(text, Vec::new())
}

/// A column whose classes look like several, such as `edema|mass`.
pub(super) fn several(name: &str, word: &str) -> Doubt {
    let text = format!(
        "column `{name}` has the class `{word}`, which looks like several: a separator of labels divides them"
    );
    Doubt::new(text, Vec::new())
}

/// Columns that may be the sides of one box for each image.
pub(super) fn boxes_as_numbers(columns: &[&String]) -> Doubt {
    let columns = crate::facts::named(columns.iter().copied());
    let text = format!(
        "{columns} may be boxes, and are stored as numbers, which do not move with the image; boxes have the columns `xmin`, `ymin`, `xmax` and `ymax`"
    );
    Doubt::new(text, Vec::new())
}
