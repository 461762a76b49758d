//! The open shards: limited by the size of their indexes and by the number of files that a process
//! may open; opened once even if several threads ask for one; not verified again when they are
//! reopened.
//!
//! ```text
//! closed ──▶ opening ──▶ open, index in memory   while there is room for it
//!    ▲      one thread,  open, index on disk     else: looked into entry by entry
//!    │      others wait
//!    └── the longest unused, when files run out: what was checked stays known
//! ```
//!
//! An index for which there was no space does not replace one that is in use. Under an order that
//! touches all shards alike, replacing would mean to read a whole index per sample; reading single
//! entries from the file costs six small reads.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::shard::Known;
use crate::{Error, Shard, ShardIdx};

// An index is no longer in use if its shard was not asked for while the others were, on average,
// this often. By chance that happens to one shard in e^16 (9 million).
const TURNS: u64 = 16;

/// Counts of what a bundle has opened so far, and what it holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenCounts {
    /// Indexes that were read whole, compared with their digest, and accepted.
    pub verified: u64,
    /// Shards opened again, whose index was known to be the same and so not verified again.
    pub again: u64,
    /// Shards that are open now.
    pub open: usize,
    /// Bytes of indexes in memory; those that are mapped are not counted.
    pub index_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct OpenShards {
    state: Mutex<State>,
    /// Signals that some shard was opened, or could not be.
    settled: Condvar,
    /// Most bytes of indexes in memory.
    most_bytes: u64,
    /// Most files that are open or mapped.
    most_files: usize,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<ShardIdx, (Arc<Shard>, u64)>,
    opening: HashSet<ShardIdx>,
    /// Facts about each shard that was ever open: a bit per sample, and a few hundred bytes.
    known: HashMap<ShardIdx, Arc<Known>>,
    clock: u64,
    counts: OpenCounts,
    files: usize,
}

impl OpenShards {
    pub(crate) fn new(most_bytes: u64, most_files: usize) -> Self {
        let (state, settled) = (Mutex::default(), Condvar::new());
        Self { state, settled, most_bytes, most_files }
    }

    /// Returns the shard, which `open` opens if it is not open. Other threads that want it wait
    /// meanwhile, and try themselves if it fails. `open` gets what is known about the shard from
    /// before.
    pub(crate) fn get(
        &self,
        shard: ShardIdx,
        open: impl Fn(Option<Arc<Known>>) -> Result<Shard, Error>,
    ) -> Result<Arc<Shard>, Error> {
        let mut state = self.lock();
        loop {
            if let Some(found) = state.get(shard) {
                return Ok(found);
            }
            if state.opening.insert(shard) {
                break;
            }
            state = self.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let known = state.known.get(&shard).cloned();
        drop(state);
        let opening = Opening { of: self, shard };
        // The lock is released while the shard is opened, so that others can be read meanwhile.
        let mut opened = open(known.clone());
        if opened.as_ref().is_err_and(is_out_of_files) {
            self.lock().close_all();
            opened = open(known.clone());
        }
        let opened = Arc::new(opened?);
        let mut state = self.lock();
        match known.is_some_and(|known| Arc::ptr_eq(&known, opened.known())) {
            true => state.counts.again = state.counts.again.saturating_add(1),
            false => state.counts.verified = state.counts.verified.saturating_add(1),
        }
        state.insert(shard, &opened, self.most_files);
        drop(state);
        drop(opening);
        Ok(opened)
    }

    /// Returns the shard, if it is open.
    pub(crate) fn opened(&self, shard: ShardIdx) -> Option<Arc<Shard>> {
        self.lock().get(shard)
    }

    /// Closes a shard; threads that are reading it can continue.
    pub(crate) fn close(&self, shard: ShardIdx) {
        self.lock().close(shard);
    }

    /// Reserves memory for an index of `bytes`; returns whether there was enough.
    pub(crate) fn make_room(&self, bytes: u64) -> bool {
        if bytes > self.most_bytes {
            return false;
        }
        let mut state = self.lock();
        while state.counts.index_bytes.saturating_add(bytes) > self.most_bytes {
            let turn = (state.open.len() as u64).saturating_mul(TURNS);
            let unused = state.longest_unused(|shard| shard.index_bytes() > 0);
            let Some(unused) = unused.filter(|(_, used)| state.clock.wrapping_sub(*used) > turn)
            else {
                return false;
            };
            state.close(unused.0);
        }
        state.counts.index_bytes = state.counts.index_bytes.saturating_add(bytes);
        true
    }

    /// Gives back reserved memory that is not needed.
    pub(crate) fn leave_room(&self, bytes: u64) {
        let mut state = self.lock();
        state.counts.index_bytes = state.counts.index_bytes.saturating_sub(bytes);
    }

    pub(crate) fn counts(&self) -> OpenCounts {
        let state = self.lock();
        OpenCounts { open: state.open.len(), ..state.counts }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave the maps half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets other threads try the shard when an attempt to open it is over, however it ended.
struct Opening<'a> {
    of: &'a OpenShards,
    shard: ShardIdx,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.of.lock().opening.remove(&self.shard);
        self.of.settled.notify_all();
    }
}

impl State {
    fn get(&mut self, shard: ShardIdx) -> Option<Arc<Shard>> {
        self.clock = self.clock.wrapping_add(1);
        let now = self.clock;
        self.open.get_mut(&shard).map(|(shard, used)| {
            *used = now;
            Arc::clone(shard)
        })
    }

    fn insert(&mut self, shard: ShardIdx, opened: &Arc<Shard>, most_files: usize) {
        self.files = self.files.saturating_add(opened.n_files());
        while self.files > most_files {
            let Some((unused, _)) = self.longest_unused(|_| true) else { break };
            self.close(unused);
        }
        self.known.insert(shard, Arc::clone(opened.known()));
        self.open.insert(shard, (Arc::clone(opened), self.clock));
    }

    fn longest_unused(&self, which: impl Fn(&Shard) -> bool) -> Option<(ShardIdx, u64)> {
        let open = self.open.iter().filter(|(_, (shard, _))| which(shard));
        open.map(|(shard, (_, used))| (*shard, *used)).min_by_key(|(_, used)| *used)
    }

    fn close(&mut self, shard: ShardIdx) {
        let Some((shard, _)) = self.open.remove(&shard) else { return };
        self.files = self.files.saturating_sub(shard.n_files());
        self.counts.index_bytes = self.counts.index_bytes.saturating_sub(shard.index_bytes());
    }

    fn close_all(&mut self) {
        let open: Vec<ShardIdx> = self.open.keys().copied().collect();
        open.into_iter().for_each(|shard| self.close(shard));
    }
}

/// Returns whether the process or the machine cannot open more files, since others took them.
fn is_out_of_files(error: &Error) -> bool {
    let Error::Io(error) = error else { return false };
    matches!(error.source.raw_os_error(), Some(OUT_OF_FILES | OUT_OF_FILES_ALL))
}

// These are EMFILE and ENFILE of Linux.
const OUT_OF_FILES: i32 = 24;
const OUT_OF_FILES_ALL: i32 = 23;
