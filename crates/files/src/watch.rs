//! How a caller follows and cancels work on files.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A callback that gets the bytes done and the bytes in all, from any thread.
pub type Progress<'a> = dyn Fn(u64, u64) + Sync + 'a;

/// A callback that gets the folder for which the work waits, since another process writes to it.
pub type Waiting<'a> = dyn Fn(&Path) + Sync + 'a;

/// Follows work, and can cancel it. Whatever can be cancelled takes one, also if it has no progress
/// to report.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Is called with the progress.
    pub progress: &'a Progress<'a>,
    /// Is called once per folder that another process has been writing to for some time
    /// ([`SAY_AFTER`](crate::SAY_AFTER) in most cases), while this one waits for it.
    pub waiting: &'a Waiting<'a>,
    /// Once set, the work ends as soon as it can.
    pub cancel: &'a AtomicBool,
}

impl<'a> Watch<'a> {
    /// A watch that reports nothing.
    #[must_use]
    pub fn silent(cancel: &'a AtomicBool) -> Self {
        Self { progress: &|_, _| (), waiting: &|_| (), cancel }
    }

    /// A watch that reports nothing and never cancels.
    #[must_use]
    pub fn never() -> Watch<'static> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Watch::silent(&NEVER)
    }

    /// The same watch for a part of the work, which ends once `cancel` is set.
    #[must_use]
    pub fn until(self, cancel: &'a AtomicBool) -> Self {
        Self { cancel, ..self }
    }

    /// Whether the work should end.
    #[must_use]
    pub fn is_cancelled(self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}
