//! The servers that may have an object, and what they have answered so far.
//!
//! ```text
//! pass ──▶ next server worth asking ──▶ how it fared ─┐
//!   ▲        │ none left                    ▲──────────┘
//!   │        ▼
//!   └── wait when one of them may do better ──▶ else the verdict
//! ```
//!
//! The origin is added when a cache has other bytes or none, or when no cache has taken
//! a connection for long. Caches that are busy or slow are waited for: what moves one
//! job to the origin moves all that were started with it.

use std::time::{Duration, Instant};

use crate::credentials::Refusal;
use crate::director::Namespace;
use crate::error::Attempts;
use crate::http::Server;
use crate::route::Place;

/// How often a server may answer 500 before it is given up. Some do so where others answer 404, and
/// some when they are busy.
const MAX_BROKEN: u32 = 3;

/// Why a server did not give the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fared {
    /// A passing fault: ask the server again later.
    Again,
    /// A passing fault, because the server has too much to do.
    Busy,
    /// The server sends fewer bytes per second than it should.
    Slow(u64),
    /// The server answered 500, which may pass or not.
    Broken,
    /// The server failed in a way that another attempt does not repair.
    Out,
    /// The server does not have the object, by this message.
    Missing(String),
    /// The server refused this token, or that there was none.
    Refused(Refusal),
    /// Other bytes, from this one on, or an answer that makes no sense.
    Wrong(u64),
}

/// The result if no server gave the object, the most important first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All servers that can be asked have other bytes, or the origin has.
    Wrong,
    /// A server wants another token.
    Refused(Place, Refusal),
    /// A server says that there is no such object.
    Missing(Server, String),
    /// Some servers could not be asked.
    Failed,
}

/// A server and whether it is still worth asking.
#[derive(Debug)]
struct Source {
    place: Place,
    is_origin: bool,
    out: bool,
    /// Whether the server has other bytes, or none, which is final for an origin.
    lacks: bool,
    /// Whether the server has other bytes.
    wrong: bool,
    broken: u32,
    /// The end of the wait that the server asked for when it was first passed over. What it asks of
    /// others meanwhile does not make the wait longer.
    until: Option<Instant>,
    /// Whether no other server is faster, so that its speed is not a reason to leave it.
    fast_enough: bool,
}

/// The servers of one object.
#[derive(Debug)]
pub(crate) struct Sources {
    list: Vec<Source>,
    /// The source that [`next`](Self::next) returned last.
    current: Option<usize>,
    /// The source to return next, before its turn.
    ahead: Option<usize>,
    /// How many sources have had their turn in this pass.
    n_done: usize,
    /// The servers that were asked, for the error.
    pub(crate) attempts: Attempts,
    missing: Option<(Server, String)>,
    refused: Option<(Place, Refusal)>,
    /// Whether reading needs no token, so that a cache that refuses is at fault.
    pub(crate) is_public: bool,
    /// What a server that refused says about the namespace, since a director may say nothing.
    pub(crate) told: Option<Namespace>,
    /// The first byte of the block of which somebody had other bytes.
    wrong_at: Option<u64>,
    busy: bool,
}

impl Sources {
    /// The servers of a route; those that failed a short time ago come last. With `is_origin`
    /// they are origins, else caches.
    pub(crate) fn new(
        places: &[Place],
        is_origin: bool,
        is_cooling: impl Fn(&Server) -> bool,
    ) -> Self {
        let mut places = places.to_vec();
        places.sort_by_key(|place| is_cooling(&place.server));
        let list = places.into_iter().map(|place| Source::new(place, is_origin)).collect();
        Self {
            list,
            current: None,
            ahead: None,
            n_done: 0,
            attempts: Attempts { origin_asked: is_origin, ..Attempts::default() },
            missing: None,
            refused: None,
            is_public: false,
            told: None,
            wrong_at: None,
            busy: false,
        }
    }

    /// Adds servers that are not yet among them; they have their turn in this pass.
    /// Returns whether there were any.
    pub(crate) fn add(&mut self, places: Vec<Place>, is_origin: bool) -> bool {
        let before = self.list.len();
        self.attempts.origin_asked |= is_origin && !places.is_empty();
        for place in places {
            match self.list.iter_mut().find(|source| source.place == place) {
                Some(source) => source.is_origin |= is_origin,
                None => self.list.push(Source::new(place, is_origin)),
            }
        }
        self.list.len() > before
    }

    /// The next server worth asking in this pass; who wants to be left alone is passed
    /// over.
    pub(crate) fn next(
        &mut self,
        wait: impl Fn(&Server) -> Duration,
        now: Instant,
    ) -> Option<Place> {
        if let Some(at) = self.ahead.take() {
            self.current = Some(at);
            return self.list.get(at).map(|source| source.place.clone());
        }
        while let Some(source) = self.list.get_mut(self.n_done) {
            self.current = Some(self.n_done);
            self.n_done += 1;
            if source.out {
                continue;
            }
            let left = source.left(wait(&source.place.server), now);
            if left.is_zero() {
                source.until = None;
                return Some(source.place.clone());
            }
            self.busy = true;
            self.attempts.waits(&source.place.server, left);
        }
        None
    }

    /// Bytes arrived since the servers were passed over: what they ask for now counts again.
    pub(crate) fn forget_waits(&mut self) {
        self.list.iter_mut().for_each(|source| source.until = None);
    }

    /// Keeps how the server fared that [`next`](Self::next) gave last.
    pub(crate) fn note(&mut self, fared: Fared) {
        let Some(source) = self.current.and_then(|at| self.list.get_mut(at)) else { return };
        match fared {
            Fared::Again | Fared::Slow(_) => {}
            Fared::Busy => self.busy = true,
            Fared::Broken => {
                source.broken += 1;
                source.out = source.broken >= MAX_BROKEN;
            }
            Fared::Out => source.out = true,
            Fared::Missing(said) => {
                (source.out, source.lacks) = (true, true);
                self.missing.get_or_insert((source.place.server.clone(), said));
            }
            Fared::Refused(refusal) => {
                (source.out, source.lacks) = (true, self.is_public);
                self.refused.get_or_insert((source.place.clone(), refusal));
            }
            Fared::Wrong(at) => {
                (source.out, source.lacks, source.wrong) = (true, true, true);
                self.wrong_at = Some(at);
            }
        }
    }

    /// The others that may be faster than the one that [`next`](Self::next) gave last:
    /// caches, when that is one.
    pub(crate) fn rivals(&self) -> Vec<Place> {
        let current = self.current.and_then(|at| self.list.get(at));
        let Some(current) = current.filter(|source| !source.is_origin && !source.fast_enough)
        else {
            return Vec::new();
        };
        let rivals = self.list.iter().filter(|source| {
            !source.out && !source.is_origin && source.place.server != current.place.server
        });
        rivals.map(|source| source.place.clone()).collect()
    }

    /// Gives this one next, before its turn; without one the same again, which is as fast
    /// as any.
    pub(crate) fn prefer(&mut self, place: Option<&Place>) {
        let at = place.and_then(|place| self.list.iter().position(|s| s.place == *place));
        self.ahead = at.or(self.current);
        if at.is_none()
            && let Some(source) = self.current.and_then(|at| self.list.get_mut(at))
        {
            source.fast_enough = true;
        }
    }

    /// Returns the servers that had wrong bytes.
    pub(crate) fn wrong(&self) -> impl Iterator<Item = &Server> {
        self.list.iter().filter(|source| source.wrong).map(|source| &source.place.server)
    }

    /// Whether a cache has other bytes or none, or refuses what needs no token.
    pub(crate) fn lacks(&self) -> bool {
        let refuses_all = self.is_public && self.refused.is_some();
        self.wrong_at.is_some() || self.missing.is_some() || refuses_all
    }

    /// Whether a server had other bytes from this position on.
    pub(crate) fn is_doubtful(&self, position: u64) -> bool {
        self.wrong_at == Some(position)
    }

    /// The servers that are still worth asking.
    pub(crate) fn worth_asking(&self) -> impl Iterator<Item = &Server> {
        self.list.iter().filter(|source| !source.out).map(|source| &source.place.server)
    }

    /// Whether a server has too much to do.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Whether none of the servers has taken a connection.
    pub(crate) fn is_unreachable(&self, since: impl Fn(&Server) -> Option<Duration>) -> bool {
        self.unreachable_in(Duration::ZERO, since).is_some()
    }

    /// Returns how long it takes until none of the servers has taken a connection for `limit`;
    /// `None` if one has.
    pub(crate) fn unreachable_in(
        &self,
        limit: Duration,
        since: impl Fn(&Server) -> Option<Duration>,
    ) -> Option<Duration> {
        let mut longest = None;
        for source in self.list.iter().filter(|source| !source.out) {
            let left = limit.saturating_sub(since(&source.place.server)?);
            longest = longest.max(Some(left));
        }
        longest
    }

    /// Ends the pass. Returns how long the first of them wants us to wait before the next
    /// one; `None` when none of them is worth another, or no origin has the object.
    pub(crate) fn end_pass(
        &mut self,
        wait: impl Fn(&Server) -> Duration,
        now: Instant,
    ) -> Option<Duration> {
        self.n_done = 0;
        let mut origins = self.list.iter().filter(|source| source.is_origin).peekable();
        if origins.peek().is_some() && origins.all(|source| source.lacks) {
            return None;
        }
        let worth = self.list.iter_mut().filter(|source| !source.out);
        worth.map(|source| source.left(wait(&source.place.server), now)).min()
    }

    /// Returns the result, and the servers that were asked.
    pub(crate) fn verdict(self) -> (Verdict, Attempts) {
        let passing = self.list.iter().any(|source| !source.out);
        let mut origins = self.list.iter().filter(|source| source.is_origin).peekable();
        let origins_out = origins.peek().is_some() && origins.all(|source| source.out);
        let verdict = match (self.refused, self.missing) {
            // A server that could not be asked may have the right bytes.
            _ if self.wrong_at.is_some() && (origins_out || !passing) => Verdict::Wrong,
            _ if self.wrong_at.is_some() => Verdict::Failed,
            (Some(_), Some((server, said))) if self.is_public => Verdict::Missing(server, said),
            (Some((place, refusal)), _) => Verdict::Refused(place, refusal),
            (_, Some((server, said))) => Verdict::Missing(server, said),
            (None, None) => Verdict::Failed,
        };
        (verdict, self.attempts)
    }
}

impl Source {
    fn new(place: Place, is_origin: bool) -> Self {
        Self {
            place,
            is_origin,
            out: false,
            lacks: false,
            wrong: false,
            broken: 0,
            until: None,
            fast_enough: false,
        }
    }

    /// How much is left of the wait that the server asked for; `wait` is what it asks for by now.
    fn left(&mut self, wait: Duration, now: Instant) -> Duration {
        if wait.is_zero() {
            return wait;
        }
        self.until.get_or_insert(now + wait).saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> Place {
        Place::of(&format!("https://{name}/x")).unwrap()
    }

    fn sources(names: &[&str]) -> Sources {
        let places: Vec<_> = names.iter().map(|name| place(name)).collect();
        Sources::new(&places, false, |_| false)
    }

    fn at_once(_: &Server) -> Duration {
        Duration::ZERO
    }

    /// Other threads are told to wait, too, each time a later one.
    #[test]
    fn a_wait_ends_when_it_was_to_end_whatever_is_asked_of_others() {
        let (mut sources, now) = (sources(&["a"]), Instant::now());
        let wait = Duration::from_secs(20);
        let soon = |_: &Server| wait;
        assert_eq!(sources.next(soon, now), None);
        assert_eq!(sources.end_pass(soon, now + wait / 2), Some(wait / 2));
        let now = now + wait;
        assert!(sources.next(soon, now).is_some());
        // It was asked again, and asks for a wait again.
        sources.note(Fared::Busy);
        assert_eq!(sources.end_pass(soon, now), Some(wait));
        assert_eq!(sources.next(soon, now), None);
    }

    /// The servers that are asked in a pass, with the results that `fared` gives.
    fn pass(sources: &mut Sources, fared: impl Fn(&str) -> Fared) -> Vec<String> {
        let mut asked = Vec::new();
        while let Some(place) = sources.next(at_once, Instant::now()) {
            let name = place.server.authority();
            sources.note(fared(&name));
            asked.push(name);
        }
        asked
    }

    #[test]
    fn a_pass_asks_each_server_once_and_those_that_failed_of_late_last() {
        let places = ["a", "b", "c"].map(place);
        let mut sources = Sources::new(&places, false, |server| server.authority() == "a");
        assert_eq!(pass(&mut sources, |_| Fared::Again), ["b", "c", "a"]);
        assert_eq!(sources.next(at_once, Instant::now()), None);
        assert_eq!(sources.end_pass(at_once, Instant::now()), Some(Duration::ZERO));
        assert_eq!(pass(&mut sources, |_| Fared::Again), ["b", "c", "a"]);
    }

    #[test]
    fn who_is_out_is_not_asked_again() {
        let mut sources = sources(&["again", "out", "missing", "refused", "wrong"]);
        let fared = |name: &str| match name {
            "again" => Fared::Again,
            "out" => Fared::Out,
            "missing" => Fared::Missing(String::new()),
            "refused" => Fared::Refused(403.into()),
            _ => Fared::Wrong(7),
        };
        assert_eq!(pass(&mut sources, fared).len(), 5);
        assert!(sources.is_doubtful(7) && !sources.is_doubtful(8));
        assert!(sources.end_pass(at_once, Instant::now()).is_some());
        assert_eq!(pass(&mut sources, |_| Fared::Out), ["again"]);
        assert_eq!(sources.end_pass(at_once, Instant::now()), None);
    }

    #[test]
    fn a_server_is_passed_over_for_as_long_as_it_wants() {
        let (mut sources, now) = (sources(&["a", "b"]), Instant::now());
        let wait = |server: &Server| match server.authority().as_str() {
            "a" => Duration::from_secs(60),
            _ => Duration::from_secs(5),
        };
        assert_eq!(sources.next(wait, now), None);
        assert!(sources.is_busy());
        assert_eq!(sources.end_pass(wait, now), Some(Duration::from_secs(5)), "the first of them");
        let b = |server: &Server| wait(server).saturating_sub(Duration::from_secs(5));
        assert_eq!(sources.next(b, now), Some(place("b")));
        assert_eq!(sources.next(b, now), None);
        let told = sources.verdict().1.to_string();
        assert!(told.contains("`https://a`: busy; it asks to be tried again in 60 s"), "{told}");
    }

    #[test]
    fn a_server_may_be_broken_twice() {
        let mut sources = sources(&["a"]);
        for _ in 0..2 {
            assert_eq!(pass(&mut sources, |_| Fared::Broken), ["a"]);
            assert_eq!(sources.end_pass(at_once, Instant::now()), Some(Duration::ZERO));
        }
        assert_eq!(pass(&mut sources, |_| Fared::Broken), ["a"]);
        assert_eq!(sources.end_pass(at_once, Instant::now()), None);
        assert_eq!(sources.verdict().0, Verdict::Failed);
    }

    #[test]
    fn servers_that_are_added_have_their_turn_in_the_same_pass() {
        let mut sources = sources(&["a", "b"]);
        assert_eq!(pass(&mut sources, |_| Fared::Again), ["a", "b"]);
        assert!(!sources.add(vec![place("b")], true));
        assert!(sources.add(vec![place("b"), place("origin")], true));
        assert_eq!(pass(&mut sources, |_| Fared::Again), ["origin"]);
        sources.end_pass(at_once, Instant::now());
        assert_eq!(pass(&mut sources, |_| Fared::Out), ["a", "b", "origin"]);
        assert!(sources.attempts.origin_asked);
    }

    #[test]
    fn a_slow_cache_has_caches_as_rivals_and_never_the_origin() {
        let mut sources = sources(&["a", "b", "c"]);
        sources.add(vec![place("origin")], true);
        assert_eq!(sources.next(at_once, Instant::now()), Some(place("a")));
        assert_eq!(sources.rivals(), [place("b"), place("c")]);
        sources.prefer(Some(&place("c")));
        assert_eq!(sources.next(at_once, Instant::now()), Some(place("c")));
        // No other server is faster: it is asked again, and its speed no longer matters.
        sources.prefer(None);
        assert_eq!(sources.next(at_once, Instant::now()), Some(place("c")));
        assert!(sources.rivals().is_empty());
        assert_eq!(sources.next(at_once, Instant::now()), Some(place("b")));
        while sources.next(at_once, Instant::now()) != Some(place("origin")) {}
        assert!(sources.rivals().is_empty());
    }

    #[test]
    fn all_must_be_out_of_reach_for_as_long() {
        let limit = Duration::from_secs(60);
        let sources = sources(&["a", "b"]);
        let since = |seconds: [Option<u64>; 2]| {
            move |server: &Server| {
                let [a, b] = seconds;
                let since = if server.authority() == "a" { a } else { b };
                since.map(Duration::from_secs)
            }
        };
        let left = |seconds| sources.unreachable_in(limit, since(seconds)).map(|l| l.as_secs());
        assert_eq!(left([Some(70), None]), None);
        assert_eq!(left([Some(70), Some(20)]), Some(40));
        assert_eq!(left([Some(70), Some(60)]), Some(0));
    }

    #[test]
    fn the_weightiest_answer_is_the_verdict() {
        let missing = || Fared::Missing("gone".to_owned());
        let check = |fared: &[Fared], expected: Verdict| {
            let names = ["s0", "s1", "s2", "s3"].get(..fared.len()).unwrap();
            let mut sources = sources(names);
            for fared in fared {
                sources.next(at_once, Instant::now());
                sources.note(fared.clone());
            }
            assert_eq!(sources.verdict().0, expected, "{fared:?}");
        };
        let gone = Verdict::Missing(place("s1").server, "gone".to_owned());
        check(&[Fared::Again], Verdict::Failed);
        check(&[Fared::Again, missing()], gone);
        let refused = || Fared::Refused(401.into());
        check(&[Fared::Out, missing(), refused()], Verdict::Refused(place("s2"), 401.into()));
        check(&[Fared::Out, missing(), refused(), Fared::Wrong(0)], Verdict::Wrong);
        // A server that could not be asked may have the right bytes.
        check(&[Fared::Again, missing(), Fared::Wrong(0)], Verdict::Failed);
    }

    #[test]
    fn the_origin_has_the_last_word_about_bytes() {
        let mut sources = sources(&["busy", "wrong"]);
        pass(&mut sources, |name| if name == "busy" { Fared::Busy } else { Fared::Wrong(0) });
        sources.add(vec![place("origin"), place("other")], true);
        assert_eq!(pass(&mut sources, |_| Fared::Again), ["origin", "other"]);
        sources.end_pass(at_once, Instant::now());
        let fared = |name: &str| if name == "origin" { Fared::Wrong(0) } else { Fared::Again };
        assert_eq!(pass(&mut sources, fared), ["busy", "origin", "other"]);
        sources.end_pass(at_once, Instant::now());
        assert_eq!(pass(&mut sources, |_| Fared::Wrong(0)), ["busy", "other"]);
        assert_eq!(
            sources.end_pass(at_once, Instant::now()),
            None,
            "no origin has the right bytes"
        );
        assert_eq!(sources.verdict().0, Verdict::Wrong);
    }
}
