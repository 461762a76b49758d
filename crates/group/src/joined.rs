//! The ranks of one training run, once they have met.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::arrive::Visitor;
use super::flow::{Flow, Reduce};
use super::lobby::{listen, listen_everywhere};
use super::meet::{self, Host};
use super::operation::{Operation, OperationKind};
use super::rank_ring::{self, Patience, RankRing, Seat, Stop};
use super::relay::{Relay, Source, Target};
use super::shared::Shared;
use super::summable::Summable;
use super::watch::{Member, Watcher};
use super::wire::MAX_ABOUT;
use crate::{Error, Rendezvous};

/// Connecting to a rank that already listens takes no longer on a network that works.
const RING_TIMEOUT: Duration = Duration::from_secs(60);

/// Times and limits of a group.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    /// How long to wait for all ranks to connect.
    pub rendezvous_timeout: Duration,
    /// How long an operation may wait while no data moves: a rank may compute, load or save for
    /// this long while the others wait for it.
    pub operation_timeout: Duration,
    /// After how long without a sign of life a rank is lost. Signs are given by a
    /// thread of their own, six in this time, whatever else the process does.
    pub lost_after: Duration,
    /// The address of this machine at which other ranks reach it; by default the one from which it
    /// reached rank 0. This is for machines with a faster second network.
    pub interface: Option<IpAddr>,
    /// Set when this process is asked to stop. An operation that is under way still ends as
    /// long as something moves, so that all ranks stop after the same step.
    pub stop: Option<Arc<AtomicBool>>,
    /// How long an operation may wait while no data moves, once `stop` is set. Then it ends on all
    /// ranks with [`Error::Stopped`].
    pub stop_grace: Duration,
    /// Longest [`Group::broadcast`] that is accepted from rank 0, in bytes.
    pub broadcast_limit_bytes: u64,
}

impl Default for GroupOptions {
    /// 5 minutes to meet, 10 for an operation, 10 s for one after a stop, 30 s without a sign of
    /// life, 1 GiB.
    fn default() -> Self {
        Self {
            rendezvous_timeout: Duration::from_secs(5 * 60),
            operation_timeout: Duration::from_secs(10 * 60),
            lost_after: Duration::from_secs(30),
            interface: None,
            stop: None,
            stop_grace: Duration::from_secs(10),
            broadcast_limit_bytes: 1 << 30,
        }
    }
}

/// The connected ranks of one training run.
///
/// All ranks call the same operations in the same order. When one of them fails or is lost, every
/// operation gives the same error on all the others, at once and from then on. If it is dropped
/// without [`Group::finish`], the training run ends on all ranks.
pub struct Group {
    place: Seat,
    broadcast_limit_bytes: u64,
    operation_timeout: Duration,
    stop: Option<Arc<AtomicBool>>,
    stop_grace: Duration,
    live: Live,
}

enum Live {
    Alone(Shared),
    Together { watcher: Watcher, ring: Mutex<RankRing> },
}

impl Group {
    /// Meets the other ranks at `place`; returns when all are connected.
    ///
    /// `about` describes the training in lines (bundle digest, options, names and
    /// shapes of variables), at most 8 MiB; it must be equal on all ranks. Setting
    /// `cancel` ends the waiting soon after, at worst after a name is
    /// resolved and an attempt to connect has had its 3 s.
    ///
    /// A group of one needs no others and opens no socket.
    ///
    /// # Errors
    /// [`Error`]: rank 0 cannot be reached, or a rank never
    /// came, came twice, or is of another training run; all who have come get
    /// the same one. [`Error::OutOfRange`] for an impossible rank,
    /// [`Error::Option`] for options that cannot be, [`Error::Thread`] without threads.
    pub fn join(
        here: Seat,
        place: &Rendezvous,
        about: &str,
        options: &GroupOptions,
        cancel: &AtomicBool,
    ) -> Result<Self, Error> {
        let Seat { rank, world_size } = here;
        if rank >= world_size {
            return Err(Error::OutOfRange { rank, world_size });
        }
        check(about, options)?;
        if world_size == 1 {
            return Ok(Self::of(here, options, Live::Alone(Shared::new(None))));
        }
        let listen_error = |address: String| {
            move |error: io::Error| {
                let reason = error.to_string();
                Error::Listen { rank, address, reason }
            }
        };
        let meeting = match rank {
            // First, so that a port in use shows before anything else.
            0 => Some(
                listen_everywhere(place.port)
                    .map_err(listen_error(format!("port {} of all addresses", place.port)))?,
            ),
            _ => None,
        };
        let any = "a free port".to_owned();
        let listener = match options.interface {
            Some(ip) => listen(SocketAddr::new(ip, 0)).map_err(listen_error(ip.to_string()))?,
            None => listen_everywhere(0).map_err(listen_error(any.clone()))?,
        };
        let mut address = listener.local_addr().map_err(listen_error(any))?;
        if let Some(ip) = options.interface {
            address.set_ip(ip);
        }
        let (members, invitation, name) = match meeting {
            Some(meeting) => {
                let host = Host {
                    world_size,
                    about,
                    timeout: options.rendezvous_timeout,
                    ring: address,
                    cancel,
                };
                let (members, invitation) = meet::host(&host, meeting)?;
                (members, invitation, place.to_string())
            }
            None => {
                let visitor = Visitor {
                    rank,
                    world_size,
                    place,
                    about,
                    timeout: options.rendezvous_timeout,
                    interface: options.interface,
                    ring: &listener,
                    cancel,
                };
                let (link, invitation) = visitor.visit()?;
                let name = link.stream().local_addr();
                let name = name.map_or_else(
                    |_| "this machine".into(),
                    |here| SocketAddr::new(here.ip().to_canonical(), here.port()).to_string(),
                );
                (vec![Member { rank: 0, address: place.to_string(), link }], invitation, name)
            }
        };
        let watcher = Watcher::start(rank, name, members, options.lost_after)?;
        let ring = connect_ring(here, invitation, listener, &watcher, options, cancel);
        let ring = match ring {
            Ok(ring) => ring,
            Err(Error::Cancelled) => {
                watcher.fail("it was asked to stop while the ranks were meeting");
                return Err(Error::Cancelled);
            }
            Err(error) => return Err(watcher.end(error)),
        };
        Ok(Self::of(here, options, Live::Together { watcher, ring: Mutex::new(ring) }))
    }

    /// Returns a group of one rank, without a socket.
    #[must_use]
    pub fn alone() -> Self {
        let here = Seat { rank: 0, world_size: 1 };
        Self::of(here, &GroupOptions::default(), Live::Alone(Shared::new(None)))
    }

    fn of(place: Seat, options: &GroupOptions, live: Live) -> Self {
        let GroupOptions { broadcast_limit_bytes, operation_timeout, stop_grace, .. } = *options;
        let stop = options.stop.clone();
        Self { place, broadcast_limit_bytes, operation_timeout, stop, stop_grace, live }
    }

    /// The number of this rank, from 0.
    #[must_use]
    pub fn rank(&self) -> u64 {
        self.place.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub fn world_size(&self) -> u64 {
        self.place.world_size
    }

    /// Makes every rank's `values` the sum over all ranks, number by number.
    ///
    /// All ranks get the same bits. The same values on as many ranks give the same bits again; with
    /// another world size, floats are added in another order. Only two buffers of fixed size are
    /// needed.
    ///
    /// # Errors
    /// The error that ended the training run; `values` are then unspecified.
    pub fn all_reduce<T: Summable>(&self, values: &mut [T]) -> Result<(), Error> {
        self.reduce(OperationKind::AllReduce, values)
    }

    /// Gives rank 0's `bytes` to all; what the others had in theirs is dropped.
    ///
    /// # Errors
    /// [`Error::TooLong`] for more than a rank's
    /// [`broadcast_limit_bytes`](GroupOptions::broadcast_limit_bytes), else what ended the training.
    pub fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let operation = operation(OperationKind::Broadcast, (0, "bytes"), 0);
        if self.place.rank == 0 {
            return self.send(operation, bytes);
        }
        self.relay(operation, Target::Grow(bytes, self.broadcast_limit_bytes))
    }

    /// Gives rank 0's `bytes` to all, in place: the length is the same on all ranks.
    ///
    /// # Errors
    /// What ended the training, such as lengths that differ.
    pub fn broadcast_into(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let operation = operation(OperationKind::BroadcastInto, (0, "bytes"), bytes.len());
        if self.place.rank == 0 {
            return self.send(operation, bytes);
        }
        self.relay(operation, Target::Fill(bytes))
    }

    /// Waits until all ranks have come here.
    ///
    /// # Errors
    /// What ended the training.
    pub fn barrier(&self) -> Result<(), Error> {
        self.meet_all(OperationKind::Barrier)
    }

    /// The orderly end: waits for all ranks to come to it.
    ///
    /// # Errors
    /// What ended the training instead.
    pub fn finish(self) -> Result<(), Error> {
        self.meet_all(OperationKind::Finish)?;
        match self.live {
            Live::Alone(_) => Ok(()),
            Live::Together { watcher, .. } => watcher.leave(self.operation_timeout),
        }
    }

    /// Ends the training on all ranks, whose operations give `reason` as the error. Returns
    /// when the others were told, or cannot be reached. After an
    /// earlier failure it changes nothing: the first one counts.
    pub fn fail(&self, reason: &str) {
        match &self.live {
            Live::Together { watcher, .. } => watcher.fail(reason),
            Live::Alone(shared) => {
                let (address, reason) = ("the only rank".to_owned(), reason.to_owned());
                let failure = Error::Failed { rank: 0, address, reason };
                let callbacks = shared.settle(failure.clone());
                callbacks.into_iter().for_each(|callback| callback(&failure));
            }
        }
    }

    /// Returns the error that ended the training run, for a caller that saw something fail between
    /// the ranks outside of the group, such as in NCCL. Such a failure is a symptom, so this waits
    /// shortly for the rank that caused it; if none is found, the training run ends with `reason`.
    #[must_use]
    pub fn suspect(&self, reason: &str) -> Error {
        let Seat { rank, .. } = self.place;
        let reason = reason.to_owned();
        match &self.live {
            Live::Together { watcher, .. } => {
                watcher.end(Error::Broken { rank, other: self.place.next(), reason })
            }
            Live::Alone(_) => {
                self.fail(&reason);
                let ended = self.check().err();
                ended.unwrap_or(Error::Broken { rank, other: rank, reason })
            }
        }
    }

    /// Whether the training run is still going; for callers that wait for something else.
    ///
    /// # Errors
    /// The error that ended it.
    pub fn check(&self) -> Result<(), Error> {
        self.shared().check()
    }

    /// Registers `callback`, which is called once with the error when the training run fails, so
    /// that it can end whatever others wait in. It is called by the thread that watches the group,
    /// by the one that found the failure, or by this one if the failure is older. If the run ends
    /// in order, it is not called.
    pub fn on_failure(&self, callback: impl FnOnce(&Error) + Send + 'static) {
        self.shared().on_failure(Box::new(callback));
    }

    fn shared(&self) -> &Shared {
        match &self.live {
            Live::Alone(shared) => shared,
            Live::Together { watcher, .. } => &watcher.shared,
        }
    }

    fn reduce<T: Summable>(&self, kind: OperationKind, values: &mut [T]) -> Result<(), Error> {
        let operation = operation(kind, (T::CODE, T::NAME), values.len());
        let Seat { rank, world_size } = self.place;
        self.run(operation, |ring, operation, patience| {
            let mut flow = Reduce::new(values, operation, rank, world_size);
            ring.run(self.place, &operation, &mut flow, patience)
        })
    }

    fn meet_all(&self, kind: OperationKind) -> Result<(), Error> {
        let operation = operation(kind, (u64::CODE, u64::NAME), 0);
        self.run(operation, |ring, operation, patience| {
            barrier(ring, self.place, operation, patience)
        })
    }

    fn send(&self, operation: Operation, bytes: &[u8]) -> Result<(), Error> {
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.run(operation, |ring, operation, patience| {
            let header = Some(Operation { len, ..operation }.encode());
            ring.run(self.place, &operation, &mut Source { bytes, header }, patience)
        })
    }

    fn relay(&self, operation: Operation, target: Target<'_>) -> Result<(), Error> {
        let last = self.place.next() == 0;
        self.run(operation, |ring, operation, patience| {
            let mut flow = Relay::new(target, operation, self.place.rank, last);
            ring.run(self.place, &operation, &mut flow, patience)
        })
    }

    /// Runs one operation, which gets its number here; alone there is nothing to do.
    fn run(
        &self,
        operation: Operation,
        body: impl FnOnce(&mut RankRing, Operation, &Patience<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.check()?;
        let Live::Together { watcher, ring } = &self.live else { return Ok(()) };
        // After a panic in an operation the ring is out of step, and the training run ends.
        let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
        let (limit, stop) = (self.operation_timeout, self.stop.as_deref());
        let stop = stop.map(|flag| Stop { flag, grace: self.stop_grace, seen: Cell::new(None) });
        let patience = Patience { shared: &watcher.shared, limit, cancel: None, stop };
        let operation = Operation { number: watcher.shared.begin(), ..operation };
        body(&mut ring, operation, &patience).map_err(|error| watcher.end(error))
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Returns an operation that has no number yet.
fn operation(kind: OperationKind, dtype: (u8, &'static str), len: usize) -> Operation {
    Operation { number: 0, kind, dtype, len: u64::try_from(len).unwrap_or(u64::MAX) }
}

/// Connects the ring, and goes around it once: then all have done so.
fn connect_ring(
    place: Seat,
    invitation: super::arrive::Invitation,
    listener: TcpListener,
    watcher: &Watcher,
    options: &GroupOptions,
    cancel: &AtomicBool,
) -> Result<RankRing, Error> {
    let shared = &watcher.shared;
    let limit = options.rendezvous_timeout.min(RING_TIMEOUT);
    let mut ring = rank_ring::connect(place, invitation, listener, shared, limit, cancel)?;
    let handles = ring.handles().map_err(|error| Error::Broken {
        rank: place.rank,
        other: place.next(),
        reason: error.to_string(),
    })?;
    shared.guard(handles);
    let limit = options.operation_timeout;
    let patience = Patience { shared, limit, cancel: Some(cancel), stop: None };
    let (number, dtype) = (shared.begin(), (u64::CODE, u64::NAME));
    let operation = Operation { number, kind: OperationKind::Barrier, dtype, len: 0 };
    barrier(&mut ring, place, operation, &patience)?;
    Ok(ring)
}

/// A sum with one number a rank is done when all have taken part.
fn barrier(
    ring: &mut RankRing,
    place: Seat,
    operation: Operation,
    patience: &Patience<'_>,
) -> Result<(), Error> {
    let len = usize::try_from(place.world_size).unwrap_or(usize::MAX);
    let mut ones = vec![u64::ONE; len];
    let flow: &mut dyn Flow = &mut Reduce::new(&mut ones, operation, place.rank, place.world_size);
    ring.run(place, &operation, flow, patience)
}

fn check(about: &str, options: &GroupOptions) -> Result<(), Error> {
    let refuse = |option, reason: &str| Err(Error::Option { option, reason: reason.to_owned() });
    // Six signs of life in this time must be worth counting on a busy machine.
    if options.lost_after < Duration::from_secs(1) {
        return refuse("lost_after", "less than a second");
    }
    if options.rendezvous_timeout.is_zero() || options.operation_timeout.is_zero() {
        return refuse("rendezvous_timeout, operation_timeout", "it must be longer than zero");
    }
    if options.interface.is_some_and(|ip| ip.is_unspecified()) {
        return refuse("interface", "it is not an address of one machine");
    }
    if about.len() > MAX_ABOUT {
        return refuse("about", "longer than 8 MiB");
    }
    Ok(())
}
