//! The threads that fill batches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::LoaderError;
use super::batch_slots::BatchSlots;
use super::source::Source;
use super::stats::Meters;
use crate::Error;

/// A fixed pool; dropped, it waits for the samples in the making, no more.
#[derive(Debug)]
pub(super) struct Pool {
    ring: Arc<BatchSlots>,
    source: Arc<Source>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    pub(super) fn start(
        n: usize,
        ring: &Arc<BatchSlots>,
        source: &Arc<Source>,
        meters: &Arc<Meters>,
    ) -> Result<Self, Error> {
        let (ring, source) = (Arc::clone(ring), Arc::clone(source));
        let mut pool = Self { ring, source, threads: Vec::with_capacity(n) };
        for i in 0..n {
            let (ring, source) = (Arc::clone(&pool.ring), Arc::clone(&pool.source));
            let meters = Arc::clone(meters);
            let thread = thread::Builder::new()
                .name(format!("gular-load-{i}"))
                .spawn(move || work(&ring, &source, &meters))
                .map_err(|source| LoaderError::Thread { number: i + 1, wanted: n, source })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Ends it without waiting for its threads, which have nothing in the making.
    #[cfg(feature = "torch")]
    pub(super) fn dismiss(mut self) {
        self.threads.clear();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.ring.close();
        if !self.threads.is_empty() {
            self.source.end();
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has told the ring.
            drop(thread.join());
        }
    }
}

fn work(ring: &BatchSlots, source: &Source, meters: &Meters) {
    let alarm = Alarm(ring);
    let new_tools = || source.tools(ring.ahead());
    let mut tools = new_tools();
    while let Some(mut ticket) = ring.take(meters) {
        let made = caught(|| source.deliver(&mut ticket, &mut tools, meters));
        let made = made.unwrap_or_else(|message| {
            // The tools may be damaged after a panic, so they are made again.
            tools = new_tools();
            Err(LoaderError::Panicked { key: source.name(ticket.sample), message }.into())
        });
        ring.put(ticket, made, meters);
    }
    drop(alarm);
}

/// Returns the result of `job`, or the message of its panic: a codec's panic is the error of one
/// sample, and must not end a thread that others wait for.
pub(super) fn caught<T>(job: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(job)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
    })
}

/// Tells the ring when its thread ends by a panic, so that nobody waits for ever.
struct Alarm<'a>(&'a BatchSlots);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.break_down();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch_slots::Waiting;
    use super::super::epoch_steps::{Run, Span};
    use super::*;
    use crate::order::{EpochOrder, OrderKind, OrderSpec};

    #[test]
    fn a_panic_is_what_it_said() {
        assert_eq!(caught(|| 7), Ok(7));
        assert_eq!(caught(|| panic!("at row {}", 3)), Err::<(), _>("at row 3".into()));
        assert_eq!(caught(|| panic!("plain")), Err::<(), _>("plain".into()));
    }

    #[test]
    fn a_thread_that_ends_by_a_panic_wakes_who_waits() {
        let ring = BatchSlots::new(2, 1, &[Some(3)], Waiting::default()).unwrap();
        let order = OrderSpec { kind: OrderKind::Elastic, seed: 0, drop_last: false };
        let order = EpochOrder::new(&order, &[5], 0, 1);
        let span = Span::new(0, 5, 1, false);
        ring.start(Run { order, chosen: Arc::default(), epoch: 0, span, rank: 0, world_size: 1 });
        let meters = Meters::default();
        thread::scope(|scope| {
            let waits = scope.spawn(|| ring.batch(0, &meters).map(|slot| slot.is_some()));
            let died = scope.spawn(|| {
                let _alarm = Alarm(&ring);
                panic!("outside of any sample");
            });
            assert!(died.join().is_err());
            assert!(matches!(waits.join().unwrap(), Err(Error::Loader(LoaderError::Broken))));
        });
    }
}
