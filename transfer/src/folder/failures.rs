//! Transfers several objects at a time; some of them may fail.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use gular_files::parallel;
use gular_pelican::Error as Pelican;

use crate::{Error, Watch};

/// After this many temporary failures in a row, no more objects are begun: each would wait for the
/// same cause, such as a dead network. Failures of a single object, such as a name that is taken,
/// do not count, since the next run would fail at the same objects first.
const MOST_IN_A_ROW: usize = 16;

/// An object of a folder that failed.
#[derive(Debug)]
pub struct Failed {
    /// Path of the object below the folder.
    pub name: String,
    /// Why it failed.
    pub error: Error,
}

/// The objects that failed, and how many were not begun.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) failed: Vec<Failed>,
    pub(super) not_tried: usize,
}

/// Processes `items`. If one fails, the others are still processed, unless all of them would fail.
///
/// # Errors
/// When it is cancelled.
pub(super) fn each<T: Sync>(
    items: &[T],
    jobs: usize,
    watch: Watch<'_>,
    name: impl Fn(&T) -> String + Sync,
    work: impl Fn(&T, &AtomicBool) -> Result<(), Error> + Sync,
) -> Result<Failures, Error> {
    let failed = Mutex::new(Vec::new());
    let (in_a_row, not_tried) = (AtomicUsize::new(0), AtomicUsize::new(0));
    parallel(items, jobs, watch.cancel, |item, stop| {
        if in_a_row.load(Ordering::Relaxed) >= MOST_IN_A_ROW {
            not_tried.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        match work(item, stop) {
            Ok(()) => in_a_row.store(0, Ordering::Relaxed),
            Err(error) if error.is_cancelled() => return Err(error),
            Err(error) => {
                let weight = if is_for_all(&error) {
                    MOST_IN_A_ROW
                } else {
                    usize::from(error.is_passing())
                };
                in_a_row.fetch_add(weight, Ordering::Relaxed);
                let failure = Failed { name: name(item), error };
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
            }
        }
        Ok(())
    })?;
    watch.check()?;
    let mut failed: Vec<Failed> = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Failures { failed, not_tried: not_tried.into_inner() })
}

/// Returns whether every other object would fail for the same reason.
fn is_for_all(error: &Error) -> bool {
    let of_disk = |source: &io::Error| {
        use ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        matches!(source.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
    };
    match error {
        Error::Io(error) => of_disk(&error.source),
        Error::NoSpace { .. } => true,
        Error::Pelican(error) => match error {
            Pelican::Io { source, .. } | Pelican::Sink { source, .. } => of_disk(source),
            Pelican::Discovery { .. } | Pelican::Token(_) | Pelican::Setting { .. } => true,
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(kind: ErrorKind) -> Error {
        Error::io("write", "x", kind.into())
    }

    fn passing() -> Error {
        let (url, director) = ("pelican://h/x".to_owned(), "https://h".to_owned());
        Pelican::NoOrigin { url, director, said: String::new() }.into()
    }

    /// Processes 100 items one after another, of which `fails` fail; returns how many failed, and
    /// how many were not tried.
    fn run(fails: impl Fn(usize) -> Option<Error> + Sync) -> (usize, usize) {
        let items: Vec<usize> = (0..100).collect();
        let (cancel, done) = (AtomicBool::new(false), AtomicUsize::new(0));
        let work = |item: &usize, _: &AtomicBool| match fails(*item) {
            Some(error) => Err(error),
            None => {
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        };
        let name = |item: &usize| format!("{item:03}");
        let failures = each(&items, 1, Watch::silent(&cancel), name, work).unwrap();
        let (failed, not_tried) = (failures.failed.len(), failures.not_tried);
        assert!(failures.failed.is_sorted_by_key(|failed| &failed.name));
        assert_eq!(done.into_inner() + failed + not_tried, 100);
        (failed, not_tried)
    }

    #[test]
    fn one_failure_leaves_the_others_alone() {
        assert_eq!(run(|_| None), (0, 0));
        assert_eq!(run(|i| (i % 2 == 0).then(passing)), (50, 0));
    }

    #[test]
    fn what_fails_of_single_objects_ends_nothing() {
        let denied = || io(ErrorKind::PermissionDenied);
        assert_eq!(run(|i| (i < 99).then(denied)), (99, 0));
        let occupied = || Error::Occupied { path: "x".into(), url: "file:///x".into() };
        assert_eq!(run(|_| Some(occupied())), (100, 0));
    }

    #[test]
    fn when_all_fail_no_more_are_begun() {
        assert_eq!(run(|_| Some(passing())), (16, 84));
        let full = |i| (i >= 10).then(|| io(ErrorKind::StorageFull));
        assert_eq!(run(full), (1, 89));
    }

    #[test]
    fn a_stop_is_not_a_failure() {
        let cancel = AtomicBool::new(false);
        let work = |_: &(), _: &AtomicBool| {
            cancel.store(true, Ordering::Relaxed);
            Err(Error::cancelled())
        };
        let stopped = each(&[(); 3], 1, Watch::silent(&cancel), |()| String::new(), work);
        assert!(stopped.unwrap_err().is_cancelled());
    }
}
