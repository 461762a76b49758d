//! Inputs of one shard, read ahead by several threads, and written in order by the same threads.
//!
//! Readers take records one by one and may finish in any order. The reader that finishes the next
//! one in the plan's order writes it, and those after it that are ready, while the others continue
//! to read: no thread is woken for this, and a value is written by a CPU that has it in its cache.
//! The bytes that are read ahead are limited; the record that is to be written next is always read.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::facts::BadInput;
use crate::plan::PlanError;
use crate::plan::Record;
use crate::shards::Value;

/// A record, and the result of reading it.
pub(crate) type Item = Result<(Record, Result<Value, BadInput>), PlanError>;

pub(crate) struct ReadAhead<I, W> {
    state: Mutex<State<I, W>>,
    /// Signals that there is space to read more, or nothing more to read.
    has_room: Condvar,
    ahead_bytes: u64,
}

struct State<I, W> {
    records: I,
    /// Number of the next record to be read, and of the next to be written.
    next_read: u64,
    next_out: u64,
    ready: BTreeMap<u64, Item>,
    in_flight: u64,
    /// The writer; `None` while a reader uses it.
    write: Option<W>,
    /// How many readers wait. Waking them needs a system call, even if there are none, and this
    /// happens once or twice for each input.
    readers_wait: usize,
    exhausted: bool,
    stopped: bool,
}

impl<I, W> ReadAhead<I, W>
where
    I: Iterator<Item = Result<Record, PlanError>>,
    W: FnMut(Item) -> bool,
{
    /// `write` gets the items in order, and says whether it takes more.
    pub(crate) fn new(records: I, ahead_bytes: u64, write: W) -> Self {
        let state = State {
            records,
            next_read: 0,
            next_out: 0,
            ready: BTreeMap::new(),
            in_flight: 0,
            write: Some(write),
            readers_wait: 0,
            exhausted: false,
            stopped: false,
        };
        Self { state: Mutex::new(state), has_room: Condvar::new(), ahead_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, State<I, W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, state: &State<I, W>) {
        if state.readers_wait > 0 {
            self.has_room.notify_all();
        }
    }

    /// A reader's life: reads records, and writes those that are next, until there are no more.
    pub(crate) fn read_all(&self, read: &mut dyn FnMut(&Record) -> Result<Value, BadInput>) {
        // A reader that panics must not leave the others waiting.
        let _stop = StopOnPanic(self);
        while let Some((number, record)) = self.take() {
            let planned = record.as_ref().map_or(0, |r| r.bytes);
            let item = record.map(|record| {
                let bytes = read(&record);
                (record, bytes)
            });
            let mut state = self.lock();
            // From here on the value takes memory, not the planned bytes.
            let held = held(&item);
            state.in_flight = (state.in_flight - planned).saturating_add(held);
            state.ready.insert(number, item);
            if held < planned {
                self.wake(&state);
            }
            self.write(state);
        }
    }

    fn take(&self) -> Option<(u64, Result<Record, PlanError>)> {
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
            self.wake(&state);
            return None;
        };
        let number = state.next_read;
        state.next_read += 1;
        state.in_flight += record.as_ref().map_or(0, |r| r.bytes);
        Some((number, record))
    }

    /// Writes what is ready, unless another reader is at it: that one looks again after each item.
    fn write<'a>(&'a self, mut state: MutexGuard<'a, State<I, W>>) {
        let Some(mut write) = state.write.take() else { return };
        while !state.stopped {
            let number = state.next_out;
            let Some(item) = state.ready.remove(&number) else { break };
            // Before it is written: meanwhile another reader may read the next one.
            state.next_out += 1;
            state.in_flight = state.in_flight.saturating_sub(held(&item));
            self.wake(&state);
            drop(state);
            let more = write(item);
            state = self.lock();
            if !more {
                state.stopped = true;
                self.wake(&state);
            }
        }
        state.write = Some(write);
    }
}

/// Returns the bytes of memory that an item takes.
fn held(item: &Item) -> u64 {
    let value = item.as_ref().ok().and_then(|(_, value)| value.as_ref().ok());
    value.map_or(0, Value::len)
}

struct StopOnPanic<'a, I, W>(&'a ReadAhead<I, W>);

impl<I, W> Drop for StopOnPanic<'_, I, W> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
            self.0.has_room.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread::{scope, sleep};
    use std::time::{Duration, Instant};

    use gular_bundle::BundlePath;

    use super::*;

    const N: u64 = 200;

    fn records() -> impl Iterator<Item = Result<Record, PlanError>> {
        (0..N).map(|i| {
            let key = BundlePath::parse(&format!("{i:03}")).unwrap();
            Ok(Record { key, label: 0, bytes: 10, values: String::new() })
        })
    }

    /// Returns a value of 20 bytes, after a pause.
    fn value(record: &Record) -> Result<Value, BadInput> {
        let n: u64 = record.key.as_str().parse().unwrap();
        sleep(Duration::from_micros(n * 7919 % 300));
        Ok(Value { bytes: vec![0; 20], ..Value::default() })
    }

    /// Returns what is written if `readers` read at most `ahead_bytes` ahead.
    fn written(readers: usize, ahead_bytes: u64, most: usize) -> Vec<String> {
        let mut written = Vec::new();
        let feed = ReadAhead::new(records(), ahead_bytes, |item: Item| {
            written.push(item.unwrap().0.key.to_string());
            written.len() < most
        });
        scope(|scope| {
            for _ in 0..readers {
                scope.spawn(|| feed.read_all(&mut value));
            }
        });
        drop(feed);
        written
    }

    #[test]
    fn items_are_written_in_order_whoever_reads_them() {
        let expected: Vec<String> = (0..N).map(|i| format!("{i:03}")).collect();
        for (readers, ahead) in [(1, 1), (2, 1), (3, 50), (8, 1 << 20)] {
            assert_eq!(written(readers, ahead, usize::MAX), expected, "{readers} {ahead}");
            assert_eq!(written(readers, ahead, 30), expected[..30], "{readers} {ahead}");
        }
    }

    #[test]
    fn the_next_is_read_while_one_is_written_whatever_its_size() {
        let read = AtomicU64::new(0);
        let mut written = 0;
        let feed = ReadAhead::new(records(), 1, |_| {
            written += 1;
            // Another reader must read the record after this one, unless this was the last.
            let deadline = Instant::now() + Duration::from_secs(60);
            while read.load(Ordering::SeqCst) < (written + 1).min(N) {
                assert!(Instant::now() < deadline, "nothing is read while {written} is written");
                sleep(Duration::from_micros(100));
            }
            written < N
        });
        scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    feed.read_all(&mut |record| {
                        read.fetch_add(1, Ordering::SeqCst);
                        value(record)
                    });
                });
            }
        });
        drop(feed);
        assert_eq!(written, N);
    }

    #[test]
    fn no_more_is_read_ahead_than_may_be() {
        let (reading, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let feed = ReadAhead::new(records(), 60, |_| {
            reading.fetch_sub(1, Ordering::SeqCst);
            true
        });
        scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    feed.read_all(&mut |record| {
                        most.fetch_max(
                            reading.fetch_add(1, Ordering::SeqCst) + 1,
                            Ordering::SeqCst,
                        );
                        value(record)
                    });
                });
            }
        });
        // Six of 10 bytes are let in, and the next one in order always is.
        assert!(most.load(Ordering::SeqCst) <= 7, "{most:?}");
    }

    #[test]
    fn a_reader_that_panics_ends_the_others() {
        let feed = ReadAhead::new(records(), 10, |_| true);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        feed.read_all(&mut |record| {
                            assert_ne!(record.key.as_str(), "050", "on purpose");
                            value(record)
                        });
                    });
                }
            });
        }));
        assert!(ended.is_err());
        assert!(feed.lock().next_out <= 50);
    }
}
