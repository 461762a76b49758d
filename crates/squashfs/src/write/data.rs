//! Writes the bytes of files as blocks and fragments, and records where they are.

use std::io::{Read, Write};

use super::Error;
use super::compress::Encoder;
use super::options::{Fragments, Options, Zeros};
use super::pool::Pool;
use super::sink::{Out, read_up_to};
use crate::format::{BLOCK_HOLE, BLOCK_STORED, NONE};

/// Bytes that are gathered before they are compressed; otherwise each tiny file would cost a
/// hand-over between threads.
const BATCH_BYTES: usize = 256 << 10;

/// A file's bytes in the image. It is added to a [`Tree`](super::Tree), under any number of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileData {
    /// Number of the file's [`Record`] in the writer.
    pub(super) record: u32,
    size: u64,
    run: Option<u64>,
}

impl FileData {
    /// The file's length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns offset and length of the file's bytes in the image, if they are uncompressed in one
    /// run: data is stored, and the file has no part in a shared fragment and no hole.
    pub fn stored_run(&self) -> Option<(u64, u64)> {
        self.run.map(|start| (start, self.size))
    }
}

/// The facts about a file's bytes that its inode needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    /// Offset of the first block that is not a hole, or [`NO_START`].
    pub(super) start: u64,
    pub(super) size: u64,
    /// Position of the first word in [`Data::words`], or [`ALL_STORED`].
    words: u64,
    pub(super) fragment: u32,
    pub(super) fragment_offset: u32,
}

/// A file whose bytes are not complete yet.
pub(super) struct Open {
    record: u32,
    /// Bytes that were added so far.
    size: u64,
    words_before: usize,
    holes: bool,
}

/// Where a file's blocks are in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Offset of the first block in the image; the others follow it.
    pub start: u64,
    /// One word per block, as in inodes: the block's length in the image, 0 for a hole, with bit 24
    /// set if it is not compressed.
    pub words: Vec<u32>,
}

/// A callback that gets the bytes of each full fragment block, in order. If an image with the same
/// [`Options`] already has that block, it returns the word and the bytes there.
pub type Lender<'a> = dyn FnMut(&[u8]) -> Option<(u32, Vec<u8>)> + 'a;

/// A lender that has no blocks.
pub(super) fn nothing(_: &[u8]) -> Option<(u32, Vec<u8>)> {
    None
}

const NO_START: u64 = u64::MAX;
const NO_WORDS: u64 = u64::MAX;
/// Stands for words that follow from the size, so that none are kept for stored images.
const ALL_STORED: u64 = u64::MAX - 1;

/// Blocks of one or more files, in the order of the image.
#[derive(Default)]
pub(super) struct Batch {
    raw: Vec<u8>,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    owner: Owner,
    /// Bytes of the piece in `raw`; 0 for a hole.
    len: u32,
}

#[derive(Clone, Copy)]
enum Owner {
    Record(u32),
    Fragment,
}

/// A batch in the form in which it is written.
pub(super) struct Packed {
    /// Each piece with its word.
    pieces: Vec<(Piece, u32)>,
    bytes: Vec<u8>,
}

impl Batch {
    pub(super) fn pack(self, encoder: &mut Encoder) -> Result<Packed, Error> {
        let mut bytes = Vec::with_capacity(self.raw.len());
        let mut pieces = Vec::with_capacity(self.pieces.len());
        let mut rest = &self.raw[..];
        for piece in self.pieces {
            let (input, behind) = rest.split_at(piece.len as usize);
            rest = behind;
            let before = bytes.len();
            let word = if input.is_empty() {
                BLOCK_HOLE
            } else if encoder.append(input, &mut bytes)? {
                (bytes.len() - before) as u32
            } else {
                piece.len | BLOCK_STORED
            };
            pieces.push((piece, word));
        }
        Ok(Packed { pieces, bytes })
    }
}

/// The part of an image before its tables.
pub(super) struct Data<W> {
    pub(super) out: Out<W>,
    pub(super) options: Options,
    records: Vec<Record>,
    /// One word per block: its length in the image, and whether it is stored or a hole.
    words: Vec<u32>,
    /// Start and word of each fragment block.
    pub(super) fragments: Vec<(u64, u32)>,
    /// Number of fragment blocks that were begun, not counting the one in `fragment`.
    fragments_full: u32,
    fragment: Vec<u8>,
    batch: Batch,
    /// Stores blocks on this thread, if nothing is compressed.
    inline: Option<Encoder>,
    pool: Option<Pool>,
}

impl<W: Write> Data<W> {
    pub(super) fn new(out: Out<W>, options: Options) -> Result<Self, Error> {
        let inline = options.data.is_none().then(|| Encoder::new(None, false)).transpose()?;
        Ok(Self {
            out,
            options,
            records: Vec::new(),
            words: Vec::new(),
            fragments: Vec::new(),
            fragments_full: 0,
            fragment: Vec::new(),
            batch: Batch::default(),
            inline,
            pool: None,
        })
    }

    /// Adds a file with all bytes of `reader`.
    pub(super) fn file(
        &mut self,
        reader: &mut dyn Read,
        lend: &mut Lender<'_>,
    ) -> Result<FileData, Error> {
        let plain = self.options.zeros == Zeros::Keep && self.options.fragments == Fragments::None;
        if self.inline.is_some() && plain {
            return self.stored_file(reader);
        }
        let mut open = self.begin()?;
        self.raw(&mut open, reader, lend)?;
        self.end(&open)
    }

    /// Begins a file whose bytes are added in parts.
    pub(super) fn begin(&mut self) -> Result<Open, Error> {
        let words_before = self.words.len();
        Ok(Open { record: self.new_record()?, size: 0, words_before, holes: false })
    }

    /// Adds all bytes of `reader` to the file.
    pub(super) fn raw(
        &mut self,
        open: &mut Open,
        reader: &mut dyn Read,
        lend: &mut Lender<'_>,
    ) -> Result<(), Error> {
        let record = open.record;
        loop {
            let block = self.options.block_size as usize;
            let before = self.batch.raw.len();
            let len = read_up_to(reader, &mut self.batch.raw, block)?;
            if len == 0 {
                return Ok(());
            }
            if let Err(error) = self.check_open(open) {
                self.batch.raw.truncate(before);
                return Err(error);
            }
            open.size += len as u64;
            let is_tail = len < block;
            let bytes = &self.batch.raw[before..];
            if self.options.zeros == Zeros::Holes && is_zero(bytes) {
                self.batch.raw.truncate(before);
                self.batch.pieces.push(Piece { owner: Owner::Record(record), len: 0 });
                open.holes = true;
            } else if is_tail && self.shares_tail(open.size, len) {
                self.add_to_fragment(record, before, lend)?;
            } else {
                let piece = Piece { owner: Owner::Record(record), len: len as u32 };
                self.batch.pieces.push(piece);
            }
            if self.batch.raw.len() >= BATCH_BYTES || self.batch.pieces.len() >= BATCH_BYTES / 64 {
                self.submit()?;
            }
            if is_tail {
                return Ok(());
            }
        }
    }

    /// Adds the next `size` bytes of the file as blocks of another image.
    pub(super) fn packed(
        &mut self,
        open: &mut Open,
        size: u64,
        words: &[u32],
        bytes: Vec<u8>,
    ) -> Result<(), Error> {
        self.check_open(open)?;
        self.check_packed(open, size, words, &bytes)?;
        self.submit()?;
        open.size += size;
        let piece = Piece { owner: Owner::Record(open.record), len: 0 };
        self.pass(Packed { pieces: words.iter().map(|word| (piece, *word)).collect(), bytes })
    }

    /// Checks that the file can get more bytes: only whole blocks may be followed by others.
    fn check_open(&self, open: &Open) -> Result<(), Error> {
        if open.size.is_multiple_of(u64::from(self.options.block_size)) {
            return Ok(());
        }
        Err(Error::Parts { reason: "more bytes come after a part of a block" })
    }

    fn check_packed(
        &self,
        open: &Open,
        size: u64,
        words: &[u32],
        bytes: &[u8],
    ) -> Result<(), Error> {
        let wrong = |reason| Err(Error::Parts { reason });
        if self.inline.is_some() {
            return wrong("the image holds its files as they are");
        }
        let block = u64::from(self.options.block_size);
        if words.len() as u64 != size.div_ceil(block) {
            return wrong("their number does not follow from the file's length");
        }
        let tail = size % block;
        if tail != 0 && self.shares_tail(open.size + size, tail as usize) {
            return wrong("the last is shared with other files in this image");
        }
        let mut sum = 0;
        for word in words {
            let len = u64::from(word & !BLOCK_STORED);
            if len > block {
                return wrong("one is larger than the image's blocks");
            }
            sum += len;
        }
        if sum != bytes.len() as u64 {
            return wrong("their lengths are not those of their bytes");
        }
        Ok(())
    }

    /// Ends a file.
    pub(super) fn end(&mut self, open: &Open) -> Result<FileData, Error> {
        let Open { record, size, words_before, holes } = *open;
        self.records[record as usize].size = size;
        let mut run = None;
        if self.inline.is_some() {
            self.submit()?;
            let written = self.records[record as usize];
            if !holes && written.fragment == NONE {
                run = Some(if size == 0 { self.out.position() } else { written.start });
                // All of these words follow from the size.
                self.words.truncate(words_before);
                self.records[record as usize].words = ALL_STORED;
            }
        }
        Ok(FileData { record, size, run })
    }

    /// Copies from the reader to the sink, if there is nothing to compress, leave out or share.
    fn stored_file(&mut self, reader: &mut dyn Read) -> Result<FileData, Error> {
        let record = self.new_record()?;
        self.out.align(u64::from(self.options.align))?;
        let start = self.out.position();
        let mut size = 0;
        loop {
            let (len, ended) = self.out.copy_piece(reader)?;
            size += len as u64;
            if ended {
                break;
            }
        }
        let written = &mut self.records[record as usize];
        (written.start, written.size, written.words) = (start, size, ALL_STORED);
        Ok(FileData { record, size, run: Some(start) })
    }

    fn new_record(&mut self) -> Result<u32, Error> {
        let record = Record {
            start: NO_START,
            size: 0,
            words: NO_WORDS,
            fragment: NONE,
            fragment_offset: 0,
        };
        let number = u32::try_from(self.records.len())
            .map_err(|_| Error::TooMany { what: "files", limit: u64::from(u32::MAX) })?;
        self.records.push(record);
        Ok(number)
    }

    /// Returns whether a file's last `len` bytes of `size` are put into a shared fragment.
    fn shares_tail(&self, size: u64, len: usize) -> bool {
        match self.options.fragments {
            Fragments::None => false,
            Fragments::SmallFiles => size == len as u64,
            Fragments::Tails => true,
        }
    }

    /// Moves the bytes of the batch from `before` on into the fragment. A full fragment is written
    /// first, behind the file's blocks, which must stay together.
    fn add_to_fragment(
        &mut self,
        record: u32,
        before: usize,
        lend: &mut Lender<'_>,
    ) -> Result<(), Error> {
        let len = self.batch.raw.len() - before;
        if self.fragment.len() + len > self.options.block_size as usize {
            let tail = self.batch.raw.split_off(before);
            self.close_fragment(lend)?;
            self.fragment = tail;
            self.place_in_fragment(record, 0);
        } else {
            let at = self.fragment.len();
            self.fragment.extend_from_slice(&self.batch.raw[before..]);
            self.batch.raw.truncate(before);
            self.place_in_fragment(record, at);
        }
        Ok(())
    }

    fn place_in_fragment(&mut self, record: u32, at: usize) {
        let record = &mut self.records[record as usize];
        record.fragment = self.fragments_full;
        record.fragment_offset = at as u32;
    }

    fn close_fragment(&mut self, lend: &mut Lender<'_>) -> Result<(), Error> {
        if self.fragment.is_empty() {
            return Ok(());
        }
        let piece = Piece { owner: Owner::Fragment, len: self.fragment.len() as u32 };
        self.fragments_full = self
            .fragments_full
            .checked_add(1)
            .filter(|full| *full < NONE)
            .ok_or(Error::TooMany { what: "fragments", limit: u64::from(NONE - 1) })?;
        let lent = if self.inline.is_none() { lend(&self.fragment) } else { None };
        if let Some((word, bytes)) = lent.filter(|lent| is_block(lent, piece.len)) {
            self.fragment.clear();
            self.submit()?;
            return self.pass(Packed { pieces: vec![(piece, word)], bytes });
        }
        self.batch.raw.append(&mut self.fragment);
        self.batch.pieces.push(piece);
        Ok(())
    }

    /// Adds blocks that are already compressed behind all earlier ones.
    fn pass(&mut self, packed: Packed) -> Result<(), Error> {
        match &mut self.pool {
            None => self.write(packed),
            Some(_) => self.in_turn(|pool| pool.pass(packed)),
        }
    }

    /// Passes on the batch, and writes what is ready.
    fn submit(&mut self) -> Result<(), Error> {
        let batch = std::mem::take(&mut self.batch);
        if batch.pieces.is_empty() {
            return Ok(());
        }
        if let Some(encoder) = &mut self.inline {
            let packed = batch.pack(encoder)?;
            return self.write(packed);
        }
        self.in_turn(|pool| pool.submit(batch))
    }

    /// Gives the pool work when it can take more, and writes what is ready.
    fn in_turn(&mut self, give: impl FnOnce(&mut Pool) -> Result<(), Error>) -> Result<(), Error> {
        let mut pool = match self.pool.take() {
            Some(pool) => pool,
            None => {
                let batch_bytes = BATCH_BYTES + self.options.block_size as usize;
                Pool::start(&self.options, batch_bytes)?
            }
        };
        if pool.is_full()
            && let Some(packed) = pool.wait()?
        {
            self.write(packed)?;
        }
        give(&mut pool)?;
        while let Some(packed) = pool.ready()? {
            self.write(packed)?;
        }
        self.pool = Some(pool);
        Ok(())
    }

    /// Writes everything that is not written yet.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        self.close_fragment(&mut nothing)?;
        self.submit()?;
        if let Some(mut pool) = self.pool.take() {
            while let Some(packed) = pool.wait()? {
                self.write(packed)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, packed: Packed) -> Result<(), Error> {
        let mut rest = &packed.bytes[..];
        for (piece, word) in packed.pieces {
            let (bytes, behind) = rest.split_at((word & !BLOCK_STORED) as usize);
            rest = behind;
            match piece.owner {
                Owner::Fragment => self.fragments.push((self.out.position(), word)),
                Owner::Record(record) => {
                    let record = &mut self.records[record as usize];
                    if record.words == NO_WORDS {
                        record.words = self.words.len() as u64;
                    }
                    if record.start == NO_START && word != BLOCK_HOLE {
                        self.out.align(u64::from(self.options.align))?;
                        record.start = self.out.position();
                    }
                    self.words.push(word);
                }
            }
            self.out.write(bytes)?;
        }
        Ok(())
    }

    pub(super) fn record(&self, data: FileData) -> Result<&Record, Error> {
        let record = self.records.get(data.record as usize);
        record.filter(|record| record.size == data.size).ok_or(Error::Foreign)
    }

    /// Returns where a file's blocks are, once all are written; `None` if some of its bytes are in
    /// a shared fragment, or if nothing is compressed.
    pub(super) fn placed(&self, data: FileData) -> Result<Option<Placed>, Error> {
        let record = self.record(data)?;
        if self.inline.is_some() || record.fragment != NONE {
            return Ok(None);
        }
        Ok(Some(Placed { start: record.blocks_start(), words: self.words(record).collect() }))
    }

    /// Returns the words of a record's blocks, once all are written.
    pub(super) fn words(&self, record: &Record) -> impl Iterator<Item = u32> {
        let block = u64::from(self.options.block_size);
        let n =
            if record.fragment == NONE { record.size.div_ceil(block) } else { record.size / block };
        let Record { size, words, .. } = *record;
        (0..n).map(move |i| {
            if words == ALL_STORED {
                (size - i * block).min(block) as u32 | BLOCK_STORED
            } else {
                self.words[(words + i) as usize]
            }
        })
    }
}

impl Record {
    /// Returns where the blocks start, as an inode gives it: 0 if there are none.
    pub(super) fn blocks_start(&self) -> u64 {
        if self.start == NO_START { 0 } else { self.start }
    }
}

/// Returns whether a word and these bytes can be a block of `raw` uncompressed bytes.
fn is_block((word, bytes): &(u32, Vec<u8>), raw: u32) -> bool {
    let len = word & !BLOCK_STORED;
    let fits = if word & BLOCK_STORED == 0 { len > 0 && len < raw } else { len == raw };
    fits && bytes.len() == len as usize
}

fn is_zero(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<32>();
    chunks.iter().all(|chunk| *chunk == [0; 32]) && rest.iter().all(|byte| *byte == 0)
}
