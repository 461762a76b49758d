//! A server's response, and what can go wrong on the way.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::meter::Meter;
use super::pool::{Conn, Idle};
use super::server::Server;
use crate::error::Blamed;
use crate::{Cause, Token};

/// Bytes per second of a server that is slow and still of use.
const LEAST_RATE: f64 = (100 << 10) as f64;

/// Why there is no whole answer. The text never contains a token or a `Location`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no connection: name, route, refusal, proxy.
    Connect(String),
    /// There is no connection, neither through the proxy nor without it.
    Proxy(String),
    /// There was no connection within the limit.
    ConnectTimeout { after: Duration },
    /// The certificate or the protocol is not accepted.
    Tls(String, Cause),
    /// The server took the connection, but then sent nothing.
    Stalled { after: Duration },
    /// The connection ended before the answer did.
    Lost(String),
    /// The server broke the protocol, or answered more than it may.
    Protocol(String),
    /// The body to be sent could not be read.
    Source(String),
    /// The request cannot be encoded.
    Request(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(why) | Self::Proxy(why) => write!(f, "cannot connect: {why}"),
            Self::ConnectTimeout { after } => write!(f, "no connection within {after:?}"),
            Self::Tls(why, _) => write!(f, "TLS: {why}"),
            Self::Stalled { after } => write!(f, "no data for {after:?}"),
            Self::Lost(why) => write!(f, "the connection was lost: {why}"),
            Self::Protocol(why) | Self::Source(why) | Self::Request(why) => f.write_str(why),
        }
    }
}

impl From<&Fault> for Blamed {
    fn from(fault: &Fault) -> Self {
        Self::new(fault, fault.cause())
    }
}

impl Fault {
    /// Whether the fault is that the server took no connection.
    pub(crate) fn is_connection(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Proxy(_) | Self::ConnectTimeout { .. })
    }

    /// The kind of the fault.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Self::Connect(_) | Self::ConnectTimeout { .. } => Cause::Connection,
            Self::Proxy(_) => Cause::Proxy,
            Self::Tls(_, cause) => *cause,
            _ => Cause::Other,
        }
    }

    /// Explains why a server's certificate or protocol was not accepted.
    pub(super) fn tls(error: &rustls::Error) -> Self {
        use rustls::CertificateError as E;
        let cause = match error {
            rustls::Error::InvalidCertificate(certificate) => match certificate {
                E::Expired
                | E::ExpiredContext { .. }
                | E::NotValidYet
                | E::NotValidYetContext { .. } => Cause::Time,
                E::NotValidForName | E::NotValidForNameContext { .. } => Cause::OtherHost,
                _ => Cause::Authority,
            },
            _ => Cause::Other,
        };
        Self::Tls(error.to_string(), cause)
    }

    pub(super) fn lost(error: &hyper::Error, meter: &Meter) -> Self {
        Self::Lost(meter.write_error().unwrap_or_else(|| chain(error)))
    }
}

/// An error with its causes: hyper's own text alone does not say what happened.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let io = inner.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof) {
            // The text of the TLS library is a page's URL.
            return format!("{text}: the server closed it");
        }
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

/// The head of an answer, and its body still to come.
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The headers, with names in lower case, in order, repeated ones included.
    pub(crate) headers: Vec<(String, String)>,
    body: Incoming,
    conn: Option<Conn>,
    home: (Idle, Server),
    stall: Duration,
    keep: bool,
    /// The token that was sent, so that it can be hidden if the answer repeats it.
    token: Option<Token>,
    gate: Option<oneshot::Sender<()>>,
}

impl Response {
    pub(super) fn new(
        answer: hyper::Response<Incoming>,
        conn: Option<Conn>,
        home: (Idle, Server),
        stall: Duration,
        token: Option<Token>,
    ) -> Self {
        let text = |value: &hyper::header::HeaderValue| {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        let headers = answer.headers().iter().map(|(n, v)| (n.as_str().to_owned(), text(v)));
        Self {
            status: answer.status().as_u16(),
            headers: headers.collect(),
            body: answer.into_body(),
            conn,
            home,
            stall,
            keep: true,
            token,
            gate: None,
        }
    }

    /// The first header of that name (in lower case).
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The server that answered.
    pub(crate) fn server(&self) -> &Server {
        &self.home.1
    }

    /// Whether the answer came through a proxy that can read it.
    pub(super) fn is_forwarded(&self) -> bool {
        self.conn.as_ref().is_some_and(Conn::is_forwarded)
    }

    /// The announced length of the body.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.header("content-length")?.trim().parse().ok()
    }

    /// The next piece of the body; `None` at its end, when the connection goes
    /// back to be used again.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let frame = match timeout(self.stall, self.body.frame()).await {
                Err(_) => return Err(Fault::Stalled { after: self.stall }),
                Ok(None) => {
                    self.gate = None;
                    if let Some(conn) = self.conn.take().filter(|_| self.keep) {
                        self.home.0.put(&self.home.1, conn);
                    }
                    return Ok(None);
                }
                Ok(Some(Err(error))) => return Err(Fault::Lost(chain(&error))),
                Ok(Some(Ok(frame))) => frame,
            };
            // Trailers say nothing that length and digest do not.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// The whole body, when it is at most `limit` bytes, and comes in the time that a slow
    /// server needs for that: one byte now and then would hold us for hours.
    pub(crate) async fn read(self, limit: usize) -> Result<Vec<u8>, Fault> {
        let enough = Duration::from_secs_f64(limit as f64 / LEAST_RATE);
        let after = self.stall.saturating_add(enough);
        timeout(after, self.read_all(limit)).await.unwrap_or(Err(Fault::Lost(format!(
            "its answer was not complete after {} s",
            after.as_secs()
        ))))
    }

    async fn read_all(mut self, limit: usize) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        while let Some(bytes) = self.chunk().await? {
            if out.len().saturating_add(bytes.len()) > limit {
                return Err(Fault::Protocol(format!("its answer is longer than {limit} bytes")));
            }
            out.extend_from_slice(&bytes);
        }
        Ok(out)
    }

    /// Reads what is left, when it is little, so that the connection ends in
    /// order or is kept. XRootD 5.5.3 can crash on TLS connections that are cut
    /// while it answers.
    pub(crate) async fn finish(self) {
        // Errors of this read do not matter.
        let _ = self.read(64 << 10).await;
    }

    /// The first line of a short text body: what servers say about an error.
    pub(crate) async fn message(self) -> String {
        let token = self.token.clone();
        let body = self.read(4096).await.unwrap_or_default();
        let text = String::from_utf8_lossy(&body);
        let json: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let said = json.as_ref().and_then(|json| {
            let field = |name: &str| json.get(name).and_then(|v| v.as_str());
            field("msg").or_else(|| field("detail")).or_else(|| field("error"))
        });
        let line = said.unwrap_or_else(|| text.lines().next().unwrap_or_default());
        let line = match &token {
            Some(token) => line.replace(token.secret(), "…"),
            None => line.to_owned(),
        };
        crate::url::mask_words(&line).chars().filter(|c| !c.is_control()).take(300).collect()
    }

    /// Lets the connection end with this answer instead of keeping it. `gate`
    /// holds back a body that nobody wants until the answer has been read: a
    /// body that fails would take the rest of the answer with it.
    pub(super) fn detach(&mut self, gate: Option<oneshot::Sender<()>>) {
        self.keep = false;
        self.gate = gate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_refused_for_one_of_several_causes() {
        use rustls::CertificateError as E;
        let check = |error: E, cause: Cause, hint: &str| {
            let fault = Fault::tls(&rustls::Error::InvalidCertificate(error));
            assert_eq!(fault.cause(), cause, "{fault}");
            assert!(cause.hint().unwrap().contains(hint), "{fault}");
        };
        check(E::Expired, Cause::Time, "clock");
        check(E::NotValidYet, Cause::Time, "clock");
        check(E::NotValidForName, Cause::OtherHost, "another host");
        check(E::UnknownIssuer, Cause::Authority, "SSL_CERT_FILE");
        let other = Fault::tls(&rustls::Error::DecryptError);
        assert_eq!((other.cause(), Cause::Other.hint()), (Cause::Other, None));
    }

    #[test]
    fn a_connection_that_was_closed_early_is_told_without_the_page_of_a_library() {
        #[derive(Debug, thiserror::Error)]
        #[error("error reading a body from connection")]
        struct Outer(#[source] io::Error);
        let page = "peer closed connection without sending TLS close_notify: https://docs.example/";
        let error = Outer(io::Error::new(io::ErrorKind::UnexpectedEof, page));
        assert_eq!(chain(&error), "error reading a body from connection: the server closed it");
        let error = Outer(io::Error::other("reset"));
        assert_eq!(chain(&error), "error reading a body from connection: reset");
    }
}
