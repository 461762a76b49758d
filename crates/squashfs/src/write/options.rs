//! The options of a writer.

use std::num::NonZeroUsize;
use std::thread;

use super::Error;

/// A compressor and its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// zlib streams, level 1 to 9: every reader knows them.
    Gzip(u32),
    /// zstd, level 1 to 22: kernels from 4.14 on.
    Zstd(u32),
}

/// Which files' last bytes share blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragments {
    /// None: every file's bytes lie in blocks of its own.
    None,
    /// Files smaller than a block.
    SmallFiles,
    /// The last bytes of every file whose length is not a multiple of a block.
    Tails,
}

/// What becomes of a block that is all zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zeros {
    /// It is written as any other: a stored file is one run of bytes.
    Keep,
    /// It takes no place; readers see zeros.
    Holes,
}

/// How an image is written. Everything but `threads` changes its bytes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Compressor of files' blocks; `None` stores them as they are.
    pub data: Option<Compression>,
    /// Compressor of inodes, directories and tables; the same as `data`'s when both are set.
    pub metadata: Option<Compression>,
    /// Files' blocks that a quick look, zstd 1, finds to shrink by less than 3 %
    /// are stored. Most of the time that gzip takes goes into bytes it cannot
    /// shrink: compiled GPU code, pictures, archives.
    pub probe: bool,
    /// Bytes in a data block: a power of two, 4 KiB to 1 MiB.
    pub block_size: u32,
    /// Which files' last bytes share blocks.
    pub fragments: Fragments,
    /// What becomes of a block that is all zeros.
    pub zeros: Zeros,
    /// Files with the same bytes share them. Recognised are those of up to 4 MiB,
    /// and those of any size that come through [`Writer::data_seekable`](super::Writer::data_seekable).
    pub deduplicate: bool,
    /// A file's first block starts at a multiple of this (a power of two up to 1 MiB);
    /// what lies in a shared fragment is not aligned.
    pub align: u32,
    /// Time of the image's making, seconds since 1970.
    pub mtime: u32,
    /// Threads that compress, at most 64 of them.
    pub threads: NonZeroUsize,
}

impl Default for Options {
    /// zlib 9, blocks of 128 KiB, small files in fragments, holes: what `mksquashfs`
    /// does by default, but without de-duplication and with a time of 0.
    fn default() -> Self {
        Self {
            data: Some(Compression::Gzip(9)),
            metadata: Some(Compression::Gzip(9)),
            probe: false,
            block_size: 128 << 10,
            fragments: Fragments::SmallFiles,
            zeros: Zeros::Holes,
            deduplicate: false,
            align: 1,
            mtime: 0,
            threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }
}

impl Options {
    /// Everything stored, every file one run of bytes from a multiple of 64 on:
    /// what can be read in place.
    pub fn stored() -> Self {
        Self {
            data: None,
            metadata: None,
            fragments: Fragments::None,
            zeros: Zeros::Keep,
            align: 64,
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let bad = |option, found: String, expected| Err(Error::Options { option, found, expected });
        if !self.block_size.is_power_of_two() || !(4096..=1 << 20).contains(&self.block_size) {
            let found = self.block_size.to_string();
            return bad("block size", found, "a power of two from 4096 to 1048576");
        }
        if !self.align.is_power_of_two() || self.align > 1 << 20 {
            return bad("alignment", self.align.to_string(), "a power of two up to 1048576");
        }
        for compression in [self.data, self.metadata].into_iter().flatten() {
            match compression {
                Compression::Gzip(1..=9) | Compression::Zstd(1..=22) => {}
                Compression::Gzip(level) => return bad("gzip level", level.to_string(), "1 to 9"),
                Compression::Zstd(level) => return bad("zstd level", level.to_string(), "1 to 22"),
            }
        }
        match (self.data, self.metadata) {
            (Some(Compression::Gzip(_)), Some(Compression::Zstd(_)))
            | (Some(Compression::Zstd(_)), Some(Compression::Gzip(_))) => {
                bad("metadata's compressor", "another".to_owned(), "the same as of data")
            }
            _ => Ok(()),
        }
    }
}
