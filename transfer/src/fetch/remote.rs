//! A published bundle: its URL and its manifest.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use gular_bundle::{
    DATA_DIR, Digest, FileEntry, MANIFEST_NAME, MAX_MANIFEST_BYTES, Manifest, ReadAt,
};
use gular_pelican::{Client, Url};

use crate::Error;

/// `URL#blake3=HEX`: where a bundle is published, and which one it must be.
///
/// The URL is that of the folder with the manifest, or of the manifest itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleUrl {
    /// The collection `NAME/VERSION`, or an object.
    pub url: Url,
    /// Its identity, when it was given.
    pub digest: Option<Digest>,
}

impl FromStr for BundleUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (url, digest) = match text.split_once('#') {
            None => (text, None),
            Some((url, fragment)) => {
                let hex = fragment.strip_prefix("blake3=").or(fragment.strip_prefix("blake3:"));
                let digest = hex.and_then(|hex| Digest::parse(hex).ok());
                let digest = digest.ok_or_else(|| Error::Fragment { text: fragment.to_owned() })?;
                (url, Some(digest))
            }
        };
        let url = Url::parse(url).map_err(gular_pelican::Error::from)?;
        let url = match url.parent() {
            Some(folder) if url.name() == MANIFEST_NAME => folder,
            _ => url,
        };
        Ok(Self { url, digest })
    }
}

impl fmt::Display for BundleUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.digest {
            Some(digest) => write!(f, "{}#blake3={}", self.url, digest.hex()),
            None => write!(f, "{}", self.url),
        }
    }
}

/// A published bundle whose manifest has been read.
#[derive(Debug)]
pub struct RemoteBundle {
    url: BundleUrl,
    data: Url,
    manifest: Manifest,
    bytes: Vec<u8>,
}

impl RemoteBundle {
    /// Reads and checks the manifest at `url`.
    ///
    /// Without a digest the first copy that is a manifest is taken.
    ///
    /// # Errors
    /// Those of [`Client::read`]; [`gular_pelican::Error::Corrupt`] when the
    /// manifest has another digest.
    pub fn open(client: &Client, url: &BundleUrl, cancel: &AtomicBool) -> Result<Self, Error> {
        let manifest_url = url.url.join(MANIFEST_NAME).ok_or(Error::NoBundleUrl)?;
        let shown = manifest_url.to_string();
        let newer = std::cell::Cell::new(None);
        let other = std::cell::Cell::new(None);
        let accepts = |bytes: &[u8]| {
            let found = Digest::of(bytes);
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
                Err(error) => Err(error.to_string()),
                Ok(_) => Ok(()),
            }
        };
        let read = client.read(&manifest_url, MAX_MANIFEST_BYTES, &accepts, cancel);
        let bytes = match (read, other.get()) {
            (Err(gular_pelican::Error::Corrupt { .. }), Some((expected, found))) => {
                return Err(Error::AnotherBundle { url: url.url.to_string(), expected, found });
            }
            (read, _) => read?,
        };
        if let Some(error) = newer.take() {
            return Err(error.into());
        }
        Self::with(url, bytes)
    }

    /// The bundle at `url` whose manifest is `bytes`.
    pub(crate) fn with(url: &BundleUrl, bytes: Vec<u8>) -> Result<Self, Error> {
        let manifest = Manifest::parse(&url.url.to_string(), &bytes)?;
        let data = url.url.parent().and_then(|parent| parent.join(DATA_DIR));
        let data = data.ok_or(Error::NoBundleUrl)?;
        let url = BundleUrl { url: url.url.clone(), digest: Some(Digest::of(&bytes)) };
        Ok(Self { url, data, manifest, bytes })
    }

    /// Where it is, with its digest.
    #[must_use]
    pub fn url(&self) -> &BundleUrl {
        &self.url
    }

    /// Its identity.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.url.digest.unwrap_or_else(|| Digest::of(&self.bytes))
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

    /// Where a shard or index of the manifest is published.
    ///
    /// # Errors
    /// [`Error::NoBundleUrl`] for a name that no URL can hold.
    pub fn url_of(&self, file: &FileEntry) -> Result<Url, Error> {
        self.data.join(file.name.as_str()).ok_or(Error::NoBundleUrl)
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
        Ok(client.read(&self.url_of(file)?, file.bytes, &accepts, cancel)?)
    }
}

/// The bytes of a local file, when it is the one that `file` describes.
pub(super) fn read_if_sound(path: &std::path::Path, file: &FileEntry) -> Option<Vec<u8>> {
    let source = ReadAt::open(path, gular_bundle::Backend::Pread).ok()?;
    if source.len_bytes() != file.bytes {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(file.bytes).ok()?];
    source.read_at(0, &mut bytes).ok()?;
    (Digest::of(&bytes) == file.digest).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_carry_the_digest() {
        let hex = Digest::of(b"").hex();
        let check = |text: &str, url: &str, digest: bool| {
            let parsed: BundleUrl = text.parse().unwrap();
            assert_eq!(parsed.url.to_string(), url, "{text}");
            assert_eq!(parsed.digest.is_some(), digest, "{text}");
        };
        check("pelican://h/ns/a/v1", "pelican://h/ns/a/v1", false);
        check(&format!("osdf:///ns/a/v1#blake3={hex}"), "osdf:///ns/a/v1", true);
        check(&format!("pelican://h/a/v1/manifest.json#blake3:{hex}"), "pelican://h/a/v1", true);
        for bad in ["pelican://h/a#sha256=00", "pelican://h/a#blake3=00", "/a", ""] {
            assert!(bad.parse::<BundleUrl>().is_err(), "{bad}");
        }
        let url: BundleUrl = format!("file:///a/v1#blake3={hex}").parse().unwrap();
        assert_eq!(url.to_string().parse::<BundleUrl>().unwrap(), url);
    }
}
