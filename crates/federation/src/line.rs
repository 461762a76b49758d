//! Simulates the network between clients and servers, with the latency and bandwidth that the user
//! sets, so that a laptop shows the effects of a distant federation.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::body::Body;

/// Longest time that bytes are delayed.
const MOST: Duration = Duration::from_secs(365 * 86_400);

/// A simulated network line, which all connections to all servers of a federation share.
#[derive(Debug, Default)]
pub(super) struct Line {
    latency: Duration,
    /// Bytes per second, of all connections together.
    rate: Option<u64>,
    /// Time at which all bytes sent so far have passed the line.
    free_at: Mutex<Option<Instant>>,
}

impl Line {
    pub(super) fn new(latency: Duration, rate: Option<u64>) -> Self {
        Self { latency, rate, free_at: Mutex::default() }
    }

    /// Waits as long as a request and its answer are on their way.
    pub(super) async fn travel(&self) {
        if !self.latency.is_zero() {
            sleep(self.latency).await;
        }
    }

    /// Waits until `n` bytes have passed.
    pub(super) async fn pass(&self, n: u64) {
        if let Some(passed) = self.take(n) {
            sleep_until(passed).await;
        }
    }

    /// Lets `n` bytes onto it; when they have passed.
    fn take(&self, n: u64) -> Option<Instant> {
        let seconds = n as f64 / self.rate?.max(1) as f64;
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let begin = free_at.map_or(now, |free_at| free_at.max(now));
        // A year is longer than anybody waits; more of them a clock may not hold.
        let long = Duration::try_from_secs_f64(seconds).map_or(MOST, |long| long.min(MOST));
        let passed = begin.min(now + MOST) + long;
        *free_at = Some(passed);
        Some(passed)
    }
}

/// A body whose bytes come as fast as the line lets them pass.
#[derive(Debug)]
pub(super) struct Paced {
    body: Body,
    line: Arc<Line>,
    /// Bytes on their way, and when they have passed.
    under_way: Option<(Bytes, Pin<Box<Sleep>>)>,
}

impl Paced {
    pub(super) fn new(body: Body, line: Arc<Line>) -> Self {
        Self { body, line, under_way: None }
    }
}

impl hyper::body::Body for Paced {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        if self.under_way.is_none() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
            let bytes = match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(bytes))) => bytes,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(e)) => return Poll::Ready(Some(Err(e))),
                None => return Poll::Ready(None),
            };
            match self.line.take(bytes.len() as u64) {
                None => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(passed) => self.under_way = Some((bytes, Box::pin(sleep_until(passed)))),
            }
        }
        if let Some((_, passed)) = &mut self.under_way {
            ready!(passed.as_mut().poll(cx));
        }
        Poll::Ready(self.under_way.take().map(|(bytes, _)| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.under_way.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let on_their_way = self.under_way.as_ref().map_or(0, |(bytes, _)| bytes.len() as u64);
        let left = self.body.size_hint().exact().unwrap_or(0);
        SizeHint::with_exact(left.saturating_add(on_their_way))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_connections_pass_one_after_another() {
        let line = Line::new(Duration::ZERO, Some(1000));
        let begin = Instant::now();
        let passed: Vec<Duration> =
            [500, 500, 1000].map(|n| line.take(n).unwrap() - begin).into_iter().collect();
        for (passed, expected) in passed.into_iter().zip([500, 1000, 2000]) {
            let late = passed.saturating_sub(Duration::from_millis(expected));
            assert!(passed >= Duration::from_millis(expected), "{passed:?}");
            assert!(late < Duration::from_secs(10), "{passed:?}");
        }
        assert_eq!(Line::default().take(u64::MAX), None);
        // The delay has more seconds than any clock, and does not overflow.
        let line = Line::new(Duration::ZERO, Some(1));
        for _ in 0..3 {
            assert!(line.take(u64::MAX).unwrap() >= begin + MOST);
        }
    }
}
