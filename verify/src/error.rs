//! Errors that prevent any judgement of a bundle.

/// Why verification could not run. A fault *of the data* is a [`Fault`](crate::Fault).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder has no manifest.
    #[error("`{path}` is not a bundle: it has no `manifest.json`")]
    NoManifest {
        /// The folder.
        path: String,
    },
    /// An earlier pack did not finish.
    #[error("`{path}` is not a bundle yet: packing was interrupted")]
    Interrupted {
        /// The folder.
        path: String,
    },
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] gular_files::Error),
    /// The manifest cannot be read.
    #[error(transparent)]
    Manifest(gular_bundle::Error),
    /// A federation, server or token failed.
    #[error(transparent)]
    Pelican(#[from] gular_pelican::Error),
    /// A published bundle cannot be found.
    #[error(transparent)]
    Transfer(gular_transfer::Error),
    /// The bundle is of a later format.
    #[error(transparent)]
    TooNew(gular_bundle::Error),
    /// The caller asked to stop.
    #[error("stopped after {bytes} of {total} bytes")]
    Cancelled {
        /// Bytes read.
        bytes: u64,
        /// Bytes that had to be read.
        total: u64,
    },
}

impl Error {
    /// Makes an error of this crate from an error of reading the manifest.
    pub(crate) fn reading(error: gular_bundle::Error) -> Self {
        match error {
            gular_bundle::Error::Io(error) => Self::Io(error),
            other => Self::Manifest(other),
        }
    }
}

impl From<gular_transfer::Error> for Error {
    fn from(error: gular_transfer::Error) -> Self {
        match error {
            gular_transfer::Error::Pelican(error) => Self::Pelican(error),
            gular_transfer::Error::Bundle(error @ gular_bundle::Error::TooNew { .. }) => {
                Self::TooNew(error)
            }
            error => Self::Transfer(error),
        }
    }
}
