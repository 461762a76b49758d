//! The time at which a training run must stop so that it can still save its state.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use crate::{EndTime, StopFlag};

/// Before the end of a job, besides the time of two checkpoints: for the step under way, and for
/// what a batch system ends early.
const SPARE: Duration = Duration::from_secs(30);

/// A job that still runs so long after its end is not ended by it.
const PATIENCE: Duration = Duration::from_secs(300);

/// The time at which a training run stops by itself.
#[derive(Debug, Clone)]
pub struct Deadline {
    /// The time at which the user wants to stop.
    stop_at: Option<Instant>,
    /// The end of the job, and where it is from.
    end: Option<(Instant, EndTime)>,
    /// The longest time that a checkpoint took so far.
    save: Duration,
}

impl Deadline {
    /// Stops `stop_after` from now, or in time before `end`, whichever is earlier.
    #[must_use]
    pub fn new(stop_after: Option<Duration>, end: Option<EndTime>) -> Self {
        let now = Instant::now();
        let end = end.and_then(|end| Some((now.checked_add(end.left(SystemTime::now()))?, end)));
        let stop_at = stop_after.and_then(|after| now.checked_add(after));
        Self { stop_at, end, save: Duration::ZERO }
    }

    /// Records how long a checkpoint took: the next one is expected to take no longer than twice
    /// the longest.
    pub fn saved(&mut self, took: Duration) {
        self.save = self.save.max(took);
    }

    /// Returns why the training must stop now; `None` if it need not.
    #[must_use]
    pub fn reached(&self) -> Option<&'static str> {
        let now = Instant::now();
        if self.stop_at.is_some_and(|at| at <= now) {
            return Some("the time it was given");
        }
        let (end, said) = self.end.as_ref()?;
        (end.saturating_duration_since(now) <= self.margin()).then_some(said.source)
    }

    /// Returns whether the end of the job is so near that the training run would stop at once, and
    /// would be started again at once: with HTCondor several times a second, each time with a
    /// checkpoint to transfer.
    #[must_use]
    pub fn is_too_near(&self) -> bool {
        self.end.is_some_and(|(end, of)| {
            of.restarts && end.saturating_duration_since(Instant::now()) <= self.margin()
        })
    }

    /// Waits until the batch system ends the job, which it says by a signal. If the job still runs
    /// five minutes after its end, that was not its end, and is forgotten.
    pub fn wait_for_end(&mut self, stop: &StopFlag) {
        let is_over = |of: &EndTime| {
            SystemTime::now().duration_since(of.at).is_ok_and(|since| since >= PATIENCE)
        };
        while let Some((_, of)) = &self.end
            && !stop.requested()
        {
            if is_over(of) {
                self.end = None;
            } else {
                sleep(Duration::from_millis(100));
            }
        }
    }

    /// Returns how long before the end of the job the training run stops.
    #[must_use]
    pub fn margin(&self) -> Duration {
        SPARE + 2 * self.save
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stops_after_the_time_given_or_before_the_end_of_the_job() {
        let end = |left: u64| {
            let at = SystemTime::now() + Duration::from_secs(left);
            Some(EndTime { at, source: "a clock", restarts: false })
        };
        let hour = Some(Duration::from_secs(3600));
        assert_eq!(Deadline::new(None, None).reached(), None);
        assert_eq!(Deadline::new(hour, end(3600)).reached(), None);
        assert_eq!(
            Deadline::new(Some(Duration::ZERO), None).reached(),
            Some("the time it was given")
        );
        assert_eq!(Deadline::new(hour, end(20)).reached(), Some("a clock"));
        assert_eq!(Deadline::new(Some(Duration::MAX), end(0)).reached(), Some("a clock"));
    }

    #[test]
    fn a_slow_checkpoint_is_begun_earlier() {
        let at = SystemTime::now() + Duration::from_secs(300);
        let mut deadline =
            Deadline::new(None, Some(EndTime { at, source: "a clock", restarts: false }));
        assert_eq!(deadline.reached(), None);
        deadline.saved(Duration::from_secs(100));
        assert_eq!((deadline.margin().as_secs(), deadline.reached()), (230, None));
        deadline.saved(Duration::from_secs(140));
        deadline.saved(Duration::from_secs(1));
        assert_eq!((deadline.margin().as_secs(), deadline.reached()), (310, Some("a clock")));
    }

    #[test]
    fn a_start_just_before_the_end_waits_where_it_would_be_repeated() {
        let deadline = |at: SystemTime, restarts: bool| {
            Deadline::new(None, Some(EndTime { at, source: "a clock", restarts }))
        };
        let soon = SystemTime::now() + Duration::from_secs(20);
        let later = SystemTime::now() + Duration::from_secs(3600);
        assert!(deadline(soon, true).is_too_near() && !deadline(soon, false).is_too_near());
        assert!(!deadline(later, true).is_too_near() && !Deadline::new(None, None).is_too_near());
        // Until it is told to stop.
        let stop = StopFlag::default();
        let told = stop.clone();
        let teller = std::thread::spawn(move || {
            sleep(Duration::from_millis(300));
            told.request();
        });
        let (since, mut near) = (Instant::now(), deadline(soon, true));
        near.wait_for_end(&stop);
        assert!(since.elapsed() >= Duration::from_millis(300) && near.is_too_near());
        teller.join().unwrap();
        // An end that did not come is not one.
        let mut past = deadline(SystemTime::now() - PATIENCE, true);
        assert!(past.is_too_near());
        past.wait_for_end(&StopFlag::default());
        assert_eq!((past.is_too_near(), past.reached()), (false, None));
    }
}
