//! Which files of a folder or an archive make a dataset, by their names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gular_bundle::Split;
use serde::{Deserialize, Serialize};

use super::pixel_source::first_members;
use super::stl::StlFiles;
use crate::facts::{formats, split_of, stem_and_extension};
use crate::source::{Source, SourceError, SourceOptions, hidden};

/// The form of a dataset whose images are rows of pixels in a few files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PixelFiles {
    /// Images and labels in idx files, as those of MNIST.
    Idx,
    /// Batches of CIFAR-10, as pickles or binary files.
    #[serde(rename = "cifar-10")]
    Cifar10,
    /// The two files of CIFAR-100, as pickles or binary files.
    #[serde(rename = "cifar-100")]
    Cifar100,
    /// The binary files of STL-10.
    #[serde(rename = "stl-10")]
    Stl10,
    /// One table, a row for each image.
    Table,
}

/// The files of one dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileSet {
    Idx(Vec<IdxFiles>),
    Cifar(CifarFiles),
    Stl(StlFiles),
    Table(String),
}

/// The dataset that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundSet {
    pub(super) set: FileSet,
    /// Other files at the same level: the number of each extension.
    pub(super) ignored: BTreeMap<String, u64>,
}

/// The files of one split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdxFiles {
    pub(super) split: Split,
    pub(super) images: String,
    pub(super) labels: Option<String>,
}

/// The files of CIFAR-10 or CIFAR-100.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CifarFiles {
    pub(super) form: &'static CifarForm,
    pub(super) batches: Vec<(Split, String)>,
    /// The files with the names of classes, those that exist.
    pub(super) names: Vec<String>,
}

/// One of the forms in which CIFAR-10 and CIFAR-100 are published.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CifarForm {
    pub(super) is_hundred: bool,
    pub(super) is_binary: bool,
    batches: &'static [(&'static str, Split)],
    names: &'static [&'static str],
    /// Whether the batches have names that other files have, too.
    needs_names: bool,
}

/// Source: <https://www.cs.toronto.edu/~kriz/cifar.html>.
const CIFAR_FORMS: [CifarForm; 4] = [
    CifarForm {
        is_hundred: false,
        is_binary: false,
        batches: &[
            ("data_batch_1", Split::Train),
            ("data_batch_2", Split::Train),
            ("data_batch_3", Split::Train),
            ("data_batch_4", Split::Train),
            ("data_batch_5", Split::Train),
            ("test_batch", Split::Test),
        ],
        names: &["batches.meta"],
        needs_names: false,
    },
    CifarForm {
        is_hundred: false,
        is_binary: true,
        batches: &[
            ("data_batch_1.bin", Split::Train),
            ("data_batch_2.bin", Split::Train),
            ("data_batch_3.bin", Split::Train),
            ("data_batch_4.bin", Split::Train),
            ("data_batch_5.bin", Split::Train),
            ("test_batch.bin", Split::Test),
        ],
        names: &["batches.meta.txt"],
        needs_names: false,
    },
    CifarForm {
        is_hundred: true,
        is_binary: false,
        batches: &[("train", Split::Train), ("test", Split::Test)],
        names: &["meta"],
        needs_names: true,
    },
    CifarForm {
        is_hundred: true,
        is_binary: true,
        batches: &[("train.bin", Split::Train), ("test.bin", Split::Test)],
        names: &["fine_label_names.txt", "coarse_label_names.txt"],
        needs_names: true,
    },
];

/// Folders of these names are in compressed archives, before any file.
const KNOWN_FOLDERS: [(&str, PixelFiles); 5] = [
    ("stl10_binary", PixelFiles::Stl10),
    ("cifar-10-batches-py", PixelFiles::Cifar10),
    ("cifar-10-batches-bin", PixelFiles::Cifar10),
    ("cifar-100-python", PixelFiles::Cifar100),
    ("cifar-100-binary", PixelFiles::Cifar100),
];

impl FileSet {
    fn kind(&self) -> PixelFiles {
        match self {
            Self::Idx(_) => PixelFiles::Idx,
            Self::Cifar(files) if files.form.is_hundred => PixelFiles::Cifar100,
            Self::Cifar(_) => PixelFiles::Cifar10,
            Self::Stl(_) => PixelFiles::Stl10,
            Self::Table(_) => PixelFiles::Table,
        }
    }

    /// Whether this is one of its files.
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Idx(files) => files
                .iter()
                .any(|files| files.images == name || files.labels.as_deref() == Some(name)),
            Self::Cifar(files) => {
                files.batches.iter().any(|(_, batch)| batch == name)
                    || files.names.iter().any(|found| found == name)
            }
            Self::Stl(files) => files.has(name),
            Self::Table(table) => table == name,
        }
    }

    /// Returns it with what else is among `names`.
    fn among(self, names: &[String]) -> FoundSet {
        let mut ignored = BTreeMap::new();
        for name in names.iter().filter(|name| !self.has(name)) {
            let extension = stem_and_extension(base_name(name)).1.to_ascii_lowercase();
            let is_known = !extension.is_empty() && extension.len() <= LONGEST_EXTENSION;
            let kind = if is_known { extension } else { "others".to_owned() };
            *ignored.entry(kind).or_default() += 1;
        }
        FoundSet { set: self, ignored }
    }

    /// One of its files, for messages.
    fn first(&self) -> &str {
        match self {
            Self::Idx(files) => files.first().map_or("", |files| &files.images),
            Self::Cifar(files) => files.batches.first().map_or("", |(_, name)| name),
            Self::Stl(files) => files.parts.first().map_or("", |(_, images, _)| images),
            Self::Table(name) => name,
        }
    }
}

/// The form of the dataset that a folder or an archive is, if its files are known by their names.
///
/// # Errors
/// [`SourceError::PixelFiles`] where the files could be read in several ways.
pub(crate) fn pixel_files(
    source: &Path,
    options: &SourceOptions<'_>,
) -> Result<Option<PixelFiles>, SourceError> {
    if source.is_dir() {
        return Ok(recognise(source, FolderLevels::new(source))?.map(|found| found.set.kind()));
    }
    let name = source.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if ends(&[".zip", ".tar"]) {
        let names = names_of(&Source::open(source, options, None, &false.into())?)?;
        return Ok(recognise(source, name_levels(names))?.map(|found| found.set.kind()));
    }
    if ends(&[".tar.gz", ".tgz", ".tar.zst"]) {
        return Ok(first_members(source).iter().find_map(|name| kind_of_member(name)));
    }
    check_not_one_of_several(source)?;
    Ok(None)
}

/// Refuses a file that is only a part of a dataset.
pub(super) fn check_not_one_of_several(source: &Path) -> Result<(), SourceError> {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    match idx_role(&name) {
        None => Ok(()),
        Some(_) => Err(SourceError::PixelFiles {
            path: source.display().to_string(),
            reason: "it is one of several files that belong together; expected the folder with all of them".to_owned(),
        }),
    }
}

fn kind_of_member(name: &str) -> Option<PixelFiles> {
    let folder = KNOWN_FOLDERS.iter().find(|(folder, _)| name.split('/').any(|s| s == *folder));
    let is_idx = || idx_role(base_name(name)).map(|_| PixelFiles::Idx);
    folder.map(|(_, kind)| *kind).or_else(is_idx)
}

/// Longer extensions are not counted apart.
const LONGEST_EXTENSION: usize = 16;

/// Most names of an archive that are looked at.
const MOST_NAMES: usize = 1 << 16;

/// The names of files that are not hidden.
pub(super) fn names_of(source: &Source) -> Result<Vec<String>, SourceError> {
    let mut names = Vec::new();
    source.files::<SourceError>(&mut |name, _| {
        if names.len() < MOST_NAMES {
            names.push(name.to_owned());
        }
        Ok(())
    })?;
    Ok(names)
}

/// Finds the dataset at the first level that has one: copies of its files, as unpacked and packed
/// ones, are often in folders below.
pub(super) fn recognise(
    source: &Path,
    levels: impl Iterator<Item = Vec<String>>,
) -> Result<Option<FoundSet>, SourceError> {
    let mut image: Option<String> = None;
    for names in levels {
        let is_image = |name: &&String| {
            let extension = stem_and_extension(base_name(name)).1;
            formats::is_image(&extension.to_lowercase())
        };
        image = image.or_else(|| names.iter().find(is_image).cloned());
        let mut sets = cifar_sets(&names);
        for set in &sets {
            check_batches(source, set)?;
        }
        let mut sets: Vec<FileSet> = sets.drain(..).map(FileSet::Cifar).collect();
        sets.extend(StlFiles::among(&names).map(FileSet::Stl));
        sets.extend(idx_set(source, &names)?.map(FileSet::Idx));
        if let [first, second, ..] = sets.as_slice() {
            let (first, second) = (first.first(), second.first());
            return Err(several(source, "the files of several datasets", first, second));
        }
        if let Some(set) = sets.pop() {
            if let Some(image) = &image {
                let what = "images, and files of pixels";
                return Err(several(source, what, image, set.first()));
            }
            return Ok(Some(set.among(&names)));
        }
    }
    Ok(None)
}

/// Finds the only table at the first level that has one.
pub(super) fn only_table(
    source: &Path,
    levels: impl Iterator<Item = Vec<String>>,
) -> Result<Option<FoundSet>, SourceError> {
    let is_table = |name: &&String| {
        let name = name.to_lowercase();
        name.ends_with(".csv") || name.ends_with(".tsv")
    };
    for names in levels {
        match names.iter().filter(is_table).collect::<Vec<_>>().as_slice() {
            [] => {}
            [one] => return Ok(Some(FileSet::Table((*one).clone()).among(&names))),
            [first, second, ..] => return Err(several(source, "several tables", first, second)),
        }
    }
    Ok(None)
}

fn several(source: &Path, what: &str, first: &str, second: &str) -> SourceError {
    let reason = format!("it has {what}, such as `{first}` and `{second}`");
    SourceError::PixelFiles { path: source.display().to_string(), reason }
}

/// Calls a batch missing if a later one exists: the numbers of all images would change.
fn check_batches(source: &Path, set: &CifarFiles) -> Result<(), SourceError> {
    let has = |name: &str| set.batches.iter().any(|(_, found)| base_name(found) == name);
    let train = set.form.batches.iter().filter(|(_, split)| *split == Split::Train);
    let train: Vec<&str> = train.map(|(name, _)| *name).collect();
    let last = train.iter().rposition(|name| has(name)).unwrap_or(0);
    match train.iter().take(last).find(|name| !has(name)) {
        None => Ok(()),
        Some(missing) => Err(SourceError::PixelFiles {
            path: source.display().to_string(),
            reason: format!("`{missing}` is missing, and later batches are there"),
        }),
    }
}

/// All sets of CIFAR among files.
fn cifar_sets(names: &[String]) -> Vec<CifarFiles> {
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        let base = base_name(name);
        let folder = name.get(..name.len() - base.len()).unwrap_or_default();
        folders.entry(folder).or_default().push(base);
    }
    let mut sets = Vec::new();
    for (folder, files) in folders {
        for form in &CIFAR_FORMS {
            let has = |name: &&str| files.contains(name);
            let names: Vec<String> =
                form.names.iter().filter(|n| has(n)).map(|n| format!("{folder}{n}")).collect();
            let batches = form.batches.iter().filter(|(name, _)| has(name));
            let batches: Vec<(Split, String)> =
                batches.map(|(name, split)| (*split, format!("{folder}{name}"))).collect();
            if !batches.is_empty() && (!form.needs_names || !names.is_empty()) {
                sets.push(CifarFiles { form, batches, names });
            }
        }
    }
    sets
}

/// What an idx file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum IdxContent {
    Images,
    Labels,
}

/// The split and the content that an idx file's name says: `t10k-labels-idx1-ubyte`,
/// `emnist-letters-train-images-idx3-ubyte.gz`, `train-images.idx3-ubyte`.
fn idx_role(name: &str) -> Option<(Split, IdxContent)> {
    let plain = name.to_lowercase().replace(['.', '_'], "-");
    let plain = plain.strip_suffix("-gz").unwrap_or(&plain);
    let (start, _) = plain.rsplit_once("-idx")?;
    let (start, content) = start.rsplit_once('-')?;
    let content = match content {
        "images" => IdxContent::Images,
        "labels" => IdxContent::Labels,
        _ => return None,
    };
    let word = start.rsplit('-').next()?;
    // The test images of MNIST are the first 10,000 of a larger set.
    let split = if word == "t10k" { Some(Split::Test) } else { split_of(word) };
    split.map(|split| (split, content))
}

/// The idx files among `names`, by splits.
fn idx_set(source: &Path, names: &[String]) -> Result<Option<Vec<IdxFiles>>, SourceError> {
    let mut found: BTreeMap<(Split, IdxContent), &String> = BTreeMap::new();
    let mut names: Vec<&String> = names.iter().collect();
    // An unpacked file is before the packed one.
    names.sort();
    for name in names {
        let Some(role) = idx_role(base_name(name)) else { continue };
        match found.get(&role) {
            None => drop(found.insert(role, name)),
            Some(first) if name.strip_suffix(".gz") == Some(first) => {}
            Some(first) => {
                let (split, content) = role;
                let content = if content == IdxContent::Images { "images" } else { "labels" };
                let what = format!("several files of {content} for split `{split}`");
                return Err(several(source, &what, first, name));
            }
        }
    }
    let sets: Vec<IdxFiles> = Split::ALL
        .iter()
        .filter_map(|split| {
            let images = (*found.get(&(*split, IdxContent::Images))?).clone();
            let labels = found.remove(&(*split, IdxContent::Labels)).cloned();
            Some(IdxFiles { split: *split, images, labels })
        })
        .collect();
    if let Some(labels) = found.iter().find(|((_, content), _)| *content == IdxContent::Labels) {
        let reason = format!("the images of the labels `{}` are missing", labels.1);
        return Err(SourceError::PixelFiles { path: source.display().to_string(), reason });
    }
    Ok((!sets.is_empty()).then_some(sets))
}

pub(super) fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The names of an archive's files, level by level.
pub(super) fn name_levels(names: Vec<String>) -> impl Iterator<Item = Vec<String>> {
    let mut levels: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for name in names {
        levels.entry(name.matches('/').count()).or_default().push(name);
    }
    levels.into_values()
}

/// Deepest level of folders that is looked into: torchvision's files are in `MNIST/raw/`.
const MOST_LEVELS: usize = 4;
/// Most entries that are looked at. A folder of images has more, and these datasets have few.
const MOST_ENTRIES: usize = 4096;

/// The names of a folder's files, level by level.
pub(super) struct FolderLevels {
    root: PathBuf,
    /// The folders of the next level, each with a slash at its end, but for the root.
    folders: Vec<String>,
    levels: usize,
    entries: usize,
}

impl FolderLevels {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), folders: vec![String::new()], levels: 0, entries: 0 }
    }
}

impl Iterator for FolderLevels {
    type Item = Vec<String>;

    fn next(&mut self) -> Option<Vec<String>> {
        if self.levels == MOST_LEVELS || self.folders.is_empty() {
            return None;
        }
        self.levels += 1;
        let (mut files, mut below) = (Vec::new(), Vec::new());
        for folder in std::mem::take(&mut self.folders) {
            // A folder that cannot be listed is reported by what reads the source afterwards.
            for entry in fs::read_dir(self.root.join(&folder)).into_iter().flatten().flatten() {
                self.entries += 1;
                if self.entries > MOST_ENTRIES {
                    return None;
                }
                let Ok(name) = entry.file_name().into_string() else { continue };
                if hidden(&name) {
                    continue;
                }
                // Follows links, as the walk over images does.
                match fs::metadata(entry.path()) {
                    Ok(metadata) if metadata.is_dir() => below.push(format!("{folder}{name}/")),
                    Ok(metadata) if metadata.is_file() => files.push(format!("{folder}{name}")),
                    _ => {}
                }
            }
        }
        below.sort();
        self.folders = below;
        Some(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_idx_files_say_split_and_content() {
        use IdxContent::{Images, Labels};
        for (name, expected) in [
            ("train-images-idx3-ubyte", Some((Split::Train, Images))),
            ("t10k-labels-idx1-ubyte.gz", Some((Split::Test, Labels))),
            ("train-images.idx3-ubyte", Some((Split::Train, Images))),
            ("emnist-letters-test-labels-idx1-ubyte.gz", Some((Split::Test, Labels))),
            ("Train_Labels.idx1_ubyte", Some((Split::Train, Labels))),
            ("images-idx3-ubyte", None),
            ("train-images", None),
            ("train-boxes-idx3-ubyte", None),
        ] {
            assert_eq!(idx_role(name), expected, "{name}");
        }
    }

    fn found(names: &[&str]) -> Result<Option<FileSet>, String> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let found = recognise(Path::new("src"), name_levels(names)).map_err(|e| e.to_string());
        found.map(|found| found.map(|found| found.set))
    }

    #[test]
    fn the_first_level_with_a_dataset_counts() {
        let set = found(&[
            "raw/train-images-idx3-ubyte",
            "raw/train-images-idx3-ubyte.gz",
            "raw/train-labels-idx1-ubyte.gz",
            "raw/old/train-images-idx3-ubyte",
            "readme.txt",
        ]);
        let expected = IdxFiles {
            split: Split::Train,
            images: "raw/train-images-idx3-ubyte".to_owned(),
            labels: Some("raw/train-labels-idx1-ubyte.gz".to_owned()),
        };
        assert_eq!(set, Ok(Some(FileSet::Idx(vec![expected]))));
        let set = found(&["c/train", "c/test", "c/meta", "c/file.txt~"]).unwrap().unwrap();
        assert_eq!(set.kind(), PixelFiles::Cifar100);
        assert_eq!(found(&["train", "test"]), Ok(None));
        assert_eq!(found(&["a/data_batch_1.bin"]).unwrap().unwrap().kind(), PixelFiles::Cifar10);
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for (names, expected) in [
            (
                &["a/train-images-idx3-ubyte", "b/train-images-idx3-ubyte"][..],
                "several files of images for split `train`, such as `a/train-images-idx3-ubyte` and",
            ),
            (
                &["a/data_batch_1", "b/train.bin", "b/fine_label_names.txt"],
                "the files of several datasets, such as `a/data_batch_1` and `b/train.bin`",
            ),
            (&["data_batch_1", "data_batch_3"], "`data_batch_2` is missing"),
        ] {
            let error = found(names).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
