//! Images in registries that others are based on: looked up by name once, then known by digest.
//!
//! A registry is asked only for what neither the cache nor a vendor folder has.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gular_files::{persist, temp_in};
use oci_spec::image::{Descriptor, ImageManifest};
use serde::Deserialize;

use super::manifest::{self, Document, MAX_BYTES};
use super::pull::{bad, blobs_of, digest_of, is_for, of_platform, parse, sum};
use super::ranges::{Ranges, fault};
use super::session::Scope;
use super::{Method, Reference, Registries, Registry, Request};
use crate::fetch::{Archives, Stream, Told, Transport, TransportFault};
use crate::image_watch::{ImageWatch, Note, Step};
use crate::oci::OciLayout;
use crate::sif::Arch;
use crate::{Error, OciDigest, Package, Result, Sha256};

/// How many ranges of a blob are fetched at a time.
const RANGES: NonZeroUsize = NonZeroUsize::new(4).expect("four is not zero");

/// The digest that an image's manifest for `arch` has today, and when its configuration says
/// that it was made.
///
/// # Errors
/// [`Error::Registry`]; [`Error::Oci`] for documents that are not what they should be;
/// [`Error::Cancelled`].
pub(crate) fn look_up(
    reference: &Reference,
    arch: Arch,
    transport: &dyn Transport,
) -> Result<(OciDigest, Option<String>)> {
    #[derive(Deserialize)]
    struct Config {
        created: Option<String>,
    }
    let registry = open(reference, transport)?;
    let repository = reference.repository();
    let top = manifest::get(&registry, repository, &reference.manifest(), reference.digest())?;
    let (document, _) = of_platform(&registry, reference, top, arch)?;
    let parsed: ImageManifest = parse(reference, &document)?;
    let config = digest_of(reference, parsed.config())?;
    let url = registry.url(repository, &format!("blobs/{config}"));
    let request = Request::new(Method::Get, &url);
    let (answer, bytes) = registry.ask(&request, &Scope::pull(repository), MAX_BYTES)?;
    if answer.status != 200 {
        return Err(registry.refused(&url, &answer));
    }
    let found = OciDigest(Sha256::of(&bytes));
    if found != config {
        return Err(registry.damaged(&url, found, config));
    }
    is_for(reference, &bytes, arch)?;
    let said: Config =
        serde_json::from_slice(&bytes).map_err(|e| bad(reference, format!("`{config}`: {e}")))?;
    Ok((document.digest, said.created))
}

fn open<'a>(reference: &Reference, transport: &'a dyn Transport) -> Result<Registry<'a>> {
    let Some(Registries { wire, env }) = transport.registries() else {
        let (what, reason) = (reference.to_string(), "this build cannot read from registries");
        return Err(Error::Registry { what, reason: reason.to_owned(), hint: None, passes: false });
    };
    Registry::open(reference, wire, env)
}

/// An image of a lock, of which everything is on this machine.
pub(crate) struct Kept {
    name: String,
    manifest: Document,
    /// Files of the image's configuration and layers, by digest.
    blobs: BTreeMap<Sha256, PathBuf>,
}

impl Kept {
    /// Fetches what `archives` does not have of the image with this manifest.
    ///
    /// # Errors
    /// [`Error::Registry`], [`Error::Offline`]; [`Error::Oci`] for a manifest that is not what
    /// it should be; [`Error::Limit`]; those of [`Archives::get`].
    pub(crate) fn fetch(
        reference: &Reference,
        digest: OciDigest,
        archives: &Archives,
        max_bytes: u64,
        transport: &dyn Transport,
        watch: &dyn ImageWatch,
    ) -> Result<Self> {
        let fetched = Source { reference, digest, archives, transport }.all(max_bytes, watch);
        watch.ended(Step::Fetch);
        fetched
    }

    /// Copies manifest and blobs into `dir`, each called by its digest: a folder of
    /// [`Archives::vendor`].
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn vendor(&self, dir: &Path) -> Result<()> {
        let manifest = dir.join(self.manifest.digest.0.to_string());
        if !manifest.exists() {
            gular_files::write_file(&manifest, &self.manifest.bytes)?;
        }
        for (sha256, from) in &self.blobs {
            let to = dir.join(sha256.to_string());
            // The file was found in this folder, where it has been checked.
            if *from == to {
                continue;
            }
            let mut temp = temp_in(dir)?;
            let copied = File::open(from).and_then(|mut from| io::copy(&mut from, &mut temp));
            copied.map_err(Error::io("write", &to))?;
            persist(temp, &to)?;
        }
        Ok(())
    }

    /// Returns a layout that contains this image alone.
    ///
    /// # Errors
    /// Those of [`OciLayout::open`].
    pub(crate) fn layout(self) -> Result<OciLayout> {
        let Document { media_type, bytes, .. } = self.manifest;
        OciLayout::of_files(&self.name, &media_type, bytes, self.blobs)
    }
}

/// One image of a registry, by the digest of its manifest.
struct Source<'a> {
    reference: &'a Reference,
    digest: OciDigest,
    archives: &'a Archives,
    transport: &'a dyn Transport,
}

impl Source<'_> {
    fn all(&self, max_bytes: u64, watch: &dyn ImageWatch) -> Result<Kept> {
        let Self { reference, archives, .. } = *self;
        watch.working_on(Step::Fetch, reference.repository());
        let manifest = self.manifest()?;
        let parsed: ImageManifest = parse(reference, &manifest)?;
        let wanted = blobs_of(reference, &parsed, max_bytes)?;
        let total = sum(&wanted);
        let (mut blobs, mut done) = (BTreeMap::new(), 0_u64);
        for descriptor in wanted {
            let told = |now: u64| {
                watch.progress(Step::Fetch, done.saturating_add(now), total);
            };
            let told = Told { progress: &told, waiting: &|dir| watch.note(&Note::Waiting(dir)) };
            let package = self.package(descriptor)?;
            let blob = Blob { source: self, digest: package.sha256.into() };
            let path = archives.get(&package, &blob, told, watch.cancel())?;
            blobs.insert(package.sha256, path);
            done = done.saturating_add(descriptor.size());
        }
        Ok(Kept { name: reference.pinned(self.digest).to_string(), manifest, blobs })
    }

    /// The manifest, as it was kept or from the registry.
    fn manifest(&self) -> Result<Document> {
        let Self { reference, digest, archives, transport } = *self;
        if let Some(bytes) = archives.kept(digest.0, MAX_BYTES as u64) {
            return Ok(Document::of_its_own(bytes, digest));
        }
        if archives.offline {
            return Err(Error::Offline { name: reference.pinned(digest).to_string() });
        }
        let registry = open(reference, transport)?;
        let (repository, name) = (reference.repository(), digest.to_string());
        let document = manifest::get(&registry, repository, &name, Some(digest))?;
        archives.keep(&document.bytes)?;
        // The type that a server names is not there the next time.
        Ok(Document::of_its_own(document.bytes, digest))
    }

    /// A blob as archives know it: called by its digest.
    fn package(&self, descriptor: &Descriptor) -> Result<Package> {
        let sha256 = digest_of(self.reference, descriptor)?.0;
        let short: String = sha256.to_string().chars().take(12).collect();
        Ok(Package {
            name: format!("sha256:{short}"),
            version: String::new(),
            arch: None,
            bytes: descriptor.size(),
            sha256,
            urls: vec![format!("docker://{}/blobs/{sha256}", self.reference)],
            license: None,
        })
    }
}

/// One blob: the registry is opened when its bytes are asked for.
struct Blob<'a> {
    source: &'a Source<'a>,
    digest: OciDigest,
}

impl Stream for Blob<'_> {
    fn stream(
        &self,
        url: &str,
        bytes: u64,
        from: u64,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), TransportFault> {
        let Source { reference, transport, .. } = *self.source;
        let registry = open(reference, transport).map_err(|error| fault(&error))?;
        let (repository, digest) = (reference.repository(), self.digest);
        let ranges = Ranges { registry: &registry, repository, digest, threads: RANGES };
        ranges.stream(url, bytes, from, sink)
    }
}
