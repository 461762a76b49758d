//! The errors of transfers between a federation and this machine.

use std::io;
use std::path::Path;

use gular_bundle::{Digest, Row, Split};
use gular_files::Size;
use gular_pelican::Reach;

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
    /// An error of a federation, a server or a token.
    #[error(transparent)]
    Pelican(#[from] gular_pelican::Error),
    /// The text after `#` in a URL is not a digest.
    #[error(
        "the URL ends in `#{text}`, which is not a digest; expected `#blake3=` and 64 hexadecimal digits"
    )]
    Fragment {
        /// The refused text.
        text: String,
    },
    /// A collection has no manifest.
    #[error("`{url}` is not a bundle: the collection has no `{name}`")]
    NoManifest {
        /// The collection.
        url: String,
        /// The name of the missing object.
        name: &'static str,
    },
    /// A URL is too short to name a version of a bundle.
    #[error("`{url}` is not the URL of a bundle; expected a URL that ends in NAME/VERSION")]
    NoBundleUrl {
        /// The URL.
        url: String,
    },
    /// The URL is that of an object, where a bundle is needed.
    #[error("`{url}` is a single object and not a bundle")]
    SingleObject {
        /// The URL.
        url: String,
    },
    /// A file of a bundle cannot be published under its name.
    #[error("the file `{name}` cannot be published: its name cannot be part of a URL")]
    ObjectName {
        /// The refused name.
        name: String,
    },
    /// The bundle or object at a URL is not the one that was first seen there.
    #[error("what is at `{url}` has changed: its digest was {expected} and is now {found}")]
    Changed {
        /// The URL, which carried no digest.
        url: String,
        /// The digest first seen.
        expected: Digest,
        /// The digest now.
        found: Digest,
    },
    /// Copies that are not of one bundle, or of which one has a damaged manifest: where two are, and
    /// their digests.
    #[error("the manifests differ: that of `{}` has the digest {}, that of `{}` has {}", .0[0].0, .0[0].1, .0[1].0, .0[1].1)]
    TwoManifests(Box<[(String, Digest); 2]>),
    /// The folder holds another bundle.
    #[error("the folder `{dir}` holds another bundle: its digest is {found}, expected {expected}")]
    OtherBundle {
        /// The folder.
        dir: String,
        /// The bundle that was to be fetched.
        expected: Digest,
        /// The bundle that is in the folder.
        found: Digest,
    },
    /// The folder has other files, and no file of the bundle.
    #[error("the folder `{dir}` has files that do not belong to this bundle: `{found}`{}", and_more(*more))]
    NotEmpty {
        /// The folder.
        dir: String,
        /// One of the files.
        found: String,
        /// The number of other files.
        more: usize,
    },
    /// The data of a bundle's URL would be outside the namespace.
    #[error(
        "`{url}` is the namespace `{namespace}` itself; a bundle's URL continues with NAME/VERSION"
    )]
    NoRoomForName {
        /// The URL.
        url: String,
        /// The namespace, which all objects must be below.
        namespace: String,
    },
    /// The manifest is valid, but belongs to another bundle.
    #[error("the bundle at `{url}` has digest {found}, expected {expected}")]
    AnotherBundle {
        /// The URL.
        url: String,
        /// The digest asked for.
        expected: Digest,
        /// The digest of the bundle that is published there.
        found: Digest,
        /// The answers of all servers.
        attempts: Box<gular_pelican::Attempts>,
    },
    /// A fetched object would replace a file.
    #[error("`{path}` already exists, and may differ from the object at `{url}`")]
    Occupied {
        /// The file.
        path: String,
        /// The object.
        url: String,
    },
    /// The origin accepted none of the objects, and the token may not read any of them.
    #[error(
        "the origin refused all {refused} objects of `{url}`: either they already exist, or the origin does not accept the token. This token cannot read them, so gular cannot tell which of the two it is"
    )]
    NoneAccepted {
        /// URL of the bundle or folder that was published.
        url: String,
        /// The number of objects.
        refused: usize,
    },
    /// The bundle does not have a split.
    #[error("the bundle has no split `{split}`; it has {}", listed(has))]
    NoSplit {
        /// The split asked for.
        split: Split,
        /// The splits that it has.
        has: Vec<Split>,
    },
    /// An object is not the one that was asked for.
    #[error("the object at `{url}` has digest {found}, expected {expected}")]
    ObjectDigest {
        /// The object.
        url: String,
        /// The digest asked for.
        expected: Digest,
        /// The digest of the bytes that were received.
        found: Digest,
    },
    /// Others may write to the cache, so its files cannot be trusted.
    #[error("the cache `{dir}` belongs to another user, or other users may write to it")]
    SharedCache {
        /// The cache's folder.
        dir: String,
    },
    /// The bundle is larger than the cache may be.
    #[error("the bundle takes {}, but its cache `{dir}` is limited to {}", Size(*needed), Size(*limit))]
    CacheLimit {
        /// The bundle's folder in the cache.
        dir: String,
        /// Bytes of the bundle.
        needed: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// Other processes are using all shards that the cache has space for.
    #[error("no room for {} in the cache `{dir}`: its limit is {}, and other processes are using the shards that are in it", Size(*needed), Size(*limit))]
    CacheInUse {
        /// The bundle's folder in the cache.
        dir: String,
        /// The limit for the bundle, in bytes.
        limit: u64,
        /// Bytes of the shard that has no space.
        needed: u64,
    },
    /// The folder contains no files.
    #[error("the folder `{dir}` contains no files")]
    NoFiles {
        /// The folder.
        dir: String,
    },
    /// The folder has files that do not belong to the collection.
    #[error("the folder `{dir}` holds files that `{url}` does not have, such as `{found}`{}", and_more(*more))]
    Strangers {
        /// The folder.
        dir: String,
        /// The collection.
        url: String,
        /// One of these files.
        found: String,
        /// The number of other files.
        more: usize,
    },
    /// A URL is that of an object where a collection is expected.
    #[error("`{url}` is a single object, not a collection")]
    NotCollection {
        /// The object.
        url: String,
    },
    /// A listing has names that cannot be paths.
    #[error(
        "{names} object{} left out of `{url}`: no file can have such a name",
        if *names == 1 { " was" } else { "s were" }
    )]
    UnsafeNames {
        /// The collection.
        url: String,
        /// The number of such names.
        names: usize,
    },
    /// No server reports the length of an object.
    #[error("no server reports the length of `{url}`")]
    NoLength {
        /// The object.
        url: String,
    },
    /// There are more files or objects than may be transferred at a time.
    #[error("`{place}` holds more than {limit} files and folders")]
    TooMany {
        /// The folder or collection.
        place: String,
        /// The limit.
        limit: usize,
    },
    /// Folders are nested too deep, perhaps without an end.
    #[error("`{place}` is more than {limit} folders deep, or leads back to a folder above it")]
    TooDeep {
        /// The folder or collection.
        place: String,
        /// The deepest level that is allowed.
        limit: usize,
    },
    /// The list of keys is empty.
    #[error("the list of keys is empty")]
    NoKeys,
    /// No sample of the bundle has any of the keys.
    #[error("the list has {} that no sample of the bundle has: {}", counted(*n), shown(keys, *n))]
    NoSuchKeys {
        /// The number of keys in the list.
        n: u64,
        /// The first of these keys.
        keys: Vec<String>,
    },
    /// The condition is malformed, or cannot be decided for this bundle.
    #[error(transparent)]
    Condition(#[from] gular_bundle::FilterError),
    /// The condition is true for no sample.
    #[error("the condition matches none of the {of} samples")]
    NoneFits {
        /// The number of samples of the bundle.
        of: u64,
    },
    /// The shard does not have a sample with this number.
    #[error(
        "shard `{shard}` has no sample {row}: it has {samples} samples, and the first one is sample 0"
    )]
    NoSample {
        /// The shard.
        shard: String,
        /// The number asked for.
        row: Row,
        /// The number of samples of the shard.
        samples: usize,
    },
    /// No copy of a bundle has all blocks of a file.
    #[error("no copy has the right bytes of `{file}`: {attempts}")]
    NoCopy {
        /// The file, below the bundle's data folder.
        file: String,
        /// What is wrong with it in each copy.
        attempts: Box<gular_pelican::Attempts>,
    },
    /// A source that is not a federation failed.
    #[error("{message}")]
    Source {
        /// What failed, and where.
        message: String,
        /// What may help.
        hint: Option<String>,
        /// Whether the same may work later.
        passes: bool,
    },
    /// The file system has no space left.
    #[error("not enough disk space: `{dir}` has {} free, and {} are needed", Size(*free), Size(*needed))]
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
    /// Makes the error with which a transfer ends when its [`Watch`](crate::Watch) cancels it.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::Pelican(gular_pelican::Error::Cancelled)
    }

    /// Returns whether this error is [`Error::cancelled`].
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Pelican(gular_pelican::Error::Cancelled))
    }

    /// Returns whether the same call may succeed later, with nothing changed on this machine.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Pelican(error) => error.is_passing(),
            Self::Source { passes, .. } => *passes,
            Self::NoCopy { attempts, .. } => attempts.list.iter().any(|attempt| attempt.passes),
            _ => false,
        }
    }

    /// Returns which other objects of the same folder would fail for the same reason.
    #[must_use]
    pub fn reach(&self) -> Reach {
        match self {
            Self::Pelican(error) => error.reach(),
            Self::Io(error) if gular_files::is_of_disk(&error.source) => Reach::All,
            Self::NoSpace { .. } => Reach::All,
            _ => Reach::One,
        }
    }

    /// Says what the user can do next.
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
                "use the digest that was printed when the bundle was packed or published; if you do not have it, leave out `#…`",
            ),
            Self::NoManifest { .. } => {
                Some("give the URL of one version of the bundle, such as URL/v1")
            }
            Self::NoBundleUrl { .. } => {
                Some("give the URL that was printed when the bundle was published")
            }
            Self::SingleObject { .. } => {
                Some("give the URL of a bundle; a single object is checked when it is fetched")
            }
            Self::Changed { .. } => Some(
                "ask the publisher: what is published must not change. To use the new data, add its digest to the URL: URL#blake3=…",
            ),
            Self::TwoManifests(_) => Some(
                "give the digest of the right one, as it was printed when the bundle was made or published: `URL#blake3=…`",
            ),
            Self::OtherBundle { .. } => Some(
                "fetch into another folder; if this folder was fetched from the same URL, its `manifest.json` was changed: remove that file and fetch again",
            ),
            Self::NotEmpty { .. } => Some("fetch into a new or empty folder"),
            Self::NoRoomForName { .. } => {
                Some("add the name of the bundle and its version, such as `/birds/v1`")
            }
            Self::AnotherBundle { .. } => Some(
                "check that the URL has the right version and the complete digest; a published version never changes",
            ),
            Self::Occupied { .. } => Some("remove the local file, or fetch into another folder"),
            Self::NoneAccepted { .. } => Some(
                "verify the URL with a token that may read, to see whether the bundle is already there",
            ),
            Self::NoSplit { .. } => Some("choose among the splits that the bundle has"),
            Self::ObjectDigest { .. } => Some(
                "read the object from its origin; if those bytes differ too, the digest is of another object",
            ),
            Self::SharedCache { .. } => {
                Some("set GULAR_CACHE to a folder of your own, or run `chmod go-w` on this folder")
            }
            Self::CacheLimit { .. } => Some(
                "raise the cache's limit, or use the order `window`, which needs only some of the shards at a time",
            ),
            Self::CacheInUse { .. } => Some(
                "raise the cache's limit, or use another cache: training runs that read in different orders need different shards",
            ),
            Self::NoSpace { .. } => Some(
                "free some space, use another folder, or fetch only some splits; files already fetched are kept",
            ),
            Self::Io(error) => error.hint(),
            Self::ObjectName { .. } => Some(
                "rename the file: names must be UTF-8 without `?`, `#`, `\\` or control characters, and must not begin with `.gular-tmp-`",
            ),
            Self::Strangers { .. } => Some("use a new or empty folder, or remove those files"),
            Self::NoFiles { .. } => Some("name the folder that holds the files"),
            Self::NoCopy { .. } => Some("repair the file from another copy"),
            Self::NotCollection { .. } => {
                Some("fetch this object alone, or give the URL of the collection that contains it")
            }
            Self::UnsafeNames { .. } => Some("ask the owner of the collection to rename them"),
            Self::NoLength { .. } => Some("ask the server's operators"),
            Self::TooMany { .. } => Some("choose a smaller folder inside it, or raise the limit"),
            Self::TooDeep { .. } => Some("choose a folder inside it"),
            Self::NoKeys | Self::NoSuchKeys { .. } => Some(
                "write one key per line; a key is the path that the image had when it was packed",
            ),
            Self::Condition(_) => Some(
                "write a condition such as `class = cat,dog and bytes > 5000`, all of it in quotes",
            ),
            Self::NoneFits { .. } => Some("check the condition, and which splits were selected"),
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

/// Returns some of `n` keys, in words.
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
