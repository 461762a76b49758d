//! Images in registries that others are based on: looked up by name once, then known by digest.
//!
//! A registry is asked only for what neither the cache nor a vendor folder has.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gular_files::{persist, temp_in};
use gular_registry::{Document, MAX_MANIFEST_BYTES, Reference};
use oci_spec::image::ImageManifest;
use serde::Deserialize;

use super::Pulling;
use super::pull::{Remote, is_for, of_platform};
use crate::fetch::{Archives, Transport};
use crate::image_watch::ImageWatch;
use crate::oci::OciLayout;
use crate::sif::Arch;
use crate::{Error, OciDigest, Result, Sha256};

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
    let registry = transport.registry(reference)?;
    let (document, _) = of_platform(&registry, registry.manifest()?, arch)?;
    let parsed: ImageManifest = document.parse(reference)?;
    let digest = reference.digest_in(parsed.config())?;
    let limit = MAX_MANIFEST_BYTES as u64;
    let bytes = registry.read_blob(digest, parsed.config().size(), limit, RANGES)?;
    is_for(reference, &bytes, arch)?;
    let said: Config = serde_json::from_slice(&bytes)
        .map_err(|e| reference.invalid(format!("`{digest}`: {e}")))?;
    Ok((document.digest, said.created))
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
        let with = Pulling { reference, transport, archives, threads: RANGES, max_bytes, watch };
        let remote = Remote::new(with);
        let manifest = match archives.kept(digest.0, MAX_MANIFEST_BYTES as u64) {
            Some(bytes) => bytes,
            None if archives.offline => {
                return Err(Error::Offline { name: reference.pinned(digest).to_string() });
            }
            None => {
                let found = remote.registry()?.manifest_of(digest)?;
                archives.keep(&found.bytes)?;
                found.bytes
            }
        };
        // The type that a server names is not there the next time.
        let manifest = Document::of_its_own(manifest, digest);
        let blobs = remote.fetch(&manifest, None)?.blobs;
        Ok(Self { name: reference.pinned(digest).to_string(), manifest, blobs })
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
