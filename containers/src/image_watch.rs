//! Progress of a build, and how to stop it.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::OciDigest;
use crate::store::LeftOut;

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
    /// Maintainer scripts, or steps of the recipe, are run.
    Scripts,
    /// Images are written: bytes of all files, once per format.
    Write,
}

/// A message that a person may want to see, and not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note<'a> {
    /// `image.lock` was written.
    Relocked {
        /// The file.
        path: &'a Path,
        /// Why the previous lock could not be used.
        why: Relocked,
    },
    /// A library of this machine goes into the image, since the program names its folder.
    Brought(&'a Path),
    /// Another process has been working on the same files for a while, with this folder: it fetches
    /// what is needed, or sends it.
    Waiting(&'a Path),
    /// An image was chosen from several.
    OneOf {
        /// The name that they share.
        name: &'a str,
        /// The platform of the image that was chosen.
        taken: &'a str,
        /// Platforms of the others.
        others: &'a [String],
    },
    /// Maintainer scripts were not run, for this reason. What is known of them was done.
    ScriptsNotRun {
        /// Why they were not run.
        why: &'a str,
        /// Packages whose scripts do more than is known.
        unknown: &'a [String],
    },
    /// A file was not the same after maintainer scripts were run twice: the image cannot be
    /// made again.
    NotReproducible {
        /// The package whose script wrote it.
        package: &'a str,
        /// The file in the image.
        path: &'a str,
    },
    /// A step of the recipe did not do the same when it was run twice: the image cannot be made
    /// again.
    StepNotReproducible {
        /// The step.
        step: &'a str,
        /// Paths in the image that differ.
        paths: &'a [String],
    },
    /// Scripts made something that no image can have.
    LeftOut {
        /// The step, or `maintainer scripts`.
        by: &'a str,
        /// Pipes, sockets and extended attributes.
        left: &'a [LeftOut],
    },
    /// A step that is not reproducible did something else than the lock says.
    StepDiffers {
        /// The step.
        step: &'a str,
        /// Digest of the layer that it made.
        found: OciDigest,
        /// Digest of the layer in the lock.
        locked: OciDigest,
    },
    /// The Python of a base image that packages are added to.
    BasePython {
        /// The path of its program.
        program: &'a str,
        /// Its version.
        version: &'a str,
        /// How it is installed.
        kind: &'a str,
        /// Other Pythons on the image's search path.
        others: &'a [String],
    },
    /// Packages that were asked for are in the base image.
    Kept {
        /// Their names.
        names: &'a [String],
    },
    /// A package of the base image is replaced by another version.
    Replaced {
        /// Its name.
        name: &'a str,
        /// The version in the base image.
        before: &'a str,
        /// The version in the new image.
        now: &'a str,
    },
    /// The cache did not take an image's blocks, for this reason: the next build
    /// compresses all of them again.
    NotCached(&'a str),
}

/// Why a lock was made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relocked {
    /// There was no lock.
    Missing,
    /// The recipe changed.
    RecipeChanged,
    /// Steps of the recipe were run.
    StepsRun,
}

/// Follows the progress of the work, and can cancel it. A bare flag hears nothing.
pub trait ImageWatch: Sync {
    /// Set when the work is to stop; it then ends with [`Error::Cancelled`](crate::Error::Cancelled).
    fn cancel(&self) -> &AtomicBool;

    /// Says what a step is working on: a list of packages, or a package.
    fn working_on(&self, _step: Step, _what: &str) {}

    /// The last line that a script has printed, a few times per second while it runs.
    fn said(&self, _step: Step, _line: &str) {}

    /// Bytes that a step has done, and bytes in all.
    fn progress(&self, _step: Step, _done: u64, _total: u64) {}

    /// A step has ended, well or not.
    fn ended(&self, _step: Step) {}

    /// Gives the user a note.
    fn note(&self, _note: &Note<'_>) {}
}

impl ImageWatch for AtomicBool {
    fn cancel(&self) -> &AtomicBool {
        self
    }
}
