//! Layers that were packed before, found by their contents.
//!
//! ```text
//! DIR/<key>.json   digests and length of the blob
//! DIR/<key>.blob   its bytes; shared by hard link with the layouts it went into
//! ```
//!
//! A blob is read and checked each time it is taken: it is gone when it is not
//! what it was.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use gular_files::{persist, temp_in};
use serde::{Deserialize, Serialize};

use super::layer::{Compressor, Packed};
use crate::rootfs::{Node, RootPath, identify};
use crate::{Result, Sha256, UnixTime};

/// Changes when a layer's bytes would, of the same files.
const PACKER: u32 = 1;

/// A folder of packed layers.
#[derive(Debug, Clone)]
pub struct LayerCache {
    dir: PathBuf,
    /// Bytes that all may take; the ones used longest ago go first.
    limit_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    diff_id: Sha256,
    digest: Sha256,
    bytes: u64,
}

impl LayerCache {
    /// Makes a cache of at most `limit_bytes` in this folder, which is created when something is
    /// stored in it.
    pub fn new(dir: &Path, limit_bytes: u64) -> Self {
        Self { dir: dir.to_owned(), limit_bytes }
    }

    /// Puts the layer of this key at `to`, which must not be there.
    pub(super) fn take(&self, key: &str, to: &Path) -> Option<Packed> {
        let (about, blob) = self.paths(key);
        let entry: Entry = serde_json::from_slice(&fs::read(&about).ok()?).ok()?;
        let good = fs::metadata(&blob).is_ok_and(|meta| meta.len() == entry.bytes)
            && Sha256::of_file(&blob).is_ok_and(|digest| digest == entry.digest);
        if !good {
            // Unlinked, not mended: a layout may have the same file.
            let _ = fs::remove_file(&about);
            let _ = fs::remove_file(&blob);
            return None;
        }
        if fs::hard_link(&blob, to).is_err() {
            fs::copy(&blob, to).ok()?;
        }
        // The file's time is that of its last use.
        let _ = File::open(&about).and_then(|file| file.set_modified(std::time::SystemTime::now()));
        Some(Packed { diff_id: entry.diff_id, digest: entry.digest, bytes: entry.bytes })
    }

    /// Keeps the blob at `from`. A cache that cannot be written is as good as none.
    pub(super) fn keep(&self, key: &str, packed: &Packed, from: &Path) {
        let _ = self.try_keep(key, packed, from);
    }

    fn try_keep(&self, key: &str, packed: &Packed, from: &Path) -> io::Result<()> {
        if packed.bytes > self.limit_bytes {
            return Ok(());
        }
        fs::create_dir_all(&self.dir)?;
        self.make_room(packed.bytes)?;
        let (about, blob) = self.paths(key);
        let _ = fs::remove_file(&blob);
        if fs::hard_link(from, &blob).is_err() {
            // The cache is on another file system.
            let mut temp = temp_in(&self.dir)?;
            io::copy(&mut File::open(from)?, &mut temp)?;
            persist(temp, &blob)?;
        }
        let entry = Entry { diff_id: packed.diff_id, digest: packed.digest, bytes: packed.bytes };
        let mut temp = temp_in(&self.dir)?;
        serde_json::to_writer(&mut temp, &entry)?;
        persist(temp, &about)?;
        Ok(())
    }

    /// Removes what was used longest ago until `bytes` fit.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut entries = Vec::new();
        let mut total = bytes;
        for entry in fs::read_dir(&self.dir)? {
            let about = entry?.path();
            if about.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let blob = about.with_extension("blob");
            let len = fs::metadata(&blob).map_or(0, |meta| meta.len());
            total += len;
            entries.push((fs::metadata(&about)?.modified()?, len, about, blob));
        }
        entries.sort();
        for (_, len, about, blob) in entries {
            if total <= self.limit_bytes {
                break;
            }
            let _ = fs::remove_file(about);
            let _ = fs::remove_file(blob);
            total -= len;
        }
        Ok(())
    }

    fn paths(&self, key: &str) -> (PathBuf, PathBuf) {
        (self.dir.join(format!("{key}.json")), self.dir.join(format!("{key}.blob")))
    }
}

/// Key of a layer. It depends on all that decides the layer's bytes: its nodes, their contents, and
/// how they are packed.
pub(super) fn key(
    nodes: &[(&RootPath, &Node)],
    compressor: Compressor,
    time: UnixTime,
) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("{PACKER} {compressor:?} {}\n", time.0).as_bytes());
    identify(&mut hasher, nodes.iter().copied())?;
    Ok(hasher.finalize().to_hex().to_string())
}
