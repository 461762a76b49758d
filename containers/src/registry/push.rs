//! Pushes an image to a registry: its blobs, then its manifest.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::Serialize;

use super::manifest;
use super::upload::{Sent, Uploads};
use super::{Reference, Registry};
use crate::blob::Blob;
use crate::image_watch::{ImageWatch, Step};
use crate::oci::{OciImage, OciLayout};
use crate::{Error, OciDigest, Result};

/// Options of pushing.
#[derive(Clone)]
pub struct Pushing<'a> {
    /// The registry of `to`.
    pub registry: &'a Registry<'a>,
    /// The name that the image gets.
    pub to: &'a Reference,
    /// A repository of the same registry that may have blobs of it.
    pub mount_from: Option<&'a str>,
    /// The folder with the state of unfinished uploads, with which they resume after a kill.
    pub uploads: PathBuf,
    /// Blobs sent at a time.
    pub jobs: NonZeroUsize,
    /// The callbacks that watch the push, and may stop it.
    pub watch: &'a dyn ImageWatch,
}

/// The result of pushing; also its JSON form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pushed {
    /// Name of the image, with its digest.
    pub pinned: String,
    /// Digest of the image's manifest.
    pub digest: OciDigest,
    /// Bytes of the image's blobs.
    pub bytes: u64,
    /// Bytes that this run sent.
    pub sent: u64,
    /// Bytes of interrupted uploads that this run continued.
    pub resumed: u64,
    /// Number of blobs of the image, including those that were there already or were mounted.
    pub blobs: usize,
    /// Number of blobs that the repository already had.
    pub there: usize,
    /// Number of blobs that were mounted from another repository.
    pub mounted: usize,
}

/// Pushes an image of a layout. Whoever sees its manifest can fetch all that it names.
///
/// # Errors
/// [`Error::Registry`]; [`Error::Oci`] for a layout that is not whole; [`Error::Cancelled`].
pub fn push_image(layout: &OciLayout, image: &OciImage, with: &Pushing<'_>) -> Result<Pushed> {
    let (media_type, manifest) = layout.manifest(image)?;
    let blobs = layout.blobs_of(image)?;
    push(&blobs, &media_type, &manifest, with)
}

/// Counts of blobs and bytes that were sent, or were in the registry already.
pub(super) struct Totals {
    bytes: u64,
    sent: u64,
    resumed: u64,
    blobs: usize,
    there: usize,
    mounted: usize,
}

impl Totals {
    /// Returns the result for the name `to` and this digest.
    pub(super) fn of(self, to: &Reference, digest: OciDigest) -> Pushed {
        let Self { bytes, sent, resumed, blobs, there, mounted } = self;
        let pinned = to.pinned(digest).to_string();
        Pushed { pinned, digest, bytes, sent, resumed, blobs, there, mounted }
    }
}

/// Sends blobs and then the manifest that names them.
pub(super) fn push(
    blobs: &[Blob],
    media_type: &str,
    manifest: &[u8],
    with: &Pushing<'_>,
) -> Result<Pushed> {
    let Pushing { registry, to, .. } = *with;
    let digest = OciDigest(crate::Sha256::of(manifest));
    to.check(digest)?;
    let totals = send_blobs(blobs, false, with)?;
    let name = to.tag().map_or_else(|| digest.to_string(), str::to_owned);
    manifest::put(registry, to.repository(), &name, media_type, manifest)?;
    Ok(totals.of(to, digest))
}

/// Sends blobs; with `dry_run` only looks for those that are missing.
pub(super) fn send_blobs(blobs: &[Blob], dry_run: bool, with: &Pushing<'_>) -> Result<Totals> {
    let Pushing { registry, to, watch, .. } = *with;
    let uploads = Uploads {
        registry,
        repository: to.repository(),
        mount_from: with.mount_from,
        dir: with.uploads.clone(),
        watch,
    };
    let bytes: u64 = blobs.iter().map(|blob| blob.bytes).sum();
    let (there, mounted) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (sent, resumed) = (AtomicU64::new(0), AtomicU64::new(0));
    // For each blob, the number of its bytes that are in the registry.
    let done: Vec<AtomicU64> = blobs.iter().map(|_| AtomicU64::new(0)).collect();
    let numbered: Vec<(&Blob, &AtomicU64)> = blobs.iter().zip(&done).collect();
    let told = || watch.progress(Step::Push, done.iter().map(load).sum(), bytes);
    let worked = gular_files::parallel(
        &numbered,
        with.jobs.get(),
        watch.cancel(),
        |(blob, done), _| -> Result<()> {
            let progress = |now: u64| {
                done.store(now, Ordering::Relaxed);
                told();
            };
            let became = match dry_run {
                false => uploads.send(blob, &progress)?,
                true if uploads.has(blob.digest)? => Sent::There,
                true => Sent::Uploaded { bytes: blob.bytes, resumed: 0 },
            };
            match became {
                Sent::There => there.fetch_add(1, Ordering::Relaxed),
                Sent::Mounted => mounted.fetch_add(1, Ordering::Relaxed),
                Sent::Uploaded { bytes, resumed: before } => {
                    sent.fetch_add(bytes, Ordering::Relaxed);
                    resumed.fetch_add(before, Ordering::Relaxed);
                    0
                }
            };
            progress(blob.bytes);
            Ok(())
        },
    );
    watch.ended(Step::Push);
    worked?;
    if watch.cancel().load(Ordering::Relaxed) {
        return Err(Error::Cancelled);
    }
    Ok(Totals {
        bytes,
        sent: load(&sent),
        resumed: load(&resumed),
        blobs: blobs.len(),
        there: there.into_inner(),
        mounted: mounted.into_inner(),
    })
}

fn load(number: &AtomicU64) -> u64 {
    number.load(Ordering::Relaxed)
}
