//! The decisions of a read: which server is asked next, and when.
//!
//! ```text
//! step ─▶ Ask ─▶ lost, answered, reached ─┐
//!  ▲  ├─▶ AskOrigin, AskAnew ─▶ add ──────┤
//!  │  ├─▶ Wait ───────────────────────────┤
//!  │  └─▶ GiveUp                          │
//!  └──────────────────────────────────────┘
//! ```
//!
//! There is no clock here and no network: the caller does what a step says, and gives the time. So
//! [`fleet`](crate::fleet) can run these decisions for a thousand nodes in a second.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::credentials::Refusal;
use crate::error::Blamed;
use crate::http::{Fault, Server};
use crate::reader::checked_blocks::BLOCK_BYTES;
use crate::reader::servers::Servers;
use crate::reader::sources::{Fared, Sources};
use crate::retry::{Policy, Retry};
use crate::route::{Place, Route};

/// Why clients cannot connect to some origins.
const BROKERED: &str =
    " (the director says that only servers can reach its origin, through a broker)";

/// What a read does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Asks this server for the missing bytes.
    Ask(Place),
    /// Asks the router for the origin, whose places are then added.
    AskOrigin,
    /// Asks the director for this very object, since its answer was for another one.
    AskAnew,
    /// Waits before the next pass.
    Wait(Duration),
    /// No server is worth another request.
    GiveUp,
}

/// The passes over the servers of one object.
#[derive(Debug)]
pub(crate) struct Passes {
    pub(crate) sources: Sources,
    retry: Retry,
    patience: Duration,
    /// Whether the route is to origins.
    direct: bool,
    origin_asked: bool,
    reused: bool,
    brokered: bool,
    /// The first byte that is missing.
    reached: u64,
}

impl Passes {
    /// The passes over the servers of `route`, which are origins with `direct`. With
    /// `only_these`, no origin is asked beside them. The bytes before `reached` are there `now`.
    pub(crate) fn new(
        route: &Route,
        (direct, only_these): (bool, bool),
        patience: Duration,
        servers: &Servers,
        (reached, now): (u64, Instant),
    ) -> Self {
        let origin_asked = direct || only_these;
        let cooling = |server: &Server| servers.is_cooling(server, now);
        let mut sources = Sources::new(&route.places, direct, cooling);
        sources.is_public = route.namespace.as_ref().is_some_and(|n| !n.require_token);
        // Before the first byte a wrong host is likelier than a server that restarts; but
        // caches get the time after which the origin is asked.
        let caches = if origin_asked { Duration::ZERO } else { origin_after(patience) };
        Self {
            sources,
            retry: Retry::new(Policy::READ, caches + patience / 6, now),
            patience,
            direct,
            origin_asked,
            reused: route.reused,
            brokered: route.brokered,
            reached,
        }
    }

    /// The same, with random waits that only depend on `seed`.
    pub(crate) fn seeded(self, seed: u64) -> Self {
        Self { retry: self.retry.seeded(seed), ..self }
    }

    /// The next step, after all that happened until `now`.
    pub(crate) fn step(&mut self, servers: &Servers, now: Instant) -> Step {
        let wait = |server: &Server| servers.wait(server, now);
        if let Some(place) = self.sources.next(wait, now) {
            return Step::Ask(place);
        }
        let unreachable = |server: &Server| servers.unreachable_for(server, now);
        let origin_in = self
            .sources
            .unreachable_in(origin_after(self.patience), unreachable)
            .filter(|_| !self.origin_asked);
        let lacks = self.sources.lacks();
        if !self.origin_asked && (lacks || origin_in.is_some_and(|left| left.is_zero())) {
            self.origin_asked = true;
            return Step::AskOrigin;
        }
        if self.reused && (lacks || self.sources.is_unreachable(unreachable)) {
            // The director's answer for another object need not hold for this one.
            self.reused = false;
            return Step::AskAnew;
        }
        if self.sources.is_busy() {
            self.retry.bear(self.patience);
            // A queue that moves is waited in: what others of this client got shows that the turn of
            // this object comes, too.
            let gave = self.sources.worth_asking().filter_map(|server| servers.gave_at(server));
            if let Some(at) = gave.max() {
                self.retry.moved(at);
            }
        }
        let asked = self.sources.end_pass(wait, now);
        match asked.and_then(|asked| self.retry.again(Some(asked), now)) {
            Some(pause) => Step::Wait(origin_in.map_or(pause, |left| pause.min(left))),
            None => Step::GiveUp,
        }
    }

    /// The answer to [`Step::AskOrigin`].
    pub(crate) fn add_origin(&mut self, places: Vec<Place>) {
        self.sources.add(places, true);
    }

    /// The answer to [`Step::AskAnew`].
    pub(crate) fn add_anew(&mut self, route: &Route) {
        self.brokered = route.brokered;
        self.sources.add(route.places.clone(), self.direct);
    }

    /// The bytes to ask the next server for, of those from `position`.
    pub(crate) fn range(&self, position: u64, until: Option<u64>, len: Option<u64>) -> Range<u64> {
        let mut range = position..until.unwrap_or(u64::MAX);
        if self.sources.is_doubtful(position) && len.is_some() {
            // Another server had other bytes here, so one block shows whether this one has
            // them, too.
            range.end = range.end.min(position.saturating_add(BLOCK_BYTES as u64));
        }
        range
    }

    /// The bytes before `position` were accepted.
    pub(crate) fn reached(&mut self, position: u64, now: Instant) {
        if position > self.reached {
            self.reached = position;
            self.retry.progressed(self.patience, now);
            self.sources.forget_waits();
        }
    }

    /// A server that gave no answer, or not all of one.
    pub(crate) fn lost(
        &mut self,
        place: &Place,
        fault: &Fault,
        servers: &Servers,
        now: Instant,
    ) -> Fared {
        servers.cool_down(&place.server, now);
        if fault.is_connection() {
            servers.unreachable(&place.server, now);
        }
        match fault {
            Fault::Tls(..) => {
                self.sources.attempts.add_lasting(&place.server, fault);
                Fared::Out
            }
            _ => {
                let broker = if self.brokered { BROKERED } else { "" };
                let fault = Blamed::new(format!("{fault}{broker}"), fault.cause());
                self.sources.attempts.add(&place.server, fault);
                Fared::Again
            }
        }
    }

    /// A server that answered, and not with the object: with these words, and with a wait of
    /// `asked` if it wants one.
    pub(crate) fn answered(
        &mut self,
        place: &Place,
        (status, said): (u16, String),
        asked: Option<Duration>,
        servers: &Servers,
        now: Instant,
    ) -> Fared {
        let words = format!("{status}{said}");
        match status {
            408 | 429 | 501.. => {
                self.sources.attempts.add(&place.server, words);
                servers.busy(&place.server, asked.unwrap_or_default(), now);
                if matches!(status, 429 | 503) { Fared::Busy } else { Fared::Again }
            }
            500 => {
                self.sources.attempts.add(&place.server, words);
                Fared::Broken
            }
            _ => {
                self.sources.attempts.add_lasting(&place.server, words);
                match status {
                    401 | 403 => Fared::Refused(Refusal { status, said }),
                    404 | 410 => Fared::Missing(said),
                    // Only an object's bytes can be wrong; a redirect or a refusal contains none.
                    ..300 => Fared::Wrong(0),
                    _ => Fared::Out,
                }
            }
        }
    }

    /// Time since the first attempt began.
    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        self.retry.elapsed(now)
    }
}

/// How long all caches must have taken no connection before the origin is asked.
fn origin_after(patience: Duration) -> Duration {
    patience / 3
}
