//! Why the bytes of a server are not the expected ones.

use std::ops::Range;

/// Why the bytes that a server sends are not the expected ones, so that another server is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WrongBytes {
    /// A block is not the one with this number.
    #[error("bytes {} to {} differ from the expected ones", range.start, range.end)]
    Differ {
        /// Where the block is in the object.
        range: Range<u64>,
    },
    /// There are more bytes than the object has.
    #[error("it is longer than expected")]
    Longer,
    /// There are fewer bytes than the object has.
    #[error("it ended after {found} of {expected} bytes")]
    Shorter {
        /// The number of bytes that arrived.
        found: u64,
        /// The number of bytes that were wanted.
        expected: u64,
    },
    /// The object has another length.
    #[error("it has {found} bytes, expected {expected}")]
    Len {
        /// The length that the server says.
        found: u64,
        /// The length of the object.
        expected: u64,
    },
    /// The object has more bytes than the caller accepts.
    #[error("it has {found} bytes, more than {limit}")]
    OverLimit {
        /// The length that the server says.
        found: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The answer is a part, and the whole object was asked for.
    #[error("it answered {status} to a request for the whole object")]
    NotWhole {
        /// The HTTP status.
        status: u16,
    },
    /// The answer is another part than the one that was asked for.
    #[error("it answered with the range `{found}`, expected `{expected}`")]
    Range {
        /// The `Content-Range` of the answer.
        found: String,
        /// The `Content-Range` that fits the request.
        expected: String,
    },
    /// The answer's length is not that of the range which it names.
    #[error("the length of its answer differs from that of the range")]
    RangeLen,
    /// The name is that of a folder.
    #[error("it is a folder")]
    Folder,
    /// The caller does not accept the bytes.
    #[error(transparent)]
    NotAccepted(Box<dyn std::error::Error + Send + Sync>),
}

impl WrongBytes {
    /// The bytes are not those that the caller expects.
    pub fn not_accepted(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::NotAccepted(why.into())
    }
}
