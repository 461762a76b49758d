//! Cuts bytes that arrive in order into blocks.
//!
//! ```text
//! pieces  ──┬─────┬──┬────────┬───┬──
//! blocks  ──────┬───────┬───────┬────   BLOCK_BYTES each, the last one of the file shorter
//! ```

use std::ops::Range;

use crate::BLOCK_BYTES;

/// Cuts the bytes of some consecutive blocks of a file.
#[derive(Debug)]
pub struct BlockCutter {
    len_bytes: u64,
    /// The block that is being filled, and the end of the wanted ones.
    blocks: Range<u64>,
    /// The bytes of that block so far.
    bytes: Vec<u8>,
}

/// Gets the number of a block, its first byte in the file, and its bytes.
pub type PassOn<'a, E> = dyn FnMut(u64, u64, &[u8]) -> Result<(), E> + 'a;

impl BlockCutter {
    /// Cuts `blocks` of a file of `len_bytes`, as far as it has them. An empty file has one empty
    /// block.
    #[must_use]
    pub fn new(len_bytes: u64, blocks: Range<u64>) -> Self {
        let n_blocks = len_bytes.div_ceil(BLOCK_BYTES as u64).max(1);
        let blocks = blocks.start..blocks.end.min(n_blocks);
        Self { len_bytes, blocks, bytes: Vec::new() }
    }

    /// The first byte of the block that is being filled: the first one not passed on.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.start_of(self.blocks.start)
    }

    /// The end of the wanted bytes.
    #[must_use]
    pub fn until(&self) -> u64 {
        self.start_of(self.blocks.end)
    }

    /// Whether all wanted blocks were passed on.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.blocks.is_empty()
    }

    fn start_of(&self, block: u64) -> u64 {
        block.saturating_mul(BLOCK_BYTES as u64).min(self.len_bytes)
    }

    /// Takes the next bytes, and passes on each block that they complete. Returns how many bytes
    /// belong to wanted blocks.
    ///
    /// # Errors
    /// Those of `pass_on`; then its block counts as not passed on.
    pub fn take<E>(&mut self, bytes: &[u8], pass_on: &mut PassOn<'_, E>) -> Result<usize, E> {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_done() {
            let end = self.start_of(self.blocks.start.saturating_add(1));
            let size = usize::try_from(end.saturating_sub(self.position())).unwrap_or(BLOCK_BYTES);
            let room = size.saturating_sub(self.bytes.len());
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.bytes.extend_from_slice(now);
            rest = later;
            if self.bytes.len() == size {
                self.close(pass_on)?;
            }
        }
        Ok(bytes.len().saturating_sub(rest.len()))
    }

    /// Passes on the one block of an empty file, which no byte completes.
    ///
    /// # Errors
    /// Those of `pass_on`.
    pub fn end<E>(&mut self, pass_on: &mut PassOn<'_, E>) -> Result<(), E> {
        if self.len_bytes == 0 && !self.is_done() { self.close(pass_on) } else { Ok(()) }
    }

    /// Drops the bytes of the block that is being filled.
    pub fn rewind(&mut self) {
        self.bytes.clear();
    }

    fn close<E>(&mut self, pass_on: &mut PassOn<'_, E>) -> Result<(), E> {
        pass_on(self.blocks.start, self.position(), &self.bytes)?;
        self.blocks.start = self.blocks.start.saturating_add(1);
        self.bytes.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = BLOCK_BYTES;

    /// Returns the blocks that are passed on if a file arrives in pieces, from the first wanted byte
    /// on: the first byte of each, and its length. Each byte is the number of its block.
    fn cut(len: usize, wanted: Range<u64>, piece: usize) -> Vec<(u64, usize)> {
        let all: Vec<u8> = (0..len).map(|i| (i / BLOCK) as u8).collect();
        let mut cutter = BlockCutter::new(len as u64, wanted);
        let mut seen = Vec::new();
        let mut pass_on = |number: u64, position: u64, bytes: &[u8]| {
            assert!(bytes.iter().all(|byte| u64::from(*byte) == number), "{number}");
            seen.push((position, bytes.len()));
            Ok::<_, ()>(())
        };
        let (start, until) = (cutter.position() as usize, cutter.until() as usize);
        let mut used = 0;
        for piece in all[start..].chunks(piece) {
            used += cutter.take(piece, &mut pass_on).unwrap();
        }
        cutter.end(&mut pass_on).unwrap();
        assert!(cutter.is_done());
        assert_eq!((start + used, cutter.position() as usize), (until, until));
        seen
    }

    #[test]
    fn blocks_are_whole_whatever_the_pieces() {
        let [first, second] = [(0, BLOCK), (BLOCK as u64, BLOCK)];
        let last = (2 * BLOCK as u64, 10);
        let len = 2 * BLOCK + 10;
        for piece in [BLOCK, BLOCK + 7, 3 * BLOCK, 300_000] {
            assert_eq!(cut(len, 0..u64::MAX, piece), [first, second, last], "{piece}");
            assert_eq!(cut(len, 0..2, piece), [first, second], "{piece}");
            assert_eq!(cut(len, 1..2, piece), [second], "{piece}");
            assert_eq!(cut(len, 2..3, piece), [last], "{piece}");
        }
        assert_eq!(cut(0, 0..1, 1), [(0, 0)]);
        assert_eq!(cut(3, 0..9, 1), [(0, 3)]);
    }

    #[test]
    fn a_block_that_is_not_taken_may_come_again() {
        let mut cutter = BlockCutter::new(3, 0..1);
        let refuse = &mut |_, _, _: &[u8]| Err("no");
        assert_eq!(cutter.take(b"abc", refuse), Err("no"));
        cutter.rewind();
        assert_eq!(cutter.position(), 0);
        let mut seen = Vec::new();
        let mut pass_on = |_, _, bytes: &[u8]| {
            seen.extend_from_slice(bytes);
            Ok::<_, ()>(())
        };
        assert_eq!(cutter.take(b"abcd", &mut pass_on), Ok(3));
        assert_eq!((seen.as_slice(), cutter.is_done()), (&b"abc"[..], true));
    }
}
