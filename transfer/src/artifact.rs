//! A bundle as an OCI artifact: which file is stored as which blob. Format: `FORMAT.md`, "OCI
//! artifact".

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use gular_bundle::{DATA_DIR, Digest, FileEntry, MANIFEST_NAME};

use crate::{Error, SoundBundle};

/// The media type (`artifactType`) of a bundle's artifact.
pub const ARTIFACT_TYPE: &str = "application/vnd.gular.bundle.v1";

const MANIFEST: &str = "application/vnd.gular.bundle.manifest.v1+json";
/// The prefix of a shard's media type; the envelope's name follows.
const SHARD: &str = "application/vnd.gular.bundle.shard.v1.";
const INDEX: &str = "application/vnd.gular.bundle.index.v1.safetensors";
const VIEW: &str = "application/vnd.gular.bundle.view.v1";

/// One file of a bundle, stored as one blob of its artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactFile {
    /// Name of the file in the artifact: its path below the bundle's folder.
    pub title: String,
    /// Media type of the blob.
    pub media_type: String,
    /// Path of the file on this machine.
    pub path: PathBuf,
    /// Length of the file.
    pub bytes: u64,
    /// Digest of the file in the bundle.
    pub digest: Digest,
}

/// Lists the files of a bundle in the order of its artifact: the manifest, then each shard with its
/// index and view, each file once.
///
/// # Errors
/// [`Error::Io`].
pub fn artifact_files(sound: &SoundBundle) -> Result<Vec<ArtifactFile>, Error> {
    let bundle = sound.bundle();
    let manifest = bundle.manifest();
    let path = bundle.dir().join(MANIFEST_NAME);
    let found = fs::metadata(&path).map_err(|e| Error::io("look at", &path, e))?;
    let mut files = vec![ArtifactFile {
        title: MANIFEST_NAME.to_owned(),
        media_type: MANIFEST.to_owned(),
        path,
        bytes: found.len(),
        digest: bundle.digest(),
    }];
    let shard = format!("{SHARD}{}", manifest.envelope.name());
    let mut seen = HashSet::new();
    for entry in &manifest.shards {
        let kinds = [(&entry.file, &*shard), (&entry.index, INDEX)];
        let view = entry.view.as_ref().map(|view| (view, VIEW));
        for (file, media_type) in kinds.into_iter().chain(view) {
            if seen.insert(&file.name) {
                files.push(ArtifactFile {
                    title: artifact_title(file),
                    media_type: media_type.to_owned(),
                    path: bundle.path_of(file),
                    bytes: file.bytes,
                    digest: file.digest,
                });
            }
        }
    }
    Ok(files)
}

/// Returns the name of a shard, index or view in the artifact.
#[must_use]
pub fn artifact_title(file: &FileEntry) -> String {
    format!("{DATA_DIR}/{}", file.name)
}
