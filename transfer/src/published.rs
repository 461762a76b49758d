//! The published layout: which name each part of a bundle has.
//!
//! ```text
//! NAME/data/<split>-<16 hex>.<ext>   shards and indexes, shared by all versions
//! NAME/data/….<ext>~1 … ~9           the same, where a cut upload burned the name before
//! NAME/<version>/manifest.json       written last
//! ```

use std::sync::atomic::AtomicBool;

use gular_bundle::{DATA_DIR, FileEntry, MANIFEST_NAME};
use gular_pelican::{Client, Error as Pelican, MAX_RENAMES, Url};

use crate::Error;

/// Where the parts of a published bundle are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    version: Url,
    manifest: Url,
    data: Url,
}

/// What is stored under the name of a data file, or under one that replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// An object of the right length.
    Whole,
    /// Only objects of other lengths; that of the first, where the server tells it.
    OtherLength(Option<u64>),
    /// Nothing, says this server.
    Missing {
        /// `https://HOST[:PORT]`.
        server: String,
    },
}

impl Published {
    /// The layout of the bundle whose version is at `url`, the collection or its manifest.
    ///
    /// # Errors
    /// [`Error::NoBundleUrl`] for a URL too short to end in NAME/VERSION.
    pub fn at(url: &Url) -> Result<Self, Error> {
        let version = version_of(url.clone());
        let found = version
            .parent()
            .and_then(|name| Some((version.join(MANIFEST_NAME)?, name.join(DATA_DIR)?)));
        match found {
            Some((manifest, data)) => Ok(Self { version, manifest, data }),
            None => Err(Error::NoBundleUrl { url: url.to_string() }),
        }
    }

    /// `NAME/VERSION`.
    #[must_use]
    pub fn version(&self) -> &Url {
        &self.version
    }

    /// `NAME/VERSION/manifest.json`.
    #[must_use]
    pub fn manifest(&self) -> &Url {
        &self.manifest
    }

    /// `NAME/data`.
    #[must_use]
    pub fn data(&self) -> &Url {
        &self.data
    }

    /// The first name of a shard or index.
    ///
    /// # Errors
    /// [`Error::ObjectName`] for a name that no URL can hold.
    pub fn url_of(&self, file: &FileEntry) -> Result<Url, Error> {
        let name = file.name.as_str();
        self.data.join(name).ok_or_else(|| Error::ObjectName { name: name.to_owned() })
    }

    /// Whether `file` is stored with its length under any of its names, asked for without
    /// reading it.
    ///
    /// # Errors
    /// Those of [`Client::stat`], except for an object that is not there.
    pub fn stored(
        &self,
        client: &Client,
        file: &FileEntry,
        cancel: &AtomicBool,
    ) -> Result<Stored, Error> {
        let url = self.url_of(file)?;
        let (mut first, mut missing) = (None, None);
        for name in names(&url) {
            match client.stat(&name, cancel) {
                Ok(stat) if stat.len_bytes == Some(file.bytes) => return Ok(Stored::Whole),
                Ok(stat) => drop(first.get_or_insert(stat.len_bytes)),
                // Burned, and removed since: the next name may have it.
                Err(Pelican::NotFound { server, .. }) if name == url => missing = Some(server),
                // Names are taken in order: there is none behind this one.
                Err(Pelican::NotFound { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(match (first, missing) {
            (None, Some(server)) => Stored::Missing { server },
            (first, _) => Stored::OtherLength(first.flatten()),
        })
    }
}

/// The name itself, then those that replace it, one after another, when it is burned.
fn names(url: &Url) -> impl Iterator<Item = Url> {
    std::iter::once(url.clone()).chain((1..=MAX_RENAMES).map(|number| url.renamed(number)))
}

/// The collection that `url` names, itself or by its manifest.
pub(crate) fn version_of(url: Url) -> Url {
    match url.parent() {
        Some(folder) if url.name() == MANIFEST_NAME => folder,
        _ => url,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gular_bundle::{BundlePath, Digest};
    use gular_pelican::{ClientOptions, Env};

    use super::*;

    #[test]
    fn every_part_has_its_place() {
        for url in ["pelican://h/ns/a/v1", "pelican://h/ns/a/v1/manifest.json"] {
            let published = Published::at(&Url::parse(url).unwrap()).unwrap();
            assert_eq!(published.version().to_string(), "pelican://h/ns/a/v1");
            assert_eq!(published.manifest().to_string(), "pelican://h/ns/a/v1/manifest.json");
            assert_eq!(published.data().to_string(), "pelican://h/ns/a/data");
        }
        let error = Published::at(&Url::parse("pelican://h/").unwrap()).unwrap_err();
        assert!(matches!(error, Error::NoBundleUrl { .. }), "{error}");
    }

    #[test]
    fn a_burned_name_has_others_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}/a/v1", dir.path().display());
        let published = Published::at(&Url::parse(&url).unwrap()).unwrap();
        let name = BundlePath::parse("train-0.tar").unwrap();
        let file = FileEntry { name, bytes: 5, digest: Digest::of(b"") };
        let client = Client::new(ClientOptions::new(Env::default())).unwrap();
        let data = dir.path().join("a").join(DATA_DIR);
        fs::create_dir_all(&data).unwrap();
        let check = |found: &Stored| {
            assert_eq!(published.stored(&client, &file, &AtomicBool::new(false)).unwrap(), *found);
        };
        let stored = published.stored(&client, &file, &AtomicBool::new(false)).unwrap();
        assert!(matches!(stored, Stored::Missing { .. }), "{stored:?}");
        fs::write(data.join("train-0.tar"), b"cut").unwrap();
        check(&Stored::OtherLength(Some(3)));
        fs::write(data.join("train-0.tar~1"), b"cu").unwrap();
        check(&Stored::OtherLength(Some(3)));
        fs::write(data.join("train-0.tar~2"), b"whole").unwrap();
        check(&Stored::Whole);
        // The first was cleaned up.
        fs::remove_file(data.join("train-0.tar")).unwrap();
        check(&Stored::Whole);
        fs::remove_file(data.join("train-0.tar~1")).unwrap();
        let stored = published.stored(&client, &file, &AtomicBool::new(false)).unwrap();
        assert!(matches!(stored, Stored::Missing { .. }), "{stored:?}");
    }
}
