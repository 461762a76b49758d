//! Unpacks layers into the store, and merges them.

use std::collections::BTreeSet;
use std::io::{self, Read};

use super::blobs::{Blobs, Expected, Hashing};
use super::image::{LayerBlob, OciImage, OciLayout};
use crate::rootfs::{Layer, RootPath, Rootfs};
use crate::store::{LeftOut, Limits, Listing, MemberKind, Store, each_path, unpack_tar};
use crate::{Error, Result, Sha256};

/// Most bytes that may follow a layer's last member: tar pads to records of some kilobytes.
const MAX_PADDING: u64 = 64 << 20;

/// Which part of a new image the layers of another one become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayersAs {
    /// The base, all of them: something is built on the image.
    Base,
    /// The layers have the parts that this library gave them when it wrote the image.
    AsWritten,
}

impl OciLayout {
    /// Returns the image's layers, which are unpacked into the store first if necessary. Limits
    /// hold for all of them together. Every blob is read, whatever the store has.
    ///
    /// # Errors
    /// [`Error::Oci`] for a blob that is missing or not what its digests say, or a
    /// compression that is not known; those of [`unpack_tar`].
    pub fn unpack(&self, image: &OciImage, store: &Store, limits: &Limits) -> Result<Vec<Listing>> {
        let mut left = *limits;
        let mut listings = Vec::new();
        for layer in &image.layers {
            let mut was_there = true;
            // The number changes if a listing has more than it had.
            let key = format!("{}-layer-2", layer.diff_id);
            let unpacked = store.listing(&key, |filling| {
                was_there = false;
                let blobs = &self.blobs;
                let name = format!("layer sha256:{}", layer.sha256);
                self.read(layer, &left, |tar| unpack_tar(filling, tar, &name, true, &left))
                    .map_err(|e| named(blobs, &name, e))
            });
            let listing = unpacked.map_err(|e| whole(e, limits))?;
            if was_there {
                // The store answers for the files, not for this copy of the image.
                let expected = expected(layer);
                self.blobs.finish(self.blobs.blob(&expected)?, &expected)?;
            }
            let size = |kind: &MemberKind| {
                if let MemberKind::File(_, bytes, _) = kind { *bytes } else { 0 }
            };
            let bytes: u64 = listing.entries.iter().map(|entry| size(&entry.kind)).sum();
            left.bytes = left.bytes.saturating_sub(bytes);
            left.entries = left.entries.saturating_sub(listing.entries.len() as u64);
            listings.push(listing);
        }
        Ok(listings)
    }

    /// The image's files.
    ///
    /// # Errors
    /// Those of [`unpack`](Self::unpack) and [`Listing::lay_over`].
    pub fn rootfs(
        &self,
        image: &OciImage,
        store: &Store,
        limits: &Limits,
        parts: LayersAs,
    ) -> Result<Rootfs> {
        Ok(self.laid(image, store, limits, parts)?.0)
    }

    /// Returns the image's files, and a list of what its layers contain that cannot be kept: each
    /// path once, of those that are in the image or would be.
    ///
    /// # Errors
    /// Those of [`rootfs`](Self::rootfs).
    pub fn laid(
        &self,
        image: &OciImage,
        store: &Store,
        limits: &Limits,
        parts: LayersAs,
    ) -> Result<(Rootfs, Vec<LeftOut>)> {
        let mut tree = Rootfs::default();
        let mut left_out = BTreeSet::new();
        let listings = self.unpack(image, store, limits)?;
        for (listing, layer) in listings.iter().zip(&image.layers) {
            let part = layer.part.filter(|_| parts == LayersAs::AsWritten).unwrap_or(Layer::Base);
            listing.lay_over(&mut tree, part)?;
            left_out.extend(listing.left_out());
        }
        // An attribute or time of what a later layer removed is missed by nobody.
        left_out.retain(|left: &LeftOut| {
            let is_there = |path| tree.get(&path).is_some();
            let is_of_node = ["attribute ", "time "].iter().any(|what| left.what.starts_with(what));
            !is_of_node || RootPath::new(&left.path).is_ok_and(is_there)
        });
        Ok((tree, left_out.into_iter().collect()))
    }

    /// Whether a path in one of the image's layers is `wanted`. The layers are decompressed, but
    /// not kept.
    ///
    /// # Errors
    /// Those of [`unpack`](Self::unpack), except that digests are not checked, since nobody relies on the
    /// bytes.
    pub(crate) fn has_path(
        &self,
        image: &OciImage,
        limits: &Limits,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<bool> {
        for layer in &image.layers {
            let mut blob = self.blobs.blob(&expected(layer))?;
            let mut found = false;
            let name = format!("layer sha256:{}", layer.sha256);
            let mut tar = self.plain(layer, &mut blob)?;
            each_path(&mut tar, &name, limits, |path| found |= wanted(path))
                .map_err(|e| named(&self.blobs, &name, e))?;
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives a layer's tar to `unpack`, and compares both digests with what was read.
    fn read(
        &self,
        layer: &LayerBlob,
        limits: &Limits,
        unpack: impl FnOnce(&mut dyn Read) -> Result<()>,
    ) -> Result<()> {
        let expected = expected(layer);
        let mut blob = self.blobs.blob(&expected)?;
        let unpacked = self.plain(layer, &mut blob).and_then(|plain| {
            let mut tar = Hashing::new(plain);
            unpack(&mut tar)?;
            let read = tar.bytes;
            let most = read.saturating_add(MAX_PADDING.min(limits.bytes.max(1 << 20)));
            let diff_id = padding(tar, most).map_err(|e| self.blobs.bad(e.to_string()))?;
            if diff_id != layer.diff_id {
                let expected = layer.diff_id;
                return Err(self.blobs.bad(format!(
                    "its unpacked bytes have SHA-256 {diff_id}, expected {expected}, its diff ID"
                )));
            }
            Ok(())
        });
        // Damage is reported first, since it explains other errors.
        match unpacked {
            Err(e @ (Error::Limit { .. } | Error::Io(_))) => Err(e),
            unpacked => self.blobs.finish(blob, &expected).and(unpacked),
        }
    }

    fn plain<'a>(&self, layer: &LayerBlob, blob: &'a mut dyn Read) -> Result<Box<dyn Read + 'a>> {
        let media = layer.media_type.as_str();
        let buffered = io::BufReader::with_capacity(256 << 10, blob);
        Ok(match layer.compression() {
            "gzip" => Box::new(flate2::bufread::MultiGzDecoder::new(buffered)),
            "zstd" => {
                let decoder = zstd::Decoder::with_buffer(buffered);
                Box::new(decoder.map_err(|source| Error::Read { path: media.to_owned(), source })?)
            }
            "tar" => Box::new(buffered),
            _ => {
                let reason = format!(
                    "layer sha256:{} has the type `{media}`, expected a tar, uncompressed or compressed by gzip or zstd",
                    layer.sha256
                );
                return Err(self.blobs.bad(reason));
            }
        })
    }
}

fn expected(layer: &LayerBlob) -> Expected {
    Expected { sha256: layer.sha256, bytes: layer.bytes }
}

/// Reads what follows the archive, up to so many bytes in all.
fn padding<R: Read>(mut tar: Hashing<R>, most: u64) -> io::Result<Sha256> {
    let left = most.saturating_sub(tar.bytes);
    io::copy(&mut (&mut tar).take(left), &mut io::sink())?;
    if tar.bytes >= most && tar.read(&mut [0])? > 0 {
        return Err(io::Error::other("too many bytes follow its last file"));
    }
    tar.finish()
}

/// An archive's error, with the image's path and the layer's digest.
fn named(blobs: &Blobs, layer: &str, error: Error) -> Error {
    match error {
        Error::Archive { reason, .. } => blobs.bad(format!("{layer}: {reason}")),
        Error::Path { path, reason } => blobs.bad(format!("{layer}: `{path}`: {reason}")),
        other => other,
    }
}

/// Replaces the remaining limit in an error by the whole one, and counts the layers before, too.
fn whole(error: Error, limits: &Limits) -> Error {
    match error {
        Error::Limit { path, what, found, limit: left } => {
            let limit = match what {
                "bytes" => limits.bytes,
                "files and folders" => limits.entries,
                _ => left,
            };
            let before = limit.saturating_sub(left);
            Error::Limit { path, what, found: found.saturating_add(before), limit }
        }
        other => other,
    }
}
