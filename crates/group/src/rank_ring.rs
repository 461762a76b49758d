//! The data ring: two sockets per rank, and one loop that keeps both busy.

use std::cell::Cell;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::arrive::Invitation;
use super::flow::Flow;
use super::link::{CLOSED, wait};
use super::lobby::{Lobby, TICK};
use super::operation::Operation;
use super::shared::Shared;
use crate::Error;

const MAGIC: [u8; 8] = *b"gulardat";
const HELLO_BYTES: usize = 32;

/// Bytes that are sent or received at a time. 64 KiB to 1 MiB are alike on loopback
/// (`examples/all_reduce_rate`: 1.6 to 2.0 GB/s for 25 MiB on two processes, a bare
/// exchange of as many bytes 2.6); both buffers stay in the CPU's cache.
const CHUNK: usize = 256 << 10;

/// How often a waiting operation checks whether it has waited too long.
const PULSE: Duration = Duration::from_millis(500);

/// Most connections whose sender is not known yet.
const STRANGERS: usize = 64;

/// This rank's place among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// The number of this rank, from 0.
    pub rank: u64,
    /// The number of all ranks, at least 1.
    pub world_size: u64,
}

impl Seat {
    pub(super) fn next(self) -> u64 {
        (self.rank + 1) % self.world_size
    }

    pub(super) fn before(self) -> u64 {
        (self.rank + self.world_size - 1) % self.world_size
    }

    fn broken(self, other: u64, reason: impl Into<String>) -> Error {
        Error::Broken { rank: self.rank, other, reason: reason.into() }
    }
}

pub(super) struct RankRing {
    next: TcpStream,
    before: TcpStream,
    output: Vec<u8>,
    input: Vec<u8>,
    /// Bytes at the front of `input` that no operation has taken yet.
    held: usize,
}

/// Connects to the next rank and takes the connection of the one before.
pub(super) fn connect(
    place: Seat,
    invitation: Invitation,
    listener: TcpListener,
    shared: &Shared,
    limit: Duration,
    cancel: &AtomicBool,
) -> Result<RankRing, Error> {
    let begun = Instant::now();
    let check = || {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        shared.check()
    };
    let next = loop {
        check()?;
        // The next rank has been listening since before the meeting, so one answer is enough.
        match TcpStream::connect_timeout(&invitation.ring, Duration::from_secs(3)) {
            Ok(stream) => break stream,
            Err(error) if begun.elapsed() >= limit => {
                let reason = format!("{}: {error}", invitation.ring);
                return Err(place.broken(place.next(), reason));
            }
            Err(_) => thread::sleep(TICK),
        }
    };
    let hello = |rank: u64| [&MAGIC[..], &invitation.key, &rank.to_le_bytes()].concat();
    let said = (&next).write_all(&hello(place.rank));
    said.map_err(|error| place.broken(place.next(), error.to_string()))?;
    let expected = hello(place.before());
    let failed = |error: io::Error| place.broken(place.before(), error.to_string());
    let mut lobby: Lobby<()> = Lobby::new(listener, STRANGERS).map_err(failed)?;
    // The rank that cannot connect knows the reason, so its error should be the first.
    let limit = limit + Duration::from_secs(5);
    while begun.elapsed() < limit {
        check()?;
        lobby.turn(std::iter::empty()).map_err(failed)?;
        for mut guest in std::mem::take(&mut lobby.guests) {
            match guest.link.input().get(..HELLO_BYTES) {
                Some(hello) if hello == expected => {
                    // The rank sends nothing more before all are connected, so no bytes are lost
                    // here.
                    guest.link.consume(HELLO_BYTES);
                    let rest = guest.link.input().to_vec();
                    return RankRing::new(next, guest.link.into_stream(), rest).map_err(failed);
                }
                None if !guest.link.ended() => lobby.guests.push(guest),
                _ => {}
            }
        }
    }
    Err(place.broken(place.before(), format!("it did not connect within {limit:?}")))
}

/// How long an operation waits, and what can end it.
pub(super) struct Patience<'a> {
    pub(super) shared: &'a Shared,
    pub(super) limit: Duration,
    pub(super) cancel: Option<&'a AtomicBool>,
    pub(super) stop: Option<Stop<'a>>,
}

/// Being asked to stop in an operation, which ends well if the others still come to it.
pub(super) struct Stop<'a> {
    pub(super) flag: &'a AtomicBool,
    pub(super) grace: Duration,
    /// When the flag was first seen.
    pub(super) seen: Cell<Option<Instant>>,
}

impl Stop<'_> {
    /// Whether the flag is set, and no data has moved for long enough since.
    fn is_over(&self, moved_at: Instant) -> bool {
        if !self.flag.load(Ordering::Relaxed) {
            return false;
        }
        let seen = self.seen.get().unwrap_or_else(Instant::now);
        self.seen.set(Some(seen));
        seen.max(moved_at).elapsed() >= self.grace
    }
}

impl RankRing {
    /// `rest` came after the greeting of the rank before.
    fn new(next: TcpStream, before: TcpStream, mut rest: Vec<u8>) -> io::Result<Self> {
        for stream in [&next, &before] {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
        }
        let held = rest.len();
        rest.resize(held.max(CHUNK), 0);
        Ok(Self { next, before, output: vec![0; CHUNK], input: rest, held })
    }

    /// Further handles of both sockets, to wake whoever waits in them.
    pub(super) fn handles(&self) -> io::Result<Vec<TcpStream>> {
        Ok(vec![self.next.try_clone()?, self.before.try_clone()?])
    }

    /// Moves the bytes of one operation, both ways at once.
    ///
    /// Neither way ever waits for the other, so that the ranks cannot wait for each other in a
    /// circle, whatever the size of a socket's buffer.
    pub(super) fn run(
        &mut self,
        place: Seat,
        operation: &Operation,
        flow: &mut dyn Flow,
        patience: &Patience<'_>,
    ) -> Result<(), Error> {
        let (mut start, mut end) = (0, 0);
        let mut moved_at = Instant::now();
        loop {
            if start == end && flow.sends() {
                (start, end) = (0, flow.fill(&mut self.output));
            }
            let sent =
                self.send(start..end).map_err(|reason| place.broken(place.next(), reason))?;
            start += sent;
            let wanted = flow.wanted();
            let came = self.receive(wanted);
            let came = came.map_err(|reason| place.broken(place.before(), reason))?;
            let taken = flow.take(self.input.get(..self.held.min(wanted)).unwrap_or_default())?;
            self.input.copy_within(taken..self.held, 0);
            self.held -= taken;
            let (sends, wants) = (start < end, flow.wanted() > 0);
            if !sends && !flow.sends() && !wants {
                return Ok(());
            }
            if sent + came + taken > 0 {
                moved_at = Instant::now();
                continue;
            }
            patience.check(place, operation, wants, moved_at)?;
            self.wait(sends, wants, patience)
                .map_err(|error| place.broken(place.before(), error.to_string()))?;
        }
    }

    fn send(&mut self, range: Range<usize>) -> Result<usize, String> {
        match self.output.get(range) {
            None | Some([]) => Ok(0),
            Some(bytes) => count(self.next.write(bytes)),
        }
    }

    /// Reads on, to `wanted` bytes in all and no further: the next operation may follow.
    fn receive(&mut self, wanted: usize) -> Result<usize, String> {
        let until = wanted.min(self.input.len());
        let came = match self.input.get_mut(self.held..until) {
            None | Some([]) => return Ok(0),
            Some(room) => count(self.before.read(room))?,
        };
        self.held += came;
        Ok(came)
    }

    /// Waits until a socket is ready, or for a while.
    fn wait(&self, sends: bool, wants: bool, patience: &Patience<'_>) -> io::Result<()> {
        let mut fds = Vec::with_capacity(2);
        if sends {
            fds.push(PollFd::from_borrowed_fd(self.next.as_fd(), PollFlags::OUT));
        }
        if wants {
            fds.push(PollFd::from_borrowed_fd(self.before.as_fd(), PollFlags::IN));
        }
        let pulse = if patience.cancel.is_some() { TICK } else { PULSE };
        let grace = patience.stop.as_ref().map_or(pulse, |stop| stop.grace);
        wait(&mut fds, pulse.min(patience.limit).min(grace))
    }
}

impl Patience<'_> {
    /// Checks whether the operation may wait longer.
    fn check(
        &self,
        place: Seat,
        operation: &Operation,
        wants: bool,
        moved_at: Instant,
    ) -> Result<(), Error> {
        self.shared.check()?;
        if self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(Error::Cancelled);
        }
        let other = if wants { place.before() } else { place.next() };
        let waiting = || format!("rank {} waits for rank {other}", place.rank);
        if let Some(stop) = self.stop.as_ref().filter(|stop| stop.is_over(moved_at)) {
            return Err(Error::Stopped {
                rank: place.rank,
                waited: stop.grace,
                operation: operation.to_string(),
                waiting: waiting(),
            });
        }
        if moved_at.elapsed() < self.limit {
            return Ok(());
        }
        Err(Error::Stalled {
            number: operation.number,
            operation: operation.to_string(),
            waited: self.limit,
            waiting: waiting(),
        })
    }
}

/// Bytes moved, 0 when the socket is not ready; the end of a connection is an error.
fn count(result: io::Result<usize>) -> Result<usize, String> {
    match result {
        Ok(0) => Err(CLOSED.into()),
        Ok(n) => Ok(n),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(0),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Err(CLOSED.into()),
            _ => Err(error.to_string()),
        },
    }
}
