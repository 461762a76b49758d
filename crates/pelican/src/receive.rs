//! The body of one answer, as it comes.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::http::{Fault, Response};
use crate::take::{Stop, Take};

/// A server is judged slow over this span.
const SLOW_SPAN: Duration = Duration::from_secs(30);

/// Why a body was not received whole.
pub(crate) enum Broken {
    Fault(Fault),
    Stop(Stop),
}

fn refused(reason: String) -> Broken {
    Broken::Stop(Stop::Refused(reason))
}

/// Passes a body on to who takes it. `min_rate`: slower than this many bytes a second is
/// a fault.
pub(crate) async fn receive(
    mut response: Response,
    wanted: &Range<u64>,
    take: &mut dyn Take,
    min_rate: Option<u64>,
) -> Result<(), Broken> {
    take.begin(&response).map_err(|why| Broken::Fault(Fault::Lost(why)))?;
    let mut skip = check_head(&response, wanted, take)?;
    let announced = response.content_length();
    let mut received = 0_u64;
    let mut span = (Instant::now(), 0_u64);
    while let Some(bytes) = response.chunk().await.map_err(Broken::Fault)? {
        received += bytes.len() as u64;
        let skipped = skip.min(bytes.len() as u64);
        skip -= skipped;
        let bytes = bytes.get(usize::try_from(skipped).unwrap_or(usize::MAX)..).unwrap_or_default();
        take.take(bytes).map_err(Broken::Stop)?;
        let elapsed = span.0.elapsed();
        if elapsed >= SLOW_SPAN {
            let rate = (received - span.1) / elapsed.as_secs().max(1);
            if min_rate.is_some_and(|least| rate < least) {
                let why = format!("slow: {} KiB/s over {} s", rate >> 10, elapsed.as_secs());
                return Err(Broken::Fault(Fault::Lost(why)));
            }
            span = (Instant::now(), received);
        }
    }
    if announced.is_some_and(|announced| announced != received) {
        let why = format!("{received} of {} bytes came", announced.unwrap_or_default());
        return Err(Broken::Fault(Fault::Lost(why)));
    }
    let missing = take.len().filter(|len| take.position() < *len);
    if let Some(len) = missing {
        return Err(Broken::Fault(Fault::Lost(format!("it ended at {received} of {len} bytes"))));
    }
    take.end().map_err(Broken::Stop)
}

/// Compares what the answer's head says with what was asked for; returns how
/// many bytes come before those asked for.
fn check_head(response: &Response, wanted: &Range<u64>, take: &dyn Take) -> Result<u64, Broken> {
    let announced = response.content_length();
    if wanted.start == 0 || response.status == 200 {
        if response.status != 200 {
            return Err(refused(format!("{} to a request for the whole", response.status)));
        }
        match (take.len(), announced) {
            (Some(expected), Some(found)) if found != expected => {
                return Err(refused(format!("it is {found} bytes, expected {expected}")));
            }
            (None, Some(found)) if found > take.limit() => {
                return Err(refused(format!("it is {found} bytes, more than {}", take.limit())));
            }
            _ => {}
        }
        return Ok(wanted.start);
    }
    let range = response.header("content-range").unwrap_or_default();
    let expected = format!("bytes {}-{}/{}", wanted.start, wanted.end - 1, wanted.end);
    if range.trim() != expected {
        return Err(refused(format!("it answers a range with `{range}`, expected `{expected}`")));
    }
    if announced.is_some_and(|found| found != wanted.end - wanted.start) {
        return Err(refused("the length of its answer is not that of the range".to_owned()));
    }
    Ok(0)
}
