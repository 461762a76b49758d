//! The errors of a damaged or invalid bundle.

use std::io;

use crate::{Digest, Envelope, PathError};

/// Why a bundle could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] gular_files::Error),
    /// A file or header is larger than its limit.
    #[error("`{path}` has {what} of {found} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The file.
        path: String,
        /// The part of the file that is too large.
        what: &'static str,
        /// Declared or real size of that part.
        found: u64,
        /// The largest size that is read.
        limit: u64,
    },
    /// A file of another format than expected.
    #[error("`{path}` should be a {expected}, but its format is {found}")]
    Format {
        /// The file.
        path: String,
        /// The format looked for.
        expected: &'static str,
        /// The format found.
        found: String,
    },
    /// A file of a later format version.
    #[error("`{path}` has format version {found}, and this build reads versions up to {supported}")]
    TooNew {
        /// The file.
        path: String,
        /// Format version of the file.
        found: u64,
        /// The newest version that this build reads.
        supported: u64,
    },
    /// The bytes break a rule of `FORMAT.md`.
    #[error("`{path}` is damaged: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// The rule broken, with expected and found.
        reason: String,
    },
    /// An index gives a sample a label that is not a class of the bundle.
    #[error(
        "`{path}` is damaged: sample `{key}` has label {label}, but the bundle has only {n_classes} classes"
    )]
    Label {
        /// The index.
        path: String,
        /// The sample.
        key: String,
        /// The sample's label.
        label: i32,
        /// The number of classes of the bundle.
        n_classes: usize,
    },
    /// A file has another length than the manifest says.
    #[error("`{path}` has {found} bytes, expected {expected} as in the manifest")]
    Length {
        /// The file.
        path: String,
        /// Length in the manifest.
        expected: u64,
        /// Length on the disk.
        found: u64,
    },
    /// A file has another digest than expected.
    #[error("`{path}` has digest {found}, expected {expected}")]
    Digest {
        /// The file.
        path: String,
        /// The digest expected.
        expected: Digest,
        /// The digest of its bytes.
        found: Digest,
    },
    /// A block of a shard has other bytes than were packed.
    #[error("`{path}` is damaged: bytes {start} to {end} differ from what was packed")]
    Block {
        /// The file.
        path: String,
        /// First byte of the block.
        start: u64,
        /// End of the block: one past its last byte.
        end: u64,
    },
    /// A sample's bytes are not those that were packed.
    #[error(transparent)]
    SampleDigest(Box<SampleFault>),
    /// A sample number past the end.
    #[error(
        "there is no sample {index} in `{what}`: it has {n_samples} samples, and the first one is sample 0"
    )]
    OutOfRange {
        /// The split or shard.
        what: String,
        /// The number asked for.
        index: u64,
        /// The number of samples.
        n_samples: u64,
    },
    /// A field that the bundle does not have.
    #[error("the bundle has no field `{field}`; its fields are {known}")]
    NoField {
        /// The field asked for.
        field: String,
        /// The fields there are.
        known: String,
    },
    /// A value that does not fit its field.
    #[error("sample `{key}` cannot be stored: {reason}")]
    Value {
        /// The sample.
        key: String,
        /// The condition that is not met.
        reason: String,
    },
    /// A file of another program without samples.
    #[error(
        "`{path}` has no samples: no file in it has a name that ends like an image or a label, such as `.jpg`, `.png`, `.cls` or `.json`"
    )]
    NoSamples {
        /// The file.
        path: String,
    },
    /// A file whose values are not stored runs of bytes.
    #[error("`{path}` cannot be read in place: {reason}")]
    NotInPlace {
        /// The file.
        path: String,
        /// Why the file cannot be read in place.
        reason: String,
    },
    /// Samples that an envelope has no place for.
    #[error(
        "the samples of a shard in `{path}` cannot be written in the envelope `{envelope}`: {reason}"
    )]
    Unfit {
        /// The envelope.
        envelope: Envelope,
        /// The folder that the shard was to appear in.
        path: String,
        /// Why it is impossible.
        reason: String,
    },
    /// An envelope that this build does not write.
    #[error("this build cannot write the envelope `{envelope}`")]
    Unwritable {
        /// The envelope.
        envelope: Envelope,
    },
    /// A file of an envelope whose structure this build does not know.
    #[error(
        "`{path}` cannot be read: this build does not know the structure of the envelope `{envelope}`"
    )]
    Unwalked {
        /// The file.
        path: String,
        /// The file's envelope.
        envelope: Envelope,
    },
    /// A name or key that is not a safe relative path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The flag of [`ReadAt::until`](crate::ReadAt::until) was set.
    #[error("stopped while reading `{path}`")]
    Stopped {
        /// The file.
        path: String,
    },
}

/// A value whose bytes are not those that were packed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "sample `{key}` in `{path}` is damaged: field `{field}` (bytes {offset} to {end}) has digest {found}, expected {expected}"
)]
pub struct SampleFault {
    /// The shard.
    pub path: String,
    /// The sample.
    pub key: String,
    /// The field.
    pub field: String,
    /// First byte in the shard.
    pub offset: u64,
    /// One past the last byte.
    pub end: u64,
    /// The digest in the index.
    pub expected: Digest,
    /// The digest of the bytes read.
    pub found: Digest,
}

impl Error {
    /// Returns whether the error is about the file that was called `path`.
    #[must_use]
    pub fn is_of(&self, path: &str) -> bool {
        match self {
            Self::TooLarge { path: of, .. }
            | Self::Format { path: of, .. }
            | Self::TooNew { path: of, .. }
            | Self::Malformed { path: of, .. }
            | Self::Length { path: of, .. }
            | Self::Digest { path: of, .. } => of == path,
            _ => false,
        }
    }

    /// The message without the path of the file, for a message that names the file elsewhere.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Malformed { reason, .. } => reason.clone(),
            Self::Label { key, label, n_classes, .. } => {
                format!(
                    "sample `{key}` has label {label}, but the bundle has only {n_classes} classes"
                )
            }
            Self::Io(error) => format!("cannot {} it: {}", error.action, error.source),
            Self::TooLarge { what, found, limit, .. } => {
                format!("it has {what} of {found} bytes, more than the limit of {limit}")
            }
            Self::Format { expected, found, .. } => {
                format!("it should be a {expected}, but its format is {found}")
            }
            Self::Length { expected, found, .. } => {
                format!("it has {found} bytes, expected {expected}")
            }
            Self::Digest { expected, found, .. } => {
                format!("its digest is {found}, expected {expected}")
            }
            other => other.to_string(),
        }
    }

    /// Whether the bytes of a sample are wrong, or the disk cannot read them, so that the right ones
    /// from another copy help.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::SampleDigest(_) => true,
            Self::Io(error) => gular_files::is_unreadable(&error.source),
            _ => false,
        }
    }

    /// Whether an index or a view is not the file that the manifest lists, so that the right one from
    /// another copy helps.
    pub(crate) fn is_another_file(&self) -> bool {
        let is_missing = |error: &gular_files::Error| error.kind() == io::ErrorKind::NotFound;
        match self {
            Self::Digest { .. } | Self::Length { .. } => true,
            Self::Io(error) => is_missing(error) || self.is_damage(),
            _ => false,
        }
    }

    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                Some("check the path; a bundle is a folder that contains `manifest.json`")
            }
            Self::Io(error) => error.hint(),
            Self::TooNew { .. } => Some("read it with a newer release of this program"),
            Self::Length { .. }
            | Self::Digest { .. }
            | Self::Block { .. }
            | Self::SampleDigest(_) => {
                Some("fetch or copy the file again: its content is not what the manifest records")
            }
            Self::TooLarge { .. } => {
                Some("check that this is the right file, or copy or fetch it again")
            }
            Self::Malformed { .. } | Self::Label { .. } | Self::Format { .. } => {
                Some("the file may be cut short or damaged; copy or fetch it again")
            }
            Self::OutOfRange { .. } | Self::NoField { .. } => Some(
                "the bundle's manifest lists its fields and the number of samples in each shard",
            ),
            Self::NoSamples { .. } => Some("check that this is the right file"),
            Self::NotInPlace { .. } => {
                Some("pack the images themselves, or write a compressed file again uncompressed")
            }
            Self::Unfit { .. } | Self::Unwritable { .. } => {
                Some("use the envelope `shards`, which can hold any bundle")
            }
            Self::Value { .. } | Self::Unwalked { .. } | Self::Path(_) | Self::Stopped { .. } => {
                None
            }
        }
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl AsRef<std::path::Path>,
        source: io::Error,
    ) -> Self {
        gular_files::Error::new(action, path, source).into()
    }

    pub(crate) fn malformed(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Malformed { path: path.into(), reason: reason.into() }
    }
}
