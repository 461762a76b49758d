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
    /// A setting has a value that the format does not know.
    #[error("the {option} of the SquashFS image is {found}, expected {expected}")]
    Options {
        /// The setting.
        option: &'static str,
        /// The setting's value.
        found: String,
        /// The values that the setting may have.
        expected: &'static str,
    },
    /// A path cannot be in any image.
    #[error("a SquashFS image cannot hold the path `{path}`: {reason}")]
    Path {
        /// The path; bytes that are not UTF-8 are replaced.
        path: String,
        /// Why the path is refused.
        reason: &'static str,
    },
    /// Two nodes have the same path.
    #[error("the path `{path}` is given twice")]
    Duplicate {
        /// The path.
        path: String,
    },
    /// A hard link does not refer to a file.
    #[error("cannot make the hard link `{path}` to `{target}`: {reason}")]
    HardLink {
        /// The link.
        path: String,
        /// The path that the link refers to.
        target: String,
        /// Why the link is refused.
        reason: &'static str,
    },
    /// The format cannot store an extended attribute.
    #[error("cannot store the extended attribute `{name}` of `{path}`: {reason}")]
    Xattr {
        /// The node.
        path: String,
        /// The attribute's full name.
        name: String,
        /// Why the attribute is refused.
        reason: &'static str,
    },
    /// A symbolic link or device has a value out of range.
    #[error("cannot store `{path}`: {what} is {found}, expected {expected}")]
    Node {
        /// The node.
        path: String,
        /// The name of the value.
        what: &'static str,
        /// The value.
        found: u64,
        /// The range that the value may have.
        expected: &'static str,
    },
    /// There are more things than the format's fields can count.
    #[error("a SquashFS image can hold at most {limit} {what}, and there are more")]
    TooMany {
        /// The things that are too many.
        what: &'static str,
        /// The highest number that is possible.
        limit: u64,
    },
    /// A file's data was added to another writer.
    #[error("a file in the tree was added to another image, by the writer of that one")]
    Foreign,
    /// Parts of a file are not its blocks in this image.
    #[error("the compressed blocks of a file cannot be used: {reason}")]
    Parts {
        /// What is wrong with the parts.
        reason: &'static str,
    },
    /// A compressor failed, or its thread could not be started.
    #[error("cannot compress the data of the SquashFS image: {0}")]
    Compress(#[source] io::Error),
}

impl Error {
    /// Says what to do about it, in one sentence.
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

/// Returns `bytes` as a text for a message.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
