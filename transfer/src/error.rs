//! What can go wrong between a federation and this machine.

use std::io;
use std::path::Path;

use gular_bundle::{Digest, Split};
use gular_files::Size;

/// Why a bundle could not be fetched or published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] gular_files::Error),
    /// The bundle could not be read.
    #[error(transparent)]
    Bundle(#[from] gular_bundle::Error),
    /// A federation, server or token.
    #[error(transparent)]
    Pelican(#[from] gular_pelican::Error),
    /// The text after `#` in a URL is not a digest.
    #[error("`#{text}` is not a bundle digest, expected `#blake3=` and 64 hex digits")]
    Fragment {
        /// The refused text.
        text: String,
    },
    /// A collection without a manifest.
    #[error("`{url}` is a collection without a `{name}`, so it is not a bundle")]
    NoManifest {
        /// The collection.
        url: String,
        /// What is missing.
        name: &'static str,
    },
    /// A URL that is too short to name a version of a bundle.
    #[error("`{url}` is too short for a bundle, expected a URL that ends in NAME/VERSION")]
    NoBundleUrl {
        /// The URL.
        url: String,
    },
    /// A file of a bundle that cannot be published under its name.
    #[error("`{name}` cannot be the name of an object")]
    ObjectName {
        /// The refused name.
        name: String,
    },
    /// The bundle under a URL is not the one it was before.
    #[error("`{url}` is bundle {found} now, it was {expected}")]
    BundleChanged {
        /// The URL, which carried no digest.
        url: String,
        /// The digest first seen.
        expected: Digest,
        /// The digest now.
        found: Digest,
    },
    /// The folder holds another bundle.
    #[error("`{dir}` holds bundle {found}, expected {expected}")]
    OtherBundle {
        /// The folder.
        dir: String,
        /// The bundle that was to be fetched.
        expected: Digest,
        /// The one that is there.
        found: Digest,
    },
    /// A folder with other files, and nothing of the bundle.
    #[error("`{dir}` holds other files, such as `{found}`{}, and nothing of this bundle", and_more(*more))]
    NotEmpty {
        /// The folder.
        dir: String,
        /// One of the files.
        found: String,
        /// How many others there are.
        more: usize,
    },
    /// A bundle's URL of which the data would lie outside the namespace.
    #[error(
        "`{url}` is the namespace `{namespace}` itself, and a bundle needs NAME/VERSION below it"
    )]
    NoRoomForName {
        /// The URL.
        url: String,
        /// What all objects are below.
        namespace: String,
    },
    /// A sound manifest, of another bundle.
    #[error("`{url}` is bundle {found}, expected {expected}")]
    AnotherBundle {
        /// The URL.
        url: String,
        /// The digest asked for.
        expected: Digest,
        /// The one that is published there.
        found: Digest,
        /// What each server has.
        attempts: Box<gular_pelican::Attempts>,
    },
    /// A file that would be replaced by a fetched object.
    #[error("`{path}` already exists, and may not be the object at `{url}`")]
    Occupied {
        /// The file.
        path: String,
        /// The object.
        url: String,
    },
    /// The origin took none of the objects, and the token may read none of them.
    #[error(
        "the origin refused {refused} of {refused} objects of `{url}`, and this token may not read them: they exist already, or it refuses the token"
    )]
    NoneAccepted {
        /// What was published.
        url: String,
        /// How many objects.
        refused: usize,
    },
    /// A split that the bundle does not have.
    #[error("the bundle has no split `{split}`; it has {}", listed(has))]
    NoSplit {
        /// The split asked for.
        split: Split,
        /// Those there are.
        has: Vec<Split>,
    },
    /// An object is not the one that was asked for.
    #[error("`{url}` has digest {found}, expected {expected}")]
    ObjectDigest {
        /// The object.
        url: String,
        /// The digest asked for.
        expected: Digest,
        /// What came.
        found: Digest,
    },
    /// Others may write to the cache, so its files cannot be trusted.
    #[error("the cache `{dir}` belongs to another user, or other users may write to it")]
    SharedCache {
        /// The cache's folder.
        dir: String,
    },
    /// The cache may not hold all of a bundle.
    #[error("the bundle takes {}, but its cache `{dir}` is limited to {}", Size(*needed), Size(*limit))]
    CacheLimit {
        /// The bundle's folder in the cache.
        dir: String,
        /// Bytes of the bundle.
        needed: u64,
        /// Bytes that it may take.
        limit: u64,
    },
    /// Other processes hold what the cache has.
    #[error("no room for {} in `{dir}`, whose limit is {}: other processes are using its shards", Size(*needed), Size(*limit))]
    CacheInUse {
        /// The bundle's folder in the cache.
        dir: String,
        /// Bytes that the bundle may take.
        limit: u64,
        /// Bytes of a shard.
        needed: u64,
    },
    /// A folder without a file.
    #[error("`{dir}` contains no files")]
    NoFiles {
        /// The folder.
        dir: String,
    },
    /// A folder for one collection that holds files of others.
    #[error("`{dir}` holds files that are not in `{url}`, such as `{found}`{}", and_more(*more))]
    Strangers {
        /// The folder.
        dir: String,
        /// The collection.
        url: String,
        /// One of them.
        found: String,
        /// How many others there are.
        more: usize,
    },
    /// An object where a collection is expected.
    #[error("`{url}` is an object, and not a collection of objects")]
    NotCollection {
        /// The object.
        url: String,
    },
    /// Names in a listing that no path can hold.
    #[error("the listing of `{url}` has {names} names that cannot be files, which were left out")]
    UnsafeNames {
        /// The collection.
        url: String,
        /// How many.
        names: usize,
    },
    /// An object of which no server tells the length.
    #[error("no server reports the length of `{url}`")]
    NoLength {
        /// The object.
        url: String,
    },
    /// More files or objects than are to be moved at a time.
    #[error("`{place}` holds more than {limit} files and folders")]
    TooMany {
        /// The folder or collection.
        place: String,
        /// How many there may be.
        limit: usize,
    },
    /// Folders in folders without an end.
    #[error("`{place}` is more than {limit} folders deep, or leads back to a folder above it")]
    TooDeep {
        /// The folder or collection.
        place: String,
        /// How deep it may be.
        limit: usize,
    },
    /// A list of keys without one.
    #[error("the list of keys is empty")]
    NoKeys,
    /// Keys that no sample of the bundle has.
    #[error("no sample matches {} of the list: {}", counted(*n), shown(keys, *n))]
    NoSuchKeys {
        /// How many are listed.
        n: u64,
        /// The first ones.
        keys: Vec<String>,
    },
    /// A condition that is none, or that the bundle cannot answer.
    #[error(transparent)]
    Condition(#[from] gular_bundle::FilterError),
    /// A condition that holds for no sample.
    #[error("none of the {of} samples fits the condition")]
    NoneFits {
        /// How many samples the bundle has.
        of: u64,
    },
    /// A sample that the shard does not have.
    #[error("shard `{shard}` has no sample {row}: it has {samples}, counted from 0")]
    NoSample {
        /// The shard.
        shard: String,
        /// The number asked for.
        row: usize,
        /// How many there are.
        samples: usize,
    },
    /// What a place that is not a federation says.
    #[error("{message}")]
    Source {
        /// What failed, and where.
        message: String,
        /// What may help.
        hint: Option<String>,
    },
    /// The file system has no room.
    #[error("`{dir}` has {} free, {} are needed", Size(*free), Size(*needed))]
    NoSpace {
        /// The folder.
        dir: String,
        /// Bytes still to be written.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
}

impl Error {
    /// What a transfer ends with when its [`Watch`](crate::Watch) says so.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::Pelican(gular_pelican::Error::Cancelled)
    }

    /// Whether it is that.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Pelican(gular_pelican::Error::Cancelled))
    }

    /// Whether the same may work at another time, with nothing changed here.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Pelican(error) if error.is_passing())
    }

    /// What the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Pelican(error) => error.hint(),
            Self::Source { hint, .. } => hint.clone(),
            other => other.fixed_hint().map(str::to_owned),
        }
    }

    fn fixed_hint(&self) -> Option<&'static str> {
        match self {
            Self::Bundle(error) => error.hint(),
            Self::Fragment { .. } => Some(
                "give the digest as it was printed when the bundle was packed or published; without one, leave `#…` out",
            ),
            Self::NoManifest { .. } => Some("give the URL of a version"),
            Self::NoBundleUrl { .. } => {
                Some("give the URL that was printed when the bundle was published")
            }
            Self::BundleChanged { .. } => Some(
                "a published version never changes: ask who published it; to accept it, give its digest: URL#blake3=…",
            ),
            Self::OtherBundle { .. } => Some(
                "fetch into another folder; if this one was fetched from the same URL, its `manifest.json` was changed: remove that file and fetch again",
            ),
            Self::NotEmpty { .. } => Some("fetch into a new or empty folder"),
            Self::NoRoomForName { .. } => {
                Some("add the name of the bundle and its version, such as `/birds/v1`")
            }
            Self::AnotherBundle { .. } => Some(
                "check the version in the URL, and that the digest is complete: a published version never changes",
            ),
            Self::Occupied { .. } => Some("remove it, or fetch into another folder"),
            Self::NoneAccepted { .. } => {
                Some("verify it with a token that may read, to see whether it is complete")
            }
            Self::NoSplit { .. } => Some("name splits that it has"),
            Self::ObjectDigest { .. } => {
                Some("read it from its origin; if that differs too, it is another object")
            }
            Self::SharedCache { .. } => {
                Some("name a folder of your own with GULAR_CACHE, or `chmod go-w` this one")
            }
            Self::CacheLimit { .. } => Some(
                "raise the cache's limit, or use order `window`, which needs only some of the shards at a time",
            ),
            Self::CacheInUse { .. } => Some(
                "raise the cache's limit, or use another cache; trainings in other orders need other shards",
            ),
            Self::NoSpace { .. } => Some(
                "free space, use another folder, or fetch only some splits; what was fetched before is kept",
            ),
            Self::Io(error) => error.hint(),
            Self::ObjectName { .. } => Some(
                "rename it: names are UTF-8 without `?`, `#`, `\\` or control characters, and do not begin with `.gular-tmp-`",
            ),
            Self::Strangers { .. } => Some("use a new or empty folder, or remove them"),
            Self::NoFiles { .. } => Some("name the folder that holds the files"),
            Self::NotCollection { .. } => {
                Some("fetch it alone, or name the collection that holds it")
            }
            Self::UnsafeNames { .. } => Some("whoever owns the collection can rename them"),
            Self::NoLength { .. } => Some("ask the server's operators"),
            Self::TooMany { .. } => Some("name a folder in it, or raise the limit"),
            Self::TooDeep { .. } => Some("name a folder in it"),
            Self::NoKeys | Self::NoSuchKeys { .. } => {
                Some("keys are the paths that images had when they were packed, one per line")
            }
            Self::Condition(_) => Some(
                "a condition is such as `class = cat,dog and bytes > 5000`; put the whole of it in quotes",
            ),
            Self::NoneFits { .. } => {
                Some("check the condition, and the splits that were asked for")
            }
            Self::Pelican(_) | Self::Source { .. } | Self::NoSample { .. } => None,
        }
    }

    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        gular_files::Error::new(action, path, source).into()
    }
}

fn and_more(n: usize) -> String {
    if n == 0 { String::new() } else { format!(" and {n} more") }
}

fn counted(n: u64) -> String {
    if n == 1 { "1 key".to_owned() } else { format!("{n} keys") }
}

/// Some of `n` keys.
fn shown(keys: &[String], n: u64) -> String {
    let shown: Vec<String> = keys.iter().map(|key| format!("`{}`", key.escape_debug())).collect();
    match n.saturating_sub(keys.len() as u64) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn listed(splits: &[Split]) -> String {
    let splits: Vec<_> = splits.iter().map(|split| format!("`{split}`")).collect();
    splits.join(", ")
}
