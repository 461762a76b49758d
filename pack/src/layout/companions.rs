//! Masks that are in folders of their own, told by the words in the names of these, and the images
//! that they belong to.
//!
//! ```text
//! train/images/7.png          ─┐ the same path but for one part, which says that it is a mask,
//! train/masks/7_mask.png      ─┘ and for what all names of masks have behind those of images
//! ```

use std::collections::{BTreeMap, BTreeSet};

use gular_bundle::Split;

use super::folders::MARKS;
use super::parts::{field_of, is_of_images};
use super::volumes::of_volumes;
use crate::facts::{
    WayToRead, formats, is_of_both, literal, split_of, splits_among, stem_and_extension,
};

/// Words in the names of folders with a class for each pixel. Source: the folders of PennFudanPed
/// (`PedMasks`), ISIC (`GroundTruth`), Oxford-IIIT Pet (`trimaps`), INRIA (`gt`), ADE20K
/// (`annotations`), CamVid (`train_labels`, `trainannot`), DRIVE (`1st_manual`), DeepCrack
/// (`train_lab`) and xBD (`targets`).
const WORDS: [&str; 16] = [
    "mask",
    "masks",
    "gt",
    "gts",
    "groundtruth",
    "annotation",
    "annotations",
    "annot",
    "trimap",
    "trimaps",
    "label",
    "labels",
    "seg",
    "segmentation",
    "segmentations",
    "targets",
];
/// Words that say so only beside other words: by themselves, they are as well classes.
const WITH_OTHERS: [&str; 2] = ["lab", "manual"];
/// Words before one of these that make a class of it.
const OF_CLASSES: [&str; 5] = ["no", "non", "un", "without", "with"];
/// Folders, and names of files in each, that are looked at.
const MOST_FOLDERS: usize = 1 << 12;
const MOST_NAMES: usize = 48;
/// The part of a path that differs from folder to folder, and is not a class.
const VARIED: &str = "{folder}";
/// Pictures of which one is a mask of the other, where their names differ in nothing else.
const IMAGE_AND_MASK: [&str; 2] = ["jpg", "png"];
/// The folders of images for training and their labels, and those of tests, whose labels are not
/// published. Source: the Medical Segmentation Decathlon, and nnU-Net after it.
const DECATHLON: [[&str; 2]; 2] = [["imagesTr", "labelsTr"], ["imagesTs", "labelsTs"]];

/// Some names of files of each folder.
#[derive(Debug, Default)]
pub(super) struct Examples {
    folders: BTreeMap<String, Vec<String>>,
    n_left_out: u64,
}

/// The folders of one source, and what is wanted of them.
struct ExampleFolders<'a> {
    folders: Vec<ExampleFolder<'a>>,
    labelled: bool,
}

/// The folders of masks that have one name, and the place of it in their paths.
struct MaskFolders<'f, 'a> {
    at: usize,
    folders: Vec<&'f ExampleFolder<'a>>,
    /// What their names have behind those of the folders of their images, as `Shrimp GT` has.
    behind: Option<String>,
}

impl Examples {
    pub(super) fn add(&mut self, path: &str) {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if let Some(known) = self.folders.get_mut(folder) {
            // The first by name, so that folders with files of the same names have the same examples.
            let at = known.partition_point(|of| of.as_str() < name);
            if at < MOST_NAMES {
                known.insert(at, name.to_owned());
                known.truncate(MOST_NAMES);
            }
        } else if self.folders.len() < MOST_FOLDERS {
            self.folders.insert(folder.to_owned(), vec![name.to_owned()]);
        } else {
            self.n_left_out += 1;
        }
    }

    /// All of them, each with its folder.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.folders.iter().flat_map(|(folder, names)| {
            names.iter().map(move |name| (folder.as_str(), name.as_str()))
        })
    }

    /// The ways to read the files as images and their masks, if names say so: one for each kind of
    /// masks. `labelled` says that classes are wanted.
    pub(super) fn masks(&self, labelled: bool) -> Vec<WayToRead> {
        if self.n_left_out > 0 {
            return Vec::new();
        }
        let folders = self.folders.iter().map(|(path, names)| ExampleFolder::new(path, names));
        let folders: Vec<ExampleFolder> = folders.collect();
        let words: BTreeSet<String> = folders.iter().filter_map(|of| of.split.clone()).collect();
        let divided = divided(words.iter().map(String::as_str));
        let is_read = |folder: &ExampleFolder| {
            let split = folder.split.as_deref();
            divided.as_ref().is_none_or(|words| split.is_none_or(|split| words.contains(split)))
        };
        let untold = without_labels(&folders);
        let is_told = |of: &ExampleFolder| untold.is_none() || of.parts.last() != untold.as_ref();
        let folders: Vec<ExampleFolder> =
            folders.into_iter().filter(|of| is_read(of) && is_told(of)).collect();
        let among = ExampleFolders { folders, labelled };
        let beside = among.beside().or_else(|| among.of_two_extensions());
        let ways = match beside {
            Some(way) => vec![way],
            None => among.apart(),
        };
        let of_words = |way| match &divided {
            Some(words) => with_splits(way, words),
            None => way,
        };
        let leaves_out = |way: WayToRead| match untold {
            Some(_) => WayToRead { leaves_out: true, ..way },
            None => way,
        };
        ways.into_iter().map(|way| leaves_out(of_volumes(of_words(way), self))).collect()
    }

    /// The pattern of the images, if each sample is a folder with a folder of one image, such as
    /// `train/a1/images/a1.png`.
    pub(super) fn of_samples(&self) -> Option<String> {
        let is_of_images = |part: &str| part.eq_ignore_ascii_case("images");
        let folders = self.folders.iter().map(|(path, names)| ExampleFolder::new(path, names));
        let of_images: Vec<ExampleFolder> =
            folders.filter(|of| of.parts.last().is_some_and(|part| is_of_images(part))).collect();
        let [before @ .., _, last] = of_images.first()?.shape.as_slice() else { return None };
        let same = |of: &ExampleFolder| {
            let sample = of.parts.iter().rev().nth(1);
            of.stems.len() == 1
                && sample.is_some_and(|sample| of.stems.iter().all(|stem| stem == sample))
                && of.shape.len() == before.len() + 2
                && of.shape.starts_with(before)
        };
        let parts = [before, &["{*}".to_owned(), last.clone(), "{key}.{ext}".to_owned()]].concat();
        (of_images.len() > 1 && of_images.iter().all(same)).then(|| parts.join("/"))
    }
}

impl<'a> ExampleFolders<'a> {
    /// Masks beside their images, such as `train/7_sat.jpg` and `train/7_mask.png`.
    fn beside(&self) -> Option<WayToRead> {
        let of = |fewest: usize| {
            let ends =
                self.folders.iter().map(move |of| (of, ends_in_one_folder(&of.stems, fewest)));
            ends.filter_map(|(folder, ends)| Some((folder, ends?)))
        };
        // A folder with one image and its mask says nothing, and many of them do.
        let of_several = of(2).next();
        let is_enough = of_several.is_some() || of(1).count() > 1;
        let (_, ends) = of_several.or_else(|| of(1).next()).filter(|_| is_enough)?;
        let (with, without): (Vec<&ExampleFolder>, Vec<&ExampleFolder>) = self
            .folders
            .iter()
            .partition(|of| ends_in_one_folder(&of.stems, 1).as_ref() == Some(&ends));
        let words: BTreeSet<&str> = with.iter().filter_map(|of| of.split.as_deref()).collect();
        if !without.iter().all(|folder| folder.lacks(&words)) {
            return None;
        }
        // Names of files may say the splits, which is not read.
        let asks = with.iter().any(|folder| folder.split.is_none() && folder.names_splits());
        let way = self.in_folders(&with, (!without.is_empty()).then_some(&words), |below| {
            [&ends.0, &ends.1].map(|end| format!("{below}{{key}}{}.{{ext}}", literal(end)))
        })?;
        Some(WayToRead { asks, ..way })
    }

    /// Masks of which each has the name of its image, in another format.
    fn of_two_extensions(&self) -> Option<WayToRead> {
        let of = |folder: &ExampleFolder| folder.has_two_extensions();
        let (with, without): (Vec<_>, Vec<_>) = self.folders.iter().partition(|f| of(f));
        let words: BTreeSet<&str> = with.iter().filter_map(|of| of.split.as_deref()).collect();
        if with.is_empty() || !without.iter().all(|folder| folder.lacks(&words)) {
            return None;
        }
        self.in_folders(&with, (!without.is_empty()).then_some(&words), |below| {
            IMAGE_AND_MASK.map(|extension| format!("{below}{{key}}.{extension}"))
        })
    }

    /// The way to read images and masks that are in the same folders, with the words of splits that
    /// have masks, if others have not; `of` makes the patterns of both below a folder.
    fn in_folders(
        &self,
        folders: &[&ExampleFolder],
        words: Option<&BTreeSet<&str>>,
        of: impl Fn(&str) -> [String; 2],
    ) -> Option<WayToRead> {
        let shapes = self.one_shape(folders)?;
        let below = shapes.join("/");
        let below = words.map_or(below.clone(), |words| only(&below, words));
        let below = if below.is_empty() { below } else { below + "/" };
        let [image, mask] = of(&below);
        let way = WayToRead::new("if they are masks", &[&image]);
        Some(WayToRead {
            files: vec![("mask".to_owned(), mask)],
            leaves_out: words.is_some(),
            ..way
        })
    }

    /// The shape that all of these folders have: where one part differs, it is the class, if classes
    /// are wanted and it does not look numbered.
    fn one_shape(&self, folders: &[&ExampleFolder]) -> Option<Vec<String>> {
        let first = folders.first()?;
        let mut shape = first.shape.clone();
        if folders.iter().any(|folder| folder.shape.len() != shape.len()) {
            return None;
        }
        let differing = self.differing(folders, 0, shape.len());
        if differing.iter().any(|depth| has_split(folders, *depth)) {
            return None;
        }
        match differing.as_slice() {
            [] => {}
            [depth] => *shape.get_mut(*depth)? = self.varied(folders, *depth),
            _ => return None,
        }
        Some(shape)
    }

    /// The depths at which the shapes of these folders differ.
    fn differing(&self, folders: &[&ExampleFolder], from: usize, to: usize) -> Vec<usize> {
        let first = folders.first().map(|folder| &folder.shape);
        let same = |depth: usize| {
            folders
                .iter()
                .all(|folder| folder.shape.get(depth) == first.and_then(|of| of.get(depth)))
        };
        (from..to).filter(|depth| !same(*depth)).collect()
    }

    /// What stands for a part that differs: a class, unless all have numbers in them, as the names of
    /// patients and scans do, or are splits or formats of files, such as `traincrop` and `TIF`.
    fn varied(&self, folders: &[&ExampleFolder], depth: usize) -> String {
        let is_numbered = |folder: &&ExampleFolder| {
            folder.parts.get(depth).is_some_and(|part| part.contains(|c: char| c.is_ascii_digit()))
        };
        let names = folders.iter().filter_map(|folder| folder.parts.get(depth));
        let names: BTreeSet<String> = names.map(|name| (*name).to_owned()).collect();
        let are_splits = splits_among(names.iter()).len() == names.len();
        let are_formats = names.iter().all(|name| formats::is_image(&name.to_lowercase()));
        let label =
            self.labelled && !are_splits && !are_formats && !folders.iter().all(is_numbered);
        if label { "{label}" } else { VARIED }.to_owned()
    }

    /// Masks in folders of their own: one way for each name that these have.
    fn apart(&self) -> Vec<WayToRead> {
        // With folders such as `no_mask`, these are classes.
        let mut parts = self.folders.iter().flat_map(|folder| &folder.parts);
        if parts.any(|part| of_masks(part) == Some(false)) {
            return Vec::new();
        }
        let (masks, others): (Vec<&ExampleFolder>, Vec<&ExampleFolder>) =
            self.folders.iter().partition(|folder| folder.mask_at().is_some());
        let mut kinds: Vec<MaskFolders> = Vec::new();
        for folder in masks {
            let Some(at) = folder.mask_at() else { continue };
            let behind = others.iter().find_map(|image| folder.behind(image, at));
            let same = |kind: &&mut MaskFolders| {
                let first = kind.folders.first();
                kind.at == at
                    && kind.behind == behind
                    && (behind.is_some()
                        || first.is_some_and(|first| first.shape.get(at) == folder.shape.get(at)))
            };
            match kinds.iter_mut().find(same) {
                Some(kind) => kind.folders.push(folder),
                None => kinds.push(MaskFolders { at, folders: vec![folder], behind }),
            }
        }
        let is_one = kinds.len() == 1;
        let ways: Vec<WayToRead> =
            kinds.iter().filter_map(|kind| self.of_kind(kind, &others, is_one)).collect();
        // Masks whose names say less may be the right ones.
        let asks = ways.len() < kinds.len();
        ways.into_iter().map(|way| WayToRead { asks: way.asks || asks, ..way }).collect()
    }

    /// The way to read images and the masks of one kind.
    fn of_kind(
        &self,
        kind: &MaskFolders,
        others: &[&ExampleFolder],
        is_only_kind: bool,
    ) -> Option<WayToRead> {
        let MaskFolders { at, folders: masks, behind } = kind;
        let first = masks.first()?;
        let differing = self.differing(masks, 0, *at);
        if differing.len() > 1 || masks.iter().any(|folder| folder.shape.len() <= *at) {
            return None;
        }
        if differing.iter().any(|depth| has_split(masks, *depth)) {
            return None;
        }
        let is_beside = |folder: &&&ExampleFolder| {
            let same = |depth: usize| {
                differing.contains(&depth) || folder.shape.get(depth) == first.shape.get(depth)
            };
            folder.shape.len() > *at && (0..*at).all(same)
        };
        let (images, others): (Vec<&ExampleFolder>, Vec<&ExampleFolder>) =
            others.iter().partition(is_beside);
        let image = images.first()?;
        let one_name = || images.iter().all(|of| of.shape.get(*at) == image.shape.get(*at));
        if behind.is_none() && !one_name() {
            return None;
        }
        // Images of a split that has no masks are left out, unless it is for training.
        let with_masks: BTreeSet<&str> =
            masks.iter().filter_map(|of| of.split.as_deref()).collect();
        if !others.iter().all(|folder| folder.lacks(&with_masks)) {
            return None;
        }
        let leaves_out = !is_only_kind
            || !others.is_empty()
            || images.iter().any(|folder| folder.lacks(&with_masks));
        let images: Vec<&ExampleFolder> =
            images.into_iter().filter(|folder| !folder.lacks(&with_masks)).collect();
        let (end_of_image, end_of_mask) = self.ends(&images, kind, &differing)?;
        // What stands for the parts before the names, and for the name of the folder of images.
        let before = differing.first().map(|depth| match behind {
            Some(_) => (*depth, "{*}".to_owned()),
            None => (*depth, self.varied(masks, *depth)),
        });
        let has_label = before.as_ref().is_some_and(|(_, part)| part == "{label}");
        let own = behind.as_ref().map(|_| self.varied(&images, *at));
        let pattern = |folders: &[&ExampleFolder], own: Option<String>, end: &str| {
            let mut below = below(folders, *at, self.labelled && !has_label && own.is_none())?;
            if let Some((depth, part)) = &before {
                below.get_mut(*depth)?.clone_from(part);
            }
            if let Some(own) = own {
                *below.get_mut(*at)? = own;
            }
            let below = below.join("/");
            let below = if leaves_out { only(&below, &with_masks) } else { below };
            Some(format!("{below}/{{key}}{}.{{ext}}", literal(end)))
        };
        let of_masks = own.clone().zip(behind.as_ref());
        let of_masks = of_masks.map(|(own, behind)| format!("{own}{}", literal(behind)));
        let image = pattern(&images, own, &end_of_image)?;
        let mask = pattern(masks, of_masks, &end_of_mask)?;
        let when = match first.parts.get(*at).filter(|_| !is_only_kind) {
            Some(name) => format!("if the masks are in `{name}`"),
            None => "if they are masks".to_owned(),
        };
        let way = WayToRead::new(&when, &[&image]);
        // A folder of masks for each class makes several masks of an image.
        if mask.contains("{label}") && !image.contains("{label}") {
            let at = mask.split('/').position(|part| part == "{label}")?;
            let names: BTreeSet<&str> =
                masks.iter().filter_map(|of| of.parts.get(at).copied()).collect();
            let mut files: Vec<(String, String)> = Vec::new();
            for name in names {
                let field = field_of(name);
                let same = files.iter().filter(|(known, _)| known.starts_with(&field)).count();
                let field = if same == 0 { field } else { format!("{field}_{}", same + 1) };
                files.push((field, mask.replacen("{label}", &literal(name), 1)));
            }
            let when = "if these are the masks of one class each";
            return Some(WayToRead { when: when.to_owned(), files, leaves_out, asks: true, ..way });
        }
        let asks = self.may_be_classes(&images, kind);
        Some(WayToRead { files: vec![("mask".to_owned(), mask)], leaves_out, asks, ..way })
    }

    /// Whether the folders of images and masks are as well classes: two such as `face` and `mask`, if
    /// both are one word, and neither has the name of images; and where a mask is told by a weak word.
    fn may_be_classes(&self, images: &[&ExampleFolder], kind: &MaskFolders) -> bool {
        let name =
            |folder: &&ExampleFolder| folder.parts.get(kind.at).map(|part| (*part).to_owned());
        let is_word = |name: &String| words(name).len() == 1;
        // `yellow_lab` beside `husky` is as well a class, and beside `yellow` or `yellow_img` it is not.
        let is_weak = |mask: String| {
            let rest = without_weak_word(&mask);
            let belongs = |image: String| {
                let of_image = words(&image);
                is_of_images(&image)
                    || of_image.iter().any(|word| is_of_images(word))
                    || rest.as_ref() == Some(&of_image)
            };
            rest.is_some() && !images.iter().filter_map(name).all(belongs)
        };
        if self.labelled && kind.folders.iter().filter_map(name).any(is_weak) {
            return true;
        }
        let [one] = images else { return false };
        let of_images = name(one).is_some_and(|name| !is_word(&name) || is_of_images(&name));
        let is_one =
            kind.folders.len() == 1 && kind.folders.iter().all(|of| of.parts.len() == kind.at + 1);
        let is_mask = kind
            .folders
            .iter()
            .filter_map(name)
            .all(|name| is_word(&name) && name.to_lowercase() == "mask");
        self.labelled && is_one && is_mask && !of_images && one.split.is_none()
    }

    /// What most names of masks have behind what they share with those of images, and those with them.
    fn ends(
        &self,
        images: &[&ExampleFolder],
        kind: &MaskFolders,
        differing: &[usize],
    ) -> Option<(String, String)> {
        let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut n = 0;
        for folder in &kind.folders {
            let of_mask = |image: &&&ExampleFolder| {
                let (rest, own) = (image.parts.get(kind.at + 1..), folder.parts.get(kind.at + 1..));
                let same = |depth: &usize| image.parts.get(*depth) == folder.parts.get(*depth);
                let is_own = kind.behind.is_none() || folder.behind(image, kind.at).is_some();
                let is_only = images.len() == 1 || rest == Some(&[]);
                image.split == folder.split
                    && is_own
                    && differing.iter().all(same)
                    && (rest == own || is_only)
            };
            let Some(image) = images.iter().find(of_mask) else { continue };
            for mask in &folder.stems {
                n += 1;
                let shared = |image: &&&str| {
                    let pairs = image.char_indices().zip(mask.chars());
                    let same = pairs.take_while(|((_, a), b)| a == b);
                    same.last().map_or(0, |((at, c), _)| at + c.len_utf8())
                };
                let closest = |image: &&&str| (shared(image), usize::MAX - image.len());
                let Some(image) = image.stems.iter().max_by_key(closest) else { continue };
                let at = shared(&image);
                // The mark before an end belongs to it, as in `1_image` and `1_mask`.
                let key = image.get(..at)?;
                let key =
                    if at < image.len() { key.trim_end_matches(['_', '-', '.', ' ']) } else { key };
                let at = key.len();
                if at == 0 {
                    continue;
                }
                let (of_image, of_mask) = (image.get(at..)?, mask.get(at..)?);
                *found.entry((of_image.to_owned(), of_mask.to_owned())).or_default() += 1;
            }
        }
        let (ends, most) = found.into_iter().max_by_key(|(_, n)| *n)?;
        (most * 2 > n).then_some(ends)
    }
}

/// Whether a part of these folders has a word for a split, which makes it no class.
fn has_split(folders: &[&ExampleFolder], depth: usize) -> bool {
    let part = |folder: &&ExampleFolder| {
        folder.shape.get(depth).is_some_and(|part| part.contains("{split}"))
    };
    folders.iter().any(part)
}

/// The shape of folders that are equal up to the part `at`: behind it, what differs in one part alone is
/// the class, if classes are wanted; otherwise it belongs to the key.
fn below(folders: &[&ExampleFolder], at: usize, labelled: bool) -> Option<Vec<String>> {
    let first = folders.first()?;
    let mut shape = first.shape.clone();
    let same = |depth: usize| {
        folders.iter().all(|folder| folder.shape.get(depth) == first.shape.get(depth))
    };
    let one_depth = folders.iter().all(|folder| folder.shape.len() == shape.len());
    let differing: Vec<usize> = (at + 1..shape.len()).filter(|depth| !same(*depth)).collect();
    match differing.as_slice() {
        [] if one_depth => {}
        [depth, ..] if has_split(folders, *depth) => return None,
        [depth] if one_depth && labelled => *shape.get_mut(*depth)? = "{label}".to_owned(),
        [depth, ..] => shape.truncate(*depth),
        [] => shape.truncate(at + 1),
    }
    Some(shape)
}

/// The words of `words` without `trainval`, if that is among them and would repeat the images of `train`
/// and `val`, which are among them, too.
pub(super) fn divided<'w>(words: impl Iterator<Item = &'w str>) -> Option<BTreeSet<&'w str>> {
    let (both, words): (BTreeSet<&str>, BTreeSet<&str>) = words.partition(|word| is_of_both(word));
    let has = |split| words.iter().any(|word| split_of(word) == Some(split));
    (!both.is_empty() && has(Split::Train) && has(Split::Val)).then_some(words)
}

/// The folder of images for tests, if it is known that nobody has their labels.
fn without_labels<'a>(folders: &[ExampleFolder<'a>]) -> Option<&'a str> {
    let [[images, labels], [tests, of_tests]] = DECATHLON;
    let of = |name: &str| {
        folders.iter().find_map(|folder| folder.parts.last().filter(|part| **part == name))
    };
    of(images).and(of(labels))?;
    of(tests).filter(|_| of(of_tests).is_none()).copied()
}

/// A way that reads the splits of these words alone.
pub(super) fn with_splits(way: WayToRead, words: &BTreeSet<&str>) -> WayToRead {
    let images = way.images.iter().map(|pattern| only(pattern, words)).collect();
    let files = way.files.iter().map(|(name, files)| (name.clone(), only(files, words))).collect();
    WayToRead { images, files, leaves_out: true, ..way }
}

/// A pattern with the words of these splits alone.
fn only(pattern: &str, words: &BTreeSet<&str>) -> String {
    let words: Vec<String> = words.iter().map(|word| regex::escape(word)).collect();
    match words.as_slice() {
        [] => pattern.to_owned(),
        words => pattern.replace("{split}", &format!("{{split:{}}}", words.join("|"))),
    }
}

/// What the names of images and of masks have behind the name that they share, if about half of the
/// names, and at least `fewest`, are of masks, and each of those has an image.
fn ends_in_one_folder(stems: &[&str], fewest: usize) -> Option<(String, String)> {
    for mark in MARKS {
        let keys: BTreeSet<&str> = stems.iter().filter_map(|stem| before(stem, mark)).collect();
        let images: Vec<&str> =
            stems.iter().copied().filter(|stem| before(stem, mark).is_none()).collect();
        if keys.len() < fewest || keys.len() * 3 < images.len() {
            continue;
        }
        let behind = |image: &&str| {
            let key =
                keys.iter().filter(|key| image.starts_with(**key)).max_by_key(|key| key.len());
            key.map(|key| image[key.len()..].to_owned())
        };
        let ends: BTreeSet<String> = images.iter().filter_map(behind).collect();
        let all = images.iter().filter(|image| behind(image).is_some()).count();
        let mask = stems.iter().find_map(|stem| stem.get(before(stem, mark)?.len()..));
        if let (Some(end), 1, true, Some(mask)) =
            (ends.first(), ends.len(), all * 2 >= images.len(), mask)
        {
            return Some((end.clone(), mask.to_owned()));
        }
    }
    None
}

/// What is before the mark of a mask, in upper or lower case.
pub(super) fn before<'s>(stem: &'s str, mark: &str) -> Option<&'s str> {
    let (before, end) = stem.split_at_checked(stem.len().checked_sub(mark.len())?)?;
    end.eq_ignore_ascii_case(mark).then_some(before)
}

/// A folder with images.
struct ExampleFolder<'a> {
    parts: Vec<&'a str>,
    /// Its parts as patterns, with the word for its split as `{split}`.
    shape: Vec<String>,
    split: Option<String>,
    names: &'a [String],
    stems: Vec<&'a str>,
}

impl<'a> ExampleFolder<'a> {
    fn new(path: &'a str, names: &'a [String]) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let mut split = None;
        let shape = parts.iter().map(|part| match word_for_split(part) {
            Some((before, word, after)) if split.is_none() => {
                split = Some(word.to_owned());
                format!("{}{{split}}{}", literal(before), literal(after))
            }
            // `train/train-images` says it twice.
            Some((before, word, after)) if split.as_deref() == Some(word) => {
                format!("{}{{*}}{}", literal(before), literal(after))
            }
            _ => literal(part),
        });
        let shape = shape.collect();
        let stems = names.iter().map(|name| stem_and_extension(name).0).collect();
        Self { parts, shape, split, names, stems }
    }

    /// Whether it is of a split that has no masks, and not for training.
    fn lacks(&self, with_masks: &BTreeSet<&str>) -> bool {
        let split = self.split.as_deref().filter(|split| split_of(split) != Some(Split::Train));
        split.is_some_and(|split| !with_masks.contains(split))
    }

    /// The first of its parts that says that it is of masks.
    fn mask_at(&self) -> Option<usize> {
        self.parts.iter().position(|part| of_masks(part) == Some(true))
    }

    /// What its name has behind that of a folder beside it, if that says that it is of masks.
    fn behind(&self, image: &Self, at: usize) -> Option<String> {
        let (name, of_image) = (self.parts.get(at)?, image.parts.get(at)?);
        let behind = name.strip_prefix(of_image).filter(|behind| of_masks(behind) == Some(true))?;
        let are_beside = image.parts.get(..at) == self.parts.get(..at) && image.split == self.split;
        let is_split = word_for_split(of_image).is_some();
        (are_beside && !is_split && !of_image.is_empty()).then(|| behind.to_owned())
    }

    /// Whether its names begin with words for several splits, as `train_1` and `testA_1` do.
    fn names_splits(&self) -> bool {
        let split = |stem: &&str| {
            let word: String = stem.chars().take_while(char::is_ascii_alphabetic).collect();
            split_of(&word).or_else(|| split_of(word.trim_end_matches(['A', 'B'])))
        };
        let splits: BTreeSet<Option<Split>> = self.stems.iter().map(split).collect();
        splits.len() > 1 && !splits.contains(&None)
    }

    /// Whether each name is there in two formats.
    fn has_two_extensions(&self) -> bool {
        let of = |wanted: &str| -> BTreeSet<&str> {
            let is = |extension: &str| match wanted {
                "jpg" => ["jpg", "jpeg"].contains(&extension),
                _ => extension == wanted,
            };
            let parts = self.names.iter().map(|name| stem_and_extension(name));
            parts.filter(|(_, extension)| is(extension)).map(|(stem, _)| stem).collect()
        };
        let [images, masks] = IMAGE_AND_MASK.map(of);
        !images.is_empty() && images == masks && images.len() * 2 == self.names.len()
    }
}

/// The word for a split in a name, with what is before and behind it.
pub(super) fn word_for_split(name: &str) -> Option<(&str, &str, &str)> {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    let mut from = 0;
    while let Some(start) = name.get(from..)?.find(is_letter).map(|at| from + at) {
        let rest = name.get(start..)?;
        let end = start + rest.find(|c| !is_letter(c)).unwrap_or(rest.len());
        let word = name.get(start..end)?;
        if split_of(word).is_some() {
            // `train_val` is one word.
            let at = end + "_val".len();
            let is_end = name.get(at..).is_some_and(|rest| !rest.starts_with(char::is_alphabetic));
            let both = name.get(start..at).filter(|both| is_end && split_of(both).is_some());
            let word = both.unwrap_or(word);
            return Some((name.get(..start)?, word, name.get(start + word.len()..)?));
        }
        // `trainannot` of SegNet's CamVid.
        let ends = (1..word.len()).filter(|at| word.is_char_boundary(*at));
        let mut parts = ends.map(|at| word.split_at(at));
        if let Some((split, _)) =
            parts.find(|(split, rest)| split_of(split).is_some() && of_masks(rest) == Some(true))
        {
            return Some((name.get(..start)?, split, name.get(start + split.len()..)?));
        }
        from = end;
    }
    None
}

/// What a name has beside its word for a split, in lower case.
pub(super) fn beside_word_for_split(name: &str) -> Option<String> {
    word_for_split(name)
        .map(|(before, _, after)| format!("{before}{{split}}{after}").to_lowercase())
}

/// The words of a name, in lower case, such as those of `PedMasks` and `train_gt`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphabetic() || (c.is_ascii_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_ascii_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphabetic()) {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The other words of a name that only a word of [`WITH_OTHERS`] makes one of masks.
fn without_weak_word(name: &str) -> Option<Vec<String>> {
    let (weak, rest): (Vec<String>, Vec<String>) =
        words(name).into_iter().partition(|word| WITH_OTHERS.contains(&word.as_str()));
    (!weak.is_empty() && of_masks(&rest.join("_")).is_none()).then_some(rest)
}

/// Whether a name with a word of masks is one of masks, as are `train_gt`, `PedMasks` and
/// `GroundTruth`, or a class such as `no_mask`.
pub(super) fn of_masks(name: &str) -> Option<bool> {
    let words = words(name);
    let has_others = words.len() > 1;
    let is_word = |word: &str| WORDS.contains(&word) || (has_others && WITH_OTHERS.contains(&word));
    let is_class = words.iter().any(|word| OF_CLASSES.contains(&word.as_str()));
    // `trainannot` is two words in one.
    let is_joined = |word: &String| {
        let ends = (1..word.len()).filter(|at| word.is_char_boundary(*at));
        let mut parts = ends.map(|at| word.split_at(at));
        parts.any(|(split, rest)| split_of(split).is_some() && is_word(rest))
    };
    let has_word = words.iter().any(|word| is_word(word) || is_joined(word))
        || words.windows(2).any(|pair| is_word(&pair.concat()));
    has_word.then_some(!is_class)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The patterns of images and masks, and whether others are left out.
    fn masks(paths: &[&str]) -> Option<(String, String, bool)> {
        let mut examples = Examples::default();
        paths.iter().for_each(|path| examples.add(path));
        let way = examples.masks(false).into_iter().next()?;
        Some((way.images[0].clone(), way.files[0].1.clone(), way.leaves_out))
    }

    fn told(images: &str, masks: &str, leaves_out: bool) -> Option<(String, String, bool)> {
        Some((images.to_owned(), masks.to_owned(), leaves_out))
    }

    #[test]
    fn folders_of_masks_are_known_by_their_words() {
        assert_eq!(
            masks(&[
                "PNGImages/1.png",
                "PNGImages/2.png",
                "PedMasks/1_mask.png",
                "PedMasks/2_mask.png"
            ]),
            told("PNGImages/{key}.{ext}", "PedMasks/{key}_mask.{ext}", false)
        );
        assert_eq!(
            masks(&[
                "T1-2_Training_Input/7.jpg",
                "T1-2_Validation_Input/8.jpg",
                "T1_Training_GroundTruth/7_s.png",
                "T1_Validation_GroundTruth/8_s.png"
            ]),
            told("T1-2_{split}_Input/{key}.{ext}", "T1_{split}_GroundTruth/{key}_s.{ext}", false)
        );
        assert_eq!(
            masks(&["images/1.jpg", "annotations/trimaps/1.png"]),
            told("images/{key}.{ext}", "annotations/trimaps/{key}.{ext}", false)
        );
        assert_eq!(
            masks(&["a/train/image/1.png", "a/train/label/1.png", "a/test/9.png"]),
            told("a/{split:train}/image/{key}.{ext}", "a/{split:train}/label/{key}.{ext}", true)
        );
        assert_eq!(
            masks(&["img/a/1_x.png", "img/b/2_x.png", "gt/a/1_y.png", "gt/b/2_y.png"]),
            told("img/{key}_x.{ext}", "gt/{key}_y.{ext}", false)
        );
    }

    #[test]
    fn each_of_several_folders_of_masks_is_named() {
        let mut examples = Examples::default();
        let paths = ["images/a_1.jpg", "gt_leaf/a_1.png", "gt_stem/a_1.png"];
        paths.iter().for_each(|path| examples.add(path));
        let when: Vec<String> = examples.masks(false).into_iter().map(|way| way.when).collect();
        assert_eq!(when, ["if the masks are in `gt_leaf`", "if the masks are in `gt_stem`"]);
    }

    #[test]
    fn words_for_splits_are_not_cut_and_not_classes() {
        assert_eq!(word_for_split("train_valid"), Some(("", "train", "_valid")));
        assert_eq!(word_for_split("x_train_val_1"), Some(("x_", "train_val", "_1")));
        let mut examples = Examples::default();
        for folder in ["test", "train_valid"] {
            examples.add(&format!("{folder}/1.jpg"));
            examples.add(&format!("{folder}/1.png"));
        }
        assert_eq!(examples.masks(true), []);
    }

    #[test]
    fn all_that_is_not_for_testing_is_left_out_beside_its_parts() {
        let paths = |splits: &[&str]| -> Vec<String> {
            let both =
                |split: &&str| ["images", "masks"].map(|part| format!("{split}/{part}/1.png"));
            splits.iter().flat_map(both).collect()
        };
        let told_of = |splits: &[&str]| {
            let paths = paths(splits);
            masks(&paths.iter().map(String::as_str).collect::<Vec<_>>())
        };
        assert_eq!(
            told_of(&["train", "val", "trainval", "test"]),
            told(
                "{split:test|train|val}/images/{key}.{ext}",
                "{split:test|train|val}/masks/{key}.{ext}",
                true
            )
        );
        assert_eq!(
            told_of(&["trainval", "test"]),
            told("{split}/images/{key}.{ext}", "{split}/masks/{key}.{ext}", false)
        );
    }

    #[test]
    fn a_weak_word_for_masks_is_a_question() {
        let asks = |folders: [&str; 2]| {
            let mut examples = Examples::default();
            for folder in folders {
                examples.add(&format!("{folder}/1.png"));
            }
            examples.masks(true).first().map(|way| way.asks)
        };
        assert_eq!(asks(["husky", "yellow_lab"]), Some(true));
        assert_eq!(asks(["automatic_gearbox", "manual_gearbox"]), Some(true));
        for belonging in
            [["train_img", "train_lab"], ["yellow", "yellow_lab"], ["images", "1st_manual"]]
        {
            assert_eq!(asks(belonging), Some(false), "{belonging:?}");
        }
    }

    #[test]
    fn classes_below_masks_are_kept() {
        let mut examples = Examples::default();
        for path in [
            "images/train/cat/1.jpg",
            "images/val/dog/2.jpg",
            "masks/train/cat/1.png",
            "masks/val/dog/2.png",
        ] {
            examples.add(path);
        }
        let way = examples.masks(true).remove(0);
        assert_eq!(way.images, ["images/{split}/{label}/{key}.{ext}"]);
        assert_eq!(way.files[0].1, "masks/{split}/{label}/{key}.{ext}");
        assert_eq!(examples.masks(false)[0].images, ["images/{split}/{key}.{ext}"]);
    }

    #[test]
    fn a_folder_of_masks_for_each_class_is_a_field_for_each() {
        let mut examples = Examples::default();
        let paths = ["images/1.jpg", "masks/car/1.png", "masks/road/1.png"];
        paths.iter().for_each(|path| examples.add(path));
        let way = examples.masks(true).remove(0);
        let file = |name: &str| (name.to_owned(), format!("masks/{name}/{{key}}.{{ext}}"));
        assert_eq!((way.images, way.asks), (vec!["images/{key}.{ext}".to_owned()], true));
        assert_eq!(way.files, [file("car"), file("road")]);
    }

    #[test]
    fn classes_are_not_taken_for_masks() {
        assert_eq!(masks(&["mask/1.jpg", "no_mask/1.jpg"]), None);
        assert_eq!(masks(&["with_mask/1.jpg", "without_mask/1.jpg"]), None);
        assert_eq!(masks(&["cat/1.jpg", "dog/1.jpg", "gt/1.png"]), None);
        assert_eq!(masks(&["images/1.jpg", "masks/7.png"]), None);
    }
}
