//! A bundle in a registry, as a source from which `transfer` fetches files.

use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;

use gular_bundle::{BLOCK_BYTES, FileEntry, MANIFEST_NAME, MAX_MANIFEST_BYTES};
use gular_pelican::Sink;
use gular_registry::{Artifact, ArtifactBlob, Registry, read_artifact};
use gular_transfer::{
    ARTIFACT_TYPE, Blocks, BundleFiles, Error, ManifestFile, Watch, artifact_title,
};

use super::name::Name;
use crate::exit::Failure;

/// Ranges of one file at a time; each may be 4 MiB, and is fetched beside those of other files.
const RANGES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// A bundle whose artifact and manifest have been read.
pub(super) struct OfRegistry<'a> {
    registry: &'a Registry<'a>,
    artifact: Artifact,
    manifest: ManifestFile,
}

impl<'a> OfRegistry<'a> {
    /// Reads what is at a name, and checks that it is a bundle, and the one that is wanted.
    pub(super) fn open(registry: &'a Registry<'a>, name: &Name) -> Result<Self, Failure> {
        let artifact = read_artifact(registry)?;
        let shown = format!("oci://{}", name.reference);
        let kind = &*artifact.artifact_type;
        // Other tools may say nothing of its type, or push it as their own.
        let newer = kind != ARTIFACT_TYPE && kind.starts_with("application/vnd.gular.bundle.");
        if newer {
            let message = format!(
                "`{shown}` has the type `{kind}`, newer than `{ARTIFACT_TYPE}`, the newest this build reads"
            );
            return Err(Failure::new(
                message,
                Some("use a newer release of this program".to_owned()),
            ));
        }
        let Some(blob) = artifact.file(MANIFEST_NAME) else {
            let message = format!("`{shown}` is not a bundle: it has no file `{MANIFEST_NAME}`");
            let hint = "to fetch an image, use `gular image pull`";
            return Err(Failure::new(message, Some(hint.to_owned())));
        };
        let bytes = registry.read_blob(blob.digest, blob.bytes, MAX_MANIFEST_BYTES, RANGES);
        let bytes = bytes.map_err(|error| failed(error, MANIFEST_NAME))?;
        let manifest = ManifestFile::parse(&shown, bytes)?;
        let found = manifest.digest();
        if let Some(expected) = name.digest.filter(|expected| *expected != found) {
            let hint = "check the version, and that the digest is the one printed when this version \
                was published: somebody may have replaced the bundle";
            let error = Error::ObjectDigest { url: shown, expected, found };
            return Err(Failure::from(error).with_hint(hint));
        }
        Ok(Self { registry, artifact, manifest })
    }

    fn blob(&self, file: &FileEntry) -> Result<&ArtifactBlob, Error> {
        let title = artifact_title(file);
        let said = |what: String| Error::Source {
            message: format!("`oci://{}` {what}", self.artifact.pinned),
            hint: Some(
                "publish the bundle again as another version: this one is not complete".into(),
            ),
            passes: false,
        };
        let blob = self.artifact.file(&title);
        let blob =
            blob.ok_or_else(|| said(format!("has no file `{title}`, which its manifest lists")))?;
        match blob.bytes == file.bytes {
            true => Ok(blob),
            false => Err(said(format!(
                "has a file `{title}` of {} bytes, expected {} as in its manifest",
                blob.bytes, file.bytes
            ))),
        }
    }
}

impl BundleFiles for OfRegistry<'_> {
    fn name(&self) -> String {
        format!("oci://{}#blake3={}", self.artifact.pinned, self.manifest.digest().hex())
    }

    fn manifest(&self) -> &ManifestFile {
        &self.manifest
    }

    fn read(&self, file: &FileEntry, _watch: Watch<'_>) -> Result<Vec<u8>, Error> {
        let blob = self.blob(file)?;
        let bytes = self.registry.read_blob(blob.digest, blob.bytes, file.bytes, RANGES);
        let bytes = bytes.map_err(|error| failed(error, file.name.as_str()))?;
        file.accept(file.name.as_str(), &bytes)?;
        Ok(bytes)
    }

    fn stream(
        &self,
        file: &FileEntry,
        accepts: &(dyn Fn(u64, &[u8]) -> bool + Sync),
        blocks: Range<u64>,
        sink: &mut Sink<'_>,
        watch: Watch<'_>,
    ) -> Result<(), Error> {
        let (digest, bytes) = (self.blob(file)?.digest, file.bytes);
        let from = blocks.start.saturating_mul(BLOCK_BYTES as u64);
        let mut blocks = Blocks::new(file, accepts, blocks, sink);
        let streamed = self.registry.stream_blob(digest, bytes, from, RANGES, &mut |bytes| {
            if watch.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            blocks.take(bytes)
        });
        match streamed {
            Err(_) if watch.is_cancelled() => Err(Error::cancelled()),
            Err(error) if !blocks.is_refused() && !blocks.is_done() => {
                Err(failed(error, file.name.as_str()))
            }
            _ => blocks.end(),
        }
    }
}

/// A fault of the registry, or of the disk while `file` was written.
fn failed(error: gular_registry::Error, file: &str) -> Error {
    match error {
        gular_registry::Error::Cancelled => Error::cancelled(),
        gular_registry::Error::Sink(e) => gular_files::Error::new("write", file, e).into(),
        error => {
            let (hint, passes) = (error.hint().map(str::to_owned), error.is_passing());
            Error::Source { message: error.to_string(), hint, passes }
        }
    }
}
