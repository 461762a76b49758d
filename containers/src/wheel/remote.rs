//! Reads `METADATA` from inside a remote wheel if the server has no separate copy of it.
//!
//! A ZIP archive ends with its directory, which says where the entry is: mostly just
//! before it. Two short pieces of the wheel are fetched, not the wheel.

use std::io::{self, Read, Seek, SeekFrom};

use zip::ZipArchive;

use super::unpack::is_metadata;
use crate::fetch::Transport;
use crate::{Error, Result};

/// Transfers begin at a multiple of this.
const BLOCK: u64 = 1 << 20;
/// Number of bytes that are read at the wheel's end, in one attempt after another.
const TRIES: [u64; 3] = [BLOCK, 8 << 20, 32 << 20];
/// Largest `METADATA` read, compressed or not.
pub(super) const MAX_METADATA: u64 = 4 << 20;
/// Upper limit for the name and extra fields before an entry's bytes.
const HEADER: u64 = 160 << 10;

/// The `METADATA` of the wheel at `url`, which has `bytes`.
///
/// # Errors
/// [`Error::Fetch`]; [`Error::Archive`] for one that is not a wheel.
pub(super) fn metadata(url: &str, bytes: u64, transport: &dyn Transport) -> Result<String> {
    let wrong = |reason: &dyn std::fmt::Display| {
        let reason = format!("its `METADATA` cannot be read: {reason}");
        Error::Archive { path: url.to_owned(), reason }
    };
    let mut why = None;
    for size in TRIES {
        let from = bytes.saturating_sub(size) / BLOCK * BLOCK;
        let end = Piece { from, bytes: fetch(url, bytes, from..bytes, transport)? };
        let zip = match ZipArchive::new(Remote { len: bytes, pieces: vec![end], at: 0 }) {
            Ok(zip) => zip,
            // The wheel's directory may begin before these bytes.
            Err(e) if from > 0 => {
                why = Some(e);
                continue;
            }
            Err(e) => return Err(wrong(&e)),
        };
        let number = (0..zip.len()).find(|number| {
            let name = zip.name_for_index(*number);
            name.is_some_and(|name| name.is_ok_and(|name| is_metadata(&name)))
        });
        let number = number.ok_or_else(|| wrong(&"the wheel has no such file"))?;
        let entry = zip.by_index_data(number).map_err(|e| wrong(&e))?;
        let (start, size) = (entry.header_start(), entry.compressed_size());
        if size > MAX_METADATA {
            return Err(wrong(&format!(
                "the file has {size} bytes, more than the limit of {MAX_METADATA}"
            )));
        }
        let mut remote = zip.into_inner();
        if start < from {
            let begin = start / BLOCK * BLOCK;
            let end = start.saturating_add(size + HEADER).min(bytes);
            let bytes = fetch(url, bytes, begin..end, transport)?;
            remote.pieces.push(Piece { from: begin, bytes });
        }
        return read(remote, number).map_err(|e| wrong(&e));
    }
    Err(wrong(&why.map_or_else(String::new, |e| e.to_string())))
}

fn read(remote: Remote, number: usize) -> io::Result<String> {
    let mut zip = ZipArchive::new(remote)?;
    let mut text = Vec::new();
    zip.by_index(number)?.take(MAX_METADATA).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Bytes of an object that has `len`: as many as are wanted, then the transfer is cut.
fn fetch(
    url: &str,
    len: u64,
    wanted: std::ops::Range<u64>,
    transport: &dyn Transport,
) -> Result<Vec<u8>> {
    let room = usize::try_from(wanted.end.saturating_sub(wanted.start)).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    let mut sink = |block: &[u8]| {
        let missing = room.saturating_sub(bytes.len());
        bytes.extend_from_slice(block.get(..missing).unwrap_or(block));
        if bytes.len() < room || wanted.end == len {
            Ok(())
        } else {
            Err(io::Error::other("enough"))
        }
    };
    let streamed = transport.stream(url, len, wanted.start, &mut sink);
    match streamed {
        _ if bytes.len() == room => Ok(bytes),
        Ok(()) => {
            let reason = format!("the server sent {} bytes too few", room - bytes.len());
            Err(Error::Fetch { name: url.to_owned(), reason, hint: None, passes: true })
        }
        Err(fault) => Err(fault.into_error(url)),
    }
}

struct Piece {
    from: u64,
    bytes: Vec<u8>,
}

/// A file of which only some pieces were read.
struct Remote {
    len: u64,
    pieces: Vec<Piece>,
    at: u64,
}

impl Read for Remote {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.len {
            return Ok(0);
        }
        let here = self.pieces.iter().find_map(|piece| {
            let skip = usize::try_from(self.at.checked_sub(piece.from)?).ok()?;
            piece.bytes.get(skip..).filter(|rest| !rest.is_empty())
        });
        let here = here.ok_or_else(|| {
            io::Error::other("the file is in a part of the wheel that was not fetched")
        })?;
        let count = here.len().min(buffer.len());
        let (to, from) = (buffer.get_mut(..count), here.get(..count));
        to.unwrap_or_default().copy_from_slice(from.unwrap_or_default());
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Remote {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}
