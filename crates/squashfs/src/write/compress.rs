//! Compresses one block.

use std::io;

use flate2::{Compress, FlushCompress, Status};

use super::options::Compression;
use super::{Error, Options};

/// A compressor with its state, for one thread.
pub(super) struct Encoder {
    codec: Codec,
    /// A fast compressor that checks first whether compression is worth the time.
    probe: Option<zstd::bulk::Compressor<'static>>,
    scratch: Vec<u8>,
}

enum Codec {
    Stored,
    Gzip(Compress),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Encoder {
    /// Makes an encoder for the blocks of `options.data` or `options.metadata`. With `probe`,
    /// blocks that hardly shrink in a quick test are stored.
    pub(super) fn new(compression: Option<Compression>, probe: bool) -> Result<Self, Error> {
        let codec = match compression {
            None => Codec::Stored,
            Some(Compression::Gzip(level)) => {
                Codec::Gzip(Compress::new(flate2::Compression::new(level), true))
            }
            Some(Compression::Zstd(level)) => Codec::Zstd(
                zstd::bulk::Compressor::new(level.cast_signed()).map_err(Error::Compress)?,
            ),
        };
        let probe = (probe && compression.is_some())
            .then(|| zstd::bulk::Compressor::new(1).map_err(Error::Compress))
            .transpose()?;
        Ok(Self { codec, probe, scratch: Vec::new() })
    }

    /// Returns whether `input` shrinks by 3 % or more.
    fn shrinks(&mut self, input: &[u8]) -> Result<bool, Error> {
        let Some(probe) = &mut self.probe else { return Ok(true) };
        let room = zstd::zstd_safe::compress_bound(input.len());
        self.scratch.resize(self.scratch.len().max(room), 0);
        let len =
            probe.compress_to_buffer(input, &mut self.scratch[..]).map_err(Error::Compress)?;
        Ok(len <= input.len() - input.len() * 3 / 100)
    }

    /// Appends `input` to `out`, compressed if that is shorter, and returns whether it was
    /// compressed.
    pub(super) fn append(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let worth = self.shrinks(input)?;
        let compressed = match &mut self.codec {
            _ if !worth => None,
            Codec::Stored => None,
            Codec::Gzip(codec) => {
                // A result that is not shorter is useless, so there is no space for it.
                let room = input.len().saturating_sub(1);
                self.scratch.resize(self.scratch.len().max(room), 0);
                codec.reset();
                let status = codec
                    .compress(input, &mut self.scratch[..room], FlushCompress::Finish)
                    .map_err(|source| Error::Compress(io::Error::other(source)))?;
                (status == Status::StreamEnd).then_some(codec.total_out() as usize)
            }
            Codec::Zstd(codec) => {
                let room = zstd::zstd_safe::compress_bound(input.len());
                self.scratch.resize(self.scratch.len().max(room), 0);
                let len = codec
                    .compress_to_buffer(input, &mut self.scratch[..])
                    .map_err(Error::Compress)?;
                (len < input.len()).then_some(len)
            }
        };
        match compressed {
            Some(len) => out.extend_from_slice(&self.scratch[..len]),
            None => out.extend_from_slice(input),
        }
        Ok(compressed.is_some())
    }
}

impl Options {
    /// Returns the compressor for the superblock. An image without compression names one too, and
    /// every reader knows this one.
    pub(super) fn compressor(&self) -> Compression {
        self.data.or(self.metadata).unwrap_or(Compression::Gzip(9))
    }
}
