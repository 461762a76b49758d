//! Reading objects: from whichever server has the right bytes.
//!
//! ```text
//! caches by priority ──▶ origin ──▶ the next name (`~1`) when all have other bytes
//!        │ dead, slow, cut: go on at the first byte not yet accepted
//!        │ other bytes: this server is out
//!        ▼
//!     1 MiB blocks, each accepted by the caller before it is passed on
//! ```

use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hyper::Method;
use hyper::header::RANGE;
use tokio::time::sleep;

use crate::client::{Client, Inner};
use crate::error::Attempts;
use crate::http::{Fault, Request, Response};
use crate::route::{Place, Route, Verb, retry_after};
use crate::token::Action;
use crate::{Error, Scheme, Url, local};

/// Bytes of a block, the unit that is accepted or refused.
pub const BLOCK_BYTES: usize = 1 << 20;

/// Names an upload may take when those before are burned: `x`, `x~1`, … `x~9`.
pub const MAX_RENAMES: u32 = 9;

/// A server is judged slow over this span.
const SLOW_SPAN: Duration = Duration::from_secs(30);

/// An object whose bytes the caller can check, block by block.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    /// Its name.
    pub url: &'a Url,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// Whether these are the bytes of that block ([`BLOCK_BYTES`] each, the last
    /// one shorter; an empty object has one empty block).
    pub accepts: &'a (dyn Fn(u64, &[u8]) -> bool + Sync),
}

/// Takes accepted bytes at their offset, in order.
pub type Sink<'a> = dyn FnMut(u64, &[u8]) -> io::Result<()> + 'a;

impl Client {
    /// Reads blocks `from_block` to the end of an object, each accepted before
    /// `sink` has it, in order.
    ///
    /// A server that dies, stalls or crawls is left for the next, which goes on
    /// at the first byte missing; one whose bytes are refused is not asked again.
    /// When all have other bytes, so that the name was burned by a cut upload, the
    /// names `…~1`, `…~2` are tried.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Corrupt`] when every copy
    /// is refused, [`Error::Failed`] when no server can be reached,
    /// [`Error::Sink`], [`Error::Cancelled`].
    pub fn stream(
        &self,
        object: &Object<'_>,
        from_block: u64,
        sink: &mut Sink<'_>,
        cancel: &AtomicBool,
    ) -> Result<(), Error> {
        let position = from_block.saturating_mul(BLOCK_BYTES as u64);
        let mut take = Blocks { object: *object, sink, position, block: Vec::new(), done: false };
        self.read_into(object.url, &mut take, cancel)
    }

    /// Reads a whole object of at most `limit` bytes into memory, from the first
    /// server and name whose bytes `accepts` takes.
    ///
    /// # Errors
    /// Those of [`Client::stream`]; [`Error::TooLarge`].
    pub fn read(
        &self,
        url: &Url,
        limit: u64,
        accepts: &dyn Fn(&[u8]) -> Result<(), String>,
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, Error> {
        let mut take = Whole { url, limit, accepts, bytes: Vec::new() };
        self.read_into(url, &mut take, cancel)?;
        Ok(take.bytes)
    }

    fn read_into(&self, url: &Url, take: &mut dyn Take, cancel: &AtomicBool) -> Result<(), Error> {
        if url.scheme() == Scheme::File {
            return first_good_name(url, |url| {
                take.rewind();
                local::read(url, take, cancel)
            });
        }
        self.block(cancel, async {
            let mut first = None;
            for renamed in 0..=MAX_RENAMES {
                match self.0.transfer(&numbered(url, renamed), take).await {
                    Ok(()) => return Ok(()),
                    Err(error) => match settle_for(&mut first, error, renamed) {
                        Some(error) => return Err(error),
                        None => take.rewind(),
                    },
                }
            }
            Err(first.unwrap_or(Error::Cancelled))
        })
    }
}

/// `url`, or one of the names that take its place when it is burned.
pub(crate) fn numbered(url: &Url, renamed: u32) -> Url {
    if renamed == 0 { url.clone() } else { url.renamed(renamed) }
}

/// What to return, if anything, when a name failed; `first` keeps why the first did.
fn settle_for(first: &mut Option<Error>, error: Error, renamed: u32) -> Option<Error> {
    match error {
        Error::Corrupt { .. } if renamed < MAX_RENAMES => {
            first.get_or_insert(error);
            None
        }
        // The name that was asked for, not the last of its substitutes.
        Error::Corrupt { .. } => Some(first.take().unwrap_or(error)),
        // No further name was ever written: the first one tells what is wrong.
        Error::NotFound { .. } if renamed > 0 => Some(first.take().unwrap_or(error)),
        error => Some(error),
    }
}

fn first_good_name(
    url: &Url,
    mut read: impl FnMut(&Url) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut first = None;
    for renamed in 0..=MAX_RENAMES {
        match read(&numbered(url, renamed)) {
            Ok(()) => return Ok(()),
            Err(error) => {
                if let Some(error) = settle_for(&mut first, error, renamed) {
                    return Err(error);
                }
            }
        }
    }
    Err(first.unwrap_or(Error::Cancelled))
}

/// Why a taker stops.
pub(crate) enum Stop {
    /// These are not the bytes: try another server.
    Refused(String),
    /// It is of no use to go on.
    Failed(Error),
}

/// Who takes the bytes of an object.
pub(crate) trait Take {
    /// The first byte not yet accepted: where the next server begins.
    fn position(&self) -> u64;
    /// The length it must have, when that is known.
    fn len(&self) -> Option<u64>;
    /// The most it may have.
    fn limit(&self) -> u64;
    /// The next bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Stop>;
    /// There are no more.
    fn end(&mut self) -> Result<(), Stop>;
    /// Forgets what was taken and not accepted.
    fn rewind(&mut self);
}

/// Blocks, each checked, then passed on.
struct Blocks<'a> {
    object: Object<'a>,
    sink: &'a mut Sink<'a>,
    position: u64,
    block: Vec<u8>,
    done: bool,
}

impl Blocks<'_> {
    fn close(&mut self) -> Result<(), Stop> {
        let number = self.position / BLOCK_BYTES as u64;
        if !(self.object.accepts)(number, &self.block) {
            let end = self.position + self.block.len() as u64;
            let reason = format!("bytes {} to {end} are not the expected ones", self.position);
            return Err(Stop::Refused(reason));
        }
        (self.sink)(self.position, &self.block).map_err(|source| {
            Stop::Failed(Error::Sink { url: self.object.url.to_string(), source })
        })?;
        self.position += self.block.len() as u64;
        self.block.clear();
        self.done = self.position == self.object.len_bytes;
        Ok(())
    }
}

impl Take for Blocks<'_> {
    fn position(&self) -> u64 {
        self.position
    }

    fn len(&self) -> Option<u64> {
        Some(self.object.len_bytes)
    }

    fn limit(&self) -> u64 {
        self.object.len_bytes
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Stop> {
        while !bytes.is_empty() {
            let left = self.object.len_bytes - self.position;
            let size = usize::try_from(left).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
            let room = size.saturating_sub(self.block.len());
            if room == 0 {
                return Err(Stop::Refused("it is longer than it should be".to_owned()));
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == size {
                self.close()?;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stop> {
        // Only an empty object has a block that no byte closes.
        if self.object.len_bytes == 0 && !self.done { self.close() } else { Ok(()) }
    }

    fn rewind(&mut self) {
        self.block.clear();
    }
}

/// All bytes in memory, accepted at the end.
struct Whole<'a> {
    url: &'a Url,
    limit: u64,
    accepts: &'a dyn Fn(&[u8]) -> Result<(), String>,
    bytes: Vec<u8>,
}

impl Take for Whole<'_> {
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

/// How one server fared.
enum Outcome {
    Done,
    /// Passing: ask again later, after this long when the server says so.
    Again(Option<Duration>),
    /// 500, which may pass, or not.
    Broken,
    /// No trial will mend it.
    Out,
    /// Not here.
    Missing(String),
    /// Not with this token.
    Refused(u16),
    /// Other bytes, or an answer that makes no sense.
    Wrong,
    /// Nobody else would do better.
    Fatal(Error),
}

/// A server and whether it is still worth asking.
struct Candidate {
    place: Place,
    out: bool,
    /// How often it said 500, which some servers say where others say 404.
    broken: u32,
}

impl Candidate {
    fn new(place: Place) -> Self {
        Self { place, out: false, broken: 0 }
    }
}

/// What the servers of one object have said so far.
#[derive(Default)]
struct Tally {
    attempts: Attempts,
    missing: Option<(String, String)>,
    refused: Option<(Place, u16)>,
    wrong: bool,
}

impl Inner {
    async fn transfer(&self, url: &Url, take: &mut dyn Take) -> Result<(), Error> {
        let start = Instant::now();
        let route = self.route(url, Verb::Read).await?;
        let mut candidates: Vec<Candidate> =
            route.places.iter().cloned().map(Candidate::new).collect();
        // Those that failed a short time ago come last.
        candidates.sort_by_key(|candidate| self.is_cooling(&candidate.place.server));
        let mut origin_asked = url.scheme() != Scheme::Pelican || url.is_direct();
        let mut tally = Tally::default();
        let begin = take.position();
        let (mut progress, mut since, mut pause) = (begin, start, 1_u64);
        loop {
            let mut wait = None;
            let mut number = 0;
            while let Some(candidate) = candidates.get_mut(number) {
                number += 1;
                if !candidate.out {
                    let others = !origin_asked || number < route.places.len();
                    let outcome =
                        self.attempt(url, &route, &candidate.place, take, others, &mut tally).await;
                    if !matches!(outcome, Outcome::Done) {
                        take.rewind();
                    }
                    if take.position() > progress {
                        (progress, since, pause) = (take.position(), Instant::now(), 1);
                    }
                    match outcome {
                        Outcome::Done => return Ok(()),
                        Outcome::Fatal(error) => return Err(error),
                        Outcome::Out => candidate.out = true,
                        Outcome::Broken if candidate.broken >= 2 => candidate.out = true,
                        Outcome::Broken => {
                            candidate.broken += 1;
                            wait = wait.max(Some(Duration::ZERO));
                        }
                        Outcome::Again(after) => {
                            wait = wait.max(Some(after.unwrap_or_default()));
                        }
                        Outcome::Missing(said) => {
                            candidate.out = true;
                            let server = candidate.place.server.to_string();
                            tally.missing.get_or_insert((server, said));
                        }
                        Outcome::Refused(status) => {
                            candidate.out = true;
                            tally.refused.get_or_insert((candidate.place.clone(), status));
                        }
                        Outcome::Wrong => {
                            candidate.out = true;
                            tally.wrong = true;
                        }
                    }
                }
                if number == candidates.len() && !origin_asked {
                    origin_asked = true;
                    if let Ok(origin) = self.route(url, Verb::ReadOrigin).await {
                        let new = origin.places.into_iter().filter(|place| {
                            candidates.iter().all(|c| c.place.server != place.server)
                        });
                        let new: Vec<Place> = new.collect();
                        candidates.extend(new.into_iter().map(Candidate::new));
                    }
                }
            }
            let Some(wait) = wait else {
                return Err(self.verdict(url, &route, tally, start));
            };
            let wait = wait.max(Duration::from_secs(pause));
            // Before the first byte a wrong host is likelier than a server that restarts.
            let begun = progress > begin;
            let patience = self.options.patience / if begun { 1 } else { 6 };
            if since.elapsed() + wait > patience {
                return Err(self.verdict(url, &route, tally, start));
            }
            sleep(wait).await;
            pause = (pause * 2).min(30);
        }
    }

    fn verdict(&self, url: &Url, route: &Route, tally: Tally, start: Instant) -> Error {
        if tally.wrong {
            return Error::Corrupt { url: url.to_string(), attempts: tally.attempts };
        }
        if let Some((place, status)) = tally.refused {
            let namespace = route.namespace.as_ref();
            return self.denied_as(Action::Read, url, namespace, &place.server, status);
        }
        if let Some((server, said)) = tally.missing {
            return Error::NotFound { url: url.to_string(), server, said };
        }
        let (url, attempts) = (url.to_string(), tally.attempts);
        Error::Failed { action: "read", url, attempts, elapsed: start.elapsed() }
    }

    async fn attempt(
        &self,
        url: &Url,
        route: &Route,
        place: &Place,
        take: &mut dyn Take,
        others: bool,
        tally: &mut Tally,
    ) -> Outcome {
        if take.position() > 0 && take.len() == Some(take.position()) {
            // All of it came, and only the end of the answer was lost.
            return Outcome::Done;
        }
        let token = match self.read_token(url, route.namespace.as_ref()) {
            Ok(token) => token,
            Err(error) => return Outcome::Fatal(error),
        };
        let wanted = take.position()..take.len().unwrap_or(u64::MAX);
        let request = |place: &Place, ours: bool| {
            let token = token.as_ref().filter(|_| ours);
            let request =
                Request::new(Method::GET, &place.server, place.target.as_str()).token(token);
            if wanted.start == 0 {
                return request;
            }
            // Both ends: servers answer open ranges with nothing at all.
            request.header(RANGE, format!("bytes={}-{}", wanted.start, wanted.end - 1))
        };
        let response = match self.send_following(url, place, request).await {
            Ok(response) => response,
            Err(fault) => {
                self.cool_down(&place.server);
                tally.attempts.add(&place.server, &fault);
                return match fault {
                    Fault::Tls(_) => Outcome::Out,
                    _ => Outcome::Again(None),
                };
            }
        };
        let status = response.status;
        match status {
            200 | 206 => {}
            401 | 403 => {
                let said = response.message().await;
                tally.attempts.add(&place.server, format!("{status} {said}"));
                return Outcome::Refused(status);
            }
            404 | 410 => {
                let said = crate::route::said(response).await;
                tally.attempts.add(&place.server, format!("{status}{said}"));
                return Outcome::Missing(said);
            }
            500 => {
                let said = crate::route::said(response).await;
                tally.attempts.add(&place.server, format!("{status}{said}"));
                return Outcome::Broken;
            }
            408 | 429 | 501.. => {
                let after = retry_after(&response);
                let said = crate::route::said(response).await;
                tally.attempts.add(&place.server, format!("{status}{said}"));
                return Outcome::Again(after);
            }
            _ => {
                let said = crate::route::said(response).await;
                tally.attempts.add(&place.server, format!("{status}{said}"));
                // Only bytes can be wrong; a redirect or a refused request is no object.
                return if status < 300 { Outcome::Wrong } else { Outcome::Out };
            }
        }
        match receive(response, &wanted, take, others.then_some(self.options.min_rate)).await {
            Ok(()) => Outcome::Done,
            Err(Broken::Fault(fault)) => {
                self.cool_down(&place.server);
                tally.attempts.add(&place.server, &fault);
                Outcome::Again(None)
            }
            Err(Broken::Stop(Stop::Refused(reason))) => {
                tally.attempts.add(&place.server, &reason);
                Outcome::Wrong
            }
            Err(Broken::Stop(Stop::Failed(error))) => Outcome::Fatal(error),
        }
    }
}

/// Why a body was not received whole.
enum Broken {
    Fault(Fault),
    Stop(Stop),
}

fn refused(reason: String) -> Broken {
    Broken::Stop(Stop::Refused(reason))
}

async fn receive(
    mut response: Response,
    wanted: &Range<u64>,
    take: &mut dyn Take,
    min_rate: Option<u64>,
) -> Result<(), Broken> {
    let mut skip = check_head(&response, wanted, take)?;
    let announced = response.content_length();
    let mut received = 0_u64;
    let mut span = (Instant::now(), 0_u64);
    while let Some(bytes) = response.chunk().await.map_err(Broken::Fault)? {
        received += bytes.len() as u64;
        let skipped = skip.min(bytes.len() as u64);
        skip -= skipped;
        let bytes = bytes.get(usize::try_from(skipped).unwrap_or(usize::MAX)..).unwrap_or_default();
        take.take(bytes).map_err(Broken::Stop)?;
        let elapsed = span.0.elapsed();
        if elapsed >= SLOW_SPAN {
            let rate = (received - span.1) / elapsed.as_secs().max(1);
            if min_rate.is_some_and(|least| rate < least) {
                let why = format!("slow: {} KiB/s over {} s", rate >> 10, elapsed.as_secs());
                return Err(Broken::Fault(Fault::Lost(why)));
            }
            span = (Instant::now(), received);
        }
    }
    if announced.is_some_and(|announced| announced != received) {
        let why = format!("{received} of {} bytes came", announced.unwrap_or_default());
        return Err(Broken::Fault(Fault::Lost(why)));
    }
    let missing = take.len().filter(|len| take.position() < *len);
    if let Some(len) = missing {
        return Err(Broken::Fault(Fault::Lost(format!("it ended at {received} of {len} bytes"))));
    }
    take.end().map_err(Broken::Stop)
}

/// Compares what the answer's head says with what was asked for; returns how
/// many bytes come before those asked for.
fn check_head(response: &Response, wanted: &Range<u64>, take: &dyn Take) -> Result<u64, Broken> {
    let announced = response.content_length();
    if wanted.start == 0 || response.status == 200 {
        if response.status != 200 {
            return Err(refused(format!("{} to a request for the whole", response.status)));
        }
        match (take.len(), announced) {
            (Some(expected), Some(found)) if found != expected => {
                return Err(refused(format!("it is {found} bytes, expected {expected}")));
            }
            (None, Some(found)) if found > take.limit() => {
                return Err(refused(format!("it is {found} bytes, more than {}", take.limit())));
            }
            _ => {}
        }
        return Ok(wanted.start);
    }
    let range = response.header("content-range").unwrap_or_default();
    let expected = format!("bytes {}-{}/{}", wanted.start, wanted.end - 1, wanted.end);
    if range.trim() != expected {
        return Err(refused(format!("it answers a range with `{range}`, expected `{expected}`")));
    }
    if announced.is_some_and(|found| found != wanted.end - wanted.start) {
        return Err(refused("the length of its answer is not that of the range".to_owned()));
    }
    Ok(0)
}
