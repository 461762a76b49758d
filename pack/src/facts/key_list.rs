//! Reads lists of keys, one per line.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::facts::{Names, RunError};

/// The keys of some files, as hashes: 17 bytes per key, however long it is.
#[derive(Debug)]
pub(crate) struct KeyList {
    files: Vec<PathBuf>,
    /// The hashes of the keys, in ascending order.
    hashes: Vec<u128>,
    seen: Vec<AtomicBool>,
}

impl KeyList {
    pub(crate) fn read(files: &[PathBuf]) -> Result<Self, RunError> {
        let mut hashes = Vec::new();
        each_line(files, &mut |key| hashes.push(hash(key)))?;
        hashes.sort_unstable();
        hashes.dedup();
        let seen = hashes.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self { files: files.to_vec(), hashes, seen })
    }

    /// Returns whether `key` is listed, and notes that it was found.
    pub(crate) fn has(&self, key: &str) -> bool {
        let at = self.hashes.binary_search(&hash(key));
        at.is_ok_and(|at| {
            self.seen[at].store(true, Ordering::Relaxed);
            true
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// The keys for which [`KeyList::has`] was never called.
    pub(crate) fn unseen(&self) -> Result<Names, RunError> {
        let mut names = Names::default();
        let n = self.seen.iter().filter(|seen| !seen.load(Ordering::Relaxed)).count() as u64;
        if n > 0 {
            each_line(&self.files, &mut |key| {
                let at = self.hashes.binary_search(&hash(key));
                if at.is_ok_and(|at| !self.seen[at].load(Ordering::Relaxed)) {
                    names.push(key);
                }
            })?;
            // A key that is listed twice counts once.
            names.n = n;
        }
        Ok(names)
    }
}

/// The hash that represents a key in memory.
fn hash(key: &str) -> u128 {
    let hash = blake3::hash(key.as_bytes());
    u128::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

fn each_line(files: &[PathBuf], each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
    for path in files {
        let io = |e| RunError::io("read", path, e);
        for line in BufReader::new(File::open(path).map_err(io)?).lines() {
            let line = line.map_err(io)?;
            let key = line.trim_end_matches('\r');
            if !key.is_empty() {
                each(key);
            }
        }
    }
    Ok(())
}
