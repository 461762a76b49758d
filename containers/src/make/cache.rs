//! What one build caches for the next.

use std::path::{Path, PathBuf};

use crate::blocks::BlockCache;
use crate::fetch::Archives;
use crate::oci::LayerCache;
use crate::store::Store;
use crate::{Error, Result};

/// A folder of a user or a machine, shared by all builds.
///
/// ```text
/// CACHE/archives   packages as they were fetched
/// CACHE/store-3    packages, unpacked; the number changes with what they become
/// CACHE/blocks     compressed blocks of SIFs
/// CACHE/layers     OCI layers
/// CACHE/uploads    where uploads to registries go on after a kill
/// CACHE/digests    SHA-256 of files that were published to registries, by their BLAKE3
/// ```
#[derive(Debug, Clone)]
pub struct BuildCache {
    dir: PathBuf,
}

impl BuildCache {
    /// Makes a cache in this folder, which is created when something is stored in it.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The folder of packages as they were fetched. `vendor` are folders to look into first.
    pub fn archives(&self, vendor: &[PathBuf], offline: bool) -> Archives {
        Archives { dir: self.dir.join("archives"), vendor: vendor.to_vec(), offline }
    }

    /// The store of unpacked packages.
    pub fn store(&self) -> Store {
        Store::new(&self.dir.join("store-3"))
    }

    /// The cache of SIF blocks, of at most `limit_bytes`.
    pub fn blocks(&self, limit_bytes: u64) -> BlockCache {
        BlockCache::new(&self.dir.join("blocks"), limit_bytes)
    }

    /// The cache of OCI layers, of at most `limit_bytes`.
    pub fn layers(&self, limit_bytes: u64) -> LayerCache {
        LayerCache::new(&self.dir.join("layers"), limit_bytes)
    }

    /// The folder from which uploads to registries resume after a kill.
    pub fn uploads(&self) -> PathBuf {
        self.dir.join("uploads")
    }

    /// The file that lists the SHA-256 of files by their BLAKE3.
    pub fn digests(&self) -> PathBuf {
        self.dir.join("digests")
    }

    /// The folder itself, which is on one file system with the files in it; made when
    /// it is not there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn folder(&self) -> Result<&Path> {
        std::fs::create_dir_all(&self.dir).map_err(Error::io("create", &self.dir))?;
        Ok(&self.dir)
    }
}
