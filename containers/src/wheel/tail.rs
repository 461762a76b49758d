//! `METADATA` out of a wheel's end, where no copy of it lies beside the wheel.
//!
//! A ZIP archive ends with its directory, and wheels have their `.dist-info` last.

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use super::unpack::is_metadata;
use crate::fetch::{Fault, Transport};
use crate::{Error, Result};

/// A transfer begins at a multiple of this.
const BLOCK: u64 = 1 << 20;
/// How much of the end is asked for, one after the other.
const TRIES: [u64; 3] = [BLOCK, 8 << 20, 32 << 20];
/// Largest `METADATA` read.
pub(super) const MAX_METADATA: u64 = 4 << 20;

/// The `METADATA` of the wheel at `url`, which has `bytes`.
///
/// # Errors
/// [`Error::Fetch`]; [`Error::Archive`] for a wheel that has none in its last 32 MiB.
pub(super) fn metadata(url: &str, bytes: u64, transport: &dyn Transport) -> Result<String> {
    let mut reason = String::new();
    for size in TRIES {
        let from = bytes.saturating_sub(size) / BLOCK * BLOCK;
        let room = usize::try_from(bytes - from).unwrap_or(usize::MAX);
        let mut end = Vec::with_capacity(room.min(64 << 20));
        let mut sink = |block: &[u8]| {
            if end.len() + block.len() > room {
                return Err(io::Error::other("more bytes came than the wheel has"));
            }
            end.extend_from_slice(block);
            Ok(())
        };
        match transport.stream(url, bytes, from, &mut sink) {
            Ok(()) => {}
            Err(fault @ (Fault::Sink(_) | Fault::NotFound(_))) => {
                return Err(
                    Fault::Failed { message: fault.to_string(), hint: None }.into_error(url)
                );
            }
            Err(fault) => return Err(fault.into_error(url)),
        }
        match read(Tail { from, end: Cursor::new(end) }) {
            Ok(text) => return Ok(text),
            Err(e) => reason = e.to_string(),
        }
        if from == 0 {
            break;
        }
    }
    let reason = format!("its end has no `METADATA`: {reason}");
    Err(Error::Archive { path: url.to_owned(), reason })
}

fn read(tail: Tail) -> io::Result<String> {
    let mut zip = zip::ZipArchive::new(tail)?;
    let number = (0..zip.len()).find(|number| {
        zip.name_for_index(*number).is_some_and(|name| name.is_ok_and(|name| is_metadata(&name)))
    });
    let mut text = Vec::new();
    let entry = zip.by_index(number.ok_or(io::ErrorKind::NotFound)?)?;
    entry.take(MAX_METADATA).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A file of which the end alone is here.
struct Tail {
    from: u64,
    end: Cursor<Vec<u8>>,
}

impl Read for Tail {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.end.read(buffer)
    }
}

impl Seek for Tail {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(at) = to else {
            return Ok(self.end.seek(to)? + self.from);
        };
        let missing = || io::Error::other("it lies before the bytes that are here");
        let at = at.checked_sub(self.from).ok_or_else(missing)?;
        Ok(self.end.seek(SeekFrom::Start(at))? + self.from)
    }
}
