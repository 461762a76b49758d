//! Writes images to the disk, named by their contents.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use super::{AssembledImage, ImageFormat};
use crate::blocks::BlockCache;
use crate::hash_file::blake3_of;
use crate::oci::{self, Compressor, Config, LayerCache};
use crate::rootfs::{Rootfs, What};
use crate::sif::{self, Contents, Squash};
use crate::{Error, ImageDigest, OciDigest, Result};

/// Hexadecimal digits of a digest in a name: 64 bits, as in the names of shards.
const NAME_DIGITS: usize = 16;

/// A file or folder that was written, or existed already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Output {
    /// File format of the image.
    pub format: ImageFormat,
    /// The path of the file or folder.
    pub path: PathBuf,
    /// Bytes of the file, or of all files of the folder.
    pub bytes: u64,
    /// The digest that identifies the image.
    pub digest: ImageDigest,
    /// The layers of an OCI image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<OutputLayer>,
    /// Whether the same file or folder was there already.
    pub was_there: bool,
    /// Why the image's blocks are not in the cache, if they should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_cached: Option<String>,
}

/// A layer of an OCI image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputLayer {
    /// Name of the layer: `base`, `packages`, `cuda`, `libtorch`, `python`, `run` or `app`.
    pub name: &'static str,
    /// Digest of the layer's uncompressed tar.
    pub diff_id: OciDigest,
    /// Digest of the layer's blob.
    pub digest: OciDigest,
    /// Bytes of the layer's blob.
    pub bytes: u64,
}

/// How images are written.
#[derive(Clone, Copy)]
pub struct Writing<'a> {
    /// The folder they go to.
    pub dir: &'a Path,
    /// Compression of a SIF's files.
    pub squash: Squash,
    /// Compression of OCI layers.
    pub compressor: Compressor,
    /// Threads that compress; they change no byte.
    pub jobs: NonZeroUsize,
    /// Compressed blocks of earlier SIFs.
    pub blocks: Option<&'a BlockCache>,
    /// Layers of earlier images.
    pub layers: Option<&'a LayerCache>,
    /// Is called with the number of bytes of files that were read.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// Set when the work is to stop.
    pub cancel: &'a AtomicBool,
}

impl AssembledImage {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.tree.bytes()
    }

    /// Number of the image's files.
    pub fn files(&self) -> u64 {
        self.tree.iter().filter(|(_, node)| matches!(node.what, What::File(_))).count() as u64
    }

    /// Writes the list of an image's contents (SPDX) beside the image.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_sbom(&self, beside: &Output) -> Result<PathBuf> {
        let name = beside.path.file_name().unwrap_or_default().to_string_lossy();
        let stem = [".sif", ".oci.tar", ".oci"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let dir = gular_files::folder_of(&beside.path);
        let path = dir.join(format!("{}.spdx.json", stem.unwrap_or(&name)));
        gular_files::write_file(&path, self.sbom.as_bytes())?;
        Ok(path)
    }

    /// Writes the image in one format, under a name that contains its digest.
    ///
    /// # Errors
    /// Those of [`sif::write_image`], [`oci::write_layout`] and [`oci::write_archive`];
    /// [`Error::Other`] when something else has its name.
    pub fn write(&self, format: ImageFormat, with: &Writing<'_>) -> Result<Output> {
        match format {
            ImageFormat::Sif => self.write_sif(with),
            ImageFormat::Oci => self.write_oci(with, format, "oci", oci::write_layout),
            ImageFormat::OciArchive => self.write_oci(with, format, "oci.tar", oci::write_archive),
        }
    }

    fn write_sif(&self, with: &Writing<'_>) -> Result<Output> {
        let contents = Contents {
            arch: self.arch,
            time: self.time,
            recipe: &self.recipe,
            metadata: &self.metadata,
            sbom: Some(&self.sbom),
            squash: with.squash,
            threads: with.jobs,
            blocks: with.blocks,
        };
        write_sif(&self.tree, &contents, Named::ByContent(&self.name), with)
    }

    fn write_oci(
        &self,
        with: &Writing<'_>,
        format: ImageFormat,
        suffix: &str,
        write: fn(&Rootfs, &Config<'_>, &Path) -> Result<oci::WrittenOci>,
    ) -> Result<Output> {
        let config = Config {
            tag: "latest",
            arch: self.arch,
            time: self.time,
            command: &self.command,
            env: &self.env,
            labels: &self.labels,
            base: self.base.as_deref(),
            compressor: with.compressor,
            threads: with.jobs,
            layers: with.layers,
            progress: with.progress,
            cancel: with.cancel,
        };
        fs::create_dir_all(with.dir).map_err(Error::io("create", with.dir))?;
        let scratch = tempfile::Builder::new().prefix(".gular-").tempdir_in(with.dir);
        let scratch = scratch.map_err(Error::io("create", with.dir))?;
        let part = scratch.path().join("image");
        let written = write(&self.tree, &config, &part)?;
        let digest = ImageDigest::Oci(written.digest);
        let path = with.dir.join(format!("{}-{}.{suffix}", self.name, short(digest)));
        let same = || Ok(bytes_below(&path)? == bytes_below(&part)?);
        let was_there = settle(&part, &path, same)?;
        let layers = written.layers.into_iter().map(|(layer, diff_id, digest, bytes)| {
            OutputLayer { name: layer.name(), diff_id, digest, bytes }
        });
        Ok(Output {
            format,
            bytes: bytes_below(&path)?,
            path,
            digest,
            layers: layers.collect(),
            was_there,
            not_cached: None,
        })
    }
}

/// How an image's file is named.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Named<'a> {
    /// This text and the image's digest.
    ByContent(&'a str),
    /// The name that the user asked for.
    As(&'a str),
}

/// Writes a SIF into the folder that `with` names.
pub(crate) fn write_sif(
    tree: &Rootfs,
    contents: &Contents<'_>,
    named: Named<'_>,
    with: &Writing<'_>,
) -> Result<Output> {
    fs::create_dir_all(with.dir).map_err(Error::io("create", with.dir))?;
    let scratch = tempfile::Builder::new().prefix(".gular-").tempdir_in(with.dir);
    let scratch = scratch.map_err(Error::io("create", with.dir))?;
    let part = scratch.path().join("image.sif");
    let written = sif::write_image(tree, contents, &part, with.progress, with.cancel)?;
    let hash = blake3_of(&part)?;
    let digest = ImageDigest::Sif(hash);
    let path = with.dir.join(match named {
        Named::ByContent(name) => format!("{name}-{}.sif", short(digest)),
        Named::As(name) => name.to_owned(),
    });
    let was_there = settle(&part, &path, || Ok(blake3_of(&path)? == hash))?;
    Ok(Output {
        format: ImageFormat::Sif,
        path,
        bytes: written.bytes,
        digest,
        layers: Vec::new(),
        was_there,
        not_cached: written.not_kept.map(|error| error.to_string()),
    })
}

/// Returns a SIF's name for places where names are never reused: `NAME-HASH.sif`, of its own name
/// and its digest. A name that has the digest already stays.
///
/// # Errors
/// [`Error::Io`].
pub fn name_by_content(path: &Path) -> Result<String> {
    let hash = short(ImageDigest::Sif(blake3_of(path)?));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_hash =
        |word: &str| word.len() == NAME_DIGITS && word.bytes().all(|b| b.is_ascii_hexdigit());
    let name = match stem.rsplit_once('-') {
        Some((name, word)) if is_hash(word) => name,
        _ => &stem,
    };
    Ok(format!("{name}-{hash}.sif"))
}

/// The part of a digest that goes into a name.
fn short(digest: ImageDigest) -> String {
    digest.hex().chars().take(NAME_DIGITS).collect()
}

/// Moves what was written to its final name. An existing file is never replaced, since
/// somebody may have signed it: `same` says whether it has the same content; if not, that is an error.
fn settle(part: &Path, path: &Path, same: impl Fn() -> Result<bool>) -> Result<bool> {
    if path.symlink_metadata().is_err() {
        match fs::rename(part, path) {
            Ok(()) => {
                gular_files::sync_folder(gular_files::folder_of(path))?;
                return Ok(false);
            }
            // Another build was faster.
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(e) => return Err(Error::io("create", path)(e)),
        }
    }
    if same()? { Ok(true) } else { Err(Error::Other { path: path.display().to_string() }) }
}

fn bytes_below(path: &Path) -> Result<u64> {
    let meta = fs::symlink_metadata(path).map_err(Error::io("read", path))?;
    if !meta.is_dir() {
        return Ok(meta.len());
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path).map_err(Error::io("read", path))? {
        bytes += bytes_below(&entry.map_err(Error::io("read", path))?.path())?;
    }
    Ok(bytes)
}
