//! Inodes, directory listings and tables: runs of compressed 8 KiB blocks.

use std::io::Write;

use super::Error;
use super::compress::Encoder;
use super::options::Compression;
use super::sink::Out;
use crate::format::{METADATA_BLOCK, METADATA_STORED};

/// A position in a run of metadata blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// First byte of the block, from the run's start on.
    pub(super) block: u64,
    /// Offset in the block before compression.
    pub(super) offset: u16,
}

impl Place {
    /// Returns the position in the form that inodes and tables use.
    pub(super) fn reference(self) -> u64 {
        self.block << 16 | u64::from(self.offset)
    }
}

/// A run of metadata blocks that is being written.
pub(super) struct Metadata {
    encoder: Encoder,
    block: Vec<u8>,
    /// Blocks that are finished, but not written yet.
    finished: Vec<u8>,
    /// Length of the blocks that were written.
    taken: u64,
}

impl Metadata {
    pub(super) fn new(compression: Option<Compression>) -> Result<Self, Error> {
        Ok(Self {
            encoder: Encoder::new(compression, false)?,
            block: Vec::with_capacity(METADATA_BLOCK),
            finished: Vec::new(),
            taken: 0,
        })
    }

    /// Returns where the next byte will be. This is never the end of a full block: the byte is the
    /// first of the next block, and readers do not know another name for it.
    pub(super) fn place(&mut self) -> Result<Place, Error> {
        if self.block.len() == METADATA_BLOCK {
            self.close_block()?;
        }
        let block = self.taken + self.finished.len() as u64;
        Ok(Place { block, offset: self.block.len() as u16 })
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.block.len() == METADATA_BLOCK {
                self.close_block()?;
            }
            let room = METADATA_BLOCK - self.block.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Writes the finished blocks.
    pub(super) fn drain<W: Write>(&mut self, out: &mut Out<W>) -> Result<(), Error> {
        out.write(&self.finished)?;
        self.taken += self.finished.len() as u64;
        self.finished.clear();
        Ok(())
    }

    /// Writes everything that is left.
    pub(super) fn finish<W: Write>(mut self, out: &mut Out<W>) -> Result<(), Error> {
        self.close_block()?;
        self.drain(out)
    }

    fn close_block(&mut self) -> Result<(), Error> {
        if self.block.is_empty() {
            return Ok(());
        }
        let header = self.finished.len();
        self.finished.extend_from_slice(&[0; 2]);
        let compressed = self.encoder.append(&self.block, &mut self.finished)?;
        let len = (self.finished.len() - header - 2) as u16;
        let word = if compressed { len } else { len | METADATA_STORED };
        self.finished[header..header + 2].copy_from_slice(&word.to_le_bytes());
        self.block.clear();
        Ok(())
    }
}

/// Writes a table that is found through an index: metadata blocks, then where each of them starts.
/// Returns where the index starts. The length of an entry must divide 8192.
pub(super) fn write_indexed<W: Write, const N: usize>(
    out: &mut Out<W>,
    compression: Option<Compression>,
    entries: impl Iterator<Item = [u8; N]>,
) -> Result<u64, Error> {
    let start = out.position();
    let mut blocks = Metadata::new(compression)?;
    let mut index = Vec::new();
    for entry in entries {
        let place = blocks.place()?;
        if place.offset == 0 {
            index.extend_from_slice(&(start + place.block).to_le_bytes());
        }
        blocks.write(&entry)?;
    }
    blocks.finish(out)?;
    let index_start = out.position();
    out.write(&index)?;
    Ok(index_start)
}
