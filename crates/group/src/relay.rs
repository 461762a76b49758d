//! A broadcast around the ring: each rank forwards bytes as soon as it receives them.

use super::flow::Flow;
use super::operation::{HEADER_BYTES, Operation};
use crate::Error;

/// Rank 0's side of a broadcast: header and bytes.
pub(super) struct Source<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) header: Option<[u8; HEADER_BYTES]>,
}

impl Flow for Source<'_> {
    fn fill(&mut self, out: &mut [u8]) -> usize {
        if let Some(header) = self.header.take() {
            let Some(head) = out.first_chunk_mut() else { return 0 };
            *head = header;
            return HEADER_BYTES;
        }
        let n = self.bytes.len().min(out.len());
        if let (Some((now, later)), Some(out)) = (self.bytes.split_at_checked(n), out.get_mut(..n))
        {
            out.copy_from_slice(now);
            self.bytes = later;
        }
        n
    }

    fn sends(&self) -> bool {
        self.header.is_some() || !self.bytes.is_empty()
    }

    fn wanted(&self) -> usize {
        0
    }

    fn take(&mut self, _bytes: &[u8]) -> Result<usize, Error> {
        Ok(0)
    }
}

/// The buffer that a broadcast is received into.
pub(super) enum Target<'a> {
    /// A buffer that grows with the bytes that arrive, up to a limit.
    Grow(&'a mut Vec<u8>, u64),
    /// A buffer that has the length of the broadcast.
    Fill(&'a mut [u8]),
}

/// The side of all other ranks.
pub(super) struct Relay<'a> {
    pub(super) target: Target<'a>,
    pub(super) operation: Operation,
    pub(super) rank: u64,
    /// Whether the next rank also needs the bytes.
    pub(super) passes_on: bool,
    header: Option<[u8; HEADER_BYTES]>,
    header_sent: bool,
    len: usize,
    came: usize,
    sent: usize,
}

impl<'a> Relay<'a> {
    pub(super) fn new(target: Target<'a>, operation: Operation, rank: u64, last: bool) -> Self {
        Self {
            target,
            operation,
            rank,
            passes_on: !last,
            header: None,
            header_sent: false,
            len: 0,
            came: 0,
            sent: 0,
        }
    }

    fn begin(&mut self, header: &[u8; HEADER_BYTES]) -> Result<(), Error> {
        let len = self.operation.agree(self.rank, self.rank - 1, header)?;
        let limit = match &mut self.target {
            Target::Grow(bytes, limit) => {
                bytes.clear();
                *limit
            }
            Target::Fill(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        };
        let fits = usize::try_from(len).ok().filter(|_| len <= limit);
        self.len = fits.ok_or(Error::TooLong { rank: self.rank, found: len, limit })?;
        self.header = Some(*header);
        Ok(())
    }
}

impl Flow for Relay<'_> {
    fn fill(&mut self, out: &mut [u8]) -> usize {
        let Some(header) = self.header.filter(|_| self.passes_on) else { return 0 };
        if !self.header_sent {
            let Some(head) = out.first_chunk_mut() else { return 0 };
            *head = header;
            self.header_sent = true;
            return HEADER_BYTES;
        }
        let all: &[u8] = match &self.target {
            Target::Grow(bytes, _) => bytes,
            Target::Fill(bytes) => bytes,
        };
        let n = out.len().min(self.came - self.sent);
        if let (Some(now), Some(out)) = (all.get(self.sent..self.sent + n), out.get_mut(..n)) {
            out.copy_from_slice(now);
        }
        self.sent += n;
        n
    }

    fn sends(&self) -> bool {
        self.passes_on && (!self.header_sent || self.sent < self.len)
    }

    fn wanted(&self) -> usize {
        // The length is known once the header has arrived.
        if self.header.is_none() { HEADER_BYTES } else { self.len - self.came }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        if self.header.is_none() {
            let Some(header) = bytes.first_chunk() else { return Ok(0) };
            self.begin(header)?;
            return Ok(HEADER_BYTES);
        }
        let n = bytes.len().min(self.len - self.came);
        let new = bytes.get(..n).unwrap_or_default();
        match &mut self.target {
            Target::Grow(all, _) => all.extend(new),
            Target::Fill(all) => {
                if let Some(out) = all.get_mut(self.came..self.came + n) {
                    out.copy_from_slice(new);
                }
            }
        }
        self.came += n;
        Ok(n)
    }
}
