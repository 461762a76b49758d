//! Manifests and indexes of a registry.

use gular_pelican::{Answered, Exchange};
use oci_spec::image::Descriptor;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::session::{Registry, Scope};
use crate::{Error, OciDigest, Reference, Result, Sha256};

/// Largest manifest or index; registries take none over 4 MiB.
pub const MAX_MANIFEST_BYTES: usize = 4 << 20;

/// Media types of indexes: OCI's and Docker's.
pub const INDEX_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
/// Media types of manifests: OCI's and Docker's.
pub const MANIFEST_TYPES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// A manifest or index as the registry has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The document's type.
    pub media_type: String,
    /// The document's bytes.
    pub bytes: Vec<u8>,
    /// Digest of the bytes.
    pub digest: OciDigest,
}

impl Document {
    /// A manifest that was kept without what its registry said of it.
    #[must_use]
    pub fn of_its_own(bytes: Vec<u8>, digest: OciDigest) -> Self {
        let media_type = own_type(&bytes).unwrap_or_else(|| MANIFEST_TYPES[0].to_owned());
        Self { media_type, bytes, digest }
    }

    /// Parses the document, which has this name.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn parse<T: DeserializeOwned>(&self, name: &Reference) -> Result<T> {
        serde_json::from_slice(&self.bytes)
            .map_err(|e| name.invalid(format!("`{}`: {e}", self.digest)))
    }
}

impl Reference {
    /// An error for a document that is not what this name says.
    #[must_use]
    pub fn invalid(&self, reason: String) -> Error {
        Error::Invalid { name: self.to_string(), reason }
    }

    /// The digest in a descriptor of the document with this name.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one that is not a SHA-256.
    pub fn digest_in(&self, descriptor: &Descriptor) -> Result<OciDigest> {
        let text = descriptor.digest().as_ref();
        text.parse().map_err(|e| self.invalid(format!("{e}")))
    }
}

/// The type that a document says it has; old ones say nothing.
fn own_type(bytes: &[u8]) -> Option<String> {
    let document = serde_json::from_slice::<Value>(bytes).ok()?;
    Some(document.get("mediaType")?.as_str()?.to_owned())
}

#[derive(Deserialize)]
struct Tags {
    tags: Option<Vec<String>>,
}

impl Registry<'_> {
    /// The manifest or index that the registry's reference names.
    ///
    /// # Errors
    /// [`Error::Unusable`], also for one that does not exist or has another digest;
    /// [`Error::Cancelled`].
    pub fn manifest(&self) -> Result<Document> {
        let reference = self.reference();
        self.get(&reference.manifest(), reference.digest())
    }

    /// The manifest or index with this digest.
    ///
    /// # Errors
    /// Those of [`manifest`](Self::manifest).
    pub fn manifest_of(&self, digest: OciDigest) -> Result<Document> {
        self.get(&digest.to_string(), Some(digest))
    }

    /// The document of a tag or digest; that it is the one of `expected` is checked.
    fn get(&self, name: &str, expected: Option<OciDigest>) -> Result<Document> {
        let (url, answer, bytes) = self.ask_for(name, &self.reading())?;
        self.document(&url, &answer, bytes, expected)
    }

    /// Does the same as [`get`](Self::get); `None` if the manifest does not exist.
    pub(crate) fn find(
        &self,
        name: &str,
        expected: Option<OciDigest>,
        scope: &Scope,
    ) -> Result<Option<Document>> {
        let (url, answer, bytes) = self.ask_for(name, scope)?;
        match answer.status {
            404 => Ok(None),
            _ => self.document(&url, &answer, bytes, expected).map(Some),
        }
    }

    /// Some tags of the repository; none if the registry does not list them.
    pub(crate) fn tags(&self) -> Vec<String> {
        let request = Exchange::new("GET", self.url("tags/list?n=20"));
        let answer = self.ask(&request, &self.reading(), MAX_MANIFEST_BYTES);
        let Ok((Answered { status: 200, .. }, bytes)) = answer else { return Vec::new() };
        let tags = serde_json::from_slice::<Tags>(&bytes).ok().and_then(|list| list.tags);
        let printable = |tag: &String| tag.bytes().all(|b| b.is_ascii_graphic());
        tags.unwrap_or_default().into_iter().filter(printable).take(20).collect()
    }

    fn ask_for(&self, name: &str, scope: &Scope) -> Result<(String, Answered, Vec<u8>)> {
        let url = self.url(&format!("manifests/{name}"));
        let accept = [INDEX_TYPES, MANIFEST_TYPES].concat().join(", ");
        let request = Exchange::new("GET", &url).header("accept", accept);
        let (answer, bytes) = self.ask(&request, scope, MAX_MANIFEST_BYTES)?;
        Ok((url, answer, bytes))
    }

    fn document(
        &self,
        url: &str,
        answer: &Answered,
        bytes: Vec<u8>,
        expected: Option<OciDigest>,
    ) -> Result<Document> {
        if answer.status != 200 {
            return Err(self.refused(url, answer));
        }
        let digest = OciDigest(Sha256::of(&bytes));
        let told = answer.header("docker-content-digest").and_then(|text| text.parse().ok());
        if let Some(expected) = expected.or(told).filter(|expected| *expected != digest) {
            return Err(self.damaged(url, digest, expected));
        }
        let header = answer.header("content-type").and_then(|text| text.split(';').next());
        // The media type in the document is more reliable than the one in the header.
        let own = own_type(&bytes).or_else(|| header.map(str::to_owned));
        let media_type = own.unwrap_or_default().trim().to_owned();
        Ok(Document { media_type, bytes, digest })
    }

    /// Stores the manifest with this digest under the reference's tag, or else its digest.
    pub(crate) fn put(&self, digest: OciDigest, media_type: &str, bytes: &[u8]) -> Result<()> {
        let name = self.reference().tag().map_or_else(|| digest.to_string(), str::to_owned);
        let url = self.url(&format!("manifests/{name}"));
        let request =
            Exchange::new("PUT", &url).header("content-type", media_type).body(bytes.to_vec());
        let (answer, _) = self.ask(&request, &self.writing(None), MAX_MANIFEST_BYTES)?;
        match answer.status {
            200..=299 => Ok(()),
            _ => Err(self.refused(&url, &answer)),
        }
    }
}
