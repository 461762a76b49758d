//! A stream that counts its bytes and survives its own write errors.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The operations of a plain or TLS stream.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Bytes on the wire so far, and the first write error.
#[derive(Debug, Default)]
pub(super) struct Meter {
    moved: AtomicU64,
    write_error: Mutex<Option<String>>,
}

impl Meter {
    /// Bytes read and written; a stalled connection stays at one value.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// The first write error, if there was one.
    pub(super) fn write_error(&self) -> Option<String> {
        self.write_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, n: usize) {
        self.moved.fetch_add(n as u64, Ordering::Relaxed);
    }

    fn keep(&self, error: &io::Error) {
        let mut kept = self.write_error.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_with(|| error.to_string());
    }
}

/// A server that refuses an upload answers and closes: the rest of the body then
/// fails to be written while the answer waits to be read. After the first write
/// error this stream says `Pending` to writers, so that hyper reads the answer.
pub(super) struct MeterIo {
    stream: Box<dyn Stream>,
    meter: Arc<Meter>,
}

impl MeterIo {
    pub(super) fn new(stream: Box<dyn Stream>) -> (Self, Arc<Meter>) {
        let meter = Arc::new(Meter::default());
        (Self { stream, meter: Arc::clone(&meter) }, meter)
    }

    fn written<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match result {
            Poll::Ready(Err(error)) => {
                self.meter.keep(&error);
                Poll::Pending
            }
            other => other,
        }
    }

    fn failed(&self) -> bool {
        self.meter.write_error().is_some()
    }
}

impl AsyncRead for MeterIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.meter.count(buf.filled().len().saturating_sub(before));
        result
    }
}

impl AsyncWrite for MeterIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.failed() {
            return Poll::Pending;
        }
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(n)) = &result {
            self.meter.count(*n);
        }
        self.written(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failed() {
            return Poll::Pending;
        }
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failed() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
