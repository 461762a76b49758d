//! Files in a registry: an artifact with one blob per file, as ORAS makes it.
//!
//! ```text
//! manifest: artifactType, annotations
//!    ├─ config   `{}`
//!    └─ layers   one per file: media type, SHA-256, length; its name as `…image.title`
//! ```
//!
//! A tag that has an artifact is not given to another one.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use oci_spec::image::{ANNOTATION_TITLE, ImageManifest};
use serde_json::json;

use super::manifest::{self, Document, MANIFESTS};
use super::pull::{bad, digest_of, parse};
use super::push::{Pushed, Pushing, send_blobs};
use super::ranges::Ranges;
use super::session::Scope;
use super::upload::EMPTY;
use super::{Reference, Registry};
use crate::blob::{Blob, Held};
use crate::fetch::{Stream as _, TransportFault};
use crate::{Error, OciDigest, Result, Sha256, StreamSha256};

/// The type of a configuration that says nothing.
const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";

/// One file of an artifact, stored as a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactBlob {
    /// The file's name, a relative path as in ORAS; empty if it has none.
    pub title: String,
    /// The file's media type.
    pub media_type: String,
    /// Digest of the file's bytes.
    pub digest: OciDigest,
    /// The file's length in bytes.
    pub bytes: u64,
}

/// A local artifact that is to be pushed.
#[derive(Debug, Clone)]
pub struct NewArtifact<'a> {
    /// The artifact's type.
    pub artifact_type: &'a str,
    /// The annotation of its manifest that tells it from others, and its value.
    pub identity: (&'a str, String),
    /// The artifact's files, each with its path on this machine.
    pub files: Vec<(ArtifactBlob, PathBuf)>,
}

/// An artifact in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Artifact {
    /// The image's name with its digest.
    pub pinned: String,
    /// The artifact's type; empty if the manifest has none.
    pub artifact_type: String,
    /// Annotations of its manifest.
    pub annotations: BTreeMap<String, String>,
    /// The artifact's files.
    pub files: Vec<ArtifactBlob>,
}

/// Pushes an artifact: the files that are missing, then the manifest, unless it is there. With
/// `dry_run` nothing is sent, and [`Pushed::sent`] is the number of bytes that would be.
///
/// # Errors
/// [`Error::Taken`] when the tag has another artifact; [`Error::Registry`]; [`Error::Oci`] for
/// one with too many files; [`Error::Cancelled`].
pub fn push_artifact(
    artifact: &NewArtifact<'_>,
    dry_run: bool,
    with: &Pushing<'_>,
) -> Result<Pushed> {
    let Pushing { registry, to, .. } = *with;
    let text = artifact.manifest();
    if text.len() > manifest::MAX_BYTES {
        let (files, bytes, most) = (artifact.files.len(), text.len(), manifest::MAX_BYTES);
        let reason = format!(
            "the manifest of {files} files would have {bytes} bytes, and registries accept at most {most}"
        );
        return Err(bad(to, reason));
    }
    let digest = OciDigest(Sha256::of(&text));
    to.check(digest)?;
    let scope = Scope::push(to.repository());
    let find = |tag: &str| manifest::find(registry, to.repository(), tag, None, &scope);
    let at_tag = || to.tag().map_or(Ok(None), find);
    // This is asked before anything is sent.
    let there = at_tag()?.map(|document| artifact.same(to, &document)).transpose()?;
    let mut blobs = vec![Blob::of(EMPTY)];
    let mut listed: HashSet<OciDigest> = blobs.iter().map(|blob| blob.digest).collect();
    for (file, path) in &artifact.files {
        let ArtifactBlob { digest, bytes, .. } = *file;
        // Two files may be the same blob.
        if listed.insert(digest) {
            blobs.push(Blob { digest, bytes, held: Held::At(path.clone()) });
        }
    }
    let totals = send_blobs(&blobs, dry_run, with)?;
    if let Some(there) = there {
        return Ok(totals.of(to, there));
    }
    if !dry_run {
        // The tag is looked at again: sending takes long, and another process may have set it
        // meanwhile.
        if let Some(document) = at_tag()? {
            return Ok(totals.of(to, artifact.same(to, &document)?));
        }
        let name = to.tag().map_or_else(|| digest.to_string(), str::to_owned);
        manifest::put(registry, to.repository(), &name, MANIFESTS[0], &text)?;
        // Registries store a tag for whoever comes last.
        if let Some(document) = at_tag()? {
            artifact.same(to, &document)?;
        }
    }
    Ok(totals.of(to, digest))
}

impl NewArtifact<'_> {
    fn manifest(&self) -> Vec<u8> {
        let layers = self.files.iter().map(|(file, _)| {
            json!({
                "mediaType": file.media_type,
                "digest": file.digest.to_string(),
                "size": file.bytes,
                "annotations": { ANNOTATION_TITLE: file.title },
            })
        });
        let config = Blob::of(EMPTY);
        let (name, value) = &self.identity;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFESTS[0],
            "artifactType": self.artifact_type,
            "config": { "mediaType": EMPTY_TYPE, "digest": config.digest.to_string(), "size": config.bytes },
            "layers": layers.collect::<Vec<_>>(),
            "annotations": { (*name): value },
        });
        manifest.to_string().into_bytes()
    }

    /// The digest of a manifest that lists these files, whoever wrote it.
    fn same(&self, to: &Reference, document: &Document) -> Result<OciDigest> {
        let found = Artifact::of(to, document);
        let names = |file: &ArtifactBlob| (file.title.clone(), file.digest);
        let theirs: Option<HashSet<_>> =
            found.as_ref().ok().map(|found| found.files.iter().map(names).collect());
        if theirs == Some(self.files.iter().map(|(file, _)| names(file)).collect()) {
            return Ok(document.digest);
        }
        let name = self.identity.0;
        let found = match found {
            Ok(Artifact { annotations, .. }) if annotations.contains_key(name) => {
                annotations.get(name).cloned().unwrap_or_default()
            }
            Ok(Artifact { artifact_type, .. }) if !artifact_type.is_empty() => artifact_type,
            _ => format!("an image, {}", document.digest),
        };
        Err(Error::Taken { name: to.to_string(), found })
    }
}

/// Reads the artifact that is stored under a name.
///
/// # Errors
/// [`Error::Registry`]; [`Error::Oci`] for an index, or a manifest that is none.
pub fn read_artifact(registry: &Registry<'_>, reference: &Reference) -> Result<Artifact> {
    let (repository, name) = (reference.repository(), reference.manifest());
    let scope = Scope::pull(repository);
    match manifest::find(registry, repository, &name, reference.digest(), &scope)? {
        Some(document) => Artifact::of(reference, &document),
        None => {
            let tags = manifest::tags(registry, repository);
            let hint = match tags.is_empty() {
                true => None,
                false => Some(format!("`{repository}` has {}", tags.join(", "))),
            };
            let (what, reason) =
                (reference.to_string(), "the registry has no such version".to_owned());
            Err(Error::Registry { what, reason, hint, passes: false })
        }
    }
}

impl Artifact {
    fn of(reference: &Reference, document: &Document) -> Result<Self> {
        if !MANIFESTS.contains(&&*document.media_type) {
            let found = &document.media_type;
            return Err(bad(reference, format!("its type is `{found}`, expected a manifest")));
        }
        let parsed: ImageManifest = parse(reference, document)?;
        let files = parsed.layers().iter().map(|layer| {
            let title = layer.annotations().as_ref().and_then(|all| all.get(ANNOTATION_TITLE));
            Ok(ArtifactBlob {
                title: title.cloned().unwrap_or_default(),
                media_type: layer.media_type().to_string(),
                digest: digest_of(reference, layer)?,
                bytes: layer.size(),
            })
        });
        let annotations = parsed.annotations().iter().flatten();
        Ok(Self {
            pinned: reference.pinned(document.digest).to_string(),
            artifact_type: parsed
                .artifact_type()
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            annotations: annotations.map(|(name, value)| (name.clone(), value.clone())).collect(),
            files: files.collect::<Result<_>>()?,
        })
    }

    /// Returns the file with this name.
    #[must_use]
    pub fn file(&self, title: &str) -> Option<&ArtifactBlob> {
        self.files.iter().find(|file| file.title == title)
    }
}

/// Reads the bytes of a blob from byte `from` on, in order, with `threads` ranges at a time. The
/// bytes are not compared with the digest.
///
/// # Errors
/// [`TransportFault::Sink`] with the error of `sink`, and other faults.
pub fn stream_blob(
    registry: &Registry<'_>,
    reference: &Reference,
    blob: &ArtifactBlob,
    from: u64,
    threads: NonZeroUsize,
    sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), TransportFault> {
    let (repository, digest) = (reference.repository(), blob.digest);
    Ranges { registry, repository, digest, threads }.stream("", blob.bytes, from, sink)
}

/// Reads a blob of at most `limit` bytes, and checks its digest.
///
/// # Errors
/// [`TransportFault::Failed`] for other bytes, or too many; those of [`stream_blob`].
pub fn read_blob(
    registry: &Registry<'_>,
    reference: &Reference,
    blob: &ArtifactBlob,
    limit: u64,
    threads: NonZeroUsize,
) -> Result<Vec<u8>, TransportFault> {
    let failed = |reason: String| {
        let url = registry.url(reference.repository(), &format!("blobs/{}", blob.digest));
        TransportFault::lasting(format!("`{url}`: {reason}"), None)
    };
    if blob.bytes > limit {
        return Err(failed(format!("it has {} bytes, more than the limit of {limit}", blob.bytes)));
    }
    let (mut bytes, mut hasher) = (Vec::new(), StreamSha256::default());
    stream_blob(registry, reference, blob, 0, threads, &mut |piece| {
        // A server that takes no ranges may send more than it was asked for.
        if (bytes.len() as u64).saturating_add(piece.len() as u64) > blob.bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        hasher.update(piece);
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    let found = OciDigest(hasher.finish());
    match found == blob.digest {
        true => Ok(bytes),
        false => Err(failed(format!("its digest is {found}, expected {}", blob.digest))),
    }
}
