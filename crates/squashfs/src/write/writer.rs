//! The way through an image: bytes, then names, then the superblock.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek, SeekFrom, Write};

use super::Error;
use super::data::{Data, FileData};
use super::options::Options;
use super::out::Out;
use super::tables::Tables;
use super::tree::Tree;
use crate::format::SUPERBLOCK_BYTES;

/// Files up to this length are held in memory to see whether they are new.
const HELD_BYTES: u64 = 4 << 20;

/// Writes one image.
pub struct Writer<W> {
    data: Data<W>,
    /// Files by the digest of their bytes, when those are to be shared.
    known: HashMap<[u8; 32], FileData>,
    /// Lengths of these: a file of another is none of them.
    lengths: HashSet<u64>,
    held: Vec<u8>,
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("options", &self.data.options).finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Starts an image: zeros in the superblock's place go into `sink`.
    ///
    /// # Errors
    /// [`Error::Options`].
    pub fn new(sink: W, options: Options) -> Result<Self, Error> {
        options.check()?;
        let mut out = Out::new(sink);
        out.write(&[0; SUPERBLOCK_BYTES])?;
        out.align(u64::from(options.align))?;
        let data = Data::new(out, options)?;
        Ok(Self { data, known: HashMap::new(), lengths: HashSet::new(), held: Vec::new() })
    }

    /// Takes a file's bytes: all of `reader`, until it says that it has ended.
    /// Blocks may be compressed and written later.
    ///
    /// # Errors
    /// [`Error::Read`] when `reader` failed: the writer can go on, with some bytes
    /// in the image that belong to no file. After any other, it is of no more use.
    pub fn data(&mut self, reader: &mut dyn Read) -> Result<FileData, Error> {
        if !self.data.options.deduplicate {
            return self.data.file(reader);
        }
        let mut held = std::mem::take(&mut self.held);
        held.clear();
        let read = reader.take(HELD_BYTES + 1).read_to_end(&mut held).map_err(Error::Read)?;
        let data = if read as u64 > HELD_BYTES {
            self.data.file(&mut held.as_slice().chain(reader))
        } else {
            let digest = *blake3::hash(&held).as_bytes();
            match self.known.get(&digest) {
                Some(known) => Ok(*known),
                None => self.data.file(&mut held.as_slice()).inspect(|data| {
                    self.know(digest, *data);
                }),
            }
        };
        self.held = held;
        data
    }

    /// As [`data`](Self::data) for a reader that can go back: with
    /// [`Options::deduplicate`] files of any size share their bytes. One of the same
    /// length as another is read first to see whether it is the same.
    ///
    /// # Errors
    /// As `data`.
    pub fn data_seekable<R: Read + Seek>(&mut self, reader: &mut R) -> Result<FileData, Error> {
        if !self.data.options.deduplicate {
            return self.data.file(reader);
        }
        let start = reader.stream_position().map_err(Error::Read)?;
        let end = reader.seek(SeekFrom::End(0)).map_err(Error::Read)?;
        reader.seek(SeekFrom::Start(start)).map_err(Error::Read)?;
        // Most files are alone with their length, and are read once.
        if self.lengths.contains(&end.saturating_sub(start)) {
            let mut hasher = blake3::Hasher::new();
            std::io::copy(reader, &mut hasher).map_err(Error::Read)?;
            if let Some(known) = self.known.get(hasher.finalize().as_bytes()) {
                return Ok(*known);
            }
            reader.seek(SeekFrom::Start(start)).map_err(Error::Read)?;
        }
        // Known is what was written, which the file may not have held at first.
        let mut hashed = Hashed { reader, hasher: blake3::Hasher::new() };
        let data = self.data.file(&mut hashed)?;
        self.know(*hashed.hasher.finalize().as_bytes(), data);
        Ok(data)
    }

    fn know(&mut self, digest: [u8; 32], data: FileData) {
        self.known.insert(digest, data);
        self.lengths.insert(data.size());
    }

    /// Bytes of the image so far; with compression, those that are written.
    pub fn position(&self) -> u64 {
        self.data.out.position()
    }

    /// Writes the nodes of `tree` and all tables. Returns the superblock, which
    /// belongs into the first bytes of the image, and the sink.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::HardLink`], [`Error::Foreign`],
    /// [`Error::TooMany`], and the sink's.
    pub fn finish(mut self, tree: &Tree) -> Result<([u8; SUPERBLOCK_BYTES], W), Error> {
        drop(self.known);
        self.data.close()?;
        Tables::new(self.data, tree)?.write()
    }
}

/// A reader whose bytes are hashed on their way.
struct Hashed<'a, R> {
    reader: &'a mut R,
    hasher: blake3::Hasher,
}

impl<R: Read> Read for Hashed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.reader.read(buffer)?;
        self.hasher.update(&buffer[..len]);
        Ok(len)
    }
}
