//! The source of a TIFF's bytes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Bytes that are read by position.
pub trait Positioned {
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// Those of the operating system.
    fn len_bytes(&self) -> io::Result<u64>;

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] past the end.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

impl Positioned for [u8] {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|at| self.get(at..));
        let from = from.and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Positioned for File {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }
}
