//! Threads that compress batches of blocks. Results come back in the order in which the batches
//! were submitted.

use std::collections::VecDeque;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::Error;
use super::compress::Encoder;
use super::data::{Batch, Packed};
use super::options::Options;

/// Most threads; this limits the bytes in flight and the memory of compressors.
const MOST_THREADS: usize = 64;
/// Most bytes in flight, before compression.
const MOST_BYTES: usize = 48 << 20;

pub(super) struct Pool {
    jobs: Option<Sender<(u64, Batch)>>,
    results: Receiver<(u64, Result<Packed, Error>)>,
    workers: Vec<JoinHandle<()>>,
    /// Results from number `next` on; `None` while a thread is still working on one.
    window: VecDeque<Option<Result<Packed, Error>>>,
    next: u64,
    most: usize,
}

impl Pool {
    /// Starts the threads for batches of about `batch_bytes`.
    pub(super) fn start(options: &Options, batch_bytes: usize) -> Result<Self, Error> {
        let threads = options.threads.get().min(MOST_THREADS);
        let (jobs, queue) = mpsc::channel::<(u64, Batch)>();
        let (done, results) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut pool = Self {
            jobs: Some(jobs),
            results,
            workers: Vec::new(),
            window: VecDeque::new(),
            next: 0,
            most: (MOST_BYTES / batch_bytes).clamp(2, 4 * threads),
        };
        for _ in 0..threads {
            let (queue, done) = (Arc::clone(&queue), done.clone());
            let encoder = Encoder::new(options.data, options.probe)?;
            let worker = thread::Builder::new()
                .name("squashfs".to_owned())
                .spawn(move || work(&queue, &done, encoder))
                .map_err(Error::Compress)?;
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// Returns whether the next result has to be taken before another batch can be added.
    pub(super) fn is_full(&self) -> bool {
        self.window.len() >= self.most
    }

    pub(super) fn submit(&mut self, batch: Batch) -> Result<(), Error> {
        let number = self.next + self.window.len() as u64;
        self.window.push_back(None);
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send((number, batch)).map_err(|_| gone())
    }

    /// Puts blocks that need no thread in their place among the results.
    pub(super) fn pass(&mut self, packed: Packed) -> Result<(), Error> {
        self.window.push_back(Some(Ok(packed)));
        Ok(())
    }

    /// Returns the next result, if it is ready.
    pub(super) fn ready(&mut self) -> Result<Option<Packed>, Error> {
        while let Ok((number, result)) = self.results.try_recv() {
            self.keep(number, result);
        }
        self.take()
    }

    /// Returns the next result; `None` if nothing is in flight.
    pub(super) fn wait(&mut self) -> Result<Option<Packed>, Error> {
        while self.window.front().is_some_and(Option::is_none) {
            let (number, result) = self.results.recv().map_err(|_| gone())?;
            self.keep(number, result);
        }
        self.take()
    }

    fn keep(&mut self, number: u64, result: Result<Packed, Error>) {
        if let Some(place) = self.window.get_mut((number - self.next) as usize) {
            *place = Some(result);
        }
    }

    fn take(&mut self) -> Result<Option<Packed>, Error> {
        match self.window.front_mut().and_then(Option::take) {
            None => Ok(None),
            Some(result) => {
                self.window.pop_front();
                self.next += 1;
                result.map(Some)
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for worker in self.workers.drain(..) {
            // The thread does not panic, and would have reported that in its result.
            let _ = worker.join();
        }
    }
}

fn work(
    queue: &Mutex<Receiver<(u64, Batch)>>,
    done: &Sender<(u64, Result<Packed, Error>)>,
    mut encoder: Encoder,
) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, batch)) = job else { return };
        // Panics are caught, since a batch without a result would be waited for endlessly.
        let packed = panic::catch_unwind(AssertUnwindSafe(|| batch.pack(&mut encoder)));
        if done.send((number, packed.unwrap_or_else(|_| Err(gone())))).is_err() {
            return;
        }
    }
}

fn gone() -> Error {
    Error::Compress(io::Error::other("its thread has ended"))
}
