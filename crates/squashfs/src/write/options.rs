//! The options of a writer.

use std::num::NonZeroUsize;
use std::thread;

use super::Error;

/// A compressor and its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// zlib streams, level 1 to 9, which every reader knows.
    Gzip(u32),
    /// zstd, level 1 to 22, which kernels from 4.14 on know.
    Zstd(u32),
}

/// The files whose last bytes share blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragments {
    /// No files: every file's bytes are in blocks of its own.
    None,
    /// Files smaller than a block.
    SmallFiles,
    /// The last bytes of every file whose length is not a multiple of a block.
    Tails,
}

/// How a block that is all zeros is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zeros {
    /// It is written like any other block, so that a stored file is one run of bytes.
    Keep,
    /// It takes no space; readers see zeros.
    Holes,
}

/// How an image is written. Everything but `threads` changes its bytes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Compressor of files' blocks; `None` stores them uncompressed.
    pub data: Option<Compression>,
    /// Compressor of inodes, directories and tables; the same as `data`'s when both are set.
    pub metadata: Option<Compression>,
    /// Whether blocks of files are stored if a quick test with zstd 1 finds that they shrink by
    /// less than 3 %. Most of the time of gzip is spent on bytes that it cannot shrink: compiled
    /// GPU code, pictures, archives.
    pub probe: bool,
    /// Bytes in a data block: a power of two, 4 KiB to 1 MiB.
    pub block_size: u32,
    /// The files whose last bytes share blocks.
    pub fragments: Fragments,
    /// How a block that is all zeros is stored.
    pub zeros: Zeros,
    /// Whether files with the same bytes share them. This works for files of up to 4 MiB, and for
    /// files of any size that are added by [`Writer::data_seekable`](super::Writer::data_seekable).
    pub deduplicate: bool,
    /// A file's first block starts at a multiple of this (a power of two up to 1 MiB); bytes in a
    /// shared fragment are not aligned.
    pub align: u32,
    /// Creation time of the image, in seconds since 1970.
    pub mtime: u32,
    /// Number of threads that compress, at most 64.
    pub threads: NonZeroUsize,
}

impl Default for Options {
    /// Returns the defaults of `mksquashfs`, but without de-duplication and with a time of 0: zlib
    /// 9, blocks of 128 KiB, small files in fragments, holes.
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
    /// Returns options for images that can be read in place: everything is stored, and every file
    /// is one run of bytes from a multiple of 64 on.
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
