//! How requests reach a registry: the program provides it, since this room opens no socket.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use gular_files::Env;

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Asks for bytes.
    Get,
    /// Asks whether something exists.
    Head,
    /// Begins an upload.
    Post,
    /// Sends a chunk.
    Patch,
    /// Sends a manifest, or completes an upload.
    Put,
}

impl Method {
    /// The method's name in HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Put => "PUT",
        }
    }
}

/// A text that must not appear in any output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the text; use it only for a header.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The URL: `http[s]://HOST[:PORT]/PATH[?QUERY]`.
    pub url: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The value of `Authorization`.
    pub authorization: Option<Secret>,
    /// The body; `None` and an empty body are not the same.
    pub body: Option<Arc<[u8]>>,
}

impl Request {
    /// A request with nothing but its method and URL.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        let (headers, authorization, body) = (Vec::new(), None, None);
        Self { method, url: url.into(), headers, authorization, body }
    }

    /// Adds a header.
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

/// The answer to a request.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers, with names in lower case, in order, repeated ones included.
    pub headers: Vec<(String, String)>,
    /// The body of an answer that is not a success, at most 64 KiB of it. The body of a success has
    /// gone to the sink.
    pub body: Vec<u8>,
    /// How long the server asks to wait before the next request.
    pub retry_after: Option<Duration>,
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum WireFault {
    /// Somebody asked to stop.
    #[error("stopped")]
    Cancelled,
    /// The receiver of the bytes could not keep them.
    #[error("{0}")]
    Sink(io::Error),
    /// Another attempt may succeed: a connection was refused or lost.
    #[error("{0}")]
    Passing(String),
    /// No other attempt will succeed: a certificate is not trusted, for example.
    #[error("{0}")]
    Lasting(String),
}

/// Sends requests.
pub trait Wire: Sync {
    /// Sends one and waits for all of its answer. The body of a success goes to `sink`, in
    /// order; a redirect is not followed.
    ///
    /// # Errors
    /// When there is no whole answer.
    fn send(
        &self,
        request: &Request,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Answer, WireFault>;

    /// The trials of one operation, by the policy of all other transfers.
    fn trials(&self) -> Box<dyn Retries + '_>;
}

/// Sends requests to registries, with the credentials that are found through `env`.
#[derive(Clone, Copy)]
pub struct Registries<'a> {
    /// The sender of requests.
    pub wire: &'a dyn Wire,
    /// The environment that says where credentials are.
    pub env: &'a Env,
}

/// Decides when to try again.
pub trait Retries {
    /// Waits before the next trial, for as long as the server asked for at least. `false`:
    /// that was the last one.
    ///
    /// # Errors
    /// [`WireFault::Cancelled`].
    fn again(&mut self, asked: Option<Duration>) -> Result<bool, WireFault>;

    /// Says that some bytes were received or sent for good.
    fn progressed(&mut self);
}
