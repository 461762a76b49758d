//! Recognises what the folders of a source mean, if the user does not say it.
//!
//! Folders are splits if their names are words for splits, and classes otherwise. Where a source can
//! be read in another way that is about as likely, it is refused; where that is unlikely, the user
//! is told.

use std::collections::{BTreeMap, BTreeSet};

use gular_bundle::Split;

use super::class_names::{alike, classes_in_names, names_say_more, numbered, when_in};
use super::companions::{beside_word_for_split, divided, of_masks, with_splits, word_for_split};
use super::folders::{Folder, Folders};
use super::parts::{
    axes_of_samples, copy_inside, copy_of_splits, images_in_splits, in_a_table, is_other_part,
    numbered_parts, pairs_by_order, parts_in_classes, parts_in_splits, parts_of_samples,
    sources_of_images,
};
use super::unlikely_classes::{counted_classes, unlikely};
use crate::facts::{
    Doubt, WayToRead, is_fold, is_of_both, literal, named, split_like, split_of, split_within,
    splits_among,
};

pub(super) const KEY: &str = "{key}.{ext}";
pub(super) const CLASSES: &str = "{label}/{key}.{ext}";

/// How a source is read.
#[derive(Debug, Default)]
pub(crate) struct Recognised {
    pub(crate) patterns: Vec<String>,
    pub(crate) classes: BTreeSet<String>,
    /// Folders that are splits.
    pub(crate) splits: BTreeMap<String, Split>,
    /// What the user should know.
    pub(crate) doubts: Vec<Doubt>,
}

/// Reads the folders of a source; `labelled` says that classes are wanted.
pub(crate) fn recognise(folders: &Folders, labelled: bool) -> Result<Recognised, Doubt> {
    let all = |is: &dyn Fn(&str) -> bool| {
        !folders.top.is_empty() && folders.top.keys().all(|name| is(name))
    };
    let like = splits_among(folders.top.keys());
    let some_split = folders.top.keys().find(|name| split_of(name).is_some());
    let are_splits = some_split.is_some() && all(&|name| split_within(name).is_some());
    let found = if are_splits {
        splits(folders, labelled)
    } else if let Some(split) = some_split.filter(|_| like.len() < folders.top.len()) {
        let mut doubt = some_are_splits(folders, &like, split, labelled);
        if let Some(splits_alone) = doubt.readings.iter_mut().find(|way| way.leaves_out)
            && let Some((name, proof)) = copy_of_splits(folders)
        {
            splits_alone.proof = Some(proof);
            splits_alone.copies = Some((format!("{name}/"), String::new()));
        }
        Err(doubt)
    } else if !labelled && all(&|name| split_of_like(&like, name) == Some(Split::Train)) {
        // As splits and as other folders, all of them are `train`.
        Ok(splits_in_one(folders))
    } else if all(&|name| split_of_like(&like, name).is_some() || is_fold(name)) {
        Err(may_be_splits(folders, &like, labelled))
    } else if let Some(split) = like.keys().next()
        && folders.flat == 0
    {
        Err(some_are_splits(folders, &like, split, labelled))
    } else if let Some(doubt) = axes_of_samples(folders).filter(|_| labelled) {
        Err(doubt)
    } else if labelled {
        classes(folders)
    } else if let Some(doubt) = parts_of_samples(folders, labelled) {
        Err(doubt)
    } else {
        Ok(splits_in_one(folders))
    };
    let found = without_both(folders, with_masks(folders, labelled, found));
    // Without classes and splits, it does not matter where a key begins.
    let matters = labelled || found.as_ref().map_or(true, |found| !found.splits.is_empty());
    let prefix = if matters { literal(&folders.prefix) } else { String::new() };
    let below = |patterns: &mut Vec<String>| {
        patterns.iter_mut().for_each(|pattern| pattern.insert_str(0, &prefix));
    };
    let place = |doubt: &mut Doubt| {
        for reading in &mut doubt.readings {
            below(&mut reading.images);
            reading.files.iter_mut().for_each(|(_, files)| files.insert_str(0, &prefix));
            if let Some((copy, beside)) = &mut reading.copies {
                [copy, beside].into_iter().for_each(|path| path.insert_str(0, &folders.prefix));
            }
        }
    };
    // Some files have no extension.
    let with_bare = |patterns: &mut Vec<String>| {
        let bare = patterns.iter().filter_map(|p| p.strip_suffix(".{ext}"));
        let bare: Vec<String> = bare.filter(|_| folders.bare).map(str::to_owned).collect();
        patterns.extend(bare);
    };
    let mut found = found.map_err(|mut doubt| {
        doubt.readings.iter_mut().for_each(|way| with_bare(&mut way.images));
        place(&mut doubt);
        doubt
    })?;
    let of_doubts = found.doubts.iter_mut().flat_map(|doubt| &mut doubt.readings);
    of_doubts.for_each(|way| with_bare(&mut way.images));
    with_bare(&mut found.patterns);
    below(&mut found.patterns);
    found.doubts.iter_mut().for_each(place);
    if !prefix.is_empty() && labelled {
        found.doubts.push(one_folder_around(folders));
    }
    Ok(found)
}

/// Adds the masks that folders have by their names; where these were taken for classes, or for images,
/// nothing is clear.
fn with_masks(
    folders: &Folders,
    labelled: bool,
    found: Result<Recognised, Doubt>,
) -> Result<Recognised, Doubt> {
    if let (Err(doubt), Some(pattern)) = (&found, folders.examples.of_samples()) {
        let way =
            WayToRead::new("if each sample is a folder, of which its image is taken", &[&pattern]);
        let way = WayToRead { leaves_out: true, ..way };
        let readings = [&[way], doubt.readings.as_slice()].concat();
        return Err(Doubt { readings, ..doubt.clone() });
    }
    let ways = folders.examples.masks(labelled);
    let folder = |pattern: &'_ str| pattern.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let is_beside = |way: &WayToRead| {
        let of_images = way.images.iter().map(|images| folder(images));
        way.files.iter().map(|(_, files)| folder(files)).eq(of_images)
    };
    match found {
        _ if ways.is_empty() => found,
        Err(mut doubt) => {
            doubt.readings.retain(|way| way.files.iter().all(|(name, _)| name != "mask"));
            doubt.readings.iter_mut().for_each(|way| way.otherwise = false);
            doubt.readings.splice(0..0, ways);
            Err(doubt)
        }
        Ok(found)
            if !labelled
                || ways.iter().any(is_beside)
                || found.classes.iter().any(|class| of_masks(class) == Some(true)) =>
        {
            let masks = ways.iter().flat_map(|way| &way.files).map(|(_, files)| files.as_str());
            let text = format!("{} look like masks, not like images", named(masks));
            let all = found.patterns.iter().map(String::as_str).collect::<Vec<_>>();
            let when = match labelled && !ways.iter().any(is_beside) {
                true => "if they are classes",
                false => "if all of them are images",
            };
            Err(Doubt::new(text, [ways, vec![WayToRead::new(when, &all)]].concat()))
        }
        found => found,
    }
}

/// Leaves out a folder such as `trainval` where folders of `train` and of `val`, whose images it has, are
/// beside it.
fn without_both(folders: &Folders, found: Result<Recognised, Doubt>) -> Result<Recognised, Doubt> {
    let words = folders.top.keys().filter_map(|name| Some(word_for_split(name)?.1));
    let Some(words) = divided(words) else { return found };
    let both = named(folders.top.keys().filter(|name| is_of_both(name)));
    let text = format!(
        "{both} is left out, as it looks like the images of `train` and `val`, which are beside it"
    );
    match found {
        Err(doubt) => {
            let of_images = |way| if is_of_splits(&way) { with_splits(way, &words) } else { way };
            let readings = doubt.readings.into_iter().map(of_images).collect();
            Err(Doubt::new(format!("{}; {text}", doubt.text), readings))
        }
        Ok(found) => {
            let all: Vec<&str> = found.patterns.iter().map(String::as_str).collect();
            let way = with_splits(WayToRead::new("to leave it out", &all), &words);
            let way = WayToRead { proof: Some(text.clone()), ..way };
            let all = WayToRead::new("if it has other images for training", &all);
            Err(Doubt::new(text, vec![way, all]))
        }
    }
}

/// Whether a way takes splits from paths.
fn is_of_splits(way: &WayToRead) -> bool {
    way.images.iter().any(|pattern| pattern.contains("{split}"))
}

fn split_of_like(like: &BTreeMap<&str, Split>, name: &str) -> Option<Split> {
    like.get(name).copied().or_else(|| split_like(name))
}

/// Without classes, splits may be the folders in the only one, such as `images/train2017/`.
fn splits_in_one(folders: &Folders) -> Recognised {
    let mut tops = folders.top.iter().filter(|_| folders.flat == 0);
    if let (Some((name, folder)), None) = (tops.next(), tops.next())
        && folder.direct == 0
        && let Some(rests) = of_splits(folder, KEY)
    {
        let splits =
            folder.inner.keys().filter_map(|word| Some((word.clone(), split_within(word)?)));
        let patterns = rests.iter().map(|rest| format!("{}/{rest}", literal(name))).collect();
        return Recognised { patterns, splits: splits.collect(), ..Recognised::default() };
    }
    Recognised { patterns: vec![KEY.to_owned()], ..Recognised::default() }
}

/// The patterns in a folder in which all folders are splits, if it is such.
pub(super) fn of_splits(folder: &Folder, rest: &str) -> Option<BTreeSet<String>> {
    let of = |word: &String| match (split_of(word), split_within(word)) {
        (Some(_), _) => Some(format!("{{split}}/{rest}")),
        (None, Some(split)) => Some(format!("{{split={split}}}{}/{rest}", literal(word))),
        (None, None) => None,
    };
    let some = folder.inner.keys().any(|word| split_within(word).is_some());
    folder.inner.keys().map(of).collect::<Option<_>>().filter(|_| some)
}

/// The first folders are splits.
fn splits(folders: &Folders, labelled: bool) -> Result<Recognised, Doubt> {
    let mut found = Recognised::default();
    if let Some(path) = &folders.first_flat {
        let text = format!("`{path}` is not in a split folder, although there are such folders");
        let of_splits = split_patterns(folders, labelled);
        let of_splits: Vec<&str> = of_splits.iter().map(String::as_str).collect();
        let way = WayToRead::new("if it does not belong to the data", &of_splits);
        let way = WayToRead { leaves_out: true, ..way };
        return Err(Doubt::new(text, vec![way, WayToRead::new("if there are no splits", &[KEY])]));
    }
    if let Some((first, name)) = of_one_split(folders) {
        let doubt = same_split(folders, first, name, labelled);
        // Images without classes are mostly no further part of a split that has them.
        let has_classes = |name: &str| folders.top.get(name).is_some_and(|of| of.below > 0);
        if labelled && has_classes(first) != has_classes(name) {
            return Err(doubt);
        }
        found.doubts.push(doubt);
    }
    if let Some(doubt) = parts_in_splits(folders, labelled) {
        return Err(doubt);
    }
    found.patterns = split_patterns(folders, labelled);
    let words = folders.top.keys().filter_map(|name| Some((name.clone(), split_within(name)?)));
    found.splits = words.collect();
    if !labelled {
        return Ok(found);
    }
    let is_flat = |folder: &Folder| folder.below == 0;
    if let Some((name, folder)) =
        folders.top.iter().find(|(_, folder)| folder.direct > 0 && folder.below > 0)
    {
        return Err(not_in_class(name, folder, folders));
    }
    if folders.top.values().all(is_flat) {
        let Some((name, folder)) = folders.top.iter().next() else { return Ok(found) };
        return Err(not_in_class(name, folder, folders));
    }
    let flat: Vec<&String> =
        folders.top.iter().filter(|(_, f)| is_flat(f)).map(|(name, _)| name).collect();
    if !flat.is_empty() {
        let named = named(flat.iter().map(|name| name.as_str()));
        let text = format!("images in {named} are in no class folder, so their class is unknown");
        let rest: Vec<String> = found
            .patterns
            .iter()
            .filter(|pattern| pattern.contains("{label}"))
            .map(|pattern| {
                let names = folders.top.iter().filter(|(_, folder)| !is_flat(folder));
                let names: Vec<String> = names.map(|(name, _)| regex::escape(name)).collect();
                pattern.replace("{split}", &format!("{{split:{}}}", names.join("|")))
            })
            .collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let way =
            WayToRead { leaves_out: true, ..WayToRead::new("to leave these images out", &rest) };
        found.doubts.push(Doubt::new(text, vec![way]));
    }
    for folder in folders.top.values() {
        found.classes.extend(folder.inner.keys().cloned());
    }
    if !found.classes.is_empty() && found.classes.iter().all(|name| split_like(name).is_some()) {
        let named = named(found.classes.iter().map(String::as_str));
        let text =
            format!("{named}, inside of the split folders, look like splits, not like classes");
        let deeper = ["{split}/{*}/{label}/{key}.{ext}"];
        let deeper = WayToRead::new("if the classes are the folders in these", &deeper);
        let classes = WayToRead::new("if they are classes", &[&format!("{{split}}/{CLASSES}")]);
        return Err(Doubt::new(text, vec![deeper, classes]));
    }
    let names = found.classes.iter().map(String::as_str);
    if let Some(doubt) =
        deeper_classes(folders, &found.patterns).or_else(|| sources_of_images(names, "{split}/"))
    {
        return Err(doubt);
    }
    if let Some(doubt) = one_class(folders, &found) {
        return Err(doubt);
    }
    found.doubts.extend(of_classes(&found));
    Ok(found)
}

/// The first two folders that are one split.
fn of_one_split(folders: &Folders) -> Option<(&str, &str)> {
    let mut of_split: BTreeMap<Split, &str> = BTreeMap::new();
    folders.top.keys().find_map(|name| {
        let split = split_within(name).unwrap_or(Split::Train);
        Some((of_split.insert(split, name)?, name.as_str()))
    })
}

/// Two folders that are one split, of which one may not belong to the data.
fn same_split(folders: &Folders, first: &str, name: &str, labelled: bool) -> Doubt {
    let split = split_within(first).unwrap_or(Split::Train);
    let text = format!("the folders `{first}` and `{name}` are both split `{split}`");
    let without = |left_out: &str| {
        let others = folders.top.iter().filter(|(other, _)| *other != left_out);
        let pattern = |(other, folder): (&String, &Folder)| {
            let rest = if labelled && folder.below > 0 { CLASSES } else { KEY };
            match split_of(other) {
                Some(_) => format!("{{split:{}}}/{rest}", regex::escape(other)),
                None => of_split(split_within(other).unwrap_or(Split::Train), other, rest),
            }
        };
        let patterns: Vec<String> = others.map(pattern).collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let way = WayToRead::new(&format!("if `{left_out}` is to be left out"), &patterns);
        WayToRead { leaves_out: true, ..way }
    };
    // A name that is not only a word for the split is the likelier one.
    let mut both = [name, first];
    both.sort_by_key(|name| split_of(name).is_some());
    let all = split_patterns(folders, labelled);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let all = WayToRead::new("if all of them are images of this split", &all);
    Doubt::new(text, both.into_iter().map(without).chain([all]).collect())
}

/// Class folders in split folders, if all of them hold only folders.
fn deeper_classes(folders: &Folders, patterns: &[String]) -> Option<Doubt> {
    let inner = || folders.top.iter().flat_map(|(top, f)| f.inner.iter().map(move |of| (top, of)));
    let (top, (class, _)) = inner().next()?;
    if inner().any(|(_, (_, class))| class.direct) {
        return None;
    }
    let text = format!(
        "all images are in folders inside of the class folders, such as those in `{top}/{class}`"
    );
    let deeper = patterns.iter().map(|pattern| pattern.replace("{label}", "{*}/{label}"));
    let deeper: Vec<String> = deeper.collect();
    let [deeper, first] =
        [&deeper, patterns].map(|all| -> Vec<&str> { all.iter().map(String::as_str).collect() });
    let ways = vec![
        WayToRead::new("if the classes are the folders inside", &deeper),
        WayToRead::new("if the classes are the folders around these", &first),
    ];
    Some(Doubt::new(text, ways))
}

/// Split folders that have one and the same class.
fn one_class(folders: &Folders, found: &Recognised) -> Option<Doubt> {
    let class = found.classes.first().filter(|_| found.classes.len() == 1)?;
    let deeper = folders.top.values().any(|folder| folder.inner.values().any(|inner| inner.deeper));
    let with = |rest: &str| -> Vec<String> {
        found.patterns.iter().map(|pattern| pattern.replace("{label}", rest)).collect()
    };
    let way = |when: &str, patterns: &[String]| {
        WayToRead::new(when, &patterns.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let inside = way("if the classes are the folders inside", &with("{*}/{label}"));
    let text = format!("all images have the class `{class}`");
    let ways = deeper.then_some(inside).into_iter().chain([
        way("if that is not a class", &with("{*}")),
        in_a_table(),
        WayToRead { otherwise: !deeper, ..way("if it is the only class", &found.patterns) },
    ]);
    Some(Doubt::new(text, ways.collect()))
}

/// The patterns of folders that are splits, each with its class folders or without.
fn split_patterns(folders: &Folders, labelled: bool) -> Vec<String> {
    let mut patterns = BTreeSet::new();
    for (name, folder) in &folders.top {
        let has_classes = labelled && folder.below > 0;
        let rest = if has_classes { CLASSES } else { KEY };
        // Where all folders have the same form, one pattern is for all of them.
        let same = !labelled || folders.top.values().all(|other| other.below > 0);
        patterns.insert(match (split_of(name), split_within(name)) {
            (Some(_), _) if same || has_classes => format!("{{split}}/{rest}"),
            (Some(_), _) => format!("{{split:{}}}/{rest}", regex::escape(name)),
            (None, split) => {
                let split = split.unwrap_or(Split::Train);
                format!("{{split={split}}}{}/{rest}", literal(name))
            }
        });
    }
    patterns.into_iter().collect()
}

/// A split folder in which images are not in class folders.
fn not_in_class(name: &str, folder: &Folder, folders: &Folders) -> Doubt {
    let path = folder.first.clone().unwrap_or_else(|| name.to_owned());
    let text =
        format!("`{path}` is not in a class folder; expected paths of the form `split/class/file`");
    let below = |when: &str, rest: &str| {
        let patterns = folders.top.keys().map(|name| match split_of(name) {
            Some(_) => format!("{{split}}/{rest}"),
            None => of_split(split_within(name).unwrap_or(Split::Train), name, rest),
        });
        let patterns: BTreeSet<String> = patterns.collect();
        WayToRead::new(when, &patterns.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let mut readings = Vec::new();
    if let Some(in_name) = classes_in_names(&folders.names) {
        readings.push(below(when_in(&in_name), &in_name));
        if folders.top.len() == 1 {
            let all = format!("{}/{in_name}", literal(name));
            let when = format!("if `{name}` is not a split, as when splits are made by fractions");
            readings.push(WayToRead::new(&when, &[&all]));
        }
    }
    if folder.below > 0 {
        let way = below("if it does not belong to the data", CLASSES);
        readings.push(WayToRead { leaves_out: true, ..way });
    }
    readings.push(below("if there are no classes", KEY));
    readings.push(in_a_table());
    Doubt::new(text, readings)
}

fn some_are_splits(
    folders: &Folders,
    like: &BTreeMap<&str, Split>,
    split: &str,
    labelled: bool,
) -> Doubt {
    let is_flat = folders.top.values().all(|folder| folder.below == 0);
    let rest = if labelled && !is_flat { CLASSES } else { KEY };
    let others: Vec<&String> =
        folders.top.keys().filter(|name| !like.contains_key(name.as_str())).collect();
    let text = format!(
        "it is not clear whether the top-level folders are splits: `{split}` is the name of a split, `{}` is not",
        others.first().map_or("", |name| name.as_str())
    );
    let words: Vec<String> =
        like.keys().filter(|name| split_of(name).is_some()).map(|n| regex::escape(n)).collect();
    let mut known: Vec<String> = Vec::new();
    if !words.is_empty() {
        known.push(format!("{{split:{}}}/{rest}", words.join("|")));
    }
    let of_like = like.iter().filter(|(name, _)| split_of(name).is_none());
    known.extend(of_like.map(|(name, split)| of_split(*split, name, rest)));
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let mut ways = Vec::new();
    let has_splits = |name: &&&String| {
        folders.top.get(name.as_str()).is_some_and(|folder| of_splits(folder, rest).is_some())
    };
    let may_be =
        |other: &&&String| others.len() == 1 && !has_splits(other) && !is_other_part(other);
    if let Some(other) = others.first().filter(may_be) {
        // The split that no other folder is.
        let missing = [Split::Val, Split::Test, Split::Train]
            .into_iter()
            .find(|split| like.values().all(|known| known != split));
        let split = split_like(other).or(missing).unwrap_or(Split::Val);
        let when = format!("if `{other}` is a split, such as {split}");
        let other = of_split(split, other, rest);
        ways.push(WayToRead::new(&when, &[&known[..], &[&other]].concat()));
    }
    let way = WayToRead::new("if only the splits are to be packed", &known);
    ways.push(WayToRead { leaves_out: true, ..way });
    if labelled && is_flat {
        ways.push(in_a_table());
    }
    ways.push(match labelled {
        true => WayToRead::new("if all these folders are classes", &[CLASSES]),
        false => WayToRead::new("if there are no splits", &[KEY]),
    });
    Doubt::new(text, ways)
}

/// The pattern of a folder that is this split.
fn of_split(split: Split, folder: &str, rest: &str) -> String {
    format!("{{split={split}}}{}/{rest}", literal(folder))
}

fn may_be_splits(folders: &Folders, like: &BTreeMap<&str, Split>, labelled: bool) -> Doubt {
    let names = named(folders.top.keys().map(String::as_str));
    let verb = if folders.top.len() == 1 { "is" } else { "are" };
    let text = format!("it is not clear whether {names} {verb} a split or a class");
    let splits: BTreeSet<Option<Split>> =
        folders.top.keys().map(|name| split_of_like(like, name)).collect();
    // Each is another split by a word, and their names are equal but for it.
    let rests: BTreeSet<Option<String>> =
        folders.top.keys().map(|name| beside_word_for_split(name)).collect();
    let is_proven = splits.len() == folders.top.len()
        && splits.len() > 1
        && folders.flat == 0
        && rests.len() == 1
        && !rests.contains(&None);
    let has_classes = labelled && folders.top.values().all(|folder| folder.direct == 0);
    let of_images = images_in_splits(folders).map(|images| format!("{}/{KEY}", literal(images)));
    let rest = match (has_classes, is_doubled(folders)) {
        _ if of_images.is_some() => of_images.as_deref().unwrap_or(KEY),
        (true, Some(true)) => "{*}/{label}/{key}.{ext}",
        (true, None) => CLASSES,
        _ => KEY,
    };
    let no_splits = if labelled { CLASSES } else { KEY };
    let no = if labelled { "if they are classes" } else { "if they are neither" };
    let no = WayToRead::new(no, &[no_splits]);
    let folds: Vec<&String> = folders.top.keys().filter(|name| is_fold(name)).collect();
    if let ([.., last], true) = (folds.as_slice(), folds.len() == folders.top.len()) {
        let word = last.trim_end_matches(|c: char| c.is_ascii_digit());
        let others = format!("{{split=train}}{}{{*:[0-9]+}}/{rest}", literal(word));
        let held_out = format!("{{split=val}}{}/{rest}", literal(last));
        let when = format!("if `{last}` is for validation");
        let field = format!("{{fold}}/{rest}");
        let same = folds.iter().all(|name| name.starts_with(word));
        let by_number = same.then(|| WayToRead::new(&when, &[&others, &held_out]));
        let as_field =
            WayToRead::new("if the number is a field, by which to select later", &[&field]);
        return Doubt::new(text, by_number.into_iter().chain([as_field, no]).collect());
    }
    let mut has_class_folders = false;
    let of_splits: Vec<String> = folders
        .top
        .iter()
        .map(|(name, folder)| {
            let split = split_of_like(like, name).unwrap_or(Split::Train);
            // A folder of its own name in it, as archives have that were unpacked into one.
            let is_same = |inner: &String| inner == name || split_like(inner) == Some(split);
            let mut inner = folder.inner.iter().filter(|(inner, _)| is_same(inner));
            let doubled = inner.next().map(|(_, inner)| inner).filter(|_| folder.inner.len() == 1);
            let rest = match doubled.filter(|_| labelled && folder.direct == 0) {
                Some(inner) if inner.deeper && !inner.direct => "{*}/{label}/{key}.{ext}",
                Some(inner) if !inner.deeper => "{*}/{key}.{ext}",
                _ => rest,
            };
            has_class_folders |= rest.contains("{label}")
                && folder.inner.values().any(|inner| inner.direct || doubled.is_some());
            of_split(split, name, rest)
        })
        .collect();
    let of_splits: Vec<&str> = of_splits.iter().map(String::as_str).collect();
    let proof = (is_proven && has_class_folders)
        .then(|| format!("{names} are read as splits, whose names say nothing else"));
    let splits = WayToRead { proof, ..WayToRead::new("if they are splits", &of_splits) };
    let parts = split_and_part(folders.top.keys()).filter(|_| labelled).map(|pattern| {
        let pattern = format!("{pattern}/{KEY}");
        WayToRead::new("if they are splits, and the rest of their names are classes", &[&pattern])
    });
    Doubt::new(text, parts.into_iter().chain([splits, no]).collect())
}

/// The pattern of names such as `trainA`, `trainB` and `testA`: a word for a split, and one of several
/// ends.
fn split_and_part<'a>(names: impl Iterator<Item = &'a String>) -> Option<String> {
    let divided = |name: &'a String| {
        let ends = (1..name.len()).filter(|at| name.is_char_boundary(*at));
        let at = ends.rev().find(|at| split_of(&name[..*at]).is_some())?;
        Some(name.split_at(at))
    };
    let pairs: Option<Vec<(&str, &str)>> = names.map(divided).collect();
    let (words, rests): (BTreeSet<&str>, BTreeSet<&str>) = pairs?.into_iter().unzip();
    let one_of = |all: &BTreeSet<&str>| -> String {
        all.iter().map(|part| regex::escape(part)).collect::<Vec<_>>().join("|")
    };
    (words.len() > 1 && rests.len() > 1)
        .then(|| format!("{{split:{}}}{{label:{}}}", one_of(&words), one_of(&rests)))
}

/// Whether each of the first folders holds only a folder of its own name, as competitions' archives
/// do; if so, whether there are folders in these.
fn is_doubled(folders: &Folders) -> Option<bool> {
    let deeper = |(name, folder): (&String, &Folder)| match folder.inner.get(name) {
        Some(inner) if folder.inner.len() == 1 && folder.direct == 0 => Some(inner.deeper),
        _ => None,
    };
    let deeper: Option<Vec<bool>> = folders.top.iter().map(deeper).collect();
    deeper.map(|deeper| deeper.contains(&true))
}

/// The first folders are classes.
fn classes(folders: &Folders) -> Result<Recognised, Doubt> {
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
        ways.push(WayToRead::new("if the classes are the first folders", &[CLASSES]));
        if inner.len() == 1 {
            ways.push(WayToRead::new("if there are no classes", &["{*}/{*}/{key}.{ext}"]));
            ways.push(in_a_table());
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
    if let Some(doubt) = sources_of_images(folders.top.keys().map(String::as_str), "") {
        return Err(doubt);
    }
    found.classes = folders.top.keys().cloned().collect();
    found.patterns = vec![CLASSES.to_owned()];
    found.doubts.extend(of_classes(&found));
    Ok(found)
}

/// What the user should know about the names of classes.
fn of_classes(found: &Recognised) -> Vec<Doubt> {
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
    readings.push(WayToRead::new("if there are no classes", &[KEY]));
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

fn one_folder_around(folders: &Folders) -> Doubt {
    let root = folders.prefix.trim_end_matches('/');
    let text = format!("all images are below `{root}`, so this folder is not taken for a class");
    Doubt::new(text, vec![WayToRead::new("if it is the class", &[CLASSES])])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(paths: &[&str], labelled: bool) -> Result<Recognised, Doubt> {
        let mut folders = Folders::new(String::new());
        paths.iter().for_each(|path| folders.add(path, 1));
        recognise(&folders, labelled)
    }

    /// Checks patterns and classes, and that nothing is in doubt.
    fn clear(paths: &[&str], patterns: &[&str], classes: &[&str]) {
        let found = read(paths, true).unwrap();
        assert_eq!(found.patterns, patterns, "{paths:?}");
        assert_eq!(found.classes.iter().collect::<Vec<_>>(), classes, "{paths:?}");
        assert_eq!(found.doubts, [], "{paths:?}");
    }

    /// Checks that nothing is taken, and what is offered.
    fn refused(paths: &[&str], words: &str, offered: &[&str]) {
        let doubt = read(paths, true).unwrap_err();
        assert!(doubt.text.contains(words), "{}", doubt.text);
        let images: Vec<String> = doubt.readings.into_iter().flat_map(|r| r.images).collect();
        assert_eq!(images, offered, "{}", doubt.text);
    }

    /// Checks what is taken, and what is said.
    fn told(paths: &[&str], patterns: &[&str], words: &str) {
        let found = read(paths, true).unwrap();
        assert_eq!(found.patterns, patterns, "{paths:?}");
        let [doubt] = found.doubts.as_slice() else { panic!("{:?}", found.doubts) };
        assert!(doubt.text.contains(words), "{}", doubt.text);
    }

    #[test]
    fn folders_are_splits_by_any_word_in_any_case() {
        let both = ["{split}/{label}/{key}.{ext}"];
        clear(&["Training/a/1.jpg", "Testing/a/2.jpg", "Testing/b/2.jpg"], &both, &["a", "b"]);
        clear(&["TRAIN/a/1.jpg", "VAL/b/2.jpg"], &both, &["a", "b"]);
        clear(&["train/a/1.jpg", "dev/b/2.jpg", "eval/c/2.jpg"], &both, &["a", "b", "c"]);
        clear(
            &["a/train/1.jpg", "b/train/2.jpg", "b/test/2.jpg"],
            &["{label}/{split}/{key}.{ext}"],
            &["a", "b"],
        );
        let mixed = ["{split=test}test1/{label}/{key}.{ext}", "{split}/{label}/{key}.{ext}"];
        clear(&["train/a/1.jpg", "test1/b/2.jpg"], &mixed, &["a", "b"]);
    }

    #[test]
    fn to_leave_out_one_of_two_folders_of_a_split_keeps_all_other_splits() {
        refused(
            &["Training/a/1.jpg", "Test/a/2.jpg", "Test/b/2.jpg", "test-multiple_fruits/3.jpg"],
            "are both split `test`",
            &[
                "{split:Test}/{label}/{key}.{ext}",
                "{split:Training}/{label}/{key}.{ext}",
                "{split:Training}/{label}/{key}.{ext}",
                "{split=test}test-multiple_fruits/{key}.{ext}",
                "{split=test}test-multiple_fruits/{key}.{ext}",
                "{split}/{label}/{key}.{ext}",
            ],
        );
        told(
            &["train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "valid/b/4.jpg"],
            &["{split}/{label}/{key}.{ext}"],
            "`val` and `valid` are both split `val`",
        );
    }

    #[test]
    fn folders_that_may_be_splits_are_refused_with_both_readings() {
        refused(
            &["trainset/a/1.jpg", "testset/a/2.jpg"],
            "`testset` and `trainset` are a split",
            &[
                "{split=test}testset/{label}/{key}.{ext}",
                "{split=train}trainset/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["trn/a/1.jpg", "tst/a/2.jpg"],
            "`trn` and `tst` are a split",
            &[
                "{split=train}trn/{label}/{key}.{ext}",
                "{split=test}tst/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        // The folders in these are classes, not pairs of images.
        refused(
            &["im_train/a/1.jpg", "im_train/b/1.jpg", "im_test/a/1.jpg", "im_test/b/1.jpg"],
            "are a split",
            &[
                "{split=test}im_test/{label}/{key}.{ext}",
                "{split=train}im_train/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["fold_0/a/1.jpg", "fold_1/a/2.jpg"],
            "not clear whether `fold_0`",
            &[
                "{split=train}fold_{*:[0-9]+}/{label}/{key}.{ext}",
                "{split=val}fold_1/{label}/{key}.{ext}",
                "{fold}/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["train/a/1.jpg", "val/a/1.jpg", "hidden/a/2.jpg"],
            "`hidden` is not",
            &[
                "{split:train|val}/{label}/{key}.{ext}",
                "{split=test}hidden/{label}/{key}.{ext}",
                "{split:train|val}/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["train_set/a/1.jpg", "holdout/a/2.jpg"],
            "`holdout` and `train_set` are a split or a class",
            &[
                "{split=test}holdout/{label}/{key}.{ext}",
                "{split=train}train_set/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["train_set/1.jpg", "extra/2.jpg"],
            "`train_set` is the name of a split, `extra` is not",
            &[
                "{split=train}train_set/{key}.{ext}",
                "{split=val}extra/{key}.{ext}",
                "{split=train}train_set/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["train/a/1.jpg", "holdout/a/2.jpg"],
            "`holdout` and `train` are a split or a class",
            &[
                "{split=test}holdout/{label}/{key}.{ext}",
                "{split=train}train/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["box_train/1.jpg", "box_test/2.jpg", "query/3.jpg"],
            "`query` is not",
            &[
                "{split=test}box_test/{key}.{ext}",
                "{split=train}box_train/{key}.{ext}",
                "{split=val}query/{key}.{ext}",
                "{split=test}box_test/{key}.{ext}",
                "{split=train}box_train/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["X-train/images/1.jpg", "X-val/images/2.jpg"],
            "are a split or a class",
            &[
                "{split=train}X-train/images/{key}.{ext}",
                "{split=val}X-val/images/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["trainA/1.jpg", "trainB/2.jpg", "testA/3.jpg", "testB/4.jpg"],
            "are a split or a class",
            &[
                "{split:test|train}{label:A|B}/{key}.{ext}",
                "{split=test}testA/{key}.{ext}",
                "{split=test}testB/{key}.{ext}",
                "{split=train}trainA/{key}.{ext}",
                "{split=train}trainB/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        let input = ["ISIC_Training_Input/1.jpg"];
        assert!(read(&input, true).unwrap_err().text.contains("a split or a class"));
        assert_eq!(read(&input, false).unwrap().patterns, [KEY]);
        assert!(read(&["ISIC_Test_Input/1.jpg"], false).is_err());
        clear(
            &["trainer/1.jpg", "test tube/2.jpg", "cat/3.jpg"],
            &[CLASSES],
            &["cat", "test tube", "trainer"],
        );
    }

    #[test]
    fn all_that_is_not_for_testing_is_left_out_beside_its_parts() {
        refused(
            &["train/a/1.jpg", "val/b/2.jpg", "trainval/a/1.jpg", "trainval/b/2.jpg"],
            "`trainval` is left out",
            &["{split:train|val}/{label}/{key}.{ext}", "{split}/{label}/{key}.{ext}"],
        );
        clear(&["trainval/a/1.jpg", "test/b/2.jpg"], &["{split}/{label}/{key}.{ext}"], &["a", "b"]);
    }

    #[test]
    fn images_without_a_class_folder_are_refused_or_told() {
        refused(
            &["train/1.jpg", "test1/2.jpg"],
            "is not in a class folder",
            &["{split=test}test1/{key}.{ext}", "{split}/{key}.{ext}"],
        );
        refused(&["1.jpg", "2.jpg"], "`1.jpg` is not in a class folder", &["{key}.{ext}"]);
        for (paths, below) in [
            (["data/x/1.jpg", "data/y/1.jpg", "logo.png"], "data/{label}/{key}.{ext}"),
            (
                ["data/train/x/1.jpg", "data/val/x/1.jpg", "logo.png"],
                "data/{split}/{label}/{key}.{ext}",
            ),
        ] {
            refused(&paths, "`logo.png`", &[below, "{key}.{ext}"]);
        }
        refused(&["cat/1.jpg", "2.jpg"], "`2.jpg`", &["{label}/{key}.{ext}", "{key}.{ext}"]);
        refused(
            &["cat.1.jpg", "dog.2.jpg", "dog.3.jpg", "cat.4.jpg"],
            "`cat.1.jpg`",
            &["{label}.{key:[0-9]+}.{ext}", "{key}.{ext}"],
        );
        refused(
            &["1_cat.jpg", "2_dog.jpg", "3_cat.jpg", "4_dog.jpg"],
            "`1_cat.jpg`",
            &["{key:[0-9]+}_{label}.{ext}", "{key}.{ext}"],
        );
        let names =
            ["train/cat_1.jpg", "train/cat_2.jpg", "train/big_dog_3.jpg", "train/big_dog_4.jpg"];
        refused(
            &names,
            "`train/big_dog_3.jpg`",
            &[
                "{split}/{label}_{key:[0-9]+}.{ext}",
                "train/{label}_{key:[0-9]+}.{ext}",
                "{split}/{key}.{ext}",
            ],
        );
        told(
            &["train/a/1.jpg", "train/b/1.jpg", "test/2.jpg"],
            &["{split:test}/{key}.{ext}", "{split}/{label}/{key}.{ext}"],
            "images in `test` are in no class folder",
        );
    }

    #[test]
    fn folders_that_are_no_classes_are_refused_or_told() {
        refused(
            &["JPEGImages/1.jpg"],
            "`JPEGImages` looks like a part of the samples",
            &["JPEGImages/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        let doubt = read(&["images/1.jpg", "masks/1.png"], true).unwrap_err();
        assert_eq!(doubt.readings[0].files, [("mask".to_owned(), "masks/{key}.{ext}".to_owned())]);
        let paths = ["train/image/1.jpg", "val/image/1.jpg", "val/gt/1.png"];
        for labelled in [true, false] {
            let doubt = read(&paths, labelled).unwrap_err();
            let first = &doubt.readings[0];
            assert_eq!(first.images, ["{split}/image/{key}.{ext}"], "{doubt}");
            assert_eq!(first.files, [("mask".to_owned(), "{split}/gt/{key}.{ext}".to_owned())]);
        }
        refused(
            &["images/train/1.jpg", "images/val/2.jpg"],
            "a part of the samples",
            &["images/{split}/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        told(&["9/1.jpg", "10/1.jpg"], &[CLASSES], "`10` has the label 0");
        refused(
            &["x/cat/1.jpg", "x/dog/1.jpg", "y/cat/1.jpg", "y/dog/1.jpg"],
            "such as `x/cat`",
            &["{*}/{label}/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        refused(
            &["x/s1/1.jpg", "y/s2/1.jpg"],
            "in folders inside of the class folders",
            &["{*}/{label}/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        refused(
            &["amazon/images/mug/1.jpg", "dslr/images/mug/1.jpg"],
            "such as `amazon/images`",
            &[
                "{*}/{label}/{key}.{ext}",
                "{*}/{*}/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
                "{*}/{*}/{key}.{ext}",
            ],
        );
        refused(
            &["a/1.jpg", "b/1.jpg", "all/a/1.jpg", "all/b/1.jpg"],
            "`all` has the folders in it that are beside it: `a` and `b`",
            &["{label:a|b}/{key}.{ext}", "{label}/{key}.{ext}", "{*}/{label}/{key}.{ext}"],
        );
        for (paths, without) in [
            (["images_001/images/1.jpg", "images_002/images/2.jpg"], "{*}/{*}/{key}.{ext}"),
            (["HAM_images_part_1/1.jpg", "HAM_images_part_2/2.jpg"], "{*}/{key}.{ext}"),
        ] {
            let doubt = read(&paths, true).unwrap_err();
            assert!(doubt.text.contains("look like numbered parts of the images"), "{doubt}");
            assert!(doubt.readings[0].tables.is_some() && doubt.readings[1].images == [without]);
        }
        clear(&["class1/1.jpg", "class2/2.jpg"], &[CLASSES], &["class1", "class2"]);
        refused(
            &["Train/Rural/a/1.png", "Train/Urban/b/1.png"],
            "such as those in `Train/Rural`",
            &["{split}/{*}/{label}/{key}.{ext}", "{split}/{label}/{key}.{ext}"],
        );
        let paths = ["a/images/1.png", "a/masks/1.png", "b/images/2.png", "b/masks/2.png"];
        let doubt = read(&paths, true).unwrap_err();
        let first = &doubt.readings[0];
        assert_eq!(first.images, ["{label}/images/{key}.{ext}"], "{doubt}");
        assert_eq!(first.files, [("mask".to_owned(), "{label}/masks/{key}.{ext}".to_owned())]);
        told(&["x/s1/1.jpg", "y/1.jpg"], &[CLASSES], "differing depths");
        refused(
            &["x/1.jpg", "x/2.jpg"],
            "all images have the class `x`",
            &["x/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        refused(
            &["train/x/1.jpg", "test/x/2.jpg"],
            "all images have the class `x`",
            &["{split}/{*}/{key}.{ext}", "{split}/{label}/{key}.{ext}"],
        );
        refused(
            &["x/1.jpg", "x/jpg/2.jpg"],
            "all images have the class `x`",
            &["{*}/{label}/{key}.{ext}", "x/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        told(&["cat/1.jpg", "dog/1.jpg", "all/1.jpg"], &[CLASSES], "`all` is read as a class");
        told(
            &["train/cat/1.jpg", "train/dog/1.jpg", "val/thumbs/1.jpg"],
            &["{split}/{label}/{key}.{ext}"],
            "`thumbs` is read as a class",
        );
        let clips = ["run_1/1.jpg", "run_2/1.jpg", "sit_1/1.jpg", "sit_2/1.jpg"];
        told(&clips, &[CLASSES], "differ only in numbers behind `run` and `sit`");
        told(&["Cat/1.jpg", "cat/1.jpg"], &[CLASSES], "differ only in upper and lower case");
    }

    #[test]
    fn without_labels_only_splits_count() {
        let read = |paths: &[&str]| read(paths, false).unwrap().patterns;
        assert_eq!(read(&["1.jpg", "a/b/2.jpg"]), ["{key}.{ext}"]);
        assert_eq!(read(&["Train/1.jpg", "val/x/2.jpg"]), ["{split}/{key}.{ext}"]);
        assert_eq!(read(&["a/1.pdf", "b/x"]), ["{key}.{ext}", "{key}"]);
        assert_eq!(read(&["images/1.jpg"]), ["{key}.{ext}"]);
        let images = &["images/train/1.jpg", "images/val/2.jpg"];
        assert_eq!(read(images), ["images/{split}/{key}.{ext}"]);
        let coco = &["images/train2017/1.jpg", "images/val2017/2.jpg"];
        let of = |split| format!("images/{{split={split}}}{split}2017/{{key}}.{{ext}}");
        assert_eq!(read(coco), [of("train"), of("val")]);
        assert_eq!(read(&["images/train/1.jpg", "images/cat/2.jpg"]), ["{key}.{ext}"]);
    }

    #[test]
    fn masks_beside_splits_are_no_splits() {
        for (paths, images) in [
            // Images for validation without masks are left out, and those for training are not.
            (
                ["train/1.jpg", "val/2.jpg", "train_masks/1.png"],
                ["{split:train}/{key}.{ext}", "{split:train}_masks/{key}.{ext}"],
            ),
            (
                ["train_images/1.jpg", "val_images/2.jpg", "val_masks/2.png"],
                ["{split}_images/{key}.{ext}", "{split}_masks/{key}.{ext}"],
            ),
        ] {
            let [images, masks] = images;
            let doubt = read(&paths, true).unwrap_err();
            assert_eq!(doubt.readings[0].images, [images], "{doubt}");
            assert_eq!(doubt.readings[0].files, [("mask".to_owned(), masks.to_owned())]);
        }
        let real = read(&["train/1.jpg", "train_masks/1_mask.gif"], true).unwrap_err();
        let masks = ("mask".to_owned(), "{split}_masks/{key}_mask.{ext}".to_owned());
        assert_eq!(real.readings[0].files, [masks]);
        let real = read(&["images/1.jpg", "masks/1_m.png"], true).unwrap_err();
        let masks = ("mask".to_owned(), "masks/{key}_m.{ext}".to_owned());
        assert_eq!(real.readings[0].files, [masks]);
        let camvid = read(&["train/1.png", "trainannot/1.png"], true).unwrap_err();
        let masks = ("mask".to_owned(), "{split}annot/{key}.{ext}".to_owned());
        assert_eq!(camvid.readings[0].files, [masks]);
        let depth = read(&["rgb/1.png", "depth/1.png"], true).unwrap_err();
        assert_eq!(depth.readings[0].files, [("depth".to_owned(), "depth/{key}.{ext}".to_owned())]);
    }

    #[test]
    fn folders_that_repeat_splits_are_not_classes() {
        refused(
            &["training_set/training_set/cat/1.jpg", "test_set/test_set/dog/2.jpg"],
            "`test_set` and `training_set` are a split",
            &[
                "{split=test}test_set/{*}/{label}/{key}.{ext}",
                "{split=train}training_set/{*}/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["train/train/cat/1.jpg", "val/val/dog/2.jpg"],
            "look like splits",
            &["{split}/{*}/{label}/{key}.{ext}", "{split}/{label}/{key}.{ext}"],
        );
        refused(
            &["train/cat/1.jpg", "val/dog/2.jpg", "copy/train/cat/1.jpg", "copy/val/dog/2.jpg"],
            "`copy` is not",
            &["{split:train|val}/{label}/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        refused(
            &["2023/train/pos/1.jpg", "2024/test/neg/2.jpg"],
            "`2023/train` is a split",
            &["{*}/{split}/{label}/{key}.{ext}", "{label}/{split}/{key}.{ext}"],
        );
        refused(
            &["A/1.png", "B/1.png", "label/1.png"],
            "look like parts",
            &["A/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        for (paths, fields) in [
            (["A/1.png", "B/1.png", "OUT/1.png"], ["mask", "b"]),
            (["val/A/1.png", "val/B/1.png", "val/label/1.png"], ["mask", "b"]),
        ] {
            let doubt = read(&paths, true).unwrap_err();
            let found: Vec<&str> =
                doubt.readings[0].files.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(found, fields, "{doubt}");
        }
        clear(&["A/1.jpg", "B/2.jpg"], &[CLASSES], &["A", "B"]);
        clear(&["A/1.jpg", "B/1.jpg", "C/1.jpg"], &[CLASSES], &["A", "B", "C"]);
        clear(&["mask/1.jpg", "no_mask/2.jpg"], &[CLASSES], &["mask", "no_mask"]);
    }

    #[test]
    fn everything_may_be_below_one_folder() {
        let mut folders = Folders::new("data{1}/".to_owned());
        ["data{1}/cat/1.jpg", "data{1}/dog/2.jpg"].iter().for_each(|path| folders.add(path, 1));
        let found = recognise(&folders, true).unwrap();
        assert_eq!(found.patterns, ["data{{1}}/{label}/{key}.{ext}"]);
        assert!(found.doubts[0].text.contains("below `data{1}`"), "{:?}", found.doubts);
    }
}
