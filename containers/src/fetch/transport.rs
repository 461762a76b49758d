//! The source of downloaded bytes.

use std::io;

use gular_registry::{Reference, Registry};

use crate::Error;

/// Reads the bytes of an object in order.
pub trait Stream: Sync {
    /// The bytes of an object that has `bytes` of them, from byte `from` (a multiple
    /// of 1 MiB) to its end, in order, into `sink`.
    ///
    /// # Errors
    /// [`TransportFault::NotFound`]; [`TransportFault::Sink`] with what `sink` said.
    fn stream(
        &self,
        url: &str,
        bytes: u64,
        from: u64,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), TransportFault>;
}

/// Reads anything from a URL. The program provides this, since this room opens no socket.
pub trait Transport: Stream {
    /// A document of at most `limit` bytes, whole.
    ///
    /// # Errors
    /// [`TransportFault::NotFound`] when the server says that there is none.
    fn read(&self, url: &str, limit: u64) -> Result<Vec<u8>, TransportFault>;

    /// Length of an object in bytes; `None` where the server does not say.
    ///
    /// # Errors
    /// [`TransportFault::NotFound`] when the server says that there is none.
    fn len(&self, url: &str) -> Result<Option<u64>, TransportFault>;

    /// Opens the registry of `reference`.
    ///
    /// # Errors
    /// Those of [`Registry::open`].
    fn registry(&self, reference: &Reference) -> gular_registry::Result<Registry<'_>> {
        let (what, reason) = (reference.to_string(), "this build cannot read from registries");
        let (reason, hint, passes) = (reason.to_owned(), None, false);
        Err(gular_registry::Error::Unusable { what, reason, hint, passes })
    }
}

/// Why a [`Stream`] or a [`Transport`] did not give the bytes.
#[derive(Debug, thiserror::Error)]
pub enum TransportFault {
    /// The server says that there is nothing of this name.
    #[error("{0}")]
    NotFound(String),
    /// The receiver of the bytes could not keep them.
    #[error("{0}")]
    Sink(io::Error),
    /// Somebody asked to stop.
    #[error("stopped")]
    Cancelled,
    /// Anything else: no network, a dead server, other bytes than announced.
    #[error("{message}")]
    Failed {
        /// What went wrong, with the URL.
        message: String,
        /// What may help.
        hint: Option<String>,
        /// Whether the same may work at another time.
        passes: bool,
    },
}

impl From<gular_registry::Error> for TransportFault {
    fn from(error: gular_registry::Error) -> Self {
        match error {
            gular_registry::Error::Cancelled => Self::Cancelled,
            gular_registry::Error::Sink(e) => Self::Sink(e),
            error => {
                let (hint, passes) = (error.hint().map(str::to_owned), error.is_passing());
                Self::Failed { message: error.to_string(), hint, passes }
            }
        }
    }
}

impl TransportFault {
    /// Returns a fault that another attempt does not repair.
    #[must_use]
    pub fn lasting(message: String, hint: Option<String>) -> Self {
        Self::Failed { message, hint, passes: false }
    }

    /// Returns the fault as this room's error about a document.
    pub(crate) fn into_error(self, url: &str) -> Error {
        let (reason, hint, passes) = match self {
            Self::Cancelled => return Error::Cancelled,
            Self::Failed { message, hint, passes } => (message, hint, passes),
            other => (other.to_string(), None, false),
        };
        Error::Fetch { name: url.to_owned(), reason, hint, passes }
    }
}
