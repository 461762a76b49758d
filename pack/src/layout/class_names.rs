//! Names of classes: those that may be slips of the pen, and those in the names of files.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::facts::{Doubt, WayToRead, named, split_of};

/// Classes whose names differ only in upper and lower case.
pub(crate) fn alike(classes: &BTreeSet<String>) -> Option<Doubt> {
    let mut known: BTreeMap<String, &String> = BTreeMap::new();
    let pair = classes.iter().find_map(|class| {
        let first = known.insert(class.to_lowercase(), class)?;
        Some((first, class))
    });
    let (first, second) = pair?;
    let text = format!(
        "the classes `{first}` and `{second}` differ only in upper and lower case, and are two classes"
    );
    Some(Doubt::new(text, Vec::new()))
}

/// Classes whose names are numbers: their order as text is not that of the numbers, or one of them is
/// negative, or two are one number.
pub(crate) fn numbered(classes: &BTreeSet<String>) -> Option<Doubt> {
    let numbers: Option<Vec<i64>> = classes.iter().map(|class| class.parse().ok()).collect();
    let numbers = numbers?;
    let one = |pair: &[i64]| pair[0] == pair[1];
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| one(pair)) {
        let names = classes.iter().zip(&numbers).filter(|(_, number)| **number == pair[0]);
        let text = format!(
            "the classes {} are one number, and two classes",
            named(names.map(|(name, _)| name))
        );
        return Some(Doubt::new(text, Vec::new()));
    }
    if numbers.is_sorted() && numbers.first().is_none_or(|least| *least >= 0) {
        return None;
    }
    let of_numbers = numbers.iter().zip(classes).enumerate();
    let (at, (_, class)) =
        of_numbers.into_iter().find(|(at, (number, _))| *at as i64 != **number)?;
    let text = format!(
        "the classes are numbers, and are sorted as texts: the class `{class}` has the label {at}, as with torchvision; a list of classes gives another order"
    );
    Some(Doubt::new(text, Vec::new()))
}

/// When a pattern of [`classes_in_names`] is right.
pub(super) fn when_in(pattern: &str) -> &'static str {
    match pattern.contains("{key:[0-9]+}.{ext}") {
        true if pattern.contains("{split") => "if file names begin with the split",
        true => "if file names begin with the class",
        false => "if file names end with the class",
    }
}

/// The pattern of names such as `17_cat.jpg`, if all names are such and there are several classes.
fn classes_at_ends(names: &[String]) -> Option<String> {
    let form = Regex::new(r"^[0-9]+([._ -])([A-Za-z][A-Za-z_ -]*)\.[^.]+$").ok()?;
    let found: Option<Vec<(&str, &str)>> = names
        .iter()
        .map(|name| form.captures(name).map(|found| found.extract::<2>().1).map(|[a, b]| (a, b)))
        .collect();
    let found = found?;
    let classes: BTreeSet<&str> = found.iter().map(|(_, class)| *class).collect();
    let (mark, _) =
        found.first().filter(|(mark, _)| found.iter().all(|(other, _)| other == mark))?;
    let several = classes.len() > 1 && classes.len() * 2 <= names.len();
    several.then(|| format!("{{key:[0-9]+}}{mark}{{label}}.{{ext}}"))
}

/// Whether names have classes in them, or begin with several numbers, such as `26_0_2_2017.jpg`.
pub(super) fn names_say_more(names: &[String]) -> bool {
    let begins = |name: &String| {
        let parts: Vec<&str> = name.split(['_', '-', '.']).take(3).collect();
        let is_short =
            |part: &&str| part.len() < 4 && part.bytes().all(|byte| byte.is_ascii_digit());
        parts.len() == 3 && parts.iter().take(2).all(is_short)
    };
    classes_in_names(names).is_some() || (!names.is_empty() && names.iter().all(begins))
}

/// A way without classes, which is taken unless the names of files, or files beside them, may say more.
/// `only` is the folder that has all images.
pub(super) fn without_classes(way: WayToRead, names: &[String], only: Option<&str>) -> WayToRead {
    // Names such as `26_0_2_2017.jpg` say something, which is not read.
    if names_say_more(names) {
        return way;
    }
    let proof = match only {
        Some(name) => format!("`{name}` is the only folder, so it is not taken for a class"),
        None => "no folder says a class, so the samples have none".to_owned(),
    };
    WayToRead { otherwise: true, proof: Some(proof), ..way }
}

/// The pattern of names such as `cat.17.jpg`, if all names are such and there are several classes.
pub(super) fn classes_in_names(names: &[String]) -> Option<String> {
    let form = Regex::new(r"^([A-Za-z][A-Za-z_ -]*?)([._ -]?)[0-9]+\.[^.]+$").ok()?;
    let mut classes = BTreeSet::new();
    let mut between: Option<&str> = None;
    for name in names {
        let Some(found) = form.captures(name) else { return classes_at_ends(names) };
        let (_, [class, mark]) = found.extract();
        classes.insert(class);
        if *between.get_or_insert(mark) != mark {
            return None;
        }
    }
    // A single word, as in `image_17.jpg`, is not a class.
    let several = classes.len() > 1 && classes.len() * 2 <= names.len();
    several.then_some(())?;
    let part = match classes.iter().all(|class| split_of(class).is_some()) {
        true => "split",
        false => "label",
    };
    Some(match between? {
        "" => format!("{{{part}:[A-Za-z_ -]+}}{{key:[0-9]+}}.{{ext}}"),
        mark => format!("{{{part}}}{mark}{{key:[0-9]+}}.{{ext}}"),
    })
}
