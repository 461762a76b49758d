//! The client: its settings, its threads, and the state that all operations share.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::director::{Namespace, parse_answer};
use crate::http::{Http, Response, Server, Timeouts};
use crate::identity::Identity;
use crate::last_good::LastGood;
use crate::pace::Pace;
use crate::preferred::Preferred;
use crate::route::said;
use crate::routes::Routes;
use crate::servers::Servers;
use crate::token::{Action, Finder, Found, Pick, Want};
use crate::{Diagnosis, Env, Error, Token, Url};

/// A 401 or 403, with the server's words after `: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) said: String,
}

impl From<u16> for Refusal {
    /// A refusal whose words are of no use.
    fn from(status: u16) -> Self {
        Self { status, said: String::new() }
    }
}

/// How often a file is read again that should get a new token.
const TOKEN_POLL: Duration = Duration::from_secs(2);

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
    /// byte this is a sixth of it, unless a server says that it is busy. If all caches have taken
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

/// Reads, writes and lists objects. Cheap to clone; clones share connections and directors'
/// answers.
///
/// Its functions block, so they must not be called from asynchronous code.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) http: Http,
    pub(crate) routes: Routes,
    pub(crate) options: ClientOptions,
    pub(crate) last_good: LastGood,
    pub(crate) servers: Servers,
    pub(crate) pace: Pace,
    finder: Finder,
    /// A token that ended before was of no use from the start.
    begun: SystemTime,
    /// The tokens for which the user was told that the client waits for a new one.
    waited: Mutex<HashSet<(String, SystemTime)>>,
    /// The runtime; `None` only while this is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Does not wait for a name lookup in progress: that can take half a minute.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Client {
    /// Makes a client, which has two threads of its own for the network.
    ///
    /// # Errors
    /// [`Error::Setting`] for a certificate file that cannot be used.
    pub fn new(options: ClientOptions) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("gular-http")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| Error::Setting { what: "threads".into(), reason: e.to_string() })?;
        let timeouts = Timeouts {
            connect: options.connect_timeout,
            stall: options.stall_timeout,
            expect: Duration::from_secs(2),
        };
        let uid = rustix::process::getuid().as_raw();
        let finder = Finder::new(options.token_files.clone(), &options.env, uid);
        let mut warnings = Vec::new();
        let identity = Identity::of(&options.env);
        let http = Http::new(&options.env, timeouts, identity, &mut warnings)?;
        let routes =
            Routes::new(Preferred::of(&options.env, &mut warnings), options.only_cache.as_deref())?;
        for warning in &warnings {
            options.tell.say(warning);
        }
        Ok(Self(Arc::new(Inner {
            last_good: LastGood::new(options.route_folder.clone()),
            http,
            routes,
            finder: if options.find_tokens { finder } else { finder.explicit_only() },
            begun: SystemTime::now(),
            waited: Mutex::default(),
            servers: Servers::default(),
            pace: Pace::new(options.max_bytes_per_second),
            runtime: Some(runtime),
            options,
        })))
    }

    /// Returns the servers that sent wrong bytes for objects which another server sent correctly,
    /// each with those objects.
    #[must_use]
    pub fn wrong_copies(&self) -> Vec<(String, Vec<String>)> {
        self.0.servers.wrong()
    }

    /// Runs `work` to its end, or to the cancel flag.
    pub(crate) fn block<T>(
        &self,
        cancel: &AtomicBool,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(runtime) = &self.0.runtime else { return Err(Error::Cancelled) };
        runtime.block_on(async {
            tokio::select! {
                biased;
                result = work => result.map_err(|error| error.of_job(self.0.http.job_id())),
                () = cancelled(cancel) => Err(Error::Cancelled),
            }
        })
    }
}

async fn cancelled(cancel: &AtomicBool) {
    while !cancel.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(50)).await;
    }
}

impl Inner {
    /// Returns the token to send for `action` on `url`. It is read again each time, since jobs
    /// outlast tokens. Without a namespace it is the one that the user named, or none.
    pub(crate) fn token(
        &self,
        url: &Url,
        action: Action,
        namespace: Option<&Namespace>,
    ) -> Result<Option<Token>, Error> {
        Ok(self.pick(url, action, namespace)?.send.map(|found| found.token))
    }

    pub(crate) fn pick(
        &self,
        url: &Url,
        action: Action,
        namespace: Option<&Namespace>,
    ) -> Result<Pick, Error> {
        let want = Want { token_name: url.token_name(), action, path: url.path(), namespace };
        Ok(self.finder.find(&want, SystemTime::now())?)
    }

    /// The token to send with a read: none to a namespace that wants none.
    pub(crate) async fn read_token(
        &self,
        url: &Url,
        namespace: Option<&Namespace>,
    ) -> Result<Option<Token>, Error> {
        if namespace.is_some_and(|namespace| !namespace.require_token) {
            return Ok(None);
        }
        self.live_token(url, Action::Read, namespace).await
    }

    /// Returns the token for `action`. If the only one has expired while this client was at work,
    /// and is from a file, this waits for a new one until patience ends, since batch systems and
    /// agents renew such files.
    pub(crate) async fn live_token(
        &self,
        url: &Url,
        action: Action,
        namespace: Option<&Namespace>,
    ) -> Result<Option<Token>, Error> {
        let begun = Instant::now();
        loop {
            let pick = self.pick(url, action, namespace)?;
            let Some(found) = pick.send else { return Ok(None) };
            if !self.ended_meanwhile(&found) || begun.elapsed() > self.options.patience {
                return Ok(Some(found.token));
            }
            self.say_that_we_wait(&found);
            sleep(TOKEN_POLL.min(self.options.patience / 4)).await;
        }
    }

    /// Whether a token from a file was valid when the work began, and has expired since.
    fn ended_meanwhile(&self, found: &Found) -> bool {
        found.in_file
            && matches!(found.doubt, Some(Diagnosis::Expired { .. }))
            && found.expires.is_some_and(|expires| expires > self.begun)
    }

    fn say_that_we_wait(&self, found: &Found) {
        let Some(expires) = found.expires else { return };
        let mut waited = self.waited.lock().unwrap_or_else(PoisonError::into_inner);
        if waited.insert((found.from.clone(), expires)) {
            let seconds = self.options.patience.as_secs();
            let from = &found.from;
            self.options.tell.say(&format!(
                "the token from {from} has ended; waiting up to {seconds} s for a new one there"
            ));
        }
    }

    /// Returns where the token for writing is from, and how long it is valid, if it says so.
    pub(crate) fn time_left(
        &self,
        url: &Url,
        namespace: Option<&Namespace>,
    ) -> Result<Option<(String, Duration)>, Error> {
        let Some(found) = self.pick(url, Action::Create, namespace)?.send else { return Ok(None) };
        let Some(expires) = found.expires else { return Ok(None) };
        let left = expires.duration_since(SystemTime::now()).unwrap_or_default();
        Ok(Some((found.from, left)))
    }

    /// Why the token for `action` may be refused, or that there is none.
    pub(crate) fn diagnosis(
        &self,
        url: &Url,
        action: Action,
        namespace: Option<&Namespace>,
    ) -> Result<Diagnosis, Error> {
        let pick = self.pick(url, action, namespace)?;
        let want = Want { token_name: url.token_name(), action, path: url.path(), namespace };
        Ok(self.finder.diagnose(&pick, &want, SystemTime::now()))
    }

    /// Returns the error for a 401 or 403.
    pub(crate) async fn denied(
        &self,
        what: Action,
        url: &Url,
        namespace: Option<&Namespace>,
        server: &Server,
        response: Response,
    ) -> Error {
        let status = response.status;
        // If no director described the namespace, the server itself may do so.
        let told = parse_answer(&response.headers).namespace;
        let refusal = Refusal { status, said: said(response).await };
        self.denied_as(what, url, namespace.or(told.as_ref()), server, refusal)
    }

    /// The error for a 401 or 403 whose words are known.
    pub(crate) fn denied_as(
        &self,
        what: Action,
        url: &Url,
        namespace: Option<&Namespace>,
        server: &Server,
        refusal: Refusal,
    ) -> Error {
        let is_public = namespace.is_some_and(|namespace| !namespace.require_token);
        let diagnosis = match self.diagnosis(url, what, namespace) {
            // No token was sent, so no token is the reason.
            Ok(_) if what == Action::Read && is_public => Diagnosis::Public,
            Ok(diagnosis) => diagnosis,
            Err(error) => return error,
        };
        let Refusal { status, said } = refusal;
        let action = match what {
            Action::Read => "read",
            Action::Create | Action::Modify => "write",
        };
        let (url, server) = (url.to_string(), server.to_string());
        Error::Denied { action, url, server, status, said, diagnosis: Box::new(diagnosis) }
    }
}
