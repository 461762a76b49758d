//! What can go wrong before the federation serves.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a federation does not serve, or a token is not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk refused.
    #[error("cannot {what} `{path}`: {source}")]
    Io {
        /// What was tried, such as `read`.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No socket.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Listen {
        /// The port asked for; 0 stands for any.
        port: u16,
        /// Why not.
        source: io::Error,
    },
    /// A living process serves this folder.
    #[error("a federation is already running for the folder `{path}`{}", at(by))]
    Served {
        /// The folder.
        path: PathBuf,
        /// Its URL and its process, once it says so.
        by: Option<(String, u32)>,
    },
    /// No process serves this folder, so a token would be good nowhere.
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
    /// A namespace that could not be one.
    #[error(
        "`{namespace}` is not a namespace; expected one or more names of the characters `A-Za-z0-9._-`, each after a `/`"
    )]
    Namespace {
        /// As given.
        namespace: String,
    },
    /// A path that a token cannot name.
    #[error("a token cannot be limited to the path `{path}`: {reason}")]
    Scope {
        /// As given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A token for nothing.
    #[error("the token would not allow anything")]
    NoScope,
    /// A lifetime of nothing, or too long.
    #[error("a token cannot be valid for {} s; expected 1 s to {} s", lifetime.as_secs_f64(), limit.as_secs())]
    Lifetime {
        /// As asked for.
        lifetime: Duration,
        /// The longest.
        limit: Duration,
    },
    /// Options that exclude each other.
    #[error("these options cannot be combined: {reason}")]
    Options {
        /// Which.
        reason: &'static str,
    },
    /// Keys, certificates or threads could not be made.
    #[error("cannot make {what}: {reason}")]
    Make {
        /// What was to be made.
        what: &'static str,
        /// Why not.
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

    /// For `map_err`: an I/O error with what was done to which file.
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
