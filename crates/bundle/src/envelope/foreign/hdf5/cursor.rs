//! Reads little-endian numbers from the front of a byte slice.

use crate::envelope::foreign::hdf5::UNDEFINED;

/// The unread rest of some bytes. Every method returns `None` past the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn skip(&mut self, n: usize) -> Option<()> {
        self.take(n).map(|_| ())
    }

    /// Takes the next bytes, which must be `bytes`.
    pub(super) fn expect(&mut self, bytes: &[u8]) -> Option<()> {
        (self.take(bytes.len())? == bytes).then_some(())
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk().map(|b| u16::from_le_bytes(*b))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|b| u32::from_le_bytes(*b))
    }

    /// Takes a number of up to eight bytes.
    pub(super) fn uint(&mut self, size: usize) -> Option<u64> {
        let bytes = self.take(size).filter(|b| b.len() <= 8)?;
        Some(bytes.iter().rev().fold(0, |acc, byte| (acc << 8) | u64::from(*byte)))
    }

    /// Takes an address of `size` bytes; all ones, in any size, are [`UNDEFINED`].
    pub(super) fn address(&mut self, size: usize) -> Option<u64> {
        let none = self.rest.get(..size)?.iter().all(|b| *b == u8::MAX);
        self.uint(size).map(|address| if none { UNDEFINED } else { address })
    }
}
