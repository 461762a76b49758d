//! The threads that fill batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::LoaderError;
use super::batch_slots::BatchSlots;
use super::panics::caught;
use super::row_maker::{RowMaker, RowStage, Tools};
use super::stats::Meters;
use super::ticket::Ticket;
use crate::Error;

/// A fixed pool; dropped, it waits for the samples in the making, no more.
#[derive(Debug)]
pub(super) struct Pool {
    ring: Arc<BatchSlots>,
    maker: Arc<RowMaker>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    pub(super) fn start(
        n: usize,
        ring: &Arc<BatchSlots>,
        maker: &Arc<RowMaker>,
        meters: &Arc<Meters>,
    ) -> Result<Self, Error> {
        let (ring, maker) = (Arc::clone(ring), Arc::clone(maker));
        let mut pool = Self { ring, maker, threads: Vec::with_capacity(n) };
        for i in 0..n {
            let (ring, maker) = (Arc::clone(&pool.ring), Arc::clone(&pool.maker));
            let meters = Arc::clone(meters);
            let thread = thread::Builder::new()
                .name(format!("gular-load-{i}"))
                .spawn(move || work(&ring, &maker, &meters))
                .map_err(|source| LoaderError::Thread { number: i + 1, wanted: n, source })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.ring.close();
        if !self.threads.is_empty() {
            self.maker.end();
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has told the ring.
            drop(thread.join());
        }
    }
}

fn work(ring: &BatchSlots, maker: &RowMaker, meters: &Meters) {
    let alarm = Alarm(ring);
    let mut thread = Thread { ring, maker, meters, tools: maker.tools(ring.ahead()) };
    // What the user's function has, oldest first.
    let mut given = VecDeque::new();
    loop {
        if maker.must_take(&thread.tools)
            && let Some(ticket) = given.pop_front()
        {
            thread.take_result(ticket, &mut given);
            continue;
        }
        let next = if given.is_empty() { ring.take(meters) } else { ring.take_now(meters) };
        if let Some(ticket) = next {
            thread.deliver(ticket, &mut given);
        } else if let Some(ticket) = given.pop_front() {
            thread.take_result(ticket, &mut given);
        } else {
            break;
        }
    }
    drop(alarm);
}

struct Thread<'a> {
    ring: &'a BatchSlots,
    maker: &'a RowMaker,
    meters: &'a Meters,
    tools: Tools,
}

impl Thread<'_> {
    /// Makes a sample, or gives it to the user's function.
    fn deliver(&mut self, mut ticket: Ticket, given: &mut VecDeque<Ticket>) {
        let Self { maker, meters, tools, .. } = self;
        let made = caught(|| maker.deliver(&mut ticket, tools, meters));
        self.put(ticket, made, given);
    }

    /// Waits for the user's function with a sample, the oldest that it was given.
    fn take_result(&mut self, mut ticket: Ticket, given: &mut VecDeque<Ticket>) {
        let Self { maker, meters, tools, .. } = self;
        let made = caught(|| maker.take_result(&mut ticket, tools, meters));
        self.put(ticket, made, given);
    }

    fn put(
        &mut self,
        ticket: Ticket,
        made: Result<Result<RowStage, Error>, String>,
        given: &mut VecDeque<Ticket>,
    ) {
        let Self { ring, maker, meters, .. } = *self;
        match made {
            Ok(Ok(RowStage::Given)) => given.push_back(ticket),
            Ok(Ok(RowStage::Made(label))) => ring.put(ticket, Ok(label), meters),
            Ok(Err(error)) => ring.put(ticket, Err(error), meters),
            Err(message) => {
                // The tools may be damaged after a panic, so they are made again; what they had
                // given to the function is lost with them.
                self.tools = maker.tools(ring.ahead());
                let key = maker.reader().name(ticket.sample);
                for ticket in given.drain(..).chain([ticket]) {
                    let (key, message) = (key.clone(), message.clone());
                    ring.put(ticket, Err(LoaderError::Panicked { key, message }.into()), meters);
                }
            }
        }
    }
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
    use gular_order::{EpochOrder, OrderKind, OrderSpec};

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
