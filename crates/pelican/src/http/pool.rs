//! Sends requests over connections that are kept open.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::body::Outgoing;
use super::connect::{Connector, Link, Way};
use super::meter::{Meter, MeterIo};
use super::response::{Fault, Response};
use super::server::Server;
use crate::identity::Identity;
use crate::{Env, Error, Token};

/// Most idle connections that are kept for each server.
const MAX_IDLE: usize = 8;

/// Time limits of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// Name and TCP; half as long again for proxy and TLS.
    pub(crate) connect: Duration,
    /// The longest time without a byte in either direction, also while waiting for an answer.
    pub(crate) stall: Duration,
    /// How long to wait for `100 Continue` before the body is sent without it.
    pub(crate) expect: Duration,
}

/// The server that a request is for, which decides its way, and what it reveals about us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A cache or an origin.
    Data,
    /// A discovery host or a director.
    Director,
    /// A server that is not part of a federation.
    Other,
}

/// A request; the bytes of an upload come besides it.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) server: Server,
    /// The path and the query, encoded.
    pub(crate) target: String,
    pub(crate) headers: Vec<(HeaderName, String)>,
    /// The body, where it is a short text that never changes.
    pub(crate) text: Option<&'static str>,
    pub(crate) token: Option<Token>,
    /// Time limit for the head of the answer, if it may take longer than other silences.
    pub(crate) patience: Option<Duration>,
    pub(crate) role: Role,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = gular_files::mask_url(&self.target);
        write!(f, "{} {}{target}", self.method, self.server)
    }
}

impl Request {
    pub(crate) fn new(method: Method, server: &Server, target: impl Into<String>) -> Self {
        let (server, target) = (server.clone(), target.into());
        let (headers, role) = (Vec::new(), Role::Data);
        let (text, token, patience) = (None, None, None);
        Self { method, server, target, headers, text, token, patience, role }
    }

    pub(crate) fn role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    pub(crate) fn header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn text(self, text: &'static str) -> Self {
        Self { text: Some(text), ..self }
    }

    /// Adds `token`, unless others could read it on the way.
    pub(crate) fn token(mut self, token: Option<&Token>) -> Self {
        self.token = token.filter(|_| self.server.keeps_secrets()).cloned();
        self
    }

    /// The request as it goes out on `conn`; `limit`: how long its answer is waited for.
    pub(super) fn build(
        &self,
        conn: &Conn,
        identity: &Identity,
        limit: Option<Duration>,
        body: Outgoing,
    ) -> Result<hyper::Request<Outgoing>, Fault> {
        let prefix = if conn.forwarded { self.server.to_string() } else { String::new() };
        let bad = |e: &dyn fmt::Display| Fault::Request(e.to_string());
        let mut request = hyper::Request::builder()
            .method(self.method.clone())
            .uri(format!("{prefix}{}", self.target))
            .header(HOST, self.server.authority())
            .header(USER_AGENT, identity.agent.as_str());
        if self.role != Role::Other {
            request = request.header("x-pelican-jobid", identity.job_id.as_str());
        }
        // A cache that has to fetch first says so in time, rather than be asked twice.
        let reads = matches!(self.method, Method::GET | Method::HEAD) && self.role == Role::Data;
        if let Some(limit) = limit.filter(|_| reads) {
            let told = limit.saturating_sub(Duration::from_millis(500)).as_secs_f64();
            request = request.header("x-pelican-timeout", format!("{told:.1}s"));
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(token) = &self.token {
            let mut value =
                HeaderValue::try_from(format!("Bearer {}", token.secret())).map_err(|e| bad(&e))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request.body(body).map_err(|e| bad(&e))
    }
}

/// One open connection.
pub(super) struct Conn {
    pub(super) sender: SendRequest<Outgoing>,
    pub(super) meter: Arc<Meter>,
    task: JoinHandle<()>,
    reused: bool,
    forwarded: bool,
}

impl Conn {
    pub(super) fn is_forwarded(&self) -> bool {
        self.forwarded
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The client's connections, shared by all its requests.
#[derive(Clone)]
pub(crate) struct Http {
    connector: Connector,
    pub(super) timeouts: Timeouts,
    pub(super) identity: Identity,
    idle: Idle,
    sent_token: Arc<AtomicBool>,
}

impl Http {
    pub(crate) fn new(
        env: &Env,
        timeouts: Timeouts,
        identity: Identity,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let connector = Connector::new(env, timeouts.connect, warnings)?;
        let (idle, sent_token) = (Idle::default(), Arc::default());
        Ok(Self { connector, timeouts, identity, idle, sent_token })
    }

    /// Whether a server that has objects was sent a token.
    pub(crate) fn sent_token(&self) -> bool {
        self.sent_token.load(Ordering::Relaxed)
    }

    /// The request as it is sent on `conn`.
    pub(super) fn message(
        &self,
        request: &Request,
        conn: &Conn,
        limit: Option<Duration>,
        body: Outgoing,
    ) -> Result<hyper::Request<Outgoing>, Fault> {
        if request.token.is_some() && request.role != Role::Director {
            self.sent_token.store(true, Ordering::Relaxed);
        }
        request.build(conn, &self.identity, limit, body)
    }

    /// The id of this run that is sent to servers.
    pub(crate) fn job_id(&self) -> &str {
        &self.identity.job_id
    }

    /// Sends a request without an upload and waits for the head of the answer.
    ///
    /// A kept connection may have been closed meanwhile, so a request that fails on one is sent
    /// again, once, on a new one. So is a request without any answer within a quarter of the time:
    /// XRootD 5.5.3 now and then reads the first request of a connection and forgets it (seen by
    /// strace, 4 of 120 by curl under load).
    pub(crate) async fn send(&self, request: &Request) -> Result<Response, Fault> {
        let response = self.send_any_way(request).await?;
        let by_proxy = matches!(response.status, 403 | 405 | 407 | 502..=504);
        if !(by_proxy && response.is_forwarded()) {
            return Ok(response);
        }
        // Perhaps it is the proxy that says so, and not the server.
        let Ok(mut conn) = self.conn_of(self.connector.bypass(&request.server).await).await else {
            return Ok(response);
        };
        match self.send_on(&mut conn, request, self.timeouts.stall).await {
            Ok(answer) => Ok(self.response(request, answer, conn)),
            Err(_) => Ok(response),
        }
    }

    async fn send_any_way(&self, request: &Request) -> Result<Response, Fault> {
        let mut conn = self.conn(request, true).await?;
        let whole = request.patience.unwrap_or(self.timeouts.stall);
        // A patience of its own is what the server needs to find the answer.
        let mut limit = if request.patience.is_none() { whole / 4 } else { whole };
        let mut silent_before = false;
        loop {
            let reused = conn.reused;
            let fault = match self.send_on(&mut conn, request, limit).await {
                Ok(answer) => return Ok(self.response(request, answer, conn)),
                Err(fault) => fault,
            };
            let silent = matches!(fault, Fault::Stalled { .. });
            let last = if silent { silent_before } else { !reused };
            if last {
                return Err(fault);
            }
            (limit, silent_before) = (whole, silent_before || silent);
            conn = self.conn(request, false).await?;
        }
    }

    async fn send_on(
        &self,
        conn: &mut Conn,
        request: &Request,
        limit: Duration,
    ) -> Result<hyper::Response<Incoming>, Fault> {
        let body = request.text.map_or(Outgoing::Empty, |text| Outgoing::Text(text.into()));
        let message = self.message(request, conn, Some(limit), body)?;
        match timeout(limit, conn.sender.send_request(message)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Fault::lost(&error, &conn.meter)),
            Err(_) => Err(Fault::Stalled { after: limit }),
        }
    }

    pub(super) fn response(
        &self,
        request: &Request,
        answer: hyper::Response<Incoming>,
        conn: Conn,
    ) -> Response {
        let home = (self.idle.clone(), request.server.clone());
        let stall = self.timeouts.stall;
        let mut response = Response::new(answer, Some(conn), home, stall, request.token.clone());
        // A server that does not do what the text asks for may not have read it either, and would
        // take it for the next request. XRootD 5.5.3 closes such connections itself.
        if request.text.is_some() && response.status != 207 {
            response.detach(None);
        }
        response
    }

    /// A connection that is ready: a kept one when `kept` allows it, else a new one.
    pub(super) async fn conn(&self, request: &Request, kept: bool) -> Result<Conn, Fault> {
        let server = &request.server;
        while let Some(mut conn) = kept.then(|| self.idle.take(server)).flatten() {
            if conn.sender.ready().await.is_ok() {
                conn.reused = true;
                return Ok(conn);
            }
        }
        let usual = if request.role == Role::Data { Way::Direct } else { Way::Proxy };
        self.conn_of(self.connector.connect(server, usual).await).await
    }

    /// Looks up the server's name, for those who want to know whether it has one.
    pub(crate) async fn resolve(&self, server: &Server) -> std::io::Result<()> {
        let limit = self.timeouts.connect;
        timeout(limit, server.resolve()).await.unwrap_or_else(|_| {
            let why = format!("no answer within {limit:?}");
            Err(std::io::Error::new(std::io::ErrorKind::TimedOut, why))
        })
    }

    /// Opens a connection, which the next request is sent on.
    pub(crate) async fn open(&self, server: &Server, role: Role) -> Result<(), Fault> {
        let request = Request::new(Method::GET, server, "/").role(role);
        let conn = self.conn(&request, false).await?;
        self.idle.put(server, conn);
        Ok(())
    }

    async fn conn_of(&self, link: Result<Link, Fault>) -> Result<Conn, Fault> {
        let Link { stream, forwarded } = link?;
        let (io, meter) = MeterIo::new(stream);
        let (sender, connection) = http1::Builder::new()
            .title_case_headers(true)
            .max_headers(128)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|e| Fault::Connect(e.to_string()))?;
        // If the connection fails, the request on it returns the error.
        let task = tokio::spawn(async move { drop(connection.await) });
        Ok(Conn { sender, meter, task, reused: false, forwarded })
    }
}

/// Connections without a current request.
#[derive(Clone, Default)]
pub(super) struct Idle(Arc<Mutex<HashMap<Server, Vec<Conn>>>>);

impl Idle {
    fn take(&self, server: &Server) -> Option<Conn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(server)?.pop()
    }

    pub(super) fn put(&self, server: &Server, conn: Conn) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(server.clone()).or_default();
        if kept.len() < MAX_IDLE {
            kept.push(conn);
        }
    }
}
