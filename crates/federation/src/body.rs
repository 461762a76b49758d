//! The bodies of answers: a text, or a file's bytes, which are read as fast as the client takes
//! them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::fs::File;
use tokio::io::{AsyncRead as _, ReadBuf};

const PIECE_BYTES: u64 = 256 << 10;

/// An answer's body.
#[derive(Debug)]
pub(super) enum Body {
    Text(Bytes),
    File {
        /// The file, positioned where the body begins.
        file: File,
        left: u64,
        buffer: Vec<u8>,
    },
}

impl Body {
    pub(super) fn empty() -> Self {
        Self::Text(Bytes::new())
    }

    /// Returns a body of the next `len` bytes of `file`.
    pub(super) fn file(file: File, len: u64) -> Self {
        Self::File { file, left: len, buffer: Vec::new() }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::File { left, .. } => *left,
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let (file, left, buffer) = match self.get_mut() {
            body if body.len() == 0 => return Poll::Ready(None),
            Self::Text(text) => return Poll::Ready(Some(Ok(Frame::data(std::mem::take(text))))),
            Self::File { file, left, buffer } => (file, left, buffer),
        };
        buffer.resize(usize::try_from(PIECE_BYTES.min(*left)).unwrap_or(0), 0);
        let mut piece = ReadBuf::new(buffer);
        if let Err(e) = ready!(Pin::new(file).poll_read(cx, &mut piece)) {
            return Poll::Ready(Some(Err(e)));
        }
        let piece = Bytes::copy_from_slice(piece.filled());
        if piece.is_empty() {
            let e = io::Error::new(io::ErrorKind::UnexpectedEof, "the object became shorter");
            return Poll::Ready(Some(Err(e)));
        }
        *left = left.saturating_sub(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}
