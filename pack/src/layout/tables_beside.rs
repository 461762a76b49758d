//! Files beside the images that may have the labels, by their names alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gular_bundle::{FieldName, Split};

use super::companions::beside_word_for_split;
use super::error::LayoutError;
use super::first_rows::FirstRows;
use super::folders::Folders;
use super::labels::is_counted;
use super::split_lists::{has_no_header, of_line, path_and_class, says_more};
use super::unread_formats::{check_format, may_be_unread};
use crate::facts::{PythonCommand, WayToRead, is_of_source, is_sentence, literal, split_within};
use crate::source::{
    Inputs, find_key, find_label, first_line, is_of_classes, is_of_run_lengths, media_type_of,
    separator_of,
};

/// Extensions of tables.
const TABLES: [&str; 5] = ["csv", "tsv", "jsonl", "parquet", "json"];
/// The folder of YOLO's texts.
pub(super) const YOLO: &str = "labels";
/// The longest first line of a text that is looked at.
pub(super) const MOST_LINE: u64 = 4096;
/// Most tables that a message names, and texts that are looked into.
const MOST_NAMED: usize = 8;

/// Writes masks of run lengths. Its arguments are the folder of the images, the table, the columns of
/// file names and of run lengths, the order of the pixels, the folder of the masks and, if there are
/// classes, their column. Source: the pages of data of Kaggle's competitions: each run is the number of
/// its first pixel, counted from 1, and its length.
const MASKS_OF_RUN_LENGTHS: &str = concat!(
    "import csv, sys, numpy as np; from pathlib import Path as P; from PIL import Image as I; ",
    "images, table, key, runs, order, out, *kind = sys.argv[1:]; ",
    r#"o = {"columns": "F", "rows": "C"}[order]; f = open(table, newline="", encoding="utf-8-sig"); "#,
    r#"d = csv.DictReader(f, delimiter=max(",;\t|", key=f.readline().count)); f.seek(0); "#,
    "d.fieldnames = [n.strip() for n in d.fieldnames]; t = list(d); r = {}; ",
    "[r.setdefault(P(x[key].strip()).name, []).append(x) for x in t]; ",
    // Classes that are not numbers from 1 are numbered in sorted order; 0 is the rest.
    "k = sorted({x[c].strip() for x in t for c in kind}, key=lambda c: c.zfill(9) if c.isdigit() else c); ",
    "n = {c: int(c) if all(c.isdigit() and int(c) for c in k) else i for i, c in enumerate(k, 1)}; ",
    r#"kind and print("values of classes in the masks:", n); "#,
    r#"p = sorted(q for q in P(images).rglob("*") if q.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp", ".bmp")); "#,
    "u = [q for q in p if q.name in r or q.stem in r]; ",
    r#"u or sys.exit(f"no image in {images} is named in column {key} of {table}"); "#,
    r#"len({q.stem for q in u}) == len(u) or sys.exit(f"images in {images} have equal names, which {table} does not tell apart"); "#,
    "[I.fromarray(np.frombuffer(m, np.uint8).reshape((h, w), order=o)).save(z) ",
    "for q in p for w, h in [I.open(q).size] for m in [bytearray(w * h)] ",
    "if [m.__setitem__(slice(s - 1, s - 1 + l), bytes([v]) * l) ",
    "for x in r.get(q.name, []) + r.get(q.stem, []) for v in [n[x[kind[0]].strip()] if kind else 1] ",
    r#"for a in [[int(i) for i in (x[runs] or "").split()]] "#,
    "if a == [-1] or len(a) % 2 == 0 and a[::2] == sorted(a[::2]) ",
    r#"or sys.exit(f"the runs of {q.name} are not pairs of a rising first pixel and a length") "#,
    "for s, l in zip(a[::2], a[1::2])] or 1 ",
    r#"if len(m) == w * h or sys.exit(f"the runs of {q.name} do not fit its {w} x {h} pixels") "#,
    r#"for z in [P(out, q.relative_to(images)).with_suffix(".png")] if z.parent.mkdir(parents=True, exist_ok=True) or 1]; "#,
    r#"print(f"{len(p)} masks, {len(p) - len(u)} of them for images without a row")"#,
);

/// The likeliest tables of labels among the files that are not images.
#[derive(Debug, Default)]
pub(crate) struct TablesBeside {
    /// How far down the likeliest table is, its name, and the files of this name.
    best: Option<(u8, String)>,
    files: BTreeSet<PathBuf>,
    /// All tables that may be of rows about images.
    of_rows: BTreeSet<PathBuf>,
    /// Tables with the names of splits, such as `train.csv` and `val.csv`.
    by_split: BTreeMap<PathBuf, Split>,
    /// The folder that all files of XML are in, which may have boxes, and the folders of the first ones.
    xml: Option<PathBuf>,
    xml_folders: BTreeSet<PathBuf>,
    /// The folder that files of JSON are in, and their number: one for each image may have boxes.
    json: Option<PathBuf>,
    n_json: u64,
    /// A table of the colours that the classes of masks have.
    colours: Option<PathBuf>,
    /// Folders of texts with boxes.
    yolo: BTreeSet<PathBuf>,
    /// Lists of images and their classes, each with the pattern of its lines.
    lists: BTreeSet<String>,
    /// Texts of which the first line was read, and those of them that begin with a sentence.
    n_texts: usize,
    n_sentences: usize,
    text_folders: BTreeSet<PathBuf>,
    /// Why the first texts are not read, if they have annotations in a format that is known.
    pub(crate) unread: Option<LayoutError>,
    n_checked: usize,
}

impl TablesBeside {
    /// Takes a file that is not an image.
    pub(crate) fn add(&mut self, path: &Path, extension: &str) {
        let folder = path.parent().unwrap_or(path);
        if may_be_unread(extension) && self.n_checked < MOST_NAMED {
            self.n_checked += 1;
            self.unread = self.unread.take().or_else(|| check_format(path).err());
        }
        match extension {
            _ if is_of_colours(path, extension) => self.colours = Some(path.to_owned()),
            "xml" => {
                if self.xml_folders.len() <= MOST_NAMED && !self.xml_folders.contains(folder) {
                    self.xml_folders.insert(folder.to_owned());
                }
                let all = self.xml.get_or_insert_with(|| folder.to_owned());
                while !folder.starts_with(&all) && all.pop() {}
            }
            "txt"
                if folder.components().any(|part| part.as_os_str() == YOLO)
                    && path_and_class(&first_line(path, MOST_LINE)).is_none() =>
            {
                let up = |path: &&Path| path.file_name().is_some_and(|name| name == YOLO);
                let folder = folder.ancestors().find(up).unwrap_or(folder);
                if self.yolo.len() < MOST_NAMED && !self.yolo.contains(folder) {
                    self.yolo.insert(folder.to_owned());
                }
            }
            "txt" | "lst" if self.n_texts < MOST_NAMED => {
                self.n_texts += 1;
                self.text_folders.insert(folder.to_owned());
                let line = first_line(path, MOST_LINE);
                if is_box(&line) {
                    self.yolo.insert(folder.to_owned());
                }
                self.n_sentences += usize::from(is_sentence(&line));
                self.lists.extend(of_labels(path, &line));
                let columns = columns(path);
                if (columns.len() > 1 && find_key(&columns).is_some()) || is_counted(path) {
                    self.table(path, "csv");
                }
            }
            "json" => {
                self.n_json += 1;
                let all = self.json.get_or_insert_with(|| folder.to_owned());
                while !folder.starts_with(&all) && all.pop() {}
                self.of_split(path);
                self.table(path, extension);
            }
            _ if has_no_header(path, extension) => {
                let list = of_labels(path, &first_line(path, MOST_LINE));
                self.lists.extend(list.filter(|_| self.lists.len() < MOST_NAMED));
            }
            extension if TABLES.contains(&extension) => {
                self.of_split(path);
                self.table(path, extension);
            }
            _ => {}
        }
    }

    fn of_split(&mut self, path: &Path) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if let Some(split) = split_within(&stem).filter(|_| self.by_split.len() < MOST_NAMED) {
            self.by_split.insert(path.to_owned(), split);
        }
    }

    fn table(&mut self, path: &Path, extension: &str) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let rank = (likely(&name.to_lowercase(), extension), name);
        if rank.0 < 2 && self.of_rows.len() < MOST_NAMED {
            self.of_rows.insert(path.to_owned());
        }
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

    /// Whether XML is in several folders of one name, such as `train/annotations`.
    fn are_xml_folders_alike(&self) -> bool {
        let names: BTreeSet<_> = self.xml_folders.iter().map(|path| path.file_name()).collect();
        (2..=MOST_NAMED).contains(&self.xml_folders.len()) && names.len() == 1
    }

    /// All tables that may have classes, but not those of what is to be submitted, whose classes are
    /// examples.
    pub(crate) fn with_classes(&self) -> Vec<String> {
        let all: BTreeSet<&PathBuf> =
            self.files.iter().chain(&self.of_rows).chain(self.by_split.keys()).collect();
        let name = |path: &PathBuf| path.display().to_string();
        let is_example = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            name.contains("submission") || name.contains("sample")
        };
        all.into_iter().filter(|path| !is_example(path)).map(name).collect()
    }

    /// The table of the training images, with that of validation if there is one, and that of the test
    /// images, which alone lacks some column, as competitions have them.
    pub(crate) fn of_training_alone(&self) -> Option<(Vec<String>, String)> {
        let of = |wanted: Split| {
            let mut found = self.by_split.iter().filter(|(_, split)| **split == wanted);
            found.next().map(|(path, _)| path).filter(|_| found.next().is_none())
        };
        let (training, test) = (of(Split::Train)?, of(Split::Test)?);
        let of_test = columns(test);
        let is_hidden = find_label(&of_test).is_none()
            && columns(training).iter().any(|column| !of_test.contains(column));
        let shown = |path: &PathBuf| path.display().to_string();
        let of_split = |path: &PathBuf, split| format!("{}={{split={split}}}", path.display());
        let has_val = self.by_split.values().any(|split| *split == Split::Val);
        let training = match of(Split::Val) {
            None if has_val => return None,
            None => vec![shown(training)],
            Some(val) => vec![of_split(training, Split::Train), of_split(val, Split::Val)],
        };
        is_hidden.then(|| (training, shown(test)))
    }

    /// The likeliest table of which a column names what many images are of, and that column, if it can
    /// be a part of paths.
    pub(crate) fn of_sources(&self) -> Option<(String, String)> {
        self.of_rows().into_iter().find_map(|table| {
            let columns = columns(Path::new(&table));
            let is_part = |column: &&String| {
                is_of_source(column) && FieldName::parse(&part(column)).is_some()
            };
            let column = columns.iter().find(is_part)?.clone();
            Some((table, column))
        })
    }

    /// The way to read the run lengths of masks in a table of the images in `source`, which is a
    /// folder: by a command that writes them as PNG.
    pub(crate) fn run_lengths(&self, source: &Path, images: &[String]) -> Option<WayToRead> {
        let tables = self.of_rows().into_iter().map(|table| (columns(Path::new(&table)), table));
        let has_lengths = |(columns, _): &(Vec<String>, String)| {
            columns.iter().any(|column| is_of_run_lengths(column))
        };
        let (columns, table) = tables.into_iter().find(has_lengths)?;
        let lengths = columns.iter().find(|column| is_of_run_lengths(column))?;
        let key = find_key(&columns)?;
        let class = columns.iter().find(|column| is_of_classes(column));
        // Masks are written as the images are in their folder, so that keys fit.
        let [pattern] = images else { return None };
        let below = pattern.rsplit_once("{split=").map_or(pattern.as_str(), |(_, rest)| {
            rest.split_once('}').map_or(rest, |(_, below)| below)
        });
        let (folder, rest) = below.split_at(below.find('{')?);
        let folder = folder.rsplit_once('/').map_or("", |(folder, _)| folder);
        let rest = below.get(folder.len()..).unwrap_or(rest).trim_start_matches('/');
        if !source.is_dir() || ["{{", "}}"].iter().any(|brace| pattern.contains(brace)) {
            return None;
        }
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        let out = format!("{name}_masks");
        let folder = source.join(folder).display().to_string();
        let order = "columns".to_owned();
        let given = [folder, table.clone(), key.clone(), lengths.clone(), order, out.clone()];
        let arguments = given.into_iter().chain(class.cloned()).collect();
        let when = format!(
            "if the run lengths in `{table}` are the masks, and count pixels from 1, down one column after the other, as those of Airbus and Severstal do (write `rows` in place of `columns` where they run along rows, as those of Carvana do)"
        );
        let mask = format!("./{}/{}", literal(&out), rest.replace(".{ext}", ".png"));
        Some(WayToRead {
            files: vec![("mask".to_owned(), mask)],
            convert: Some(PythonCommand { program: MASKS_OF_RUN_LENGTHS, arguments }),
            asks: true,
            ..WayToRead::new(&when, &[pattern])
        })
    }

    /// The table of the colours of masks.
    pub(crate) fn colours(&self) -> Option<String> {
        self.colours.as_ref().map(|path| path.display().to_string())
    }

    /// Lists of images and their classes, each with the pattern of its lines.
    pub(crate) fn lists(&self) -> Vec<String> {
        self.lists.iter().cloned().collect()
    }

    /// The likeliest tables if these are of rows, not lists of what is to be submitted.
    pub(crate) fn of_rows(&self) -> Vec<String> {
        let is_likely = self.best.as_ref().is_some_and(|(rank, _)| *rank < 2);
        let files = self.files.iter().filter(|_| is_likely);
        files.map(|path| path.display().to_string()).collect()
    }

    /// Whether the first texts begin with sentences, as captions do.
    pub(crate) fn are_sentences(&self) -> bool {
        self.n_texts > 0 && self.n_sentences == self.n_texts
    }

    /// The folder below `source` that has the first texts, if they are in one.
    pub(crate) fn folder_of_texts(&self, source: &Path) -> Option<String> {
        let folder = self.text_folders.first().filter(|_| self.text_folders.len() == 1)?;
        let below = folder.strip_prefix(source).ok()?.to_str()?;
        (!below.is_empty()).then(|| below.to_owned())
    }

    /// Whether the likeliest are folders of texts with boxes.
    pub(crate) fn are_of_boxes(&self) -> bool {
        !self.yolo.is_empty()
    }

    /// Further tables that may be about the images.
    pub(crate) fn besides(&self, tables: &[String]) -> Vec<String> {
        let all = self.of_rows.iter().filter(|path| !self.by_split.contains_key(*path));
        let all = all.map(|path| path.display().to_string());
        all.filter(|path| !tables.contains(path)).collect()
    }

    /// The tables of all splits, if there are several.
    pub(crate) fn of_all_splits(&self) -> Vec<String> {
        let of = |(path, split): (&PathBuf, Split)| format!("{}={{split={split}}}", path.display());
        let splits: BTreeSet<Split> = self.by_split.values().copied().collect();
        let is_one_each = splits.len() > 1 && splits.len() == self.by_split.len();
        if is_one_each {
            return self.by_split.iter().map(|(path, split)| of((path, *split))).collect();
        }
        // Those whose names differ in the split alone, such as `train_captions` and `val_captions`.
        let mut kinds: BTreeMap<String, BTreeMap<Split, Vec<&PathBuf>>> = BTreeMap::new();
        for (path, split) in &self.by_split {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(kind) = beside_word_for_split(&name) else { continue };
            kinds.entry(kind).or_default().entry(*split).or_default().push(path);
        }
        let is_whole = |kind: &&BTreeMap<Split, Vec<&PathBuf>>| {
            kind.len() > 1 && kind.len() == splits.len() && kind.values().all(|of| of.len() == 1)
        };
        let first = kinds.values().find(is_whole).into_iter().flatten();
        first.flat_map(|(split, paths)| paths.iter().map(|path| of((*path, *split)))).collect()
    }

    /// The likeliest tables; in place of those whose rows are about no image, the only one whose rows
    /// are.
    pub(super) fn likeliest_of(&self, folders: &Folders) -> Vec<String> {
        let likeliest = self.likeliest();
        // Unknown of what is not read.
        let are_of_images = |table: &String| {
            let file = table.split("={").next().unwrap_or(table);
            FirstRows::read(file).map(|rows| rows.are_of_images(folders))
        };
        if likeliest.iter().any(|table| are_of_images(table) != Some(false)) {
            return likeliest;
        }
        // Those of the likeliest are about none.
        let mut others = self.with_classes();
        others.retain(|table| are_of_images(table) == Some(true));
        match (others.len(), self.lists.len()) {
            (1, _) => others,
            (0, 1) => self.lists(),
            _ => likeliest,
        }
    }

    /// The likeliest tables; those of one name in several folders are parts of one.
    pub(crate) fn likeliest(&self) -> Vec<String> {
        let shown = |path: &PathBuf| path.display().to_string();
        // One beside that of the training images mostly has the labels of the test hidden, but for one
        // of validation nothing is.
        let has = |split| self.by_split.values().any(|of| *of == split);
        let all = self.of_all_splits();
        if has(Split::Train) && has(Split::Val) && !all.is_empty() {
            return all;
        }
        match (&self.xml, self.yolo.is_empty()) {
            (_, false) => self.yolo.iter().map(shown).collect(),
            // One for each part of the images: from their common folder, paths would be others than
            // those of the images.
            (Some(_), true) if self.are_xml_folders_alike() => {
                self.xml_folders.iter().map(shown).collect()
            }
            (Some(folder), true) => vec![shown(folder)],
            // One for each split, as Roboflow names them.
            (None, true) if self.n_json > 1 && self.files.len() as u64 == self.n_json => {
                self.files.iter().map(shown).collect()
            }
            (None, true)
                if self.n_json > 2 && self.best.as_ref().is_some_and(|(rank, _)| *rank >= 3) =>
            {
                self.json.iter().map(shown).collect()
            }
            (None, true) if self.files.is_empty() && self.lists.len() == 1 => self.lists(),
            (None, true) => self.files.iter().map(shown).collect(),
        }
    }
}

/// The part of paths that a column of this name is joined with.
pub(super) fn part(column: &str) -> String {
    column.trim().to_lowercase().replace([' ', '-'], "_")
}

/// The names of the columns of a table in text.
fn columns(table: &Path) -> Vec<String> {
    let line = first_line(table, MOST_LINE);
    let separator = char::from(separator_of(line.as_bytes()));
    let names = line.trim_start_matches('\u{feff}').split(separator);
    names.map(|name| name.trim().trim_matches('"').to_owned()).collect()
}

/// Whether a file has the colours of masks, by its name. Source: CamVid and DeepGlobe
/// (`class_dict.csv`), the Semantic Drone Dataset (`class_dict_seg.csv`), SegNet (`label_colors.txt`).
fn is_of_colours(path: &Path, extension: &str) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let has = |word: &&str| stem.contains(*word);
    // That of CVAT; others of this name have names alone.
    let is_map = || stem == "labelmap" && first_line(path, MOST_LINE).starts_with("# label:color");
    let names = ["class_dict", "colormap", "color_map", "label_color", "colour"];
    ["csv", "txt"].contains(&extension) && (names.iter().any(has) || is_map())
}

/// Whether a line is a box of YOLO: a class and four fractions.
fn is_box(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let class = words.next().is_some_and(|word| word.parse::<u32>().is_ok());
    let sides: Vec<&str> = words.collect();
    let is_fraction =
        |side: &&str| side.parse::<f64>().is_ok_and(|side| (0.0..=1.0).contains(&side));
    class && sides.len() == 4 && sides.iter().all(is_fraction)
}

/// A list whose first line is the name of an image and one word more, or a box or an amount: with the
/// pattern of its lines.
fn of_labels(path: &Path, line: &str) -> Option<String> {
    let of_amounts = Some(of_line(line)).filter(|pattern| says_more(pattern));
    if let Some(pattern) = of_amounts {
        return Some(format!("{}={pattern}", path.display()));
    }
    // The transcripts of ICDAR's words.
    if let Some((name, text)) = line.split_once(", \"")
        && media_type_of(name, Inputs::Images).is_some()
        && text.ends_with('"')
    {
        return Some(format!("{}={{path}}, \"{{text:.*}}\"", path.display()));
    }
    let of = |(separator, between, one): &(char, &str, &str)| {
        let (name, class) = line.rsplit_once(*separator)?;
        let is_image = media_type_of(name, Inputs::Images).is_some();
        // Blanks in a name, or in a class, do not divide these.
        let class_of = if name.contains(*separator) { *one } else { "" };
        let is_class = !class.is_empty() && !class.starts_with([' ', '"']) && !is_sentence(class);
        (is_image && is_class)
            .then(|| format!("{}={{path}}{between}{{label{class_of}}}", path.display()))
    };
    // A tab could not be copied from a terminal.
    let separators = [('\t', "{*:\\t}", ":[^\\t]+"), (',', ",", ":[^,]+"), (' ', " ", ":[^ ]+")];
    separators.iter().find_map(of)
}

/// How far down a table is among those that may have the labels, by its name in lower case.
fn likely(name: &str, extension: &str) -> u8 {
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let by_name = match name {
        _ if has(&["submission", "test"]) => 2,
        _ if has(&["label", "train", "annot", "meta", "truth", "instances"]) => 0,
        _ => 1,
    };
    // JSON beside images often has something else.
    by_name + if extension == "json" { 3 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_classes_are_divided_behind_the_name() {
        let of = |line: &str| of_labels(Path::new("l.txt"), line);
        let list = |pattern: &str| Some(format!("l.txt={pattern}"));
        assert_eq!(of("1.jpg cat"), list("{path} {label}"));
        assert_eq!(of("1.jpg,red fox"), list("{path},{label}"));
        assert_eq!(of("a photo 1.jpg\tred fox"), list("{path}{*:\\t}{label}"));
        assert_eq!(of("a photo 1.jpg cat"), list("{path} {label:[^ ]+}"));
        assert_eq!(of("1.jpg 3 4"), None);
        assert_eq!(of("1.jpg 0.5"), list("{path} {value}"));
        assert_eq!(of("1.jpg,1,2,3,4,cat"), list("{path},{xmin},{ymin},{xmax},{ymax},{label}"));
        assert_eq!(of("1.jpg, \"one, two\""), list("{path}, \"{text:.*}\""));
        assert_eq!(of("1.jpg\ta photo of a face in the sun"), None);
        assert_eq!(of("a sentence"), None);
    }

    fn likeliest(paths: &[&str]) -> Vec<String> {
        let mut tables = TablesBeside::default();
        for path in paths {
            let path = Path::new(path);
            tables.add(path, path.extension().unwrap().to_str().unwrap());
        }
        tables.likeliest()
    }

    #[test]
    fn names_are_not_in_the_text_of_a_program() {
        let dir = tempfile::tempdir().unwrap();
        let table =
            dir.path().join("x\"))]; __import__(\"os\").system(\"id\"); [0 for _ in ((\".csv");
        std::fs::write(&table, "ImageId,EncodedPixels,{Class Id}\n1.jpg,1 3,a\n").unwrap();
        let mut tables = TablesBeside::default();
        tables.add(&table, "csv");
        let of = |pattern: &str| tables.run_lengths(dir.path(), &[pattern.to_owned()]);
        let way = of("{split=train}train_v2/{key}.{ext}").unwrap();
        let command = way.convert.unwrap();
        assert!(!command.program.contains('\'') && !command.program.contains("__import__"));
        let folder = dir.path().join("train_v2").display().to_string();
        let name = dir.path().file_name().unwrap().to_str().unwrap();
        let (table, out) = (table.display().to_string(), format!("{name}_masks"));
        let given = [&*folder, &table, "ImageId", "EncodedPixels", "columns", &out, "{Class Id}"];
        assert_eq!(command.arguments, given);
        assert_eq!(way.files[0].1, format!("./{out}/{{key}}.png"));
        assert_eq!(
            of("{split}/{key}.{ext}").unwrap().files[0].1,
            format!("./{out}/{{split}}/{{key}}.png")
        );
        assert!(of("a{{b/{key}.{ext}").is_none());
    }

    #[test]
    fn the_likeliest_tables_are_named() {
        assert_eq!(likeliest(&["d/sample_submission.csv", "d/train.csv"]), ["d/train.csv"]);
        assert_eq!(likeliest(&["d/test.csv", "d/names.csv", "d/a.json"]), ["d/names.csv"]);
        let of_splits = ["d/train.csv={split=train}", "d/val.csv={split=val}"];
        assert_eq!(likeliest(&["d/val.csv", "d/train.csv", "d/names.csv"]), of_splits);
        let several = ["train_a.csv", "train_b.csv", "val_a.csv", "val_b.csv", "x.csv"];
        assert_eq!(likeliest(&several), ["train_a.csv={split=train}", "val_a.csv={split=val}"]);
        let both = ["h/test/metadata.csv", "h/train/metadata.csv"];
        assert_eq!(likeliest(&both), both);
        assert_eq!(likeliest(&["v/a/1.xml", "v/b/2.xml", "v/x.csv"]), ["v"]);
        let of_splits = ["v/test/xmls", "v/train/xmls"];
        assert_eq!(likeliest(&["v/train/xmls/1.xml", "v/test/xmls/2.xml"]), of_splits);
        let yolo = ["y/train/labels/1.txt", "y/val/labels/2.txt", "y/data.txt"];
        assert_eq!(likeliest(&yolo), ["y/train/labels", "y/val/labels"]);
        assert_eq!(likeliest(&["y/labels/train/1.txt", "y/labels/val/2.txt"]), ["y/labels"]);
    }
}
