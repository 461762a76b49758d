//! Splits below other folders, and folders of masks beside folders of classes.
//!
//! ```text
//! 01/train/ok, 01/test/ko, 01/ground_truth/ko   ─▶ {*}/{split:test|train}/{label}
//! d/d/train/ok, d/d/test/ok, copy/copy/ok        ─▶ d/d/{split:test|train}/{label}
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::companions::of_masks;
use super::folder_patterns::KEY;
use super::folders::Folders;
use crate::facts::{Doubt, Pattern, WayToRead, literal, named, split_of};

/// Puts the splits that are below other folders before the ways of a doubt that has none, and takes
/// masks that no way knows out of the ways that take them for images of a class.
pub(super) fn with_deeper_splits(folders: &Folders, mut doubt: Doubt) -> Doubt {
    if doubt.readings.iter().any(|way| !way.files.is_empty()) {
        return doubt;
    }
    let has_splits = |way: &WayToRead| way.images.iter().any(|images| images.contains("{split"));
    let is_open = !doubt.readings.iter().any(has_splits);
    let splits = deeper_splits(folders).filter(|_| is_open);
    let (at, splits) = splits.unzip();
    let kept = |way: WayToRead| {
        let is_of_classes = way.tables.is_none()
            && !way.images.is_empty()
            && way.images.iter().all(|images| images.contains("{label}"));
        let reaches = |images: &String| at.is_some_and(|at| images.split('/').nth(at).is_some());
        match is_of_classes {
            true if way.images.iter().all(reaches) => None,
            true if takes_masks(folders, &way) => without_masks(folders, &way),
            _ => Some(way),
        }
    };
    doubt.readings =
        splits.into_iter().chain(doubt.readings.into_iter().filter_map(kept)).collect();
    doubt
}

/// A way without the masks that it takes: without the first folders that have them, or without what is
/// in folders inside.
fn without_masks(folders: &Folders, way: &WayToRead) -> Option<WayToRead> {
    let (masks, others): (BTreeSet<&str>, BTreeSet<&str>) =
        folders.top.keys().map(String::as_str).partition(|name| has_mask(&[name]));
    let first = match others.iter().collect::<Vec<_>>().as_slice() {
        _ if masks.is_empty() => None,
        [] => None,
        [one] => Some(literal(one)),
        several => {
            let names: Vec<String> = several.iter().map(|name| regex::escape(name)).collect();
            Some(format!("{{*:{}}}", names.join("|")))
        }
    };
    let in_others =
        |images: &String| Some(format!("{}/{}", first.as_ref()?, images.strip_prefix("{*}/")?));
    let direct = |images: &String| {
        let before = images.strip_suffix(KEY)?;
        Some(format!("{before}{{key:[^/]+}}.{{ext}}"))
    };
    let with = |images: &dyn Fn(&String) -> Option<String>| {
        let images: Option<Vec<String>> = way.images.iter().map(images).collect();
        let way = WayToRead { images: images?, leaves_out: true, ..way.clone() };
        (taken(folders, &way) == [false].into()).then_some(way)
    };
    with(&in_others).or_else(|| with(&direct))
}

/// Where the splits are in paths, and the way to read them, if some folders are in folders whose names
/// are words for splits, all of them at one depth.
fn deeper_splits(folders: &Folders) -> Option<(usize, WayToRead)> {
    let paths: BTreeSet<Vec<&str>> =
        folders.examples.names().map(|(folder, _)| folder.split('/').collect()).collect();
    let at_split = |path: &Vec<&str>| path.iter().position(|part| split_of(part).is_some());
    let mut of_depth: BTreeMap<(usize, usize), Vec<&Vec<&str>>> = BTreeMap::new();
    for path in paths.iter().filter(|path| !has_mask(path)) {
        if let Some(at) = at_split(path).filter(|at| *at > 0) {
            of_depth.entry((at, path.len())).or_default().push(path);
        }
    }
    let ((at, len), found) = of_depth.first_key_value().filter(|_| of_depth.len() == 1)?;
    let part = |depth: usize| -> BTreeSet<&str> {
        found.iter().filter_map(|path| path.get(depth)).copied().collect()
    };
    let words = part(*at);
    // The last folder is the class.
    if *len != at + 2 || words.len() < 2 || part(at + 1).len() < 2 {
        return None;
    }
    let before = (0..*at).map(|depth| match part(depth).iter().collect::<Vec<_>>().as_slice() {
        [one] => literal(one),
        _ => "{*}".to_owned(),
    });
    let all: Vec<String> = words.iter().map(|word| regex::escape(word)).collect();
    let split = format!("{{split:{}}}", all.join("|"));
    let parts: Vec<String> = before.chain([split, "{label}".to_owned(), KEY.to_owned()]).collect();
    let when = format!("if {} are splits, and the classes are inside", named(words.iter()));
    let way = WayToRead::new(&when, &[&parts.join("/")]);
    Some((*at, WayToRead { leaves_out: found.len() < paths.len(), ..way }))
}

fn has_mask(path: &[&str]) -> bool {
    path.iter().any(|part| of_masks(part) == Some(true))
}

/// Whether a way takes images from folders of masks, where there are others.
fn takes_masks(folders: &Folders, way: &WayToRead) -> bool {
    // With folders such as `no_mask`, these are classes.
    let paths = || folders.examples.names().map(|(folder, _)| folder);
    let mut parts = paths().flat_map(|folder| folder.split('/'));
    let are_classes = parts.any(|part| of_masks(part) == Some(false));
    let is_image = |folder: &str| !has_mask(&folder.split('/').collect::<Vec<_>>());
    !are_classes && paths().any(is_image) && taken(folders, way).contains(&true)
}

/// Whether the images that a way takes are in folders of masks: of each answer, whether there is one.
fn taken(folders: &Folders, way: &WayToRead) -> BTreeSet<bool> {
    let patterns: Vec<Pattern> =
        way.images.iter().filter_map(|images| Pattern::parse(images).ok()).collect();
    let is_taken = |folder: &str, name: &str| {
        let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        patterns.iter().any(|pattern| !matches!(pattern.read(&path), Ok(None)))
    };
    let paths = folders.examples.names().filter(|(folder, name)| is_taken(folder, name));
    paths.map(|(folder, _)| has_mask(&folder.split('/').collect::<Vec<_>>())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(paths: &[&str]) -> Vec<(String, bool)> {
        let mut folders = Folders::new(String::new());
        paths.iter().for_each(|path| folders.add(path, 1));
        let ways = ["{*}/{label}/{key}.{ext}", "{*}/{*}/{label}/{key}.{ext}"];
        let ways = ways.map(|images| WayToRead::new("if", &[images])).to_vec();
        let doubt = with_deeper_splits(&folders, Doubt::new(String::new(), ways));
        doubt.readings.into_iter().map(|mut way| (way.images.remove(0), way.leaves_out)).collect()
    }

    #[test]
    fn splits_below_other_folders_are_the_first_way() {
        let btad = ["01/train/ok/1.png", "01/test/ko/1.png", "02/train/ok/1.png"];
        let way = |images: &str, leaves_out| (images.to_owned(), leaves_out);
        assert_eq!(offered(&btad), [way("{*}/{split:test|train}/{label}/{key}.{ext}", false)]);
        let with_masks = [&btad[..], &["01/ground_truth/ko/1.png"]].concat();
        assert_eq!(offered(&with_masks), [way("{*}/{split:test|train}/{label}/{key}.{ext}", true)]);
        let casting = ["d/d/train/ok/1.png", "d/d/test/bad/1.png", "e/e/ok/1.png"];
        let split = way("d/d/{split:test|train}/{label}/{key}.{ext}", true);
        assert_eq!(offered(&casting).first(), Some(&split));
    }

    #[test]
    fn masks_are_not_offered_as_images() {
        let one = ["{*}/{label}/{key}.{ext}", "{*}/{*}/{label}/{key}.{ext}"];
        let of = |paths: &[&str]| offered(paths).into_iter().map(|(of, _)| of).collect::<Vec<_>>();
        assert_eq!(of(&["a/b/1.png", "c/d/1.png"]), one);
        assert_eq!(
            of(&["fish/fish_01/1.png", "mask/mask_01/1.png"]),
            ["fish/{label}/{key}.{ext}", one[1]]
        );
        assert_eq!(of(&["a/mask/1.png", "a/no_mask/1.png"]), one);
        assert_eq!(
            of(&["1/a/1.png", "1/a/label/1.png", "2/b/1.png"]),
            ["{*}/{label}/{key:[^/]+}.{ext}"]
        );
    }
}
