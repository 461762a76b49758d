//! A recipe while its parts are collected.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::step::Fate;
use crate::recipe::RunStep;

/// A line of the file that the recipe does not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeftOutLine {
    /// The line, from 1.
    pub line: usize,
    /// The instruction or command, on one line.
    pub text: String,
    /// Whether the image lacks something.
    pub difference: Difference,
    /// Why it is left out, and what to do.
    pub reason: String,
}

/// How the image differs from the one that the file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// Something is missing in the image.
    Missing,
    /// The image does the same in another way, or something that it does not need is left out.
    Other,
}

/// Where a recipe's files come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Base {
    Scratch,
    Debian(&'static str),
    Oci(String),
}

/// A lock file of Python packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PythonLock {
    /// Its path from the context.
    pub(super) path: String,
    pub(super) extras: BTreeSet<String>,
    pub(super) groups: BTreeSet<String>,
}

/// The parts of a recipe.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) base: Option<Base>,
    pub(super) platform: Option<String>,
    pub(super) packages: BTreeSet<String>,
    /// The first line that installs some.
    pub(super) packages_line: Option<usize>,
    /// The first line that asks for recommended packages, too.
    pub(super) recommends: Option<usize>,
    /// Wheels of this machine.
    pub(super) wheels: Vec<String>,
    /// Lines of a `requirements.txt`, in their order.
    pub(super) requirements: Vec<String>,
    /// Where the packages of each `pip install` come from, with its line and text: an option, or
    /// nothing for PyPI.
    pub(super) indexes: Vec<(usize, String, Option<String>)>,
    /// Path in the image without a leading `/`, path from the context.
    pub(super) files: BTreeMap<String, String>,
    /// Path in the image without a leading `/`; name of a file beside the recipe, and its text.
    pub(super) texts: BTreeMap<String, (String, String)>,
    /// A lock file of Python packages, and the extras and groups that are taken of it.
    pub(super) lock: Option<PythonLock>,
    /// Folders of virtual environments.
    pub(super) environments: BTreeSet<String>,
    /// The line that installs what it names.
    pub(super) lock_line: usize,
    /// The steps of `[[run]]`.
    pub(super) steps: Vec<RunStep>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) left_out: Vec<LeftOutLine>,
}

/// Longest text of an instruction that is shown.
const MAX_SHOWN: usize = 100;

impl Draft {
    pub(super) fn missing(&mut self, line: usize, text: &str, reason: impl AsRef<str>) {
        self.leave(line, text, Difference::Missing, reason.as_ref());
    }

    pub(super) fn other(&mut self, line: usize, text: &str, reason: impl AsRef<str>) {
        self.leave(line, text, Difference::Other, reason.as_ref());
    }

    pub(super) fn fate(&mut self, line: usize, text: &str, fate: Fate) {
        match fate {
            Fate::Missing(reason) => self.missing(line, text, reason),
            Fate::Different(reason) => self.other(line, text, reason),
        }
    }

    fn leave(&mut self, line: usize, text: &str, difference: Difference, reason: &str) {
        let text = without_users(&one_line(text));
        let reason = without_users(reason);
        self.left_out.push(LeftOutLine { line, text, difference, reason });
    }
}

/// A text without the users and passwords in its URLs.
fn without_users(text: &str) -> String {
    let mut parts = text.split("://");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("://");
        let end = part.find(|c: char| "/?#\"'\\`".contains(c) || c.is_whitespace());
        let (authority, rest) = part.split_at(end.unwrap_or(part.len()));
        match authority.rsplit_once('@') {
            Some((_, host)) => out.push_str(&format!("…@{host}{rest}")),
            // The end of a long text may be cut off before the host.
            None if authority.contains(':') && authority.ends_with('…') => out.push('…'),
            None => out.push_str(part),
        }
    }
    out
}

/// A text on one line, with its end cut off if it is long.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "\\").collect();
    let line = words.join(" ").replace(char::is_control, "?");
    if line.chars().count() <= MAX_SHOWN {
        return line;
    }
    line.chars().take(MAX_SHOWN).chain(std::iter::once('…')).collect()
}
