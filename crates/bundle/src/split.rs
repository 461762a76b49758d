//! The three splits: train, val and test.

use std::fmt;

/// The part of a dataset that a sample belongs to.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// Samples that a model learns from.
    Train,
    /// Samples that choose between models.
    Val,
    /// Samples that are used once, at the end.
    Test,
}

impl Split {
    /// All splits, in the order in which a bundle lists them.
    pub const ALL: [Self; 3] = [Self::Train, Self::Val, Self::Test];

    /// `train`, `val` or `test`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Test => "test",
        }
    }

    /// Reads a folder's or an option's name; `valid` and `validation` mean `val`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "train" => Some(Self::Train),
            "val" | "valid" | "validation" => Some(Self::Val),
            "test" => Some(Self::Test),
            _ => None,
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
