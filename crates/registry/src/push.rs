//! Sends blobs to a registry, then the manifest that names them.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use gular_pelican::Watch;
use serde::Serialize;

use crate::upload::{Sent, Uploads};
use crate::{Blob, Error, OciDigest, Reference, Registry, Result, Sha256};

/// Options of pushing.
#[derive(Clone)]
pub struct Pushing<'a> {
    /// The registry, opened with the name that is given to what is pushed.
    pub registry: &'a Registry<'a>,
    /// A repository of the same registry that may have blobs of it.
    pub mount_from: Option<&'a str>,
    /// The folder with the state of unfinished uploads, with which they resume after a kill.
    pub uploads: PathBuf,
    /// Blobs sent at a time.
    pub jobs: NonZeroUsize,
    /// Follows the push: bytes of all blobs.
    pub watch: Watch<'a>,
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

impl Pushed {
    /// The same for another digest of what has this name.
    pub(crate) fn named(self, to: &Reference, digest: OciDigest) -> Self {
        Self { pinned: to.pinned(digest).to_string(), digest, ..self }
    }
}

/// Sends blobs and then the manifest that names them. Whoever sees the manifest can fetch all that
/// it names.
///
/// # Errors
/// [`Error::Invalid`] when the registry's name has another digest; [`Error::Unusable`],
/// [`Error::Changed`], [`Error::Cancelled`].
pub fn push(
    blobs: &[Blob],
    media_type: &str,
    manifest: &[u8],
    with: &Pushing<'_>,
) -> Result<Pushed> {
    let to = with.registry.reference();
    let digest = OciDigest(Sha256::of(manifest));
    to.check(digest)?;
    let pushed = send_blobs(blobs, digest, false, with)?;
    with.registry.put(digest, media_type, manifest)?;
    Ok(pushed)
}

/// Sends the blobs of the manifest with this digest; with `dry_run` only looks for those that are
/// missing.
pub(crate) fn send_blobs(
    blobs: &[Blob],
    digest: OciDigest,
    dry_run: bool,
    with: &Pushing<'_>,
) -> Result<Pushed> {
    let Pushing { registry, mount_from, watch, .. } = *with;
    let uploads = Uploads { registry, mount_from, dir: with.uploads.clone(), watch };
    let bytes = blobs.iter().map(|blob| blob.len_bytes).sum();
    let pinned = registry.reference().pinned(digest).to_string();
    let (blobs_len, sent, resumed, there, mounted) = (blobs.len(), 0, 0, 0, 0);
    let pushed = Pushed { pinned, digest, bytes, sent, resumed, blobs: blobs_len, there, mounted };
    let pushed = Mutex::new(pushed);
    // For each blob, the number of its bytes that are in the registry.
    let done: Vec<AtomicU64> = blobs.iter().map(|_| AtomicU64::new(0)).collect();
    let numbered: Vec<(&Blob, &AtomicU64)> = blobs.iter().zip(&done).collect();
    let send = |(blob, bytes_there): &(&Blob, &AtomicU64), _: &AtomicBool| -> Result<()> {
        let progress = |now: u64| {
            bytes_there.store(now, Ordering::Relaxed);
            (watch.progress)(done.iter().map(|done| done.load(Ordering::Relaxed)).sum(), bytes);
        };
        let became = match dry_run {
            false => uploads.send(blob, &progress)?,
            true if uploads.has(blob.digest)? => Sent::There,
            true => Sent::Uploaded { bytes: blob.len_bytes, resumed: 0 },
        };
        progress(blob.len_bytes);
        let mut pushed = pushed.lock().unwrap_or_else(PoisonError::into_inner);
        match became {
            Sent::There => pushed.there += 1,
            Sent::Mounted => pushed.mounted += 1,
            Sent::Uploaded { bytes, resumed } => {
                pushed.sent += bytes;
                pushed.resumed += resumed;
            }
        }
        Ok(())
    };
    gular_files::parallel(&numbered, with.jobs.get(), watch.cancel, send)?;
    match watch.is_cancelled() {
        true => Err(Error::Cancelled),
        false => Ok(pushed.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}
