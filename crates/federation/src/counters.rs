//! How often a federation's own servers were asked.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was asked of a federation's own servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Requests to the director, discovery not counted.
    pub director_queries: u64,
    /// Objects read from the origin, by clients or the cache.
    pub origin_reads: u64,
    /// Reads that the cache had a copy for.
    pub cache_hits: u64,
    /// Reads that made the cache fetch an object.
    pub cache_misses: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) director_queries: Counter,
    pub(super) origin_reads: Counter,
    pub(super) cache_hits: Counter,
    pub(super) cache_misses: Counter,
}

impl Counters {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            director_queries: self.director_queries.value(),
            origin_reads: self.origin_reads.value(),
            cache_hits: self.cache_hits.value(),
            cache_misses: self.cache_misses.value(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
