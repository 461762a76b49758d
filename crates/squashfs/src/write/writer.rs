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
        self.data_lent(reader, &mut nothing)
    }

    /// As [`data`](Self::data), with blocks of small files that `lend` has already: they are
    /// not compressed again, and not looked at. The last one is always compressed.
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

    /// As [`data`](Self::data) for a reader that can go back: with
    /// [`Options::deduplicate`] files of any size share their bytes. One of the same
    /// length as another is read first to see whether it is the same.
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
        let data = self.data.file(&mut hashed, &mut nothing)?;
        self.know(*hashed.hasher.finalize().as_bytes(), data);
        Ok(data)
    }

    /// Begins a file whose bytes come in parts, some of them compressed before:
    /// blocks do not depend on where they lie. It is not compared with others.
    ///
    /// # Errors
    /// [`Error::TooMany`].
    pub fn file(&mut self) -> Result<FileWriter<'_, W>, Error> {
        let open = self.data.begin()?;
        Ok(FileWriter { data: &mut self.data, open })
    }

    /// Writes all that is still on its way. Called behind the last file it changes
    /// no byte of the image.
    ///
    /// # Errors
    /// The sink's, and [`Error::Compress`].
    pub fn settle(&mut self) -> Result<(), Error> {
        self.data.close()
    }

    /// Where a file's blocks lie, for [`FileWriter::packed`] of another image. `None`
    /// when some of its bytes share a block with another file, or nothing is
    /// compressed. Known after [`settle`](Self::settle).
    ///
    /// # Errors
    /// [`Error::Foreign`].
    pub fn placed(&self, data: FileData) -> Result<Option<Placed>, Error> {
        self.data.placed(data)
    }

    /// Where each fragment block lies in the image, and its word, in order. Known after
    /// [`settle`](Self::settle).
    pub fn fragments(&self) -> &[(u64, u32)] {
        &self.data.fragments
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

/// A file whose bytes come in parts. All but the last are whole blocks.
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
    /// Takes all of `reader`.
    ///
    /// # Errors
    /// As [`Writer::data`]; [`Error::Parts`] behind a part of a block.
    pub fn raw(&mut self, reader: &mut dyn Read) -> Result<(), Error> {
        self.data.raw(&mut self.open, reader, &mut nothing)
    }

    /// Takes the next `size` bytes of the file as [`Placed`] in another image of the
    /// same [`Options`]: their words, and their blocks one after the other. That they
    /// can be decompressed is not looked at. A megabyte at a time keeps memory small.
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
