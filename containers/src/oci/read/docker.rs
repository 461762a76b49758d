//! What `docker save` writes: makes the documents of an OCI layout from its own.
//!
//! ```text
//! manifest.json   [{"Config": "HEX.json", "RepoTags": ["NAME:TAG"], "Layers": ["HEX.tar"]}]
//! HEX.json        the configuration; HEX is its SHA-256
//! HEX.tar         a layer, not compressed; its SHA-256 is a diff ID of the configuration
//! ```
//!
//! Docker from 25 on writes a layout as well, which is read as one. Layers get their
//! digests from the configuration, and are checked against them when they are unpacked.

use oci_spec::image::{ANNOTATION_REF_NAME, ImageConfiguration};
use serde::Deserialize;
use serde_json::{Value, json};

use super::blobs::{Blobs, Expected};
use crate::rootfs::RootPath;
use crate::{OciDigest, Result, Sha256};

const MANIFEST: &str = "manifest.json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Largest number of images in one archive.
const MAX_IMAGES: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Whether the archive has Docker's manifest, and no layout beside it.
pub(super) fn is_archive(blobs: &Blobs) -> bool {
    blobs.archives(MANIFEST) && !blobs.archives("oci-layout")
}

/// Adds what a layout has and this archive has not.
pub(super) fn complete(blobs: &mut Blobs) -> Result<()> {
    let text = blobs.entrance(MANIFEST)?;
    let saved: Vec<Saved> =
        serde_json::from_slice(&text).map_err(|e| blobs.bad(format!("`{MANIFEST}`: {e}")))?;
    if saved.len() > MAX_IMAGES {
        let found = saved.len();
        return Err(
            blobs.bad(format!("it has {found} images, more than the limit of {MAX_IMAGES}"))
        );
    }
    let mut manifests = Vec::new();
    for image in &saved {
        let Expected { sha256, bytes } = manifest(blobs, image)?;
        let entry = |annotations: Value| {
            let digest = format!("sha256:{sha256}");
            json!({ "mediaType": OCI_MANIFEST, "digest": digest, "size": bytes, "annotations": annotations })
        };
        let tags = image.repo_tags.iter().flatten();
        let named = tags.map(|tag| entry(json!({ ANNOTATION_REF_NAME: tag })));
        let before = manifests.len();
        manifests.extend(named);
        if manifests.len() == before {
            manifests.push(entry(json!({})));
        }
    }
    blobs.put_index(&manifests);
    Ok(())
}

/// The manifest that a layout would have of this image.
fn manifest(blobs: &mut Blobs, image: &Saved) -> Result<Expected> {
    let text = blobs.entrance(&inside(blobs, &image.config)?)?;
    let sha256 = Sha256::of(&text);
    // `HEX.json` before Docker 25, `blobs/sha256/HEX` since.
    let hex = image.config.rsplit('/').next().unwrap_or_default().trim_end_matches(".json");
    if hex.parse().is_ok_and(|expected: Sha256| expected != sha256) {
        let reason = format!("`{}` is damaged: its SHA-256 is {sha256}", image.config);
        return Err(blobs.bad(reason));
    }
    let bad = |e: &dyn std::fmt::Display| blobs.bad(format!("`{}`: {e}", image.config));
    let config: ImageConfiguration = serde_json::from_slice(&text).map_err(|e| bad(&e))?;
    let ids = config.rootfs().diff_ids().clone();
    let ids = ids.iter().map(|id| id.parse::<OciDigest>()).collect::<Result<Vec<_>, _>>();
    let ids = ids.map_err(|e| bad(&e))?;
    if ids.len() != image.layers.len() {
        let (found, expected) = (image.layers.len(), ids.len());
        let reason = format!("`{MANIFEST}` lists {found} layers, and its configuration {expected}");
        return Err(blobs.bad(reason));
    }
    let bytes = blobs.name_blob(&inside(blobs, &image.config)?, sha256)?;
    let config = "application/vnd.oci.image.config.v1+json";
    let config = descriptor(config, sha256.into(), bytes);
    let mut layers = Vec::new();
    for (name, id) in image.layers.iter().zip(ids) {
        let bytes = blobs.name_blob(&inside(blobs, name)?, id.0)?;
        layers.push(descriptor("application/vnd.oci.image.layer.v1.tar", id, bytes));
    }
    // Types of OCI throughout: podman refuses manifests with Docker's among them.
    let manifest = json!({
        "schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers
    });
    Ok(blobs.put_blob(manifest.to_string()))
}

fn descriptor(media: &str, digest: OciDigest, bytes: u64) -> Value {
    json!({ "mediaType": media, "digest": digest.to_string(), "size": bytes })
}

/// A name of the archive's files, as they are listed.
fn inside(blobs: &Blobs, name: &str) -> Result<String> {
    let path = RootPath::new(name).map_err(|e| blobs.bad(format!("`{MANIFEST}`: {e}")))?;
    Ok(path.as_str().to_owned())
}
