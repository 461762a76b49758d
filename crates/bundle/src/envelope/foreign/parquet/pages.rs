//! The pages of a column chunk, one header after the other.

use crate::envelope::Run;
use crate::envelope::foreign::parquet::thrift::{Thrift, Value};
use crate::{Error, ReadAt};

/// Most headers take 30 bytes; those with statistics of texts a few hundred.
const HEADER: u64 = 256;
/// Larger headers are refused.
const MAX_HEADER: u64 = 1 << 20;

/// A page as its header describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) kind: PageKind,
    /// The bytes behind the header.
    pub(super) body: Run,
    /// Bytes of the body when it is unpacked.
    pub(super) unpacked: u64,
    /// The number of values, including nulls.
    pub(super) n: u64,
    pub(super) encoding: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    Dictionary,
    /// Levels are in the body, behind their length.
    V1 {
        levels_encoding: i64,
    },
    /// Levels are before the values, and are never compressed.
    V2 {
        /// Bytes of repetition levels and of definition levels.
        levels: [u64; 2],
        packed: bool,
    },
}

/// Walks the pages of a chunk.
#[derive(Debug)]
pub(super) struct Pages<'a> {
    file: &'a ReadAt,
    position: u64,
    end: u64,
}

impl<'a> Pages<'a> {
    /// Walks the pages of `chunk`, which is within the file.
    pub(super) fn new(file: &'a ReadAt, chunk: Run) -> Self {
        let end = chunk.offset.saturating_add(chunk.len);
        Self { file, position: chunk.offset, end }
    }

    /// Returns the next page with values; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Page>, Error> {
        while self.position < self.end {
            let start = self.position;
            let (header, len) = self.header()?;
            let bad = || {
                let reason = format!("the page at byte {start} leaves its column");
                Error::malformed(self.file.path(), reason)
            };
            let offset = start.saturating_add(len);
            let body = header.body;
            let end = offset.checked_add(body).filter(|end| *end <= self.end);
            self.position = end.ok_or_else(bad)?;
            if let Some((kind, n, encoding)) = header.kind {
                let body = Run { offset, len: body };
                return Ok(Some(Page { kind, body, unpacked: header.unpacked, n, encoding }));
            }
        }
        Ok(None)
    }

    /// Reads the next header, and returns it with its length.
    fn header(&self) -> Result<(Header, u64), Error> {
        let left = self.end.saturating_sub(self.position);
        let mut len = HEADER;
        loop {
            let mut bytes = vec![0; usize::try_from(len.min(left)).unwrap_or(0)];
            self.file.read_at(self.position, &mut bytes)?;
            let mut thrift = Thrift::new(&bytes);
            if let Some(value) = thrift.structure() {
                let read = bytes.len().saturating_sub(thrift.left()) as u64;
                if let Some(header) = Header::parse(&value) {
                    return Ok((header, read));
                }
            } else if len < left && len < MAX_HEADER {
                len = len.saturating_mul(16);
                continue;
            }
            let reason = format!("there is no page header at byte {}", self.position);
            return Err(Error::malformed(self.file.path(), reason));
        }
    }
}

struct Header {
    body: u64,
    unpacked: u64,
    /// Kind of the page, number of values, and their encoding; `None` for pages without values.
    kind: Option<(PageKind, u64, i64)>,
}

impl Header {
    fn parse(header: &Value<'_>) -> Option<Self> {
        let kind = match header.int(1)? {
            0 => {
                let data = header.field(5)?;
                let levels_encoding = data.int(3)?;
                Some((PageKind::V1 { levels_encoding }, data.count(1)?, data.int(2)?))
            }
            2 => {
                let data = header.field(7)?;
                Some((PageKind::Dictionary, data.count(1)?, data.int(2)?))
            }
            3 => {
                let data = header.field(8)?;
                let levels = [data.count(6)?, data.count(5)?];
                let packed = data.field(7) != Some(&Value::Bool(false));
                Some((PageKind::V2 { levels, packed }, data.count(1)?, data.int(4)?))
            }
            _ => None,
        };
        Some(Self { body: header.count(3)?, unpacked: header.count(2)?, kind })
    }
}
