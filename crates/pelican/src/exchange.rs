//! One request to a server outside of any federation, for protocols that this crate does not know,
//! such as that of image registries. Connections, proxies, certificates, stall detection and the
//! retry policy are those of all other transfers.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gular_files::Watch;
use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderName};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::client::Client;
use crate::error::Error;
use crate::http::{Fault, Request, Response, Role, Server, Upload};
use crate::retry::{Policy, Retry};
use crate::route::{Place, retry_after};
use crate::router::redirect::next;

/// Bytes of a body that are handed to the connection at a time.
const PIECE: usize = 256 << 10;
/// The most bytes that are kept of an answer that is not a success.
const MAX_MESSAGE: usize = 64 << 10;

/// A request.
#[derive(Clone)]
pub struct Exchange {
    /// The method: `GET`, `HEAD`, `POST`, `PATCH` or `PUT`.
    pub method: &'static str,
    /// The URL: `http[s]://HOST[:PORT]/PATH[?QUERY]`.
    pub url: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The value of `Authorization`, which is sent over TLS or to this machine alone.
    pub authorization: Option<String>,
    /// The body of the request; `None` and an empty body are not the same.
    pub body: Option<Arc<[u8]>>,
}

impl Exchange {
    /// A request with nothing but its method and URL.
    pub fn new(method: &'static str, url: impl Into<String>) -> Self {
        let (headers, authorization, body) = (Vec::new(), None, None);
        Self { method, url: url.into(), headers, authorization, body }
    }

    /// Adds a header, with its name in lower case.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, bytes: impl Into<Arc<[u8]>>) -> Self {
        self.body = Some(bytes.into());
        self
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.split('?').next().unwrap_or_default();
        write!(f, "{} {url}", self.method)
    }
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub struct Answered {
    /// The HTTP status.
    pub status: u16,
    /// The headers, with names in lower case, in order, repeated ones included.
    pub headers: Vec<(String, String)>,
    /// The body of an answer that is not a success, at most 64 KiB of it.
    pub body: Vec<u8>,
    /// How long the server asks to wait before the next request.
    pub retry_after: Option<Duration>,
}

impl Answered {
    /// The first header of that name, which is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim())
    }
}

/// Why there was no complete answer.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeFault {
    /// The cancel flag was set.
    #[error("stopped")]
    Cancelled,
    /// The receiver of the bytes could not store them.
    #[error("{0}")]
    Sink(io::Error),
    /// Another attempt may succeed.
    #[error("{0}")]
    Passing(String),
    /// No other attempt will succeed.
    #[error("{0}")]
    Lasting(String),
}

/// Counts the attempts of one operation.
pub struct Trials {
    client: Client,
    retry: Retry,
}

impl fmt::Debug for Trials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.retry.fmt(f)
    }
}

impl Client {
    /// Sends a request and waits for all of its answer. The body of a success goes to `sink`,
    /// in order; a redirect is an answer like others.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub fn exchange(
        &self,
        exchange: &Exchange,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
        watch: Watch<'_>,
    ) -> Result<Answered, ExchangeFault> {
        let done = self.block(watch, async { Ok(self.exchanged(exchange, sink).await) });
        done.unwrap_or(Err(ExchangeFault::Cancelled))
    }

    /// Begins the first attempt of an operation.
    #[must_use]
    pub fn trials(&self) -> Trials {
        let retry = Retry::new(Policy::EXCHANGE, self.0.options.patience, Instant::now());
        Trials { client: self.clone(), retry }
    }

    async fn exchanged(
        &self,
        exchange: &Exchange,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Answered, ExchangeFault> {
        let request = request_of(exchange)?;
        let answer = match &exchange.body {
            None => self.0.router.http.send(&request).await,
            Some(body) => {
                let source = source_of(body).await;
                let len = body.len() as u64;
                self.0.pace.wait(len).await;
                let storing = self.0.options.patience;
                let upload = Upload { len, expect: false, storing, source };
                self.0.router.http.upload(&request, upload).await.0
            }
        };
        let mut answer = answer.map_err(fault)?;
        let mut answered = Answered {
            status: answer.status,
            headers: std::mem::take(&mut answer.headers),
            body: Vec::new(),
            retry_after: None,
        };
        if !(200..300).contains(&answered.status) {
            answer.headers.clone_from(&answered.headers);
            answered.retry_after = retry_after(&answer);
            answered.body = message(answer).await;
            return Ok(answered);
        }
        while let Some(bytes) = answer.chunk().await.map_err(fault)? {
            sink(&bytes).map_err(ExchangeFault::Sink)?;
            self.0.pace.wait(bytes.len() as u64).await;
        }
        Ok(answered)
    }
}

impl Trials {
    /// Waits before the next trial; `false`: that was the last.
    ///
    /// # Errors
    /// [`ExchangeFault::Cancelled`].
    pub fn again(
        &mut self,
        asked: Option<Duration>,
        watch: Watch<'_>,
    ) -> Result<bool, ExchangeFault> {
        let Some(wait) = self.retry.again(asked, Instant::now()) else { return Ok(false) };
        let waited = self.client.block(watch, async {
            sleep(wait).await;
            Ok(())
        });
        waited.map(|()| true).map_err(|_: Error| ExchangeFault::Cancelled)
    }

    /// Records progress, after which trials are counted from the start.
    pub fn progressed(&mut self) {
        let patience = self.client.0.options.patience;
        self.retry = Retry::new(Policy::EXCHANGE, patience, Instant::now());
    }
}

/// The URL to which the `Location` of an answer from `url` leads; `None` if it is not a URL, or is
/// less safe than `url`.
#[must_use]
pub fn url_of_location(url: &str, location: &str) -> Option<String> {
    let Place { server, target } = next(&Place::of(url)?, location)?;
    Some(format!("{server}{target}"))
}

/// Returns a channel with all pieces of a body that is in memory.
async fn source_of(
    body: &Arc<[u8]>,
) -> mpsc::Receiver<Result<Bytes, Box<dyn std::error::Error + Send + Sync>>> {
    let (to, source) = mpsc::channel(body.len().div_ceil(PIECE).max(1));
    let whole = Bytes::from_owner(Arc::clone(body));
    for begin in (0..body.len()).step_by(PIECE) {
        let end = begin.saturating_add(PIECE).min(body.len());
        // The channel has space for all of them.
        let _ = to.send(Ok(whole.slice(begin..end))).await;
    }
    source
}

fn request_of(exchange: &Exchange) -> Result<Request, ExchangeFault> {
    let lasting = |reason: String| ExchangeFault::Lasting(reason);
    let (server, target) = Server::split(&exchange.url)
        .filter(|(_, target)| {
            target.starts_with('/') && target.bytes().all(|b| b.is_ascii_graphic())
        })
        .ok_or_else(|| lasting("it is not the URL of a server".to_owned()))?;
    let method = Method::from_bytes(exchange.method.as_bytes())
        .map_err(|e| lasting(format!("method `{}`: {e}", exchange.method)))?;
    let mut request = Request::new(method, &server, target).role(Role::Other);
    for (name, value) in &exchange.headers {
        request = request.header(HeaderName::from_static(name), value);
    }
    if let Some(authorization) = &exchange.authorization {
        if !server.keeps_secrets() {
            let reason = "it asks for a password or a token, which are sent over TLS only";
            return Err(lasting(reason.to_owned()));
        }
        request = request.header(AUTHORIZATION, authorization);
    }
    Ok(request)
}

/// The beginning of a body that tells of an error.
async fn message(mut answer: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = answer.chunk().await {
        let room = MAX_MESSAGE.saturating_sub(body.len());
        body.extend_from_slice(bytes.get(..room).unwrap_or(&bytes));
        if room < bytes.len() {
            break;
        }
    }
    body
}

fn fault(fault: Fault) -> ExchangeFault {
    match fault {
        Fault::Tls(..) | Fault::Request(_) => ExchangeFault::Lasting(fault.to_string()),
        fault => ExchangeFault::Passing(fault.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_goes_over_tls_or_to_this_machine_and_shows_nowhere() {
        for (url, sent) in [
            ("https://q.io/v2/?s=query", true),
            ("http://127.0.0.1:5000/v2/", true),
            ("http://q.io/v2/", false),
        ] {
            let authorization = Some("Basic s3cret".to_owned());
            let exchange = Exchange { authorization, ..Exchange::new("GET", url) };
            let shown = match request_of(&exchange) {
                Ok(request) => {
                    assert!(sent && request.headers.iter().any(|(_, v)| v == "Basic s3cret"));
                    format!("{request:?}{exchange:?}")
                }
                Err(fault) => {
                    assert!(!sent, "{url}: {fault}");
                    format!("{fault}{fault:?}{exchange:?}")
                }
            };
            assert!(!shown.contains("s3cret") && !format!("{exchange:?}").contains("query"));
        }
        for url in ["q.io", "ftp://q.io/", "https://q.io", "https://q.io/a b"] {
            let exchange = Exchange::new("GET", url);
            assert!(matches!(request_of(&exchange), Err(ExchangeFault::Lasting(_))), "{url}");
        }
    }
}
