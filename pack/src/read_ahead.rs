//! Inputs of one shard, read ahead by several threads, handed out in order.
//!
//! Readers take records one by one and may finish in any order; the writer
//! gets them in the plan's. How far they run ahead is bounded in bytes; the
//! record the writer waits for is always let through.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::Error;
use crate::error::BadInput;
use crate::payload::Value;
use crate::plan::Record;

/// A record and what reading it gave.
pub(crate) type Item = Result<(Record, Result<Value, BadInput>), Error>;

pub(crate) struct ReadAhead<I> {
    state: Mutex<State<I>>,
    changed: Condvar,
    ahead_bytes: u64,
}

struct State<I> {
    records: I,
    /// Number of the next record to be read, and of the next to be handed out.
    next_read: u64,
    next_out: u64,
    ready: BTreeMap<u64, Item>,
    in_flight: u64,
    /// Threads that wait for a change: waking nobody is a system call too, one
    /// or two for each input.
    waiting: usize,
    exhausted: bool,
    stopped: bool,
}

impl<I: Iterator<Item = Result<Record, Error>>> ReadAhead<I> {
    pub(crate) fn new(records: I, ahead_bytes: u64) -> Self {
        let state = State {
            records,
            next_read: 0,
            next_out: 0,
            ready: BTreeMap::new(),
            in_flight: 0,
            waiting: 0,
            exhausted: false,
            stopped: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), ahead_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, State<I>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State<I>>) -> MutexGuard<'a, State<I>> {
        state.waiting += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    /// Lets go of the state and wakes those who wait for what was done to it.
    fn release(&self, state: MutexGuard<'_, State<I>>) {
        let waiting = state.waiting;
        drop(state);
        if waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// A reader's life: reads records until there are no more.
    pub(crate) fn read_all(&self, read: &mut dyn FnMut(&Record) -> Result<Value, BadInput>) {
        // A reader that panics must not leave the writer waiting.
        let _stop = StopOnPanic(self);
        while let Some((number, record)) = self.take() {
            let planned = record.as_ref().map_or(0, |r| r.bytes);
            let item = record.map(|record| {
                let bytes = read(&record);
                (record, bytes)
            });
            let mut state = self.lock();
            // From here on it is its value that takes memory.
            state.in_flight = (state.in_flight - planned).saturating_add(held(&item));
            state.ready.insert(number, item);
            self.release(state);
        }
    }

    fn take(&self) -> Option<(u64, Result<Record, Error>)> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.exhausted {
                return None;
            }
            if state.in_flight < self.ahead_bytes || state.next_read == state.next_out {
                break;
            }
            state = self.wait(state);
        }
        let Some(record) = state.records.next() else {
            state.exhausted = true;
            self.release(state);
            return None;
        };
        let number = state.next_read;
        state.next_read += 1;
        state.in_flight += record.as_ref().map_or(0, |r| r.bytes);
        Some((number, record))
    }

    /// The next item in order; `None` after the last, or when stopped.
    pub(crate) fn next(&self) -> Option<Item> {
        let mut state = self.lock();
        loop {
            let number = state.next_out;
            if let Some(item) = state.ready.remove(&number) {
                state.next_out += 1;
                state.in_flight = state.in_flight.saturating_sub(held(&item));
                self.release(state);
                return Some(item);
            }
            if state.stopped || (state.exhausted && state.next_out == state.next_read) {
                return None;
            }
            state = self.wait(state);
        }
    }

    /// Ends all waiting.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        self.release(state);
    }
}

/// Bytes that an item holds.
fn held(item: &Item) -> u64 {
    let value = item.as_ref().ok().and_then(|(_, value)| value.as_ref().ok());
    value.map_or(0, Value::len)
}

struct StopOnPanic<'a, I: Iterator<Item = Result<Record, Error>>>(&'a ReadAhead<I>);

impl<I: Iterator<Item = Result<Record, Error>>> Drop for StopOnPanic<'_, I> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}
