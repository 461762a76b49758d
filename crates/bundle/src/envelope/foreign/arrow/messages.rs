//! The messages of an Arrow stream or file.

use arrow_ipc::{Endianness, MessageHeader, root_as_message, root_as_message_with_opts};
use arrow_schema::Schema;
use flatbuffers::VerifierOptions;

use crate::{Error, ReadAt};

/// Metadata above this is refused; a batch of 1000 columns takes 100 KB.
const MAX_METADATA: u64 = 64 << 20;
/// Tables of a message may share their contents. Read one after the other, they may be at most this
/// many times as large as the message.
const MAX_SHARED: usize = 4;
const FILE_MAGIC: &[u8; 6] = b"ARROW1";
const CONTINUATION: u32 = u32::MAX;

/// A message that describes a batch, and where its body is.
pub(crate) struct Message {
    /// The flatbuffer.
    pub(crate) metadata: Vec<u8>,
    /// First byte of the body in the file.
    pub(crate) body: u64,
    /// Bytes of the body.
    pub(crate) body_len: u64,
}

/// The schema of a file, and its record batches.
pub(crate) struct Messages<'a> {
    file: &'a ReadAt,
    position: u64,
}

impl<'a> Messages<'a> {
    /// Reads the schema.
    pub(crate) fn open(file: &'a ReadAt) -> Result<(Self, Schema), Error> {
        let mut magic = [0; 6];
        let is_file = file.read_at(0, &mut magic).is_ok() && &magic == FILE_MAGIC;
        let mut messages = Self { file, position: if is_file { 8 } else { 0 } };
        let bad = |reason: String| Error::malformed(file.path(), reason);
        let first = messages.read()?.ok_or_else(|| bad("it has no schema".into()))?;
        let message = root_as_message(&first.metadata)
            .map_err(|e| bad(format!("its first message is not an Arrow message: {e}")))?;
        let schema = message.header_as_schema();
        let schema = schema.ok_or_else(|| bad("its first message is not a schema".into()))?;
        if schema.endianness() != Endianness::Little {
            let reason = "its numbers are big-endian".to_owned();
            return Err(Error::NotInPlace { path: file.path(), reason });
        }
        let schema = arrow_ipc::convert::try_fb_to_schema(schema)
            .map_err(|e| bad(format!("its schema: {e}")))?;
        Ok((messages, schema))
    }

    /// The next record batch; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, Error> {
        while let Some(message) = self.read()? {
            let parsed = root_as_message(&message.metadata).map_err(|e| {
                let reason = format!("the message before byte {}: {e}", message.body);
                Error::malformed(self.file.path(), reason)
            })?;
            if parsed.header_type() == MessageHeader::RecordBatch {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    fn read(&mut self) -> Result<Option<Message>, Error> {
        let start = self.position;
        let bad =
            |reason: &str| Error::malformed(self.file.path(), format!("{reason} at byte {start}"));
        if start == self.file.len_bytes() {
            // A stream may end without its marker.
            return Ok(None);
        }
        let mut head = [0; 8];
        self.file.read_at(start, &mut head).map_err(|_| bad("a message is cut"))?;
        let [a, b, c, d, e, f, g, h] = head;
        if u32::from_le_bytes([a, b, c, d]) != CONTINUATION {
            return Err(bad("there is no Arrow message, or one from before Arrow 0.15"));
        }
        let len = u64::from(u32::from_le_bytes([e, f, g, h]));
        if len == 0 {
            return Ok(None);
        }
        let first = start.saturating_add(8);
        let body = first.checked_add(len).filter(|end| *end <= self.file.len_bytes());
        let body = body.filter(|_| len <= MAX_METADATA);
        let body = body.ok_or_else(|| bad("a message is cut or too large"))?;
        let mut metadata = vec![0; usize::try_from(len).unwrap_or(0)];
        self.file.read_at(first, &mut metadata)?;
        let options = VerifierOptions {
            max_tables: metadata.len(),
            max_apparent_size: metadata.len().saturating_mul(MAX_SHARED),
            ..VerifierOptions::default()
        };
        let message = root_as_message_with_opts(&options, &metadata)
            .map_err(|e| bad(&format!("a message is damaged ({})", first_line(&e))))?;
        let body_len = u64::try_from(message.bodyLength()).ok();
        let next = body_len.and_then(|len| body.checked_add(len));
        let next = next.filter(|end| *end <= self.file.len_bytes());
        self.position = next.ok_or_else(|| bad("the body of a message is cut"))?;
        Ok(Some(Message { metadata, body, body_len: body_len.unwrap_or(0) }))
    }
}

/// Returns the error without its trace, which has a line for each table.
fn first_line(error: &flatbuffers::InvalidFlatbuffer) -> String {
    error.to_string().lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}
