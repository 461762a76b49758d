//! Threads of Python that are in Rust code while the interpreter ends.
//!
//! Before version 3.14, CPython ends such a thread where it asks for Python's lock again, by unwinding
//! its stack, which Rust code does not survive. So from the interpreter's exit handlers on, a thread
//! other than that of the handlers does not ask any more, and sleeps until the process ends.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Whether exit handlers have run.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// The thread that ran them, which continues.
static ENDED_BY: Mutex<Option<ThreadId>> = Mutex::new(None);

/// Threads that are asking for Python's lock.
static ASKING: AtomicUsize = AtomicUsize::new(0);

/// The longest time that the exit waits for those. A forked process has the count of its parent,
/// without the threads.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does `work` without Python's lock.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let made = py.detach(|| {
        let made = work();
        ask();
        made
    });
    ASKING.fetch_sub(1, Ordering::SeqCst);
    made
}

fn ask() {
    ASKING.fetch_add(1, Ordering::SeqCst);
    if HAS_ENDED.load(Ordering::SeqCst) {
        let ended_by = *ENDED_BY.lock().unwrap_or_else(PoisonError::into_inner);
        if ended_by != Some(thread::current().id()) {
            ASKING.fetch_sub(1, Ordering::SeqCst);
            loop {
                thread::park();
            }
        }
    }
}

/// The package's exit handler: waits until no thread is asking for the lock, and keeps others from
/// it.
#[pyfunction]
pub(crate) fn at_exit(py: Python<'_>) {
    *ENDED_BY.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current().id());
    HAS_ENDED.store(true, Ordering::SeqCst);
    let since = Instant::now();
    while ASKING.load(Ordering::SeqCst) > 0 && since.elapsed() < PATIENCE {
        py.detach(|| thread::sleep(Duration::from_millis(1)));
    }
}
