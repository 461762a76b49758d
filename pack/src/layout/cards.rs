//! Known datasets, which are laid out in ways of their own.
//!
//! [`cards.toml`](cards.toml) has a row for each: how it is recognised, and what its options would
//! be. A row is data; nothing here knows a dataset by its name.

use std::collections::BTreeMap;

use gular_bundle::Split;
use serde::{Deserialize, Serialize};

use crate::source::PixelFiles;

/// A known dataset.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// A short name.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// Where it is described.
    pub source: String,
    /// Files and folders by which it is recognised; folders end in a slash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub has: Vec<String>,
    /// The patterns of its images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// The form of its files, if its images are rows of pixels in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pixels: Option<PixelFiles>,
    /// Lists of images, each with the pattern of its lines: `FILE=PATTERN`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<String>,
    /// The tables of labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<String>,
    /// The tables' column of file names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_column: Option<String>,
    /// The tables' column of labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_column: Option<String>,
    /// The tables' column of splits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_column: Option<String>,
    /// The splits that words in that column stand for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub split_words: BTreeMap<String, Split>,
    /// Further fields: `NAME=PATTERN`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// What it has that is not read, and how that is converted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Unread>,
    /// Whether images that no pattern fits, or that no list names, are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaves_out: bool,
}

/// What is not read of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Unread {
    /// What it is: `labels in MATLAB files`.
    pub what: String,
    /// A command that converts it, in the folder of the dataset.
    pub convert: String,
    /// What the command makes, if that is to be packed in place of the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub makes: Option<String>,
}

impl Card {
    /// Whether it says more than where the images and their files are.
    pub(crate) fn has_labels(&self) -> bool {
        let tables = self.lists.len() + self.tables.len();
        self.unread.is_some()
            || tables > 0
            || self.images.iter().any(|images| images.contains("{label"))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cards {
    card: Vec<Card>,
}

/// All known datasets.
///
/// # Errors
/// What is wrong with the table, in words; a test shows that nothing is.
pub fn datasets() -> Result<Vec<Card>, String> {
    parse_datasets(include_str!("cards.toml"))
}

/// Reads a table of datasets.
///
/// # Errors
/// What is wrong with the table, in words.
pub fn parse_datasets(text: &str) -> Result<Vec<Card>, String> {
    let cards: Cards = toml::from_str(text).map_err(|e| e.to_string())?;
    let is_open =
        |card: &&Card| card.has.is_empty() || (card.images.is_empty() && card.unread.is_none());
    match cards.card.iter().filter(|card| card.pixels.is_none()).find(is_open) {
        Some(card) => Err(format!("`{}` must have `has` and `images`, or `pixels`", card.name)),
        None => Ok(cards.card),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_says_how_it_is_recognised() {
        assert!(parse_datasets("[[card]]\nname = \"x\"").is_err());
        let open = "[[card]]\nname = \"x\"\ntitle = \"X\"\nsource = \"-\"";
        assert!(parse_datasets(open).unwrap_err().contains("`x` must have `has` and `images`"));
    }
}
