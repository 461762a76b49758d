//! A route to an object: its servers and request targets, best first.

use std::time::{Duration, SystemTime};

use hyper::Method;
use hyper::header::HeaderName;

use crate::Url;
use crate::director::Namespace;
use crate::http::{Response, Server};
use crate::retry;
use crate::token::Action;

/// The action that servers are needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    /// Reads from caches, if there are any.
    Read,
    /// Reads from the origin.
    ReadOrigin,
    /// Writes a new object.
    Write,
    /// Look at an object or collection without its members.
    Stat,
    /// Lists a collection.
    List,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read | Self::ReadOrigin => "read",
            Self::Write => "write",
            Self::Stat | Self::List => "list",
        }
    }

    /// The `Depth` of a `PROPFIND`.
    pub(crate) fn depth(self) -> &'static str {
        if self == Self::Stat { "0" } else { "1" }
    }

    pub(crate) fn lists(self) -> bool {
        matches!(self, Self::Stat | Self::List)
    }

    pub(crate) fn action(self) -> Action {
        match self {
            Self::Write => Action::Create,
            _ => Action::Read,
        }
    }

    pub(crate) fn method(self) -> Method {
        match self {
            Self::Read | Self::ReadOrigin => Method::GET,
            Self::Write => Method::PUT,
            Self::Stat | Self::List => propfind(),
        }
    }
}

/// The WebDAV method, which hyper knows no constant for.
pub(crate) fn propfind() -> Method {
    Method::from_bytes(b"PROPFIND").unwrap_or(Method::OPTIONS)
}

/// One server that has, or takes, the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) server: Server,
    /// The path and the query, encoded.
    pub(crate) target: String,
}

impl Place {
    pub(crate) fn of(url: &str) -> Option<Self> {
        let (server, target) = Server::split(url)?;
        Some(Self { server, target: target.to_owned() })
    }
}

/// The places to try, the best first.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) places: Vec<Place>,
    pub(crate) namespace: Option<Namespace>,
    /// Whether the director's answer was for another object of the namespace.
    pub(crate) reused: bool,
    /// Whether the director says that clients cannot connect to the origin.
    pub(crate) brokered: bool,
}

impl Route {
    pub(crate) fn of(places: Vec<Place>) -> Self {
        Self { places, namespace: None, reused: false, brokered: false }
    }

    /// Uses the director's entry for it, if there is one: a server may be a cache below one path,
    /// and an origin below another.
    pub(crate) fn keep_only(&mut self, cache: &Server, url: &Url) {
        self.places.retain(|place| place.server == *cache);
        self.places.truncate(1);
        if self.places.is_empty() {
            self.places.push(Place { server: cache.clone(), target: url.request_path() });
        }
    }
}

/// The wait that an answer's `Retry-After` asks for.
pub(crate) fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.header("retry-after")?;
    retry::retry_after(value, response.header("date"), SystemTime::now())
}

/// The words of an error, after `: `; nothing when it has none.
pub(crate) async fn said(response: Response) -> String {
    let message = response.message().await;
    if message.is_empty() { message } else { format!(": {message}") }
}

/// A header that hyper has no constant for.
pub(crate) fn header(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}
