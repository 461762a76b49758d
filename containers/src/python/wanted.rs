//! What a project asks for, before versions are chosen.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::wheel::{Marker, Versions, normal};
use crate::{Error, Result, Sha256};

/// A line of a file beside the recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: String,
    /// From 1; 0 for what the whole file needs.
    pub(super) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "`{}`", self.path),
            line => write!(f, "`{}` line {line}", self.path),
        }
    }
}

/// Reads a document in TOML; `path` names it in errors.
///
/// # Errors
/// [`Error::Recipe`] with the line.
pub(super) fn read_toml<T: DeserializeOwned>(text: &str, path: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| {
        let place = Place::at(path, text, e.span().map_or(0, |span| span.start));
        place.wrong(e.message().to_owned(), None)
    })
}

impl Place {
    /// The line of a text's byte.
    pub(super) fn at(path: &str, text: &str, at: usize) -> Self {
        let line = text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        Self { path: path.to_owned(), line }
    }

    /// A package's name, in the form that indexes use: files and folders are named after it.
    ///
    /// # Errors
    /// [`Error::Recipe`] for what PEP 508 does not allow.
    pub(super) fn name(&self, text: &str) -> Result<String> {
        let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let whole = text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(good);
        match whole {
            true => Ok(normal(text)),
            false => Err(self.wrong(format!("`{text}` is not a package's name"), None)),
        }
    }

    /// An error about this line.
    pub(super) fn wrong(&self, reason: String, hint: Option<String>) -> Error {
        let (reason, hint) = (without_middle(reason), hint.map(without_middle));
        Error::Recipe { path: self.path.clone(), line: self.line, reason, hint }
    }
}

/// Most characters of an error's text at each end: a line of a file may have millions.
const SHOWN: usize = 500;

fn without_middle(text: String) -> String {
    let start = text.char_indices().nth(SHOWN).map(|(at, _)| at);
    let end = text.char_indices().nth_back(SHOWN).map(|(at, _)| at);
    match start.zip(end).filter(|(start, end)| start < end) {
        Some((start, end)) => {
            let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
            format!("{}…{}", part(text.get(..start)), part(text.get(end..)))
        }
        None => text,
    }
}

/// Everything that a project asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Wanted {
    pub(super) asks: Vec<Ask>,
    /// Versions that packages must have if something asks for them.
    pub(super) constraints: Vec<Ask>,
    pub(super) indexes: Indexes,
    /// Whether versions that are not released count.
    pub(super) prereleases: bool,
    pub(super) python: Option<NeededPython>,
}

/// The places that packages are looked up in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Indexes {
    /// The index to ask instead of the usual one.
    pub(super) index: Option<String>,
    /// Indexes to ask before that one.
    pub(super) extra: Vec<String>,
    /// Pages with links, and folders of wheels by their paths from the recipe's folder.
    pub(super) links: Vec<String>,
    /// Whether only those pages and folders count.
    pub(super) none: bool,
}

impl Indexes {
    /// The URLs of all indexes, in the order in which they are asked; `usual` if the file names
    /// none instead of it.
    pub(super) fn all(&self, usual: &str) -> Vec<String> {
        let default = self.index.as_deref().unwrap_or(usual).trim_end_matches('/');
        self.extra.iter().map(String::as_str).chain([default]).map(str::to_owned).collect()
    }
}

/// The versions of Python that a project is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NeededPython {
    pub(super) versions: Versions,
    pub(super) from: Place,
}

impl NeededPython {
    /// # Errors
    /// [`Error::Recipe`] for what are not versions.
    pub(super) fn parse(text: &str, from: Place) -> Result<Self> {
        match Versions::parse(text) {
            Some(versions) => Ok(Self { versions, from }),
            None => {
                let reason = format!("`{text}` does not say which versions of Python are needed");
                Err(from.wrong(reason, Some("expected versions such as `>=3.9`".to_owned())))
            }
        }
    }
}

/// One package that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    /// The name in the form that indexes use; unknown for some sources.
    pub(super) name: Option<String>,
    pub(super) extras: Vec<String>,
    /// The condition under which the package is needed, and its text.
    pub(super) marker: Option<(Marker, String)>,
    pub(super) target: Target,
    pub(super) from: Place,
}

/// What can provide a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A version of an index, and the digests that its file may have.
    Index { versions: Versions, hashes: Vec<Sha256> },
    /// A wheel at a URL.
    Wheel { url: String, sha256: Option<Sha256> },
    /// A wheel on this machine, by its path from the recipe's folder.
    Here(String),
    /// A repository or an archive with sources, by its URL.
    Remote(String),
    /// A folder or archive with sources, by its path from the recipe's folder.
    Folder(String),
}

impl Ask {
    /// The requirement as `uv` reads it; `base` is the absolute path of the recipe's folder.
    pub(super) fn text(&self, base: &str) -> String {
        let extras = match self.extras.as_slice() {
            [] => String::new(),
            extras => format!("[{}]", extras.join(",")),
        };
        let named = |address: &str| match &self.name {
            Some(name) => format!("{name}{extras} @ {address}"),
            None => format!("{address}{extras}"),
        };
        let mut text = match &self.target {
            Target::Index { versions, .. } => {
                format!("{}{extras}{versions}", self.name.as_deref().unwrap_or_default())
            }
            Target::Wheel { url, .. } | Target::Remote(url) => named(url),
            Target::Here(path) | Target::Folder(path) => named(&file_url(base, path)),
        };
        if let Some((_, marker)) = &self.marker {
            text.push_str(&format!(" ; {marker}"));
        }
        text
    }

    /// Whether one version and its digests are named.
    pub(super) fn is_pinned(&self) -> bool {
        match &self.target {
            Target::Index { versions, hashes } => versions.only().is_some() && !hashes.is_empty(),
            Target::Wheel { sha256, .. } => sha256.is_some(),
            Target::Here(_) => true,
            Target::Remote(_) | Target::Folder(_) => false,
        }
    }

    /// The local part of the version that is asked for: `cu118` of `==2.0.1+cu118`.
    pub(super) fn local_version(&self) -> Option<String> {
        let Target::Index { versions, .. } = &self.target else { return None };
        Some(versions.only()?.to_string().split_once('+')?.1.to_owned())
    }

    /// What the line asks for, as its author wrote it or nearly so.
    pub(super) fn shown(&self) -> String {
        match (&self.target, &self.name) {
            (Target::Index { versions, .. }, name) => {
                format!("{}{versions}", name.as_deref().unwrap_or_default())
            }
            (Target::Wheel { url: at, .. } | Target::Remote(at), _)
            | (Target::Here(at) | Target::Folder(at), _) => at.clone(),
        }
    }
}

/// The URL of a file or folder on this machine.
pub(super) fn file_url(base: &str, path: &str) -> String {
    let full = std::path::Path::new(base).join(path);
    let mut url = "file://".to_owned();
    for byte in full.to_string_lossy().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' => {
                url.push(char::from(byte));
            }
            other => url.push_str(&format!("%{other:02X}")),
        }
    }
    url
}
