//! The body of a request: none, a short text, or bytes that are held back until they may be sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{mpsc, oneshot};

/// Why a source of bytes gave up.
pub(super) type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request.
pub(super) enum Outgoing {
    /// The request has no body.
    Empty,
    /// These bytes, at once.
    Text(Bytes),
    /// Exactly `left` more bytes, from `source`, once the gate opens.
    Gated {
        gate: Option<oneshot::Receiver<()>>,
        source: mpsc::Receiver<Result<Bytes, SourceError>>,
        left: u64,
    },
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = SourceError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SourceError>>> {
        let (gate, source, left) = match &mut *self {
            Self::Empty => return Poll::Ready(None),
            Self::Text(text) => {
                let text = std::mem::take(text);
                return Poll::Ready((!text.is_empty()).then(|| Ok(Frame::data(text))));
            }
            Self::Gated { gate, source, left } => (gate, source, left),
        };
        if let Some(waiting) = gate {
            match Pin::new(waiting).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => *gate = None,
                // Dropped: the server has answered and wants no body.
                Poll::Ready(Err(_)) => return Poll::Ready(Some(Err("not wanted".into()))),
            }
        }
        if *left == 0 {
            return Poll::Ready(None);
        }
        match source.poll_recv(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(bytes))) => match left.checked_sub(bytes.len() as u64) {
                Some(rest) => {
                    *left = rest;
                    Poll::Ready(Some(Ok(Frame::data(bytes))))
                }
                None => Poll::Ready(Some(Err("the file grew while it was being sent".into()))),
            },
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
            // An error, never a short body that a server might take for whole.
            Poll::Ready(None) => {
                Poll::Ready(Some(Err("the file became shorter while it was being sent".into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Text(text) => text.is_empty(),
            Self::Gated { left, .. } => *left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Text(text) => SizeHint::with_exact(text.len() as u64),
            Self::Gated { left, .. } => SizeHint::with_exact(*left),
        }
    }
}
