//! Files beside the images that may have the labels, by their names alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Extensions of tables.
const TABLES: [&str; 5] = ["csv", "tsv", "jsonl", "parquet", "json"];
/// The folder of YOLO's texts.
const YOLO: &str = "labels";
/// Most tables that a message names.
const MOST_NAMED: usize = 8;

/// The likeliest tables of labels among the files that are not images.
#[derive(Debug, Default)]
pub(crate) struct TablesBeside {
    /// How far down the likeliest table is, its name, and the files of this name.
    best: Option<(u8, String)>,
    files: BTreeSet<PathBuf>,
    /// The folder that all files of XML are in, which may have boxes.
    xml: Option<PathBuf>,
    /// The folder that files of JSON are in, and their number: one for each image may have boxes.
    json: Option<PathBuf>,
    n_json: u64,
    /// Folders of texts with boxes.
    yolo: BTreeSet<PathBuf>,
}

impl TablesBeside {
    /// Takes a file that is no image.
    pub(crate) fn add(&mut self, path: &Path, extension: &str) {
        let folder = path.parent().unwrap_or(path);
        match extension {
            "xml" => {
                let all = self.xml.get_or_insert_with(|| folder.to_owned());
                while !folder.starts_with(&all) && all.pop() {}
            }
            "txt" if folder.components().any(|part| part.as_os_str() == YOLO) => {
                let up = |path: &&Path| path.file_name().is_some_and(|name| name == YOLO);
                let folder = folder.ancestors().find(up).unwrap_or(folder);
                if self.yolo.len() < MOST_NAMED && !self.yolo.contains(folder) {
                    self.yolo.insert(folder.to_owned());
                }
            }
            "json" => {
                self.n_json += 1;
                let all = self.json.get_or_insert_with(|| folder.to_owned());
                while !folder.starts_with(&all) && all.pop() {}
                self.table(path, extension);
            }
            extension if TABLES.contains(&extension) => self.table(path, extension),
            _ => {}
        }
    }

    fn table(&mut self, path: &Path, extension: &str) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let rank = (likely(&name.to_lowercase(), extension), name);
        match &self.best {
            Some(best) if *best < rank => return,
            Some(best) if *best == rank => {}
            _ => {
                self.files.clear();
                self.best = Some(rank);
            }
        }
        if self.files.len() < MOST_NAMED {
            self.files.insert(path.to_owned());
        }
    }

    /// The likeliest tables; those of one name in several folders are parts of one.
    pub(crate) fn likeliest(&self) -> Vec<String> {
        let shown = |path: &PathBuf| path.display().to_string();
        match (&self.xml, self.yolo.is_empty()) {
            (_, false) => self.yolo.iter().map(shown).collect(),
            (Some(folder), true) => vec![shown(folder)],
            (None, true)
                if self.n_json > 2 && self.best.as_ref().is_some_and(|(rank, _)| *rank >= 3) =>
            {
                self.json.iter().map(shown).collect()
            }
            (None, true) => self.files.iter().map(shown).collect(),
        }
    }
}

/// How far down a table is among those that may have the labels, by its name in lower case.
fn likely(name: &str, extension: &str) -> u8 {
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let by_name = match name {
        _ if has(&["submission", "test"]) => 2,
        _ if has(&["label", "train", "annot", "meta", "truth"]) => 0,
        _ => 1,
    };
    // JSON beside images often has something else.
    by_name + if extension == "json" { 3 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeliest(paths: &[&str]) -> Vec<String> {
        let mut tables = TablesBeside::default();
        for path in paths {
            let path = Path::new(path);
            tables.add(path, path.extension().unwrap().to_str().unwrap());
        }
        tables.likeliest()
    }

    #[test]
    fn the_likeliest_tables_are_named() {
        assert_eq!(likeliest(&["d/sample_submission.csv", "d/train.csv"]), ["d/train.csv"]);
        assert_eq!(likeliest(&["d/test.csv", "d/names.csv", "d/a.json"]), ["d/names.csv"]);
        let both = ["h/test/metadata.csv", "h/train/metadata.csv"];
        assert_eq!(likeliest(&both), both);
        assert_eq!(likeliest(&["v/a/1.xml", "v/b/2.xml", "v/x.csv"]), ["v"]);
        let yolo = ["y/train/labels/1.txt", "y/val/labels/2.txt", "y/data.txt"];
        assert_eq!(likeliest(&yolo), ["y/train/labels", "y/val/labels"]);
        assert_eq!(likeliest(&["y/labels/train/1.txt", "y/labels/val/2.txt"]), ["y/labels"]);
    }
}
