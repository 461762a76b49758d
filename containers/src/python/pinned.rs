//! A package of one exact version, and the files that can provide it.

use pep440_rs::Version;

use super::wanted::{Indexes, NeededPython, Place};
use crate::Sha256;
use crate::wheel::Marker;

/// One package that requirements or a lock file ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pinned {
    /// The package's name in the form that indexes use.
    pub(super) name: String,
    /// Unknown for some packages that have sources alone.
    pub(super) version: Option<Version>,
    /// The condition under which the package is needed.
    pub(super) marker: Option<Marker>,
    pub(super) wheels: Wheels,
    /// What a wheel could be built from.
    pub(super) source: Option<Source>,
    /// The place that asks for the package.
    pub(super) from: Place,
}

impl Pinned {
    /// The name, with the version if that is known: `numpy==2.0`.
    pub(super) fn shown(&self) -> String {
        match &self.version {
            Some(version) => format!("{}=={version}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The wheels that can be taken for a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wheels {
    /// Files of an index with one of these digests.
    OfIndex(Vec<Sha256>),
    /// The wheels of this list, which is empty for a package that has sources alone.
    Listed(Vec<Listed>),
}

/// A file that a lock file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// The file's name.
    pub(super) file: String,
    /// The file's URL, or a path from the recipe's folder that begins with `./`.
    pub(super) url: String,
    /// Pages of links may lack it.
    pub(super) sha256: Option<Sha256>,
    pub(super) bytes: Option<u64>,
}

/// What a wheel can be built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// An archive with sources.
    Archive(Listed),
    /// A commit of a repository, and the folder in it.
    Git { url: String, commit: String, inside: Option<String> },
    /// A folder, by its path from the recipe's folder.
    Folder(String),
}

/// Everything that a file pins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pins {
    pub(super) pinned: Vec<Pinned>,
    pub(super) indexes: Indexes,
    pub(super) python: Option<NeededPython>,
}
