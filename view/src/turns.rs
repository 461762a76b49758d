//! Which requests work at a time, so that memory stays bounded and nobody waits for work that
//! nobody wants: pictures have turns of their own, and batches one loader.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use gular_runtime::StopFlag;

use crate::Error;
use crate::client::Client;

/// How often a waiting request looks whether its client has left.
const LOOK: Duration = Duration::from_millis(100);

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets some requests decode pictures at a time.
#[derive(Debug)]
pub(crate) struct PictureTurns {
    free: Mutex<usize>,
    changed: Condvar,
}

/// Leave to decode, until it is dropped.
pub(crate) struct PictureTurn<'a>(&'a PictureTurns);

impl PictureTurns {
    pub(crate) fn new(at_a_time: usize) -> Self {
        Self { free: Mutex::new(at_a_time.max(1)), changed: Condvar::new() }
    }

    /// Waits until it is this request's turn.
    ///
    /// # Errors
    /// [`Error::Unwanted`] once the client has left.
    pub(crate) fn turn(&self, client: Client<'_>) -> Result<PictureTurn<'_>, Error> {
        let mut free = lock(&self.free);
        while *free == 0 {
            free = self.changed.wait_timeout(free, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            if *free == 0 && client.has_left() {
                return Err(Error::Unwanted);
            }
        }
        *free -= 1;
        Ok(PictureTurn(self))
    }
}

impl Drop for PictureTurn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.changed.notify_one();
    }
}

/// Runs one loader at a time. A new request stops the one that runs and those that wait.
#[derive(Debug, Default)]
pub(crate) struct LoaderTurn {
    state: Mutex<LoaderState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LoaderState {
    /// Number of the newest request.
    newest: u64,
    running: Option<StopFlag>,
}

/// Ends the turn and what watches the client, also when the loader panics.
struct Ending<'a> {
    turn: &'a LoaderTurn,
    ended: &'a AtomicBool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        lock(&self.turn.state).running = None;
        self.turn.changed.notify_all();
    }
}

impl LoaderTurn {
    /// Calls `make` once no other loader runs. Its flag ends a wait for a batch.
    ///
    /// # Errors
    /// Those of `make`; [`Error::Unwanted`] once there is a newer request, or the client has left.
    pub(crate) fn run<T>(
        &self,
        client: Client<'_>,
        make: impl FnOnce(&StopFlag) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let stop = StopFlag::default();
        let number = client.number;
        let mut state = lock(&self.state);
        // Threads may come here in another order than their connections.
        if number < state.newest || client.has_left() {
            return Err(Error::Unwanted);
        }
        state.newest = number;
        if let Some(running) = &state.running {
            running.request();
        }
        self.changed.notify_all();
        while state.running.is_some() {
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.newest != number || client.has_left() {
                return Err(Error::Unwanted);
            }
        }
        state.running = Some(stop.clone());
        drop(state);
        let ended = AtomicBool::new(false);
        let made = thread::scope(|scope| {
            let _ending = Ending { turn: self, ended: &ended };
            scope.spawn(|| {
                while !ended.load(Ordering::Acquire) {
                    if client.has_left() {
                        stop.request();
                    }
                    thread::sleep(LOOK / 10);
                }
            });
            make(&stop)
        });
        match made {
            Err(_) if stop.requested() => Err(Error::Unwanted),
            made => made,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    /// Both sides of a connection.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn client(stream: &TcpStream, number: u64) -> Client<'_> {
        Client { stream, number }
    }

    #[test]
    fn a_client_that_left_waits_for_no_turn() {
        let turns = PictureTurns::new(1);
        let ((stays, here), (leaves, gone)) = (connection(), connection());
        let (here, gone) = (client(&here, 0), client(&gone, 1));
        assert!(!here.has_left() && !gone.has_left());
        let held = turns.turn(here).unwrap();
        drop(leaves);
        assert!(matches!(turns.turn(gone), Err(Error::Unwanted)));
        thread::scope(|scope| {
            let waits = scope.spawn(|| turns.turn(here).is_ok());
            drop(held);
            assert!(waits.join().unwrap());
        });
        drop(stays);
    }

    /// A loader that works until it is told to stop.
    fn work(stop: &StopFlag) -> Result<u8, Error> {
        let since = Instant::now();
        while !stop.requested() && since.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(5));
        }
        match stop.requested() {
            true => Err(Error::Unwanted),
            false => Ok(0),
        }
    }

    #[test]
    fn the_newest_request_stops_the_loader_of_the_others() {
        let turn = LoaderTurn::default();
        let (_client, here) = connection();
        let (begun, begins) = mpsc::channel();
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                turn.run(client(&here, 3), |stop| {
                    begun.send(()).unwrap();
                    work(stop)
                })
            });
            begins.recv().unwrap();
            // One that was sent before it, but is late, stops nothing.
            assert!(matches!(turn.run(client(&here, 2), |_| Ok(6)), Err(Error::Unwanted)));
            assert!(!first.is_finished());
            assert_eq!(turn.run(client(&here, 4), |_| Ok(7)).unwrap(), 7);
            assert!(matches!(first.join().unwrap(), Err(Error::Unwanted)));
        });
    }

    #[test]
    fn a_loader_whose_client_left_is_stopped() {
        let turn = LoaderTurn::default();
        let (leaves, gone) = connection();
        let since = Instant::now();
        let leave = |stop: &StopFlag| {
            drop(leaves);
            work(stop)
        };
        assert!(matches!(turn.run(client(&gone, 0), leave), Err(Error::Unwanted)));
        assert!(since.elapsed() < Duration::from_secs(10));
        let (_client, here) = connection();
        assert_eq!(turn.run(client(&here, 1), |_| Ok(1)).unwrap(), 1, "the next one runs");
    }
}
