//! Downloads a blob in ranges, several at a time, and passes them on in order.
//!
//! ```text
//! threads   0     1     2     3     4 …     each a range, in memory
//!           ▼     ▼     ▼
//! sink      in order: hashed and written by whoever takes it
//! ```
//!
//! No thread is further ahead than twice the number of threads, so memory is bounded.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::thread;

use super::session::{Halt, Scope, again};
use super::{Method, Registry, Request};
use crate::fetch::{Stream, TransportFault};
use crate::{Error, OciDigest};

/// Bytes of one request: eight at a time are 32 MiB of memory, and a lost one costs little.
const RANGE: u64 = 4 << 20;

/// Streams one blob.
pub(super) struct Ranges<'a> {
    pub(super) registry: &'a Registry<'a>,
    pub(super) repository: &'a str,
    pub(super) digest: OciDigest,
    pub(super) threads: NonZeroUsize,
}

/// Why a range was not received.
enum Lost {
    /// The server sends whole blobs only.
    NoRanges,
    Fault(TransportFault),
}

/// How many pieces the receiver has taken, and whether it stopped.
#[derive(Default)]
struct Taken {
    pieces: u64,
    stopped: bool,
}

impl Stream for Ranges<'_> {
    fn stream(
        &self,
        _url: &str,
        bytes: u64,
        from: u64,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), TransportFault> {
        match self.side_by_side(bytes, from, sink) {
            Err(Lost::NoRanges) => self.whole(from, sink),
            Err(Lost::Fault(fault)) => Err(fault),
            Ok(()) => Ok(()),
        }
    }
}

impl Ranges<'_> {
    fn side_by_side(
        &self,
        bytes: u64,
        from: u64,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Lost> {
        let pieces = bytes.saturating_sub(from).div_ceil(RANGE);
        let threads = (self.threads.get() as u64).min(pieces);
        let ahead = threads.saturating_mul(2);
        let next = AtomicU64::new(0);
        let (taken, moved) = (Mutex::new(Taken::default()), Condvar::new());
        let lock = || taken.lock().unwrap_or_else(PoisonError::into_inner);
        thread::scope(|scope| {
            let (to, pieces_here) = mpsc::channel();
            for _ in 0..threads {
                let (to, next, lock, moved) = (to.clone(), &next, &lock, &moved);
                scope.spawn(move || {
                    loop {
                        let piece = next.fetch_add(1, Ordering::Relaxed);
                        if piece >= pieces {
                            return;
                        }
                        let waits = |taken: &mut Taken| {
                            !taken.stopped && piece >= taken.pieces.saturating_add(ahead)
                        };
                        let turn = moved.wait_while(lock(), waits);
                        if turn.unwrap_or_else(PoisonError::into_inner).stopped {
                            return;
                        }
                        let begin = from.saturating_add(piece.saturating_mul(RANGE));
                        let end = begin.saturating_add(RANGE).min(bytes);
                        let got = self.range(begin, end, end - begin == bytes);
                        let failed = got.is_err();
                        if to.send((piece, got)).is_err() || failed {
                            return;
                        }
                    }
                });
            }
            drop(to);
            let ended = hand_on(&pieces_here, pieces, sink, &mut |n| {
                lock().pieces = n;
                moved.notify_all();
            });
            lock().stopped = true;
            moved.notify_all();
            ended
        })
    }

    /// Bytes `begin..end`. Bytes that arrived before the connection was lost are kept.
    fn range(&self, begin: u64, end: u64, is_whole: bool) -> Result<Vec<u8>, Lost> {
        let room = usize::try_from(end - begin).unwrap_or(usize::MAX);
        let mut bytes: Vec<u8> = Vec::new();
        let mut trials = self.registry.wire().trials();
        loop {
            let at = begin + bytes.len() as u64;
            let last = end - 1;
            let request =
                Request::new(Method::Get, self.url()).header("range", format!("bytes={at}-{last}"));
            let before = bytes.len();
            let answer = self.registry.once(&request, &self.scope(), &mut |piece| {
                if bytes.len().saturating_add(piece.len()) > room {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                bytes.extend_from_slice(piece);
                Ok(())
            });
            let (reason, asked) = match answer {
                Ok(answer) => match answer.status {
                    206 if begins(&answer, at) && bytes.len() == room => return Ok(bytes),
                    206 if begins(&answer, at) => {
                        ("the registry sent fewer bytes than requested".to_owned(), None)
                    }
                    200 if is_whole && before == 0 && bytes.len() == room => return Ok(bytes),
                    200 | 206 | 416 => return Err(Lost::NoRanges),
                    _ if answer.passes() => (answer.said(), answer.retry_after),
                    _ => {
                        let error = self.registry.refused(&self.url(), &answer);
                        return Err(Lost::Fault(match answer.status {
                            404 => TransportFault::NotFound(error.to_string()),
                            _ => fault(&error),
                        }));
                    }
                },
                // The connection was lost after the last byte.
                Err(Halt::Passing(_)) if bytes.len() == room => return Ok(bytes),
                Err(Halt::Passing(reason)) => (reason, None),
                Err(Halt::Sink(_)) => return Err(Lost::NoRanges),
                Err(Halt::Fatal(error)) => return Err(Lost::Fault(fault(&error))),
            };
            if bytes.len() > before {
                trials.progressed();
            }
            match again(&mut *trials, asked) {
                Ok(true) => {}
                Ok(false) => {
                    let error = self.registry.away(&self.url(), reason);
                    return Err(Lost::Fault(fault(&error)));
                }
                Err(_) => return Err(Lost::Fault(TransportFault::Cancelled)),
            }
        }
    }

    /// Reads the whole blob, and skips the bytes before `from`.
    fn whole(
        &self,
        from: u64,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), TransportFault> {
        let mut skip = from;
        let request = Request::new(Method::Get, self.url());
        let answer = self.registry.once(&request, &self.scope(), &mut |piece| {
            let here = usize::try_from(skip).unwrap_or(usize::MAX).min(piece.len());
            skip -= here as u64;
            match piece.get(here..).unwrap_or_default() {
                [] => Ok(()),
                rest => sink(rest),
            }
        });
        match answer {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(fault(&self.registry.refused(&self.url(), &answer))),
            Err(Halt::Sink(e)) => Err(TransportFault::Sink(e)),
            Err(Halt::Passing(reason)) => Err(fault(&self.registry.away(&self.url(), reason))),
            Err(Halt::Fatal(error)) => Err(fault(&error)),
        }
    }

    fn url(&self) -> String {
        self.registry.url(self.repository, &format!("blobs/{}", self.digest))
    }

    fn scope(&self) -> Scope {
        Scope::pull(self.repository)
    }
}

/// Passes on what comes, in order; `taken` hears how many pieces that is.
fn hand_on(
    pieces_here: &mpsc::Receiver<(u64, Result<Vec<u8>, Lost>)>,
    pieces: u64,
    sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    taken: &mut dyn FnMut(u64),
) -> Result<(), Lost> {
    let mut early = BTreeMap::new();
    let mut wanted = 0;
    while wanted < pieces {
        let Ok((piece, got)) = pieces_here.recv() else {
            let message = "a thread that fetches blobs stopped unexpectedly".to_owned();
            return Err(Lost::Fault(TransportFault::lasting(message, None)));
        };
        match got {
            // The whole blob is requested then, which works only if no bytes were passed on yet.
            Err(Lost::NoRanges) if wanted > 0 => {
                let message =
                    "the registry sends ranges for some requests, and whole blobs for others"
                        .to_owned();
                return Err(Lost::Fault(TransportFault::lasting(message, None)));
            }
            got => drop(early.insert(piece, got?)),
        }
        while let Some(bytes) = early.remove(&wanted) {
            // Receivers check between pieces whether to stop.
            for part in bytes.chunks(1 << 20) {
                sink(part).map_err(|e| Lost::Fault(TransportFault::Sink(e)))?;
            }
            wanted += 1;
            taken(wanted);
        }
    }
    Ok(())
}

/// Whether a partial answer begins at the requested byte.
fn begins(answer: &super::Answer, at: u64) -> bool {
    let range = answer.header("content-range").and_then(|range| range.strip_prefix("bytes "));
    let from = range.and_then(|range| range.split('-').next()?.trim().parse().ok());
    from == Some(at)
}

/// The error of a registry as the fault of a transport.
pub(super) fn fault(error: &Error) -> TransportFault {
    match error {
        Error::Cancelled => TransportFault::Cancelled,
        error => {
            let (hint, passes) = (error.hint().map(str::to_owned), error.is_passing());
            TransportFault::Failed { message: error.to_string(), hint, passes }
        }
    }
}
