//! Transfers several objects at a time; some of them may fail.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use gular_files::parallel;
use gular_pelican::Reach;
use gular_pelican::protocol::encode_path;

use crate::watch::check;
use crate::{Error, Watch};

/// After this many temporary failures in a row, no more objects are begun: each would wait for the
/// same cause, such as a dead network. Failures of a single object, such as a name that is taken,
/// do not count, since the next run would fail at the same objects first.
const MOST_IN_A_ROW: usize = 16;

/// After this many refusals, no more objects are begun, if no object has succeeded. Later, refusals
/// do not count, since some objects are allowed, and the next run would meet the same refusals first.
const MOST_REFUSED: usize = 3;

/// An object of a folder that failed.
#[derive(Debug)]
pub struct Failed {
    /// Path of the object below the folder.
    pub name: String,
    /// Why it failed.
    pub error: Error,
}

impl Failed {
    /// Returns the reason without the object's name: objects with the same cause need only one
    /// message. `None` if the reason is of this object alone.
    #[must_use]
    pub fn cause(&self) -> Option<String> {
        if self.error.reach() == Reach::One && !self.error.is_passing() {
            return None;
        }
        let said = match &self.error {
            // The numbers of requests and seconds differ.
            Error::Pelican(gular_pelican::Error::Failed { attempts, .. }) => attempts.to_string(),
            error => error.to_string(),
        };
        let names = [encode_path(&self.name), self.name.clone()];
        Some(names.iter().fold(said, |said, name| said.replace(&format!("/{name}"), "/…")))
    }
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
    work: impl Fn(&T, Watch<'_>) -> Result<(), Error> + Sync,
) -> Result<Failures, Error> {
    let failed = Mutex::new(Vec::new());
    let (in_a_row, not_tried) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let has_succeeded = AtomicBool::new(false);
    parallel(&spread(items), jobs, watch.cancel, |item, stop| {
        if in_a_row.load(Ordering::Relaxed) >= MOST_IN_A_ROW {
            not_tried.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        match work(item, watch.until(stop)) {
            Ok(()) => {
                has_succeeded.store(true, Ordering::Relaxed);
                in_a_row.store(0, Ordering::Relaxed);
            }
            Err(error) if error.is_cancelled() => return Err(error),
            Err(error) => {
                let weight = match error.reach() {
                    Reach::All => MOST_IN_A_ROW,
                    Reach::Refused if !has_succeeded.load(Ordering::Relaxed) => {
                        MOST_IN_A_ROW.div_ceil(MOST_REFUSED)
                    }
                    Reach::Refused => 0,
                    Reach::One => usize::from(error.is_passing()),
                };
                in_a_row.fetch_add(weight, Ordering::Relaxed);
                let failure = Failed { name: name(item), error };
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
            }
        }
        Ok(())
    })?;
    check(watch)?;
    let mut failed: Vec<Failed> = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Failures { failed, not_tried: not_tried.into_inner() })
}

/// The items in their order, but with the last and the middle one after the first: what is refused
/// at the beginning of a folder need not be refused in all of it.
fn spread<T>(items: &[T]) -> Vec<&T> {
    let mut spread: Vec<&T> = items.iter().collect();
    let (last, middle) = (items.len().saturating_sub(1), items.len() / 2);
    if let Some(first) = spread.get_mut(1..)
        && items.len() > MOST_REFUSED
    {
        first.swap(0, last - 1);
        first.swap(1, middle - 1);
    }
    spread
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use gular_pelican::Error as Pelican;

    use super::*;

    fn io(kind: ErrorKind) -> Error {
        Error::io("write", "x", kind.into())
    }

    fn passing() -> Error {
        let (url, director) = ("pelican://h/x".to_owned(), "https://h".to_owned());
        Pelican::NoOrigin { url, director, said: String::new() }.into()
    }

    fn refused(name: &str) -> Error {
        let (url, reason) = (format!("pelican://h/{name}"), "`https://h` answers 405".to_owned());
        Pelican::Unsupported { action: "write", url, reason }.into()
    }

    /// Processes 100 items one after another, of which `fails` fail; returns how many failed, and
    /// how many were not tried.
    fn run(fails: impl Fn(usize) -> Option<Error> + Sync) -> (usize, usize) {
        let items: Vec<usize> = (0..100).collect();
        let (cancel, done) = (AtomicBool::new(false), AtomicUsize::new(0));
        let work = |item: &usize, _: Watch<'_>| match fails(*item) {
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
        let full = |i| (10..99).contains(&i).then(|| io(ErrorKind::StorageFull));
        assert_eq!(run(full).0, 1);
    }

    #[test]
    fn when_all_are_refused_no_more_are_begun() {
        let name = |i: usize| format!("{i:03}");
        assert_eq!(run(|i| Some(refused(&name(i)))), (3, 97));
        // Only some are refused.
        assert_eq!(run(|i| (i % 10 > 0).then(|| refused(&name(i)))), (90, 0));
        assert_eq!(run(|i| (i >= 50).then(|| refused(&name(i)))), (50, 0));
        assert_eq!(run(|i| (i < 20).then(|| refused(&name(i)))), (20, 0));
    }

    #[test]
    fn the_same_refusal_of_several_objects_is_one_cause() {
        let failed = |name: &str| Failed { name: name.into(), error: refused(&encode_path(name)) };
        assert_eq!(failed("a b").cause(), failed("c/d").cause());
        assert!(failed("a").cause().unwrap().contains("405"));
        let occupied = Error::Occupied { path: "x".into(), url: "file:///x".into() };
        assert_eq!(Failed { name: "x".into(), error: occupied }.cause(), None);
    }

    #[test]
    fn a_stop_is_not_a_failure() {
        let cancel = AtomicBool::new(false);
        let work = |_: &(), _: Watch<'_>| {
            cancel.store(true, Ordering::Relaxed);
            Err(Error::cancelled())
        };
        let stopped = each(&[(); 3], 1, Watch::silent(&cancel), |()| String::new(), work);
        assert!(stopped.unwrap_err().is_cancelled());
    }
}
