//! Which files' blocks lie where in one image.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};

/// Blocks under one digest: what is read, checked and passed on at a time.
pub(crate) const RUN_BLOCKS: usize = 8;
/// Raised when the same file and settings give other blocks: another compressor,
/// or another rule of when a block is stored as it is.
const VERSION: u32 = 1;
const BLOCK_STORED: u32 = 1 << 24;

/// What `files` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Files {
    pub(super) files: Vec<Placed>,
}

/// One file's blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Placed {
    /// What the blocks were made of, and how: [`key`], in hex.
    pub(crate) key: String,
    /// The file's length in bytes.
    pub(crate) size: u64,
    /// Where its blocks begin, from the image's first byte.
    pub(crate) start: u64,
    /// One a block, as SquashFS has them.
    pub(crate) words: Vec<u32>,
    /// BLAKE3 in hex of the bytes of each [`RUN_BLOCKS`] blocks.
    pub(crate) digests: Vec<String>,
}

/// The key of a file with this BLAKE3, compressed as `settings` say.
pub(crate) fn key(content: &[u8; 32], settings: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(content);
    hasher.update(format!("{VERSION} {settings}").as_bytes());
    hasher.finalize().to_hex().to_string()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

impl Placed {
    /// Bytes of the blocks.
    pub(super) fn stored(&self) -> u64 {
        stored(&self.words)
    }

    /// The runs: offset in the image, length, words.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, usize, &[u32])> {
        let mut at = self.start;
        self.words.chunks(RUN_BLOCKS).map(move |words| {
            let run = (at, stored(words) as usize, words);
            at = at.saturating_add(stored(words));
            run
        })
    }

    /// Whether it can be true of an image this long.
    pub(super) fn is_sound(&self, image_bytes: u64) -> bool {
        let end = self.start.checked_add(self.stored());
        self.digests.len() == self.words.len().div_ceil(RUN_BLOCKS)
            && end.is_some_and(|end| end <= image_bytes)
    }
}

fn stored(words: &[u32]) -> u64 {
    words.iter().map(|word| u64::from(word & (BLOCK_STORED - 1))).sum()
}

/// Reads the digests that are not known yet from the image itself.
pub(super) fn find_digests(
    files: &mut [Placed],
    image: &File,
    threads: NonZeroUsize,
) -> io::Result<()> {
    let unknown = files.iter().filter(|file| file.digests.is_empty());
    let runs: Vec<_> = unknown.flat_map(|f| f.runs().map(|(at, len, _)| (at, len))).collect();
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<Vec<(usize, String)>> {
        let mut done = Vec::new();
        let mut bytes = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((at, len)) = runs.get(number) else { return Ok(done) };
            bytes.resize(*len, 0);
            image.read_exact_at(&mut bytes, *at)?;
            done.push((number, hex(&bytes)));
        }
    };
    let mut digests = vec![String::new(); runs.len()];
    thread::scope(|scope| -> io::Result<()> {
        let workers: Vec<_> = (0..threads.get().min(64)).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let done = worker.join().map_err(|_| io::Error::other("a thread has ended"))??;
            for (number, digest) in done {
                if let Some(place) = digests.get_mut(number) {
                    *place = digest;
                }
            }
        }
        Ok(())
    })?;
    let mut digests = digests.into_iter();
    for file in files.iter_mut().filter(|file| file.digests.is_empty()) {
        let count = file.words.len().div_ceil(RUN_BLOCKS);
        file.digests = digests.by_ref().take(count).collect();
    }
    Ok(())
}
