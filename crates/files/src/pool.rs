//! One pool of worker threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Pause between checks of the caller's flag while jobs run.
const LOOK: Duration = Duration::from_millis(10);

/// Runs `jobs` in order, at most `at_once` at the same time. Each job gets a flag, which is set
/// when the caller sets `cancel` or another job fails; then no more jobs are started.
///
/// # Errors
/// The error of the first job that fails; the others have ended by then. A caller that cancels
/// checks its own flag: jobs that were not begun are not an error.
pub fn parallel<T: Sync, E: Send>(
    jobs: &[T],
    at_once: usize,
    cancel: &AtomicBool,
    work: impl Fn(&T, &AtomicBool) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let stop = AtomicBool::new(cancel.load(Ordering::Relaxed));
    let failed = Mutex::new(None);
    let next = AtomicUsize::new(0);
    let running = Running::default();
    let worker = || {
        // The worker is counted out when this is dropped, so that nobody waits for it after a
        // panic.
        let _done = Done(&running);
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if cancel.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) {
                break;
            }
            if let Err(error) = work(job, &stop) {
                stop.store(true, Ordering::Relaxed);
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_once.clamp(1, jobs.len().max(1)) {
            running.add();
            if std::thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                running.remove();
                break;
            }
        }
        if running.n() == 0 && next.load(Ordering::Relaxed) == 0 {
            // A system that gives no thread at all: one after another, here.
            running.add();
            worker();
        }
        while running.wait() {
            if cancel.load(Ordering::Relaxed) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// The number of workers that run.
#[derive(Default)]
struct Running {
    n: Mutex<usize>,
    none: Condvar,
}

impl Running {
    fn n(&self) -> usize {
        *self.n.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self) {
        *self.n.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn remove(&self) {
        let mut n = self.n.lock().unwrap_or_else(PoisonError::into_inner);
        *n -= 1;
        if *n == 0 {
            self.none.notify_all();
        }
    }

    /// Waits until there is none, or for a moment; whether there are any.
    fn wait(&self) -> bool {
        let n = self.n.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.none.wait_timeout_while(n, LOOK, |n| *n > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 > 0
    }
}

/// Counts a worker out when it is dropped.
struct Done<'a>(&'a Running);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_once_and_no_more_than_so_many_at_a_time() {
        let jobs: Vec<usize> = (0..50).collect();
        let done = Mutex::new(Vec::new());
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let result: Result<(), ()> = parallel(&jobs, 3, &AtomicBool::new(false), |job, _| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
            now.fetch_sub(1, Ordering::SeqCst);
            done.lock().unwrap().push(*job);
            Ok(())
        });
        result.unwrap();
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert_eq!(done, jobs);
        assert!(most.into_inner() <= 3);
    }

    #[test]
    fn the_first_failure_stops_the_others() {
        let jobs: Vec<usize> = (0..1000).collect();
        let begun = AtomicUsize::new(0);
        let result = parallel(&jobs, 2, &AtomicBool::new(false), |job, stop| {
            begun.fetch_add(1, Ordering::SeqCst);
            if *job == 3 {
                return Err("three");
            }
            while *job > 3 && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        assert_eq!(result, Err("three"));
        assert!(begun.into_inner() <= 5);
        assert_eq!(parallel(&[(); 0], 4, &AtomicBool::new(false), |(), _| Err(1)), Ok(()));
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_job_that_panics_is_not_waited_for() {
        let _ = parallel(&[1, 2], 2, &AtomicBool::new(false), |job, _| {
            assert_ne!(*job, 1, "on purpose");
            Ok::<(), ()>(())
        });
    }

    #[test]
    fn cancelling_reaches_the_jobs() {
        let cancel = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                cancel.store(true, Ordering::Relaxed);
            });
            parallel(&[1, 2], 2, &cancel, |_, stop| {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err("stopped")
            })
        });
        assert_eq!(result, Err("stopped"));
    }
}
