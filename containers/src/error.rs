//! What can go wrong while an image is made or examined.

use std::io;
use std::path::Path;

use gular_registry::{OciDigest, Sha256};

/// This room's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an image could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] gular_files::Error),
    /// The image's bytes could not be written to its file.
    #[error("cannot write the image: {source}")]
    Write {
        /// The operating system's answer.
        source: io::Error,
    },
    /// The root file system cannot be squashed.
    #[error("cannot put `{path}` into the image: {source}")]
    Squash {
        /// The path in the image.
        path: String,
        /// Why it cannot be squashed.
        source: gular_squashfs::write::Error,
    },
    /// A file that is not what it was when it was looked at.
    #[error(
        "`{path}` was changed during the build: it had {expected} bytes at first, and now has {found}"
    )]
    Changed {
        /// The file.
        path: String,
        /// Its length.
        found: u64,
        /// Its length before.
        expected: u64,
    },
    /// A file whose bytes are not those it was unpacked with.
    #[error("the cached file `{path}` was changed after it was unpacked")]
    Damaged {
        /// The file.
        path: String,
    },
    /// There is something else at the image's path.
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
    /// A recipe from which nothing can be built.
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
    /// A Debian package that is not available.
    #[error("cannot add the Debian package `{name}`: {reason}")]
    Package {
        /// Its name.
        name: String,
        /// Why the package is not available.
        reason: String,
        /// What may help.
        hint: Option<String>,
    },
    /// A file of a Debian archive that breaks its format.
    #[error("cannot use the Debian file `{path}`: {reason}")]
    Debian {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An archive that is damaged, or holds what no image should.
    #[error("cannot use the archive `{path}`: {reason}")]
    Archive {
        /// The archive.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An archive that becomes larger than is allowed.
    #[error("`{path}` has at least {found} {what}, more than the limit of {limit}")]
    Limit {
        /// The archive, or where it is from.
        path: String,
        /// What there is too much of.
        what: &'static str,
        /// How much was found before unpacking stopped.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A file whose bytes could not be read.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why it could not be read.
        source: io::Error,
    },
    /// A path that no image may hold.
    #[error("an image cannot hold the path `{path}`: {reason}")]
    Path {
        /// The path.
        path: String,
        /// Why no image may hold it.
        reason: &'static str,
    },
    /// Two things at one path of an image.
    #[error("cannot put `{path}` into the image: {reason}")]
    Conflict {
        /// The path in the image.
        path: String,
        /// What is at the path, and what should be.
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
    #[error(
        "`{path}` has format version {found} (line {line}); this build reads version {supported}"
    )]
    LockVersion {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The version of the lock.
        found: u32,
        /// The newest version that is read.
        supported: u32,
    },
    /// There is no recipe.
    #[error("the recipe `{path}` does not exist")]
    NoRecipe {
        /// Where the recipe should be.
        path: String,
    },
    /// There is no lock beside a recipe.
    #[error("the lock file `{path}` does not exist")]
    NoLock {
        /// Where the lock should be.
        path: String,
    },
    /// A file of another program where the lock would be written.
    #[error("`{path}` was made by another program, and the lock of this recipe has its name")]
    ForeignLock {
        /// The file.
        path: String,
    },
    /// A folder of packages that is not there.
    #[error("the folder `{path}` does not exist")]
    NoFolder {
        /// Where the folder should be.
        path: String,
    },
    /// A lock that cannot be made without a network.
    #[error("choosing the versions of the image's packages needs a network")]
    NotOffline,
    /// The image that another begins with is not that of the lock.
    #[error("the base image `{path}` has digest {found}, expected {expected} as in the lock file")]
    BaseChanged {
        /// The image.
        path: String,
        /// The image's digest.
        found: OciDigest,
        /// The digest in the lock.
        expected: OciDigest,
    },
    /// A recipe's program that could not be built.
    #[error("cannot build the image's program: {reason}")]
    Program {
        /// Why the program could not be built.
        reason: String,
        /// What may help.
        hint: Option<String>,
    },
    /// A base image without a Python that wheels can be installed for.
    #[error("cannot add Python packages to the base image: {reason}")]
    Python {
        /// Why not.
        reason: String,
    },
    /// A base image that Debian's packages cannot be added to.
    #[error("cannot add Debian packages to the base image: it is {found}, and not Debian")]
    NotDebian {
        /// What it is.
        found: String,
        /// Whether it has `apt-get`, which a step can run.
        has_apt: bool,
    },
    /// A package whose byte code could not be made.
    #[error("cannot compile the Python package `{name}` to byte code: {reason}")]
    ByteCode {
        /// The package.
        name: String,
        /// Why the byte code could not be made.
        reason: String,
    },
    /// Maintainer scripts of Debian packages that failed.
    #[error("{} failed: {reason}", of_packages("the maintainer scripts", packages))]
    Scripts {
        /// The packages; empty if none of them was run.
        packages: Vec<String>,
        /// What was printed last.
        reason: String,
    },
    /// Debian packages that need their maintainer scripts, which cannot be run here.
    #[error(
        "{} must be run, and cannot be: {reason}",
        of_packages("the maintainer scripts", packages)
    )]
    ScriptsNeeded {
        /// The packages.
        packages: Vec<String>,
        /// Why scripts cannot be run.
        reason: String,
        /// Whether no machine runs them: the packages are added to another image.
        on_image: bool,
    },
    /// A step of `[[run]]` that cannot be run here.
    #[error("{step} of `[[run]]` cannot be run: {reason}")]
    StepRefused {
        /// The step.
        step: String,
        /// Why it cannot be run.
        reason: String,
        /// Whether another machine or another build could run it.
        is_here: bool,
    },
    /// A step of `[[run]]` that failed.
    #[error("{step} of `[[run]]` failed ({how}){}{said}", if said.is_empty() { "" } else { "; its output ends with" })]
    StepFailed {
        /// The step.
        step: String,
        /// Its exit status or signal.
        how: String,
        /// Its last lines, each after a line end and two spaces.
        said: String,
    },
    /// A step of `[[run]]` that the lock has no result of, while the lock must stay as it is.
    #[error("the lock file `{path}` has no result of {step} of `[[run]]`, as it is now")]
    StepNotLocked {
        /// The step.
        step: String,
        /// The lock.
        path: String,
    },
    /// A step of `[[run]]` that is reproducible, as the lock says, and did something else here.
    #[error(
        "{step} of `[[run]]` made a layer with digest {found}, expected {expected} as in the lock file{}",
        of_paths(paths)
    )]
    StepChanged {
        /// The step.
        step: String,
        /// The layer's digest.
        found: OciDigest,
        /// The digest in the lock.
        expected: OciDigest,
        /// Paths that differ between two runs on this machine.
        paths: Vec<String>,
    },
    /// An `image.lock` that was made for another recipe.
    #[error("the lock file `{path}` is out of date: the recipe has changed")]
    Stale {
        /// The file.
        path: String,
    },
    /// A list of packages that nobody vouches for, or not any more.
    #[error("cannot use the package list `{url}`: {reason}")]
    Release {
        /// The document.
        url: String,
        /// What is wrong with it.
        reason: String,
        /// What may help.
        hint: Option<String>,
    },
    /// A list of packages without a signature that counts.
    #[error("cannot trust the package list `{url}`: {reason}")]
    Untrusted {
        /// The document.
        url: String,
        /// Who signed the document, as far as that is known.
        reason: String,
        /// Whether a trusted key signed it, but is no longer valid.
        expired: bool,
    },
    /// A wheel that an index does not have.
    #[error("the package index `{index}` has no wheel `{name}`")]
    NotInIndex {
        /// The wheel's name, with a version if one was asked for.
        name: String,
        /// The index's URL.
        index: String,
    },
    /// A file of a recipe's `[python]` that is not what was expected.
    #[error("cannot use `{path}`: {reason}")]
    Requirements {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
        /// What may help.
        hint: Option<String>,
    },
    /// A wheel that is not available.
    #[error("cannot add the wheel `{name}`: {reason}")]
    Wheel {
        /// The wheel's name, with a version if one was asked for.
        name: String,
        /// Why the wheel is not available.
        reason: String,
        /// What may help.
        hint: Option<String>,
    },
    /// Something could not be fetched.
    #[error("cannot fetch `{name}`: {reason}")]
    Fetch {
        /// The package, or the document's URL.
        name: String,
        /// The answer of each place that was asked.
        reason: String,
        /// What may help.
        hint: Option<String>,
        /// Whether the same may work at another time.
        passes: bool,
    },
    /// Other bytes than were asked for.
    #[error("`{path}` has SHA-256 {found}, expected {expected}")]
    Digest {
        /// The file or URL.
        path: String,
        /// The digest of the bytes.
        found: Sha256,
        /// The digest that they should have.
        expected: Sha256,
    },
    /// A file that is not here, and may not be fetched.
    #[error("`{name}` is not in the cache, and fetching is turned off")]
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
    /// A folder, archive or name in a registry without the image that was asked for.
    #[error("`{path}` has no image {wanted}, only {known}")]
    NoImage {
        /// The folder, archive or name.
        path: String,
        /// What was asked for: `with the tag x`, `for linux/arm64`.
        wanted: String,
        /// The tags or platforms that there are.
        known: String,
    },
    /// A folder or archive with several images of which none was chosen.
    #[error("`{path}` has {count} images for {platform}: {known}")]
    SeveralImages {
        /// The folder or archive.
        path: String,
        /// How many there are.
        count: usize,
        /// The platform that they are for.
        platform: String,
        /// Their tags, or their digests.
        known: String,
    },
    /// A registry, or what is needed to use one.
    #[error(transparent)]
    Registry(gular_registry::Error),
    /// A file is not a whole SIF.
    #[error("`{path}` is not a valid SIF: {reason}")]
    Sif {
        /// The file.
        path: String,
        /// The rule broken, with expected and found.
        reason: String,
    },
}

/// `WHAT of `a`, `b``; at most as many names as fit into a line.
fn of_packages(what: &str, packages: &[String]) -> String {
    const SHOWN: usize = 8;
    if packages.is_empty() {
        return what.to_owned();
    }
    let shown = packages.iter().take(SHOWN).map(|name| format!("`{name}`"));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if packages.len() > SHOWN {
        text.push_str(&format!(" and {} others", packages.len() - SHOWN));
    }
    format!("{what} of {text}")
}

impl From<gular_registry::Error> for Error {
    fn from(error: gular_registry::Error) -> Self {
        match error {
            gular_registry::Error::Io(error) => Self::Io(error),
            gular_registry::Error::Invalid { name, reason } => Self::Oci { path: name, reason },
            gular_registry::Error::Cancelled => Self::Cancelled,
            error => Self::Registry(error),
        }
    }
}

/// The first paths that differ from run to run; empty if none does.
fn of_paths(paths: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = paths.iter().take(SHOWN).map(|path| format!("`{path}`")).collect();
    match paths.len().saturating_sub(SHOWN) {
        _ if shown.is_empty() => String::new(),
        0 => format!("; it differs from run to run in {}", shown.join(", ")),
        more => format!("; it differs from run to run in {} and {more} others", shown.join(", ")),
    }
}

impl Error {
    /// Returns a hint that follows from the input itself: the key that was probably meant, the
    /// versions that exist. Hints that depend on the program are worded there.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Recipe { hint, .. }
            | Self::Package { hint, .. }
            | Self::Release { hint, .. }
            | Self::Requirements { hint, .. }
            | Self::Wheel { hint, .. }
            | Self::Program { hint, .. }
            | Self::Fetch { hint, .. } => hint.as_deref(),
            Self::Registry(error) => error.hint(),
            _ => None,
        }
    }

    /// Whether the same may work at another time, without a change on this machine.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Registry(error) => error.is_passing(),
            Self::Fetch { passes, .. } => *passes,
            _ => false,
        }
    }

    /// Refuses a path that something has.
    pub(crate) fn unless_free(path: &Path) -> Result<()> {
        match path.symlink_metadata() {
            Ok(_) => Err(Self::Exists { path: path.display().to_string() }),
            Err(_) => Ok(()),
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| gular_files::Error::new(action, path, source).into()
    }
}
