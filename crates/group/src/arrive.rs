//! The other ranks' side of the meeting: they find rank 0 and wait for everyone.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::link::{CLOSED, Link, wait};
use super::lobby::{HANDSHAKE, TICK};
use super::wire::{Greeting, Hello, Message, VERSION};
use crate::{Error, Rendezvous};

/// Time for one attempt to connect: two lost packets, by Linux's times for asking again.
const CONNECT: Duration = Duration::from_secs(3);

/// Longest pause between attempts.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Rank 0 says how long it waits for the others; its last word may take this longer.
const GRACE: Duration = Duration::from_secs(10);

/// What a rank needs to join the ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Invitation {
    pub(super) key: [u8; 16],
    /// The address at which the next rank listens.
    pub(super) ring: SocketAddr,
}

/// A rank that looks for rank 0.
pub(super) struct Visitor<'a> {
    pub(super) rank: u64,
    pub(super) world_size: u64,
    pub(super) place: &'a Rendezvous,
    pub(super) about: &'a str,
    pub(super) timeout: Duration,
    pub(super) interface: Option<IpAddr>,
    pub(super) ring: &'a TcpListener,
    pub(super) cancel: &'a AtomicBool,
}

/// Why an attempt to reach rank 0 failed.
enum Miss {
    /// Rank 0 may still start.
    Again(String),
    End(Error),
}

impl From<io::Error> for Miss {
    fn from(error: io::Error) -> Self {
        Self::Again(error.to_string())
    }
}

impl Visitor<'_> {
    /// Finds rank 0 and waits until all ranks have connected.
    pub(super) fn visit(&self) -> Result<(Link, Invitation), Error> {
        let (mut link, wait) = self.find()?;
        let here = link.stream().local_addr().map_err(|error| self.gone(&error.to_string()))?;
        let port = self.ring.local_addr().map_err(|error| self.gone(&error.to_string()))?.port();
        let ip = self.interface.unwrap_or_else(|| here.ip().to_canonical());
        link.queue(&Message::Ready { ring: SocketAddr::new(ip, port) });
        let limit = wait.saturating_add(GRACE);
        match self.hear(&mut link, limit) {
            Ok(Message::Next { key, ring }) => Ok((link, Invitation { key, ring })),
            Ok(_) => Err(self.gone("it sent bytes that no rank sends")),
            Err(Miss::Again(reason)) => Err(self.gone(&reason)),
            Err(Miss::End(error)) => Err(error),
        }
    }

    /// Tries again and again until rank 0 has welcomed this rank.
    fn find(&self) -> Result<(Link, Duration), Error> {
        let begun = Instant::now();
        let mut pause = TICK;
        loop {
            let reason = match self.attempt(begun) {
                Ok(welcome) => return Ok(welcome),
                Err(Miss::End(error)) => return Err(error),
                Err(Miss::Again(reason)) => reason,
            };
            if begun.elapsed() + pause >= self.timeout {
                let (place, waited) = (self.place.to_string(), self.timeout);
                return Err(Error::Unreachable { rank: self.rank, place, waited, reason });
            }
            self.rest(pause)?;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn attempt(&self, begun: Instant) -> Result<(Link, Duration), Miss> {
        let (host, port) = (self.place.bare_host(), self.place.port);
        let mut miss = Miss::Again(format!("`{host}` has no address"));
        for address in (host, port).to_socket_addrs()? {
            self.check()?;
            let left = self.timeout.saturating_sub(begun.elapsed()).max(TICK);
            let known = TcpStream::connect_timeout(&address, CONNECT.min(left))
                .map_err(Miss::from)
                .and_then(|stream| self.greet(stream, HANDSHAKE.min(left)));
            miss = match known {
                Err(Miss::Again(reason)) => Miss::Again(format!("{address}: {reason}")),
                other => return other,
            };
        }
        Err(miss)
    }

    fn greet(&self, stream: TcpStream, limit: Duration) -> Result<(Link, Duration), Miss> {
        // A port from which connections go out can be given to this very attempt.
        if stream.local_addr()? == stream.peer_addr()? {
            return Err(Miss::Again("nobody listens there".into()));
        }
        let mut link = Link::new(stream)?;
        let about = *blake3::hash(self.about.as_bytes()).as_bytes();
        let hello = Hello { rank: self.rank, world_size: self.world_size, about };
        link.queue_bytes(&hello.encode());
        self.hear_answer(&mut link, limit)?;
        match self.hear(&mut link, limit)? {
            Message::Welcome { wait } => Ok((link, wait)),
            Message::TellAbout => {
                link.queue(&Message::About(self.about.to_owned()));
                self.hear(&mut link, limit)?;
                Err(Miss::Again("rank 0 did not say what differs".into()))
            }
            _ => Err(Miss::Again("it sent bytes that no rank sends".into())),
        }
    }

    /// Waits until what listens there is known to be rank 0.
    fn hear_answer(&self, link: &mut Link, limit: Duration) -> Result<(), Miss> {
        let begun = Instant::now();
        loop {
            match link.take_answer() {
                Greeting::Known(()) => return Ok(()),
                Greeting::Stranger => {
                    return Err(Miss::Again("the process that listens there is not rank 0".into()));
                }
                Greeting::Version(version) => {
                    let reason = format!(
                        "rank 0 ({}) uses version {version} of the rendezvous protocol, rank {} version {VERSION}",
                        self.place, self.rank
                    );
                    return Err(Miss::End(Error::Different { reason }));
                }
                Greeting::Partial => self.turn(link, begun, limit)?,
            }
        }
    }

    /// Waits for the next message; rank 0's verdict is an error.
    fn hear(&self, link: &mut Link, limit: Duration) -> Result<Message, Miss> {
        let begun = Instant::now();
        loop {
            match link.next_message() {
                Ok(Some(Message::Verdict(error))) => return Err(Miss::End(error)),
                Ok(Some(message)) => return Ok(message),
                Ok(None) => self.turn(link, begun, limit)?,
                Err(_) => return Err(Miss::Again("it sent bytes that no rank sends".into())),
            }
        }
    }

    /// Reads and writes for one tick.
    fn turn(&self, link: &mut Link, begun: Instant, limit: Duration) -> Result<(), Miss> {
        self.check()?;
        if link.ended() {
            return Err(Miss::Again(CLOSED.into()));
        }
        if begun.elapsed() >= limit {
            return Err(Miss::Again(format!("no answer for {limit:?}")));
        }
        link.flush();
        wait(&mut [link.poll_fd()], TICK)?;
        link.pull();
        Ok(())
    }

    fn gone(&self, reason: &str) -> Error {
        let reason = format!("{reason}, before all ranks had connected");
        Error::Lost { rank: 0, address: self.place.to_string(), reason }
    }

    fn check(&self) -> Result<(), Miss> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Miss::End(Error::Cancelled));
        }
        Ok(())
    }

    fn rest(&self, pause: Duration) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < pause {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            thread::sleep(TICK.min(pause));
        }
        Ok(())
    }
}
