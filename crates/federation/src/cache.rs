//! The cache: stores every object that it fetched, by name, and never asks the origin again whether
//! the object changed. Real caches do the same to users who overwrite an object.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use tokio::sync::OwnedMutexGuard;

use super::access::Guard;
use super::collection::{self, Listing};
use super::counters::Counters;
use super::name::Name;
use super::object::{self, blocking, fault_answer};
use super::origin::Origin;
use super::reply::{Answer, refuse};
use super::serve::{Handler, drain};
use super::store::{Fault, Found, Store};
use gular_pelican::Action;

/// A lock that is held while an object is fetched.
type Lock = tokio::sync::Mutex<()>;

/// Serves copies of an origin's objects.
pub(super) struct Cache {
    store: Store,
    origin: Arc<Origin>,
    guard: Arc<Guard>,
    counters: Arc<Counters>,
    /// Locks of the fetches that are running, by name.
    fetches: Mutex<HashMap<String, Weak<Lock>>>,
}

impl Handler for Cache {
    const SERVER: &'static str = concat!("gular-development-cache/", env!("CARGO_PKG_VERSION"));

    async fn handle(&self, request: Request<Incoming>) -> Answer {
        let (parts, mut body) = request.into_parts();
        let answer = self.dispatch(&parts).await.unwrap_or_else(|refused| refused);
        self.counters.note(&parts, &answer);
        drain(&parts, &mut body).await;
        answer
    }
}

impl Cache {
    pub(super) fn new(
        store: Store,
        origin: Arc<Origin>,
        guard: Arc<Guard>,
        counters: Arc<Counters>,
    ) -> Self {
        Self { store, origin, guard, counters, fetches: Mutex::default() }
    }

    async fn dispatch(&self, parts: &Parts) -> Result<Answer, Answer> {
        if !matches!(parts.method.as_str(), "GET" | "HEAD" | "PROPFIND") {
            return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "a cache is read-only")
                .with("allow", "GET, HEAD, PROPFIND"));
        }
        let name = Name::parse(parts.uri.path())
            .ok_or_else(|| refuse(StatusCode::BAD_REQUEST, "the path is not an object's name"))?;
        self.guard.admit(parts, &name)?.demand(&[Action::Read])?;
        let kept = self.kept(&name).await?;
        if parts.method.as_str() == "PROPFIND" {
            let store = if kept.is_some() { &self.store } else { &self.origin.store };
            return collection::propfind(parts, store.clone(), name, Listing::default()).await;
        }
        if let Some(found) = kept {
            return self.hit(parts, found).await;
        }
        // `only-if-cached`: RFC 9111, section 5.2.1.7.
        let cache_control = parts.headers.get("cache-control").and_then(|v| v.to_str().ok());
        if cache_control.is_some_and(|value| value.contains("only-if-cached")) {
            return Err(refuse(StatusCode::GATEWAY_TIMEOUT, "there is no copy of it here"));
        }
        // The cache's own request to the origin takes its time, too.
        self.origin.line.travel().await;
        let found = self.origin.find(name.clone()).await.map_err(|fault| fault_answer(&fault))?;
        if found.is_collection() {
            return collection::page(parts, self.origin.store.clone(), name).await;
        }
        if parts.method == Method::HEAD {
            return Ok(object::answer(parts, found).await?.with("age", "0"));
        }
        self.fetch(parts, name).await
    }

    /// Answers with an existing copy.
    async fn hit(&self, parts: &Parts, found: Found) -> Result<Answer, Answer> {
        if parts.method == Method::GET {
            self.counters.cache_hits.add();
        }
        // An age of 0 would say that the copy was fetched just now.
        let age = age(&found).max(1).to_string();
        Ok(object::answer(parts, found).await?.with("age", age))
    }

    /// Returns the copy, if there is one.
    async fn kept(&self, name: &Name) -> Result<Option<Found>, Answer> {
        let (store, name) = (self.store.clone(), name.clone());
        match blocking(move || store.find(&name)).await {
            Ok(found) if found.is_collection() => Ok(None),
            Ok(found) => Ok(Some(found)),
            Err(Fault::Absent) => Ok(None),
            Err(fault) => Err(fault_answer(&fault)),
        }
    }

    /// Makes a copy and answers with it.
    async fn fetch(&self, parts: &Parts, name: Name) -> Result<Answer, Answer> {
        let lock = self.lock(&name).lock_owned().await;
        // Another request may have made the copy meanwhile.
        if let Some(found) = self.kept(&name).await? {
            return self.hit(parts, found).await;
        }
        let found = self.origin.find(name.clone()).await.map_err(|fault| fault_answer(&fault))?;
        self.counters.cache_misses.add();
        self.counters.origin_reads.add();
        let store = self.store.clone();
        // The lock goes along: when this client leaves, the copy is made all the same.
        let copied = blocking(move || copy(&store, &found, &name, lock)).await;
        let found = copied.map_err(|fault| fault_answer(&fault))?;
        Ok(object::answer(parts, found).await?.with("age", "0"))
    }

    fn lock(&self, name: &Name) -> Arc<Lock> {
        let mut fetches = self.fetches.lock().unwrap_or_else(PoisonError::into_inner);
        fetches.retain(|_, lock| lock.strong_count() > 0);
        let slot = fetches.entry(name.text()).or_default();
        slot.upgrade().unwrap_or_else(|| {
            let lock = Arc::new(Lock::default());
            *slot = Arc::downgrade(&lock);
            lock
        })
    }
}

/// A true copy, not a link: what is done to one must not show in the other.
fn copy(
    store: &Store,
    found: &Found,
    name: &Name,
    lock: OwnedMutexGuard<()>,
) -> Result<Found, Fault> {
    let mut copy = store.begin()?;
    std::io::copy(&mut std::fs::File::open(&found.path)?, copy.as_file_mut())?;
    copy.as_file().set_modified(found.modified())?;
    store.place(&copy, name, true)?;
    drop(lock);
    store.find(name)
}

/// Seconds since the copy was made: its inode's change, as its modification is the
/// original's.
fn age(found: &Found) -> u64 {
    let made = Duration::from_secs(u64::try_from(found.metadata.ctime()).unwrap_or(0));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(made).as_secs()
}
