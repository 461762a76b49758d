//! The sink, to which the image is written in large pieces.

use std::io::{self, Read, Write};

use super::Error;

/// Bytes that are gathered before they are written.
const PIECE: usize = 1 << 20;

/// An append-only sink that knows its position.
#[derive(Debug)]
pub(super) struct Out<W> {
    sink: W,
    pending: Vec<u8>,
    written: u64,
}

impl<W: Write> Out<W> {
    pub(super) fn new(sink: W) -> Self {
        Self { sink, pending: Vec::new(), written: 0 }
    }

    /// Returns the number of bytes since the image's start.
    pub(super) fn position(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.pending.extend_from_slice(bytes);
        self.flush_at(PIECE)
    }

    /// Pads with zeros to a multiple of `multiple`.
    pub(super) fn align(&mut self, multiple: u64) -> Result<(), Error> {
        let zeros = self.position().next_multiple_of(multiple) - self.position();
        self.pending.resize(self.pending.len() + zeros as usize, 0);
        self.flush_at(PIECE)
    }

    /// Copies up to a piece from `reader`, without another buffer in between. Returns the number of
    /// bytes, and whether the reader has ended.
    pub(super) fn copy_piece(&mut self, reader: &mut dyn Read) -> Result<(usize, bool), Error> {
        let len = read_up_to(reader, &mut self.pending, PIECE)?;
        self.flush_at(PIECE)?;
        Ok((len, len < PIECE))
    }

    pub(super) fn into_sink(mut self) -> Result<W, Error> {
        self.flush_at(1)?;
        self.sink.flush().map_err(Error::Write)?;
        Ok(self.sink)
    }

    fn flush_at(&mut self, least: usize) -> Result<(), Error> {
        if self.pending.len() >= least {
            self.sink.write_all(&self.pending).map_err(Error::Write)?;
            self.written += self.pending.len() as u64;
            self.pending.clear();
        }
        Ok(())
    }
}

/// Appends `limit` bytes of `reader` to `bytes`, or all if there are fewer. After an error `bytes`
/// is as before.
pub(super) fn read_up_to(
    reader: &mut dyn Read,
    bytes: &mut Vec<u8>,
    limit: usize,
) -> Result<usize, Error> {
    let before = bytes.len();
    bytes.reserve(limit);
    let read: io::Result<usize> = reader.take(limit as u64).read_to_end(bytes);
    read.map_err(|source| {
        bytes.truncate(before);
        Error::Read(source)
    })
}
