//! Folders and names that are parts of samples, such as images and their masks, and no classes.

use std::collections::{BTreeMap, BTreeSet};

use gular_bundle::FieldName;

use super::band_files::is_band;
use super::class_names::without_classes;
use super::folder_patterns::{CLASSES, KEY, of_splits};
use super::folders::{FileNames, Folder, Folders, Marks};
use crate::facts::{
    Doubt, WayToRead, counted, is_source, literal, named, split_of, stem_and_extension,
};

/// Names of folders that hold the images of samples, and no class, in lower case. Source: the
/// folders of Pascal VOC, Oxford-IIIT Pet, CUB-200, YOLO's exports, Hugging Face's imagefolder,
/// Cityscapes and nnU-Net.
const IMAGES: [&str; 17] = [
    "images",
    "image",
    "imgs",
    "img",
    "jpegimages",
    "pictures",
    "photos",
    "photographs",
    "pics",
    "samples",
    "frames",
    "rgb",
    "inputs",
    "input",
    "leftimg8bit",
    "imagestr",
    "imagests",
];
/// Those that hold another part of each sample. Source: the same, LoveDA, and CamVid of SegNet.
const OTHER_PARTS: [&str; 21] = [
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
    "ground truth",
    "gtfine",
    "targets",
    "labelstr",
];

/// Those that hold numbers for each pixel, and no classes. Source: Middlebury and Scene Flow
/// (`disparity`, `flow`), NYUv2 (`normals`).
const NUMBERS: [&str; 4] = ["disparity", "disparities", "flow", "normals"];

/// Names of folders with the two pictures of a pair, in lower case. Source: LEVIR-CD, CDD, SYSU-CD
/// and WHU-CD (`A`, `B`, `time1`, `time2`), xBD (`pre`, `post`), LOL (`low`, `high`), DIV2K (`lr`,
/// `hr`), GoPro (`blur`, `sharp`), pix2pix (`input`, `target`), SECOND (`im1`, `im2`).
const PAIRS: [[&str; 2]; 30] = [
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
    ["blur", "sharp"],
    ["blurred", "sharp"],
    ["photo", "sketch"],
    ["gray", "color"],
    ["sar", "opt"],
    ["sar", "optical"],
    ["rgb", "nir"],
    ["rgb", "thermal"],
    ["source", "target"],
    ["pre_fire", "post_fire"],
    ["left", "right"],
    ["visible", "infrared"],
    ["he", "ihc"],
    ["original", "augmented"],
    ["original", "edited"],
    ["rain", "norain"],
    ["original", "ground truth"],
    ["scan", "lesion"],
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
    if let Some(first) = doubt.readings.first_mut().filter(|_| labelled && folders.top.len() == 1)
        && folder.below == 0
    {
        *first = without_classes(std::mem::take(first), &folders.names, folders.only());
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
    let is_part =
        |name: &str| among(&IMAGES, name) || among(&OTHER_PARTS, name) || among(&NUMBERS, name);
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
            is_part(word) || among(&OF_PAIRS, word) || among(&NUMBERS, word)
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
    // `image_2` and `image_3` of stereo sets, with files of the same names.
    let of_numbered = || {
        let mut files = folders.values();
        let first = files.next().filter(|_| folders.len() > 1)?;
        let stem = |name: &'_ str| -> String {
            name.trim_end_matches(|c: char| c.is_ascii_digit() || "_- ".contains(c)).to_lowercase()
        };
        let images = names().find(|name| IMAGES.contains(&stem(name).as_str()))?;
        files.all(|other| other == first).then_some(images)
    };
    if let Some(images) = of_numbered() {
        return Some((images, others(images)));
    }
    match (first, masks) {
        (Some(images), _) if of_pair().is_some() => Some((images, others(images))),
        (Some(images), Some(masks)) if are_parts || alone(masks) => Some((images, others(images))),
        _ if are_parts && labelled => Some((names().next()?, Vec::new())),
        _ => None,
    }
}

/// Folders with the names of pairs and as many files, whose names differ: files are never paired by
/// their order.
pub(super) fn pairs_by_order(folders: &Folders) -> Option<Doubt> {
    let mut both = folders.top.iter();
    let ((one, a), (two, b)) = (both.next()?, both.next().filter(|_| folders.top.len() == 2)?);
    let is_pair = |pair: &[&str; 2]| {
        let is =
            |a: &str, b: &str| a.eq_ignore_ascii_case(pair[0]) && b.eq_ignore_ascii_case(pair[1]);
        // Two letters are more often two classes.
        pair.iter().all(|name| name.len() > 2) && (is(one, two) || is(two, one))
    };
    let is_flat = a.below + b.below == 0 && folders.flat == 0;
    if !PAIRS.iter().any(is_pair) || !is_flat || a.files == b.files {
        return None;
    }
    if a.direct != b.direct {
        return several_of_each(folders, [one, two]);
    }
    let text = format!(
        "`{one}` and `{two}` have as many files, whose names differ: pictures of a pair need one name, as they are not paired by their order"
    );
    let classes = WayToRead::new("if they are classes", &[CLASSES]);
    let none = WayToRead::new("if there are no classes and no pairs", &[&format!("{{*}}/{KEY}")]);
    Some(Doubt::new(text, vec![classes, none]))
}

/// Folders with the names of pairs, of which one has several files for each of the other, such as
/// `hazy/7_1.png` and `hazy/7_2.png` of `clear/7.png`.
fn several_of_each(folders: &Folders, pair: [&str; 2]) -> Option<Doubt> {
    let stems = |of: &str| -> BTreeSet<&str> {
        let names = folders.examples.names().filter(|(folder, _)| *folder == of);
        names.map(|(_, name)| stem_and_extension(name).0).collect()
    };
    let [one, two] = pair;
    let (few, many) = if stems(one).len() < stems(two).len() { (one, two) } else { (two, one) };
    let keys = stems(few);
    let all = stems(many);
    let of_key = |stem: &&str| stem.rsplit_once('_').is_some_and(|(key, _)| keys.contains(key));
    if keys.is_empty() || !all.iter().all(of_key) {
        return None;
    }
    let text = format!(
        "`{many}` has several files for each of `{few}`, by their names, so they may be pairs and not classes"
    );
    let images = format!("{}/{{key}}_{{version:[^_/]+}}.{{ext}}", literal(many));
    let files = format!("{}/{KEY}", literal(few));
    let name = few.to_lowercase();
    let pairs = WayToRead {
        files: FieldName::parse(&name).map(|_| vec![(name, files)])?,
        asks: true,
        ..WayToRead::new("if they are pairs", &[&images])
    };
    let classes = WayToRead { asks: true, ..WayToRead::new("if they are classes", &[CLASSES]) };
    Some(Doubt::new(text, vec![pairs, classes]))
}

/// Whether a folder has the name of one of images.
pub(super) fn is_of_images(folder: &str) -> bool {
    among(&IMAGES, folder)
}

/// Whether a folder has another part of samples than their images.
pub(super) fn is_other_part(folder: &str) -> bool {
    among(&OTHER_PARTS, folder)
}

fn is_mask(folder: &str) -> bool {
    among(&OTHER_PARTS, folder) || among(&OF_PAIRS, folder)
}

/// The name of a field for files with this end, or in a folder of this name.
pub(super) fn field_of(name: &str) -> String {
    let lower = name.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let text: String = lower.chars().map(plain).collect();
    let is_field =
        FieldName::parse(&text).is_some() && text != "mask" && !RESERVED.contains(&text.as_str());
    if is_field { text } else { format!("other_{}", text.trim_matches('_')) }
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
            () if NUMBERS.contains(&&*lower) => &own,
            () if is_mask(folder) => "mask",
            () => &own,
        };
        // A second folder of masks, whose name no field may have.
        let own = if RESERVED.contains(&&*own) { format!("{own}_mask") } else { own.clone() };
        let is_free = |name: &str| fields.iter().all(|(known, _)| known != name);
        let name = if is_free(kind) { kind } else { &own };
        if is_free(name) && FieldName::parse(name).is_some() && !RESERVED.contains(&name) {
            fields.push((name.to_owned(), folder));
        }
    }
    fields
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
    // Of several folders of masks, each may be the mask.
    let n_masks = others.iter().filter(|name| among(&OTHER_PARTS, name)).count();
    let with = |first: usize| {
        let mut others = others.to_vec();
        others.get_mut(..n_masks).into_iter().for_each(|masks| masks.rotate_left(first));
        let files =
            fields_of(&others).into_iter().map(|(name, folder)| (name, below(folder, rest)));
        WayToRead { files: files.collect(), ..WayToRead::new(when, &of_images) }
    };
    let all = format!("{before}{}", if labelled { CLASSES } else { KEY });
    let mut ways: Vec<WayToRead> = (0..n_masks.max(1)).map(with).collect();
    if labelled && rests.iter().any(|rest| rest.contains("{label}")) && !others.is_empty() {
        // The folders inside only divide the images.
        let fields = fields_of(others).into_iter();
        let files = fields.map(|(name, folder)| (name, below(folder, KEY))).collect();
        ways.push(WayToRead { images: vec![below(images, KEY)], files, ..in_a_table() });
    } else if labelled {
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

/// Folders such as `patient_01` and `patient_02`, or `2019` and `2020`, below `before`.
pub(super) fn sources_of_images<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    before: &str,
) -> Option<Doubt> {
    let word = |name: &str| {
        let word = counted_word(name).to_lowercase();
        if is_date(name) { Some("date".to_owned()) } else { is_source(&word).then_some(word) }
    };
    let first = word(names.clone().next()?)?;
    if names.clone().count() < 2 || !names.clone().all(|name| word(name).as_ref() == Some(&first)) {
        return None;
    }
    let text = format!("{} look like what the images are of, not like classes", named(names));
    let of = format!("{before}{{{first}}}/{KEY}");
    let group = before.is_empty().then(|| format!("{{{first}}}"));
    let when = match before.is_empty() {
        true => format!("if there are no classes, with each {first} in one split"),
        false => "if there are no classes".to_owned(),
    };
    let none = WayToRead { group, ..WayToRead::new(&when, &[&of]) };
    let table = WayToRead { images: vec![of], ..in_a_table() };
    let classes = WayToRead::new("if they are classes", &[&format!("{before}{CLASSES}")]);
    Some(Doubt::new(text, vec![none, table, classes]))
}

/// The first word of a name in which each word has a number behind it, such as `patient_004_node_1`.
fn counted_word(name: &str) -> &str {
    const MARKS: [char; 3] = ['_', '-', ' '];
    let is_digit = |c: char| c.is_ascii_digit();
    let (mut rest, mut word) = (name, name);
    while !rest.is_empty() {
        let before = rest.trim_end_matches(is_digit);
        word = before.trim_end_matches(MARKS);
        if before.len() == rest.len() {
            return "";
        }
        rest = word.trim_end_matches(|c: char| !is_digit(c));
    }
    word
}

/// A class folder that has the other class folders in it, as an archive that was unpacked into its
/// own folder does.
pub(super) fn copy_inside(folders: &Folders) -> Option<Doubt> {
    let is_copy = |(name, folder): &(&String, &Folder)| {
        let others = || folders.top.keys().filter(|other| other != name);
        folder.direct == 0 && others().count() > 0 && others().eq(folder.inner.keys())
    };
    let (name, folder) = folders.top.iter().find(is_copy)?;
    let others: Vec<&str> =
        folders.top.keys().filter(|other| *other != name).map(String::as_str).collect();
    let text = format!(
        "`{name}` has the folders in it that are beside it: {}",
        named(others.iter().copied())
    );
    let escaped: Vec<String> = others.iter().map(|other| regex::escape(other)).collect();
    let only = format!("{{label:{}}}/{KEY}", escaped.join("|"));
    let proof = is_same_below(folders, folder).then(|| is_a_copy(name));
    let copies = proof.is_some().then(|| (format!("{name}/"), String::new()));
    let way = WayToRead { proof, copies, ..WayToRead::new("if it is a copy", &[&only]) };
    let all = WayToRead::new(
        "if it is not, and the folders of one name are one class",
        &["{label}/{key}.{ext}", "{*}/{label}/{key}.{ext}"],
    );
    // A single folder is hardly a class.
    if let [one] = others.as_slice() {
        let plain = format!("{}/{KEY}", literal(one));
        let plain = WayToRead::new("if it is a copy, and there are no classes", &[&plain]);
        let plain = WayToRead { leaves_out: true, ..plain };
        let table = WayToRead { leaves_out: true, images: plain.images.clone(), ..in_a_table() };
        return Some(Doubt::new(text, vec![table, plain, all]));
    }
    Some(Doubt::new(text, vec![WayToRead { leaves_out: true, ..way }, all]))
}

/// Whether a folder has just the images in it that are beside it.
fn is_same_below(folders: &Folders, folder: &Folder) -> bool {
    folder.direct == 0
        && folder.inner.iter().all(|(name, inner)| {
            folders.top.get(name).is_some_and(|beside| beside.content == inner.content)
        })
}

/// The folder beside those of splits that only repeats these, if there is one, and what proves it.
pub(super) fn copy_of_splits(folders: &Folders) -> Option<(&str, String)> {
    let is_copy = |(name, folder): &(&String, &Folder)| {
        let others = folders.top.keys().filter(|other| other != name);
        others.eq(folder.inner.keys()) && is_same_below(folders, folder)
    };
    let (name, folder) = folders.top.iter().find(is_copy)?;
    let are_splits = folder.inner.keys().all(|word| split_of(word).is_some());
    are_splits.then(|| (name.as_str(), is_a_copy(name)))
}

fn is_a_copy(name: &str) -> String {
    format!("`{name}` is left out: it has the files that are beside it once more")
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
            folders.add(name, 1);
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
