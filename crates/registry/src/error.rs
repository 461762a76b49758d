//! What can go wrong with a registry.

use std::io;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be read from a registry, or sent to one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] gular_files::Error),
    /// A file that is not what it was when its digest was computed.
    #[error(
        "`{path}` was changed during the upload: it had {expected} bytes at first, and now ends before byte {found}"
    )]
    Changed {
        /// The file.
        path: String,
        /// The end of the bytes that were to be read.
        found: u64,
        /// Its length before.
        expected: u64,
    },
    /// A registry, or what is needed to use one.
    #[error("cannot use `{what}`: {reason}")]
    Unusable {
        /// A URL without its query, a file, or a program.
        what: String,
        /// The registry's answer, or what is wrong with it.
        reason: String,
        /// What may help.
        hint: Option<String>,
        /// Whether the same may work at another time.
        passes: bool,
    },
    /// A document that is not what its name says.
    #[error("`{name}` is not a valid OCI image: {reason}")]
    Invalid {
        /// The name in the registry.
        name: String,
        /// The rule broken, with expected and found.
        reason: String,
    },
    /// A name that something else has.
    #[error("`{name}` already exists with different contents: {found}")]
    Taken {
        /// The name.
        name: String,
        /// The digest that the tag has.
        found: String,
    },
    /// The receiver of the bytes could not keep them.
    #[error("{0}")]
    Sink(io::Error),
    /// Somebody asked to stop.
    #[error("stopped")]
    Cancelled,
}

impl Error {
    /// Returns a hint that follows from the registry's answer. Hints that depend on the program are
    /// worded there.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Unusable { hint, .. } => hint.as_deref(),
            _ => None,
        }
    }

    /// What cannot be used, and why; nothing is known that helps, not even time.
    pub(crate) fn unusable(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Unusable { what: what.into(), reason: reason.into(), hint: None, passes: false }
    }

    /// The same with a hint.
    pub(crate) fn with_hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Unusable { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// Whether the same may work at another time, without a change on this machine.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unusable { passes: true, .. })
    }
}
