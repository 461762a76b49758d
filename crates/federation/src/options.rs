//! What a federation serves, and how.

use std::path::PathBuf;
use std::time::Duration;

use super::Error;
use super::name::Name;

/// How a federation serves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it keeps its keys, objects and copies; made when there is none.
    pub dir: PathBuf,
    /// The port of discovery and director; 0 for any.
    pub port: u16,
    /// What object names begin with, such as `/gular`.
    pub namespace: String,
    /// Whether reading takes no token. Writing always does.
    pub public_read: bool,
    /// Who stores objects.
    pub origin: Origin,
    /// Who holds copies.
    pub caches: Caches,
    /// The issuer to tell clients of, where the origin is somebody else's and takes
    /// tokens; without one, none is told of. The own origin's is always this federation.
    pub issuer: Option<String>,
    /// Whether clients are told that reading takes a token. The own origin, unless
    /// `public_read`, always says so.
    pub require_token: bool,
    /// How long every request waits before it is answered. Where the own cache has no copy, it
    /// waits twice: the cache asks the origin.
    pub latency: Duration,
    /// The most bytes per second that clients send and are sent, by all connections to its own
    /// servers together. The own cache fetches from the own origin without a limit.
    pub max_bytes_per_second: Option<u64>,
    /// Whether the own cache forgets the copies of earlier runs: only where a federation was
    /// served in `dir` before.
    pub cold: bool,
}

impl Options {
    /// A federation of its own in `dir`: any port, namespace `/gular`, tokens for all.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            port: 0,
            namespace: "/gular".to_owned(),
            public_read: false,
            origin: Origin::Own,
            caches: Caches::Own,
            issuer: None,
            require_token: false,
            latency: Duration::ZERO,
            max_bytes_per_second: None,
            cold: false,
        }
    }

    /// The namespace, when these options make sense.
    pub(super) fn check(&self) -> Result<Name, Error> {
        if matches!((&self.origin, &self.caches), (Origin::External(_), Caches::Own)) {
            return Err(Error::Options {
                reason: "the built-in cache reads only from the built-in origin",
            });
        }
        let sound = |name: &Name| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            let first = name.segments().first().map(String::as_str);
            name.text() == self.namespace
                && name.text().chars().all(plain)
                // The director's own paths.
                && !matches!(first, None | Some("api" | ".well-known"))
        };
        Name::parse(&self.namespace)
            .filter(sound)
            .ok_or_else(|| Error::Namespace { namespace: self.namespace.clone() })
    }
}

/// Who stores objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// This process, below `DIR/origin`.
    Own,
    /// A server at this URL, such as `http://localhost:1094`; for tests against other
    /// servers. The director then only names it.
    External(String),
}

/// Who holds copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caches {
    /// This process, below `DIR/cache`.
    Own,
    /// Nobody: clients are sent to the origin.
    None,
    /// Servers at these URLs, the nearest first.
    External(Vec<String>),
}
