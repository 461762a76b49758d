//! One plain object that is no bundle.

use std::path::{Path, PathBuf};
use std::time::Instant;

use gular_bundle::{Digest, StreamDigest};
use gular_pelican::{BLOCK_BYTES, Client, Object};

use super::disk::{FolderLock, Partial, free_bytes};
use super::report::FetchReport;
use crate::{BundleUrl, Error, Watch};

/// Fetches the object at `url` to `dir/NAME`.
///
/// Nothing but its digest can tell whether what a killed run left is right, so that
/// is kept only when `url` has one.
///
/// # Errors
/// [`Error::NoSpace`], [`Error::Occupied`], [`Error::Pelican`], [`Error::ObjectDigest`], [`Error::Io`].
pub fn fetch_object(
    client: &Client,
    url: &BundleUrl,
    len_bytes: u64,
    dir: &Path,
    dry_run: bool,
    watch: Watch<'_>,
) -> Result<(FetchReport, PathBuf), Error> {
    let start = Instant::now();
    let to = dir.join(url.url.name());
    let report = |digest: Option<Digest>, fetched: u64| FetchReport {
        url: url.clone(),
        digest,
        dir: dir.to_owned(),
        files: 1,
        bytes: len_bytes,
        bytes_fetched: fetched,
        bytes_kept: len_bytes.saturating_sub(fetched),
        dry_run,
        seconds: start.elapsed().as_secs_f64(),
    };
    if let Some(free) = free_bytes(dir).filter(|free| *free < len_bytes) {
        return Err(Error::NoSpace { dir: dir.display().to_string(), needed: len_bytes, free });
    }
    if dry_run {
        return Ok((report(url.digest, len_bytes), to));
    }
    std::fs::create_dir_all(dir).map_err(|e| Error::io("create", dir, e))?;
    let lock = FolderLock::wait(dir, &|| watch.cancelled())?;
    if let Some(expected) = url.digest.filter(|_| to.is_file())
        && digest_of(&to)? == expected
    {
        return Ok((report(url.digest, 0), to));
    }
    if to.exists() || url.url.name().is_empty() {
        let (path, url) = (to.display().to_string(), url.to_string());
        return Err(Error::Occupied { path, url });
    }
    // Without a digest nothing says that what a killed run left is right.
    let mut trusted = url.digest.is_some();
    loop {
        let mut partial = Partial::open(&to)?;
        let hasher = std::cell::RefCell::new(StreamDigest::new());
        let kept = |_: u64, bytes: &[u8]| {
            hasher.borrow_mut().update(bytes);
            true
        };
        let limit = if trusted { len_bytes } else { 0 };
        let blocks = partial.keep_sound(limit, BLOCK_BYTES, &kept)?;
        let there = blocks.saturating_mul(BLOCK_BYTES as u64).min(len_bytes);
        let mut hasher = hasher.into_inner();
        let object = Object { url: &url.url, len_bytes, accepts: &|_, _| true };
        let mut sink = |position: u64, bytes: &[u8]| {
            hasher.update(bytes);
            partial.write(position, bytes)?;
            (watch.progress)(position + bytes.len() as u64, len_bytes);
            Ok(())
        };
        if there < len_bytes || len_bytes == 0 {
            client.stream(&object, blocks, &mut sink, watch.cancel)?;
        }
        let found = hasher.finish();
        match url.digest {
            Some(expected) if expected != found => {
                let _ = std::fs::remove_file(Partial::temp_of(&to));
                if there == 0 {
                    return Err(Error::ObjectDigest { url: url.url.to_string(), expected, found });
                }
                // What had been left was not its beginning: once more, from the start.
                trusted = false;
            }
            _ => {
                partial.finish()?;
                drop(lock);
                return Ok((report(Some(found), len_bytes - there), to));
            }
        }
    }
}

fn digest_of(path: &Path) -> Result<Digest, Error> {
    let mut hasher = StreamDigest::new();
    let source = gular_bundle::ReadAt::open(path, gular_bundle::Backend::Pread)?;
    let mut piece = vec![0; BLOCK_BYTES];
    let mut position = 0;
    while position < source.len_bytes() {
        let n = (source.len_bytes() - position).min(BLOCK_BYTES as u64);
        let part = piece.get_mut(..usize::try_from(n).unwrap_or(0)).unwrap_or_default();
        source.read_at(position, part)?;
        hasher.update(part);
        position += n;
    }
    Ok(hasher.finish())
}
