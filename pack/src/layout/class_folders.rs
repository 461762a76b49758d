//! First folders that are classes, or may be.

use std::collections::BTreeSet;

use gular_bundle::Split;

use super::class_names::{
    alike, classes_in_names, names_say_more, numbered, when_in, without_classes,
};
use super::companions::word_for_split;
use super::folder_patterns::{CLASSES, KEY, Recognised, of_split, of_splits};
use super::folders::Folders;
use super::parts::{
    copy_inside, in_a_table, numbered_parts, pairs_by_order, parts_in_classes, parts_of_samples,
    sources_of_images,
};
use super::shard_folders::shard_folders;
use super::unlikely_classes::{counted_classes, unlikely};
use crate::facts::{Doubt, WayToRead, literal, split_of};

/// The first folders are classes.
pub(super) fn classes(folders: &Folders) -> Result<Recognised, Doubt> {
    if let Some(path) = &folders.first_flat {
        return Err(flat(folders, path));
    }
    let refused = parts_of_samples(folders, true).or_else(|| numbered_parts(folders));
    let refused = refused.or_else(|| pairs_by_order(folders));
    if let Some(doubt) = refused.or_else(|| copy_inside(folders)) {
        return Err(doubt);
    }
    let mut found = Recognised::default();
    let only_folders = folders.top.values().all(|folder| folder.direct == 0);
    let inner: BTreeSet<&String> = folders.top.values().flat_map(|f| f.inner.keys()).collect();
    if only_folders && inner.iter().all(|name| split_of(name).is_some()) {
        if folders.top.values().any(|folder| folder.inner.values().any(|inner| inner.deeper)) {
            return Err(folders_in_splits(folders));
        }
        found.patterns = vec!["{label}/{split}/{key}.{ext}".to_owned()];
        found.classes = folders.top.keys().cloned().collect();
        let words = inner.iter().filter_map(|name| Some(((*name).clone(), split_of(name)?)));
        found.splits = words.collect();
        found.doubts.extend(of_classes(&found));
        return Ok(found);
    }
    let deeper = folders.top.values().any(|folder| folder.inner.values().any(|of| of.deeper));
    let mut ways =
        vec![WayToRead::new("if the classes are the folders inside", &["{*}/{label}/{key}.{ext}"])];
    if deeper {
        let deeper = ["{*}/{*}/{label}/{key}.{ext}"];
        ways.push(WayToRead::new("if they are the folders inside of these", &deeper));
    }
    if folders.top.len() == 1 {
        return Err(one_folder(folders, ways));
    } else if only_folders && let Some(doubt) = parts_in_classes(folders) {
        return Err(doubt);
    } else if only_folders {
        let example = folders.top.iter().next();
        let example =
            example.and_then(|(name, f)| Some(format!("{name}/{}", f.inner.keys().next()?)));
        let text = format!(
            "all images are in folders inside of the class folders, such as `{}`",
            example.unwrap_or_default()
        );
        ways.splice(0..0, named_after_splits(folders));
        ways.push(WayToRead::new("if the classes are the first folders", &[CLASSES]));
        if inner.len() == 1 {
            ways.push(WayToRead::new("if there are no classes", &["{*}/{*}/{key}.{ext}"]));
            ways.push(in_a_table());
        } else {
            ways.push(WayToRead::new("if there are no classes", &[KEY]));
        }
        return Err(Doubt::new(text, ways));
    } else if folders.top.values().any(|folder| folder.below > 0) {
        let mut folders_with = folders.top.iter().filter(|(_, folder)| folder.below > 0);
        let example = folders_with
            .next()
            .and_then(|(name, f)| Some(format!("{name}/{}", f.inner.keys().next()?)))
            .unwrap_or_default();
        let text = format!(
            "images are at differing depths: some class folders contain folders, such as `{example}`"
        );
        found.doubts.push(Doubt::new(text, ways));
    }
    let of_sources = sources_of_images(folders.top.keys().map(String::as_str), "");
    if let Some(doubt) = of_sources.or_else(|| shard_folders(folders)) {
        return Err(doubt);
    }
    found.classes = folders.top.keys().cloned().collect();
    found.patterns = vec![CLASSES.to_owned()];
    found.doubts.extend(of_classes(&found));
    Ok(found)
}

/// The way to read first folders as splits of which some names say which, such as `CRC-VAL-HE-7K`
/// beside `NCT-CRC-HE-100K`, where others have the same folders in them.
fn named_after_splits(folders: &Folders) -> Option<WayToRead> {
    let split = |name: &String| word_for_split(name).and_then(|(_, word, _)| split_of(word));
    let mut tops = folders.top.values();
    let first = tops.next()?;
    let are_alike = tops.all(|folder| folder.inner.keys().eq(first.inner.keys()));
    let splits: BTreeSet<Split> =
        folders.top.keys().map(|name| split(name).unwrap_or(Split::Train)).collect();
    if !are_alike || splits.len() != folders.top.len() {
        return None;
    }
    let of = |name: &String| of_split(split(name).unwrap_or(Split::Train), name, CLASSES);
    let patterns: Vec<String> = folders.top.keys().map(of).collect();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    Some(WayToRead::new("if the first folders are splits", &patterns))
}

/// What the user should know about the names of classes.
pub(super) fn of_classes(found: &Recognised) -> Vec<Doubt> {
    let Recognised { classes, patterns, .. } = found;
    let of_names = [alike(classes), numbered(classes)];
    let of_folders = [unlikely(classes, patterns), counted_classes(classes, patterns)];
    of_names.into_iter().chain(of_folders).flatten().collect()
}

/// All images are in one folder, which is a class only if there is one class.
fn one_folder(folders: &Folders, ways: Vec<WayToRead>) -> Doubt {
    let name = folders.top.keys().next().map_or("", String::as_str);
    let below = |rest: &str| format!("{}/{rest}", literal(name));
    let text = format!("all images have the class `{name}`");
    let is_flat = folders.top.values().all(|folder| folder.below == 0);
    let mut readings = if is_flat { Vec::new() } else { ways };
    if let Some(in_name) = classes_in_names(&folders.names) {
        let in_name = below(&in_name);
        readings.push(WayToRead::new(when_in(&in_name), &[&in_name]));
    }
    readings.push(WayToRead::new("if that is not a class", &[&below(KEY)]));
    readings.push(in_a_table());
    // Names such as `26_0_2_2017.jpg` say something, which is not read.
    let otherwise = is_flat && !names_say_more(&folders.names);
    let way = WayToRead::new("if it is the only class", &[CLASSES]);
    readings.push(WayToRead { otherwise, ..way });
    Doubt::new(text, readings)
}

/// There are splits in the first folders, and folders in these.
fn folders_in_splits(folders: &Folders) -> Doubt {
    let example = folders.top.iter().next();
    let example = example.and_then(|(name, f)| Some(format!("{name}/{}", f.inner.keys().next()?)));
    let text = format!("`{}` is a split, and there are folders in it", example.unwrap_or_default());
    let inner = WayToRead::new("if these are the classes", &["{*}/{split}/{label}/{key}.{ext}"]);
    let top =
        WayToRead::new("if the classes are the first folders", &["{label}/{split}/{key}.{ext}"]);
    Doubt::new(text, vec![inner, top])
}

fn flat(folders: &Folders, path: &str) -> Doubt {
    let text =
        format!("`{path}` is not in a class folder; expected paths of the form `class/file`");
    let mut readings = Vec::new();
    if let Some(in_name) = classes_in_names(&folders.names) {
        readings.push(WayToRead::new(when_in(&in_name), &[&in_name]));
    }
    if !folders.top.is_empty() {
        let beside = in_one_beside(folders).unwrap_or_else(|| [CLASSES.to_owned()].into());
        let beside: Vec<&str> = beside.iter().map(String::as_str).collect();
        let way = WayToRead::new("if it does not belong to the data", &beside);
        readings.push(WayToRead { leaves_out: true, ..way });
    }
    let plain = WayToRead::new("if there are no classes", &[KEY]);
    readings.push(match folders.top.is_empty() {
        true => without_classes(plain, &folders.names, folders.only()),
        false => plain,
    });
    readings.push(in_a_table());
    Doubt::new(text, readings)
}

/// The patterns in the only folder, if it has class folders or splits in it, and no images.
fn in_one_beside(folders: &Folders) -> Option<BTreeSet<String>> {
    let mut tops = folders.top.iter();
    let (name, folder) = tops.next().filter(|(_, folder)| folder.direct == 0)?;
    let is_deeper = folder.inner.values().any(|inner| inner.deeper);
    let of_classes = || [CLASSES.to_owned()].into();
    let rests = of_splits(folder, if is_deeper { CLASSES } else { KEY }).unwrap_or_else(of_classes);
    let below = rests.iter().map(|rest| format!("{}/{rest}", literal(name)));
    tops.next().is_none().then(|| below.collect())
}
