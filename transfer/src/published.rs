//! The published layout: the name of each part of a bundle.
//!
//! ```text
//! NAME/data/<split>-<16 hex>.<ext>   shards and indexes, shared by all versions
//! NAME/data/….<ext>~1 … ~9           the same, where a cut upload burned the name before
//! NAME/<version>/manifest.json       written last
//! ```
//!
//! A URL may also be that of a bundle's folder as it was on a disk; [`Published::folders`] says
//! where its data is looked for.

use gular_bundle::{DATA_DIR, FileEntry, MANIFEST_NAME};
use gular_pelican::{Client, Error as Pelican, Url};

use crate::{Error, Watch};

/// The URLs of the parts of a published bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    version: Url,
    manifest: Url,
    /// Folders in which data is looked for; data is published to the first one.
    folders: [Url; 3],
}

/// What a server stores under the name of a data file, or under its next name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// An object of the full length.
    Whole,
    /// Only objects of other lengths; the length of the first one, if the server reports it.
    OtherLength(Option<u64>),
    /// No object, according to this server.
    Missing {
        /// Address of the server, `https://HOST[:PORT]`.
        server: String,
    },
}

impl Published {
    /// Returns the layout of the bundle whose version is at `url`, the collection or its manifest.
    ///
    /// # Errors
    /// [`Error::NoBundleUrl`] for a URL too short to end in NAME/VERSION.
    pub fn at(url: &Url) -> Result<Self, Error> {
        let version = version_of(url.clone());
        let parts = || {
            let shared = version.parent()?.join(DATA_DIR)?;
            let folders = [shared, version.join(DATA_DIR)?, version.clone()];
            Some((version.join(MANIFEST_NAME)?, folders))
        };
        match parts() {
            Some((manifest, folders)) => Ok(Self { version, manifest, folders }),
            None => Err(Error::NoBundleUrl { url: url.to_string() }),
        }
    }

    /// Returns `NAME/VERSION`.
    #[must_use]
    pub fn version(&self) -> &Url {
        &self.version
    }

    /// Returns `NAME/VERSION/manifest.json`.
    #[must_use]
    pub fn manifest(&self) -> &Url {
        &self.manifest
    }

    /// Returns `NAME/data`, where data is published.
    #[must_use]
    pub fn data(&self) -> &Url {
        let [shared, ..] = &self.folders;
        shared
    }

    /// Returns the folders in which data is looked for, in this order: `NAME/data`;
    /// `NAME/VERSION/data`, for a bundle's folder that was copied as it is; `NAME/VERSION`, for a
    /// folder with all files side by side.
    #[must_use]
    pub fn folders(&self) -> &[Url; 3] {
        &self.folders
    }

    /// Returns the first name that a shard or index is published under.
    ///
    /// # Errors
    /// [`Error::ObjectName`] for a name that no URL can hold.
    pub fn url_of(&self, file: &FileEntry) -> Result<Url, Error> {
        in_folder(self.data(), file)
    }
}

/// Returns the first name of `file` in `folder`.
pub(crate) fn in_folder(folder: &Url, file: &FileEntry) -> Result<Url, Error> {
    let name = file.name.as_str();
    folder.join(name).ok_or_else(|| Error::ObjectName { name: name.to_owned() })
}

/// Finds out whether the object at `url`, or one with a replacement name, has `len_bytes`, without
/// reading it.
pub(crate) fn stored_at(
    client: &Client,
    url: &Url,
    len_bytes: u64,
    watch: Watch<'_>,
) -> Result<Stored, Pelican> {
    let (mut first, mut missing) = (None, None);
    for name in url.names() {
        match client.stat(&name, watch) {
            Ok(stat) if stat.len_bytes == Some(len_bytes) => return Ok(Stored::Whole),
            Ok(stat) => drop(first.get_or_insert(stat.len_bytes)),
            // The object was removed, and its name cannot be used again; the next name may have it.
            Err(Pelican::NotFound { server, .. }) if name == *url => missing = Some(server),
            // Replacement names are used in order, so there is none after this one.
            Err(Pelican::NotFound { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(match (first, missing) {
        (None, Some(server)) => Stored::Missing { server },
        (first, _) => Stored::OtherLength(first.flatten()),
    })
}

/// Returns the collection that `url` names, directly or by its manifest.
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
            let folders = published.folders().each_ref().map(ToString::to_string);
            assert_eq!(folders[0], published.data().to_string());
            let expected = ["ns/a/data", "ns/a/v1/data", "ns/a/v1"];
            assert_eq!(folders, expected.map(|path| format!("pelican://h/{path}")));
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
        let url = published.url_of(&file).unwrap();
        let client = Client::new(ClientOptions::new(Env::default())).unwrap();
        let data = dir.path().join("a").join(DATA_DIR);
        fs::create_dir_all(&data).unwrap();
        let check = |found: &Stored| {
            assert_eq!(stored_at(&client, &url, 5, Watch::never()).unwrap(), *found);
        };
        let stored = stored_at(&client, &url, 5, Watch::never()).unwrap();
        assert!(matches!(stored, Stored::Missing { .. }), "{stored:?}");
        fs::write(data.join("train-0.tar"), b"cut").unwrap();
        check(&Stored::OtherLength(Some(3)));
        fs::write(data.join("train-0.tar~1"), b"cu").unwrap();
        check(&Stored::OtherLength(Some(3)));
        fs::write(data.join("train-0.tar~2"), b"whole").unwrap();
        check(&Stored::Whole);
        // The first object was removed.
        fs::remove_file(data.join("train-0.tar")).unwrap();
        check(&Stored::Whole);
        fs::remove_file(data.join("train-0.tar~1")).unwrap();
        let stored = stored_at(&client, &url, 5, Watch::never()).unwrap();
        assert!(matches!(stored, Stored::Missing { .. }), "{stored:?}");
    }
}
