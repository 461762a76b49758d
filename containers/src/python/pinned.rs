//! A package of one exact version, and the wheels that can provide it.

use pep440_rs::Version;

use crate::Sha256;
use crate::wheel::Marker;

/// What requirements and lock files come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pinned {
    /// As indexes write it.
    pub(super) name: String,
    pub(super) version: Version,
    /// When it is needed.
    pub(super) marker: Option<Marker>,
    pub(super) wheels: Wheels,
    /// Where it is asked for: `requirements.txt line 3`.
    pub(super) from: String,
}

/// Which wheels a package may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wheels {
    /// Files of an index with one of these digests.
    OfIndex(Vec<Sha256>),
    /// These; none of a package that has sources alone.
    Listed(Vec<Listed>),
}

/// A wheel that a lock file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// Its file's name.
    pub(super) file: String,
    /// Its URL, or a path from the recipe's folder that begins with `./`.
    pub(super) url: String,
    pub(super) sha256: Sha256,
    pub(super) bytes: Option<u64>,
}

/// All of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pins {
    pub(super) pinned: Vec<Pinned>,
    /// The index to ask instead of the usual one.
    pub(super) index: Option<String>,
    /// Indexes to ask before it.
    pub(super) extra_indexes: Vec<String>,
}
