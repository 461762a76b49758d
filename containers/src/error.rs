//! What can go wrong while an image is made or looked at.

use std::io;
use std::path::Path;

use crate::{OciDigest, Sha256};

/// This room's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an image could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] gular_files::Error),
    /// The image's file refused bytes.
    #[error("cannot write the image: {source}")]
    Write {
        /// The operating system's answer.
        source: io::Error,
    },
    /// The root file system cannot be squashed.
    #[error("`{path}` of the image: {source}")]
    Squash {
        /// The path in the image.
        path: String,
        /// Why not.
        source: gular_squashfs::write::Error,
    },
    /// A file that is not what it was when it was looked at.
    #[error("`{path}` has {found} bytes, and had {expected} when it was first read")]
    Changed {
        /// The file.
        path: String,
        /// Its length.
        found: u64,
        /// Its length before.
        expected: u64,
    },
    /// A file whose bytes are not those it was unpacked with.
    #[error("`{path}` no longer holds the bytes that were unpacked into it")]
    Damaged {
        /// The file.
        path: String,
    },
    /// Something stands where the image should.
    #[error("`{path}` already exists")]
    Exists {
        /// The file or folder.
        path: String,
    },
    /// Something else has the name that an image's contents give it.
    #[error("`{path}` already exists with different contents")]
    Other {
        /// The file or folder.
        path: String,
    },
    /// A recipe that says nothing buildable.
    #[error("`{path}` line {line}: {reason}")]
    Recipe {
        /// The recipe.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
        /// What was probably meant.
        hint: Option<String>,
    },
    /// A Debian package that cannot be had.
    #[error("Debian package `{name}`: {reason}")]
    Package {
        /// Its name.
        name: String,
        /// What is in the way.
        reason: String,
        /// What may help.
        hint: Option<String>,
    },
    /// A file of a Debian archive that breaks its format.
    #[error("`{path}`: {reason}")]
    Debian {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An archive that is damaged, or holds what no image should.
    #[error("`{path}`: {reason}")]
    Archive {
        /// The archive.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An archive that becomes larger than is allowed.
    #[error("`{path}` holds at least {found} {what}, over the limit of {limit}")]
    Limit {
        /// The archive, or where it is from.
        path: String,
        /// Of what there is too much.
        what: &'static str,
        /// How much was found before it was given up.
        found: u64,
        /// How much there may be.
        limit: u64,
    },
    /// A file's bytes that could not be had.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// A path that no image may hold.
    #[error("bad path `{path}`: {reason}")]
    Path {
        /// The path.
        path: String,
        /// Why not.
        reason: &'static str,
    },
    /// Two things at one path of an image.
    #[error("`{path}`: {reason}")]
    Conflict {
        /// The path in the image.
        path: String,
        /// What stands there, and what should.
        reason: String,
    },
    /// A program or library that `ld.so` would refuse.
    #[error("`{path}` is not a valid ELF file: {reason}")]
    Elf {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An `image.lock` that cannot be used.
    #[error("`{path}` line {line}: {reason}")]
    Lock {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// An `image.lock` of another version of its format.
    #[error("`{path}` line {line}: format version {found}, this build reads {supported}")]
    LockVersion {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// Its version.
        found: u32,
        /// The newest that is read.
        supported: u32,
    },
    /// There is no recipe.
    #[error("there is no recipe `{path}`")]
    NoRecipe {
        /// Where it should be.
        path: String,
    },
    /// There is no lock beside a recipe.
    #[error("there is no `{path}`")]
    NoLock {
        /// Where it should be.
        path: String,
    },
    /// A folder of packages that is not there.
    #[error("there is no folder `{path}`")]
    NoFolder {
        /// Where it should be.
        path: String,
    },
    /// A lock that can be made with a network only.
    #[error("the packages of the image cannot be resolved without a network")]
    NotOffline,
    /// The image that another begins with is not that of the lock.
    #[error("`{path}`: this image has the digest {found}, the lock says {expected}")]
    BaseChanged {
        /// The image.
        path: String,
        /// Its digest.
        found: OciDigest,
        /// That of the lock.
        expected: OciDigest,
    },
    /// A recipe's program that could not be built.
    #[error("{reason}")]
    Program {
        /// What is in the way.
        reason: String,
        /// What may help.
        hint: Option<String>,
    },
    /// Byte code that could not be made.
    #[error("byte code of `{name}`: {reason}")]
    ByteCode {
        /// The package.
        name: String,
        /// What is in the way.
        reason: String,
    },
    /// An `image.lock` of another recipe.
    #[error("`{path}` is out of date: the recipe has changed")]
    Stale {
        /// The file.
        path: String,
    },
    /// A list of packages that nobody vouches for, or not any more.
    #[error("`{url}`: {reason}")]
    Release {
        /// The document.
        url: String,
        /// What is wrong with it.
        reason: String,
        /// What may help.
        hint: Option<String>,
    },
    /// A list of packages without a signature that counts.
    #[error("`{url}`: {reason}")]
    Untrusted {
        /// The document.
        url: String,
        /// Who signed it, as far as that is known.
        reason: String,
        /// Whether a trusted key did, and is no longer valid.
        expired: bool,
    },
    /// A wheel that an index does not have.
    #[error("wheel `{name}`: the index `{index}` does not have it")]
    NotInIndex {
        /// Its name, with a version where one was asked for.
        name: String,
        /// The index's URL.
        index: String,
    },
    /// A wheel that cannot be had.
    #[error("wheel `{name}`: {reason}")]
    Wheel {
        /// Its name, with a version where one was asked for.
        name: String,
        /// What is in the way.
        reason: String,
        /// What may help.
        hint: Option<String>,
    },
    /// Something could not be fetched.
    #[error("cannot fetch `{name}`: {reason}")]
    Fetch {
        /// The package, or the document's URL.
        name: String,
        /// What each place said.
        reason: String,
        /// What may help.
        hint: Option<String>,
    },
    /// Other bytes than were asked for.
    #[error("`{path}` has SHA-256 {found}, expected {expected}")]
    Digest {
        /// The file or URL.
        path: String,
        /// What its bytes give.
        found: Sha256,
        /// What they should give.
        expected: Sha256,
    },
    /// A file that is not here, and may not be fetched.
    #[error("`{name}` is not cached, and fetching is turned off")]
    Offline {
        /// The file's name.
        name: String,
    },
    /// Somebody asked to stop.
    #[error("stopped")]
    Cancelled,
    /// A folder or archive that is not a whole OCI image.
    #[error("`{path}` is not a valid OCI image: {reason}")]
    Oci {
        /// The folder or archive.
        path: String,
        /// The rule broken, with expected and found.
        reason: String,
    },
    /// A registry, or what is needed to use one.
    #[error("`{what}`: {reason}")]
    Registry {
        /// A URL without its query, a file, or a program.
        what: String,
        /// What it says, or what is wrong with it.
        reason: String,
        /// What may help.
        hint: Option<String>,
    },
    /// A name in a registry that something else has.
    #[error("`{name}` has another artifact already: {found}")]
    Taken {
        /// The name.
        name: String,
        /// What it has.
        found: String,
    },
    /// A file is not a whole SIF.
    #[error("`{path}` is not a valid SIF: {reason}")]
    Sif {
        /// The file.
        path: String,
        /// The rule broken, with expected and found.
        reason: String,
    },
}

impl Error {
    /// What the bytes themselves suggest: the key that was probably meant, the versions
    /// that there are. What else helps depends on the program, which words it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Recipe { hint, .. }
            | Self::Package { hint, .. }
            | Self::Release { hint, .. }
            | Self::Wheel { hint, .. }
            | Self::Program { hint, .. }
            | Self::Registry { hint, .. }
            | Self::Fetch { hint, .. } => hint.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| gular_files::Error::new(action, path, source).into()
    }
}
