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
    /// The writer's next record is ready, or there is none.
    next_ready: Condvar,
    /// There is room to read more, or nothing more to be read.
    has_room: Condvar,
    ahead_bytes: u64,
}

struct State<I> {
    records: I,
    /// Number of the next record to be read, and of the next to be handed out.
    next_read: u64,
    next_out: u64,
    ready: BTreeMap<u64, Item>,
    in_flight: u64,
    /// Who waits: waking nobody is a system call too, one or two for each input.
    writer_waits: bool,
    readers_wait: usize,
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
            writer_waits: false,
            readers_wait: 0,
            exhausted: false,
            stopped: false,
        };
        let (next_ready, has_room) = (Condvar::new(), Condvar::new());
        Self { state: Mutex::new(state), next_ready, has_room, ahead_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, State<I>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the state and wakes those whom a change of it concerns.
    fn release(&self, state: MutexGuard<'_, State<I>>, writer: bool, readers: bool) {
        let (writer, readers) = (writer && state.writer_waits, readers && state.readers_wait > 0);
        drop(state);
        if writer {
            self.next_ready.notify_one();
        }
        if readers {
            self.has_room.notify_all();
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
            let held = held(&item);
            state.in_flight = (state.in_flight - planned).saturating_add(held);
            state.ready.insert(number, item);
            let is_next = number == state.next_out;
            self.release(state, is_next, held < planned);
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
            state.readers_wait += 1;
            state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.readers_wait -= 1;
        }
        let Some(record) = state.records.next() else {
            state.exhausted = true;
            self.release(state, true, true);
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
                self.release(state, false, true);
                return Some(item);
            }
            if state.stopped || (state.exhausted && state.next_out == state.next_read) {
                return None;
            }
            state.writer_waits = true;
            state = self.next_ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.writer_waits = false;
        }
    }

    /// Ends all waiting.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        self.release(state, true, true);
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
