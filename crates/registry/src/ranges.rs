//! Reads a blob in ranges, several at a time, and passes them on in order.
//!
//! ```text
//! ahead     0     1     2     3 …     each a range of its own thread, in memory
//!           ▼     ▼     ▼
//! receiver  in order: hashed and written by whoever takes it
//! ```

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::thread;

use gular_pelican::{Answered, Exchange};

use crate::answer::said;
use crate::session::{Halt, Registry};
use crate::{Error, OciDigest, Result, StreamSha256};

/// Bytes of one request: eight at a time are 32 MiB of memory, and a lost one costs little.
const RANGE: u64 = 4 << 20;

impl Registry<'_> {
    /// Reads the bytes of a blob from byte `from` on, in order, with `threads` ranges at a time.
    /// The bytes are not compared with the digest.
    ///
    /// # Errors
    /// [`Error::Sink`] with the error of `receiver`; [`Error::Unusable`], [`Error::Cancelled`].
    pub fn stream_blob(
        &self,
        digest: OciDigest,
        len_bytes: u64,
        from: u64,
        threads: NonZeroUsize,
        receiver: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<()> {
        let blob = RemoteBlob { registry: self, url: self.blob_url(digest), len_bytes };
        match blob.in_ranges(from, threads, receiver)? {
            true => Ok(()),
            false => blob.whole(from, receiver),
        }
    }

    /// Reads a blob of at most `limit` bytes, and checks its digest.
    ///
    /// # Errors
    /// [`Error::Unusable`] for other bytes, or too many; those of
    /// [`stream_blob`](Self::stream_blob).
    pub fn read_blob(
        &self,
        digest: OciDigest,
        len_bytes: u64,
        limit: u64,
        threads: NonZeroUsize,
    ) -> Result<Vec<u8>> {
        let url = self.blob_url(digest);
        if len_bytes > limit {
            let reason = format!("it has {len_bytes} bytes, more than the limit of {limit}");
            return Err(self.failed(&url, reason));
        }
        let (mut bytes, mut hasher) = (Vec::new(), StreamSha256::default());
        self.stream_blob(digest, len_bytes, 0, threads, &mut |piece| {
            // A server that takes no ranges may send more than it was asked for.
            if (bytes.len() as u64).saturating_add(piece.len() as u64) > len_bytes {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            hasher.update(piece);
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        let found = OciDigest(hasher.finish());
        match found == digest {
            true => Ok(bytes),
            false => Err(self.damaged(&url, found, digest)),
        }
    }

    /// The URL of a blob.
    pub fn blob_url(&self, digest: OciDigest) -> String {
        self.url(&format!("blobs/{digest}"))
    }
}

/// A blob in a registry.
struct RemoteBlob<'a> {
    registry: &'a Registry<'a>,
    url: String,
    len_bytes: u64,
}

impl RemoteBlob<'_> {
    /// Passes on the bytes from `from` on; `false` if nothing was, since the server sends whole
    /// blobs only.
    fn in_ranges(
        &self,
        from: u64,
        threads: NonZeroUsize,
        receiver: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<bool> {
        let stopped = |_| self.failed("a thread that fetches blobs stopped unexpectedly");
        thread::scope(|scope| {
            let (mut ahead, mut next, mut passed_on) = (VecDeque::new(), from, false);
            loop {
                while ahead.len() < threads.get() && next < self.len_bytes {
                    let (begin, end) = (next, next.saturating_add(RANGE).min(self.len_bytes));
                    ahead.push_back(scope.spawn(move || self.range(begin, end)));
                    next = end;
                }
                let Some(first) = ahead.pop_front() else { return Ok(true) };
                let Some(bytes) = first.join().map_err(stopped)?? else {
                    // The whole blob can be requested only if no bytes were passed on yet.
                    return match passed_on {
                        false => Ok(false),
                        true => Err(self.failed(
                            "the registry sends ranges for some requests, and whole blobs for others",
                        )),
                    };
                };
                passed_on = true;
                // Receivers check between pieces whether to stop.
                for piece in bytes.chunks(1 << 20) {
                    receiver(piece).map_err(Error::Sink)?;
                }
            }
        })
    }

    /// Bytes `begin..end`; `None` if the server sends whole blobs only. Bytes that arrived before
    /// the connection was lost are kept.
    fn range(&self, begin: u64, end: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let sends_ranges = self.registry.attempts(|progressed| {
            let before = bytes.len();
            let attempt = self.fill(&mut bytes, begin, end);
            *progressed = bytes.len() > before;
            attempt
        })?;
        Ok(sends_ranges.then_some(bytes))
    }

    /// Fetches the bytes of the range that are missing; `false` if the server sends whole blobs
    /// only.
    fn fill(&self, bytes: &mut Vec<u8>, begin: u64, end: u64) -> Result<bool, Halt> {
        let room = usize::try_from(end - begin).unwrap_or(usize::MAX);
        let at = begin + bytes.len() as u64;
        let is_all = at == 0 && end == self.len_bytes;
        let range = format!("bytes={at}-{}", end - 1);
        let request = Exchange::new("GET", &self.url).header("range", range);
        let answer = self.registry.once(&request, &self.registry.reading(), &mut |piece| {
            if bytes.len().saturating_add(piece.len()) > room {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            bytes.extend_from_slice(piece);
            Ok(())
        });
        match answer {
            Ok(answer) => match answer.status {
                206 if begins(&answer, at) && bytes.len() == room => Ok(true),
                206 if begins(&answer, at) => {
                    let reason = "the registry sent fewer bytes than requested";
                    Err(Halt::Again(self.registry.away(&self.url, reason), None))
                }
                200 if is_all && bytes.len() == room => Ok(true),
                200 | 206 | 416 => Ok(false),
                404 => Err(self.failed(&said(&answer)).into()),
                _ => Err(self.registry.refused(&self.url, &answer).into()),
            },
            // The connection was lost after the last byte.
            Err(Halt::Again(..)) if bytes.len() == room => Ok(true),
            Err(Halt::Fatal(Error::Sink(_))) => Ok(false),
            Err(halt) => Err(halt),
        }
    }

    /// Reads the whole blob, and skips the bytes before `from`.
    fn whole(&self, from: u64, receiver: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<()> {
        let mut skip = from;
        let request = Exchange::new("GET", &self.url);
        let answer = self.registry.once(&request, &self.registry.reading(), &mut |piece| {
            let here = usize::try_from(skip).unwrap_or(usize::MAX).min(piece.len());
            skip -= here as u64;
            match piece.get(here..).unwrap_or_default() {
                [] => Ok(()),
                rest => receiver(rest),
            }
        });
        match answer {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(self.registry.refused(&self.url, &answer)),
            Err(Halt::Again(error, _) | Halt::Fatal(error)) => Err(error),
        }
    }

    fn failed(&self, reason: &str) -> Error {
        self.registry.failed(&self.url, reason)
    }
}

/// Whether a partial answer begins at the requested byte.
fn begins(answer: &Answered, at: u64) -> bool {
    let range = answer.header("content-range").and_then(|range| range.strip_prefix("bytes "));
    let from = range.and_then(|range| range.split('-').next()?.trim().parse().ok());
    from == Some(at)
}
