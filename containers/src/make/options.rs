//! The options of a build.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{BuildCache, Compile};
use crate::check::Form;
use crate::lock::Sources;
use crate::oci::Compressor;
use crate::replay::Tools;
use crate::sif::Squash;
use crate::store::Limits;

/// Space that compressed blocks, and layers, take in a cache.
const CACHE_BYTES: u64 = 16 << 30;

/// The options of a build.
#[derive(Clone)]
pub struct BuildOptions<'a> {
    /// The recipe; its lock is beside it.
    pub recipe: PathBuf,
    /// The folder for the image and its list of contents.
    pub out: PathBuf,
    /// The formats to write.
    pub formats: Vec<ImageFormat>,
    /// Compression of a SIF's files and of OCI layers.
    pub compression: ImageCompression,
    /// A program to use instead of the recipe's.
    pub program: Option<PathBuf>,
    /// Builds the recipe's program when cargo must.
    pub compile: Option<&'a dyn Compile>,
    /// Where packages are looked up to make a lock, when the recipe has none.
    pub sources: Sources,
    /// Folders with packages, looked into first.
    pub vendor: Vec<PathBuf>,
    /// The folders that builds keep.
    pub cache: BuildCache,
    /// Bytes that compressed blocks, and layers, may each take in the cache.
    pub cache_bytes: u64,
    /// Limits on an archive's unpacked size.
    pub limits: Limits,
    /// Threads that compress; they change no byte.
    pub jobs: NonZeroUsize,
    /// Fetch nothing.
    pub offline: bool,
    /// Refuse to make or change the lock.
    pub locked: bool,
    /// Write the image even if the check refuses it.
    pub force: bool,
    /// Do everything but write the lock and the image.
    pub dry_run: bool,
    /// Paths of this machine that nothing inside should name.
    pub host_paths: Vec<String>,
    /// The tools that run maintainer scripts and steps, and replay HTCondor's lines.
    pub tools: Tools,
    /// Do what is known of maintainer scripts, and do not run them; steps are refused.
    pub no_scripts: bool,
    /// Variables that steps with a network see, such as `HTTPS_PROXY`; the image does not have them.
    pub proxies: Vec<(String, String)>,
}

impl BuildOptions<'_> {
    /// Builds a SIF in the recipe's folder, without replaying jobs.
    pub fn new(recipe: &Path, cache: BuildCache, sources: Sources) -> Self {
        let folder = recipe.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self {
            recipe: recipe.to_owned(),
            out: folder.unwrap_or(Path::new(".")).to_owned(),
            formats: vec![ImageFormat::Sif],
            compression: ImageCompression::Gzip,
            program: None,
            compile: None,
            sources,
            vendor: Vec::new(),
            cache,
            cache_bytes: CACHE_BYTES,
            limits: Limits::default(),
            jobs: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            offline: false,
            locked: false,
            force: false,
            dry_run: false,
            host_paths: Vec::new(),
            tools: Tools::default(),
            no_scripts: false,
            proxies: Vec::new(),
        }
    }

    /// Each format once, in the order they were named.
    pub(super) fn each_format(&self) -> Vec<ImageFormat> {
        let mut formats = Vec::new();
        for format in &self.formats {
            if !formats.contains(format) {
                formats.push(*format);
            }
        }
        formats
    }

    /// The format that the check assumes: the SIF, if there are several formats.
    pub(super) fn form(&self) -> Form {
        match self.formats.contains(&ImageFormat::Sif) {
            true => Form::Sif(Some(self.compression.squash())),
            false => Form::Oci(Some(self.compression.compressor())),
        }
    }
}

/// The format that an image is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageFormat {
    /// `NAME-HASH.sif`, for Apptainer.
    Sif,
    /// `NAME-HASH.oci`, the folder of an OCI layout.
    Oci,
    /// `NAME-HASH.oci.tar`, that layout as one tar.
    OciArchive,
}

/// How files and layers are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageCompression {
    /// Every tool reads it.
    Gzip,
    /// Smaller and faster; refused by Apptainer before 1.4.
    Zstd,
}

impl ImageCompression {
    pub(crate) fn squash(self) -> Squash {
        match self {
            Self::Gzip => Squash::Gzip,
            Self::Zstd => Squash::Zstd,
        }
    }

    pub(crate) fn compressor(self) -> Compressor {
        match self {
            Self::Gzip => Compressor::Gzip,
            Self::Zstd => Compressor::Zstd,
        }
    }
}
