//! What the columns of tables are called, and how their lines are divided.

use gular_bundle::Split;

use crate::facts::split_like;

/// Longest row of a table.
pub(crate) const MOST_ROW_BYTES: u64 = 64 << 20;

/// The mark that some programs write before a text in UTF-8.
pub(crate) const BOM: &[u8] = "\u{feff}".as_bytes();

/// Names that columns of files go by, best first; letters in lower case, nothing between.
const KEY_NAMES: [&str; 22] = [
    "filename",
    "filenames",
    "file",
    "path",
    "paths",
    "filepath",
    "filepaths",
    "imagepath",
    "imagefile",
    "image",
    "images",
    "imageid",
    "imageindex",
    "imagename",
    "patchid",
    "img",
    "key",
    "id",
    "name",
    "uuid",
    "jpg",
    "png",
];

/// Names that columns of labels go by, best first; `y` beside `x` is a coordinate.
const LABEL_NAMES: [&str; 18] = [
    "label",
    "labels",
    "class",
    "classes",
    "cls",
    "target",
    "category",
    "classname",
    "labelname",
    "tags",
    "finelabel",
    "findinglabels",
    "diagnosis",
    // HAM10000 and PAD-UFES-20.
    "dx",
    "diagnostic",
    "species",
    // Label Studio's exports of classes.
    "choice",
    "y",
];

/// Names of columns with texts about an image, which are not classes. Source: Flickr8k, Flickr30k, COCO
/// and the datasets of texts to images on Hugging Face's hub.
const TEXT_NAMES: [&str; 9] = [
    "caption",
    "captions",
    "text",
    "texts",
    "sentence",
    "sentences",
    "comment",
    "description",
    "prompt",
];

/// Words for what classes are of.
const CLASSES: [&str; 22] = [
    "class",
    "label",
    "category",
    "kind",
    "type",
    "sort",
    "species",
    "breed",
    "variety",
    "genus",
    "family",
    "disease",
    "diagnosis",
    "finding",
    "emotion",
    "expression",
    "landmark",
    "object",
    "product",
    "style",
    "weather",
    "defect",
];

/// Names that columns of splits go by.
const SPLIT_NAMES: [&str; 10] = [
    "split",
    "subset",
    "partition",
    "dataset",
    "usage",
    "fold",
    "setname",
    "phase",
    "kfold",
    "datasplit",
];

/// What follows a name of splits where values are numbers, as in `split_id`.
const NUMBERED: [&str; 5] = ["id", "no", "number", "index", "idx"];

/// Names of columns that as often say something else, of which the values decide. Source: Pascal
/// VOC's `ImageSets`, and the tables of VGG's datasets (`set`, `setid`).
const SET_NAMES: [&str; 3] = ["set", "imageset", "imgset"];

/// The column of the images' files, by its name.
pub(crate) fn find_key(columns: &[String]) -> Option<&String> {
    find(columns, &KEY_NAMES)
}

/// Finds the column of labels by its name.
pub(crate) fn find_label(columns: &[String]) -> Option<&String> {
    find(columns, &LABEL_NAMES).filter(|column| !is_half(column, columns))
}

/// Finds the column of splits by its name.
pub(crate) fn find_split(columns: &[String]) -> Option<&String> {
    find(columns, &SPLIT_NAMES)
}

/// All columns whose names are names of labels.
pub(crate) fn all_labels(columns: &[String]) -> impl Iterator<Item = &String> {
    let named = |column: &&String| LABEL_NAMES.contains(&plain(column).as_str());
    columns.iter().filter(named).filter(|column| !is_half(column, columns))
}

/// Whether a column's name is one of run lengths. Source: Kaggle's competitions of segmentation
/// (Airbus ships, Carvana, DSB 2018, SIIM pneumothorax, iMaterialist).
pub(crate) fn is_of_run_lengths(column: &str) -> bool {
    matches!(plain(column).as_str(), "encodedpixels" | "rlemask" | "rle")
}

/// Whether a column's name is one of boxes in a text, such as `BoxesString`.
pub(crate) fn is_of_boxes(column: &str) -> bool {
    ["boxes", "boxesstring", "boxesstrings", "bboxesstring", "boundingboxes"]
        .contains(&plain(column).as_str())
}

/// Whether a column's name says that it has classes, such as `species` and `landmark_id`. Source: the
/// columns of Kaggle's and LILA's tables.
pub(crate) fn is_of_classes(column: &str) -> bool {
    let name = plain(column);
    let word = name.strip_suffix("id").or_else(|| name.strip_suffix("name")).unwrap_or(&name);
    CLASSES.contains(&word)
}

/// Whether a column's name is one of numbers that only tell rows apart, such as `imgid`.
pub(crate) fn is_of_ids(column: &str) -> bool {
    let name = plain(column);
    (name.ends_with("id") || name.ends_with("ids")) && !is_of_classes(column)
}

/// Whether a column's name is one of texts.
pub(crate) fn is_of_texts(column: &str) -> bool {
    TEXT_NAMES.contains(&plain(column).as_str())
}

/// Whether a column's name is one of splits, or of a split itself, as `is_train` is.
pub(crate) fn is_of_splits(column: &str) -> bool {
    SPLIT_NAMES.contains(&plain(column).as_str()) || split_named(column).is_some()
}

/// Whether a column's name is one of splits and of a number, such as `split_id`; `dataset_id`
/// mostly says where images are from.
pub(crate) fn is_of_numbered_splits(column: &str) -> bool {
    let word = without_number(column);
    word != plain(column) && word != "dataset" && SPLIT_NAMES.contains(&word.as_str())
}

/// Whether a column's name is one of splits only if its values are, such as `set` and `set_id`.
pub(crate) fn may_be_of_splits(column: &str) -> bool {
    SET_NAMES.contains(&without_number(column).as_str())
}

fn without_number(column: &str) -> String {
    let name = plain(column);
    let word = NUMBERED.iter().find_map(|number| name.strip_suffix(number));
    word.map_or(name.clone(), str::to_owned)
}

/// The split that a column is named after, as `is_train` is.
pub(crate) fn split_named(column: &str) -> Option<Split> {
    let name = column.trim();
    let begins = ["is_", "is ", "is"].iter().find_map(|is| name.strip_prefix(is));
    split_like(begins.unwrap_or(name))
}

/// Whether `y` is not a class, as there is `x`, too, or it is only a part of a longer name; nor `dx`
/// beside `dy`.
fn is_half(column: &str, columns: &[String]) -> bool {
    match plain(column).as_str() {
        "y" => find(columns, &["x"]).is_some() || !column.trim().eq_ignore_ascii_case("y"),
        "dx" => find(columns, &["dy"]).is_some(),
        _ => false,
    }
}

pub(crate) fn find<'a>(columns: &'a [String], names: &[&str]) -> Option<&'a String> {
    names.iter().find_map(|name| columns.iter().find(|column| plain(column) == *name))
}

/// A name's letters and digits, in lower case: `File Name`, `fileName` and `file_name` are one.
fn plain(column: &str) -> String {
    column.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns the separator of cells that is most frequent in the first line of a table, from the
/// table's first bytes: `,`, `;`, `|` or a tab; a comma if there is none.
#[must_use]
pub fn separator_of(start: &[u8]) -> u8 {
    let line = start.split(|b| *b == b'\n').next().unwrap_or_default();
    let count = |separator: u8| line.iter().filter(|b| **b == separator).count();
    let mut best = b',';
    for other in [b';', b'\t', b'|'] {
        if count(other) > count(best) {
            best = other;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_however_it_is_written() {
        let columns = ["ImageId", "Class Name"].map(str::to_owned);
        assert_eq!(find_key(&columns), Some(&columns[0]));
        assert_eq!(find_label(&columns), Some(&columns[1]));
        let label = |columns: &[&str]| {
            find_label(&columns.iter().map(|&c| c.to_owned()).collect::<Vec<_>>()).cloned()
        };
        assert_eq!(label(&["y", "category"]), Some("category".to_owned()));
        assert_eq!(label(&["z", "Y"]), Some("Y".to_owned()));
        assert_eq!(label(&["X", "y"]), None);
        assert_eq!(label(&["spacing[x", "y]"]), None);
    }

    #[test]
    fn names_of_splits_may_end_in_a_word_for_a_number() {
        for (column, numbered, by_values) in [
            ("split_id", true, false),
            ("Fold Index", true, false),
            ("set", false, true),
            ("SetID", false, true),
            ("image_set", false, true),
            ("dataset_id", false, false),
            ("offset", false, false),
            ("id", false, false),
        ] {
            let found = (is_of_numbered_splits(column), may_be_of_splits(column));
            assert_eq!(found, (numbered, by_values), "{column}");
        }
    }
}
