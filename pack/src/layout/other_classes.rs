//! Files beside folders of classes that have other classes than these, as those beside folders that
//! only divide many images do:
//!
//! ```text
//! images/0a/10a.png    images/0a/20a.png    images/1b/41b.png
//! train.txt   images/0a/10a.png cat
//!             images/0a/20a.png dog         two classes in one folder
//!             images/1b/41b.png cat         and one in two folders
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::first_rows::FirstRows;
use super::folder_patterns::Recognised;
use super::{Labels, LayoutOptions, SplitLists, TablesBeside};
use crate::facts::{Doubt, WayToRead, named};
use crate::source::Inputs;

/// The question which classes are meant.
pub(crate) fn other_classes(
    tables: &TablesBeside,
    lists: &SplitLists,
    found: &Recognised,
    options: &LayoutOptions<'_>,
) -> Option<Doubt> {
    let is_open = *options.labels == Labels::Path && options.inputs == Inputs::Images;
    if !is_open || found.classes.is_empty() {
        return None;
    }
    let has = |files: &[String]| files.iter().any(|file| has_other_classes(file, &found.classes));
    let classes = "if they have the classes";
    let folders = "if the folders are the classes";
    let images: Vec<String> =
        found.patterns.iter().map(|pattern| pattern.replace("{label}", "{*}")).collect();
    let by_file = WayToRead { images, asks: true, ..WayToRead::new(classes, &[]) };
    let by_folder =
        WayToRead { images: found.patterns.clone(), asks: true, ..WayToRead::new(folders, &[]) };
    let has_splits = !found.splits.is_empty();
    let of_splits = if has_splits { Vec::new() } else { lists.options(false) };
    let tables_of_splits = if has_splits { Vec::new() } else { tables.of_all_splits() };
    let (files, ways) = if has(&of_splits) {
        let by_file = WayToRead { lists: of_splits.clone(), ..by_file };
        (of_splits, [by_file, WayToRead { lists: lists.options(true), ..by_folder }])
    } else if has(&tables_of_splits) {
        let all = Some(tables_of_splits.clone());
        let none = Some("none".to_owned());
        let by_file = WayToRead { tables: all.clone(), ..by_file };
        let by_folder = WayToRead { tables: all, label_column: none, ..by_folder };
        (tables_of_splits, [by_file, by_folder])
    } else {
        let one_of = [tables.lists(), tables.of_rows()];
        let files = one_of.into_iter().find(|files| has(files))?;
        (files.clone(), [WayToRead { tables: Some(files), ..by_file }, by_folder])
    };
    let text = format!(
        "{} {} other classes than the folders of the images",
        named(files.iter().map(|file| path_of(file))),
        if files.len() == 1 { "has" } else { "have" },
    );
    Some(Doubt::new(text, ways.to_vec()))
}

/// The path in the text of an option, which may have a pattern behind it.
fn path_of(file: &str) -> &str {
    file.split("={").next().unwrap_or(file)
}

/// Whether the first rows of a file say that images of one folder have several classes, and images of
/// several folders one.
fn has_other_classes(file: &str, classes: &BTreeSet<String>) -> bool {
    let path = path_of(file);
    let is_list = Path::new(path)
        .extension()
        .is_some_and(|of| ["txt", "lst"].iter().any(|list| of.eq_ignore_ascii_case(list)));
    let rows = if is_list { FirstRows::of_list(path) } else { FirstRows::read(path) };
    let Some(rows) = rows else { return false };
    let mut of_folder: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut of_class: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, class) in rows.classes_of_paths() {
        let mut folders = path.rsplit(['/', '\\']).skip(1);
        if let Some(folder) = folders.find(|folder| classes.contains(*folder)) {
            of_folder.entry(folder).or_default().insert(class);
            of_class.entry(class).or_default().insert(folder);
        }
    }
    let several = |of: &BTreeMap<&str, BTreeSet<&str>>| of.values().any(|of| of.len() > 1);
    several(&of_folder) && several(&of_class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, text: &str, expected: bool) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let classes = ["0a", "1b", "cat", "dog"].map(str::to_owned).into();
        let file = format!("{}={{split=train}}", path.display());
        assert_eq!(has_other_classes(&file, &classes), expected, "{text}");
    }

    #[test]
    fn classes_that_are_others_than_the_folders_are_seen() {
        let list = "images/0a/1.png cat\nimages/0a/2.png dog\nimages/1b/3.png cat\n";
        check("a.txt", list, true);
        check("a.csv", &format!("path,label\n{}", list.replace(' ', ",")), true);
        // Names of the same classes, and numbers of them.
        check("a.txt", "cat/1.png cat\ncat/2.png cat\ndog/3.png dog\n", false);
        check("a.txt", "cat/1.png 0\ncat/2.png 0\ndog/3.png 1\n", false);
        // Classes within classes, and classes of classes.
        check("a.csv", "path,label\ncat/1.png,manx\ncat/2.png,sphynx\ndog/3.png,pug\n", false);
        check("a.csv", "path,label\ncat/1.png,pet\ncat/2.png,pet\ndog/3.png,pet\n", false);
        // Nothing says which folder an image is in.
        check("a.csv", "id,label\n1,cat\n2,dog\n3,cat\n", false);
        check("a.txt", "", false);
    }
}
