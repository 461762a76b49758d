//! Receives the body of one response.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::http::{Fault, Response, Server};
use crate::reader::Reader;
use crate::reader::checked_blocks::{BLOCK_BYTES, Joint, Stop, Take};
use crate::reader::wrong_bytes::WrongBytes;

/// The bytes that a request asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) range: Range<u64>,
    /// Whether the request names that range; otherwise it asks for the whole object.
    pub(crate) ranged: bool,
}

/// Why a body was not received whole.
pub(crate) enum Broken {
    Fault(Fault),
    Stop(Stop),
    /// The server sends fewer bytes per second than it should.
    Slow {
        rate: u64,
        after: Duration,
    },
}

fn refused(wrong: WrongBytes) -> Broken {
    Broken::Stop(Stop::Refused(wrong))
}

impl Reader {
    /// Passes a body on to its receiver. With `leave`, a server that sends too slowly is given up.
    ///
    /// Only the time of waiting for bytes counts, not the time of using them.
    pub(crate) async fn receive(
        &self,
        server: &Server,
        mut response: Response,
        wanted: &Wanted,
        take: &mut dyn Take,
        leave: bool,
    ) -> Result<(), Broken> {
        let joint = take.begin(&response).map_err(|error| Broken::Stop(Stop::Failed(error)))?;
        if joint == Joint::Restarts {
            let why = "the object was changed during the read: all of it is read again";
            return Err(Broken::Fault(Fault::Lost(why.to_owned())));
        }
        let mut skip = check_head(&response, wanted, take)?;
        let goal = if response.status == 206 { Some(wanted.range.end) } else { take.until() };
        let announced = response.content_length();
        let _stream = self.pace.stream();
        let mut received = 0_u64;
        let (mut span, mut whole) = ((Duration::ZERO, 0_u64), Duration::ZERO);
        loop {
            let asked = Instant::now();
            let chunk = response.chunk().await.map_err(Broken::Fault)?;
            let waited = asked.elapsed();
            (span.0, whole) = (span.0 + waited, whole + waited);
            let Some(bytes) = chunk else { break };
            let n = bytes.len() as u64;
            (received, span.1) = (received + n, span.1 + n);
            let skipped = skip.min(n);
            skip -= skipped;
            let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
            take.take(bytes.get(skipped..).unwrap_or_default()).map_err(Broken::Stop)?;
            if span.0 >= self.options.stall_timeout / 2 {
                let rate = per_second(span.1, span.0);
                self.servers.measured(server, rate, Instant::now());
                if leave && rate < self.pace.share(self.options.min_bytes_per_second) {
                    return Err(Broken::Slow { rate, after: span.0 });
                }
                span = (Duration::ZERO, 0);
            }
            self.pace.wait(n).await;
        }
        if received >= BLOCK_BYTES as u64 {
            self.servers.measured(server, per_second(received, whole), Instant::now());
        }
        if announced.is_some_and(|announced| announced != received) {
            let why = format!("only {received} of {} bytes arrived", announced.unwrap_or_default());
            return Err(Broken::Fault(Fault::Lost(why)));
        }
        if let Some(goal) = goal.filter(|goal| take.position() < *goal) {
            let why = format!("it ended after {received} of {goal} bytes");
            return Err(Broken::Fault(Fault::Lost(why)));
        }
        if take.until().is_none_or(|until| take.position() >= until) {
            take.end().map_err(Broken::Stop)?;
        }
        Ok(())
    }
}

/// Returns the bytes per second of waiting.
pub(crate) fn per_second(bytes: u64, waited: Duration) -> u64 {
    let millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX).max(1);
    bytes.saturating_mul(1000) / millis
}

/// Compares what the answer's head says with what was asked for; returns how
/// many bytes come before those asked for.
fn check_head(response: &Response, wanted: &Wanted, take: &dyn Take) -> Result<u64, Broken> {
    let announced = response.content_length();
    let Range { start, end } = wanted.range;
    if !wanted.ranged || response.status == 200 {
        if response.status != 200 {
            return Err(refused(WrongBytes::NotWhole { status: response.status }));
        }
        match (take.len(), announced) {
            (Some(expected), Some(found)) if found != expected => {
                return Err(refused(WrongBytes::Len { found, expected }));
            }
            (None, Some(found)) if found > take.limit() => {
                return Err(refused(WrongBytes::OverLimit { found, limit: take.limit() }));
            }
            _ => {}
        }
        return Ok(start);
    }
    let range = response.header("content-range").unwrap_or_default();
    let expected = format!("bytes {start}-{}/{}", end - 1, take.len().unwrap_or(end));
    if range.trim() != expected {
        let found = range.to_owned();
        return Err(refused(WrongBytes::Range { found, expected }));
    }
    if announced.is_some_and(|found| found != end - start) {
        return Err(refused(WrongBytes::RangeLen));
    }
    Ok(0)
}
