//! Progress of a build, and how to stop it.

use std::path::Path;
use std::sync::atomic::AtomicBool;

/// A step of the work that takes a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Mirrors and indexes are asked what they have.
    Resolve,
    /// Archives are fetched: bytes of all of them.
    Fetch,
    /// Archives are unpacked: bytes of all of them.
    Unpack,
    /// Images are written: bytes of all files, once per format.
    Write,
    /// Blobs are sent to a registry: bytes of all of them.
    Push,
}

/// A message that a person may want to see, and not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note<'a> {
    /// `image.lock` was written.
    Relocked {
        /// The file.
        path: &'a Path,
        /// Why the one before would not do.
        why: Relocked,
    },
    /// This library of this machine goes into the image: the program names its folder.
    Brought(&'a Path),
    /// Another process has been working on the same for a while, with this folder: it
    /// fetches what is needed, or sends it.
    Waiting(&'a Path),
    /// An image was chosen from several.
    OneOf {
        /// What names them all.
        name: &'a str,
        /// The platform that was wanted.
        taken: &'a str,
        /// Platforms of the others.
        others: &'a [String],
    },
    /// The cache did not take an image's blocks, for this reason: the next build
    /// compresses all of them again.
    NotCached(&'a str),
}

/// Why a lock was made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relocked {
    /// There was none.
    Missing,
    /// The recipe changed.
    RecipeChanged,
}

/// Follows the progress of the work, and can cancel it. A bare flag hears nothing.
pub trait Watch: Sync {
    /// Set when the work is to stop; it then ends with [`Error::Cancelled`](crate::Error::Cancelled).
    fn cancel(&self) -> &AtomicBool;

    /// What a step is working on: a list of packages, a package.
    fn working_on(&self, _step: Step, _what: &str) {}

    /// Bytes that a step has done, and bytes in all.
    fn progress(&self, _step: Step, _done: u64, _total: u64) {}

    /// A step has ended, well or not.
    fn ended(&self, _step: Step) {}

    /// Something to know.
    fn note(&self, _note: &Note<'_>) {}
}

impl Watch for AtomicBool {
    fn cancel(&self) -> &AtomicBool {
        self
    }
}
