//! The servers that may have an object, and what they have said of it so far.
//!
//! ```text
//! pass ──▶ next server worth asking ──▶ how it fared ─┐
//!   ▲        │ none left                    ▲──────────┘
//!   │        ▼
//!   └── wait when one of them may do better ──▶ else the verdict
//! ```

use std::time::Duration;

use crate::error::Attempts;
use crate::http::Server;
use crate::route::Place;

/// How often a server may say 500 before it is given up. Some say it where others say
/// 404, and some when they are busy.
const MAX_BROKEN: u32 = 3;

/// How a server fared that did not give the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fared {
    /// Passing: ask again later, after this long when the server says so.
    Again(Option<Duration>),
    /// 500, which may pass, or not.
    Broken,
    /// No trial will mend it.
    Out,
    /// Not here; its words.
    Missing(String),
    /// Not with this token; the status.
    Refused(u16),
    /// Other bytes, or an answer that makes no sense.
    Wrong,
}

/// What to say when nobody gave the object, the weightiest first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Somebody has other bytes.
    Wrong,
    /// Somebody wants another token.
    Refused(Place, u16),
    /// Somebody says that there is no such object.
    Missing(Server, String),
    /// Nobody could be asked.
    Failed,
}

/// A server and whether it is still worth asking.
#[derive(Debug)]
struct Source {
    place: Place,
    out: bool,
    broken: u32,
}

/// The servers of one object.
#[derive(Debug)]
pub(crate) struct Sources {
    list: Vec<Source>,
    /// How many of them the route named; those that were added later come after.
    n_routed: usize,
    /// How many of them have had their turn in this pass.
    n_done: usize,
    /// Whether another pass is worth while, and how long the servers want it to wait.
    again: Option<Duration>,
    /// Who was asked, for the error.
    pub(crate) attempts: Attempts,
    missing: Option<(Server, String)>,
    refused: Option<(Place, u16)>,
    wrong: bool,
}

impl Sources {
    /// The servers of a route, those that failed a short time ago last.
    pub(crate) fn new(places: &[Place], is_cooling: impl Fn(&Server) -> bool) -> Self {
        let mut places = places.to_vec();
        places.sort_by_key(|place| is_cooling(&place.server));
        Self {
            n_routed: places.len(),
            list: places.into_iter().map(Source::new).collect(),
            n_done: 0,
            again: None,
            attempts: Attempts::default(),
            missing: None,
            refused: None,
            wrong: false,
        }
    }

    /// Adds servers that are not yet among them; they have their turn in this pass.
    pub(crate) fn add(&mut self, places: Vec<Place>) {
        for place in places {
            if self.list.iter().all(|source| source.place.server != place.server) {
                self.list.push(Source::new(place));
            }
        }
    }

    /// The next server worth asking in this pass.
    pub(crate) fn next(&mut self) -> Option<Place> {
        while let Some(source) = self.list.get(self.n_done) {
            self.n_done += 1;
            if !source.out {
                return Some(source.place.clone());
            }
        }
        None
    }

    /// Whether the route names another server after the one that [`next`](Self::next)
    /// gave last.
    pub(crate) fn has_more(&self) -> bool {
        self.n_done < self.n_routed
    }

    /// Keeps how the server fared that [`next`](Self::next) gave last.
    pub(crate) fn note(&mut self, fared: Fared) {
        let Some(source) = self.n_done.checked_sub(1).and_then(|at| self.list.get_mut(at)) else {
            return;
        };
        match fared {
            Fared::Again(asked) => self.again = self.again.max(Some(asked.unwrap_or_default())),
            Fared::Broken => {
                source.broken += 1;
                source.out = source.broken >= MAX_BROKEN;
                if !source.out {
                    self.again = self.again.max(Some(Duration::ZERO));
                }
            }
            Fared::Out => source.out = true,
            Fared::Missing(said) => {
                source.out = true;
                self.missing.get_or_insert((source.place.server.clone(), said));
            }
            Fared::Refused(status) => {
                source.out = true;
                self.refused.get_or_insert((source.place.clone(), status));
            }
            Fared::Wrong => (source.out, self.wrong) = (true, true),
        }
    }

    /// Ends the pass. Returns how long the servers want us to wait before the next one;
    /// `None` when none of them is worth another.
    pub(crate) fn end_pass(&mut self) -> Option<Duration> {
        self.n_done = 0;
        self.again.take()
    }

    /// What to say, and who was asked.
    pub(crate) fn verdict(self) -> (Verdict, Attempts) {
        let verdict = match (self.wrong, self.refused, self.missing) {
            (true, ..) => Verdict::Wrong,
            (_, Some((place, status)), _) => Verdict::Refused(place, status),
            (_, _, Some((server, said))) => Verdict::Missing(server, said),
            (false, None, None) => Verdict::Failed,
        };
        (verdict, self.attempts)
    }
}

impl Source {
    fn new(place: Place) -> Self {
        Self { place, out: false, broken: 0 }
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
        Sources::new(&places, |_| false)
    }

    /// Who is asked in a pass in which each server fares as `fared` says.
    fn pass(sources: &mut Sources, fared: impl Fn(&str) -> Fared) -> Vec<String> {
        let mut asked = Vec::new();
        while let Some(place) = sources.next() {
            let name = place.server.authority();
            sources.note(fared(&name));
            asked.push(name);
        }
        asked
    }

    #[test]
    fn a_pass_asks_each_server_once_and_those_that_failed_of_late_last() {
        let places = ["a", "b", "c"].map(place);
        let mut sources = Sources::new(&places, |server| server.authority() == "a");
        assert_eq!(pass(&mut sources, |_| Fared::Again(None)), ["b", "c", "a"]);
        assert_eq!(sources.next(), None);
        assert_eq!(sources.end_pass(), Some(Duration::ZERO));
        assert_eq!(pass(&mut sources, |_| Fared::Again(None)), ["b", "c", "a"]);
    }

    #[test]
    fn who_is_out_is_not_asked_again() {
        let mut sources = sources(&["again", "out", "missing", "refused", "wrong"]);
        let fared = |name: &str| match name {
            "again" => Fared::Again(None),
            "out" => Fared::Out,
            "missing" => Fared::Missing(String::new()),
            "refused" => Fared::Refused(403),
            _ => Fared::Wrong,
        };
        assert_eq!(pass(&mut sources, fared).len(), 5);
        assert!(sources.end_pass().is_some());
        assert_eq!(pass(&mut sources, |_| Fared::Out), ["again"]);
        assert_eq!(sources.end_pass(), None);
    }

    #[test]
    fn the_longest_wait_that_a_server_wants_counts_in_its_pass_alone() {
        let mut sources = sources(&["a", "b", "c"]);
        let wants = |name: &str| match name {
            "a" => Some(Duration::from_secs(5)),
            "b" => Some(Duration::from_secs(60)),
            _ => None,
        };
        pass(&mut sources, |name| Fared::Again(wants(name)));
        assert_eq!(sources.end_pass(), Some(Duration::from_secs(60)));
        pass(&mut sources, |_| Fared::Again(None));
        assert_eq!(sources.end_pass(), Some(Duration::ZERO));
    }

    #[test]
    fn a_server_may_be_broken_twice() {
        let mut sources = sources(&["a"]);
        for _ in 0..2 {
            assert_eq!(pass(&mut sources, |_| Fared::Broken), ["a"]);
            assert_eq!(sources.end_pass(), Some(Duration::ZERO));
        }
        assert_eq!(pass(&mut sources, |_| Fared::Broken), ["a"]);
        assert_eq!(sources.end_pass(), None);
        assert_eq!(sources.verdict().0, Verdict::Failed);
    }

    #[test]
    fn servers_that_are_added_have_their_turn_in_the_same_pass() {
        let mut sources = sources(&["a", "b"]);
        assert_eq!(sources.next(), Some(place("a")));
        assert!(sources.has_more());
        assert_eq!(sources.next(), Some(place("b")));
        assert!(!sources.has_more());
        assert_eq!(sources.next(), None);
        sources.add(vec![place("b"), place("origin")]);
        assert_eq!(pass(&mut sources, |_| Fared::Again(None)), ["origin"]);
        sources.end_pass();
        assert_eq!(pass(&mut sources, |_| Fared::Out), ["a", "b", "origin"]);
    }

    #[test]
    fn the_weightiest_answer_is_the_verdict() {
        let fared = [
            Fared::Again(None),
            Fared::Missing("gone".to_owned()),
            Fared::Refused(401),
            Fared::Wrong,
        ];
        let missing = Verdict::Missing(place("s1").server, "gone".to_owned());
        let expected =
            [Verdict::Failed, missing, Verdict::Refused(place("s2"), 401), Verdict::Wrong];
        for (upto, expected) in expected.into_iter().enumerate() {
            let mut sources = sources(&["s0", "s1", "s2", "s3"]);
            for fared in fared.iter().take(upto + 1) {
                sources.next();
                sources.note(fared.clone());
            }
            assert_eq!(sources.verdict().0, expected);
        }
    }
}
