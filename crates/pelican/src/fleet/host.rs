//! A simulated server, which gives each of its answers an equal share of its bytes per second.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::http::Server;

/// Who gets an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    /// A lane, for its request of that number.
    Lane(usize, u64),
    /// The cache of that number, which wants this object.
    Cache(usize, usize),
}

/// An answer that is being sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostAnswer {
    pub(super) receiver: Receiver,
    pub(super) len_bytes: u64,
    pub(super) begun: Duration,
    /// The server's `share` when it began.
    from: f64,
}

/// A cache's copy of an object.
#[derive(Debug)]
pub(super) enum HostCopy {
    /// On its way from the origin; the lanes that wait for it, with the numbers of their requests.
    Coming(Vec<(usize, u64)>),
    Whole,
}

/// A server.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) server: Server,
    pub(super) is_dead: bool,
    pub(super) lies: bool,
    /// Connections that it has taken.
    pub(super) n_open: usize,
    /// The copies of objects by their numbers; an origin needs none.
    pub(super) copies: HashMap<usize, HostCopy>,
    bytes_per_second: f64,
    /// The bytes that one answer has got if it was there from the beginning.
    share: f64,
    /// When `share` was computed.
    at: Duration,
    /// By the `share` at which each ends; the second number tells those that end together apart.
    answers: BTreeMap<(u64, u64), HostAnswer>,
    n_answers: u64,
}

impl Host {
    pub(super) fn new(server: Server, bytes_per_second: u64, lies: bool) -> Self {
        Self {
            server,
            is_dead: false,
            lies,
            n_open: 0,
            copies: HashMap::new(),
            bytes_per_second: bytes_per_second as f64,
            share: 0.0,
            at: Duration::ZERO,
            answers: BTreeMap::new(),
            n_answers: 0,
        }
    }

    /// Begins an answer of so many bytes.
    pub(super) fn begin(&mut self, receiver: Receiver, len_bytes: u64, now: Duration) {
        self.advance(now);
        let end = (self.share + len_bytes as f64).ceil() as u64;
        self.n_answers += 1;
        let answer = HostAnswer { receiver, len_bytes, begun: now, from: self.share };
        self.answers.insert((end, self.n_answers), answer);
    }

    /// When the next answer ends, if nothing else begins or ends before.
    pub(super) fn next_end(&self) -> Option<Duration> {
        let ((end, _), _) = self.answers.first_key_value()?;
        let left = (*end as f64 - self.share).max(0.0) * self.answers.len() as f64;
        // A nanosecond more, so that rounding never leaves a part of a byte.
        let left = Duration::from_secs_f64(left / self.bytes_per_second);
        Some(self.at + left + Duration::from_nanos(1))
    }

    /// Takes the answers that have ended.
    pub(super) fn ended(&mut self, now: Duration) -> Vec<HostAnswer> {
        self.advance(now);
        let mut ended = Vec::new();
        while let Some(first) = self.answers.first_entry()
            && first.key().0 as f64 <= self.share
        {
            ended.push(first.remove());
        }
        ended
    }

    /// Ends all answers at once; returns them, each with the bytes that were sent.
    pub(super) fn die(&mut self, now: Duration) -> Vec<(HostAnswer, u64)> {
        self.advance(now);
        self.is_dead = true;
        let share = self.share;
        let answers = std::mem::take(&mut self.answers).into_values();
        answers.map(|answer| (answer, (share - answer.from) as u64)).collect()
    }

    fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        if !self.answers.is_empty() {
            self.share += passed * self.bytes_per_second / self.answers.len() as f64;
        }
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_the_rate_of_their_server() {
        let server = Server::split("https://a").unwrap().0;
        let mut host = Host::new(server, 100, false);
        let seconds = Duration::from_secs_f64;
        let near = |found: Duration, expected: f64| {
            assert!((found.as_secs_f64() - expected).abs() < 1e-6, "{found:?}");
        };
        host.begin(Receiver::Lane(0, 0), 100, seconds(0.0));
        near(host.next_end().unwrap(), 1.0);
        host.begin(Receiver::Lane(1, 0), 100, seconds(0.5));
        near(host.next_end().unwrap(), 1.5);
        let ended = host.ended(host.next_end().unwrap());
        assert_eq!(ended.iter().map(|a| a.receiver).collect::<Vec<_>>(), [Receiver::Lane(0, 0)]);
        near(host.next_end().unwrap(), 2.0);
        let cut = host.die(seconds(1.75));
        assert_eq!((cut.len(), cut[0].1), (1, 74));
    }
}
