//! The options of a federation.

use std::path::PathBuf;
use std::time::Duration;

use super::Error;
use super::name::Name;

/// How a federation serves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder for keys, objects and copies; it is made if it does not exist.
    pub dir: PathBuf,
    /// The port of discovery and director; 0 for any.
    pub port: u16,
    /// The beginning of all object names, such as `/gular`.
    pub namespace: String,
    /// Whether reading needs no token. Writing always needs one.
    pub public_read: bool,
    /// The server that stores objects.
    pub origin: Origin,
    /// The servers that hold copies.
    pub caches: Caches,
    /// The issuer to tell clients of, where the origin is somebody else's and takes
    /// tokens; without one, none is told of. The own origin's is always this federation.
    pub issuer: Option<String>,
    /// Whether clients are told that reading takes a token. The own origin always says so, unless
    /// `public_read` is set.
    pub require_token: bool,
    /// How long every request waits before it is answered. If the own cache has no copy, it waits
    /// twice, since the cache asks the origin.
    pub latency: Duration,
    /// The most bytes per second that clients send and are sent, by all connections to its own
    /// servers together. The own cache fetches from the own origin without a limit.
    pub max_bytes_per_second: Option<u64>,
    /// Whether the own cache removes the copies of earlier runs. This is done only if a federation
    /// was served in `dir` before.
    pub cold: bool,
    /// Whether the own origin's listings have names as they are stored, as XRootD's do, instead of
    /// percent-encoded.
    pub raw_names: bool,
    /// Whether the own origin's listings tell checksums to those who ask for them, as dCache's do.
    pub lists_checksums: bool,
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
            raw_names: false,
            lists_checksums: false,
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
                // These paths are the director's own.
                && !matches!(first, None | Some("api" | ".well-known"))
        };
        Name::parse(&self.namespace)
            .filter(sound)
            .ok_or_else(|| Error::Namespace { namespace: self.namespace.clone() })
    }
}

/// The server that stores objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// This process, below `DIR/origin`.
    Own,
    /// A server at this URL, such as `http://localhost:1094`; for tests against other
    /// servers. The director then only names it.
    External(String),
}

/// The servers that hold copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caches {
    /// This process, below `DIR/cache`.
    Own,
    /// No server: clients are sent to the origin.
    None,
    /// Servers at these URLs, the nearest first.
    External(Vec<String>),
}
