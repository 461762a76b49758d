//! The words that name a split.

use std::collections::{BTreeMap, BTreeSet};

use gular_bundle::Split;

/// A word, and the split that it names.
struct SplitWord {
    word: &'static str,
    split: Split,
}

const fn word(word: &'static str, split: Split) -> SplitWord {
    SplitWord { word, split }
}

/// All words, in lower case. Source: `SPLIT_KEYWORDS` in `datasets/data_files.py` of Hugging Face's
/// `datasets`; `train`, `val` and `test` are also the folders of torchvision's datasets; `trainval` is
/// what Pascal VOC and Oxford-IIIT Pet call all images that are not for testing, and `train_val` what
/// NIH ChestX-ray14 and SUIM do.
const WORDS: [SplitWord; 12] = [
    word("train", Split::Train),
    word("training", Split::Train),
    word("trainval", Split::Train),
    word("train_val", Split::Train),
    word("val", Split::Val),
    word("valid", Split::Val),
    word("validation", Split::Val),
    word("dev", Split::Val),
    word("test", Split::Test),
    word("testing", Split::Test),
    word("eval", Split::Test),
    word("evaluation", Split::Test),
];

/// What may be between a word and the rest of a name. Source: `NON_WORDS_CHARS` of the same file.
const BETWEEN: &str = "-._ 0123456789";

/// What else names of splits have, beside a word.
const ADDED: [&str; 4] = ["set", "data", "images", "img"];

/// Words for a split that some people train on, too: "held-out data" of scikit-learn's user guide.
const HELD_OUT: [&str; 2] = ["holdout", "heldout"];

/// Short forms, which are as likely names of classes.
const SHORT: [SplitWord; 3] =
    [word("trn", Split::Train), word("vld", Split::Val), word("tst", Split::Test)];

/// The split that `name` is a word for, in upper or lower case.
#[must_use]
pub fn split_of(name: &str) -> Option<Split> {
    WORDS.iter().find(|word| name.eq_ignore_ascii_case(word.word)).map(|word| word.split)
}

/// The split that `name` contains a word for, apart from everything else: `test1`, `my-train`.
pub(crate) fn split_within(name: &str) -> Option<Split> {
    let name = joined(name);
    let parts = name.split(|c| BETWEEN.contains(c));
    let mut found = parts.filter_map(split_of);
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// The name in lower case, with `train_val` in one word, but not `train_valid`.
fn joined(name: &str) -> String {
    let lower = name.to_lowercase();
    let (mut joined, mut rest) = (String::new(), lower.as_str());
    while let Some((before, after)) = rest.split_once("train") {
        let both = ["_val", "-val"].iter().find_map(|val| after.strip_prefix(val));
        let both = both.filter(|after| !after.starts_with(char::is_alphabetic));
        joined = joined + before + if both.is_some() { "trainval" } else { "train" };
        rest = both.unwrap_or(after);
    }
    joined + rest
}

/// Whether `name` is one of all images that are not for testing, such as `trainval`.
pub(crate) fn is_of_both(name: &str) -> bool {
    joined(name).split(|c| BETWEEN.contains(c)).any(|part| part == "trainval")
}

/// The split that `name` looks like, although it is not clear: `trainset`, `val_images2`,
/// `imgtest`.
pub(crate) fn split_like(name: &str) -> Option<Split> {
    split_within(name).or_else(|| only_split_like(name))
}

/// The split that `name` looks like, if it has no words of its own, as `test tube` has.
pub(crate) fn only_split_like(name: &str) -> Option<Split> {
    let lower = name.to_lowercase();
    let plain = lower.trim_matches(|c| BETWEEN.contains(c));
    let letters: String = lower.chars().filter(|c| !BETWEEN.contains(*c)).collect();
    if HELD_OUT.iter().any(|word| letters.strip_suffix("set").unwrap_or(&letters) == *word) {
        return Some(Split::Test);
    }
    if let Some(short) = SHORT.iter().find(|short| short.word == plain) {
        return Some(short.split);
    }
    WORDS.iter().find_map(|SplitWord { word, split }| {
        let added = plain.strip_prefix(word).or_else(|| plain.strip_suffix(word))?;
        let added = added.trim_matches(|c| BETWEEN.contains(c));
        (added.is_empty() || ADDED.contains(&added)).then_some(*split)
    })
}

/// Those of `names` that look like splits: by themselves, or since what is beside a word for a split is
/// the same for two splits, as in `bounding_box_train` and `bounding_box_test`, `trainA` and `testA`.
pub(crate) fn splits_among<'a>(
    names: impl Iterator<Item = &'a String> + Clone,
) -> BTreeMap<&'a str, Split> {
    let mut of_rest: BTreeMap<String, BTreeSet<Split>> = BTreeMap::new();
    let with_rest = |name: &str| {
        let lower = name.to_lowercase();
        // `rps-test-set` is `rps` for tests.
        if let Some(split) = split_within(name) {
            let is_rest = |part: &&str| split_of(part).is_none() && !ADDED.contains(part);
            let joined = joined(name);
            let parts = joined.split(|c| BETWEEN.contains(c)).filter(is_rest);
            return Some((split, parts.collect::<Vec<_>>().join(" ").trim().to_owned()));
        }
        WORDS.iter().rev().find_map(|SplitWord { word, split }| {
            let rest = lower.strip_prefix(word).or_else(|| lower.strip_suffix(word))?;
            Some((*split, rest.trim_matches(|c| BETWEEN.contains(c)).to_owned()))
        })
    };
    for (split, rest) in names.clone().filter_map(|name| with_rest(name)) {
        of_rest.entry(rest).or_default().insert(split);
    }
    let of_pair = |name: &str| {
        let (split, rest) = with_rest(name)?;
        of_rest.get(&rest).filter(|splits| splits.len() > 1).map(|_| split)
    };
    names
        .filter_map(|name| Some((name.as_str(), only_split_like(name).or_else(|| of_pair(name))?)))
        .collect()
}

/// Whether `name` is one of numbered parts of a dataset, such as `fold_0`.
pub(crate) fn is_fold(name: &str) -> bool {
    let lower = name.to_lowercase();
    let number = lower.strip_prefix("fold").map(|rest| rest.trim_start_matches(['_', '-', ' ']));
    number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_in_any_case() {
        for (name, split) in [
            ("train", Some(Split::Train)),
            ("Training", Some(Split::Train)),
            ("VAL", Some(Split::Val)),
            ("dev", Some(Split::Val)),
            ("Testing", Some(Split::Test)),
            ("evaluation", Some(Split::Test)),
            ("trains", None),
            ("test1", None),
            ("", None),
        ] {
            assert_eq!(split_of(name), split, "{name}");
        }
    }

    #[test]
    fn names_with_a_word_in_them_look_like_splits() {
        for (name, within, like) in [
            ("test1", Some(Split::Test), Some(Split::Test)),
            ("my-train_2", Some(Split::Train), Some(Split::Train)),
            ("trainset", None, Some(Split::Train)),
            ("TestSet", None, Some(Split::Test)),
            ("imgval", None, Some(Split::Val)),
            ("Hold-out_set", None, Some(Split::Test)),
            ("train_test", None, None),
            ("train_val_list", Some(Split::Train), Some(Split::Train)),
            ("TrainVal", Some(Split::Train), Some(Split::Train)),
            ("train_valid", None, None),
            ("train-val2-train_val", Some(Split::Train), Some(Split::Train)),
            ("trainer", None, None),
            ("cat", None, None),
        ] {
            assert_eq!((split_within(name), split_like(name)), (within, like), "{name}");
        }
        assert_eq!(only_split_like("test tube"), None);
        assert_eq!(only_split_like("test_1"), Some(Split::Test));
        assert_eq!(only_split_like("trainset"), Some(Split::Train));
        let names = ["trainA", "testA", "test tube", "bounding_box_train", "val_bounding_box", "q"];
        let names = names.map(str::to_owned);
        let found: Vec<&str> = splits_among(names.iter()).into_keys().collect();
        assert_eq!(found, ["bounding_box_train", "testA", "trainA", "val_bounding_box"]);
        let names = ["rps", "rps-test-set", "rps-validation"].map(str::to_owned);
        assert_eq!(splits_among(names.iter()).len(), 2);
        assert!(is_fold("fold_0") && is_fold("Fold12"));
        assert!(!is_fold("folder") && !is_fold("fold"));
    }
}
