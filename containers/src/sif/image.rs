//! Writes a whole image: the root file system as SquashFS inside a SIF.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::squash::{Squashed, Watch, settings, squash};
use super::{Arch, ObjectKind, Settings, Writer};
use crate::blocks::{BlockCache, EarlierBlocks};
use crate::rootfs::{Rootfs, identify};
use crate::{Error, Result, UnixTime};

/// How the root file system is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Squash {
    /// Every runtime mounts it.
    Gzip,
    /// Faster to write and to read; refused by Apptainer before 1.4.
    Zstd,
}

/// The parts of the file besides the root file system.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'a> {
    /// Processor of its programs.
    pub arch: Arch,
    /// Time of its making and of all files inside, which SquashFS has in 32 bits:
    /// [`UnixTime::clamped_to_u32`].
    pub time: UnixTime,
    /// The recipe's text.
    pub recipe: &'a str,
    /// The text that `apptainer inspect` reads: see [`describe`](crate::singularity::describe).
    pub metadata: &'a str,
    /// The list of contents: SPDX as JSON.
    pub sbom: Option<&'a str>,
    /// How the root file system is compressed.
    pub squash: Squash,
    /// Threads that compress; they change no byte.
    pub threads: NonZeroUsize,
    /// Blocks of earlier images, and where to keep this one's; it changes no byte.
    pub blocks: Option<&'a BlockCache>,
}

/// An image that was written.
#[derive(Debug)]
#[non_exhaustive]
pub struct WrittenSif {
    /// The file's length in bytes.
    pub bytes: u64,
    /// Bytes of files whose blocks came from the cache.
    pub reused: u64,
    /// Why its blocks are not in the cache, when they should be.
    pub not_kept: Option<Error>,
}

/// Writes a SIF to `to`, which must not exist: under another name first, then renamed. `progress`
/// is called with the number of bytes of the tree's files that are written; once `cancel` is set,
/// writing stops within a megabyte or so.
///
/// # Errors
/// [`Error::Exists`]; [`Error::Changed`] or [`Error::Damaged`] when a file has changed;
/// [`Error::Squash`] when the tree cannot be squashed; [`Error::Cancelled`]; [`Error::Write`] and
/// [`Error::Io`]. After an error, there is no file at `to`.
pub fn write_image(
    tree: &Rootfs,
    contents: &Contents<'_>,
    to: &Path,
    progress: &(dyn Fn(u64) + Sync),
    cancel: &AtomicBool,
) -> Result<WrittenSif> {
    Error::unless_free(to)?;
    let parent = gular_files::folder_of(to);
    std::fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    // The file is executable, as Apptainer's are, since a SIF can be run like a program.
    let temp = gular_files::temp_with_mode(parent, 0o755)?;
    let file = temp.reopen().map_err(Error::io("open", to))?;
    let watch = Watch::new(progress, cancel);
    let lent = contents.blocks.map(BlockCache::lend).unwrap_or_default();
    let (file, squashed) = fill(tree, contents, file, &lent, &watch)?;
    file.sync_all().map_err(Error::io("write", to))?;
    watch.check()?;
    let bytes = file.metadata().map_err(Error::io("read", to))?.len();
    let image = gular_files::persist_new(temp, to)?;
    // The image is there, whatever becomes of the cache.
    let not_kept = contents.blocks.and_then(|blocks| {
        blocks.keep(&lent, (to, &image), squashed.lendable, contents.threads).err()
    });
    Ok(WrittenSif { bytes, reused: squashed.reused, not_kept })
}

fn fill(
    tree: &Rootfs,
    contents: &Contents<'_>,
    file: File,
    lent: &EarlierBlocks,
    watch: &Watch<'_>,
) -> Result<(File, Squashed)> {
    let failed = |source: io::Error| Error::Write { source };
    let settings = Settings { arch: contents.arch, time: contents.time.clamped_to_u32().into() };
    let mut sif = Writer::new(file, settings).map_err(failed)?;
    sif.add(ObjectKind::Deffile, "deffile", contents.recipe.as_bytes()).map_err(failed)?;
    let metadata = contents.metadata.as_bytes();
    sif.add(ObjectKind::Json, "inspect-metadata.json", metadata).map_err(failed)?;
    if let Some(sbom) = contents.sbom {
        sif.add(ObjectKind::SpdxJson, "sbom.spdx.json", sbom.as_bytes()).map_err(failed)?;
    }
    sif.start(ObjectKind::RootPartition(contents.arch), "root.squashfs").map_err(failed)?;
    sif.stand_for(&identity(tree, contents)?);
    let start = sif.position();
    let mut squashed = squash(tree, contents, &mut sif, lent, watch)?;
    squashed.lendable.iter_mut().for_each(|file| file.start += start);
    sif.end(&squashed.superblock);
    Ok((sif.finish().map_err(failed)?, squashed))
}

/// Changes when the root file system's bytes would, of the same tree.
const PACKER: u32 = 1;

/// Returns a digest of all that decides the root file system's bytes. To hash those, too, would
/// take a fifth of the time of an image whose blocks are all there already.
fn identity(tree: &Rootfs, contents: &Contents<'_>) -> Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(
        format!("{PACKER} {} {}\n", settings(contents), contents.time.clamped_to_u32()).as_bytes(),
    );
    identify(&mut hasher, tree.iter())?;
    Ok(*hasher.finalize().as_bytes())
}
