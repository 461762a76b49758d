//! Connects to a server by name: TCP, a proxy if one is set, TLS.
//!
//! ```text
//! caches, origins        direct ──▶ proxy     as Pelican's own client: proxies let few
//! discovery, directors   proxy  ──▶ direct    pass to ports such as 8443
//! ```
//!
//! The second way is tried when the first gives no connection, and is then the first for
//! that server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsConnector, rustls};

use super::dial::dial;
use super::meter::Stream;
use super::proxy::{Proxies, Proxy};
use super::response::Fault;
use super::server::Server;
use super::tls;
use crate::{Cause, Env, Error};

/// The way to a server: direct, or through a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The connection goes to the server itself.
    Direct,
    /// The connection goes through the proxy.
    Proxy,
}

impl Way {
    fn other(self) -> Self {
        match self {
            Self::Direct => Self::Proxy,
            Self::Proxy => Self::Direct,
        }
    }
}

/// An open connection to a server or proxy.
pub(super) struct Link {
    pub(super) stream: Box<dyn Stream>,
    /// Whether a proxy reads and forwards the requests, so that they must name the server before
    /// the path.
    pub(super) forwarded: bool,
}

/// Opens streams to servers.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: TlsConnector,
    proxies: Proxies,
    /// Time limit for name and TCP; proxy and TLS have half of it in addition.
    limit: Duration,
    /// The way that served when the usual one did not.
    served: Arc<Mutex<HashMap<Server, Way>>>,
}

impl Connector {
    pub(crate) fn new(
        env: &Env,
        limit: Duration,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let tls = TlsConnector::from(Arc::new(tls::config(env, warnings)?));
        let proxies = Proxies::of(env, warnings);
        Ok(Self { tls, proxies, limit, served: Arc::default() })
    }

    /// A stream to `server`, by the way that `usual` says or the one that served before;
    /// by the other one when that gives no connection.
    pub(super) async fn connect(&self, server: &Server, usual: Way) -> Result<Link, Fault> {
        let Some(proxy) = self.proxies.for_server(server) else {
            return self.open(server, None).await;
        };
        let first = self.served().get(server).copied().unwrap_or(usual);
        let by = |way| (way == Way::Proxy).then_some(proxy);
        let fault = match self.open(server, by(first)).await {
            // A certificate that is not trusted is the server's by either way.
            result @ (Ok(_) | Err(Fault::Tls(..))) => return result,
            Err(fault) => fault,
        };
        match self.open(server, by(first.other())).await {
            Ok(link) => {
                self.served().insert(server.clone(), first.other());
                Ok(link)
            }
            Err(second) => {
                let (direct, by_proxy) =
                    if first == Way::Direct { (fault, second) } else { (second, fault) };
                let bare = |fault: &Fault| match fault {
                    Fault::Connect(why) => why.clone(),
                    fault => fault.to_string(),
                };
                let (direct, by_proxy) = (bare(&direct), bare(&by_proxy));
                Err(Fault::Proxy(format!("{direct}; {by_proxy}")))
            }
        }
    }

    /// A stream that no proxy is in, to a server whose proxy fails; from now on the first
    /// way there.
    pub(super) async fn bypass(&self, server: &Server) -> Result<Link, Fault> {
        let link = self.open(server, None).await?;
        self.served().insert(server.clone(), Way::Direct);
        Ok(link)
    }

    async fn open(&self, server: &Server, proxy: Option<&Proxy>) -> Result<Link, Fault> {
        let named = |fault: String| match proxy {
            Some(proxy) => Fault::Connect(format!("proxy {proxy}: {fault}")),
            None => Fault::Connect(fault),
        };
        let dialled = match proxy {
            Some(proxy) => timeout(self.limit, dial(&proxy.host, proxy.port)).await,
            None => timeout(self.limit, dial(server.bare_host(), server.port())).await,
        };
        let mut tcp = match (dialled, proxy) {
            (Ok(Ok(tcp)), _) => tcp,
            (Ok(Err(error)), _) => return Err(named(error.to_string())),
            (Err(_), None) => return Err(Fault::ConnectTimeout { after: self.limit }),
            (Err(_), Some(_)) => return Err(named(format!("no connection in {:?}", self.limit))),
        };
        tcp.set_nodelay(true).map_err(|e| named(e.to_string()))?;
        if !server.is_tls() {
            return Ok(Link { stream: Box::new(tcp), forwarded: proxy.is_some() });
        }
        let limit = self.limit + self.limit / 2;
        let secured = async {
            if let Some(proxy) = proxy {
                proxy.tunnel(&mut tcp, server).await?;
            }
            self.secure(tcp, server).await
        };
        let stream = timeout(limit, secured).await.unwrap_or_else(|_| {
            Err(named(format!(
                "connected, but the TLS handshake was not complete within {limit:?}"
            )))
        })?;
        Ok(Link { stream, forwarded: false })
    }

    async fn secure(&self, tcp: TcpStream, server: &Server) -> Result<Box<dyn Stream>, Fault> {
        let name = ServerName::try_from(server.bare_host().to_owned())
            .map_err(|e| Fault::Tls(e.to_string(), Cause::Other))?;
        let stream = self.tls.connect(name, tcp).await.map_err(|e| {
            // A handshake that was cut says nothing of a certificate, and passes.
            let protocol = e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
            protocol.map_or_else(|| Fault::Connect(e.to_string()), Fault::tls)
        })?;
        Ok(Box::new(stream))
    }

    fn served(&self) -> std::sync::MutexGuard<'_, HashMap<Server, Way>> {
        // Only whole values are inserted, so a panic elsewhere leaves the map valid.
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
