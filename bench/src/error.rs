//! Errors that prevent a measurement.

use std::io;
use std::path::Path;

use gular_files::Size;

/// Why a measurement ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] gular_files::Error),
    /// Options that cannot be combined.
    #[error("{0}")]
    Option(String),
    /// There is nothing to measure.
    #[error("`{path}` is neither a bundle nor a folder with JPEG, PNG or WebP images")]
    Nothing {
        /// The folder.
        path: String,
    },
    /// There is not enough space for the bundles of all rows.
    #[error("not enough disk space: `{path}` has {} free, and {} are needed", Size(*free), Size(*needed))]
    NoSpace {
        /// The folder.
        path: String,
        /// Free bytes.
        free: u64,
        /// Needed bytes.
        needed: u64,
    },
    /// Two ways to read the same samples gave other bytes.
    #[error("{what} returned different bytes than {first}")]
    Differs {
        /// The row that gave other bytes.
        what: String,
        /// The row that it was compared with.
        first: String,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Cancelled,
    /// Reading a bundle failed.
    #[error(transparent)]
    Bundle(#[from] gular_bundle::Error),
    /// Making the bundles failed.
    #[error(transparent)]
    Pack(#[from] gular_pack::Error),
    /// The loader failed.
    #[error(transparent)]
    Loader(#[from] gular_runtime::Error),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        gular_files::Error::new(action, path, source).into()
    }
}
