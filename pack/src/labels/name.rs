//! Finds the class in a file's name.

use regex::Regex;

/// The group that is the class, where an expression names one so.
const GROUP: &str = "label";

/// A regular expression that finds the class in an image's path.
#[derive(Debug, Clone)]
pub struct NamePattern(Regex);

impl NamePattern {
    /// Reads an expression in the syntax of the crate `regex`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        Regex::new(text).map(Self).map_err(|e| e.to_string())
    }

    /// The expression.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The class in `path`: group `label`, else the first group, else all that matches; `None`
    /// when nothing matches, or nothing is left.
    pub(crate) fn label<'t>(&self, path: &'t str) -> Option<&'t str> {
        let found = self.0.captures(path)?;
        let group = match found.name(GROUP) {
            Some(group) => Some(group),
            None if self.0.captures_len() > 1 => found.get(1),
            None => found.get(0),
        };
        group.map(|group| group.as_str()).filter(|label| !label.is_empty())
    }
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_label_wins_over_the_first_over_all() {
        let check = |pattern: &str, path: &str, expected: Option<&str>| {
            assert_eq!(NamePattern::parse(pattern).unwrap().label(path), expected, "{pattern}");
        };
        check(r"^([a-z]+)\.", "cat.0.jpg", Some("cat"));
        check(r"(\d+)-(?<label>[a-z]+)", "17-dog.jpg", Some("dog"));
        check(r"cat|dog", "x/17-dog.jpg", Some("dog"));
        check(r"^([a-z]+)\.", "17.jpg", None);
        check(r"^([a-z]*)", "17.jpg", None);
        check(r"(cat)?\.jpg", "dog.jpg", None);
        assert!(NamePattern::parse("(").unwrap_err().contains("unclosed"));
    }
}
