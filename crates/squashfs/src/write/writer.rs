//! The writer of a whole image: file contents first, then names, then the superblock.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek, SeekFrom, Write};

use super::Error;
use super::data::{Data, FileData, Lender, Open, Placed, nothing};
use super::options::Options;
use super::sink::Out;
use super::tables::Tables;
use super::tree::Tree;
use crate::format::SUPERBLOCK_BYTES;

/// Files up to this length are held in memory to compare them with earlier ones.
const HELD_BYTES: u64 = 4 << 20;

/// Writes one image.
pub struct Writer<W> {
    data: Data<W>,
    /// Files by the digest of their bytes, if equal files are shared.
    known: HashMap<[u8; 32], FileData>,
    /// Lengths of the files in `known`; a file with another length is none of them.
    lengths: HashSet<u64>,
    held: Vec<u8>,
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("options", &self.data.options).finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Starts an image, with zeros for the superblock in `sink`.
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

    /// Adds a file with all bytes of `reader`, until it ends. Blocks may be compressed and written
    /// later.
    ///
    /// # Errors
    /// [`Error::Read`] when `reader` failed: the writer can still be used, with some bytes in the
    /// image that belong to no file. After any other error it cannot.
    pub fn data(&mut self, reader: &mut dyn Read) -> Result<FileData, Error> {
        self.data_lent(reader, &mut nothing)
    }

    /// Adds a file like [`data`](Self::data), with blocks of small files that `lend` has already:
    /// these are neither compressed again nor checked. The last one is always compressed.
    ///
    /// # Errors
    /// As `data`.
    pub fn data_lent(
        &mut self,
        reader: &mut dyn Read,
        lend: &mut Lender<'_>,
    ) -> Result<FileData, Error> {
        if !self.data.options.deduplicate {
            return self.data.file(reader, lend);
        }
        let mut held = std::mem::take(&mut self.held);
        held.clear();
        let read = reader.take(HELD_BYTES + 1).read_to_end(&mut held).map_err(Error::Read)?;
        let data = if read as u64 > HELD_BYTES {
            self.data.file(&mut held.as_slice().chain(reader), lend)
        } else {
            let digest = *blake3::hash(&held).as_bytes();
            match self.known.get(&digest) {
                Some(known) => Ok(*known),
                None => self.data.file(&mut held.as_slice(), lend).inspect(|data| {
                    self.know(digest, *data);
                }),
            }
        };
        self.held = held;
        data
    }

    /// Adds a file like [`data`](Self::data), from a reader that can seek: with
    /// [`Options::deduplicate`] files of any size share their bytes. A file whose length equals
    /// that of an earlier one is read first to see whether it is the same.
    ///
    /// # Errors
    /// As `data`.
    pub fn data_seekable<R: Read + Seek>(&mut self, reader: &mut R) -> Result<FileData, Error> {
        if !self.data.options.deduplicate {
            return self.data.file(reader, &mut nothing);
        }
        let start = reader.stream_position().map_err(Error::Read)?;
        let end = reader.seek(SeekFrom::End(0)).map_err(Error::Read)?;
        reader.seek(SeekFrom::Start(start)).map_err(Error::Read)?;
        // Most files have a length that no other has, and are read once.
        if self.lengths.contains(&end.saturating_sub(start)) {
            let mut hasher = blake3::Hasher::new();
            std::io::copy(reader, &mut hasher).map_err(Error::Read)?;
            if let Some(known) = self.known.get(hasher.finalize().as_bytes()) {
                return Ok(*known);
            }
            reader.seek(SeekFrom::Start(start)).map_err(Error::Read)?;
        }
        // The digest is of the bytes that were written, since the file may have changed after it
        // was read first.
        let mut hashed = Hashed { reader, hasher: blake3::Hasher::new() };
        let data = self.data.file(&mut hashed, &mut nothing)?;
        self.know(*hashed.hasher.finalize().as_bytes(), data);
        Ok(data)
    }

    /// Begins a file whose bytes are added in parts, some of them compressed before, since blocks
    /// do not depend on their place. The file is not compared with others.
    ///
    /// # Errors
    /// [`Error::TooMany`].
    pub fn file(&mut self) -> Result<FileWriter<'_, W>, Error> {
        let open = self.data.begin()?;
        Ok(FileWriter { data: &mut self.data, open })
    }

    /// Writes everything that is not written yet. After the last file this does not change the
    /// image's bytes.
    ///
    /// # Errors
    /// The sink's, and [`Error::Compress`].
    pub fn settle(&mut self) -> Result<(), Error> {
        self.data.close()
    }

    /// Returns where a file's blocks are, for [`FileWriter::packed`] of another image; `None` if
    /// some of its bytes share a block with another file, or nothing is compressed. This is known
    /// after [`settle`](Self::settle).
    ///
    /// # Errors
    /// [`Error::Foreign`].
    pub fn placed(&self, data: FileData) -> Result<Option<Placed>, Error> {
        self.data.placed(data)
    }

    /// Returns for each fragment block its place in the image and its word, in order. This is known
    /// after [`settle`](Self::settle).
    pub fn fragments(&self) -> &[(u64, u32)] {
        &self.data.fragments
    }

    fn know(&mut self, digest: [u8; 32], data: FileData) {
        self.known.insert(digest, data);
        self.lengths.insert(data.size());
    }

    /// Returns the bytes of the image so far; with compression, those that were written.
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

/// A file whose bytes are added in parts. All parts but the last must be whole blocks.
pub struct FileWriter<'a, W> {
    data: &'a mut Data<W>,
    open: Open,
}

impl<W: Write> std::fmt::Debug for FileWriter<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWriter").finish_non_exhaustive()
    }
}

impl<W: Write> FileWriter<'_, W> {
    /// Adds all bytes of `reader`.
    ///
    /// # Errors
    /// As [`Writer::data`]; [`Error::Parts`] behind a part of a block.
    pub fn raw(&mut self, reader: &mut dyn Read) -> Result<(), Error> {
        self.data.raw(&mut self.open, reader, &mut nothing)
    }

    /// Adds the next `size` bytes of the file, as they are [`Placed`] in another image of the same
    /// [`Options`]: their words, and their blocks one after the other. Whether they can be
    /// decompressed is not checked. Parts of about a megabyte keep memory small.
    ///
    /// # Errors
    /// [`Error::Parts`] when they are not blocks of this image; the sink's.
    pub fn packed(&mut self, size: u64, words: &[u32], bytes: Vec<u8>) -> Result<(), Error> {
        self.data.packed(&mut self.open, size, words, bytes)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The sink's.
    pub fn end(self) -> Result<FileData, Error> {
        self.data.end(&self.open)
    }
}

/// A reader that hashes the bytes that are read.
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
