//! The errors of this crate.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::retry::Spent;
use crate::{Diagnosis, Scheme, TokenError, Url, UrlError};

/// One server that was tried, and why it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// `https://HOST[:PORT]`.
    pub server: String,
    /// What went wrong with this server.
    pub fault: String,
    /// Whether the server may succeed at another time.
    pub passes: bool,
    /// What kind of fault it was.
    pub cause: Cause,
}

/// A kind of fault that has a remedy of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cause {
    /// There was no connection.
    Connection,
    /// Neither a proxy nor a direct connection worked.
    Proxy,
    /// The certificate's authority is not trusted.
    Authority,
    /// The certificate is not valid at the time that this machine's clock shows.
    Time,
    /// The certificate is for another host.
    OtherHost,
    /// Any other fault, such as an answer that is an error.
    #[default]
    Other,
}

impl Cause {
    /// Says what the user can do about the fault.
    #[must_use]
    pub fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::Connection => "behind a firewall, set HTTPS_PROXY",
            Self::Proxy => {
                "neither the proxy nor a direct connection works: set HTTPS_PROXY to another proxy, or list in NO_PROXY the servers to reach without a proxy"
            }
            Self::Authority => {
                "if this is the server that you mean, set SSL_CERT_FILE to the certificate of its \
                authority"
            }
            Self::Time => {
                "compare this machine's clock (`date -u`) with the right time; if the clock is right, the server's certificate has expired: tell the server's operators"
            }
            Self::OtherHost => {
                "check the host in the URL: the certificate of this server is for another host"
            }
            Self::Other => return None,
        })
    }
}

/// The words and the kind of a fault.
pub(crate) struct Blamed {
    words: String,
    cause: Cause,
}

impl Blamed {
    pub(crate) fn new(words: impl fmt::Display, cause: Cause) -> Self {
        Self { words: words.to_string(), cause }
    }
}

impl From<String> for Blamed {
    fn from(words: String) -> Self {
        Self { words, cause: Cause::Other }
    }
}

/// All servers that were tried, each with its last fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts {
    /// The servers, in the order of their first attempts.
    pub list: Vec<Attempt>,
    /// Number of all requests.
    pub requests: u32,
    /// Whether the origin, or the only server, was among them.
    pub origin_asked: bool,
    /// The id of this run that servers get: `X-Pelican-JobId`.
    pub job_id: Option<String>,
}

impl Attempts {
    /// A server failed, and may do better at another time.
    pub(crate) fn add(&mut self, server: impl fmt::Display, fault: impl Into<Blamed>) {
        self.push(server.to_string(), fault.into(), true);
    }

    /// Adds a server that failed, and will fail again.
    pub(crate) fn add_lasting(&mut self, server: impl fmt::Display, fault: impl Into<Blamed>) {
        self.push(server.to_string(), fault.into(), false);
    }

    /// A server was not asked, since it wants to be left alone for this long.
    pub(crate) fn waits(&mut self, server: impl fmt::Display, wait: Duration) {
        let server = server.to_string();
        if self.list.iter().all(|attempt| attempt.server != server) {
            let fault = format!("busy; it asks to be tried again in {:.0} s", wait.as_secs_f64());
            self.list.push(Attempt { server, fault, passes: true, cause: Cause::Other });
        }
    }

    /// The id by which operators find this run in their logs.
    fn job(&self) -> String {
        self.job_id.as_ref().map_or(String::new(), |id| format!(", X-Pelican-JobId {id}"))
    }

    /// The fault that has a remedy, if any attempt met one.
    fn cause(&self) -> Cause {
        let mut causes = self.list.iter().map(|attempt| attempt.cause);
        // A server that answered shows that connections are possible.
        let connected = self.list.iter().any(|attempt| attempt.cause == Cause::Other);
        let found = causes.find(|cause| match cause {
            Cause::Other => false,
            Cause::Connection => !connected,
            _ => true,
        });
        found.unwrap_or_default()
    }

    fn push(&mut self, server: String, fault: Blamed, passes: bool) {
        self.requests = self.requests.saturating_add(1);
        let attempt = Attempt { server, fault: fault.words, passes, cause: fault.cause };
        match self.list.iter_mut().find(|old| old.server == attempt.server) {
            Some(old) => *old = attempt,
            None => self.list.push(attempt),
        }
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, attempt) in self.list.iter().enumerate() {
            let comma = if number > 0 { "; " } else { "" };
            write!(f, "{comma}`{}`: {}", attempt.server, attempt.fault)?;
        }
        if self.list.is_empty() { f.write_str("the federation named no server") } else { Ok(()) }
    }
}

/// Which other objects would fail for the same reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// None, as far as is known.
    One,
    /// Perhaps all: a server refused this object, and did not say that it refuses only this one.
    Refused,
    /// All.
    All,
}

/// Why an operation failed. No message holds a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that is not a URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A setting of the environment that cannot be used.
    #[error("the setting {what} cannot be used: {reason}")]
    Setting {
        /// The setting.
        what: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// A token file that was named and cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The discovery host does not say where the director is.
    #[error("cannot use `{host}` as the host of a Pelican federation: {reason}")]
    Discovery {
        /// The host of the URL.
        host: String,
        /// What the host did instead of answering correctly.
        reason: String,
        /// Whether it may succeed at another time.
        passes: bool,
        /// What kind of fault it was.
        cause: Cause,
    },
    /// There is no such object or collection.
    #[error("{}", not_there(url, server, said))]
    NotFound {
        /// The object.
        url: String,
        /// The server that said so; `this machine` for a `file://` URL.
        server: String,
        /// The server's words, after `: `.
        said: String,
    },
    /// The federation has no namespace that the path begins with.
    #[error("the federation `{host}` has no namespace for `{url}`")]
    NoNamespace {
        /// The object.
        url: String,
        /// The host of the URL.
        host: String,
        /// The namespace that was probably meant.
        nearest: Option<String>,
    },
    /// The director knows of no origin for the namespace, and so names no server: the origin
    /// has left, or the path is in no namespace.
    #[error("`{director}` knows no origin for `{url}`{said}")]
    NoOrigin {
        /// The object.
        url: String,
        /// The server that said so.
        director: String,
        /// The director's words, after `: `.
        said: String,
    },
    /// A server wants another token.
    #[error("`{server}` refused to {action} `{url}` ({status}{said}): {diagnosis}")]
    Denied {
        /// The action: `read`, `write`, `list`.
        action: &'static str,
        /// The object.
        url: String,
        /// The server that refused.
        server: String,
        /// The HTTP status.
        status: u16,
        /// The server's words, after `: `.
        said: String,
        /// The diagnosis of the token.
        diagnosis: Box<Diagnosis>,
    },
    /// The federation offers nobody who could do it.
    #[error("cannot {action} `{url}`, since the federation offers no server for it: {reason}")]
    Unsupported {
        /// The action: `read`, `write`, `list`.
        action: &'static str,
        /// The object.
        url: String,
        /// The director's words.
        reason: String,
    },
    /// Every server failed.
    #[error("cannot {action} `{url}` ({}{}): {attempts}", Spent { requests: attempts.requests, elapsed: *elapsed }, attempts.job())]
    Failed {
        /// The action: `read`, `write`, `list`.
        action: &'static str,
        /// The object.
        url: String,
        /// The servers that were tried.
        attempts: Attempts,
        /// Time since the first attempt.
        elapsed: Duration,
    },
    /// Every server that answers has other bytes than those expected.
    #[error("no server that was asked has the expected bytes of `{url}`: {attempts}")]
    Corrupt {
        /// The object.
        url: String,
        /// The servers, each with what it sent.
        attempts: Attempts,
    },
    /// The object is larger than the caller accepts.
    #[error("`{url}` has {found} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The object.
        url: String,
        /// Its length in bytes.
        found: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// An object of that name holds something else, and names are written once.
    #[error("`{url}` already exists with different contents ({found})")]
    Taken {
        /// The object.
        url: String,
        /// What is known about the object.
        found: String,
    },
    /// All the names an upload may take are burned.
    #[error(
        "`{url}` already exists with different contents, and so do all {tried} other names for it, `~1` to `~{tried}`; the last one has {found}"
    )]
    Burned {
        /// The object.
        url: String,
        /// Number of other names that were tried.
        tried: u32,
        /// What is known about the last object.
        found: String,
    },
    /// The file to be uploaded has changed.
    #[error("`{}` was changed while it was being uploaded: {reason}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// How it changed.
        reason: String,
    },
    /// An operation on a local file or folder failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The operation: `open`, `read`, `write`, ….
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The receiver of the bytes cannot accept them.
    #[error("cannot store the bytes read from `{url}`: {source}")]
    Sink {
        /// The object.
        url: String,
        /// The receiver's error.
        source: io::Error,
    },
    /// The caller's cancel flag was set.
    #[error("stopped")]
    Cancelled,
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &std::path::Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// Returns the same error with the name of the run in which it happened.
    pub(crate) fn of_job(mut self, id: &str) -> Self {
        if let Self::Failed { attempts, .. } | Self::Corrupt { attempts, .. } = &mut self {
            attempts.job_id = Some(id.to_owned());
        }
        self
    }

    /// Returns whether the same call may succeed later, with nothing changed on this machine.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Failed { attempts, .. } => attempts.list.iter().any(|attempt| attempt.passes),
            Self::Discovery { passes, .. } => *passes,
            // An origin that is restarted says goodbye first.
            Self::NoOrigin { .. } => true,
            // A renewed token is written to the same file.
            Self::Denied { diagnosis, .. } => diagnosis.is_expired(),
            _ => false,
        }
    }

    /// Returns which other objects of the same collection would fail for the same reason.
    #[must_use]
    pub fn reach(&self) -> Reach {
        match self {
            Self::Discovery { .. } | Self::NoNamespace { .. } => Reach::All,
            Self::Token(_) | Self::Setting { .. } => Reach::All,
            Self::Denied { diagnosis, .. } if diagnosis.is_expired() => Reach::All,
            Self::Denied { .. } | Self::Unsupported { .. } => Reach::Refused,
            Self::Failed { .. } if !self.is_passing() => Reach::Refused,
            Self::Io { source, .. } | Self::Sink { source, .. }
                if gular_files::is_of_disk(source) =>
            {
                Reach::All
            }
            _ => Reach::One,
        }
    }

    /// What the user can do next; printed after the error as `hint: …`.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Url(error) => return Some(error.hint().to_owned()),
            Self::Setting { .. } => "correct this setting, or remove it",
            Self::Token(error) => error.hint(),
            Self::Discovery { cause: cause @ (Cause::Time | Cause::OtherHost), .. } => {
                return cause.hint().map(str::to_owned);
            }
            Self::Discovery { passes: true, .. } => {
                "run the same command again later, or check the host in the URL"
            }
            Self::Discovery { .. } => {
                "a pelican:// URL begins with the federation's host, such as \
                pelican://osg-htc.org/…; for a test federation, set SSL_CERT_FILE to its \
                certificate; for a single server, use https://HOST/…"
            }
            Self::NotFound { url, .. } if file(url).is_some() => "check the path",
            Self::NotFound { .. } => "list the collection above this object",
            Self::NoNamespace { nearest, .. } => {
                return Some(hint_of_namespace(nearest.as_deref()));
            }
            Self::NoOrigin { .. } => {
                "compare the path with the federation's namespaces; if its origin is down, run the same command again later. To read from the caches until then, add the bundle's digest to the URL; if this machine has never read from this namespace, also set PELICAN_CLIENT_PREFERREDCACHES to a cache"
            }
            Self::Denied { diagnosis, action, url, .. } => {
                return Some(diagnosis.hint_for(action, url));
            }
            Self::Unsupported { .. } => "ask the owner of the namespace what it allows",
            Self::Failed { attempts, .. } => return Some(hint_of(attempts)),
            Self::Corrupt { attempts, .. } if attempts.origin_asked => {
                "all copies are damaged, also the one at the origin: publish the object again from an intact copy"
            }
            Self::Corrupt { .. } => {
                "the copies in the caches are damaged, and the origin was not asked: try again \
                without preferred caches, or tell the operators of the servers named above"
            }
            Self::TooLarge { .. } => "check the URL: this is probably not the object you meant",
            Self::Taken { .. } => {
                "publish under another name or version: a name is written only once, since caches do \
                not notice changes"
            }
            Self::Burned { .. } => "remove the damaged objects at the origin, then publish again",
            Self::Changed { .. } => "publish a folder that no program is writing to",
            Self::Cancelled => "run the same command again: it resumes with what is already there",
            Self::Io { .. } | Self::Sink { .. } => return None,
        };
        Some(text.to_owned())
    }
}

fn not_there(url: &str, server: &str, said: &str) -> String {
    match file(url) {
        Some(path) => format!("there is no `{path}`"),
        None => format!("`{server}` says that `{url}` does not exist{said}"),
    }
}

/// Returns the path that a `file://` URL names.
fn file(url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(|url| url.scheme() == Scheme::File)?;
    Some(url.path().to_owned())
}

fn hint_of_namespace(nearest: Option<&str>) -> String {
    let check = "check the beginning of the path, which is the namespace";
    match nearest {
        Some(nearest) => format!("{check}: did you mean `{nearest}`?"),
        None => check.to_owned(),
    }
}

fn hint_of(attempts: &Attempts) -> String {
    let later = "run the same command again later: what was transferred is kept";
    match (attempts.cause(), attempts.list.iter().all(|attempt| !attempt.passes)) {
        (Cause::Other, true) => {
            "trying again will not help: show this message to the server's operators".to_owned()
        }
        (cause @ Cause::Connection, _) => {
            format!("{later}; {}", cause.hint().unwrap_or_default())
        }
        (cause, _) => cause.hint().unwrap_or(later).to_owned(),
    }
}

impl From<gular_files::Error> for Error {
    fn from(error: gular_files::Error) -> Self {
        Self::io(error.action, &error.path, error.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_is_that_of_the_cause() {
        let check = |faults: &[(&str, Cause, bool)], part: &str, no: &str| {
            let mut attempts = Attempts::default();
            for (server, cause, passes) in faults {
                let fault = Blamed::new("it failed", *cause);
                match passes {
                    true => attempts.add(server, fault),
                    false => attempts.add_lasting(server, fault),
                }
            }
            let hint = hint_of(&attempts);
            assert!(hint.contains(part) && !hint.contains(no), "{faults:?}: {hint}");
        };
        let (connection, other) = (Cause::Connection, Cause::Other);
        check(&[("a", connection, true)], "HTTPS_PROXY", "NO_PROXY");
        // A server that answers shows that this machine can connect.
        check(&[("a", other, true), ("b", connection, true)], "later", "PROXY");
        check(&[("a", other, false), ("b", other, true)], "later", "PROXY");
        check(&[("a", other, false)], "operators", "PROXY");
        check(&[("a", Cause::Proxy, true)], "NO_PROXY", "later");
        check(&[("a", other, true), ("b", Cause::Authority, false)], "SSL_CERT_FILE", "clock");
        check(&[("a", Cause::Time, false)], "clock", "SSL_CERT_FILE");
        check(&[("a", Cause::OtherHost, false)], "host in the URL", "SSL_CERT_FILE");
    }

    #[test]
    fn what_is_missing_in_a_local_folder_is_named_by_its_path() {
        let url = Url::parse("file:///no/such%20folder/v1").unwrap();
        let error = crate::local::stat(&url).unwrap_err();
        assert_eq!(error.to_string(), format!("there is no `{}`", url.path()));
        assert_eq!(error.hint().unwrap(), "check the path");
    }
}
