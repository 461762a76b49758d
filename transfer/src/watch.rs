//! How a caller follows and cancels a transfer.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gular_pelican::Error;

/// A callback that gets the bytes done and the bytes in all, from any thread.
pub type Progress<'a> = dyn Fn(u64, u64) + Sync + 'a;

/// A callback that gets the folder for whose lock the transfer waits.
pub type Waiting<'a> = dyn Fn(&Path) + Sync + 'a;

/// Follows a transfer, and can cancel it.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Is called with the progress.
    pub progress: &'a Progress<'a>,
    /// Is called once per folder that another process has been writing to for
    /// [`gular_files::SAY_AFTER`], while this one waits for it.
    pub waiting: &'a Waiting<'a>,
    /// Once set, the transfer ends as soon as it can.
    pub cancel: &'a AtomicBool,
}

impl<'a> Watch<'a> {
    /// A watch that reports nothing and never cancels.
    #[must_use]
    pub fn silent(cancel: &'a AtomicBool) -> Self {
        Self { progress: &|_, _| (), waiting: &|_| (), cancel }
    }

    pub(crate) fn check(self) -> Result<(), Error> {
        match self.cancelled() {
            true => Err(Error::Cancelled),
            false => Ok(()),
        }
    }

    pub(crate) fn cancelled(self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
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

    pub(crate) fn by(&self, n: i64) {
        let by = n.unsigned_abs();
        let now = match n >= 0 {
            true => self.done.fetch_add(by, Ordering::Relaxed).saturating_add(by),
            false => self.done.fetch_sub(by, Ordering::Relaxed).saturating_sub(by),
        };
        (self.progress)(now, self.total);
    }
}
