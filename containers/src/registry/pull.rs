//! Pulls an image from a registry into a folder in the OCI layout.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use gular_files::{folder_of, sync_folder, write_file};
use oci_spec::image::{ANNOTATION_REF_NAME, Descriptor, ImageIndex, ImageManifest, Os};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tempfile::TempDir;

use super::manifest::{self, Document, INDEXES, MANIFESTS};
use super::ranges::Ranges;
use super::{Reference, Registry};
use crate::fetch::{Archives, Told};
use crate::image_watch::{ImageWatch, Note, Step};
use crate::oci::{platforms, variant_rank};
use crate::sif::Arch;
use crate::{Error, OciDigest, Package, Result};

/// How deep indexes may be nested.
const MAX_DEPTH: usize = 4;
/// The name, in [`Error::Limit`], of what there may be too much of.
const TO_FETCH: &str = "bytes to fetch";
/// Largest configuration that is read.
const MAX_CONFIG: u64 = 4 << 20;
/// Layers of one image; overlay mounts take 128, Docker 127.
const MAX_LAYERS: usize = 512;

/// The result of pulling an image; also its JSON form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pulled {
    /// Name of the image, with the digest of the index or manifest that its tag had.
    pub pinned: String,
    /// Digest of the index or manifest that the tag had.
    #[serde(skip)]
    pub top: OciDigest,
    /// Digest of the image's manifest.
    pub digest: OciDigest,
    /// Bytes of the image's blobs.
    pub bytes: u64,
    /// Number of blobs that were here already.
    pub kept: usize,
    /// Number of blobs of the image.
    pub blobs: usize,
}

/// Options of pulling: where blobs are kept, and how they are fetched.
#[derive(Clone, Copy)]
pub struct Pulling<'a> {
    /// The image's registry.
    pub registry: &'a Registry<'a>,
    /// The store of blobs; a stopped pull resumes from it.
    pub archives: &'a Archives,
    /// How many ranges of a blob are fetched at a time.
    pub threads: NonZeroUsize,
    /// Most bytes that all blobs of an image may have.
    pub max_bytes: u64,
    /// The callbacks that watch the pull, and may stop it.
    pub watch: &'a dyn ImageWatch,
}

/// Fetches an image for `arch` into the folder `to`, which must not exist.
///
/// # Errors
/// [`Error::Registry`]; [`Error::Oci`] for documents that are not what they should be, and
/// for an image of another processor; [`Error::Limit`], [`Error::Exists`], those of
/// [`Archives::get`].
pub fn pull_image(
    reference: &Reference,
    arch: Arch,
    to: &Path,
    with: &Pulling<'_>,
) -> Result<Pulled> {
    let registry = with.registry;
    if to.symlink_metadata().is_ok() {
        return Err(Error::Exists { path: to.display().to_string() });
    }
    let top =
        manifest::get(registry, reference.repository(), &reference.manifest(), reference.digest())?;
    let top_digest = top.digest;
    let (document, others) = of_platform(registry, reference, top, arch)?;
    if !others.is_empty() {
        let (name, taken) = (reference.to_string(), format!("linux/{}", arch.name()));
        with.watch.note(&Note::OneOf { name: &name, taken: &taken, others: &others });
    }
    let parsed: ImageManifest = parse(reference, &document)?;
    let wanted = blobs_of(reference, &parsed, with.max_bytes)?;
    let parent = folder_of(to);
    fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    let dir = TempDir::with_prefix_in(".gular-", parent).map_err(Error::io("create", parent))?;
    let blobs = dir.path().join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(Error::io("create", &blobs))?;
    let kept = fetch_all(with, reference, arch, &wanted, &blobs);
    with.watch.ended(Step::Fetch);
    let kept = kept?;
    write_file(&blobs.join(document.digest.0.to_string()), &document.bytes)?;
    let entry = json!({
        "mediaType": document.media_type,
        "digest": document.digest.to_string(),
        "size": document.bytes.len(),
        "platform": { "os": "linux", "architecture": arch.name() },
        "annotations": { ANNOTATION_REF_NAME: reference.tag().unwrap_or("latest") },
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEXES[0], "manifests": [entry] });
    write_file(&dir.path().join("index.json"), index.to_string().as_bytes())?;
    write_file(&dir.path().join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    fs::rename(dir.path(), to).map_err(Error::io("create", to))?;
    let _ = dir.keep();
    sync_folder(parent)?;
    Ok(Pulled {
        pinned: reference.pinned(top_digest).to_string(),
        top: top_digest,
        digest: document.digest,
        bytes: sum(&wanted),
        kept,
        blobs: wanted.len(),
    })
}

/// Configuration and layers of an image, as far as they are within their limits.
pub(super) fn blobs_of<'a>(
    reference: &Reference,
    manifest: &'a ImageManifest,
    max_bytes: u64,
) -> Result<Vec<&'a Descriptor>> {
    let found = manifest.layers().len();
    if found > MAX_LAYERS {
        let reason = format!("it has {found} layers, more than the limit of {MAX_LAYERS}");
        return Err(bad(reference, reason));
    }
    let wanted: Vec<_> = [manifest.config()].into_iter().chain(manifest.layers()).collect();
    within(reference, sum(&wanted), max_bytes)?;
    Ok(wanted)
}

/// Refuses to fetch more bytes than the limit.
pub(super) fn within(reference: &Reference, found: u64, limit: u64) -> Result<()> {
    match found > limit {
        true => Err(Error::Limit { path: reference.to_string(), what: TO_FETCH, found, limit }),
        false => Ok(()),
    }
}

/// The manifest for Linux on a processor, through indexes, and the platforms of others in them.
pub(super) fn of_platform(
    registry: &Registry<'_>,
    reference: &Reference,
    top: Document,
    arch: Arch,
) -> Result<(Document, Vec<String>)> {
    let (mut document, mut others) = (top, Vec::new());
    for _ in 0..MAX_DEPTH {
        if MANIFESTS.contains(&&*document.media_type) {
            return Ok((document, platforms(others)));
        }
        if !INDEXES.contains(&&*document.media_type) {
            let found = &document.media_type;
            let reason = format!("its type is `{found}`, expected an image or an index of images");
            return Err(bad(reference, reason));
        }
        let index: ImageIndex = parse(reference, &document)?;
        let suits = |descriptor: &&Descriptor| {
            let platform = descriptor.platform().as_ref();
            platform.is_some_and(|platform| {
                *platform.os() == Os::Linux && platform.architecture().to_string() == arch.name()
            })
        };
        others.extend(index.manifests().iter().filter(|one| !suits(one)).filter_map(|other| {
            let platform = other.platform().as_ref()?;
            Some(format!("{}/{}", platform.os(), platform.architecture()))
        }));
        // The image for all processors of the kind is also that of newer ones.
        let rank = |one: &&Descriptor| {
            let platform = one.platform().as_ref();
            variant_rank(platform.and_then(|platform| platform.variant().as_deref()))
        };
        let found = index.manifests().iter().filter(suits).min_by_key(rank);
        let found = found.ok_or_else(|| Error::NoImage {
            path: reference.to_string(),
            wanted: format!("for linux/{}", arch.name()),
            known: format!("for: {}", platforms(others.clone()).join(", ")),
        })?;
        let digest = digest_of(reference, found)?;
        let repository = reference.repository();
        document = manifest::get(registry, repository, &digest.to_string(), Some(digest))?;
    }
    Err(bad(reference, format!("its indexes are nested more than {MAX_DEPTH} deep")))
}

/// Bytes of all blobs; a manifest may say any number, so the sum saturates.
pub(super) fn sum(blobs: &[&Descriptor]) -> u64 {
    blobs.iter().fold(0, |sum, blob| sum.saturating_add(blob.size()))
}

/// Brings blobs into `blobs`, the configuration first; how many were here already.
fn fetch_all(
    with: &Pulling<'_>,
    reference: &Reference,
    arch: Arch,
    wanted: &[&Descriptor],
    blobs: &Path,
) -> Result<usize> {
    let total = sum(wanted);
    let (mut done, mut kept) = (0_u64, 0);
    for (number, descriptor) in wanted.iter().enumerate() {
        let digest = digest_of(reference, descriptor)?;
        let to = blobs.join(digest.0.to_string());
        // Two layers may be the same blob.
        if to.symlink_metadata().is_err() {
            let told = |now: u64| with.watch.progress(Step::Fetch, done.saturating_add(now), total);
            let (path, was_here) = with.blob(reference, digest, descriptor.size(), &told)?;
            if number == 0 {
                let bytes = path.metadata().map_err(Error::io("read", &path))?.len();
                if bytes > MAX_CONFIG {
                    let reason = format!(
                        "its configuration has {bytes} bytes, more than the limit of {MAX_CONFIG}"
                    );
                    return Err(bad(reference, reason));
                }
                is_for(reference, &fs::read(&path).map_err(Error::io("read", &path))?, arch)?;
            }
            kept += usize::from(was_here);
            if fs::hard_link(&path, &to).is_err() {
                fs::copy(&path, &to).map_err(Error::io("write", &to))?;
            }
        }
        done = done.saturating_add(descriptor.size());
    }
    Ok(kept)
}

/// Refuses an image for another processor by its configuration, since a manifest that is not listed
/// in an index does not name one. A document that is not an image's configuration is accepted.
pub(super) fn is_for(reference: &Reference, config: &[u8], arch: Arch) -> Result<()> {
    #[derive(Deserialize)]
    struct Platform {
        os: String,
        architecture: String,
    }
    match serde_json::from_slice::<Platform>(config) {
        Ok(found) if found.os != "linux" || found.architecture != arch.name() => {
            let Platform { os, architecture } = found;
            let name = arch.name();
            Err(bad(
                reference,
                format!("the image is for {os}/{architecture}, expected linux/{name}"),
            ))
        }
        _ => Ok(()),
    }
}

impl Pulling<'_> {
    /// A blob's file, and whether it was here before.
    pub(super) fn blob(
        &self,
        reference: &Reference,
        digest: OciDigest,
        bytes: u64,
        progress: &dyn Fn(u64),
    ) -> Result<(std::path::PathBuf, bool)> {
        let Self { registry, archives, threads, watch, .. } = *self;
        let sha256 = digest.0;
        let short: String = sha256.to_string().chars().take(12).collect();
        watch.working_on(Step::Fetch, &short);
        let package = Package {
            name: format!("sha256:{short}"),
            version: String::new(),
            arch: None,
            bytes,
            sha256,
            urls: vec![registry.url(reference.repository(), &format!("blobs/{sha256}"))],
            license: None,
        };
        let was_here = archives.dir.join(sha256.to_string()).is_file();
        let repository = reference.repository();
        let ranges = Ranges { registry, repository, digest, threads };
        let told = Told { progress, waiting: &|dir| watch.note(&Note::Waiting(dir)) };
        let path = archives.get(&package, &ranges, told, watch.cancel())?;
        Ok((path, was_here))
    }
}

pub(super) fn parse<T: DeserializeOwned>(reference: &Reference, document: &Document) -> Result<T> {
    serde_json::from_slice(&document.bytes)
        .map_err(|e| bad(reference, format!("`{}`: {e}", document.digest)))
}

pub(super) fn digest_of(reference: &Reference, descriptor: &Descriptor) -> Result<OciDigest> {
    let text = descriptor.digest().as_ref();
    text.parse().map_err(|e| bad(reference, format!("{e}")))
}

pub(super) fn bad(reference: &Reference, reason: String) -> Error {
    Error::Oci { path: reference.to_string(), reason }
}
