//! The files of one sample, as the plan lists them.

use serde::{Deserialize, Serialize};

/// The files of a sample. Format: `FORMAT.md`, "Plan".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stack {
    /// The dates, in order; empty if files have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) dates: Vec<String>,
    /// The files: those of the first date first, and of a date in the order of bands.
    pub(crate) parts: Vec<StackFile>,
}

/// A file of a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, String)", into = "(u64, String)")]
pub(crate) struct StackFile {
    pub(crate) bytes: u64,
    pub(crate) path: String,
}

impl Stack {
    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// The path that says the split, the class and the fields of the sample.
    pub(crate) fn first_path(&self) -> &str {
        self.parts.first().map_or("", |part| &part.path)
    }

    /// The files of each date.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &[StackFile]> {
        self.parts.chunks((self.parts.len() / self.n_frames()).max(1))
    }

    /// The number of dates, or 1.
    pub(crate) fn n_frames(&self) -> usize {
        self.dates.len().max(1)
    }
}

impl From<(u64, String)> for StackFile {
    fn from((bytes, path): (u64, String)) -> Self {
        Self { bytes, path }
    }
}

impl From<StackFile> for (u64, String) {
    fn from(StackFile { bytes, path }: StackFile) -> Self {
        (bytes, path)
    }
}
