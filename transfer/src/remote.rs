//! A published bundle whose manifest has been read: the one reader of remote manifests.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use gular_bundle::{Digest, FileEntry, MANIFEST_NAME, MAX_MANIFEST_BYTES, Manifest};
use gular_pelican::{Client, Error as Pelican, Url};

use crate::{BundleUrl, Error, Published};

/// A published bundle whose manifest has been read.
#[derive(Debug)]
pub struct RemoteBundle {
    url: BundleUrl,
    published: Published,
    manifest: Manifest,
    bytes: Vec<u8>,
    digest: Digest,
}

impl RemoteBundle {
    /// Reads and checks the manifest at `url`.
    ///
    /// Without a digest the first copy that is a manifest is taken.
    ///
    /// # Errors
    /// [`Error::AnotherBundle`] where every server has the manifest of another bundle,
    /// [`gular_bundle::Error::TooNew`]; otherwise those of [`Client::read`], of which
    /// [`gular_pelican::Error::Corrupt`] says what each server has in place of it.
    pub fn open(client: &Client, url: &BundleUrl, cancel: &AtomicBool) -> Result<Self, Error> {
        let published = Published::at(&url.url)?;
        let (newer, other) = (Cell::new(None), Cell::new(None));
        let accepts = |bytes: &[u8]| {
            let found = Digest::of(bytes);
            let shown = published.manifest().to_string();
            if let Some(expected) = url.digest.filter(|expected| *expected != found) {
                if Manifest::parse(&shown, bytes).is_ok() {
                    other.set(Some((expected, found)));
                }
                return Err(format!("its digest is {found}, expected {expected}"));
            }
            match Manifest::parse(&shown, bytes) {
                // Another server would give the same; the caller has to know.
                Err(error @ gular_bundle::Error::TooNew { .. }) => {
                    newer.set(Some(error));
                    Ok(())
                }
                Err(error) => Err(error.reason()),
                Ok(_) => Ok(()),
            }
        };
        let (name, limit) = (published.manifest(), MAX_MANIFEST_BYTES);
        let read = match url.digest {
            Some(_) => client.read_verified(name, limit, &accepts, cancel),
            None => client.read(name, limit, &accepts, cancel),
        };
        let bytes = match (read, other.get()) {
            (Err(Pelican::Corrupt { attempts, .. }), Some((expected, found))) => {
                let url = published.version().to_string();
                return Err(Error::AnotherBundle { url, expected, found, attempts });
            }
            (read, _) => read?,
        };
        match newer.take() {
            Some(error) => Err(error.into()),
            None => Self::new(published, bytes),
        }
    }

    /// The bundle at `url` whose manifest is `bytes`.
    pub(crate) fn with(url: &BundleUrl, bytes: Vec<u8>) -> Result<Self, Error> {
        Self::new(Published::at(&url.url)?, bytes)
    }

    fn new(published: Published, bytes: Vec<u8>) -> Result<Self, Error> {
        let manifest = Manifest::parse(&published.manifest().to_string(), &bytes)?;
        let digest = Digest::of(&bytes);
        let url = BundleUrl { url: published.version().clone(), digest: Some(digest) };
        Ok(Self { url, published, manifest, bytes, digest })
    }

    /// Where it is, with its digest.
    #[must_use]
    pub fn url(&self) -> &BundleUrl {
        &self.url
    }

    /// Its identity.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What it consists of.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The bytes of its manifest.
    #[must_use]
    pub fn manifest_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where its parts are.
    #[must_use]
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// Where a shard or index of the manifest is published.
    ///
    /// # Errors
    /// Those of [`Published::url_of`].
    pub fn url_of(&self, file: &FileEntry) -> Result<Url, Error> {
        self.published.url_of(file)
    }

    /// Reads a small file of the manifest (an index) into memory, checked.
    ///
    /// # Errors
    /// Those of [`Client::read`].
    pub fn read(
        &self,
        client: &Client,
        file: &FileEntry,
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, Error> {
        let accepts = |bytes: &[u8]| {
            let found = Digest::of(bytes);
            match found == file.digest {
                true => Ok(()),
                false => Err(format!(
                    "{} bytes with digest {found}, expected {} with {}",
                    bytes.len(),
                    file.bytes,
                    file.digest
                )),
            }
        };
        Ok(client.read_verified(&self.url_of(file)?, file.bytes, &accepts, cancel)?)
    }
}

/// What a URL turned out to name.
#[derive(Debug)]
pub enum Remote {
    /// A bundle.
    Bundle(Box<RemoteBundle>),
    /// A plain object.
    Object {
        /// Its length in bytes.
        len_bytes: u64,
    },
}

impl Remote {
    /// Finds out what is at `url`.
    ///
    /// A collection is a bundle when it has a manifest. Where nothing can be listed only
    /// the manifest tells the two apart.
    ///
    /// # Errors
    /// [`Error::NoManifest`] for another collection; those of [`Client::stat`] and
    /// [`RemoteBundle::open`].
    pub fn find(client: &Client, url: &BundleUrl, cancel: &AtomicBool) -> Result<Self, Error> {
        let stat = client.stat(&url.url, cancel)?;
        let len = match (stat.collection, stat.len_bytes) {
            (Some(false), Some(len_bytes)) => return Ok(Self::Object { len_bytes }),
            (_, len) => len,
        };
        match (RemoteBundle::open(client, url, cancel), len) {
            (Ok(remote), _) => Ok(Self::Bundle(Box::new(remote))),
            (Err(Error::Pelican(Pelican::NotFound { .. })), _) if stat.collection.is_some() => {
                Err(Error::NoManifest { url: url.url.to_string(), name: MANIFEST_NAME })
            }
            (Err(Error::Pelican(Pelican::NotFound { .. })), Some(len_bytes)) => {
                Ok(Self::Object { len_bytes })
            }
            (Err(error), _) => Err(error),
        }
    }
}
