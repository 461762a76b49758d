//! Caches the answers of discovery hosts and directors for as long as they are valid.
//!
//! A director's answer for one object holds for all objects of its namespace, where it says
//! how deep below each server's prefix the object is.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::director::{Namespace, Source, join, server_prefix};
use crate::flight::Gates;
use crate::http::Server;
use crate::route::{Place, Route, Verb};
use crate::router::preferred::Preferred;
use crate::{Error, Url};

/// How long routes are kept, as in the Go client and pelicanfs.
const KEEP_ROUTE: Duration = Duration::from_secs(15 * 60);

/// How long directors are kept, as in the Go client and pelicanfs.
const KEEP_DIRECTOR: Duration = Duration::from_secs(30 * 60);

/// The service that names the servers of a federation.
#[derive(Debug, Clone)]
pub(crate) enum Director {
    /// The service of its own.
    At {
        /// The director.
        server: Server,
        /// The path that its requests begin with, without `/` at its end.
        base: String,
        /// Where the federation registers namespaces, if it says so.
        registry: Option<Place>,
    },
    /// A standalone origin: the host itself serves the objects.
    Standalone(Server),
}

/// The directors that discovery hosts named.
#[derive(Debug, Default)]
pub(crate) struct Directors(Mutex<HashMap<String, (Director, Instant)>>);

impl Directors {
    pub(crate) fn known(&self, authority: &str) -> Option<Director> {
        let now = Instant::now();
        let directors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        directors.get(authority).filter(|(_, until)| *until > now).map(|(d, _)| d.clone())
    }

    pub(crate) fn keep(&self, authority: &str, director: Director) {
        let mut directors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        directors.insert(authority.to_owned(), (director, Instant::now() + KEEP_DIRECTOR));
    }
}

/// The namespaces of each federation whose registry was asked.
#[derive(Debug, Default)]
pub(crate) struct Registered(pub(super) Mutex<HashMap<String, Arc<Vec<String>>>>);

/// The answers of discovery hosts and directors.
pub(crate) struct Routes {
    pub(crate) directors: Directors,
    pub(crate) registered: Registered,
    pub(crate) gates: Gates,
    kept: Mutex<Vec<Kept>>,
    /// Questions whose answers hold for one object alone, so that nobody waits for
    /// another's.
    unkept: Mutex<HashSet<String>>,
    preferred: Preferred,
    /// The cache that all reads use, if there is only one.
    only_cache: Option<Server>,
}

/// A director's answer that holds for all objects of a namespace.
struct Kept {
    authority: String,
    verb: Verb,
    query: String,
    namespace: Namespace,
    /// URLs to which the path below the namespace is joined.
    prefixes: Vec<String>,
    brokered: bool,
    until: Instant,
}

impl Routes {
    pub(crate) fn new(preferred: Preferred, only_cache: Option<&str>) -> Result<Self, Error> {
        Ok(Self {
            only_cache: only_cache.map(the_cache).transpose()?,
            directors: Directors::default(),
            registered: Registered::default(),
            gates: Gates::default(),
            kept: Mutex::default(),
            unkept: Mutex::default(),
            preferred,
        })
    }

    /// Whether the user wants certain caches and no other server.
    pub(crate) fn only_preferred(&self) -> bool {
        self.preferred.only || self.only_cache.is_some()
    }

    /// Whether the user named caches.
    pub(crate) fn has_preferred(&self) -> bool {
        !self.preferred.servers.is_empty()
    }

    pub(crate) fn known(&self, url: &Url, verb: Verb, now: Instant) -> Option<Route> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.until > now);
        let fits = |kept: &&Kept| {
            kept.authority == url.authority()
                && kept.verb == verb
                && kept.query == url.query()
                && kept.namespace.below(url.path()).is_some()
        };
        let best = kept.iter().filter(fits).max_by_key(|kept| kept.namespace.prefix.len())?;
        let below = best.namespace.below(url.path())?;
        let places = best.prefixes.iter().filter_map(|prefix| Place::of(&join(prefix, below)));
        Some(Route {
            places: places.collect(),
            namespace: Some(best.namespace.clone()),
            reused: true,
            brokered: best.brokered,
        })
    }

    /// The namespace of `url`, when a director has named it for any purpose.
    pub(crate) fn namespace(&self, url: &Url) -> Option<Namespace> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |kept: &&Kept| {
            kept.authority == url.authority() && kept.namespace.below(url.path()).is_some()
        };
        let best = kept.iter().filter(fits).max_by_key(|kept| kept.namespace.prefix.len());
        best.map(|kept| kept.namespace.clone())
    }

    /// Keeps an answer; returns whether it holds for other objects too.
    pub(crate) fn keep(
        &self,
        url: &Url,
        verb: Verb,
        route: &Route,
        sources: &[Source],
        now: Instant,
    ) -> bool {
        let Some(namespace) = route.namespace.as_ref() else { return false };
        if namespace.below(url.path()).is_none() {
            return false;
        }
        let path = url.path();
        let prefixes: Option<Vec<_>> = sources.iter().map(|s| server_prefix(s, path)).collect();
        // At least one server does not say where its prefix ends, so the answer cannot be used for
        // other objects.
        let Some(prefixes) = prefixes.filter(|prefixes| !prefixes.is_empty()) else {
            return false;
        };
        let fresh = Kept {
            authority: url.authority().to_owned(),
            verb,
            query: url.query().to_owned(),
            namespace: namespace.clone(),
            prefixes,
            brokered: route.brokered,
            until: now + KEEP_ROUTE,
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|old| {
            (&old.authority, old.verb, &old.query, &old.namespace.prefix)
                != (&fresh.authority, fresh.verb, &fresh.query, &fresh.namespace.prefix)
        });
        kept.push(fresh);
        true
    }

    /// Forgets what holds for `url`, so that the director is asked again.
    pub(crate) fn forget(&self, url: &Url, verb: Verb) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| {
            kept.authority != url.authority()
                || kept.verb != verb
                || kept.query != url.query()
                || kept.namespace.below(url.path()).is_none()
        });
    }

    pub(crate) fn is_unkept(&self, question: &str) -> bool {
        self.unkept.lock().unwrap_or_else(PoisonError::into_inner).contains(question)
    }

    /// Notes that the answer holds for one object alone.
    pub(crate) fn unkeep(&self, question: String) {
        self.unkept.lock().unwrap_or_else(PoisonError::into_inner).insert(question);
    }

    /// Makes of a director's route to read what the user wants: one cache alone, or some
    /// before the others.
    pub(crate) fn narrow(&self, url: &Url, route: &mut Route) {
        match &self.only_cache {
            Some(cache) => route.keep_only(cache, url),
            None => self.prefer(url, route),
        }
    }

    /// Puts the caches that the user names before those of a route, or in their place.
    pub(crate) fn prefer(&self, url: &Url, route: &mut Route) {
        let preferred = &self.preferred;
        if preferred.only {
            route.places.clear();
        }
        // A server that the director also names is asked once.
        route.places.retain(|place| !preferred.servers.contains(&place.server));
        let target = url.request_path();
        let places = preferred
            .servers
            .iter()
            .map(|server| Place { server: server.clone(), target: target.clone() });
        route.places.splice(0..0, places);
    }
}

fn the_cache(text: &str) -> Result<Server, Error> {
    match Server::split(text) {
        Some((server, "" | "/")) => Ok(server),
        _ => Err(Error::Setting {
            what: format!("the cache `{}`", gular_files::mask_url(text)),
            reason: "it is not https://HOST[:PORT]".to_owned(),
        }),
    }
}
