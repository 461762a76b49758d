//! Rank 0's side of the meeting: it accepts the other ranks, and checks that all belong to one
//! training run.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::arrive::Invitation;
use super::error::fold;
use super::link::{CLOSED, Link};
use super::lobby::{Guest, Lobby};
use super::watch::Member;
use super::wire::{Greeting, Hello, MAX_ABOUT, Message, VERSION, answer};
use crate::Error;

/// How long rank 0 stays after a contradiction, for ranks that connect a little later.
const LINGER: Duration = Duration::from_secs(5);

/// Strangers that are listened to at once, beside the ranks.
const STRANGERS: usize = 256;

/// What rank 0 knows before any rank connects.
pub(super) struct Host<'a> {
    pub(super) world_size: u64,
    pub(super) about: &'a str,
    pub(super) timeout: Duration,
    /// The address at which rank 0 listens for its neighbour; if it is unspecified, the address at
    /// which the neighbour reached rank 0 is used.
    pub(super) ring: SocketAddr,
    pub(super) cancel: &'a AtomicBool,
}

impl Host<'_> {
    /// Number of ranks besides rank 0.
    fn others(&self) -> usize {
        usize::try_from(self.world_size - 1).unwrap_or(usize::MAX)
    }
}

/// What a guest has said so far.
#[derive(Default)]
enum Said {
    #[default]
    Unknown,
    /// The guest is a rank whose `about` differs.
    Asked {
        rank: u64,
    },
    Welcomed {
        rank: u64,
    },
    /// The guest cannot be a rank of this run, and has been told so.
    Wrong,
}

/// A rank that waits for the others.
struct Arrived {
    link: Link,
    address: SocketAddr,
    ring: SocketAddr,
}

/// What happens to a guest.
enum Step {
    Stays(Guest<Said>),
    Counts(u64, Arrived),
    Leaves,
    /// The guest contradicts the others: the error is for all, this one included.
    Contradicts(Error, Guest<Said>),
}

/// Waits for all other ranks; gives their connections, and rank 0's own neighbour.
pub(super) fn host(
    host: &Host<'_>,
    listener: TcpListener,
) -> Result<(Vec<Member>, Invitation), Error> {
    let max_guests = host.others().saturating_add(STRANGERS);
    let mut lobby = Lobby::new(listener, max_guests).map_err(|error| full(&error))?;
    let mut arrived = BTreeMap::new();
    if let Err(error) = meet(host, &mut lobby, &mut arrived) {
        tell(host, lobby, &error, arrived);
        return Err(error);
    }
    let key = random_key().map_err(|error| Error::Listen {
        rank: 0,
        address: host.ring.to_string(),
        reason: format!("no random numbers: {error}"),
    })?;
    Ok(introduce(host, arrived, key))
}

/// The error for too many connections, or too little memory for them.
fn full(error: &io::Error) -> Error {
    let (address, reason) = ("the port where ranks meet".into(), error.to_string());
    Error::Listen { rank: 0, address, reason }
}

fn meet(
    host: &Host<'_>,
    lobby: &mut Lobby<Said>,
    arrived: &mut BTreeMap<u64, Arrived>,
) -> Result<(), Error> {
    let begun = Instant::now();
    while arrived.len() < host.others() {
        if host.cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let left = host.timeout.saturating_sub(begun.elapsed());
        if left.is_zero() {
            let missing = (1..host.world_size).filter(|rank| !arrived.contains_key(rank));
            let (ranks, world_size) = (fold(missing), host.world_size);
            return Err(Error::Missing { ranks, world_size, waited: host.timeout });
        }
        lobby
            .turn(arrived.values().map(|rank| rank.link.stream()))
            .map_err(|error| full(&error))?;
        let mut guests = std::mem::take(&mut lobby.guests).into_iter();
        while let Some(guest) = guests.next() {
            match step(host, guest, arrived, left) {
                Step::Stays(guest) => lobby.guests.push(guest),
                Step::Leaves => {}
                Step::Counts(rank, new) => drop(arrived.insert(rank, new)),
                Step::Contradicts(error, guest) => {
                    lobby.guests.push(guest);
                    lobby.guests.extend(guests);
                    return Err(error);
                }
            }
        }
        for (rank, Arrived { link, address, .. }) in arrived.iter_mut() {
            // Ranks send nothing while they wait, so only their end can be seen.
            link.pull();
            if link.ended() {
                let (rank, address) = (*rank, address.to_string());
                let reason = format!("{CLOSED}, before all ranks had connected");
                return Err(Error::Lost { rank, address, reason });
            }
        }
    }
    Ok(())
}

/// Reads what one guest says.
fn step(
    host: &Host<'_>,
    mut guest: Guest<Said>,
    arrived: &BTreeMap<u64, Arrived>,
    left: Duration,
) -> Step {
    if let Said::Unknown = guest.said {
        let hello = match guest.link.take_hello() {
            Greeting::Partial if guest.link.ended() => return Step::Leaves,
            Greeting::Partial => return Step::Stays(guest),
            Greeting::Stranger => return Step::Leaves,
            Greeting::Version(version) => {
                guest.link.queue_bytes(&answer());
                guest.said = Said::Wrong;
                let reason = format!(
                    "a rank at {} uses version {version} of the rendezvous protocol, rank 0 version {VERSION}",
                    guest.address
                );
                return Step::Contradicts(Error::Different { reason }, guest);
            }
            Greeting::Known(hello) => hello,
        };
        guest.link.queue_bytes(&answer());
        if let Some(reason) = wrong(host, &hello, guest.address, arrived) {
            guest.said = Said::Wrong;
            return Step::Contradicts(Error::Different { reason }, guest);
        }
        let Hello { rank, about, .. } = hello;
        if about == *blake3::hash(host.about.as_bytes()).as_bytes() {
            guest.link.queue(&Message::Welcome { wait: left });
            guest.said = Said::Welcomed { rank };
        } else {
            guest.link.set_limit(MAX_ABOUT);
            guest.link.queue(&Message::TellAbout);
            guest.said = Said::Asked { rank };
        }
        guest.link.flush();
    }
    match (&guest.said, guest.link.next_message()) {
        (_, Ok(None)) if guest.link.ended() => Step::Leaves,
        (_, Ok(None)) => Step::Stays(guest),
        (Said::Welcomed { rank }, Ok(Some(Message::Ready { ring }))) => {
            let rank = *rank;
            if let Some(first) = arrived.get(&rank) {
                let reason = twice(rank, first.address, guest.address);
                return Step::Contradicts(Error::Different { reason }, guest);
            }
            let Guest { link, address, .. } = guest;
            Step::Counts(rank, Arrived { link, address, ring })
        }
        (Said::Asked { rank }, Ok(Some(Message::About(theirs)))) => {
            let place = format!("rank {rank} ({})", guest.address);
            let reason = first_difference(host.about, &theirs, &place);
            Step::Contradicts(Error::Different { reason }, guest)
        }
        _ => Step::Leaves,
    }
}

/// Returns what cannot be right about a rank that connects.
fn wrong(
    host: &Host<'_>,
    hello: &Hello,
    address: SocketAddr,
    arrived: &BTreeMap<u64, Arrived>,
) -> Option<String> {
    let Hello { rank, world_size, .. } = *hello;
    if world_size != host.world_size {
        let ours = host.world_size;
        return Some(format!(
            "rank {rank} ({address}) has world size {world_size}, rank 0 has {ours}"
        ));
    }
    if rank == 0 || rank >= world_size {
        return Some(format!("a process at {address} came to rank 0 as rank {rank}"));
    }
    arrived.get(&rank).map(|first| twice(rank, first.address, address))
}

fn twice(rank: u64, first: SocketAddr, second: SocketAddr) -> String {
    format!("two processes are rank {rank}, {first} and {second}")
}

/// Says where `theirs`, of the rank at `place`, first differs from rank 0's.
fn first_difference(ours: &str, theirs: &str, place: &str) -> String {
    const SHOWN: usize = 200;
    let show = |line: Option<&str>| match line {
        Some(line) => {
            let shown = line.get(..line.floor_char_boundary(SHOWN)).unwrap_or_default();
            format!("`{shown}{}`", if shown.len() < line.len() { "…" } else { "" })
        }
        None => "missing".to_owned(),
    };
    let (mut left, mut right, mut number) = (ours.lines(), theirs.lines(), 0);
    loop {
        number += 1;
        match (left.next(), right.next()) {
            (None, None) => return format!("the ends of lines differ on {place} and rank 0"),
            (ours, theirs) if ours == theirs => {}
            (ours, theirs) => {
                let (ours, theirs) = (show(ours), show(theirs));
                return format!("line {number} is {theirs} on {place}, {ours} on rank 0");
            }
        }
    }
}

/// Tells the error to all who have come, and to those who come a little later.
fn tell(
    host: &Host<'_>,
    mut lobby: Lobby<Said>,
    error: &Error,
    mut arrived: BTreeMap<u64, Arrived>,
) {
    let begun = Instant::now();
    let limit = match error {
        Error::Different { .. } | Error::Lost { .. } => LINGER,
        // No other rank will connect, or this one may not wait.
        _ => Duration::ZERO,
    };
    let stopped = Error::Failed {
        rank: 0,
        address: "where all meet".into(),
        reason: "it was asked to stop while the ranks were meeting".into(),
    };
    let error = if *error == Error::Cancelled { &stopped } else { error };
    for Arrived { link, .. } in arrived.values_mut() {
        dismiss(link, error);
    }
    // Processes are counted, not ranks: one that has a wrong rank is missing elsewhere.
    let mut told = arrived.len();
    loop {
        for mut guest in std::mem::take(&mut lobby.guests) {
            if let Said::Unknown = guest.said {
                match guest.link.take_hello() {
                    Greeting::Known(_) => guest.link.queue_bytes(&answer()),
                    Greeting::Partial if !guest.link.ended() => {
                        lobby.guests.push(guest);
                        continue;
                    }
                    _ => continue,
                }
            }
            dismiss(&mut guest.link, error);
            told += 1;
        }
        let cancelled = host.cancel.load(Ordering::Relaxed);
        if told >= host.others() || begun.elapsed() >= limit || cancelled {
            return;
        }
        if lobby.turn(std::iter::empty()).is_err() {
            return;
        }
    }
}

/// Sends the error that ended the training run as the last message. It fits into any socket's
/// buffer.
fn dismiss(link: &mut Link, error: &Error) {
    link.queue(&Message::Verdict(error.clone()));
    link.flush();
    link.shut_output();
}

/// Tells each rank the address of its neighbour.
fn introduce(
    host: &Host<'_>,
    arrived: BTreeMap<u64, Arrived>,
    key: [u8; 16],
) -> (Vec<Member>, Invitation) {
    let ring: BTreeMap<u64, SocketAddr> =
        arrived.iter().map(|(rank, arrived)| (*rank, arrived.ring)).collect();
    let next_of = |rank: u64| ring.get(&(rank + 1)).copied();
    let mut members = Vec::new();
    for (rank, Arrived { mut link, address, .. }) in arrived {
        let here = link.stream().local_addr().map_or(host.ring.ip(), |here| here.ip());
        let next = reachable(next_of(rank).unwrap_or(host.ring), address, here.to_canonical());
        link.queue(&Message::Next { key, ring: next });
        link.flush();
        members.push(Member { rank, address: address.to_string(), link });
    }
    let ring = next_of(0).unwrap_or(host.ring);
    (members, Invitation { key, ring })
}

/// `ring` as a rank at `from` can reach it, who reached rank 0 at `here`.
///
/// Whoever came over loopback is on rank 0's machine; from another one it is at rank 0's address.
fn reachable(ring: SocketAddr, from: SocketAddr, here: IpAddr) -> SocketAddr {
    let local = ring.ip().is_unspecified() || (ring.ip().is_loopback() && !from.ip().is_loopback());
    if local { SocketAddr::new(here, ring.port()) } else { ring }
}

fn random_key() -> io::Result<[u8; 16]> {
    let mut key = [0; 16];
    // A request for so few bytes is never answered in part.
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_differing_line_is_shown_of_both() {
        let check = |ours: &str, theirs: &str, expected: &str| {
            assert_eq!(first_difference(ours, theirs, "rank 2 (b:1)"), expected);
        };
        check("a\nb\nc", "a\nx\ny", "line 2 is `x` on rank 2 (b:1), `b` on rank 0");
        check("a\nb", "a", "line 2 is missing on rank 2 (b:1), `b` on rank 0");
        check("a", "a\nb", "line 2 is `b` on rank 2 (b:1), missing on rank 0");
        check("a", "a\n", "the ends of lines differ on rank 2 (b:1) and rank 0");
        let long = "ä".repeat(500);
        let shown = first_difference(&long, "", "rank 1 (a:1)");
        assert!(shown.ends_with("ä…` on rank 0") && shown.len() < 300, "{shown}");
    }

    #[test]
    fn neighbour_on_rank_0s_machine_is_reached_from_others_at_its_address() {
        let check = |ring: &str, from: &str, expected: &str| {
            let [ring, from, expected] =
                [ring, from, expected].map(|text| text.parse::<SocketAddr>().unwrap());
            assert_eq!(reachable(ring, from, "10.0.0.1".parse().unwrap()), expected);
        };
        check("127.0.1.1:5", "10.0.0.2:9", "10.0.0.1:5");
        check("127.0.1.1:5", "127.0.0.1:9", "127.0.1.1:5");
        check("10.0.0.3:5", "10.0.0.2:9", "10.0.0.3:5");
        check("0.0.0.0:5", "10.0.0.2:9", "10.0.0.1:5");
        check("[::]:5", "127.0.0.1:9", "10.0.0.1:5");
    }
}
