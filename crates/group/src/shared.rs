//! The state that the watching thread and the computing threads share.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;

/// Is called once, when the training run has failed.
pub(super) type Callback = Box<dyn FnOnce(&Error) + Send>;

#[derive(Default)]
struct State {
    failure: Option<Error>,
    /// Errors that the watching thread has to send or to judge.
    reports: Vec<Error>,
    /// Sockets that wake whoever waits in them when they are shut down.
    sockets: Vec<TcpStream>,
    callbacks: Vec<Callback>,
    leaving: bool,
    parted: bool,
    told: bool,
}

pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Number of operations that were begun.
    begun: AtomicU64,
    waker: Option<UnixStream>,
}

impl Shared {
    /// `waker` is what the watching thread reads from; none without such a thread.
    pub(super) fn new(waker: Option<UnixStream>) -> Self {
        let state = Mutex::default();
        Self { state, changed: Condvar::new(), begun: AtomicU64::new(0), waker }
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.failure().map_or(Ok(()), Err)
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds sockets that are shut down by a failure.
    pub(super) fn guard(&self, sockets: Vec<TcpStream>) {
        let mut state = self.lock();
        if state.failure.is_some() {
            shut(&sockets);
        }
        state.sockets.extend(sockets);
    }

    /// Registers `callback`, or calls it when the failure is there already.
    pub(super) fn on_failure(&self, callback: Callback) {
        let mut state = self.lock();
        match state.failure.clone() {
            None => state.callbacks.push(callback),
            Some(failure) => {
                drop(state);
                callback(&failure);
            }
        }
    }

    /// Makes `error` the failure, unless there is one; who calls this calls
    /// the callbacks it gives, outside of all locks.
    #[must_use]
    pub(super) fn settle(&self, error: Error) -> Vec<Callback> {
        let mut state = self.lock();
        if state.failure.is_none() {
            state.failure = Some(error);
            shut(&state.sockets);
        }
        self.changed.notify_all();
        std::mem::take(&mut state.callbacks)
    }

    /// Has the watching thread decide what ended the training; gives what it was.
    pub(super) fn report(&self, error: Error, patience: Duration) -> Error {
        let mut state = self.lock();
        if state.failure.is_none() {
            state.reports.push(error.clone());
            self.wake();
        }
        state = self.wait(state, patience, |state| state.failure.is_none());
        if let Some(failure) = state.failure.clone() {
            return failure;
        }
        drop(state);
        // Rank 0 says nothing in time: its machine may be gone.
        for callback in self.settle(error.clone()) {
            callback(&error);
        }
        self.wake();
        self.failure().unwrap_or(error)
    }

    /// Waits until all others were told of the failure, as far as they can be reached.
    pub(super) fn wait_told(&self, patience: Duration) {
        drop(self.wait(self.lock(), patience, |state| !state.told));
    }

    /// Says goodbye, and waits for the others to do so; whether they did in time.
    pub(super) fn leave(&self, patience: Duration) -> Result<bool, Error> {
        let mut state = self.lock();
        state.leaving = true;
        self.wake();
        state = self.wait(state, patience, |state| state.failure.is_none() && !state.parted);
        state.failure.clone().map_or(Ok(state.parted), Err)
    }

    /// Returns what the watching thread has been asked to do.
    pub(super) fn orders(&self) -> (Vec<Error>, bool, Option<Error>) {
        let mut state = self.lock();
        (std::mem::take(&mut state.reports), state.leaving, state.failure.clone())
    }

    pub(super) fn set_told(&self) {
        self.lock().told = true;
        self.changed.notify_all();
    }

    pub(super) fn set_parted(&self) {
        self.lock().parted = true;
        self.changed.notify_all();
    }

    fn wake(&self) {
        // If the pipe is full, it wakes the thread as well as one more byte would.
        if let Some(mut waker) = self.waker.as_ref() {
            let _ = waker.write(&[0]);
        }
    }

    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        patience: Duration,
        go_on: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let begun = Instant::now();
        while go_on(&state) {
            let Some(left) = patience.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
            else {
                break;
            };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is valid after each line, so a panic elsewhere does not matter.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shut(sockets: &[TcpStream]) {
    for socket in sockets {
        // This fails if the other side has closed already.
        let _ = socket.shutdown(Shutdown::Both);
    }
}
