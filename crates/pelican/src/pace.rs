//! Transfer rates: the upper limit that the user sets, and the lower limit for a server. Each is
//! shared by all current transfers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// The pace of all transfers of a client.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The limit in bytes per second, if one is set.
    limit: Option<u64>,
    /// Time until which the bytes so far use up the limit.
    paid_until: Mutex<Instant>,
    streams: AtomicU64,
}

/// A body that is being received.
pub(crate) struct Stream<'a>(&'a Pace);

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pace {
    /// A pace of at most `limit` bytes per second in all, if there is a limit.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        let paid_until = Mutex::new(Instant::now());
        Self { limit, paid_until, streams: AtomicU64::new(0) }
    }

    /// Waits until `bytes` more are allowed.
    pub(crate) async fn wait(&self, bytes: u64) {
        let Some(limit) = self.limit else { return };
        let due = self.due(bytes, limit, Instant::now());
        if !due.is_zero() {
            sleep(due).await;
        }
    }

    /// Pays for `bytes`; returns how long whoever moved them has to wait.
    fn due(&self, bytes: u64, limit: u64, now: Instant) -> Duration {
        let cost = Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64);
        let mut paid_until = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        // Unused time is lost, so that there is no burst after a pause.
        *paid_until = (*paid_until).max(now) + cost;
        paid_until.saturating_duration_since(now)
    }

    /// Counts one more body that is being received, until the returned value is dropped.
    pub(crate) fn stream(&self) -> Stream<'_> {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Stream(self)
    }

    /// The share of one stream in `rate` bytes per second.
    pub(crate) fn share(&self, rate: u64) -> u64 {
        rate / self.streams.load(Ordering::Relaxed).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_the_least_rate() {
        let pace = Pace::new(None);
        assert_eq!(pace.share(100), 100);
        let (_one, two) = (pace.stream(), pace.stream());
        assert_eq!(pace.share(100), 50);
        drop(two);
        assert_eq!(pace.share(100), 100);
    }

    #[test]
    fn all_streams_pay_into_one_limit() {
        let pace = Pace::new(Some(1000));
        let now = Instant::now() + Duration::from_secs(1);
        assert_eq!(pace.due(500, 1000, now), Duration::from_millis(500));
        assert_eq!(pace.due(500, 1000, now), Duration::from_secs(1));
        // The time of a pause cannot be made up for later.
        let later = now + Duration::from_secs(10);
        assert_eq!(pace.due(100, 1000, later), Duration::from_millis(100));
    }
}
