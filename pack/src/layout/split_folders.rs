//! First folders that are splits, or may be.

use std::collections::{BTreeMap, BTreeSet};

use gular_bundle::Split;

use super::class_folders::of_classes;
use super::class_names::{classes_in_names, when_in, without_classes};
use super::companions::beside_word_for_split;
use super::folder_patterns::{CLASSES, KEY, Recognised, of_split, of_splits, split_patterns};
use super::folders::{Folder, Folders};
use super::parts::{
    images_in_splits, in_a_table, is_other_part, parts_in_splits, sources_of_images,
};
use crate::facts::{Doubt, WayToRead, is_fold, literal, named, split_like, split_of, split_within};

/// The first folders are splits.
pub(super) fn splits(folders: &Folders, labelled: bool) -> Result<Recognised, Doubt> {
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
    if let Some(true) = is_doubled(folders) {
        let deeper = found.patterns.iter().map(|of| of.replace("{label}", "{*}/{label}"));
        let deeper: Vec<String> = deeper.collect();
        let deeper: Vec<&str> = deeper.iter().map(String::as_str).collect();
        let named = named(folders.top.keys().map(String::as_str));
        let proof =
            format!("the only folder in each of {named} has the same name, and is no class");
        let way = WayToRead::new("if the classes are the folders in these", &deeper);
        let all: Vec<&str> = found.patterns.iter().map(String::as_str).collect();
        let classes = WayToRead::new("if they are classes", &all);
        let ways = vec![WayToRead { proof: Some(proof.clone()), ..way }, classes];
        return Err(Doubt::new(proof, ways));
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
    if let Some(doubt) = deeper_classes(folders, &found.patterns)
        .or_else(|| classes_at_two_depths(folders, &found.patterns))
        .or_else(|| sources_of_images(names, "{split}/"))
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
    let none: Vec<String> = patterns.iter().map(|of| of.replace("{label}/", "")).collect();
    let none: Vec<&str> = none.iter().map(String::as_str).collect();
    let ways = vec![
        WayToRead::new("if the classes are the folders inside", &deeper),
        WayToRead::new("if the classes are the folders around these", &first),
        WayToRead::new("if there are no classes", &none),
    ];
    Some(Doubt::new(text, ways))
}

/// Whether all class folders in a split folder hold only folders.
fn is_deep(folder: &Folder) -> bool {
    folder.direct == 0 && folder.below > 0 && folder.inner.values().all(|class| !class.direct)
}

/// Class folders in split folders, if those of some splits hold only folders, and those of others have
/// images in them.
fn classes_at_two_depths(folders: &Folders, patterns: &[String]) -> Option<Doubt> {
    let pattern = |name: &str, rest: &str| match split_of(name) {
        Some(_) => format!("{{split:{}}}/{rest}", regex::escape(name)),
        None => of_split(split_within(name).unwrap_or(Split::Train), name, rest),
    };
    let ways = ways_at_two_depths(folders, patterns, &pattern)?;
    let names = |deep: bool| {
        let of = folders.top.iter().filter(move |(_, folder)| is_deep(folder) == deep);
        named(of.map(|(name, _)| name.as_str()))
    };
    let text = format!(
        "all images of {} are in folders inside of the class folders, and those of {} are not",
        names(true),
        names(false)
    );
    Some(Doubt::new(text, ways))
}

/// The ways to read class folders at two depths; `pattern` is that of a folder and what is below it,
/// and `patterns` are those of class folders at one depth.
fn ways_at_two_depths(
    folders: &Folders,
    patterns: &[String],
    pattern: &dyn Fn(&str, &str) -> String,
) -> Option<Vec<WayToRead>> {
    let n_deep = folders.top.values().filter(|folder| is_deep(folder)).count();
    if n_deep == 0 || n_deep == folders.top.len() {
        return None;
    }
    let way = |when: &str, in_others: &str| {
        let of = |(name, folder): (&String, &Folder)| match is_deep(folder) {
            true => pattern(name, "{*}/{label}/{key}.{ext}"),
            false => pattern(name, if folder.below > 0 { in_others } else { KEY }),
        };
        let all: BTreeSet<String> = folders.top.iter().map(of).collect();
        WayToRead::new(when, &all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let first: Vec<&str> = patterns.iter().map(String::as_str).collect();
    Some(vec![
        way("if the classes are the last folders", CLASSES),
        way("if they are, and the other splits have none", "{*}/{key}.{ext}"),
        WayToRead::new("if the classes are the first folders in the splits", &first),
    ])
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
    let plain = below("if there are no classes", KEY);
    readings.push(match folders.top.values().all(|folder| folder.below == 0) {
        true => without_classes(plain, &folders.names, folders.only()),
        false => plain,
    });
    readings.push(in_a_table());
    Doubt::new(text, readings)
}

pub(super) fn some_are_splits(
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

pub(super) fn split_of_like(like: &BTreeMap<&str, Split>, name: &str) -> Option<Split> {
    like.get(name).copied().or_else(|| split_like(name))
}

pub(super) fn may_be_splits(
    folders: &Folders,
    like: &BTreeMap<&str, Split>,
    labelled: bool,
) -> Doubt {
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
    let (mut has_class_folders, mut has_doubled) = (false, false);
    let of_splits: Vec<String> = folders
        .top
        .iter()
        .map(|(name, folder)| {
            let split = split_of_like(like, name).unwrap_or(Split::Train);
            // A folder of its own name in it, as archives have that were unpacked into one.
            let is_same = |inner: &String| inner == name || split_like(inner) == Some(split);
            let mut inner = folder.inner.iter().filter(|(inner, _)| is_same(inner));
            let doubled = inner.next().map(|(_, inner)| inner).filter(|_| folder.inner.len() == 1);
            has_doubled |= doubled.is_some() && folder.inner.contains_key(name);
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
    let depths = ways_at_two_depths(folders, &of_splits, &|name, rest| {
        of_split(split_of_like(like, name).unwrap_or(Split::Train), name, rest)
    });
    if let Some(ways) = depths.filter(|_| labelled && !has_doubled) {
        return Doubt::new(text, ways.into_iter().chain([no]).collect());
    }
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

/// Without classes, splits may be the folders in the only one, such as `images/train2017/`.
pub(super) fn splits_in_one(folders: &Folders) -> Recognised {
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
