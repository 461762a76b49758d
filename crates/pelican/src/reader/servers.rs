//! What is known about each server, shared by everything that a client does at the same time.
//!
//! | known | from | until |
//! |---|---|---|
//! | it failed | a failed request | a minute later |
//! | not before when it may be asked | `Retry-After` | that time |
//! | since when it takes no connection | the first that failed | one that is taken |
//! | bytes per second | a transfer or a probe | ten minutes later |
//! | how it spells names in listings | a question for one name | the end |
//! | it gives no checksums | all trials to get one failed | it answers one |
//! | of which objects it gave wrong bytes | another server's right ones | the end |
//!
//! The caller says what time it is.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Url;
use crate::http::Server;
use crate::listing::Spelling;

/// A server that failed is tried last for this long.
const COOL_DOWN: Duration = Duration::from_secs(60);

/// How long a measured speed is used.
const KEEP_RATE: Duration = Duration::from_secs(600);

/// What is known about all servers.
#[derive(Debug, Default)]
pub(crate) struct Servers(Mutex<HashMap<Server, Known>>);

#[derive(Debug, Default)]
struct Known {
    cools_until: Option<Instant>,
    not_before: Option<Instant>,
    unreachable_since: Option<Instant>,
    rate: Option<(u64, Instant)>,
    spelling: Option<Spelling>,
    without_checksums: bool,
    wrong: BTreeSet<String>,
}

impl Servers {
    /// Records that the server failed: others are asked before it for a while.
    pub(crate) fn cool_down(&self, server: &Server, now: Instant) {
        self.known(server, |known| known.cools_until = Some(now + COOL_DOWN));
    }

    /// Whether the server failed a short time ago.
    pub(crate) fn is_cooling(&self, server: &Server, now: Instant) -> bool {
        self.known(server, |known| known.cools_until.is_some_and(|until| until > now))
    }

    /// Records that the server asks not to be asked again for this long.
    pub(crate) fn busy(&self, server: &Server, asked: Duration, now: Instant) {
        self.known(server, |known| known.not_before = Some(now + asked));
    }

    /// How long the server wants not to be asked; zero for most.
    pub(crate) fn wait(&self, server: &Server, now: Instant) -> Duration {
        self.known(server, |known| {
            known.not_before.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
        })
    }

    /// Records that the server took no connection.
    pub(crate) fn unreachable(&self, server: &Server, now: Instant) {
        self.known(server, |known| {
            known.unreachable_since.get_or_insert(now);
        });
    }

    /// Records that the server answered, whatever it said.
    pub(crate) fn answered(&self, server: &Server) {
        self.known(server, |known| known.unreachable_since = None);
    }

    /// For how long the server has taken no connection, since the first attempt that failed.
    pub(crate) fn unreachable_for(&self, server: &Server, now: Instant) -> Option<Duration> {
        self.known(server, |known| {
            known.unreachable_since.map(|since| now.saturating_duration_since(since))
        })
    }

    /// Records how many bytes per second the server sent.
    pub(crate) fn measured(&self, server: &Server, rate: u64, now: Instant) {
        self.known(server, |known| known.rate = Some((rate, now)));
    }

    /// The bytes per second that it sent not long ago.
    pub(crate) fn rate(&self, server: &Server, now: Instant) -> Option<u64> {
        self.known(server, |known| {
            known
                .rate
                .filter(|(_, at)| now.saturating_duration_since(*at) < KEEP_RATE)
                .map(|(rate, _)| rate)
        })
    }

    /// When the server last sent as much as shows its speed.
    pub(crate) fn gave_at(&self, server: &Server) -> Option<Instant> {
        self.known(server, |known| known.rate.filter(|(rate, _)| *rate > 0).map(|(_, at)| at))
    }

    /// Records how the server spells names in listings.
    pub(crate) fn spells(&self, server: &Server, spelling: Spelling) {
        self.known(server, |known| known.spelling = Some(spelling));
    }

    /// How the server spells names in listings, if it was asked.
    pub(crate) fn spelling(&self, server: &Server) -> Option<Spelling> {
        self.known(server, |known| known.spelling)
    }

    /// Records whether the server failed, however often it was asked for a checksum.
    pub(crate) fn gives_checksums(&self, server: &Server, gives: bool) {
        self.known(server, |known| known.without_checksums = !gives);
    }

    /// Whether it is worth asking the server for a checksum more than once.
    pub(crate) fn may_give_checksums(&self, server: &Server) -> bool {
        self.known(server, |known| !known.without_checksums)
    }

    /// Records that the server sent other bytes of this object than another server, whose bytes
    /// were right.
    pub(crate) fn gave_wrong(&self, server: &Server, url: &Url) {
        self.known(server, |known| known.wrong.insert(url.to_string()));
    }

    /// Returns all servers that sent wrong bytes, sorted, each with the objects.
    pub(crate) fn wrong(&self) -> Vec<(String, Vec<String>)> {
        let known = self.lock();
        let wrong = known.iter().filter(|(_, known)| !known.wrong.is_empty());
        let mut wrong: Vec<_> = wrong
            .map(|(server, k)| (server.to_string(), k.wrong.iter().cloned().collect()))
            .collect();
        wrong.sort();
        wrong
    }

    fn known<T>(&self, server: &Server, look: impl FnOnce(&mut Known) -> T) -> T {
        look(self.lock().entry(server.clone()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Server, Known>> {
        // Only whole values are inserted, so a panic elsewhere leaves the map valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_is_known_by_itself() {
        let server = |url: &str| Server::split(url).unwrap().0;
        let (a, b) = (server("https://a"), server("https://b"));
        let (servers, now) = (Servers::default(), Instant::now());
        servers.cool_down(&a, now);
        servers.busy(&a, Duration::from_secs(60), now);
        servers.unreachable(&a, now);
        servers.measured(&a, 7, now);
        let later = |seconds| now + Duration::from_secs(seconds);
        assert!(servers.is_cooling(&a, later(59)) && !servers.is_cooling(&a, later(60)));
        assert!(!servers.is_cooling(&b, now));
        assert_eq!(servers.wait(&a, later(10)), Duration::from_secs(50));
        assert!(servers.wait(&a, later(60)).is_zero() && servers.wait(&b, now).is_zero());
        assert_eq!(servers.unreachable_for(&a, later(9)), Some(Duration::from_secs(9)));
        assert!(servers.unreachable_for(&b, now).is_none());
        assert_eq!((servers.rate(&a, now), servers.rate(&b, now)), (Some(7), None));
        assert_eq!(servers.rate(&a, later(600)), None);
        assert_eq!((servers.gave_at(&a), servers.gave_at(&b)), (Some(now), None));
        servers.measured(&b, 0, now);
        assert_eq!(servers.gave_at(&b), None);
        servers.answered(&a);
        assert!(servers.unreachable_for(&a, now).is_none());
    }

    #[test]
    fn servers_with_wrong_bytes_are_listed_with_their_objects() {
        let server = |url: &str| Server::split(url).unwrap().0;
        let url = |text: &str| Url::parse(text).unwrap();
        let servers = Servers::default();
        servers.answered(&server("https://a"));
        for (at, object) in [("https://c", "x"), ("https://b", "y"), ("https://b", "x")] {
            servers.gave_wrong(&server(at), &url(&format!("pelican://h/{object}")));
            servers.gave_wrong(&server(at), &url(&format!("pelican://h/{object}")));
        }
        let object = |name: &str| format!("pelican://h/{name}");
        let expected = [
            ("https://b".to_owned(), vec![object("x"), object("y")]),
            ("https://c".to_owned(), vec![object("x")]),
        ];
        assert_eq!(servers.wrong(), expected);
    }

    #[test]
    fn the_first_connection_that_failed_counts() {
        let server = Server::split("https://a").unwrap().0;
        let (servers, now) = (Servers::default(), Instant::now());
        let later = now + Duration::from_secs(20);
        servers.unreachable(&server, now);
        servers.unreachable(&server, later);
        assert_eq!(servers.unreachable_for(&server, later), Some(Duration::from_secs(20)));
    }
}
