//! What can go wrong while an image is written.

use std::io;

/// Why an image could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The sink refused bytes.
    #[error("cannot write the SquashFS image: {0}")]
    Write(#[source] io::Error),
    /// A file's reader failed.
    #[error("cannot read a file for the SquashFS image: {0}")]
    Read(#[source] io::Error),
    /// A setting that the format does not know.
    #[error("the {option} of the SquashFS image is {found}, expected {expected}")]
    Options {
        /// The setting.
        option: &'static str,
        /// Its value.
        found: String,
        /// The values it may have.
        expected: &'static str,
    },
    /// A path that no image may hold.
    #[error("a SquashFS image cannot hold the path `{path}`: {reason}")]
    Path {
        /// The path, with what is not UTF-8 replaced.
        path: String,
        /// Why not.
        reason: &'static str,
    },
    /// Two nodes with one path.
    #[error("the path `{path}` is given twice")]
    Duplicate {
        /// The path.
        path: String,
    },
    /// A hard link that leads to no file.
    #[error("cannot make the hard link `{path}` to `{target}`: {reason}")]
    HardLink {
        /// The link.
        path: String,
        /// What it should be another name of.
        target: String,
        /// Why it is not.
        reason: &'static str,
    },
    /// An extended attribute that the format cannot hold.
    #[error("cannot store the extended attribute `{name}` of `{path}`: {reason}")]
    Xattr {
        /// The node.
        path: String,
        /// The attribute's full name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// A symbolic link or device with a value out of range.
    #[error("cannot store `{path}`: {what} is {found}, expected {expected}")]
    Node {
        /// The node.
        path: String,
        /// Which value.
        what: &'static str,
        /// The value.
        found: u64,
        /// The range it may have.
        expected: &'static str,
    },
    /// More than the format's fields can count.
    #[error("a SquashFS image can hold at most {limit} {what}, and there are more")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The most there may be.
        limit: u64,
    },
    /// A file's data came from another writer.
    #[error("a file in the tree was added to another image, by the writer of that one")]
    Foreign,
    /// Parts of a file that are not its blocks in this image.
    #[error("the compressed blocks of a file cannot be used: {reason}")]
    Parts {
        /// What does not fit.
        reason: &'static str,
    },
    /// A compressor failed, or its thread could not be started.
    #[error("cannot compress the data of the SquashFS image: {0}")]
    Compress(#[source] io::Error),
}

impl Error {
    /// What to do about it, in one sentence.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Write(source) if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space on the file system of the image")
            }
            Self::TooMany { .. } => Some("split the files over several images"),
            Self::Xattr { .. } => Some(
                "leave out the attribute: SquashFS can store only names that begin with `user.`, `trusted.` or `security.`",
            ),
            Self::Duplicate { .. } => Some("give each file a path of its own"),
            _ => None,
        }
    }
}

/// `bytes` for a message.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
