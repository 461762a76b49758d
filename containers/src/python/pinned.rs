//! A package of one exact version, and the wheels that can provide it.

use pep440_rs::Version;

use crate::Sha256;
use crate::wheel::Marker;

/// One package that requirements or a lock file ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pinned {
    /// The package's name in the form that indexes use.
    pub(super) name: String,
    pub(super) version: Version,
    /// The condition under which the package is needed.
    pub(super) marker: Option<Marker>,
    pub(super) wheels: Wheels,
    /// The place that asks for the package: `requirements.txt line 3`.
    pub(super) from: String,
}

/// The wheels that can be taken for a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wheels {
    /// Files of an index with one of these digests.
    OfIndex(Vec<Sha256>),
    /// The wheels of this list, which is empty for a package that has sources alone.
    Listed(Vec<Listed>),
}

/// A wheel that a lock file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// The wheel's file name.
    pub(super) file: String,
    /// The wheel's URL, or a path from the recipe's folder that begins with `./`.
    pub(super) url: String,
    pub(super) sha256: Sha256,
    pub(super) bytes: Option<u64>,
}

/// Everything that a file pins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pins {
    pub(super) pinned: Vec<Pinned>,
    /// The index to ask instead of the usual one.
    pub(super) index: Option<String>,
    /// Indexes to ask before that one.
    pub(super) extra_indexes: Vec<String>,
}
