//! Class folders whose names say that they may be none, or that several are one class.

use std::collections::BTreeSet;

use crate::facts::{Doubt, WayToRead, literal, named};

/// Names of folders beside classes that mostly hold something else, and words beside which they
/// are classes all the same. In lower case, letters alone. Source: STL-10 (`unlabeled`), and what
/// people call copies, leftovers and what a program made of their images.
const UNLIKELY: [(&str, &[&str]); 30] = [
    ("unlabeled", &["labeled"]),
    ("unlabelled", &["labelled"]),
    ("unannotated", &[]),
    ("unsorted", &["sorted"]),
    ("unclassified", &[]),
    ("unknown", &["known"]),
    ("thumbnail", &[]),
    ("thumbnails", &[]),
    ("thumb", &["index", "palm"]),
    ("thumbs", &[]),
    ("preview", &[]),
    ("previews", &[]),
    ("augmented", &[]),
    ("augmentation", &[]),
    ("all", &["none", "some"]),
    ("raw", &["cooked", "ripe", "unripe", "fried", "welldone"]),
    ("processed", &["fresh", "natural", "unprocessed"]),
    ("preprocessed", &[]),
    ("resized", &[]),
    ("cropped", &["uncropped"]),
    ("misc", &[]),
    ("miscellaneous", &[]),
    ("backup", &[]),
    ("backups", &[]),
    ("bak", &[]),
    ("duplicates", &[]),
    ("old", &["new", "young", "middle", "adult", "middleaged"]),
    ("tmp", &[]),
    ("temp", &[]),
    ("trash", &["plastic", "paper", "glass", "metal", "recycling", "compost", "notrash"]),
];
/// The longest part of a pattern that lists the other classes.
const MOST_LISTED: usize = 400;
/// Letters that a word before a number has, if nothing divides them.
const SHORTEST_STEM: usize = 3;

/// Class folders whose names are hardly those of classes; `patterns` are those of the images.
pub(super) fn unlikely(classes: &BTreeSet<String>, patterns: &[String]) -> Option<Doubt> {
    let words: BTreeSet<String> = classes.iter().map(|class| letters(class)).collect();
    let is_unlikely = |class: &&String| {
        let word = letters(class);
        let mut rows = UNLIKELY.iter();
        rows.any(|(known, beside)| *known == word && !beside.iter().any(|of| words.contains(*of)))
    };
    let (found, others): (Vec<&String>, Vec<&String>) = classes.iter().partition(is_unlikely);
    if found.is_empty() {
        return None;
    }
    let one = found.len() == 1;
    let text = format!(
        "{} {}, although {}",
        named(found.iter().copied()),
        if one { "is read as a class" } else { "are read as classes" },
        if one {
            "its name is hardly that of a class"
        } else {
            "their names are hardly those of classes"
        },
    );
    let escaped: Vec<String> = others.iter().map(|class| regex::escape(class)).collect();
    let rest = escaped.join("|");
    let without = match others.is_empty() {
        true => Some(with_label(patterns, "{*}", "if there are no classes")),
        false if rest.len() > MOST_LISTED => None,
        false => {
            let when = if one { "to leave it out" } else { "to leave them out" };
            let way = with_label(patterns, &format!("{{label:{rest}}}"), when);
            Some(WayToRead { leaves_out: true, ..way })
        }
    };
    let when = if one { "if it is a class" } else { "if they are classes" };
    let kept = with_label(patterns, "{label}", when);
    Some(Doubt::new(text, without.into_iter().chain([kept]).collect()))
}

/// Class folders whose names differ only in numbers behind those of fewer classes, as `run_01`,
/// `run_02`, `jump_01` and `jump_02` do.
pub(super) fn counted_classes(classes: &BTreeSet<String>, patterns: &[String]) -> Option<Doubt> {
    let mut names = classes.iter().map(|class| Counted::of(class));
    let mut ends = names.next()??.ends;
    for name in names {
        let other = name?.ends;
        let alike = ends.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
        ends.drain(..ends.len() - alike);
    }
    let stems: Option<BTreeSet<&str>> =
        classes.iter().map(|class| Counted::of(class)?.stem(ends.len())).collect();
    let stems = stems.filter(|stems| !ends.is_empty() && stems.len() > 1)?;
    let has_word = |stem: &&str| stem.chars().any(char::is_alphabetic);
    // Without anything between, short words and numbers are as likely the names of classes.
    let is_divided = ends.first().is_some_and(|end| !end.is_empty());
    let is_long = |stem: &&str| stem.chars().count() >= SHORTEST_STEM;
    let are_words = stems.iter().all(|stem| has_word(stem) && (is_divided || is_long(stem)));
    if !are_words || classes.len() < 2 * stems.len() {
        return None;
    }
    let text = format!(
        "{} are read as classes, although their names differ only in numbers behind {}",
        named(classes.iter()),
        named(stems.iter().copied()),
    );
    let mut label = if is_divided { "{label}" } else { "{label:[^/]*[^0-9/]}" }.to_owned();
    for (at, end) in ends.iter().enumerate() {
        let part = match ends.len() - at {
            1 => "clip",
            2 => "group",
            _ => "*",
        };
        label += &format!("{}{{{part}:[0-9]+}}", literal(end));
    }
    let few = with_label(patterns, &label, "if these are the classes");
    let all = with_label(patterns, "{label}", "if each is a class");
    Some(Doubt::new(text, vec![few, all]))
}

/// A name that ends in numbers, such as `jump_g01_c02`.
struct Counted<'a> {
    name: &'a str,
    /// What is before each number, in order: `_g`, `_c`.
    ends: Vec<&'a str>,
    /// Where the name ends without each of these.
    stems: Vec<usize>,
}

impl<'a> Counted<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let (mut ends, mut stems, mut rest) = (Vec::new(), Vec::new(), name);
        loop {
            let before = rest.trim_end_matches(|c: char| c.is_ascii_digit());
            let word = before.trim_end_matches(char::is_alphabetic);
            let stem = word.trim_end_matches(['_', '-', ' ', '.']);
            // Nothing divides a word and its number, as in `run1`.
            let at = if stem.len() == word.len() { before.len() } else { stem.len() };
            if at == 0 || before.len() == rest.len() {
                break;
            }
            ends.insert(0, before.get(at..)?);
            stems.insert(0, at);
            rest = name.get(..at)?;
        }
        (!ends.is_empty()).then_some(Self { name, ends, stems })
    }

    /// The name without the last `n` numbers and what is before each.
    fn stem(&self, n: usize) -> Option<&'a str> {
        self.name.get(..*self.stems.get(self.stems.len().checked_sub(n)?)?)
    }
}

/// The way to read a source that has this in place of the class in its patterns.
fn with_label(patterns: &[String], label: &str, when: &str) -> WayToRead {
    let images = patterns.iter().map(|pattern| pattern.replace("{label}", label)).collect();
    WayToRead { images, ..WayToRead::new(when, &[]) }
}

/// The letters of a name in lower case.
fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphabetic()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: &str = "{label}/{key}.{ext}";

    fn of(
        find: fn(&BTreeSet<String>, &[String]) -> Option<Doubt>,
        classes: &[&str],
    ) -> Option<String> {
        let classes = classes.iter().map(|class| (*class).to_owned()).collect();
        let doubt = find(&classes, &[PATTERN.to_owned()])?;
        assert_eq!(doubt.readings.last()?.images, [PATTERN], "{doubt}");
        Some(doubt.readings[0].images[0].trim_end_matches("/{key}.{ext}").to_owned())
    }

    #[test]
    fn folders_that_are_hardly_classes_are_named() {
        let unlikely = |classes: &[&str]| of(unlikely, classes);
        for name in ["unlabeled", "Un-labelled", "thumbs", "all", "_backup2", "raw", "tmp"] {
            assert_eq!(
                unlikely(&["cat", "dog", name]).as_deref(),
                Some("{label:cat|dog}"),
                "{name}"
            );
        }
        assert_eq!(unlikely(&["raw", "augmented"]).as_deref(), Some("{*}"));
        assert_eq!(unlikely(&["a.b", "tmp"]).as_deref(), Some(r"{label:a\.b}"));
        for ordinary in [["raw", "cooked"], ["old", "young"], ["other", "cat"], ["call", "tall"]] {
            assert_eq!(unlikely(&ordinary), None);
        }
    }

    #[test]
    fn folders_that_are_counted_have_fewer_classes() {
        for (classes, label) in [
            (["jump_01", "jump_02", "run_01", "run_02"], "{label}_{clip:[0-9]+}"),
            (
                ["cat_batch1", "cat_batch2", "dog_batch1", "dog_batch2"],
                "{label}_batch{clip:[0-9]+}",
            ),
            (
                ["v_Jump_g01_c01", "v_Jump_g02_c01", "v_Run_g01_c01", "v_Run_g01_c02"],
                "{label}_g{group:[0-9]+}_c{clip:[0-9]+}",
            ),
            (["run1", "run12", "jump1", "jump2"], "{label:[^/]*[^0-9/]}{clip:[0-9]+}"),
        ] {
            assert_eq!(of(counted_classes, &classes).as_deref(), Some(label), "{classes:?}");
        }
        for ordinary in [
            ["class_1", "class_2", "class_3", "class_4"],
            ["Apple 1", "Apple 2", "Pear 1", "Avocado"],
            ["A1", "A2", "B1", "B2"],
            ["n01", "n02", "n03", "n04"],
            ["2019_01", "2019_02", "2020_01", "2020_02"],
            ["cat_1", "dog_1", "fox_1", "elk_1"],
        ] {
            assert_eq!(of(counted_classes, &ordinary), None, "{ordinary:?}");
        }
    }
}
