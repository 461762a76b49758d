//! Counts the requests to a federation's own servers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hyper::Method;
use hyper::http::request::Parts;
use serde::Serialize;

use super::name::Name;
use super::reply::Answer;

/// The numbers of requests to a federation's own servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests to the director, discovery not counted.
    pub director_queries: u64,
    /// Objects read from the origin, by clients or the cache.
    pub origin_reads: u64,
    /// Reads that the cache had a copy for.
    pub cache_hits: u64,
    /// Reads that made the cache fetch an object.
    pub cache_misses: u64,
    /// Requests that clients made to cache and origin, of any kind.
    pub requests: u64,
    /// Bytes of objects that clients were sent, by cache or origin.
    pub bytes_sent: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) director_queries: Counter,
    pub(super) origin_reads: Counter,
    pub(super) cache_hits: Counter,
    pub(super) cache_misses: Counter,
    requests: Counter,
    /// Bytes that were sent to clients, by object.
    sent: Mutex<BTreeMap<String, u64>>,
}

impl Counters {
    /// Counts the bytes of an object that a client is sent.
    pub(super) fn note(&self, parts: &Parts, answer: &Answer) {
        self.requests.add();
        let (Some(name), Some(bytes)) = (Name::parse(parts.uri.path()), answer.object_bytes())
        else {
            return;
        };
        if parts.method != Method::GET {
            return;
        }
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = sent.entry(name.text()).or_default();
        *sum = sum.saturating_add(bytes);
    }

    pub(super) fn bytes_sent(&self) -> BTreeMap<String, u64> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            director_queries: self.director_queries.value(),
            origin_reads: self.origin_reads.value(),
            cache_hits: self.cache_hits.value(),
            cache_misses: self.cache_misses.value(),
            requests: self.requests.value(),
            bytes_sent: self.bytes_sent().values().fold(0, |sum, n| sum.saturating_add(*n)),
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
