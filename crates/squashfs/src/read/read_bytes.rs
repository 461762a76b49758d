//! The source of an image's bytes.

use std::io;

/// Bytes of known length that are read by position.
pub trait ReadBytes {
    /// Returns the number of bytes.
    fn len_bytes(&self) -> u64;

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// Fails if they cannot be read, or end before `out` is full.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

impl ReadBytes for [u8] {
    fn len_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = start.checked_add(out.len()).and_then(|end| self.get(start..end));
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Returns the little-endian number at `at`; 0 behind the end, which callers have excluded.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    number(bytes, at).map_or(0, u16::from_le_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    number(bytes, at).map_or(0, u32::from_le_bytes)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at).map_or(0, u64::from_le_bytes)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
