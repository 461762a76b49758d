//! The folders and names of a source, counted while it is walked.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use gular_bundle::Split;

use super::companions::{Examples, before, of_masks};
use crate::facts::{literal, split_of, split_within};

/// Most folders inside the first ones that are counted by name.
const MOST_FOLDERS: usize = 1 << 20;
/// Names of files that are kept: they tell whether classes are in the names.
const MOST_NAMES: usize = 200;
/// Ends of the names of masks beside their images. Source: BUSI and Carvana; ISIC 2018; BraTS; the
/// Cityscapes Scripts; GlaS; Cellpose; KolektorSDD2 (`_GT`).
pub(super) const MARKS: [&str; 9] =
    ["_mask", "-mask", "_segmentation", "_seg", "_gt", "_label", "_labels", "_anno", "_masks"];

/// How many images each folder has.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    /// The folder, below the source, that everything is in; it ends in a slash, or is empty.
    pub(super) prefix: String,
    /// Images outside of all folders, and the first of them by name.
    pub(super) flat: u64,
    pub(super) first_flat: Option<String>,
    pub(super) top: BTreeMap<String, Folder>,
    /// Whether some files have no extension.
    pub(super) bare: bool,
    /// Some names of files.
    pub(super) names: Vec<String>,
    pub(super) examples: Examples,
    n_inner: usize,
}

/// The names of files in a folder, as far as they are compared with those in another one.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct FileNames {
    n: u64,
    sum: u64,
    /// How many end in a mark and the name of their folder, and the mark.
    marked: u64,
    mark: Option<char>,
}

impl PartialEq for FileNames {
    fn eq(&self, other: &Self) -> bool {
        (self.n, self.sum) == (other.n, other.sum)
    }
}

impl FileNames {
    /// The mark between a file's own name and that of its folder, if all end so.
    pub(super) fn mark(&self) -> Option<char> {
        self.mark.filter(|_| self.marked == self.n)
    }

    /// Takes a path below a folder; its extension does not count, and neither does the name of the
    /// folder in it, as in `after/7_after.png`.
    fn add(&mut self, path: &str, folder: &str) {
        let mut hasher = DefaultHasher::new();
        let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
        let behind = stem.len().checked_sub(folder.len()).and_then(|at| stem.split_at_checked(at));
        let own = behind.filter(|(_, end)| *end == folder).and_then(|(before, _)| {
            let mark = before.chars().next_back().filter(|mark| ['_', '-', '.'].contains(mark))?;
            self.marked += u64::from(self.mark.is_none_or(|known| known == mark));
            self.mark = Some(mark);
            before.strip_suffix(mark)
        });
        let stem = own.unwrap_or(stem);
        stem.hash(&mut hasher);
        self.n += 1;
        self.sum = self.sum.wrapping_add(hasher.finish());
    }
}

/// The paths and sizes of all images in a folder, as far as they are compared with those in another
/// one.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Content {
    n: u64,
    sum: u64,
}

impl Content {
    fn add(&mut self, path: &str, bytes: u64) {
        let mut hasher = DefaultHasher::new();
        (path, bytes).hash(&mut hasher);
        self.n += 1;
        self.sum = self.sum.wrapping_add(hasher.finish());
    }
}

/// A folder in one of the first ones.
#[derive(Debug, Default)]
pub(super) struct InnerFolder {
    /// Whether images are in it, and in folders inside of it.
    pub(super) direct: bool,
    pub(super) deeper: bool,
    pub(super) files: FileNames,
    pub(super) content: Content,
}

/// One of the first folders.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// Images in it, and the first of them by name.
    pub(super) direct: u64,
    pub(super) first: Option<String>,
    /// Images in folders inside of it.
    pub(super) below: u64,
    pub(super) inner: BTreeMap<String, InnerFolder>,
    pub(super) files: FileNames,
    pub(super) content: Content,
}

/// How many files have names of masks.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    files: u64,
    marked: [u64; MARKS.len()],
}

impl Marks {
    pub(crate) fn add(&mut self, path: &str) {
        self.files += 1;
        let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
        let marked = MARKS.iter().position(|mark| before(stem, mark).is_some());
        if let Some(n) = marked.and_then(|at| self.marked.get_mut(at)) {
            *n += 1;
        }
    }

    /// The end of the names of masks, and their number, if there are about as many as images.
    pub(crate) fn of_masks(&self) -> Option<(&'static str, u64)> {
        let (n, mark) = self.marked.iter().copied().zip(MARKS).max_by_key(|(n, _)| *n)?;
        (n < self.files && n * 3 >= self.files).then_some((mark, n))
    }
}

impl Folders {
    /// The folder that has all images, if it is the only one, and no split.
    pub(super) fn only(&self) -> Option<&str> {
        let mut names = self.top.keys();
        let one = names.next().filter(|_| names.next().is_none() && self.flat == 0)?;
        split_of(one).is_none().then_some(one)
    }

    /// Whether all images are in one folder, and none in folders inside of it.
    pub(crate) fn are_one_flat(&self) -> bool {
        self.only().is_some() && self.top.values().all(|folder| folder.below == 0)
    }

    /// Whether one of the first folders is a test split.
    pub(crate) fn has_test(&self) -> bool {
        self.top.keys().any(|name| split_within(name) == Some(Split::Test))
    }

    /// The patterns of the images in all of the first folders but those of test splits.
    pub(crate) fn of_training(&self) -> Vec<String> {
        let others = self.top.keys().filter(|name| split_within(name) != Some(Split::Test));
        let of = |name: &String| {
            let below = format!("{}{}/{{key}}.{{ext}}", literal(&self.prefix), literal(name));
            match split_within(name) {
                Some(split) => format!("{{split={split}}}{below}"),
                None => below,
            }
        };
        others.map(of).collect()
    }

    /// Whether the name of some folder says that it has masks.
    pub(crate) fn has_masks(&self) -> bool {
        let mut folders = self.examples.names().map(|(folder, _)| folder);
        folders.any(|folder| folder.split('/').any(|part| of_masks(part) == Some(true)))
    }

    /// Names of some of the images.
    pub(super) fn some_names(&self) -> impl Iterator<Item = &str> {
        let names = self.names.iter().map(String::as_str);
        names.chain(self.examples.names().map(|(_, name)| name))
    }

    /// Paths of some of the images.
    pub(super) fn example_paths(&self) -> impl Iterator<Item = String> {
        self.examples.names().map(|(folder, name)| {
            let slash = if folder.is_empty() { "" } else { "/" };
            format!("{}{folder}{slash}{name}", self.prefix)
        })
    }

    pub(crate) fn new(prefix: String) -> Self {
        Self { prefix, ..Self::default() }
    }

    /// Takes the name of a file that is not packed as the others are, and may be a mask or an image of
    /// theirs.
    pub(crate) fn add_other(&mut self, path: &str) {
        self.examples.add(path.strip_prefix(&self.prefix).unwrap_or(path));
    }

    /// Counts an image of so many bytes.
    pub(crate) fn add(&mut self, path: &str, bytes: u64) {
        let path = path.strip_prefix(&self.prefix).unwrap_or(path);
        let name = path.rsplit('/').next().unwrap_or(path);
        self.examples.add(path);
        self.bare |= !name.contains('.');
        if self.names.len() < MOST_NAMES {
            self.names.push(name.to_owned());
        }
        let least = |first: &mut Option<String>| {
            if first.as_deref().is_none_or(|first| path < first) {
                *first = Some(path.to_owned());
            }
        };
        let Some((top, rest)) = path.split_once('/') else {
            self.flat += 1;
            least(&mut self.first_flat);
            return;
        };
        if !self.top.contains_key(top) {
            self.top.insert(top.to_owned(), Folder::default());
        }
        let Some(folder) = self.top.get_mut(top) else { return };
        folder.files.add(rest, top);
        folder.content.add(rest, bytes);
        let Some((inner, rest)) = rest.split_once('/') else {
            folder.direct += 1;
            least(&mut folder.first);
            return;
        };
        folder.below += 1;
        let deeper = rest.contains('/');
        if !folder.inner.contains_key(inner) && self.n_inner < MOST_FOLDERS {
            self.n_inner += 1;
            folder.inner.insert(inner.to_owned(), InnerFolder::default());
        }
        if let Some(known) = folder.inner.get_mut(inner) {
            known.deeper |= deeper;
            known.direct |= !deeper;
            known.files.add(rest, inner);
            known.content.add(rest, bytes);
        }
    }
}
