//! Work that takes long is done by a thread, and its caller waits.
//!
//! Rust code never calls a function of the user. Its thread asks, and the caller, in Python, calls
//! the function: so an exception, Ctrl-C, or the end of the interpreter meets only frames of Python.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use gular_runtime::{Error, Predicate, SampleFacts, Size, TellWaiting, Watch};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::error::{named, raise};
use crate::exit::detached;

/// How long a wait in Rust takes at most, so that Python can look at its signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

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

/// Number, key, label and digest of a sample.
type Facts = (u64, String, Option<i32>, Option<String>);

/// Samples about which the user's function is asked, and where the answers go.
pub(crate) struct Question {
    samples: Vec<Facts>,
    answers: Sender<Vec<bool>>,
}

pub(crate) enum Event<T> {
    Made(Result<T, Error>),
    Asked(Question),
}

/// Something that a thread makes. Dropped, it tells the thread to end.
struct Work<T> {
    events: Mutex<Receiver<Event<T>>>,
    waits: Waits,
    cancel: Arc<AtomicBool>,
}

impl<T: Send + 'static> Work<T> {
    /// Starts a thread for `make`, which gets callbacks for what it waits for, a flag that tells it
    /// to end, and the sender of its questions.
    fn start(
        waits: &Waits,
        make: impl FnOnce(Watch<'_>, &Sender<Event<T>>) -> Result<T, Error> + Send + 'static,
    ) -> Self {
        let (send, events) = mpsc::channel();
        let (waits, cancel) = (waits.clone(), Arc::new(AtomicBool::new(false)));
        let work = Self { events: Mutex::new(events), waits, cancel };
        let (waits, cancel) = (work.waits.clone(), Arc::clone(&work.cancel));
        thread::spawn(move || {
            let progress = |done, all| {
                waits.say(Some(format!("fetched {} of {}", Size(done), Size(all))));
            };
            let waiting = |dir: &Path| {
                let dir = dir.display();
                waits.say(Some(format!("waiting for another process that writes to `{dir}`")));
            };
            let watch = Watch { progress: &progress, waiting: &waiting, cancel: &cancel };
            // After Ctrl-C nobody waits for the thread any more.
            let _ = send.send(Event::Made(make(watch, &send)));
        });
        work
    }

    /// Waits a moment for what happens next; `None` if nothing did.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Event<T>>> {
        let wait = || self.events.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK);
        match detached(py, wait) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let hint = Some("please report this as a bug");
                Err(named(py, "Error", "opening the bundle panicked", hint, None))
            }
        }
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

/// Does `work` in a separate thread, since it may fetch for minutes, and waits for it. Ctrl-C ends
/// it.
pub(crate) fn done<T: Send + 'static>(
    py: Python<'_>,
    waits: &Waits,
    work: impl FnOnce(Watch<'_>) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let work = Work::start(waits, move |watch, _| work(watch));
    loop {
        if let Some(Event::Made(made)) = work.next(py)? {
            return made.map_err(|error| raise(py, &error));
        }
        py.check_signals()?;
    }
}

/// What makes an object of Python, once the thread's part is done.
pub(crate) type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// Asks the user's function which samples are used.
pub(crate) fn asking(events: &Sender<Event<Finish>>) -> Predicate {
    let events = events.clone();
    Predicate::of_many(move |samples| {
        let (answers, answered) = mpsc::channel();
        let facts = |sample: &SampleFacts<'_>| {
            let digest = sample.digest.map(|digest| digest.to_string());
            (sample.number, sample.key.to_owned(), sample.label, digest)
        };
        let samples = samples.iter().map(facts).collect();
        let asked = Event::Asked(Question { samples, answers });
        events.send(asked).ok()?;
        answered.recv().ok()
    })
}

/// Something that is being made, which `gular.waiting.made` waits for.
#[pyclass(frozen, module = "gular._gular")]
pub(crate) struct Making {
    /// `None` after the end.
    work: Mutex<Option<Arc<Work<Finish>>>>,
    /// Where the answers to the last question go.
    answers: Mutex<Option<Sender<Vec<bool>>>>,
}

impl Making {
    pub(crate) fn start(
        make: impl FnOnce(Watch<'_>, &Sender<Event<Finish>>) -> Result<Finish, Error> + Send + 'static,
    ) -> Self {
        let work = Arc::new(Work::start(&Waits::default(), make));
        Self { work: Mutex::new(Some(work)), answers: Mutex::default() }
    }
}

#[pymethods]
impl Making {
    /// Waits a moment. Returns what was made as a tuple of one; a list of samples that are asked
    /// about; or a line of what is waited for, if that is known.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(work) = work else { return Ok(None) };
        match work.next(py)? {
            Some(Event::Made(made)) => {
                let made = made.map_err(|error| raise(py, &error))?(py)?;
                Ok(Some(PyTuple::new(py, [made])?.into_any()))
            }
            Some(Event::Asked(Question { samples, answers })) => {
                *self.answers.lock().unwrap_or_else(PoisonError::into_inner) = Some(answers);
                Ok(Some(PyList::new(py, samples)?.into_any()))
            }
            None => {
                let line = work.waits.now().map(|line| gular_runtime::mask(&line).into_owned());
                let line = line.map(|line| line.into_pyobject(py));
                Ok(line.transpose()?.map(Bound::into_any))
            }
        }
    }

    /// Answers the question that `wait` returned.
    fn answer(&self, answers: Vec<bool>) {
        let asked = self.answers.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The thread may have ended.
        let _ = asked.map(|asked| asked.send(answers));
    }

    /// Tells the thread to end. Nothing is asked any more.
    fn end(&self) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.answers.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
