//! Words of messages that several errors have, and what is looked at in those of the user.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization as _, is_nfc, is_nfd};

/// A name with each accent and its letter in one character, the form of Unicode that is called NFC:
/// macOS writes names of files in the other form, and both look the same.
pub(crate) fn composed(name: &str) -> Cow<'_, str> {
    if is_nfc(name) { Cow::Borrowed(name) } else { Cow::Owned(name.nfc().collect()) }
}

/// The form of Unicode that a name is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnicodeForm {
    /// Both, as names without accents are, or neither.
    Any,
    Composed,
    Decomposed,
}

impl UnicodeForm {
    pub(crate) fn of(name: &str) -> Self {
        match (is_nfc(name), is_nfd(name)) {
            (true, false) => Self::Composed,
            (false, true) => Self::Decomposed,
            _ => Self::Any,
        }
    }

    /// A name in this form.
    pub(crate) fn write(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::Any => Cow::Borrowed(name),
            Self::Composed => composed(name),
            Self::Decomposed => Cow::Owned(name.nfd().collect()),
        }
    }
}

/// Words for a number of things: `1 row matches`, `2 rows match`.
pub(crate) fn counted(n: u64, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

/// Lists names, but not more than twenty.
pub(crate) fn all(names: &[String]) -> String {
    let named: Vec<String> = names.iter().take(20).cloned().collect();
    some(&named, names.len() as u64)
}

/// Lists some of `n` names.
pub(crate) fn some(names: &[String], n: u64) -> String {
    let named: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let more = n.saturating_sub(names.len() as u64);
    let end = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &end
}

/// Whether a text has more words than the name of a class has, most of which are not numbers.
pub(crate) fn is_sentence(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_number = |word: &&&str| word.parse::<f64>().is_ok();
    words.len() > 3 && words.iter().filter(is_number).count() * 2 < words.len()
}

/// Most names in a sentence.
const MOST_IN_A_SENTENCE: usize = 3;

/// Some names, and how many more there are.
pub(crate) fn named<'a, S: AsRef<str> + 'a + ?Sized>(names: impl Iterator<Item = &'a S>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{}`", name.as_ref())).collect();
    match names.as_slice() {
        [one] => one.clone(),
        [first @ .., last] if names.len() <= MOST_IN_A_SENTENCE => {
            format!("{} and {last}", first.join(", "))
        }
        _ => {
            let more = names.len().saturating_sub(MOST_IN_A_SENTENCE) as u64;
            let first = names.get(..MOST_IN_A_SENTENCE).unwrap_or_default();
            format!("{} and {}", first.join(", "), counted(more, "other", "others"))
        }
    }
}
