//! A SIF in a registry: an artifact of one layer, as `apptainer push oras://` makes it.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use gular_files::{folder_of, persist_new, temp_with_mode};
use gular_registry::{Blob, BlobBytes, MANIFEST_TYPES, Pushed, Pushing, push};
use oci_spec::image::{ANNOTATION_TITLE, ImageManifest};
use serde_json::json;

use super::pull::Remote;
use super::{Pulled, Pulling, Reference};
use crate::{Error, OciDigest, Result, Sha256};

/// The media type of a SIF's layer.
pub const SIF_LAYER: &str = "application/vnd.sylabs.sif.layer.v1.sif";
const SIF_CONFIG: &str = "application/vnd.sylabs.sif.config.v1+json";
const MAGIC: &[u8] = b"SIF_MAGIC";

/// Pushes a SIF.
///
/// # Errors
/// Those of [`push_image`](super::push_image); [`Error::Sif`] for a file that is not one.
pub fn push_sif(path: &Path, with: &Pushing<'_>) -> Result<Pushed> {
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let mut magic = [0; 41];
    let read = file.read_exact(&mut magic);
    if read.is_err() || !magic.ends_with(MAGIC) {
        let (path, reason) =
            (path.display().to_string(), "it does not begin as a SIF does".to_owned());
        return Err(Error::Sif { path, reason });
    }
    file.rewind().map_err(Error::io("read", path))?;
    let bytes = file.metadata().map_err(Error::io("read", path))?.len();
    let digest = OciDigest(Sha256::of_file(path)?);
    let config = Blob::empty();
    let title = path.file_name().unwrap_or_default().to_string_lossy();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPES[0],
        "config": { "mediaType": SIF_CONFIG, "digest": config.digest.to_string(), "size": config.len_bytes },
        "layers": [{
            "mediaType": SIF_LAYER, "digest": digest.to_string(), "size": bytes,
            "annotations": { ANNOTATION_TITLE: title },
        }],
    });
    let blobs = [Blob { digest, len_bytes: bytes, bytes: BlobBytes::From(file, 0) }, config];
    Ok(push(&blobs, MANIFEST_TYPES[0], manifest.to_string().as_bytes(), with)?)
}

/// Fetches a SIF to `to`, which must not exist; if `to` is a folder, into it under the name with
/// which it was pushed. Returns the path.
///
/// # Errors
/// Those of [`pull_image`](super::pull_image).
pub fn pull_sif(to: &Path, with: &Pulling<'_>) -> Result<(PathBuf, Pulled)> {
    let (reference, remote) = (with.reference, Remote::new(*with));
    let document = remote.registry()?.manifest()?;
    let parsed: ImageManifest = document.parse(reference)?;
    let sif = |layer: &&oci_spec::image::Descriptor| layer.media_type().as_ref() == SIF_LAYER;
    let Some(layer) = parsed.layers().iter().find(sif) else {
        let reason = "it holds no SIF; `docker://` is for images";
        return Err(reference.invalid(reason.to_owned()).into());
    };
    let title = layer.annotations().as_ref().and_then(|all| all.get(ANNOTATION_TITLE));
    let to = if to.is_dir() {
        to.join(name(reference, title.map(String::as_str)))
    } else {
        to.to_owned()
    };
    Error::unless_free(&to)?;
    let (path, was_here) = remote.layer(layer)?;
    let parent = folder_of(&to);
    fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    // A copy, which its owner may sign: what the cache has is never changed.
    let temp = temp_with_mode(parent, 0o755)?;
    fs::copy(&path, temp.path()).map_err(Error::io("write", &to))?;
    let mode = fs::Permissions::from_mode(0o755);
    temp.as_file().set_permissions(mode).map_err(Error::io("write", &to))?;
    persist_new(temp, &to)?;
    let pulled = Pulled {
        pinned: reference.pinned(document.digest).to_string(),
        top: document.digest,
        digest: document.digest,
        bytes: layer.size(),
        kept: usize::from(was_here),
        blobs: 1,
    };
    Ok((to, pulled))
}

/// The name it was pushed with, when that is a plain one; else one of its repository and tag.
fn name(reference: &Reference, title: Option<&str>) -> String {
    let plain = |name: &&str| crate::package::is_file_name(name) && name.ends_with(".sif");
    match title.filter(plain) {
        Some(title) => title.to_owned(),
        None => {
            let last = reference.repository().rsplit('/').next().unwrap_or_default();
            format!("{last}_{}.sif", reference.tag().unwrap_or("latest"))
        }
    }
}
