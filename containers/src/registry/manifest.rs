//! Manifests and indexes of a registry.

use serde::Deserialize;
use serde_json::Value;

use super::session::Scope;
use super::{Answer, Method, Registry, Request};
use crate::{OciDigest, Result, Sha256};

/// Largest manifest or index; registries take none over 4 MiB.
pub(super) const MAX_BYTES: usize = 4 << 20;

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
    let (url, answer, bytes) = ask(registry, repository, name, &Scope::pull(repository))?;
    read(registry, &url, &answer, bytes, expected)
}

/// Does the same as [`get`]; `None` if the manifest does not exist.
pub(super) fn find(
    registry: &Registry<'_>,
    repository: &str,
    name: &str,
    expected: Option<OciDigest>,
    scope: &Scope,
) -> Result<Option<Document>> {
    let (url, answer, bytes) = ask(registry, repository, name, scope)?;
    match answer.status {
        404 => Ok(None),
        _ => read(registry, &url, &answer, bytes, expected).map(Some),
    }
}

/// Some tags of a repository; none if the registry does not list them.
pub(super) fn tags(registry: &Registry<'_>, repository: &str) -> Vec<String> {
    let request = Request::new(Method::Get, registry.url(repository, "tags/list?n=20"));
    let answer = registry.ask(&request, &Scope::pull(repository), MAX_BYTES);
    let Ok((Answer { status: 200, .. }, bytes)) = answer else { return Vec::new() };
    let tags = serde_json::from_slice::<Tags>(&bytes).ok().and_then(|list| list.tags);
    let printable = |tag: &String| tag.bytes().all(|b| b.is_ascii_graphic());
    tags.unwrap_or_default().into_iter().filter(printable).take(20).collect()
}

#[derive(Deserialize)]
struct Tags {
    tags: Option<Vec<String>>,
}

fn ask(
    registry: &Registry<'_>,
    repository: &str,
    name: &str,
    scope: &Scope,
) -> Result<(String, Answer, Vec<u8>)> {
    let url = registry.url(repository, &format!("manifests/{name}"));
    let accept = [INDEXES, MANIFESTS].concat().join(", ");
    let request = Request::new(Method::Get, &url).header("accept", accept);
    let (answer, bytes) = registry.ask(&request, scope, MAX_BYTES)?;
    Ok((url, answer, bytes))
}

fn read(
    registry: &Registry<'_>,
    url: &str,
    answer: &Answer,
    bytes: Vec<u8>,
    expected: Option<OciDigest>,
) -> Result<Document> {
    if answer.status != 200 {
        return Err(registry.refused(url, answer));
    }
    let digest = OciDigest(Sha256::of(&bytes));
    let told = answer.header("docker-content-digest").and_then(|text| text.parse().ok());
    if let Some(expected) = expected.or(told).filter(|expected| *expected != digest) {
        return Err(registry.damaged(url, digest, expected));
    }
    let header = answer.header("content-type").and_then(|text| text.split(';').next());
    // The media type in the document is more reliable than the one in the header.
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
