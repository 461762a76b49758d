//! Waits that hear Ctrl-C: Python's lock is given away, and its signals are looked at 20 times a
//! second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use gular_runtime::Error;
use pyo3::prelude::*;

use crate::error::{named, raise};

/// How often a wait looks at Python's signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// What `open` opens, in a thread of its own, as it may fetch for minutes; it is told when to end.
pub(crate) fn opened<T: Send + 'static>(
    py: Python<'_>,
    open: impl FnOnce(&AtomicBool) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let (send, made) = mpsc::channel();
    let made = Mutex::new(made);
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    thread::spawn(move || {
        // After Ctrl-C nobody waits for it any more.
        let _ = send.send(open(&flag));
    });
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
        if let Err(signal) = py.check_signals() {
            cancel.store(true, Ordering::Relaxed);
            return Err(signal);
        }
    }
}
