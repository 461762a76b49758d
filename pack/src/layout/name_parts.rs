//! Classes in the names of files, told by what the parts of all names have.
//!
//! ```text
//! KA.AN1.39.tiff    letters . letters digits . digits: each name has these parts
//!    ^^             few values, each in several names: it may be the class
//! ```
//!
//! A date or the number of a camera is such a part as well, so this is a question to the user.

use std::collections::BTreeSet;

use super::class_names::{classes_in_names, when_in};
use super::folder_patterns::KEY;
use super::folders::Folders;
use crate::facts::{Doubt, Pattern, WayToRead, literal, split_of};

/// Most parts that are offered as the class.
const MOST_OFFERED: usize = 2;
/// More parts of numbers that differ are those of a date or of a place.
const MOST_NUMBERS: usize = 3;

/// What a part of a name is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Letters,
    Digits,
    /// Whatever divides the others.
    Mark,
}

impl PartKind {
    fn of(c: char) -> Self {
        match c {
            c if c.is_ascii_alphabetic() => Self::Letters,
            c if c.is_ascii_digit() => Self::Digits,
            _ => Self::Mark,
        }
    }

    /// The expression of such a part.
    fn narrowed(self) -> &'static str {
        match self {
            Self::Letters => "[A-Za-z]+",
            _ => "[0-9]+",
        }
    }
}

/// Adds the parts of names that may be the class to a doubt with a way that has no classes.
pub(super) fn with_names(folders: &Folders, mut doubt: Doubt) -> Doubt {
    let is_in_name = |images: &String| {
        let name = images.rsplit('/').next().unwrap_or(images);
        name.contains("{label") && name.contains("{key")
    };
    let is_plain = |way: &WayToRead| {
        way.files.is_empty()
            && way.tables.is_none()
            && !way.images.is_empty()
            && way.images.iter().all(|images| !images.contains("{label") && images.ends_with(KEY))
    };
    if doubt.readings.iter().flat_map(|way| &way.images).any(is_in_name) {
        return doubt;
    }
    let Some(at) = doubt.readings.iter().position(is_plain) else { return doubt };
    let Some(ways) = doubt.readings.get(at).and_then(|plain| of_plain(folders, plain)) else {
        return doubt;
    };
    doubt.readings.iter_mut().for_each(WayToRead::ask);
    doubt.readings.splice(at..at, ways);
    doubt
}

/// The ways to read the images of `plain` with classes in their names, if there are any.
fn of_plain(folders: &Folders, plain: &WayToRead) -> Option<Vec<WayToRead>> {
    let patterns: Option<Vec<Pattern>> =
        plain.images.iter().map(|images| Pattern::parse(images).ok()).collect();
    let patterns = patterns?;
    let (mut names, mut whole) = (BTreeSet::new(), Vec::new());
    let mut depths = BTreeSet::new();
    for (folder, name) in folders.examples.names() {
        let slash = if folder.is_empty() { "" } else { "/" };
        let path = format!("{folder}{slash}{name}");
        let mut found = patterns.iter().filter_map(|pattern| pattern.read(&path).ok()?);
        let Some(values) = found.next() else { continue };
        depths.insert(values.get("key")?.matches('/').count());
        whole.push(name.to_owned());
        names.insert(name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned());
    }
    let depth = depths.first().filter(|_| depths.len() == 1)?;
    let ways: Vec<(String, String)> = match classes_in_names(&whole) {
        Some(pattern) => vec![(when_in(&pattern).to_owned(), pattern)],
        None => {
            let ways = of_names(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let way = |(value, name, pattern): (&str, &str, String)| {
                let when = format!("if `{value}` in names such as `{name}` is the class");
                (when, format!("{pattern}.{{ext}}"))
            };
            ways.into_iter().map(way).collect()
        }
    };
    let placed = |(when, pattern): (String, String)| {
        let below = format!("{}{pattern}", "{*}/".repeat(*depth));
        let images = plain.images.iter().map(|images| images.replace(KEY, &below)).collect();
        WayToRead { when, images, asks: true, otherwise: false, proof: None, ..plain.clone() }
    };
    let ways: Vec<WayToRead> = ways.into_iter().map(placed).collect();
    (!ways.is_empty()).then_some(ways)
}

/// Patterns of these names, without extensions, that have the class in a part of them, each with the
/// class of a name.
fn of_names<'n>(names: &[&'n str]) -> Vec<(&'n str, &'n str, String)> {
    let all: Vec<Vec<(&str, PartKind)>> = names.iter().map(|name| parts(name)).collect();
    let Some(first) = all.first() else { return Vec::new() };
    let form = |parts: &[(&str, PartKind)]| -> Vec<Option<String>> {
        let mark =
            |(text, kind): &(&str, PartKind)| (*kind == PartKind::Mark).then(|| (*text).to_owned());
        parts.iter().map(mark).collect()
    };
    let kinds =
        |parts: &[(&str, PartKind)]| -> Vec<PartKind> { parts.iter().map(|(_, k)| *k).collect() };
    let of_first = (form(first), kinds(first));
    if !all.iter().all(|parts| (form(parts), kinds(parts)) == of_first) {
        return Vec::new();
    }
    let column = |at: usize| -> BTreeSet<&str> {
        all.iter().filter_map(|parts| parts.get(at)).map(|(text, _)| *text).collect()
    };
    let columns: Vec<BTreeSet<&str>> = (0..first.len()).map(column).collect();
    let differing: Vec<usize> =
        columns.iter().enumerate().filter(|(_, of)| of.len() > 1).map(|(at, _)| at).collect();
    let is_of_splits = |at: &usize| {
        columns.get(*at).is_some_and(|of| of.iter().all(|word| split_of(word).is_some()))
    };
    let of_kind = |kind: PartKind| {
        let is = |at: &&usize| {
            let few = columns.get(**at).is_some_and(|of| of.len() * 2 <= names.len());
            few && !is_of_splits(at) && first.get(**at).is_some_and(|(_, of)| *of == kind)
        };
        differing.iter().filter(is).copied().collect::<Vec<usize>>()
    };
    let is_year = |at: &usize| {
        let years = ["19", "20"].map(|century| {
            let is = |text: &&str| text.len() == 4 && text.starts_with(century);
            columns.get(*at).is_some_and(|of| of.iter().all(is))
        });
        years.contains(&true)
    };
    let letters = of_kind(PartKind::Letters);
    let numbers_say_more = differing.len() <= MOST_NUMBERS
        && !(0..first.len()).any(|at| is_year(&at) || is_of_splits(&at));
    let candidates = match letters.is_empty() {
        false => letters,
        true if numbers_say_more => of_kind(PartKind::Digits),
        true => Vec::new(),
    };
    let pattern = |label: usize| {
        let others = differing.iter().filter(|at| **at != label);
        let key = others.max_by_key(|at| columns.get(**at).map_or(0, BTreeSet::len));
        let part = |(at, (text, kind)): (usize, &(&str, PartKind))| match kind {
            _ if !differing.contains(&at) => literal(text),
            _ if at == label => format!("{{label:{}}}", kind.narrowed()),
            _ if Some(&at) == key => format!("{{key:{}}}", kind.narrowed()),
            _ => format!("{{*:{}}}", kind.narrowed()),
        };
        first.iter().enumerate().map(part).collect::<String>()
    };
    // What is first in a name is the likelier class, and a part that all others depend on is none.
    let has_others = |at: &&usize| differing.iter().any(|other| other != *at);
    let found = candidates.iter().filter(has_others).take(MOST_OFFERED);
    // A name whose parts differ shows which of them is meant.
    let is_clear = |parts: &Vec<(&str, PartKind)>| {
        let of_name = differing.iter().filter_map(|at| parts.get(*at)).map(|(text, _)| *text);
        of_name.collect::<BTreeSet<&str>>().len() == differing.len()
    };
    let at = all.iter().position(is_clear).unwrap_or_default();
    let shown = |part: usize| Some((all.get(at)?.get(part)?.0, *names.get(at)?, pattern(part)));
    found.filter_map(|part| shown(*part)).collect()
}

/// A name as its parts: letters, digits, and what divides these.
fn parts(name: &str) -> Vec<(&str, PartKind)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(kind) = rest.chars().next().map(PartKind::of) {
        let end = rest.find(|c| PartKind::of(c) != kind).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        parts.push((part, kind));
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_with_few_values_may_be_classes() {
        let check = |names: &[&str], expected: &[(&str, &str)]| {
            let found = of_names(names);
            let found: Vec<(&str, &str)> =
                found.iter().map(|(value, _, pattern)| (*value, pattern.as_str())).collect();
            assert_eq!(found, expected, "{names:?}");
        };
        check(
            &["obj1__0", "obj1__5", "obj2__0", "obj2__5"],
            &[("1", "obj{label:[0-9]+}__{key:[0-9]+}"), ("0", "obj{key:[0-9]+}__{label:[0-9]+}")],
        );
        check(
            &["Im001_1", "Im002_1", "Im003_0", "Im004_0"],
            &[("1", "Im{key:[0-9]+}_{label:[0-9]+}")],
        );
        check(
            &["KA.AN1.39", "KA.HA1.40", "KA.AN2.41", "KA.HA2.42"],
            &[("AN", r"KA.{label:[A-Za-z]+}{*:[0-9]+}.{key:[0-9]+}")],
        );
        for nothing in [
            &["1", "2", "3", "4"][..],
            &["IMG_1", "IMG_2", "IMG_3", "IMG_4"],
            &["2021-01-05", "2021-01-06", "2021-02-05", "2021-02-06"],
            &["2f31a", "9ab4c", "77fe1", "1a2b3"],
            &["a_1", "b_2"],
            &["x_test_1", "x_train_1", "x_test_2", "x_train_2"],
            &[],
        ] {
            check(nothing, &[]);
        }
    }

    #[test]
    fn names_are_offered_beside_the_way_without_classes() {
        let mut folders = Folders::new(String::new());
        for path in ["training/0_1.jpg", "training/1_1.jpg", "test/0_2.jpg", "test/1_2.jpg"] {
            folders.add(path, 1);
        }
        let plain = WayToRead::new("if there are no classes", &["{split}/{key}.{ext}"]);
        let plain = WayToRead { otherwise: true, ..plain };
        let doubt = with_names(&folders, Doubt::new(String::new(), vec![plain]));
        let images: Vec<&str> = doubt.readings.iter().map(|way| way.images[0].as_str()).collect();
        assert_eq!(
            images,
            [
                "{split}/{label:[0-9]+}_{key:[0-9]+}.{ext}",
                "{split}/{key:[0-9]+}_{label:[0-9]+}.{ext}",
                "{split}/{key}.{ext}"
            ]
        );
        assert_eq!(doubt.readings[0].when, "if `0` in names such as `0_1` is the class");
        assert!(doubt.readings.iter().all(|way| !way.otherwise));
        // Classes of several words have no such parts.
        let mut folders = Folders::new(String::new());
        for name in ["cat_1", "cat_2", "red_fox_1", "red_fox_2"] {
            folders.add(&format!("images/{name}.jpg"), 1);
        }
        let plain = WayToRead::new("if there are no classes", &["images/{key}.{ext}"]);
        let of_words = with_names(&folders, Doubt::new(String::new(), vec![plain]));
        assert_eq!(of_words.readings[0].images, ["images/{label}_{key:[0-9]+}.{ext}"]);
    }
}
