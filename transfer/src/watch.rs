//! The progress of a transfer, and its end when it is cancelled.

use std::sync::atomic::{AtomicU64, Ordering};

use gular_files::{Progress, Watch};
use gular_pelican::Error;

/// Fails if the transfer should end.
pub(crate) fn check(watch: Watch<'_>) -> Result<(), Error> {
    if watch.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
}

/// The progress of all objects together. A failed attempt subtracts its bytes again.
pub(crate) struct Moved<'a> {
    progress: &'a Progress<'a>,
    done: AtomicU64,
    total: u64,
}

impl<'a> Moved<'a> {
    pub(crate) fn new(progress: &'a Progress<'a>, total: u64) -> Self {
        Self { progress, done: AtomicU64::new(0), total }
    }

    /// The progress of one object, as that of all. It goes back when the object begins again.
    pub(crate) fn of_one(&self) -> impl Fn(u64, u64) + Sync + '_ {
        let last = AtomicU64::new(0);
        move |done, _| {
            let before = last.swap(done, Ordering::Relaxed);
            let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            self.by(signed(done).saturating_sub(signed(before)));
        }
    }

    pub(crate) fn by(&self, n: i64) {
        let by = n.unsigned_abs();
        let now = match n >= 0 {
            true => self.done.fetch_add(by, Ordering::Relaxed).saturating_add(by),
            false => self.done.fetch_sub(by, Ordering::Relaxed).saturating_sub(by),
        };
        (self.progress)(now, self.total);
    }
}
