//! What can go wrong, said once.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::retry::Spent;
use crate::{Diagnosis, TokenError, UrlError};

/// One server that was tried, and why it did not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// `https://HOST[:PORT]`.
    pub server: String,
    /// What it did.
    pub fault: String,
    /// Whether it may do better at another time.
    pub passes: bool,
}

/// Every server that was tried, the last fault of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts {
    /// In the order of their first trial.
    pub list: Vec<Attempt>,
    /// Requests in all.
    pub requests: u32,
    /// Whether the origin, or the one server there is, was among them.
    pub origin_asked: bool,
    /// What the servers know this run by: `X-Pelican-JobId`.
    pub job_id: Option<String>,
}

impl Attempts {
    /// A server failed, and may do better at another time.
    pub(crate) fn add(&mut self, server: impl fmt::Display, fault: impl fmt::Display) {
        self.push(server.to_string(), fault.to_string(), true);
    }

    /// A server failed, and will again.
    pub(crate) fn add_lasting(&mut self, server: impl fmt::Display, fault: impl fmt::Display) {
        self.push(server.to_string(), fault.to_string(), false);
    }

    /// A server was not asked, since it wants to be left alone for this long.
    pub(crate) fn waits(&mut self, server: impl fmt::Display, wait: Duration) {
        let server = server.to_string();
        if self.list.iter().all(|attempt| attempt.server != server) {
            let fault = format!("busy, asks for {:.0} s", wait.as_secs_f64());
            self.list.push(Attempt { server, fault, passes: true });
        }
    }

    /// What operators find this run by in their logs.
    fn job(&self) -> String {
        self.job_id.as_ref().map_or(String::new(), |id| format!(", X-Pelican-JobId {id}"))
    }

    fn push(&mut self, server: String, fault: String, passes: bool) {
        self.requests = self.requests.saturating_add(1);
        match self.list.iter_mut().find(|attempt| attempt.server == server) {
            Some(attempt) => (attempt.fault, attempt.passes) = (fault, passes),
            None => self.list.push(Attempt { server, fault, passes }),
        }
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, attempt) in self.list.iter().enumerate() {
            let comma = if number > 0 { "; " } else { "" };
            write!(f, "{comma}`{}`: {}", attempt.server, attempt.fault)?;
        }
        if self.list.is_empty() { f.write_str("no server was offered") } else { Ok(()) }
    }
}

/// Why an operation failed. No message holds a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that is not a URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A setting of the environment that cannot be used.
    #[error("{what} cannot be used: {reason}")]
    Setting {
        /// Which one.
        what: String,
        /// Why not.
        reason: String,
    },
    /// A token file that was named and cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The discovery host does not say where the director is.
    #[error("`{host}` does not answer as a Pelican federation: {reason}")]
    Discovery {
        /// The host of the URL.
        host: String,
        /// What it did instead.
        reason: String,
        /// Whether it may do better at another time.
        passes: bool,
    },
    /// There is no such object or collection.
    #[error("`{server}` says that `{url}` does not exist{said}")]
    NotFound {
        /// The object.
        url: String,
        /// Who said so.
        server: String,
        /// Its words, after `: `.
        said: String,
    },
    /// The director knows of no origin for the namespace, and so names no server: the origin
    /// has left, or the path is in no namespace.
    #[error("`{director}` knows no origin for `{url}`{said}")]
    NoOrigin {
        /// The object.
        url: String,
        /// Who said so.
        director: String,
        /// Its words, after `: `.
        said: String,
    },
    /// A server wants another token.
    #[error("`{server}` refused to {action} `{url}` ({status}): {diagnosis}")]
    Denied {
        /// `read`, `write`, `list`.
        action: &'static str,
        /// The object.
        url: String,
        /// Who refused.
        server: String,
        /// The HTTP status.
        status: u16,
        /// What a look at the token says.
        diagnosis: Box<Diagnosis>,
    },
    /// The federation offers nobody who could do it.
    #[error("no server can {action} `{url}`: {reason}")]
    Unsupported {
        /// `read`, `write`, `list`.
        action: &'static str,
        /// The object.
        url: String,
        /// The director's words.
        reason: String,
    },
    /// Every server failed.
    #[error("cannot {action} `{url}` ({}{}): {attempts}", Spent { requests: attempts.requests, elapsed: *elapsed }, attempts.job())]
    Failed {
        /// `read`, `write`, `list`.
        action: &'static str,
        /// The object.
        url: String,
        /// Who was tried.
        attempts: Attempts,
        /// Since the first trial.
        elapsed: Duration,
    },
    /// Every server that answers has other bytes than those expected.
    #[error("`{url}` does not have the expected bytes: {attempts}")]
    Corrupt {
        /// The object.
        url: String,
        /// Who has what.
        attempts: Attempts,
    },
    /// Larger than the caller accepts.
    #[error("`{url}` is {found} bytes, more than the limit of {limit}")]
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
        /// What is known of it.
        found: String,
    },
    /// All the names an upload may take are burned.
    #[error(
        "`{url}` and the {tried} names after it already exist with different contents, the last: {found}"
    )]
    Burned {
        /// The object.
        url: String,
        /// Names tried besides it.
        tried: u32,
        /// What is known of the last.
        found: String,
    },
    /// The file to be uploaded is not what it was.
    #[error("`{}` changed while it was uploaded: {reason}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// How.
        reason: String,
    },
    /// A local file or folder.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// `open`, `read`, `write`, ….
        action: &'static str,
        /// Which one.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// Whoever receives the bytes cannot take them.
    #[error("cannot keep what was read from `{url}`: {source}")]
    Sink {
        /// The object.
        url: String,
        /// Its word.
        source: std::io::Error,
    },
    /// The caller's cancel flag was set.
    #[error("stopped")]
    Cancelled,
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// The same error, which names the run that it happened to.
    pub(crate) fn of_job(mut self, id: &str) -> Self {
        if let Self::Failed { attempts, .. } | Self::Corrupt { attempts, .. } = &mut self {
            attempts.job_id = Some(id.to_owned());
        }
        self
    }

    /// Whether the same may work at another time, with nothing changed here.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Failed { attempts, .. } => attempts.list.iter().any(|attempt| attempt.passes),
            Self::Discovery { passes, .. } => *passes,
            // An origin that is restarted says goodbye first.
            Self::NoOrigin { .. } => true,
            // Whoever renews it writes the same file.
            Self::Denied { diagnosis, .. } => diagnosis.is_expired(),
            _ => false,
        }
    }

    /// What the user can do next; printed after the error as `hint: …`.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Url(error) => error.hint(),
            Self::Setting { .. } => "correct it, or unset it",
            Self::Token(error) => error.hint(),
            Self::Discovery { passes: true, .. } => {
                "run the same command again later, or check the name"
            }
            Self::Discovery { .. } => {
                "pelican:// needs the federation's host, such as pelican://osg-htc.org/…; a test \
                 federation's certificate is named by SSL_CERT_FILE; one server alone is \
                 https://HOST/…"
            }
            Self::NotFound { .. } => "list the collection above it",
            Self::NoOrigin { .. } => {
                "compare the path with the federation's namespaces; if its origin is down, run the same command again later. Caches can still be read meanwhile: put the bundle's digest into the URL, and if this machine never read the namespace, name a cache in PELICAN_CLIENT_PREFERREDCACHES"
            }
            Self::Denied { diagnosis, action, url, .. } => {
                return Some(diagnosis.hint_for(action, url));
            }
            Self::Unsupported { .. } => "ask the namespace's owner which capabilities it has",
            Self::Failed { attempts, .. } if attempts.list.iter().any(is_certificate) => {
                "if the server is the one you mean, name the certificate of its authority in \
                 SSL_CERT_FILE"
            }
            Self::Failed { attempts, .. } if attempts.list.iter().any(is_proxy) => {
                "neither the proxy nor a direct connection works: set another proxy in HTTPS_PROXY, or name servers to reach without it in NO_PROXY"
            }
            Self::Failed { attempts, .. } if attempts.list.iter().all(|a| !a.passes) => {
                "trying again will not help: show this message to the server's operators"
            }
            Self::Failed { .. } => {
                "run the same command again later: what was transferred is kept; behind a firewall \
                 set HTTPS_PROXY"
            }
            Self::Corrupt { attempts, .. } if attempts.origin_asked => {
                "all copies are damaged, the origin's too: publish it again from an intact copy"
            }
            Self::Corrupt { .. } => {
                "the caches' copies are damaged, and the origin was not asked: try again without \
                 preferred caches, or tell the operators of the servers named above"
            }
            Self::TooLarge { .. } => "this is probably not the object you meant",
            Self::Taken { .. } => {
                "names are written once, since caches never learn of a change: publish under \
                 another version"
            }
            Self::Burned { .. } => "remove the broken objects at the origin, then publish again",
            Self::Changed { .. } => "publish a folder that nobody writes to",
            Self::Cancelled => "run the same command again: it resumes with what is already there",
            Self::Io { .. } | Self::Sink { .. } => return None,
        };
        Some(text.to_owned())
    }
}

fn is_certificate(attempt: &Attempt) -> bool {
    attempt.fault.contains("invalid peer certificate")
}

fn is_proxy(attempt: &Attempt) -> bool {
    attempt.fault.contains("; proxy ")
}

impl From<gular_files::Error> for Error {
    fn from(error: gular_files::Error) -> Self {
        Self::io(error.action, &error.path, error.source)
    }
}
