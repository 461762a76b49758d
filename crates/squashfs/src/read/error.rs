//! The errors of a damaged or unsupported image.

use std::io;

/// Why an image could not be walked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source failed.
    #[error("cannot read the SquashFS image: {0}")]
    Read(#[source] io::Error),
    /// The sink for a file's bytes failed.
    #[error("cannot write a file of the SquashFS image: {0}")]
    Write(#[source] io::Error),
    /// The bytes are of another format.
    #[error("it is not a SquashFS image: it does not begin with `hsqs`")]
    NotSquashfs,
    /// A variant of the format that is not read.
    #[error("this SquashFS image cannot be read: {what} is {found}, expected {known}")]
    Unsupported {
        /// The property that is not supported.
        what: &'static str,
        /// Its value in this image.
        found: String,
        /// The values that can be read.
        known: &'static str,
    },
    /// The bytes break a rule of the format.
    #[error("the SquashFS image is damaged: {reason}")]
    Damaged {
        /// The broken rule, with what was found.
        reason: String,
    },
}

impl Error {
    /// Says what to do about it, in one sentence.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Read(_) | Self::Write(_) => None,
            Self::NotSquashfs => Some("the program `file` shows what this file is"),
            Self::Unsupported { .. } => {
                Some("unpack the image with `unsquashfs`, and write it again with `mksquashfs`")
            }
            Self::Damaged { .. } => Some("copy or fetch the image again"),
        }
    }
}

pub(super) fn damaged(reason: impl Into<String>) -> Error {
    Error::Damaged { reason: reason.into() }
}
