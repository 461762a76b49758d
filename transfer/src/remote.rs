//! A published bundle whose manifest has been read. Remote manifests are read nowhere else.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;

use gular_bundle::{
    Digest, FileEntry, MANIFEST_NAME, MAX_MANIFEST_BYTES, Manifest, ShardEntry, Split,
};
use gular_pelican::{Accept, Client, Copy, Error as Pelican, Object, Sink, Stat, Url, WrongBytes};

use crate::data_folder::DataFolder;
use crate::published::stored_at;
use crate::{
    BundleFiles, BundleUrl, Error, ManifestFile, Published, Stored, Watch, WrongCopy, wrong_copies,
};

/// A published bundle whose manifest has been read.
#[derive(Debug)]
pub struct RemoteBundle {
    url: BundleUrl,
    published: Published,
    /// Knows which of the bundle's folders has the data.
    data: DataFolder,
    file: ManifestFile,
}

impl RemoteBundle {
    /// Reads and checks the manifest at `url`.
    ///
    /// Without a digest, the first copy that is a manifest is used.
    ///
    /// # Errors
    /// [`Error::AnotherBundle`] if every server has the manifest of another bundle,
    /// [`gular_bundle::Error::TooNew`]; otherwise those of [`Client::read`], of which
    /// [`gular_pelican::Error::Corrupt`] says what each server has instead.
    pub fn open(client: &Client, url: &BundleUrl, watch: Watch<'_>) -> Result<Self, Error> {
        let published = Published::at(&url.url)?;
        let (newer, other) = (Cell::new(None), Cell::new(None));
        let accepts = |bytes: &[u8]| {
            let found = Digest::of(bytes);
            let shown = published.manifest().to_string();
            if let Some(expected) = url.digest.filter(|expected| *expected != found) {
                if Manifest::parse(&shown, bytes).is_ok() {
                    other.set(Some((expected, found)));
                }
                let why = format!("its digest is {found}, expected {expected}");
                return Err(WrongBytes::not_accepted(why));
            }
            match Manifest::parse(&shown, bytes) {
                // Another server would give the same manifest, so the caller has to know.
                Err(error @ gular_bundle::Error::TooNew { .. }) => {
                    newer.set(Some(error));
                    Ok(())
                }
                Err(error) => Err(WrongBytes::not_accepted(error.reason())),
                Ok(_) => Ok(()),
            }
        };
        let (name, limit) = (published.manifest(), MAX_MANIFEST_BYTES);
        let read = match url.digest {
            Some(_) => client.read_verified(name, limit, &accepts, watch),
            None => client.read(name, limit, &accepts, watch),
        };
        let bytes = match (read, other.get()) {
            (Err(Pelican::Corrupt { attempts, .. }), Some((expected, found))) => {
                let url = published.version().to_string();
                let attempts = Box::new(attempts);
                return Err(Error::AnotherBundle { url, expected, found, attempts });
            }
            (read, _) => read?,
        };
        match newer.take() {
            Some(error) => Err(error.into()),
            None => Self::new(published, bytes),
        }
    }

    /// Opens the bundle at `url` with the manifest of its local copy in `dir`. The digest in the
    /// URL proves that the manifest is right, and no server is asked. `None` unless there is such a
    /// digest and such a copy.
    #[must_use]
    pub fn of_copy(url: &BundleUrl, dir: &Path) -> Option<Self> {
        let expected = url.digest?;
        let bytes = read_manifest(dir).ok()?;
        if Digest::of(&bytes) == expected { Self::with(url, bytes).ok() } else { None }
    }

    /// Makes the bundle at `url` whose manifest is `bytes`.
    pub(crate) fn with(url: &BundleUrl, bytes: Vec<u8>) -> Result<Self, Error> {
        Self::new(Published::at(&url.url)?, bytes)
    }

    fn new(published: Published, bytes: Vec<u8>) -> Result<Self, Error> {
        let file = ManifestFile::parse(&published.manifest().to_string(), bytes)?;
        let url = BundleUrl { url: published.version().clone(), digest: Some(file.digest()) };
        Ok(Self { url, published, data: DataFolder::default(), file })
    }

    /// The bundle's URL, with its digest.
    #[must_use]
    pub fn url(&self) -> &BundleUrl {
        &self.url
    }

    /// The bundle's digest, which identifies it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.file.digest()
    }

    /// The bundle's manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        self.file.manifest()
    }

    /// The bytes of the bundle's manifest.
    #[must_use]
    pub fn manifest_bytes(&self) -> &[u8] {
        self.file.bytes()
    }

    /// The file of the bundle's manifest.
    pub(crate) fn file(&self) -> &ManifestFile {
        &self.file
    }

    /// Where the parts of the bundle are published.
    #[must_use]
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// Returns the folder with the bundle's data, found by its first file: one of
    /// [`Published::folders`].
    ///
    /// # Errors
    /// Those of [`Client::stat`].
    pub fn data_folder(&self, client: &Client, watch: Watch<'_>) -> Result<Url, Error> {
        if let Some(file) = self.manifest().files().next() {
            self.data.seek(&self.published, file, |url| client.stat(url, watch))?;
        }
        let known = self.data.known().and_then(|known| self.published.folders().get(known));
        Ok(known.unwrap_or(self.published.data()).clone())
    }

    /// Returns the shards of `splits`; of all splits if `splits` is empty.
    ///
    /// # Errors
    /// [`Error::NoSplit`] for a split without a shard, which the caller must have misspelt.
    pub fn shards_of(&self, splits: &[Split]) -> Result<Vec<&ShardEntry>, Error> {
        self.file.shards_of(splits)
    }

    /// Reads a small file that the manifest lists (an index or a view) into memory, and checks it.
    ///
    /// # Errors
    /// Those of [`Client::read`].
    pub fn read(
        &self,
        client: &Client,
        file: &FileEntry,
        watch: Watch<'_>,
    ) -> Result<Vec<u8>, Error> {
        // The message names the object already.
        let accepts = |bytes: &[u8]| {
            file.accept("it", bytes).map_err(|error| WrongBytes::not_accepted(error.reason()))
        };
        self.data.seek(&self.published, file, |url| {
            client.read_verified(url, file.bytes, &accepts, watch)
        })
    }

    /// Reads blocks of a shard, as [`Client::stream`] does, from whichever folder has it.
    ///
    /// # Errors
    /// Those of [`Client::stream`].
    pub fn stream(
        &self,
        client: &Client,
        file: &FileEntry,
        accepts: &(dyn Fn(u64, &[u8]) -> bool + Sync),
        blocks: Range<u64>,
        sink: &mut Sink<'_>,
        watch: Watch<'_>,
    ) -> Result<(), Error> {
        // Blocks that one folder gave are not read again from the next.
        let mut next = blocks.start;
        self.data.seek(&self.published, file, |url| {
            let object = Object { url, len_bytes: file.bytes, accepts };
            let wanted = next..blocks.end;
            let mut counted = |position: u64, bytes: &[u8]| {
                sink(position, bytes)?;
                next += 1;
                Ok(())
            };
            client.stream(&object, wanted, &mut counted, watch)
        })
    }

    /// Reads the bytes `range` of a shard, as [`Client::read_range`] does, from whichever folder
    /// has it.
    ///
    /// # Errors
    /// Those of [`Client::read_range`].
    pub fn read_range(
        &self,
        client: &Client,
        file: &FileEntry,
        range: Range<u64>,
        accepts: &Accept<'_>,
        watch: Watch<'_>,
    ) -> Result<Vec<u8>, Error> {
        self.data.seek(&self.published, file, |url| {
            client.read_range(url, file.bytes, range.clone(), accepts, watch)
        })
    }

    /// Finds the name under which a shard or index is stored, at least in part.
    ///
    /// # Errors
    /// Those of [`Client::stat`].
    pub fn locate(
        &self,
        client: &Client,
        file: &FileEntry,
        watch: Watch<'_>,
    ) -> Result<Url, Error> {
        self.data.seek(&self.published, file, |url| client.stat(url, watch).map(|_| url.clone()))
    }

    /// Finds the name under which a shard or index is stored, and its length there.
    ///
    /// # Errors
    /// Those of [`Client::stat`].
    pub(crate) fn found(
        &self,
        client: &Client,
        file: &FileEntry,
        watch: Watch<'_>,
    ) -> Result<(Url, Option<u64>), Error> {
        self.data.seek(&self.published, file, |url| {
            client.stat(url, watch).map(|stat| (url.clone(), stat.len_bytes))
        })
    }

    /// Asks whether the server from which `file` is read has a copy of it.
    ///
    /// # Errors
    /// Those of [`Client::copy_of`].
    pub fn copy_of(
        &self,
        client: &Client,
        file: &FileEntry,
        watch: Watch<'_>,
    ) -> Result<Copy, Error> {
        self.data.likeliest(&self.published, file, |url| client.copy_of(url, watch))
    }

    /// Asks, without reading it, whether a shard or index is stored with its full length under any
    /// of its names.
    ///
    /// # Errors
    /// Those of [`Client::stat`], except for an object that is not there.
    pub fn stored(
        &self,
        client: &Client,
        file: &FileEntry,
        watch: Watch<'_>,
    ) -> Result<Stored, Error> {
        let mut missing = None;
        let found = self.data.seek(&self.published, file, |url| {
            match stored_at(client, url, file.bytes, watch)? {
                Stored::Missing { server } => {
                    let said = String::new();
                    missing.get_or_insert_with(|| server.clone());
                    Err(Pelican::NotFound { url: url.to_string(), server, said })
                }
                stored => Ok(stored),
            }
        });
        match (found, missing) {
            (Err(Error::Pelican(Pelican::NotFound { .. })), Some(server)) => {
                Ok(Stored::Missing { server })
            }
            (found, _) => found,
        }
    }
}

/// Reads the manifest in the folder `dir`, up to the length limit of manifests.
pub(crate) fn read_manifest(dir: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(dir.join(MANIFEST_NAME))?;
    // One more byte than the limit is read, to recognise a file that is too long.
    file.take(MAX_MANIFEST_BYTES.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What is at a URL: a bundle or a plain object.
#[derive(Debug)]
pub enum Remote {
    /// A bundle.
    Bundle(Box<RemoteBundle>),
    /// A plain object.
    Object {
        /// Length of the object in bytes.
        len_bytes: u64,
    },
}

impl Remote {
    /// Finds out what is at `url`: a bundle if there is a manifest below it.
    ///
    /// The manifest is asked for first, through caches, like any object: ten thousand jobs that
    /// start at once must not all ask the one server that lists. Only if there is no manifest, a
    /// server is asked what the URL is. If the URL has a digest, the nearest server's answers count,
    /// so ten thousand jobs that fetch an object from caches do not ask the origin.
    ///
    /// # Errors
    /// [`Error::NoManifest`] for another collection; those of [`Client::stat`] and
    /// [`RemoteBundle::open`].
    pub fn find(client: &Client, url: &BundleUrl, watch: Watch<'_>) -> Result<Self, Error> {
        if let Some(digest) = url.digest {
            let published = Published::at(&url.url)?;
            match client.read_nearest(published.manifest(), MAX_MANIFEST_BYTES, watch) {
                Ok(bytes) if Digest::of(&bytes) == digest => {
                    return Ok(Self::Bundle(Box::new(RemoteBundle::new(published, bytes)?)));
                }
                Err(Pelican::NotFound { .. }) => {
                    if let Ok(Stat { len_bytes: Some(len_bytes), .. }) =
                        client.head(&url.url, watch)
                    {
                        return Ok(Self::Object { len_bytes });
                    }
                }
                // Other servers are asked.
                _ => {}
            }
        }
        let no_bundle = match RemoteBundle::open(client, url, watch) {
            Ok(remote) => return Ok(Self::Bundle(Box::new(remote))),
            Err(error) => error,
        };
        // Below an object some servers find nothing, and others fail in various ways.
        let may_be_object = match &no_bundle {
            Error::Pelican(error) => matches!(
                error,
                Pelican::NotFound { .. } | Pelican::Unsupported { .. } | Pelican::Failed { .. }
            ),
            _ => false,
        };
        if !may_be_object {
            return Err(no_bundle);
        }
        let found = match url.digest {
            Some(_) => client.head(&url.url, watch),
            None => client.stat(&url.url, watch),
        };
        let missing = matches!(&no_bundle, Error::Pelican(Pelican::NotFound { .. }));
        match found {
            Ok(Stat { collection: Some(false) | None, len_bytes: Some(len_bytes) }) => {
                Ok(Self::Object { len_bytes })
            }
            Ok(Stat { collection: Some(true), .. }) if missing => {
                Err(Error::NoManifest { url: url.url.to_string(), name: MANIFEST_NAME })
            }
            Err(error @ Pelican::NotFound { .. }) if missing => Err(error.into()),
            Err(error @ (Pelican::Denied { .. } | Pelican::Cancelled)) => Err(error.into()),
            // Nobody could say whether it is an object.
            Err(error) if missing && error.is_passing() => Err(error.into()),
            _ => Err(no_bundle),
        }
    }

    /// Finds the bundle at `url`, for work that only a bundle allows.
    ///
    /// # Errors
    /// [`Error::SingleObject`]; those of [`Remote::find`].
    pub fn bundle(
        client: &Client,
        url: &BundleUrl,
        watch: Watch<'_>,
    ) -> Result<RemoteBundle, Error> {
        match Self::find(client, url, watch)? {
            Self::Bundle(bundle) => Ok(*bundle),
            Self::Object { .. } => Err(Error::SingleObject { url: url.url.to_string() }),
        }
    }
}

/// Returns the files of `shards`, each once: a shard may be listed several times, such as once per
/// split.
pub(crate) fn files_of<'a>(shards: &[&'a ShardEntry]) -> impl Iterator<Item = &'a FileEntry> {
    let mut seen = HashSet::new();
    shards.iter().flat_map(|shard| shard.files()).filter(move |file| seen.insert(&file.name))
}

/// Groups `shards` by their files: entries of one file are processed one after another.
pub(crate) fn by_file<'a>(shards: &[&'a ShardEntry]) -> Vec<Vec<&'a ShardEntry>> {
    let mut groups: Vec<Vec<&ShardEntry>> = Vec::new();
    let mut group_of = HashMap::new();
    for &shard in shards {
        let at = *group_of.entry(&shard.file.name).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.push(shard),
            None => groups.push(vec![shard]),
        }
    }
    groups
}

/// A published bundle, with the client that reads it.
pub(crate) struct OfFederation<'a> {
    pub(crate) client: &'a Client,
    pub(crate) remote: &'a RemoteBundle,
}

impl BundleFiles for OfFederation<'_> {
    fn name(&self) -> String {
        self.remote.url().to_string()
    }

    fn manifest(&self) -> &ManifestFile {
        self.remote.file()
    }

    fn read(&self, file: &FileEntry, watch: Watch<'_>) -> Result<Vec<u8>, Error> {
        self.remote.read(self.client, file, watch)
    }

    fn stream(
        &self,
        file: &FileEntry,
        accepts: &(dyn Fn(u64, &[u8]) -> bool + Sync),
        blocks: Range<u64>,
        sink: &mut Sink<'_>,
        watch: Watch<'_>,
    ) -> Result<(), Error> {
        self.remote.stream(self.client, file, accepts, blocks, sink, watch)
    }

    fn wrong_copies(&self) -> Vec<WrongCopy> {
        wrong_copies(self.client)
    }
}
