//! The client: its settings, its threads, and the parts that do the work.

use std::sync::Arc;
use std::time::Duration;

use gular_files::{Env, Watch};
use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::Error;
use crate::credentials::Credentials;
use crate::http::{Http, Timeouts};
use crate::identity::Identity;
use crate::options::ClientOptions;
use crate::pace::Pace;
use crate::reader::Reader;
use crate::reader::servers::Servers;
use crate::router::Router;
use crate::router::last_good::LastGood;
use crate::router::preferred::Preferred;
use crate::router::routes::Routes;
use crate::writer::Writer;

/// Reads, writes and lists objects. Cheap to clone; clones share connections and directors'
/// answers.
///
/// Its functions block, so they must not be called from asynchronous code.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) options: Arc<ClientOptions>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) router: Arc<Router>,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) pace: Arc<Pace>,
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
        let mut warnings = Vec::new();
        let identity = Identity::of(&options.env);
        let http = Http::new(&options.env, timeouts, identity, &mut warnings)?;
        let routes =
            Routes::new(Preferred::of(&options.env, &mut warnings), options.only_cache.as_deref())?;
        for warning in &warnings {
            options.tell.say(warning);
        }
        let pace = Arc::new(Pace::new(options.max_bytes_per_second));
        let options = Arc::new(options);
        let credentials = Arc::new(Credentials::new(&options));
        let router = Arc::new(Router {
            http,
            routes,
            last_good: LastGood::new(options.route_folder.clone()),
            credentials: Arc::clone(&credentials),
            options: Arc::clone(&options),
        });
        let reader = Reader {
            router: Arc::clone(&router),
            credentials: Arc::clone(&credentials),
            servers: Servers::default(),
            pace: Arc::clone(&pace),
            options: Arc::clone(&options),
        };
        let writer = Writer {
            router: Arc::clone(&router),
            credentials: Arc::clone(&credentials),
            pace: Arc::clone(&pace),
            options: Arc::clone(&options),
        };
        let runtime = Some(runtime);
        Ok(Self(Arc::new(Inner { options, credentials, router, reader, writer, pace, runtime })))
    }

    /// The environment that the client was made with.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.0.options.env
    }

    /// Returns the servers that sent wrong bytes for objects which another server sent correctly,
    /// each with those objects.
    #[must_use]
    pub fn wrong_copies(&self) -> Vec<(String, Vec<String>)> {
        self.0.reader.servers.wrong()
    }

    /// Returns whether a cache, an origin or another server with objects was sent a token.
    #[must_use]
    pub fn sent_token(&self) -> bool {
        self.0.router.http.sent_token()
    }

    /// Runs `work` to its end, or to the cancel flag.
    pub(crate) fn block<T>(
        &self,
        watch: Watch<'_>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(runtime) = &self.0.runtime else { return Err(Error::Cancelled) };
        runtime.block_on(async {
            tokio::select! {
                biased;
                result = work => result.map_err(|error| error.of_job(self.0.router.http.job_id())),
                () = cancelled(watch) => Err(Error::Cancelled),
            }
        })
    }
}

async fn cancelled(watch: Watch<'_>) {
    while !watch.is_cancelled() {
        sleep(Duration::from_millis(50)).await;
    }
}
