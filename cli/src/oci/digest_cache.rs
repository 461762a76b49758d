//! Remembers, from run to run, which SHA-256 belongs to which BLAKE3 of a file: bundles name files
//! by BLAKE3, registries by SHA-256.
//!
//! ```text
//! <64 hex of BLAKE3> <64 hex of SHA-256>\n    one line per file
//! ```

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gular_bundle::Digest;
use gular_registry::Sha256;

/// Half a million files; a longer list begins again.
const MAX_BYTES: u64 = 64 << 20;

/// Known SHA-256 digests by the BLAKE3 of the same bytes, from a file that grows.
pub(super) struct DigestCache {
    path: PathBuf,
    found: Mutex<HashMap<Digest, Sha256>>,
}

impl DigestCache {
    /// Reads the file at `path`, which need not exist. Lines that are cut or damaged are ignored.
    pub(super) fn open(path: &Path) -> Self {
        let mut text = String::new();
        if fs::metadata(path).is_ok_and(|found| found.len() > MAX_BYTES) {
            let _ = fs::remove_file(path);
        }
        let _ = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        let pair = |line: &str| {
            let (blake3, sha256) = line.split_once(' ')?;
            Some((Digest::parse(blake3).ok()?, sha256.parse().ok()?))
        };
        Self { path: path.to_owned(), found: Mutex::new(text.lines().filter_map(pair).collect()) }
    }

    pub(super) fn get(&self, blake3: Digest) -> Option<Sha256> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).get(&blake3).copied()
    }

    /// Keeps a pair. A list that cannot be written costs the next run the hashing.
    pub(super) fn add(&self, blake3: Digest, sha256: Sha256) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.insert(blake3, sha256);
        let _ = self.path.parent().map(fs::create_dir_all);
        let line = format!("{} {sha256}\n", blake3.hex());
        let file = OpenOptions::new().append(true).create(true).open(&self.path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_kept_and_damaged_lines_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache/digests");
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        DigestCache::open(&path).add(a, Sha256::of(b"a"));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}{} cut\nnothing\n", b.hex())).unwrap();
        DigestCache::open(&path).add(b, Sha256::of(b"b"));
        let known = DigestCache::open(&path);
        assert_eq!(known.get(a), Some(Sha256::of(b"a")));
        assert_eq!(known.get(b), Some(Sha256::of(b"b")));
        assert_eq!(known.get(Digest::of(b"c")), None);
    }
}
