//! Safe relative paths: sample keys and file names inside a bundle.
//! Format: `FORMAT.md`, "Keys and names".

use std::cmp::Ordering;
use std::fmt;

/// A `/`-separated relative path: never empty, absolute, longer than
/// [`BundlePath::MAX_LEN`] bytes, nor with an empty, `.` or `..` segment, a
/// backslash or a control character.
///
/// Paths order by segments, each compared by its bytes, so that `a/z` comes
/// before `a-b/c`: the order in which PyTorch's `ImageFolder` lists
/// `class/file`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BundlePath(String);

/// A text that is not a safe relative path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is not a safe relative path: {reason}")]
pub struct PathError {
    /// The refused text, control characters escaped.
    pub path: String,
    /// The rule that the text breaks.
    pub reason: &'static str,
}

impl BundlePath {
    /// The length limit in bytes, as in Linux (`PATH_MAX`, with its final zero byte).
    pub const MAX_LEN: usize = 4095;

    /// Checks `text`.
    ///
    /// # Errors
    /// [`PathError`] names the first rule broken.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        Self::check(text)?;
        Ok(Self(text.to_owned()))
    }

    /// Checks the same as [`BundlePath::parse`], without storing the text.
    pub(crate) fn check(text: &str) -> Result<(), PathError> {
        match Self::fault(text) {
            None => Ok(()),
            Some(reason) => {
                Err(PathError { path: text.escape_debug().take(200).collect(), reason })
            }
        }
    }

    fn fault(text: &str) -> Option<&'static str> {
        if text.is_empty() {
            return Some("it is empty");
        }
        if text.len() > Self::MAX_LEN {
            return Some("it is longer than 4095 bytes");
        }
        if text.contains('\\') {
            return Some("it contains a backslash");
        }
        if text.chars().any(char::is_control) {
            return Some("it contains a control character");
        }
        text.split('/').find_map(|segment| match segment {
            "" => Some("it begins or ends with a slash, or has two in a row"),
            "." | ".." => Some("one of its parts between slashes is `.` or `..`"),
            _ => None,
        })
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BundlePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BundlePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Ord for BundlePath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.split('/').cmp(other.0.split('/'))
    }
}

impl PartialOrd for BundlePath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl serde::Serialize for BundlePath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for BundlePath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_paths_parse() {
        for text in ["a", "a/b.jpg", "ü/ø é.png", "a/..b", ".hidden"] {
            assert_eq!(BundlePath::parse(text).map(|p| p.as_str().to_owned()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn unsafe_paths_are_refused_with_the_rule() {
        for (text, word) in [
            ("", "empty"),
            ("/a", "begins or ends with a slash"),
            ("a//b", "two in a row"),
            ("a/", "two in a row"),
            ("../a", "`..`"),
            ("a/./b", "`.`"),
            ("a\\b", "backslash"),
            ("a\nb", "control"),
        ] {
            let error = BundlePath::parse(text).unwrap_err();
            assert!(error.reason.contains(word), "{text:?}: {error}");
        }
        assert!(BundlePath::parse(&"x".repeat(4096)).is_err());
    }

    #[test]
    fn order_is_by_segment() {
        let mut paths =
            ["a-b/c", "a/z", "a/b/c", "a/b", "a.b"].map(|t| BundlePath::parse(t).unwrap());
        paths.sort();
        assert_eq!(paths.map(|p| p.0), ["a/b", "a/b/c", "a/z", "a-b/c", "a.b"]);
    }
}
