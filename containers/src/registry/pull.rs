//! Pulls an image from a registry into a folder in the OCI layout.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gular_files::write_file;
use gular_registry::{Document, INDEX_TYPES, MANIFEST_TYPES, Reference, Registry};
use oci_spec::image::{ANNOTATION_REF_NAME, Descriptor, ImageIndex, ImageManifest, Os};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fetch::{Archives, Stream, Told, Transport, TransportFault};
use crate::image_watch::{ImageWatch, Note, Step};
use crate::oci::{complete, new_folder, platforms, variant_rank};
use crate::sif::Arch;
use crate::{Error, OciDigest, Package, Result, Sha256};

/// How deep indexes may be nested.
const MAX_DEPTH: usize = 4;
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

/// Options of pulling: what is pulled, where blobs are kept, and how they are fetched.
#[derive(Clone, Copy)]
pub struct Pulling<'a> {
    /// The name of the image.
    pub reference: &'a Reference,
    /// Opens the image's registry.
    pub transport: &'a dyn Transport,
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
pub fn pull_image(arch: Arch, to: &Path, with: &Pulling<'_>) -> Result<Pulled> {
    let reference = with.reference;
    Error::unless_free(to)?;
    let remote = Remote::new(*with);
    let top = remote.registry()?.manifest()?;
    let top_digest = top.digest;
    let (document, others) = of_platform(remote.registry()?, top, arch)?;
    if !others.is_empty() {
        let (name, taken) = (reference.to_string(), format!("linux/{}", arch.name()));
        with.watch.note(&Note::OneOf { name: &name, taken: &taken, others: &others });
    }
    let fetched = new_folder(to, |dir| {
        let blobs = dir.join("blobs/sha256");
        fs::create_dir_all(&blobs).map_err(Error::io("create", &blobs))?;
        let fetched = remote.fetch(&document, Some(arch))?;
        for (sha256, path) in &fetched.blobs {
            let to = blobs.join(sha256.to_string());
            if fs::hard_link(path, &to).is_err() {
                fs::copy(path, &to).map_err(Error::io("write", &to))?;
            }
        }
        write_file(&blobs.join(document.digest.0.to_string()), &document.bytes)?;
        let entry = json!({
            "mediaType": document.media_type,
            "digest": document.digest.to_string(),
            "size": document.bytes.len(),
            "platform": { "os": "linux", "architecture": arch.name() },
            "annotations": { ANNOTATION_REF_NAME: reference.tag().unwrap_or("latest") },
        });
        let index =
            json!({ "schemaVersion": 2, "mediaType": INDEX_TYPES[0], "manifests": [entry] });
        complete(dir, &index.to_string())?;
        Ok(fetched)
    })?;
    Ok(Pulled {
        pinned: reference.pinned(top_digest).to_string(),
        top: top_digest,
        digest: document.digest,
        bytes: fetched.bytes,
        kept: fetched.kept,
        blobs: fetched.listed,
    })
}

/// Refuses to fetch more bytes than the limit.
fn within(reference: &Reference, found: u64, limit: u64) -> Result<()> {
    let (path, what) = (reference.to_string(), "bytes to fetch");
    match found > limit {
        true => Err(Error::Limit { path, what, found, limit }),
        false => Ok(()),
    }
}

/// The manifest for Linux on a processor, through indexes, and the platforms of others in them.
pub(super) fn of_platform(
    registry: &Registry<'_>,
    top: Document,
    arch: Arch,
) -> Result<(Document, Vec<String>)> {
    let reference = registry.reference();
    let (mut document, mut others) = (top, Vec::new());
    for _ in 0..MAX_DEPTH {
        if MANIFEST_TYPES.contains(&&*document.media_type) {
            return Ok((document, platforms(others)));
        }
        if !INDEX_TYPES.contains(&&*document.media_type) {
            let found = &document.media_type;
            let reason = format!("its type is `{found}`, expected an image or an index of images");
            return Err(reference.invalid(reason).into());
        }
        let index: ImageIndex = document.parse(reference)?;
        let suits = |descriptor: &&Descriptor| {
            descriptor.platform().as_ref().is_some_and(|platform| {
                *platform.os() == Os::Linux && platform.architecture().to_string() == arch.name()
            })
        };
        others.extend(index.manifests().iter().filter(|one| !suits(one)).filter_map(|other| {
            let platform = other.platform().as_ref()?;
            Some(format!("{}/{}", platform.os(), platform.architecture()))
        }));
        // The image for all processors of the kind is also that of newer ones.
        let rank = |one: &&Descriptor| {
            variant_rank(one.platform().as_ref().and_then(|platform| platform.variant().as_deref()))
        };
        let found = index.manifests().iter().filter(suits).min_by_key(rank);
        let found = found.ok_or_else(|| Error::NoImage {
            path: reference.to_string(),
            wanted: format!("for linux/{}", arch.name()),
            known: format!("for: {}", platforms(others.clone()).join(", ")),
        })?;
        document = registry.manifest_of(reference.digest_in(found)?)?;
    }
    Err(reference.invalid(format!("its indexes are nested more than {MAX_DEPTH} deep")).into())
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
            let reason = format!("the image is for {os}/{architecture}, expected linux/{name}");
            Err(reference.invalid(reason).into())
        }
        _ => Ok(()),
    }
}

fn read_config(reference: &Reference, path: &Path) -> Result<Vec<u8>> {
    let bytes = path.metadata().map_err(Error::io("read", path))?.len();
    if bytes > MAX_CONFIG {
        let reason =
            format!("its configuration has {bytes} bytes, more than the limit of {MAX_CONFIG}");
        return Err(reference.invalid(reason).into());
    }
    fs::read(path).map_err(Error::io("read", path))
}

/// The registry of a name, which is opened when it is needed.
pub(super) struct Remote<'a> {
    with: Pulling<'a>,
    registry: OnceLock<Registry<'a>>,
}

/// What an image's manifest lists, in the archives.
pub(super) struct Fetched {
    /// Files of the configuration and the layers.
    pub(super) blobs: BTreeMap<Sha256, PathBuf>,
    /// Bytes of all of them.
    bytes: u64,
    /// How many are listed.
    listed: usize,
    /// How many were there already.
    kept: usize,
}

impl<'a> Remote<'a> {
    pub(super) fn new(with: Pulling<'a>) -> Self {
        Self { with, registry: OnceLock::new() }
    }

    pub(super) fn registry(&self) -> gular_registry::Result<&Registry<'a>> {
        if let Some(registry) = self.registry.get() {
            return Ok(registry);
        }
        let registry = self.with.transport.registry(self.with.reference)?;
        Ok(self.registry.get_or_init(|| registry))
    }

    /// Fetches the configuration of an image, which must be for `arch`, and its layers.
    pub(super) fn fetch(&self, manifest: &Document, arch: Option<Arch>) -> Result<Fetched> {
        let fetched = self.fetch_all(manifest, arch);
        self.with.watch.ended(Step::Fetch);
        fetched
    }

    fn fetch_all(&self, manifest: &Document, arch: Option<Arch>) -> Result<Fetched> {
        let Pulling { reference, max_bytes, watch, .. } = self.with;
        let manifest: ImageManifest = manifest.parse(reference)?;
        let found = manifest.layers().len();
        if found > MAX_LAYERS {
            let reason = format!("it has {found} layers, more than the limit of {MAX_LAYERS}");
            return Err(reference.invalid(reason).into());
        }
        let wanted: Vec<_> = [manifest.config()].into_iter().chain(manifest.layers()).collect();
        // A manifest may say any numbers, so their sum saturates.
        let bytes = wanted.iter().fold(0_u64, |sum, blob| sum.saturating_add(blob.size()));
        within(reference, bytes, max_bytes)?;
        let (mut blobs, mut kept, mut done) = (BTreeMap::new(), 0, 0_u64);
        for (number, descriptor) in wanted.iter().enumerate() {
            let digest = reference.digest_in(descriptor)?;
            // Two layers may be the same blob.
            if let Entry::Vacant(blob) = blobs.entry(digest.0) {
                let told = |now: u64| watch.progress(Step::Fetch, done.saturating_add(now), bytes);
                let (path, was_here) = self.blob(digest, descriptor.size(), &told)?;
                if let Some(arch) = arch.filter(|_| number == 0) {
                    is_for(reference, &read_config(reference, &path)?, arch)?;
                }
                kept += usize::from(was_here);
                blob.insert(path);
            }
            done = done.saturating_add(descriptor.size());
        }
        Ok(Fetched { blobs, bytes, listed: wanted.len(), kept })
    }

    /// A blob's file, and whether it was here before.
    fn blob(
        &self,
        digest: OciDigest,
        bytes: u64,
        progress: &dyn Fn(u64),
    ) -> Result<(PathBuf, bool)> {
        let Pulling { reference, archives, watch, .. } = self.with;
        let sha256 = digest.0;
        let short: String = sha256.to_string().chars().take(12).collect();
        watch.working_on(Step::Fetch, &short);
        // As archives know a blob: called by its digest.
        let package = Package {
            name: format!("sha256:{short}"),
            version: String::new(),
            arch: None,
            bytes,
            sha256,
            urls: vec![format!("docker://{reference}/blobs/{sha256}")],
            license: None,
        };
        let was_here = archives.dir.join(sha256.to_string()).is_file();
        let told = Told { progress, waiting: &|dir| watch.note(&Note::Waiting(dir)) };
        let blob = RemoteBlob { remote: self, digest };
        Ok((archives.get(&package, &blob, told, watch.cancel())?, was_here))
    }

    /// Fetches the only layer of an artifact.
    pub(super) fn layer(&self, layer: &Descriptor) -> Result<(PathBuf, bool)> {
        let Pulling { reference, max_bytes, watch, .. } = self.with;
        within(reference, layer.size(), max_bytes)?;
        let told = |now: u64| watch.progress(Step::Fetch, now, layer.size());
        let fetched = self.blob(reference.digest_in(layer)?, layer.size(), &told);
        watch.ended(Step::Fetch);
        fetched
    }
}

/// A blob that archives do not have.
struct RemoteBlob<'r, 'a> {
    remote: &'r Remote<'a>,
    digest: OciDigest,
}

impl Stream for RemoteBlob<'_, '_> {
    fn stream(
        &self,
        _url: &str,
        bytes: u64,
        from: u64,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), TransportFault> {
        let (registry, threads) = (self.remote.registry()?, self.remote.with.threads);
        Ok(registry.stream_blob(self.digest, bytes, from, threads, sink)?)
    }
}
