//! Waits that can be interrupted by Ctrl-C and report what they wait for: Python's lock is
//! released, and its signals are checked 20 times a second.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gular_runtime::{Error, Size, TellWaiting, Watch};
use pyo3::prelude::*;

use crate::error::{named, raise};

/// How often a wait checks Python's signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Time between two lines that a user is shown.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// What is waited for, in words, which any thread can set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits(Arc<Mutex<Option<String>>>);

impl Waits {
    fn say(&self, what: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    pub(crate) fn now(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the callback for what a loader waits for while its shards are fetched on demand.
    pub(crate) fn teller(&self) -> TellWaiting {
        let waits = self.clone();
        TellWaiting::new(move |what| waits.say(what.map(|what| format!("waiting for {what}"))))
    }
}

/// Calls a function of the user with each new line, but not too often.
pub(crate) struct Lines<'py> {
    waits: Waits,
    tell: Option<&'py Py<PyAny>>,
    last: Option<String>,
    next: Instant,
}

impl<'py> Lines<'py> {
    pub(crate) fn new(waits: &Waits, tell: Option<&'py Py<PyAny>>) -> Self {
        // Short waits do not need a line.
        let next = Instant::now() + BETWEEN_LINES;
        Self { waits: waits.clone(), tell, last: None, next }
    }

    /// Checks Python's signals, and reports what is new.
    pub(crate) fn look(&mut self, py: Python<'_>) -> PyResult<()> {
        py.check_signals()?;
        let Some(tell) = self.tell.filter(|_| Instant::now() >= self.next) else { return Ok(()) };
        let line = self.waits.now();
        if line.is_some() && line != self.last {
            tell.call1(py, (line.as_deref().map(gular_runtime::mask),))?;
            (self.last, self.next) = (line, Instant::now() + BETWEEN_LINES);
        }
        Ok(())
    }
}

/// Runs `open` in a separate thread, since it may fetch for minutes. It gets a callback for what it
/// waits for, and a flag that tells it to end.
pub(crate) fn opened<T: Send + 'static>(
    py: Python<'_>,
    waits: &Waits,
    tell: Option<&Py<PyAny>>,
    open: impl FnOnce(Watch<'_>) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let (send, made) = mpsc::channel();
    let made = Mutex::new(made);
    let cancel = Arc::new(AtomicBool::new(false));
    thread::spawn({
        let (cancel, waits) = (Arc::clone(&cancel), waits.clone());
        move || {
            let progress = |done, all| {
                waits.say(Some(format!("fetched {} of {}", Size(done), Size(all))));
            };
            let waiting = |dir: &Path| {
                let dir = dir.display();
                waits.say(Some(format!("waiting for another process that writes to `{dir}`")));
            };
            // After Ctrl-C nobody waits for the thread any more.
            let _ =
                send.send(open(Watch { progress: &progress, waiting: &waiting, cancel: &cancel }));
        }
    });
    let mut lines = Lines::new(waits, tell);
    loop {
        let wait = || made.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK);
        match py.detach(wait) {
            Ok(made) => return made.map_err(|error| raise(py, &error)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let hint = Some("please report this as a bug");
                return Err(named(py, "Error", "opening the bundle panicked", hint, None));
            }
        }
        if let Err(signal) = lines.look(py) {
            cancel.store(true, Ordering::Relaxed);
            return Err(signal);
        }
    }
}
