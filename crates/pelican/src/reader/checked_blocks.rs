//! The receiver of an object's bytes; it decides whether they are right.

use std::io;
use std::ops::Range;

use gular_files::BlockCutter;

use crate::http::Response;
use crate::reader::wrong_bytes::WrongBytes;
use crate::{Error, Url};

pub use gular_files::BLOCK_BYTES;

/// An object whose bytes the caller can check, block by block.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    /// The object's URL.
    pub url: &'a Url,
    /// The object's length in bytes.
    pub len_bytes: u64,
    /// Returns whether these are the bytes of the block with that number ([`BLOCK_BYTES`] each, the
    /// last one shorter; an empty object has one empty block).
    pub accepts: &'a (dyn Fn(u64, &[u8]) -> bool + Sync),
}

/// A callback that gets all the bytes at once, and says why they are not the expected ones.
pub type Accept<'a> = dyn Fn(&[u8]) -> Result<(), WrongBytes> + 'a;

/// A callback that gets accepted bytes with their offset, in order.
pub type Sink<'a> = dyn FnMut(u64, &[u8]) -> io::Result<()> + 'a;

/// Why a receiver stops.
pub(crate) enum Stop {
    /// The bytes are not the expected ones: try another server.
    Refused(WrongBytes),
    /// No server can help.
    Failed(Error),
}

/// How the bytes of an answer follow those that were taken before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joint {
    Continues,
    /// They are of another version of the object: it begins again at 0, and so
    /// [`position`](Take::position) has changed.
    Restarts,
}

/// The receiver of an object's bytes.
pub(crate) trait Take {
    /// An answer begins that may bring the next bytes.
    fn begin(&mut self, _response: &Response) -> Result<Joint, Error> {
        Ok(Joint::Continues)
    }
    /// Whether every byte is checked with a digest that the caller has, so that it does not matter
    /// which server sends it, or under which name.
    fn is_verified(&self) -> bool {
        false
    }
    /// The first byte not yet accepted: where the next server begins.
    fn position(&self) -> u64;
    /// The length that the object must have, if it is known.
    fn len(&self) -> Option<u64>;
    /// The end of the bytes that are wanted; by default that of the object.
    fn until(&self) -> Option<u64> {
        self.len()
    }
    /// The most bytes that the object may have.
    fn limit(&self) -> u64;
    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Stop>;
    /// Is called after the last byte.
    fn end(&mut self) -> Result<(), Stop>;
    /// Drops the bytes that were taken and not accepted.
    fn rewind(&mut self);
}

/// Takes blocks of an object; each is checked, then passed on.
pub(crate) struct Blocks<'a> {
    object: Object<'a>,
    sink: &'a mut Sink<'a>,
    cutter: BlockCutter,
}

impl<'a> Blocks<'a> {
    /// Takes the blocks with these numbers, as far as the object has them.
    pub(crate) fn new(object: Object<'a>, sink: &'a mut Sink<'a>, blocks: Range<u64>) -> Self {
        Self { object, sink, cutter: BlockCutter::new(object.len_bytes, blocks) }
    }
}

/// Checks a block, and gives it to the sink.
fn pass_on(
    object: &Object<'_>,
    sink: &mut Sink<'_>,
) -> impl FnMut(u64, u64, &[u8]) -> Result<(), Stop> {
    |number, position, bytes| {
        if !(object.accepts)(number, bytes) {
            let end = position + bytes.len() as u64;
            return Err(Stop::Refused(WrongBytes::Differ { range: position..end }));
        }
        let failed = |source| Error::Sink { url: object.url.to_string(), source };
        sink(position, bytes).map_err(|source| Stop::Failed(failed(source)))
    }
}

impl Take for Blocks<'_> {
    fn is_verified(&self) -> bool {
        true
    }

    fn position(&self) -> u64 {
        self.cutter.position()
    }

    fn len(&self) -> Option<u64> {
        Some(self.object.len_bytes)
    }

    fn until(&self) -> Option<u64> {
        Some(self.cutter.until())
    }

    fn limit(&self) -> u64 {
        self.object.len_bytes
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let is_to_end = self.until() == self.len();
        let Self { object, sink, cutter } = self;
        let n = cutter.take(bytes, &mut pass_on(object, sink))?;
        // A server may send all of the object to whoever wants some blocks.
        if n < bytes.len() && is_to_end {
            return Err(Stop::Refused(WrongBytes::Longer));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stop> {
        let Self { object, sink, cutter } = self;
        cutter.end(&mut pass_on(object, sink))
    }

    fn rewind(&mut self) {
        self.cutter.rewind();
    }
}

/// A part of an object in memory, accepted at its end.
pub(crate) struct Part<'a> {
    object_len: u64,
    range: Range<u64>,
    accepts: &'a Accept<'a>,
    bytes: Vec<u8>,
}

impl<'a> Part<'a> {
    /// The bytes `range`, not none, of an object of `object_len`.
    pub(crate) fn new(object_len: u64, range: Range<u64>, accepts: &'a Accept<'a>) -> Self {
        Self { object_len, range, accepts, bytes: Vec::new() }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl Take for Part<'_> {
    fn is_verified(&self) -> bool {
        true
    }

    fn position(&self) -> u64 {
        self.range.start.saturating_add(self.bytes.len() as u64)
    }

    fn len(&self) -> Option<u64> {
        Some(self.object_len)
    }

    fn until(&self) -> Option<u64> {
        Some(self.range.end)
    }

    fn limit(&self) -> u64 {
        self.object_len
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let left = usize::try_from(self.range.end.saturating_sub(self.position()));
        // A server may send all of the object to whoever wants a part.
        let n = left.unwrap_or(usize::MAX).min(bytes.len());
        if n == 0 {
            return Ok(());
        }
        self.bytes.extend_from_slice(bytes.get(..n).unwrap_or_default());
        if self.position() < self.range.end {
            return Ok(());
        }
        (self.accepts)(&self.bytes).map_err(Stop::Refused)
    }

    fn end(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn rewind(&mut self) {
        // A block can be checked only when it is complete.
        self.bytes.clear();
    }
}

/// Takes all bytes into memory, and accepts them at the end.
pub(crate) struct Whole<'a> {
    url: &'a Url,
    limit: u64,
    accepts: &'a Accept<'a>,
    verified: bool,
    bytes: Vec<u8>,
}

impl<'a> Whole<'a> {
    pub(crate) fn new(url: &'a Url, limit: u64, accepts: &'a Accept<'a>, verified: bool) -> Self {
        Self { url, limit, accepts, verified, bytes: Vec::new() }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl Take for Whole<'_> {
    fn is_verified(&self) -> bool {
        self.verified
    }

    fn position(&self) -> u64 {
        0
    }

    fn len(&self) -> Option<u64> {
        None
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let found = self.bytes.len() as u64 + bytes.len() as u64;
        if found > self.limit {
            let (url, limit) = (self.url.to_string(), self.limit);
            return Err(Stop::Failed(Error::TooLarge { url, found, limit }));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stop> {
        (self.accepts)(&self.bytes).map_err(Stop::Refused)
    }

    fn rewind(&mut self) {
        self.bytes.clear();
    }
}
