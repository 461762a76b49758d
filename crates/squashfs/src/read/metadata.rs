//! Inodes, listings and tables: chains of 8 KiB blocks, each stored or compressed.

use std::collections::HashMap;

use flate2::{Decompress, FlushDecompress, Status};
#[cfg(feature = "xz")]
use liblzma::stream as xz;

use super::Error;
use super::error::damaged;
use super::read_bytes::{ReadBytes, u16_at, u64_at};
use super::superblock::Superblock;
#[cfg(feature = "xz")]
use crate::format::COMPRESSOR_XZ;
use crate::format::{
    BLOCK_STORED, COMPRESSOR_GZIP, COMPRESSOR_ZSTD, METADATA_BLOCK, METADATA_STORED,
};

/// The number of blocks that are kept (2 MiB), since a folder's inodes and those of its neighbours
/// are close together.
const MOST_KEPT: usize = 256;

/// A position in metadata.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The block's first byte in the image.
    pub(super) block: u64,
    /// Offset in the block after decompression.
    pub(super) offset: usize,
}

/// Reads metadata of an image.
pub(super) struct Metadata<'a, S: ?Sized> {
    source: &'a S,
    /// The image's length.
    used: u64,
    codec: Codec,
    kept: HashMap<u64, Block>,
    input: Vec<u8>,
}

struct Block {
    bytes: Vec<u8>,
    /// First byte of the next block.
    next: u64,
}

/// The compressions that can be read, for messages.
const KNOWN: &str =
    if cfg!(feature = "xz") { "gzip, xz, zstd and none" } else { "gzip, zstd and none" };

/// Memory for one block: a dictionary of the largest block, and liblzma's own structures.
#[cfg(feature = "xz")]
const XZ_MEMORY: u64 = 8 << 20;

enum Codec {
    Gzip(Decompress),
    #[cfg(feature = "xz")]
    Xz,
    Zstd(zstd::bulk::Decompressor<'static>),
    Unknown(String),
}

impl<'a, S: ReadBytes + ?Sized> Metadata<'a, S> {
    pub(super) fn new(source: &'a S, superblock: &Superblock) -> Result<Self, Error> {
        let codec = match superblock.compressor {
            COMPRESSOR_GZIP => Codec::Gzip(Decompress::new(true)),
            #[cfg(feature = "xz")]
            COMPRESSOR_XZ => Codec::Xz,
            COMPRESSOR_ZSTD => Codec::Zstd(zstd::bulk::Decompressor::new().map_err(Error::Read)?),
            // An unknown compressor does not matter until something is compressed.
            _ => Codec::Unknown(superblock.compressor_name()),
        };
        let (kept, input) = (HashMap::new(), Vec::new());
        Ok(Self { source, used: superblock.used, codec, kept, input })
    }

    /// Fills `out` with the bytes at `place`, and moves `place` behind them.
    pub(super) fn read(&mut self, place: &mut Place, mut out: &mut [u8]) -> Result<(), Error> {
        while !out.is_empty() {
            let block = self.block(place.block)?;
            let rest = block.bytes.get(place.offset..).ok_or_else(|| {
                damaged(format!("byte {} is past the block at {}", place.offset, place.block))
            })?;
            if rest.is_empty() {
                *place = Place { block: block.next, offset: 0 };
                continue;
            }
            let len = rest.len().min(out.len());
            let (now, later) = out.split_at_mut(len);
            now.copy_from_slice(rest.get(..len).unwrap_or_default());
            place.offset = place.offset.saturating_add(len);
            out = later;
        }
        Ok(())
    }

    /// Reads like [`read`](Self::read), for a length that is known.
    pub(super) fn read_array<const N: usize>(
        &mut self,
        place: &mut Place,
    ) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.read(place, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the number at `at` in the image itself, outside any block.
    pub(super) fn pointer(&self, at: u64) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.fill(at, &mut bytes)?;
        Ok(u64_at(&bytes, 0))
    }

    /// Puts the contents of the block of data or fragment at `start` into `out`. Its `word` gives
    /// its length and whether it is compressed. Returns where the next block begins.
    pub(super) fn data(
        &mut self,
        start: u64,
        word: u32,
        block_size: u32,
        out: &mut Vec<u8>,
    ) -> Result<u64, Error> {
        let bad = |what: &str| damaged(format!("the block of data at {start} {what}"));
        let len = word & !BLOCK_STORED;
        if len == 0 || len > block_size {
            return Err(bad("has no possible length"));
        }
        let len = usize::try_from(len).unwrap_or(0);
        let next = start.saturating_add(len as u64);
        if word & BLOCK_STORED != 0 {
            out.resize(len, 0);
            self.fill(start, out)?;
            return Ok(next);
        }
        let mut input = std::mem::take(&mut self.input);
        input.resize(len, 0);
        self.fill(start, &mut input)?;
        out.resize(usize::try_from(block_size).unwrap_or(0), 0);
        let len = self.codec.decompress(&input, out, "the compressor of its files")?;
        self.input = input;
        out.truncate(len.ok_or_else(|| bad("does not decompress"))?);
        Ok(next)
    }

    fn fill(&self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        if at.checked_add(out.len() as u64).is_none_or(|end| end > self.used) {
            return Err(damaged(format!("{} bytes at {at} are past its end", out.len())));
        }
        self.source.read_at(at, out).map_err(Error::Read)
    }

    fn block(&mut self, at: u64) -> Result<&Block, Error> {
        if !self.kept.contains_key(&at) {
            let block = self.load(at)?;
            if self.kept.len() >= MOST_KEPT {
                self.kept.clear();
            }
            self.kept.insert(at, block);
        }
        self.kept.get(&at).ok_or_else(|| damaged("a block is gone"))
    }

    fn load(&mut self, at: u64) -> Result<Block, Error> {
        let bad = |what: &str| damaged(format!("the block of metadata at {at} {what}"));
        let mut header = [0; 2];
        self.fill(at, &mut header)?;
        let word = u16_at(&header, 0);
        let len = usize::from(word & !METADATA_STORED);
        if len == 0 || len > METADATA_BLOCK {
            return Err(bad("has no possible length"));
        }
        let start = at.saturating_add(2);
        let mut input = std::mem::take(&mut self.input);
        input.resize(len, 0);
        self.fill(start, &mut input)?;
        let bytes = if word & METADATA_STORED == 0 {
            let mut bytes = vec![0; METADATA_BLOCK];
            let len = self.codec.decompress(&input, &mut bytes, "the compressor of its names")?;
            self.input = input;
            bytes.truncate(len.filter(|len| *len > 0).ok_or_else(|| bad("does not decompress"))?);
            bytes
        } else {
            input
        };
        Ok(Block { bytes, next: start.saturating_add(len as u64) })
    }
}

impl Codec {
    /// Fills the beginning of `out`, and returns the number of bytes; `None` if `input` is damaged
    /// or has more. `what` names what is compressed, for messages.
    fn decompress(
        &mut self,
        input: &[u8],
        out: &mut [u8],
        what: &'static str,
    ) -> Result<Option<usize>, Error> {
        Ok(match self {
            Self::Gzip(codec) => {
                codec.reset(true);
                let status = codec.decompress(input, out, FlushDecompress::Finish);
                let whole = matches!(status, Ok(Status::StreamEnd));
                whole.then(|| usize::try_from(codec.total_out()).unwrap_or(0))
            }
            #[cfg(feature = "xz")]
            Self::Xz => {
                // Each block is a complete .xz file.
                let mut codec = xz::Stream::new_stream_decoder(XZ_MEMORY, 0)
                    .map_err(|e| Error::Read(std::io::Error::other(e)))?;
                let status = codec.process(input, out, xz::Action::Finish);
                let whole = matches!(status, Ok(xz::Status::StreamEnd));
                whole.then(|| usize::try_from(codec.total_out()).unwrap_or(0))
            }
            Self::Zstd(codec) => codec.decompress_to_buffer(input, out).ok(),
            Self::Unknown(found) => {
                return Err(Error::Unsupported { what, found: found.clone(), known: KNOWN });
            }
        })
    }
}
