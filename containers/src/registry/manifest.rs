//! Manifests and indexes of a registry.

use serde_json::Value;

use super::session::Scope;
use super::{Method, Registry, Request};
use crate::{OciDigest, Result, Sha256};

/// Largest manifest or index; registries take none over 4 MiB.
const MAX_BYTES: usize = 4 << 20;

pub(super) const INDEXES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
pub(super) const MANIFESTS: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// A manifest or index as the registry has it.
pub(super) struct Document {
    pub(super) media_type: String,
    pub(super) bytes: Vec<u8>,
    pub(super) digest: OciDigest,
}

impl Document {
    /// A manifest that was kept without what its registry said of it.
    pub(super) fn of_its_own(bytes: Vec<u8>, digest: OciDigest) -> Self {
        let media_type = own_type(&bytes).unwrap_or_else(|| MANIFESTS[0].to_owned());
        Self { media_type, bytes, digest }
    }
}

/// The type that a document says it has; old ones say nothing.
fn own_type(bytes: &[u8]) -> Option<String> {
    let document = serde_json::from_slice::<Value>(bytes).ok()?;
    Some(document.get("mediaType")?.as_str()?.to_owned())
}

/// The document of a tag or digest; that it is the one of `expected` is checked.
pub(super) fn get(
    registry: &Registry<'_>,
    repository: &str,
    name: &str,
    expected: Option<OciDigest>,
) -> Result<Document> {
    let url = registry.url(repository, &format!("manifests/{name}"));
    let accept = [INDEXES, MANIFESTS].concat().join(", ");
    let request = Request::new(Method::Get, &url).header("accept", accept);
    let (answer, bytes) = registry.ask(&request, &Scope::pull(repository), MAX_BYTES)?;
    if answer.status != 200 {
        return Err(registry.refused(&url, &answer));
    }
    let digest = OciDigest(Sha256::of(&bytes));
    let told = answer.header("docker-content-digest").and_then(|text| text.parse().ok());
    if let Some(expected) = expected.or(told).filter(|expected| *expected != digest) {
        let reason = format!("the manifest has the digest {digest}, expected {expected}");
        return Err(registry.failed(&url, reason));
    }
    let header = answer.header("content-type").and_then(|text| text.split(';').next());
    // The document itself knows best.
    let own = own_type(&bytes).or_else(|| header.map(str::to_owned));
    let media_type = own.unwrap_or_default().trim().to_owned();
    Ok(Document { media_type, bytes, digest })
}

/// Stores a manifest under a tag, or its own digest.
pub(super) fn put(
    registry: &Registry<'_>,
    repository: &str,
    name: &str,
    media_type: &str,
    bytes: &[u8],
) -> Result<OciDigest> {
    let url = registry.url(repository, &format!("manifests/{name}"));
    let request =
        Request::new(Method::Put, &url).header("content-type", media_type).body(bytes.to_vec());
    let (answer, _) = registry.ask(&request, &Scope::push(repository), MAX_BYTES)?;
    match answer.status {
        200..=299 => Ok(OciDigest(Sha256::of(bytes))),
        _ => Err(registry.refused(&url, &answer)),
    }
}
