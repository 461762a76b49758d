//! When to try again: one policy for all temporary network errors.
//!
//! ```text
//! fails ─▶ wait up to `first` ─▶ fails ─▶ up to twice that ─▶ … up to 30 s
//! busy  ─▶ wait as long as the server asks (Retry-After), and up to a tenth of that
//! ```
//!
//! Each wait is drawn between nothing and its bound ("full jitter"): jobs that were started
//! together and failed together must not try again together. Waiting ends when the attempts are
//! used up, or there was no progress for as long as the caller has patience. All waits are
//! [`tokio::time::sleep`] inside `Client::block`, so that the cancel flag ends them at once.

use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, RandomState};
use std::time::{Duration, Instant, SystemTime};

/// The largest bound of a wait.
const LONGEST: Duration = Duration::from_secs(30);

/// A server may ask for no longer wait than this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// How often to ask, and how long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Number of all attempts.
    pub(crate) trials: u32,
    /// The bound of the first wait; each later one is twice the one before.
    pub(crate) first: Duration,
}

impl Policy {
    /// An object's servers, all of them in turn: as long as there is patience.
    pub(crate) const READ: Self = Self { trials: u32::MAX, first: Duration::from_secs(1) };
    /// The server that lists, when others can be asked instead.
    pub(crate) const LOOK: Self = Self { trials: 2, first: Duration::from_secs(1) };
    /// Uploading to one name, as long as there is no finished object of that name.
    pub(crate) const UPLOAD: Self = Self { trials: 4, first: Duration::from_secs(2) };
    /// A request to a server that is not part of a federation: its name may be mistyped.
    pub(crate) const EXCHANGE: Self = Self { trials: 4, first: Duration::from_secs(1) };
    /// The checksum of an object that was read. Caches are asked before the origin.
    pub(crate) const CHECKSUM: Self = Self { trials: 4, first: Duration::from_secs(1) };
    /// A director that is busy, or restarting, or behind a broken proxy. The Go client
    /// waits 3, 6, 9, 12 s.
    pub(crate) const DIRECTOR: Self = Self { trials: 5, first: Duration::from_secs(4) };
    /// A discovery host: the name may be mistyped, so that an answer is wanted soon.
    pub(crate) const DISCOVERY: Self = Self { trials: 3, first: Duration::from_secs(2) };
}

/// The attempts of one operation.
#[derive(Debug)]
pub(crate) struct Retry {
    policy: Policy,
    patience: Duration,
    begun: Instant,
    /// Time of the last progress.
    since: Instant,
    trials: u32,
    bound: Duration,
    seed: u64,
}

impl Retry {
    /// The first trial begins `now`; without progress, `patience` is what all may take. The random
    /// waits differ between clients: the keys of std's hash maps are from the system's random
    /// source, which is good enough for this.
    pub(crate) fn new(policy: Policy, patience: Duration, now: Instant) -> Self {
        Self {
            policy,
            patience,
            begun: now,
            since: now,
            trials: 1,
            bound: policy.first,
            seed: RandomState::new().hash_one(()),
        }
    }

    /// The same, with waits that only depend on `seed`.
    pub(crate) fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Something was got for good: the waits begin again, and patience, which is as long
    /// as `patience` from now on.
    pub(crate) fn progressed(&mut self, patience: Duration, now: Instant) {
        (self.since, self.patience, self.bound) = (now, patience, self.policy.first);
    }

    /// Something went forward then: patience begins again.
    pub(crate) fn moved(&mut self, at: Instant) {
        self.since = self.since.max(at);
    }

    /// A server asks for time: retries for at least that long.
    pub(crate) fn bear(&mut self, patience: Duration) {
        self.patience = self.patience.max(patience);
    }

    /// Returns how long to wait before a director is asked again that answered `status`. One that
    /// is starting says 429, for longer than `patience`, whatever the number of trials.
    pub(crate) fn of_director(
        &mut self,
        (status, asked): (u16, Option<Duration>),
        patience: Duration,
        now: Instant,
    ) -> Option<Duration> {
        if status == 429 {
            self.bear(patience.mul_f64(5.0 / 3.0));
            self.policy.trials = u32::MAX;
        }
        self.again(asked, now)
    }

    /// Returns how long to wait before the next attempt, after one that failed: `asked` and a little
    /// more if a server asked for a wait, which leaves the bound of other waits as it is. `None` if
    /// that was the last attempt.
    pub(crate) fn again(&mut self, asked: Option<Duration>, now: Instant) -> Option<Duration> {
        let spent = now.saturating_duration_since(self.since);
        let left = self.patience.checked_sub(spent).filter(|left| !left.is_zero())?;
        if self.trials >= self.policy.trials {
            return None;
        }
        let asked = asked.unwrap_or_default();
        let wait = match asked.is_zero() {
            true => self.draw(self.bound),
            false => asked.saturating_add(self.draw(asked / 10)),
        };
        self.trials = self.trials.saturating_add(1);
        if asked.is_zero() {
            self.bound = self.bound.saturating_mul(2).min(LONGEST);
        }
        // A last trial when patience ends, though the server wanted a longer wait.
        Some(wait.min(left))
    }

    /// The trials and the time so far, for an error.
    pub(crate) fn spent(&self, now: Instant) -> Spent {
        Spent { requests: self.trials, elapsed: self.elapsed(now) }
    }

    /// Time since the first attempt began.
    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    /// Returns a random time up to `bound`, which differs between clients.
    fn draw(&self, bound: Duration) -> Duration {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let random = hasher.hash_one((self.seed, self.trials));
        bound.mul_f64(random as f64 / u64::MAX as f64)
    }
}

/// The number of attempts, and their time, for error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) requests: u32,
    pub(crate) elapsed: Duration,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.requests == 1 { "" } else { "s" };
        write!(f, "{} request{s} in {:.0} s", self.requests, self.elapsed.as_secs_f64())
    }
}

/// The wait that a `Retry-After` asks for (RFC 9110, section 10.2.3), in seconds or as a
/// date, at most an hour. A date is relative to `date`, the server's clock, if the answer has it.
pub(crate) fn retry_after(value: &str, date: Option<&str>, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let asked = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = httpdate::parse_http_date(value).ok()?;
            let from = date.and_then(|date| httpdate::parse_http_date(date.trim()).ok());
            until.duration_since(from.unwrap_or(now)).unwrap_or_default()
        }
    };
    Some(asked.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy { trials: 6, first: Duration::from_secs(4) };

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn waits_stay_below_a_bound_that_doubles_up_to_half_a_minute() {
        for bounds in [[4, 8, 16, 30, 30]; 200] {
            let mut retry = Retry::new(POLICY, seconds(1000), Instant::now());
            let now = retry.begun;
            for bound in bounds {
                assert!(retry.again(None, now).unwrap() <= seconds(bound));
            }
            assert_eq!(retry.again(None, now), None, "six trials");
            assert_eq!(retry.spent(now).requests, 6);
        }
    }

    #[test]
    fn clients_that_fail_together_come_back_apart() {
        let n = 1000;
        let waits: Vec<Duration> = (0..n)
            .map(|_| {
                let mut retry = Retry::new(POLICY, seconds(1000), Instant::now());
                let now = retry.begun;
                retry.again(None, now).unwrap()
            })
            .collect();
        // About a quarter of the waits is in each second; the limits are far wider than chance
        // needs.
        for quarter in 0..4 {
            let here = waits.iter().filter(|wait| wait.as_secs() == quarter).count();
            assert!((n / 6..n / 3).contains(&here), "{here} in second {quarter}");
        }
        // The waits of one client also differ.
        let mut retry =
            Retry::new(Policy { trials: 100, first: LONGEST }, seconds(1000), Instant::now());
        let now = retry.begun;
        let mut own: Vec<_> = (0..50).filter_map(|_| retry.again(None, now)).collect();
        own.sort_unstable();
        own.dedup();
        assert!(own.len() > 45, "{own:?}");
    }

    #[test]
    fn a_server_is_not_asked_sooner_than_it_wants() {
        for _ in 0..100 {
            let mut retry = Retry::new(POLICY, seconds(1000), Instant::now());
            let now = retry.begun;
            let wait = retry.again(Some(seconds(60)), now).unwrap();
            assert!((seconds(60)..=seconds(66)).contains(&wait), "{wait:?}");
        }
    }

    #[test]
    fn waits_that_a_server_asks_for_do_not_grow() {
        let mut retry = Retry::new(Policy { trials: 100, ..POLICY }, seconds(1000), Instant::now());
        let now = retry.begun;
        for _ in 0..20 {
            assert!(retry.again(Some(seconds(1)), now).unwrap() <= Duration::from_millis(1100));
        }
        assert!(retry.again(None, now).unwrap() <= seconds(4));
    }

    #[test]
    fn patience_bounds_all_waits_and_progress_renews_it() {
        let mut retry = Retry::new(POLICY, seconds(10), Instant::now());
        let begun = retry.begun;
        let now = |n| begun + seconds(n);
        // The last attempt is made when patience ends.
        assert_eq!(retry.again(Some(seconds(60)), now(4)), Some(seconds(6)));
        assert_eq!(retry.again(None, now(10)), None);
        assert_eq!(retry.again(None, now(11)), None);
        retry.progressed(seconds(100), now(11));
        assert!(retry.again(None, now(12)).unwrap() <= seconds(4), "the waits begin again");
        assert_eq!(retry.again(Some(seconds(500)), now(12)), Some(seconds(99)));
        assert_eq!(retry.again(None, now(111)), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let check = |value: &str, date: Option<&str>, expected: Option<u64>| {
            assert_eq!(retry_after(value, date, now), expected.map(seconds), "{value}");
        };
        check("7", None, Some(7));
        check(" 0 ", None, Some(0));
        check("100000", None, Some(3600));
        check("Sun, 06 Nov 1994 08:50:07 GMT", None, Some(30));
        check("Sunday, 06-Nov-94 08:50:07 GMT", None, Some(30));
        // The server's clock is ten minutes fast, and ours is not used.
        check("Sun, 06 Nov 1994 09:00:07 GMT", Some("Sun, 06 Nov 1994 08:59:37 GMT"), Some(30));
        check("Sun, 06 Nov 1994 08:00:00 GMT", None, Some(0));
        check("Sat, 06 Nov 2094 08:00:00 GMT", None, Some(3600));
        for bad in ["", "-1", "soon", "1.5", "Sun, 06 Nov"] {
            check(bad, None, None);
        }
    }

    #[test]
    fn what_was_spent_is_told() {
        let spent = |requests| Spent { requests, elapsed: seconds(31) };
        assert_eq!(spent(5).to_string(), "5 requests in 31 s");
        assert_eq!(spent(1).to_string(), "1 request in 31 s");
    }
}
