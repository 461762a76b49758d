//! The federation as a whole.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use gular_files::Lock;
use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::access::Guard;
use super::authority;
use super::cache::Cache;
use super::collection::Listing;
use super::counters::{Counters, Counts};
use super::director::{Director, Trouble};
use super::folder::{CA_FILE, Folder, State};
use super::issuer::Issuer;
use super::line::Line;
use super::origin;
use super::serve::{Handler, serve};
use super::store::Store;
use super::{Caches, Error, Options, Origin};

/// A federation that serves until it is dropped.
pub struct Federation {
    url: String,
    ca_file: PathBuf,
    origin: String,
    caches: Vec<String>,
    counters: Arc<Counters>,
    /// Discovery and director.
    front: JoinHandle<()>,
    trouble: Arc<AtomicU8>,
    runtime: Option<Runtime>,
    /// The lock is dropped last, which frees the folder.
    _lock: Lock,
}

impl Federation {
    /// Starts a federation; it serves when this returns.
    ///
    /// # Errors
    /// [`Error::Served`] when a living process serves the folder; [`Error::NotOurs`] when it
    /// is to forget copies in a folder that it did not make; [`Error::Listen`]
    /// when the port is taken; [`Error::Namespace`] and [`Error::Options`] when
    /// `options` make no sense; the others when the folder cannot be used.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let namespace = options.check()?;
        let folder = Folder::create(&options.dir)?;
        let copies = folder.path("cache");
        if options.cold && copies.exists() && !folder.was_served() {
            return Err(Error::NotOurs { path: copies });
        }
        let lock = folder.lock()?;
        let partial = folder.folder(".gular-partial")?;
        // A process that was killed may have left files there.
        std::fs::remove_dir_all(&partial).map_err(Error::io("clear", &partial))?;
        let partial = folder.folder(".gular-partial")?;
        let tls = authority::acceptor(&folder)?;
        let runtime = runtime()?;
        let counters = Arc::new(Counters::default());
        let line = Arc::new(Line::new(options.latency, options.max_bytes_per_second));

        let front = Listener::bind(&runtime, options.port)?;
        let discovery = front.url.clone();
        let issuer = Arc::new(Issuer::open(&folder, discovery.clone())?);
        let guard = Arc::new(Guard {
            issuer: Arc::clone(&issuer),
            namespace: namespace.clone(),
            public_read: options.public_read,
        });

        let mut own_origin = None;
        let origin = match &options.origin {
            Origin::External(url) => url.trim_end_matches('/').to_owned(),
            Origin::Own => {
                let root = folder.folder("origin")?;
                let top =
                    namespace.segments().iter().fold(root.clone(), |path, part| path.join(part));
                std::fs::create_dir_all(&top).map_err(Error::io("make the folder", &top))?;
                let origin = Arc::new(origin::Origin {
                    store: Store::new(root, partial.clone()),
                    guard: Arc::clone(&guard),
                    counters: Arc::clone(&counters),
                    line: Arc::clone(&line),
                    listing: Listing {
                        raw_names: options.raw_names,
                        checksums: options.lists_checksums,
                    },
                });
                let listener = Listener::bind(&runtime, 0)?;
                let url = listener.url.clone();
                listener.serve(&runtime, &tls, &line, Arc::clone(&origin));
                own_origin = Some(origin);
                url
            }
        };
        let caches = match (&options.caches, own_origin) {
            (Caches::Own, Some(origin)) => {
                let copies = folder.folder("cache")?;
                if options.cold {
                    std::fs::remove_dir_all(&copies).map_err(Error::io("clear", &copies))?;
                }
                let store = Store::new(folder.folder("cache")?, partial);
                let cache = Arc::new(Cache::new(store, origin, guard, Arc::clone(&counters)));
                let listener = Listener::bind(&runtime, 0)?;
                let url = listener.url.clone();
                listener.serve(&runtime, &tls, &line, cache);
                vec![url]
            }
            (Caches::External(urls), _) => {
                urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect()
            }
            (Caches::Own | Caches::None, _) => Vec::new(),
        };
        let is_own = options.origin == Origin::Own;
        let trouble = Arc::new(AtomicU8::new(0));
        let director = Director {
            url: discovery.clone(),
            namespace: namespace.clone(),
            origin: origin.clone(),
            caches: caches.clone(),
            require_token: options.require_token || (is_own && !options.public_read),
            advertised_issuer: if is_own {
                Some(discovery.clone())
            } else {
                options.issuer.clone()
            },
            issuer,
            counters: Arc::clone(&counters),
            trouble: Arc::clone(&trouble),
        };
        let url = format!("{}{}", discovery.replacen("https", "pelican", 1), namespace.text());
        folder.write_state(&State {
            url: url.clone(),
            namespace: namespace.text(),
            issuer: discovery,
            pid: std::process::id(),
        })?;
        let front = front.serve(&runtime, &tls, &line, Arc::new(director));
        let (ca_file, runtime) = (folder.path(CA_FILE), Some(runtime));
        Ok(Self { url, ca_file, origin, caches, counters, front, trouble, runtime, _lock: lock })
    }

    /// The namespace: `pelican://localhost:PORT/gular`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The certificate that clients must trust, in PEM; an absolute path.
    #[must_use]
    pub fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    /// The origin's URL: `https://localhost:PORT`.
    #[must_use]
    pub fn origin_url(&self) -> String {
        self.origin.clone()
    }

    /// The URL of the nearest cache, if there is one.
    #[must_use]
    pub fn cache_url(&self) -> Option<String> {
        self.caches.first().cloned()
    }

    /// Lets the director fail from now on, as directors do; caches and origin serve on.
    pub fn trouble(&self, trouble: Trouble) {
        self.trouble.store(trouble as u8, Ordering::Relaxed);
        if trouble == Trouble::Down {
            self.front.abort();
        }
    }

    /// The bytes of each object that clients were sent so far, by cache or origin, by its name.
    #[must_use]
    pub fn bytes_sent(&self) -> BTreeMap<String, u64> {
        self.counters.bytes_sent()
    }

    /// The number of requests so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }
}

impl Drop for Federation {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        // If the caller runs in a runtime of its own, waiting here would make tokio panic.
        if Handle::try_current().is_ok() {
            runtime.shutdown_background();
        } else {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

impl fmt::Debug for Federation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Federation").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A socket on this machine's own address, and on no other.
struct Listener {
    socket: TcpListener,
    url: String,
}

impl Listener {
    fn bind(runtime: &Runtime, port: u16) -> Result<Self, Error> {
        let bind = || {
            let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
            socket.set_nonblocking(true)?;
            let port = socket.local_addr()?.port();
            let _context = runtime.enter();
            let url = format!("https://localhost:{port}");
            Ok(Self { socket: TcpListener::from_std(socket)?, url })
        };
        bind().map_err(|source| Error::Listen { port, source })
    }

    fn serve<H: Handler>(
        self,
        runtime: &Runtime,
        tls: &TlsAcceptor,
        line: &Arc<Line>,
        handler: Arc<H>,
    ) -> JoinHandle<()> {
        runtime.spawn(serve(self.socket, tls.clone(), Arc::clone(line), handler))
    }
}

fn runtime() -> Result<Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("federation")
        .enable_all()
        .build()
        .map_err(|e| Error::Make { what: "threads", reason: e.to_string() })
}
