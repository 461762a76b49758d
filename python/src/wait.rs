//! Waits that hear Ctrl-C and say what they wait for: Python's lock is given away, and its
//! signals are looked at 20 times a second.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gular_runtime::{Error, Size, TellWaiting, Watch};
use pyo3::prelude::*;

use crate::error::{named, raise};

/// How often a wait looks at Python's signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Between two lines that a user is told.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// What is waited for, in words, said by any thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits(Arc<Mutex<Option<String>>>);

impl Waits {
    fn say(&self, what: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    pub(crate) fn now(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes what a loader waits for whose shards come as they are needed.
    pub(crate) fn teller(&self) -> TellWaiting {
        let waits = self.clone();
        TellWaiting::new(move |what| waits.say(what.map(|what| format!("waiting for {what}"))))
    }
}

/// Calls a function of the user's with each new line, and not too often.
pub(crate) struct Lines<'py> {
    waits: Waits,
    tell: Option<&'py Py<PyAny>>,
    last: Option<String>,
    next: Instant,
}

impl<'py> Lines<'py> {
    pub(crate) fn new(waits: &Waits, tell: Option<&'py Py<PyAny>>) -> Self {
        // Short waits are not worth a line.
        let next = Instant::now() + BETWEEN_LINES;
        Self { waits: waits.clone(), tell, last: None, next }
    }

    /// Looks at Python's signals, and tells what is new.
    pub(crate) fn look(&mut self, py: Python<'_>) -> PyResult<()> {
        py.check_signals()?;
        let Some(tell) = self.tell.filter(|_| Instant::now() >= self.next) else { return Ok(()) };
        let line = self.waits.now();
        if line.is_some() && line != self.last {
            tell.call1(py, (&line,))?;
            (self.last, self.next) = (line, Instant::now() + BETWEEN_LINES);
        }
        Ok(())
    }
}

/// What `open` opens, in a thread of its own, as it may fetch for minutes: it is given what to
/// tell of that, and is told when to end.
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
            // After Ctrl-C nobody waits for it any more.
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
