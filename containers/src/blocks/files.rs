//! Which files' blocks are where in one image.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use gular_files::parallel;
use serde::{Deserialize, Serialize};

/// Blocks under one digest: what is read, checked and passed on at a time.
pub(crate) const RUN_BLOCKS: usize = 8;
/// Raised when the same file and settings give other blocks: another compressor,
/// or another rule of when a block is stored as it is.
const VERSION: u32 = 1;
const BLOCK_STORED: u32 = 1 << 24;

/// The contents of the document `files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Files {
    pub(super) files: Vec<Placed>,
}

/// One file's blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Placed {
    /// Says what the blocks were made of, and how: [`key`], in hex.
    pub(crate) key: String,
    /// The file's length in bytes.
    pub(crate) size: u64,
    /// Where its blocks begin, from the image's first byte.
    pub(crate) start: u64,
    /// One number per block, in SquashFS's form.
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

pub(crate) fn blake3_hex(bytes: &[u8]) -> String {
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

    /// Whether the entry is possible in an image of this length.
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
    let digests = Mutex::new(vec![String::new(); runs.len()]);
    let runs: Vec<_> = runs.into_iter().enumerate().collect();
    let read = |&(number, (at, len)): &(usize, (u64, usize)), _: &AtomicBool| -> io::Result<()> {
        let mut bytes = vec![0; len];
        image.read_exact_at(&mut bytes, at)?;
        let digest = blake3_hex(&bytes);
        if let Some(of) = digests.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
            *of = digest;
        }
        Ok(())
    };
    parallel(&runs, threads.get().min(64), &AtomicBool::new(false), read)?;
    let digests = digests.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut digests = digests.into_iter();
    for file in files.iter_mut().filter(|file| file.digests.is_empty()) {
        let count = file.words.len().div_ceil(RUN_BLOCKS);
        file.digests = digests.by_ref().take(count).collect();
    }
    Ok(())
}
