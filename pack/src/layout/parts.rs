//! Folders and names that are parts of samples, such as images and their masks, and no classes.

use std::collections::{BTreeMap, BTreeSet};

use gular_bundle::FieldName;

use super::band_files::is_band;
use super::folders::{FileNames, Folder, Folders, Marks};
use super::names_of_masks::added;
use super::recognise::{CLASSES, KEY, of_splits};
use crate::facts::{Doubt, WayToRead, counted, literal, named, split_of};

/// Names of folders that hold the images of samples, and no class, in lower case. Source: the
/// folders of Pascal VOC, Oxford-IIIT Pet, CUB-200, YOLO's exports, Hugging Face's imagefolder,
/// Cityscapes and nnU-Net.
const IMAGES: [&str; 14] = [
    "images",
    "image",
    "imgs",
    "img",
    "jpegimages",
    "pictures",
    "photos",
    "frames",
    "rgb",
    "inputs",
    "input",
    "leftimg8bit",
    "imagestr",
    "imagests",
];
/// Those that hold another part of each sample. Source: the same, LoveDA, and CamVid of SegNet.
const OTHER_PARTS: [&str; 20] = [
    "masks",
    "mask",
    "labels",
    "label",
    "annotations",
    "annotation",
    "annot",
    "trimaps",
    "segmentations",
    "segmentation",
    "segmentationclass",
    "segmentationobject",
    "depths",
    "depth",
    "gt",
    "groundtruth",
    "ground_truth",
    "gtfine",
    "targets",
    "labelstr",
];

/// Names of folders with the two pictures of a pair, in lower case. Source: LEVIR-CD, CDD, SYSU-CD
/// and WHU-CD (`A`, `B`, `time1`, `time2`), xBD (`pre`, `post`), LOL (`low`, `high`), DIV2K (`lr`,
/// `hr`), pix2pix (`input`, `target`), SECOND (`im1`, `im2`).
const PAIRS: [[&str; 2]; 18] = [
    ["a", "b"],
    ["time1", "time2"],
    ["t1", "t2"],
    ["im1", "im2"],
    ["image1", "image2"],
    ["before", "after"],
    ["pre", "post"],
    ["low", "high"],
    ["lr", "hr"],
    ["input", "target"],
    ["noisy", "clean"],
    ["hazy", "clear"],
    ["sar", "opt"],
    ["sar", "optical"],
    ["rgb", "nir"],
    ["rgb", "thermal"],
    ["source", "target"],
    ["pre_fire", "post_fire"],
];
/// The names that their masks have, beside [`OTHER_PARTS`]. Source: CDD.
const OF_PAIRS: [&str; 2] = ["out", "change"];

/// Folders such as `images` and `masks`, if all are such; without classes, if some are not images.
pub(super) fn parts_of_samples(folders: &Folders, labelled: bool) -> Option<Doubt> {
    let files = folders.top.iter().map(|(name, folder)| (name.as_str(), folder.files));
    let files: BTreeMap<&str, FileNames> = files.collect();
    let (images, masks) = parts(&files, labelled)?;
    let folder = folders.top.get(images)?;
    let deeper = labelled && folder.inner.values().any(|inner| inner.deeper);
    let rest = if deeper { CLASSES } else { KEY };
    let rests = match of_splits(folder, rest).filter(|_| folder.direct == 0) {
        Some(rests) => rests,
        None if folder.direct == 0 && labelled => [CLASSES.to_owned()].into(),
        None => [KEY.to_owned()].into(),
    };
    let mut doubt = these_are_parts(&files, images, &masks, "", &rests, labelled);
    // What files of the others are really called.
    for (_, pattern) in doubt.readings.iter_mut().flat_map(|way| &mut way.files) {
        let other =
            masks.iter().find(|name| pattern.starts_with(&format!("{}/{{key}}.", literal(name))));
        let first = other.and_then(|name| folders.top.get(*name)?.first.as_ref());
        if let Some(added) = added(folder.first.as_ref(), first) {
            *pattern = pattern.replacen("{key}", &format!("{{key}}{added}"), 1);
        }
    }
    Some(doubt)
}

/// Folders that are named by dates or by bands and have files of the same names.
pub(super) fn axes_of_samples(folders: &Folders) -> Option<Doubt> {
    let names = || folders.top.keys().map(String::as_str);
    let mut files = folders.top.values();
    let first = files.next().filter(|_| folders.top.len() > 1 && folders.flat == 0)?;
    let same = files.all(|other| other.files == first.files);
    let flat = folders.top.values().all(|folder| folder.below == 0);
    let (axis, words) = match () {
        () if names().all(is_date) => ("{date}", "dates"),
        () if names().all(is_band) => ("{band}", "bands"),
        () => return None,
    };
    if !same || !flat {
        return None;
    }
    let text = format!("{} have files of the same names, and look like {words}", named(names()));
    let ways = vec![
        WayToRead::new("if they belong to the same samples", &[&format!("{axis}/{KEY}")]),
        WayToRead::new("if they are classes", &[CLASSES]),
        WayToRead::new("if they mean nothing", &[&format!("{{*}}/{KEY}")]),
    ];
    Some(Doubt::new(text, ways))
}

/// Whether a name is a date that begins with its year.
fn is_date(name: &str) -> bool {
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    let are_digits = name.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '_' | 'T' | 'Z'));
    let begins = ["19", "20"].iter().any(|century| name.starts_with(century));
    are_digits && begins && matches!(digits.len(), 4 | 6 | 8 | 14)
}

/// Names of fields that are not files of the user.
const RESERVED: [&str; 4] = ["image", "label", "labels", "data"];

/// The same in folders that are splits.
pub(super) fn parts_in_splits(folders: &Folders, labelled: bool) -> Option<Doubt> {
    let inner = || folders.top.values().flat_map(|folder| &folder.inner);
    if folders.top.values().any(|folder| folder.direct > 0) {
        return None;
    }
    let files: BTreeMap<&str, FileNames> =
        inner().map(|(name, folder)| (name.as_str(), folder.files)).collect();
    let (images, masks) = parts(&files, labelled)?;
    let deeper = inner().any(|(name, folder)| folder.deeper && name == images);
    let rest = if deeper && labelled { CLASSES } else { KEY };
    let rests = [rest.to_owned()].into();
    Some(these_are_parts(&files, images, &masks, "{split}/", &rests, labelled))
}

/// The same in folders that are classes.
pub(super) fn parts_in_classes(folders: &Folders) -> Option<Doubt> {
    let inner = || folders.top.values().flat_map(|folder| &folder.inner);
    let files = inner().map(|(name, folder)| (name.as_str(), folder.files)).collect();
    let (images, masks) = parts(&files, true)?;
    if masks.is_empty() || inner().any(|(_, folder)| folder.deeper) {
        return None;
    }
    let names: Vec<&str> = files.keys().copied().collect();
    let text = format!(
        "{} look like parts of the samples, not like images alone",
        named(names.iter().copied())
    );
    let below = |name: &str| format!("{{label}}/{}/{KEY}", literal(name));
    let fields = fields_of(&masks).into_iter().map(|(name, folder)| (name, below(folder)));
    let way = WayToRead {
        files: fields.collect(),
        ..WayToRead::new("if the others belong to these images", &[&below(images)])
    };
    let alone = WayToRead::new("to leave the others out", &[&below(images)]);
    let all = WayToRead::new("if all of them are images", &[CLASSES]);
    Some(Doubt::new(text, vec![way, WayToRead { leaves_out: true, ..alone }, all]))
}

/// The folder of images in each of the first folders, if these have parts of samples in them.
pub(super) fn images_in_splits(folders: &Folders) -> Option<&str> {
    let inner = folders.top.values().flat_map(|folder| &folder.inner);
    let files = inner.map(|(name, folder)| (name.as_str(), folder.files)).collect();
    let is_direct = folders.top.values().any(|folder| folder.direct > 0);
    let images = parts(&files, true).map(|(images, _)| images);
    images.filter(|images| !is_direct && among(&IMAGES, images))
}

fn among(list: &[&str], name: &str) -> bool {
    list.contains(&name.to_lowercase().as_str())
}

/// The folder of images, and the others if they belong to these, if these folders hold parts of
/// samples: all have names of such, or one has, and no other name has that word in it, as `mask` and
/// `no_mask` do; or two have names of pairs, and all have files of the same names.
fn parts<'a>(
    folders: &BTreeMap<&'a str, FileNames>,
    labelled: bool,
) -> Option<(&'a str, Vec<&'a str>)> {
    let names = || folders.keys().copied();
    let is_part = |name: &str| among(&IMAGES, name) || among(&OTHER_PARTS, name);
    let are_parts = names().all(is_part);
    let images = names().find(|name| among(&IMAGES, name));
    let masks = names().find(|name| among(&OTHER_PARTS, name));
    let alone = |mask: &str| {
        let word = mask.to_lowercase();
        names().filter(|name| name.to_lowercase().contains(&word)).count() == 1
    };
    let of_pair = || {
        let mut files = folders.values();
        let first = files.next()?;
        let named = |word: &str| names().find(|name| name.eq_ignore_ascii_case(word));
        let (one, two) = PAIRS.iter().find_map(|[one, two]| Some((named(one)?, named(two)?)))?;
        let is_other = |name: &str| {
            let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
            is_part(word) || among(&OF_PAIRS, word)
        };
        let are_others = names().filter(|name| *name != one && *name != two).all(is_other);
        (are_others && files.all(|other| other == first)).then_some(one)
    };
    let others = |of: &str| {
        let mut others: Vec<&str> = names().filter(|name| *name != of).collect();
        others.sort_by_key(|name| !is_mask(name));
        others
    };
    let first = of_pair().or(images).or_else(|| names().find(|name| !among(&OTHER_PARTS, name)));
    match (first, masks) {
        (Some(images), _) if of_pair().is_some() => Some((images, others(images))),
        (Some(images), Some(masks)) if are_parts || alone(masks) => Some((images, others(images))),
        _ if are_parts && labelled => Some((names().next()?, Vec::new())),
        _ => None,
    }
}

fn is_mask(folder: &str) -> bool {
    among(&OTHER_PARTS, folder) || among(&OF_PAIRS, folder)
}

/// The fields that the files of these folders are, with the folders.
fn fields_of<'a>(folders: &[&'a str]) -> Vec<(String, &'a str)> {
    let mut fields: Vec<(String, &str)> = Vec::new();
    for folder in folders {
        let lower = folder.to_lowercase();
        let own: String =
            lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let kind = match () {
            () if lower.starts_with("depth") => "depth",
            () if is_mask(folder) => "mask",
            () => &own,
        };
        let is_free = |name: &str| fields.iter().all(|(known, _)| known != name);
        let name = if is_free(kind) { kind } else { &own };
        if is_free(name) && FieldName::parse(name).is_some() && !RESERVED.contains(&name) {
            fields.push((name.to_owned(), folder));
        }
    }
    fields
}

/// Folders such as `train_masks` beside `train` or `train_images`.
pub(super) fn masks_of_splits(folders: &Folders, labelled: bool) -> Option<Doubt> {
    let marks = ['_', '-', ' '];
    // What is behind the word for a split, with the mark before it.
    let behind = |name: &'_ str| match name.find(marks) {
        Some(at) if split_of(&name[..at]).is_some() => Some(name[at..].to_owned()),
        None if split_of(name).is_some() => Some(String::new()),
        // `trainannot` of SegNet's CamVid.
        _ => (1..name.len()).filter(|at| name.is_char_boundary(*at)).find_map(|at| {
            let is_part = split_of(&name[..at]).is_some() && among(&OTHER_PARTS, &name[at..]);
            is_part.then(|| name[at..].to_owned())
        }),
    };
    let behind: Option<Vec<(&String, String)>> =
        folders.top.keys().map(|name| Some((name, behind(name)?))).collect();
    let behind = behind?;
    let part = |rest: &str| rest.trim_start_matches(marks).to_owned();
    let (masks, images): (Vec<_>, Vec<_>) =
        behind.iter().partition(|(_, rest)| among(&OTHER_PARTS, &part(rest)));
    let ((mask, of_masks), (image, of_images)) = (masks.first()?, images.first()?);
    let same =
        |list: &[&(&String, String)], first: &str| list.iter().all(|(_, rest)| rest == first);
    let are_images = of_images.is_empty() || among(&IMAGES, &part(of_images));
    if !are_images || !same(&masks, of_masks) || !same(&images, of_images) {
        return None;
    }
    let folder = folders.top.get(*image)?;
    let rest = if labelled && folder.direct == 0 { CLASSES } else { KEY };
    let of = |behind: &str| format!("{{split}}{}/{rest}", literal(behind));
    let text = format!("`{mask}` looks like masks of `{image}`, not like a split");
    let of_masks_part = part(of_masks);
    let named = fields_of(&[&of_masks_part]);
    let of_mask = folders.top.get(*mask).and_then(|folder| folder.first.as_ref());
    let added = added(folder.first.as_ref(), of_mask).unwrap_or_default();
    let of_masks = of(of_masks).replacen("{key}", &format!("{{key}}{added}"), 1);
    let files = named.into_iter().map(|(name, _)| (name, of_masks.clone())).collect();
    let way = WayToRead { files, ..WayToRead::new("if it is", &[&of(of_images)]) };
    let alone = WayToRead::new("to leave it out", &[&of(of_images)]);
    Some(Doubt::new(text, vec![way, WayToRead { leaves_out: true, ..alone }]))
}

/// Says that these folders are parts of samples; `rests` are the patterns below that of the images.
fn these_are_parts(
    folders: &BTreeMap<&str, FileNames>,
    images: &str,
    others: &[&str],
    before: &str,
    rests: &BTreeSet<String>,
    labelled: bool,
) -> Doubt {
    let one = folders.len() == 1;
    let text = format!(
        "{} {} like {} of the samples, not like {}",
        named(folders.keys().copied()),
        if one { "looks" } else { "look" },
        if one { "a part" } else { "parts" },
        match (labelled, one) {
            (true, true) => "a class",
            (true, false) => "classes",
            (false, _) => "images alone",
        }
    );
    let below = |name: &str, rest: &str| {
        let folder = literal(name);
        // As in `after/7_after.png`.
        let rest = match folders.get(name).and_then(FileNames::mark) {
            Some(mark) => rest.replacen("{key}", &format!("{{key}}{mark}{folder}"), 1),
            None => rest.to_owned(),
        };
        format!("{before}{folder}/{rest}")
    };
    let when = match (rests.iter().any(|rest| rest.contains("{label}")), others.is_empty()) {
        (true, _) => "if the classes are the folders inside",
        (false, true) => "if there are no classes",
        (false, false) if labelled => {
            "if there are no classes, and the others belong to these images"
        }
        (false, false) => "if the others belong to these images",
    };
    let of_images: Vec<String> = rests.iter().map(|rest| below(images, rest)).collect();
    let of_images: Vec<&str> = of_images.iter().map(String::as_str).collect();
    let rest = rests.first().map_or(KEY, String::as_str);
    let files = fields_of(others).into_iter().map(|(name, folder)| (name, below(folder, rest)));
    let way = WayToRead { files: files.collect(), ..WayToRead::new(when, &of_images) };
    let all = format!("{before}{}", if labelled { CLASSES } else { KEY });
    let mut ways = vec![way];
    if labelled {
        ways.push(in_a_table());
    }
    ways.push(WayToRead::new(
        if labelled { "if they are classes" } else { "if all of them are images" },
        &[&all],
    ));
    Doubt::new(text, ways)
}

/// The classes are in a table.
pub(crate) fn in_a_table() -> WayToRead {
    WayToRead { tables: Some(Vec::new()), ..WayToRead::new("if a table has the classes", &[]) }
}

/// What a large set is divided into, beside the words for images.
const DIVISIONS: [&str; 5] = ["part", "batch", "chunk", "archive", "volume"];

/// Folders such as `images_001` and `images_002`, which only divide a set.
pub(super) fn numbered_parts(folders: &Folders) -> Option<Doubt> {
    let mut stems: Vec<&str> = folders
        .top
        .keys()
        .map(|name| name.trim_end_matches(|c: char| c.is_ascii_digit()))
        .collect();
    stems.dedup();
    let [stem] = stems.as_slice() else { return None };
    let word = stem.trim_end_matches(['_', '-', ' ']).rsplit(['_', '-', ' ']).next()?;
    if folders.top.len() < 2 || !(among(&IMAGES, word) || among(&DIVISIONS, word)) {
        return None;
    }
    let inner: BTreeSet<&String> = folders.top.values().flat_map(|f| f.inner.keys()).collect();
    let is_flat = folders.top.values().all(|folder| folder.below == 0);
    let ways = match (is_flat, inner.len()) {
        (true, _) => vec![WayToRead::new("if there are no classes", &["{*}/{key}.{ext}"])],
        (false, 1) => vec![WayToRead::new("if there are no classes", &["{*}/{*}/{key}.{ext}"])],
        _ => vec![WayToRead::new(
            "if the classes are the folders inside",
            &["{*}/{label}/{key}.{ext}"],
        )],
    };
    let classes = WayToRead::new("if they are classes", &[CLASSES]);
    let text = format!(
        "{} look like numbered parts of the images, not like classes",
        named(folders.top.keys().map(String::as_str))
    );
    Some(Doubt::new(text, [vec![in_a_table()], ways, vec![classes]].concat()))
}

/// A class folder that has the other class folders in it, as an archive that was unpacked into its
/// own folder does.
pub(super) fn copy_inside(folders: &Folders) -> Option<Doubt> {
    let is_copy = |(name, folder): &(&String, &Folder)| {
        let others = || folders.top.keys().filter(|other| other != name);
        folder.direct == 0 && others().count() > 0 && others().eq(folder.inner.keys())
    };
    let (name, _) = folders.top.iter().find(is_copy)?;
    let others: Vec<&str> =
        folders.top.keys().filter(|other| *other != name).map(String::as_str).collect();
    let text = format!(
        "`{name}` has the folders in it that are beside it: {}",
        named(others.iter().copied())
    );
    let escaped: Vec<String> = others.iter().map(|other| regex::escape(other)).collect();
    let only = format!("{{label:{}}}/{KEY}", escaped.join("|"));
    let way = WayToRead::new("if it is a copy", &[&only]);
    let all = WayToRead::new(
        "if it is not, and the folders of one name are one class",
        &["{label}/{key}.{ext}", "{*}/{label}/{key}.{ext}"],
    );
    Some(Doubt::new(text, vec![WayToRead { leaves_out: true, ..way }, all]))
}

/// Images that have the names of masks; `patterns` are those of all of them.
pub(crate) fn masks_among(marks: &Marks, patterns: &[String]) -> Option<Doubt> {
    let (mark, n) = marks.of_masks()?;
    let text =
        format!("{} in `{mark}`, as those of masks do", counted(n, "name ends", "names end"));
    let masks = patterns.first()?.replacen("{key}", &format!("{{key}}{mark}"), 1);
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let way = WayToRead {
        files: vec![("mask".to_owned(), masks)],
        ..WayToRead::new("if they are", &patterns)
    };
    Some(Doubt::new(text, vec![way, WayToRead::new("if they are images", &patterns)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_in_names_of_files_are_in_the_patterns() {
        let mut folders = Folders::new(String::new());
        for name in
            ["before/1_before.png", "after/1_after.png", "before/2_before.png", "after/2_after.png"]
        {
            folders.add(name);
        }
        let doubt = parts_of_samples(&folders, true).unwrap();
        let way = &doubt.readings[0];
        assert_eq!(way.images, ["before/{key}_before.{ext}"]);
        assert_eq!(way.files, [("after".to_owned(), "after/{key}_after.{ext}".to_owned())]);
    }

    #[test]
    fn about_as_many_masks_as_images_are_told_apart() {
        let of = |names: &[&str]| {
            let mut marks = Marks::default();
            names.iter().for_each(|name| marks.add(name));
            masks_among(&marks, &["{label}/{key}.{ext}".to_owned()])
        };
        let doubt = of(&["b/1.png", "b/1_mask.png", "b/2.png", "b/2_mask.png"]).unwrap();
        assert!(doubt.text.contains("2 names end in `_mask`"), "{doubt}");
        assert_eq!(
            doubt.readings[0].files,
            [("mask".to_owned(), "{label}/{key}_mask.{ext}".to_owned())]
        );
        assert_eq!(of(&["1_mask.png", "2_mask.png"]), None);
        assert_eq!(of(&["1.png", "2.png", "3.png", "4_mask.png"]), None);
    }
}
