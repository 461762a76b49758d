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
use std::path::PathBuf;

use oci_spec::image::{ANNOTATION_TITLE, ImageManifest};
use serde_json::json;

use crate::push::send_blobs;
use crate::{
    Blob, BlobBytes, Document, Error, MANIFEST_TYPES, MAX_MANIFEST_BYTES, OciDigest, Pushed,
    Pushing, Reference, Registry, Result, Sha256,
};

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
/// [`Error::Taken`] when the tag has another artifact; [`Error::Unusable`]; [`Error::Invalid`]
/// for one with too many files; [`Error::Cancelled`].
pub fn push_artifact(
    artifact: &NewArtifact<'_>,
    dry_run: bool,
    with: &Pushing<'_>,
) -> Result<Pushed> {
    let registry = with.registry;
    let to = registry.reference();
    let text = artifact.manifest();
    if text.len() > MAX_MANIFEST_BYTES {
        let (files, bytes, most) = (artifact.files.len(), text.len(), MAX_MANIFEST_BYTES);
        let reason = format!(
            "the manifest of {files} files would have {bytes} bytes, and registries accept at most {most}"
        );
        return Err(to.invalid(reason));
    }
    let digest = OciDigest(Sha256::of(&text));
    to.check(digest)?;
    let scope = registry.writing(None);
    let at_tag = || to.tag().map_or(Ok(None), |tag| registry.find(tag, None, &scope));
    // This is asked before anything is sent.
    let there = at_tag()?.map(|document| artifact.same(to, &document)).transpose()?;
    let mut blobs = vec![Blob::empty()];
    let mut listed: HashSet<OciDigest> = blobs.iter().map(|blob| blob.digest).collect();
    for (file, path) in &artifact.files {
        let ArtifactBlob { digest, bytes: len_bytes, .. } = *file;
        // Two files may be the same blob.
        if listed.insert(digest) {
            blobs.push(Blob { digest, len_bytes, bytes: BlobBytes::At(path.clone()) });
        }
    }
    let pushed = send_blobs(&blobs, there.unwrap_or(digest), dry_run, with)?;
    if there.is_some() {
        return Ok(pushed);
    }
    if !dry_run {
        // The tag is looked at again: sending takes long, and another process may have set it
        // meanwhile.
        if let Some(document) = at_tag()? {
            return Ok(pushed.named(to, artifact.same(to, &document)?));
        }
        registry.put(digest, MANIFEST_TYPES[0], &text)?;
        // Registries store a tag for whoever comes last.
        if let Some(document) = at_tag()? {
            artifact.same(to, &document)?;
        }
    }
    Ok(pushed)
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
        let config = Blob::empty();
        let (name, value) = &self.identity;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPES[0],
            "artifactType": self.artifact_type,
            "config": { "mediaType": EMPTY_TYPE, "digest": config.digest.to_string(), "size": config.len_bytes },
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

/// Reads the artifact that the registry was opened for.
///
/// # Errors
/// [`Error::Unusable`]; [`Error::Invalid`] for an index, or a manifest that is none.
pub fn read_artifact(registry: &Registry<'_>) -> Result<Artifact> {
    let reference = registry.reference();
    let scope = registry.reading();
    if let Some(document) = registry.find(&reference.manifest(), reference.digest(), &scope)? {
        return Artifact::of(reference, &document);
    }
    let error = Error::unusable(reference.to_string(), "the registry has no such version");
    match registry.tags().join(", ") {
        tags if tags.is_empty() => Err(error),
        tags => Err(error.with_hint(format!("`{}` has {tags}", reference.repository()))),
    }
}

impl Artifact {
    fn of(reference: &Reference, document: &Document) -> Result<Self> {
        if !MANIFEST_TYPES.contains(&&*document.media_type) {
            let found = &document.media_type;
            return Err(reference.invalid(format!("its type is `{found}`, expected a manifest")));
        }
        let parsed: ImageManifest = document.parse(reference)?;
        let files = parsed.layers().iter().map(|layer| {
            let title = layer.annotations().as_ref().and_then(|all| all.get(ANNOTATION_TITLE));
            Ok(ArtifactBlob {
                title: title.cloned().unwrap_or_default(),
                media_type: layer.media_type().to_string(),
                digest: reference.digest_in(layer)?,
                bytes: layer.size(),
            })
        });
        let artifact_type = parsed.artifact_type().as_ref().map(ToString::to_string);
        Ok(Self {
            pinned: reference.pinned(document.digest).to_string(),
            artifact_type: artifact_type.unwrap_or_default(),
            annotations: parsed.annotations().clone().into_iter().flatten().collect(),
            files: files.collect::<Result<_>>()?,
        })
    }

    /// Returns the file with this name.
    #[must_use]
    pub fn file(&self, title: &str) -> Option<&ArtifactBlob> {
        self.files.iter().find(|file| file.title == title)
    }
}
