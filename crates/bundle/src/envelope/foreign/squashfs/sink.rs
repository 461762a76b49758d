//! Connects the image's writer, which owns its sink, with the file, which it only borrows.

use std::io::{self, Read, Write};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use crate::envelope::Out;

/// A buffer that two owners share: one writes to it, the other drains it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    /// Passes to `out` what has been written so far.
    pub(crate) fn drain(&self, out: &mut Out) -> io::Result<()> {
        let mut bytes = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        out.write_all(&bytes)?;
        bytes.clear();
        // The allocation is kept for the next bytes.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
        Ok(())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file's bytes for the image's writer. Whenever the writer asks for more, what it has
/// written is passed to the file, so that no large value is in memory twice.
#[derive(Debug)]
pub(crate) struct Feed<'a, R> {
    pub(crate) bytes: R,
    pub(crate) sink: &'a Sink,
    pub(crate) out: &'a mut Out,
}

impl<R: Read> Read for Feed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.sink.drain(self.out)?;
        self.bytes.read(buffer)
    }
}
