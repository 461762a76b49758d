//! Errors that prevent a federation from serving.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a federation does not serve, or a token is not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a file or folder failed.
    #[error("cannot {what} `{path}`: {source}")]
    Io {
        /// The operation, such as `read`.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A port could not be opened.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Listen {
        /// The port asked for; 0 stands for any.
        port: u16,
        /// Why it could not be opened.
        source: io::Error,
    },
    /// Another process serves this folder.
    #[error("a federation is already running for the folder `{path}`{}", at(by))]
    Served {
        /// The folder.
        path: PathBuf,
        /// The URL and the process number, if they are known.
        by: Option<(String, u32)>,
    },
    /// No process serves this folder, so a token would not be valid anywhere.
    #[error("no federation is running for the folder `{path}`")]
    NotServed {
        /// The folder.
        path: PathBuf,
    },
    /// Copies are to be forgotten, and what has their name is not known to be copies.
    #[error("`{path}` was not made by a development federation, so it is not removed")]
    NotOurs {
        /// The folder of copies.
        path: PathBuf,
    },
    /// A process has begun to serve this folder, and does not serve yet.
    #[error("the federation of the folder `{path}` is still starting")]
    Starting {
        /// The folder.
        path: PathBuf,
    },
    /// A file that the federation wrote is no longer what it wrote.
    #[error("`{path}` is damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A text that cannot be a namespace.
    #[error(
        "`{namespace}` is not a namespace; expected one or more names of the characters `A-Za-z0-9._-`, each after a `/`"
    )]
    Namespace {
        /// The text.
        namespace: String,
    },
    /// A path that a token cannot name.
    #[error("a token cannot be limited to the path `{path}`: {reason}")]
    Scope {
        /// The path, as it was given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A token that would allow nothing.
    #[error("the token would not allow anything")]
    NoScope,
    /// A lifetime of zero, or one that is too long.
    #[error("a token cannot be valid for {} s; expected 1 s to {} s", lifetime.as_secs_f64(), limit.as_secs())]
    Lifetime {
        /// The lifetime that was asked for.
        lifetime: Duration,
        /// The longest lifetime.
        limit: Duration,
    },
    /// Options that exclude each other.
    #[error("these options cannot be combined: {reason}")]
    Options {
        /// The options, and why they cannot be combined.
        reason: &'static str,
    },
    /// Keys, certificates or threads could not be made.
    #[error("cannot make {what}: {reason}")]
    Make {
        /// What should have been made.
        what: &'static str,
        /// Why it could not be made.
        reason: String,
    },
}

impl Error {
    /// What the user can do next; printed after the error as `hint: …`.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Listen { .. } => Some("choose another port, or port 0 for any free one"),
            Self::Served { .. } => {
                Some("use the running federation, stop it first, or serve another folder")
            }
            Self::NotServed { .. } => Some("start a federation for this folder"),
            Self::NotOurs { .. } => Some("choose a new folder, or one that a federation made"),
            Self::Starting { .. } => Some("try again in a second"),
            Self::Damaged { .. } => Some("remove that file; the next start makes a new one"),
            Self::NoScope => Some("give at least one path"),
            Self::Lifetime { .. } => {
                Some("choose a shorter time, and make a new token when this one expires")
            }
            Self::Io { .. }
            | Self::Namespace { .. }
            | Self::Scope { .. }
            | Self::Options { .. }
            | Self::Make { .. } => None,
        }
    }

    /// Makes an I/O error that says what was done to which file, for `map_err`.
    pub(super) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}

fn at(by: &Option<(String, u32)>) -> String {
    by.as_ref().map_or(String::new(), |(url, pid)| format!(" at {url} (process {pid})"))
}

impl From<gular_files::Error> for Error {
    fn from(error: gular_files::Error) -> Self {
        Self::Io { what: error.action, path: error.path, source: error.source }
    }
}
