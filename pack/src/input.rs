//! Reads an input file, decides whether it can be packed, and makes its value.

use std::io;

use gular_codec::{DecodeOptions, Decoder, Format, Limits, read_header};

use crate::Check;
use crate::error::{BadInput, Fault};
use crate::payload::{Maker, Value};
use crate::plan::Record;
use crate::scan::media_type_of;
use crate::source::Source;

/// The largest value of a field. Format: `FORMAT.md`, "Limits".
const MOST_BYTES: u64 = (1 << 31) - 1;

/// Reads and checks inputs; one per thread.
pub(crate) struct InputReader {
    check: Check,
    limits: Limits,
    decoder: Decoder,
    maker: Maker,
}

impl InputReader {
    pub(crate) fn new(check: Check, max_pixels: u64, maker: Maker) -> Self {
        let limits = Limits { max_pixels };
        let decoder = Decoder::new(DecodeOptions { limits, ..DecodeOptions::default() });
        Self { check, limits, decoder, maker }
    }

    /// The value of a planned input, or why it cannot be packed.
    pub(crate) fn read(&mut self, source: &Source, record: &Record) -> Result<Value, BadInput> {
        let bad = |reason: String, hint| Fault::new(reason, hint).at(record.key.to_string());
        let io = |e: io::Error| {
            let hint =
                (e.kind() == io::ErrorKind::PermissionDenied).then_some("check its permissions");
            bad(format!("cannot be read: {e}"), hint)
        };
        if record.bytes > MOST_BYTES {
            let reason =
                format!("it is {} bytes, a sample holds at most {MOST_BYTES}", record.bytes);
            return Err(bad(reason, Some("cut the image into parts")));
        }
        let (bytes, found) = source.read(record.key.as_str(), record.bytes).map_err(io)?;
        if bytes.len() as u64 != record.bytes {
            let reason = format!("it is {found} bytes, it was {} when the run began", record.bytes);
            return Err(bad(reason, Some("run again when nothing writes to the folder")));
        }
        if bytes.is_empty() {
            return Err(bad("the file is empty".to_owned(), None));
        }
        let fault = |fault: Fault| fault.at(record.key.to_string());
        let flaw = self.check(record, &bytes).map_err(fault)?;
        let mut value = self.maker.make(bytes, &mut self.decoder).map_err(fault)?;
        if flaw.is_some() {
            value.flaw = flaw;
        }
        Ok(value)
    }

    /// What is wrong with an input that can be packed all the same.
    fn check(&mut self, record: &Record, bytes: &[u8]) -> Result<Option<String>, Fault> {
        if self.check == Check::None {
            return Ok(None);
        }
        let format = Format::sniff(bytes);
        let named = media_type_of(record.key.as_str()).unwrap_or_default();
        if let Some(format) = format.filter(|f| f.media_type() != named) {
            let reason = format!("its name says {named}, its content is {}", format.media_type());
            return Err(Fault::new(reason, Some("give it the extension of its content")));
        }
        let header = read_header(bytes, &self.limits)?;
        debug_assert_eq!(Some(header.format), format);
        match self.check {
            Check::None | Check::Header => {}
            Check::Full => drop(self.decoder.check(bytes)?),
            Check::Strict => drop(self.decoder.validate(bytes)?),
        }
        Ok(self.decoder.flaw().filter(|_| self.check == Check::Full).map(ToString::to_string))
    }
}
