//! The options of a client.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Env;

/// The options of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The environment, which names tokens, certificates, proxies and preferred caches.
    pub env: Env,
    /// Files with the tokens to use, before all that the environment names: each where it
    /// fits, such as one to write with and one to read with.
    pub token_files: Vec<PathBuf>,
    /// Whether to search for a token if [`token_files`](Self::token_files) contain none that fits.
    /// A token that is found is sent only to servers of a federation, for a namespace that trusts
    /// the token's issuer.
    pub find_tokens: bool,
    /// The cache, as `https://HOST[:PORT]`, that all reads of a federation use, and no other server
    /// if it fails. This is for finding out what a cache has, or for filling it.
    pub only_cache: Option<String>,
    /// Time limit for name and TCP; proxy and TLS have half of it in addition.
    pub connect_timeout: Duration,
    /// How long a server may send and receive nothing before it counts as dead.
    pub stall_timeout: Duration,
    /// How long a transfer may make no progress from any server before it fails. Before its first
    /// byte this is a sixth of it, unless a server says that it is busy; then what it sends for
    /// other transfers of the client counts as progress. If all caches have taken
    /// no connection for a third of it, the origin is asked.
    pub patience: Duration,
    /// A cache is slow when it sends fewer bytes per second than this, divided by the number of
    /// bodies that are being received, over half of `stall_timeout`. A slow cache is replaced by
    /// one that was measured to be twice as fast, but never by an origin.
    pub min_bytes_per_second: u64,
    /// The most bytes per second to read and write, by all threads together.
    pub max_bytes_per_second: Option<u64>,
    /// How long a partial object at the origin must be unchanged before it counts as left by an
    /// interrupted upload, and not as one that somebody else is writing.
    pub settle: Duration,
    /// A folder, of which nobody else may write, for the last good route of each namespace;
    /// it is used where bytes are checked by a digest, when a director is down.
    pub route_folder: Option<PathBuf>,
    /// A callback for messages to the user during a transfer, and about settings of the
    /// environment that are not used.
    pub tell: Tell,
}

/// A callback that gets one-line messages for the user during a transfer: what it waits for, or
/// goes without.
#[derive(Clone, Default)]
pub struct Tell(Option<Arc<Hear>>);

type Hear = dyn Fn(&str) + Send + Sync;

impl Tell {
    /// Wraps a callback, which may be called from any thread.
    #[must_use]
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    pub(crate) fn say(&self, text: &str) {
        if let Some(tell) = &self.0 {
            tell(text);
        }
    }
}

impl std::fmt::Debug for Tell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Tell(…)" } else { "Tell(nobody)" })
    }
}

impl ClientOptions {
    /// Timeouts of 10 s (connect), 60 s (stall), 3 min (patience), 10 s (settle);
    /// 100 KiB/s, the limit of Pelican's own client.
    #[must_use]
    pub fn new(env: Env) -> Self {
        Self {
            env,
            token_files: Vec::new(),
            find_tokens: true,
            only_cache: None,
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(60),
            patience: Duration::from_secs(180),
            min_bytes_per_second: 100 << 10,
            max_bytes_per_second: None,
            settle: Duration::from_secs(10),
            route_folder: None,
            tell: Tell::default(),
        }
    }
}
