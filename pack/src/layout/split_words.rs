//! The words that name a split.

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
/// `datasets`; `train`, `val` and `test` are also the folders of torchvision's datasets.
const WORDS: [SplitWord; 10] = [
    word("train", Split::Train),
    word("training", Split::Train),
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

/// The split that `name` is a word for, in upper or lower case.
#[must_use]
pub fn split_of(name: &str) -> Option<Split> {
    WORDS.iter().find(|word| name.eq_ignore_ascii_case(word.word)).map(|word| word.split)
}

/// The split that `name` contains a word for, apart from everything else: `test1`, `my-train`.
pub(crate) fn split_within(name: &str) -> Option<Split> {
    let parts = name.split(|c| BETWEEN.contains(c));
    let mut found = parts.filter_map(split_of);
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// The split that `name` looks like, although it is not clear: `trainset`, `val_images2`,
/// `imgtest`.
pub(crate) fn split_like(name: &str) -> Option<Split> {
    if let Some(split) = split_within(name) {
        return Some(split);
    }
    let lower = name.to_lowercase();
    let plain = lower.trim_matches(|c| BETWEEN.contains(c));
    WORDS.iter().find_map(|SplitWord { word, split }| {
        let added = plain.strip_prefix(word).or_else(|| plain.strip_suffix(word))?;
        let added = added.trim_matches(|c| BETWEEN.contains(c));
        ADDED.contains(&added).then_some(*split)
    })
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
            ("train_test", None, None),
            ("trainer", None, None),
            ("cat", None, None),
        ] {
            assert_eq!((split_within(name), split_like(name)), (within, like), "{name}");
        }
        assert!(is_fold("fold_0") && is_fold("Fold12"));
        assert!(!is_fold("folder") && !is_fold("fold"));
    }
}
