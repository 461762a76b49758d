//! Folders and names that are parts of samples, such as images and their masks, and no classes.

use std::collections::BTreeMap;

use super::folders::{Folders, Marks};
use super::pattern::literal;
use super::recognise::{CLASSES, KEY, list};
use super::{Doubt, WayToRead, split_of};
use crate::error::counted;

/// Names of folders that hold the images of samples, and no class, in lower case. Source: the
/// folders of Pascal VOC, Oxford-IIIT Pet, CUB-200, YOLO's exports and Hugging Face's imagefolder.
const IMAGES: [&str; 11] = [
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
];
/// Those that hold another part of each sample. Source: the same, LoveDA and Cityscapes.
const OTHER_PARTS: [&str; 18] = [
    "masks",
    "mask",
    "labels",
    "label",
    "annotations",
    "annotation",
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
];
/// Folders such as `images` and `masks`, if all are such; without classes, if some are not images.
pub(super) fn parts_of_samples(folders: &Folders, labelled: bool) -> Option<Doubt> {
    let (images, masks) = parts(folders.top.keys(), labelled)?;
    let inner = |name: &str| folders.top.get(name).map(|folder| (folder.direct, &folder.inner));
    let rest = match inner(images) {
        Some((0, inner)) if inner.keys().all(|name| split_of(name).is_some()) => {
            match inner.values().any(|deeper| *deeper) && labelled {
                true => "{split}/{label}/{key}",
                false => "{split}/{key}",
            }
        }
        Some((0, _)) if labelled => "{label}/{key}",
        _ => "{key}",
    };
    Some(these_are_parts(folders.top.keys(), images, masks, "", rest, labelled))
}

/// The same in folders that are splits.
pub(super) fn parts_in_splits(folders: &Folders, labelled: bool) -> Option<Doubt> {
    let inner: BTreeMap<&String, bool> =
        folders.top.values().flat_map(|f| &f.inner).map(|(name, deeper)| (name, *deeper)).collect();
    if folders.top.values().any(|folder| folder.direct > 0) {
        return None;
    }
    let (images, masks) = parts(inner.keys().copied(), labelled)?;
    let deeper = inner.iter().any(|(name, deeper)| *deeper && *name == images);
    let rest = if deeper && labelled { "{label}/{key}" } else { "{key}" };
    Some(these_are_parts(inner.keys().copied(), images, masks, "{split}/", rest, labelled))
}

/// The folder of images, and that of masks, if these folders hold parts of samples.
fn parts<'a>(
    names: impl Iterator<Item = &'a String> + Clone,
    labelled: bool,
) -> Option<(&'a str, Option<&'a str>)> {
    let among = |list: &[&str], name: &str| list.contains(&name.to_lowercase().as_str());
    let are_parts = names.clone().all(|name| among(&IMAGES, name) || among(&OTHER_PARTS, name));
    let mut names = names.map(String::as_str);
    let images = names.clone().find(|name| among(&IMAGES, name));
    let masks = names.clone().find(|name| among(&OTHER_PARTS, name));
    match (images, masks) {
        _ if !are_parts => None,
        (Some(images), Some(masks)) => Some((images, Some(masks))),
        _ if labelled => Some((names.next()?, None)),
        _ => None,
    }
}

/// Says that these folders are parts of samples; `rest` is the pattern below that of the images.
fn these_are_parts<'a>(
    names: impl Iterator<Item = &'a String>,
    images: &str,
    masks: Option<&str>,
    before: &str,
    rest: &str,
    labelled: bool,
) -> Doubt {
    let names: Vec<&str> = names.map(String::as_str).collect();
    let one = names.len() == 1;
    let text = format!(
        "{} {} like {} of the samples, not like {}",
        list(names.iter().copied()),
        if one { "looks" } else { "look" },
        if one { "a part" } else { "parts" },
        match (labelled, one) {
            (true, true) => "a class",
            (true, false) => "classes",
            (false, _) => "images alone",
        }
    );
    let below = |name: &str| format!("{before}{}/{rest}.{{ext}}", literal(name));
    let when = match (rest.contains("{label}"), masks) {
        (true, _) => "if the classes are the folders inside",
        (false, None) => "if there are no classes",
        (false, Some(_)) if labelled => {
            "if there are no classes, and the others belong to these images"
        }
        (false, Some(_)) => "if the others belong to these images",
    };
    let way = WayToRead { masks: masks.map(below), ..WayToRead::new(when, &[&below(images)]) };
    let all = format!("{before}{}", if labelled { CLASSES } else { KEY });
    let mut ways = vec![way];
    if labelled {
        let table = Some(String::new());
        ways.push(WayToRead { table, ..WayToRead::new("if a table has the classes", &[]) });
    }
    ways.push(WayToRead::new(
        if labelled { "if they are classes" } else { "if all of them are images" },
        &[&all],
    ));
    Doubt::new(text, ways)
}

/// Images that have the names of masks; `patterns` are those of all of them.
pub(crate) fn masks_among(marks: &Marks, patterns: &[String]) -> Option<Doubt> {
    let (mark, n) = marks.of_masks()?;
    let text =
        format!("{} in `{mark}`, as those of masks do", counted(n, "name ends", "names end"));
    let masks = patterns.first()?.replacen("{key}", &format!("{{key}}{mark}"), 1);
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let way = WayToRead { masks: Some(masks), ..WayToRead::new("if they are", &patterns) };
    Some(Doubt::new(text, vec![way, WayToRead::new("if they are images", &patterns)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_as_many_masks_as_images_are_told_apart() {
        let of = |names: &[&str]| {
            let mut marks = Marks::default();
            names.iter().for_each(|name| marks.add(name));
            masks_among(&marks, &["{label}/{key}.{ext}".to_owned()])
        };
        let doubt = of(&["b/1.png", "b/1_mask.png", "b/2.png", "b/2_mask.png"]).unwrap();
        assert!(doubt.text.contains("2 names end in `_mask`"), "{doubt}");
        assert_eq!(doubt.readings[0].masks.as_deref(), Some("{label}/{key}_mask.{ext}"));
        assert_eq!(of(&["1_mask.png", "2_mask.png"]), None);
        assert_eq!(of(&["1.png", "2.png", "3.png", "4_mask.png"]), None);
    }
}
