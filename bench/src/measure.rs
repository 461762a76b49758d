//! One repetition of a row: all threads read samples, and every byte is read.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use gular_files::parallel;

use crate::Error;
use crate::clock::{Elapsed, Watch};
use crate::sources::Source;

/// Latencies a thread keeps; later ones replace the first.
const KEPT: usize = 1 << 14;

/// How long a repetition takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    /// Seconds after which it ends.
    pub(crate) seconds: f64,
    /// Samples after which it ends.
    pub(crate) samples: u64,
}

/// The results of a repetition.
#[derive(Debug, Clone)]
pub(crate) struct Shot {
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    pub(crate) elapsed: Elapsed,
    /// Time from opening to the first sample or batch, in milliseconds.
    pub(crate) first_ms: f64,
    /// Times of single samples, in nanoseconds.
    pub(crate) latencies: Vec<u64>,
}

/// What the threads of a repetition share.
struct Shared<'a> {
    next: AtomicUsize,
    samples: AtomicU64,
    bytes: AtomicU64,
    latencies: Mutex<Vec<u64>>,
    cancel: &'a AtomicBool,
}

/// Uses a sample's bytes in a thread.
pub(crate) trait Sink: Send {
    /// Takes the bytes of sample `sample`.
    fn take(&mut self, sample: usize, bytes: &[u8]) -> Result<(), Error>;
}

/// Adds up all bytes, so that a lazy map cannot leave any out.
pub(crate) struct Sum(pub(crate) u64);

impl Sink for Sum {
    fn take(&mut self, _: usize, bytes: &[u8]) -> Result<(), Error> {
        self.0 = self.0.wrapping_add(sum(bytes));
        Ok(())
    }
}

/// The sum of the bytes as little-endian words: as fast as memory gives them.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let of_words = words.iter().fold(0_u64, |sum, w| sum.wrapping_add(u64::from_le_bytes(*w)));
    rest.iter().fold(of_words, |sum, b| sum.wrapping_add(u64::from(*b)))
}

/// Reads samples in `order`, again and again, until `length` is reached.
pub(crate) fn shoot(
    source: &dyn Source,
    order: &[u32],
    threads: usize,
    length: Length,
    sink: &(dyn Fn() -> Box<dyn Sink> + Sync),
    cancel: &AtomicBool,
) -> Result<Shot, Error> {
    let shared = Shared {
        next: AtomicUsize::new(0),
        samples: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        latencies: Mutex::default(),
        cancel,
    };
    let watch = Watch::begin();
    // The threads check the caller's flag themselves, and return its error.
    let one_each = vec![(); threads.max(1)];
    let read = |(): &(), stop: &AtomicBool| {
        thread(&shared, stop, source, order, length, &watch, &mut *sink())
    };
    let ended = parallel(&one_each, one_each.len(), &AtomicBool::new(false), read);
    let elapsed = watch.end();
    ended?;
    Ok(Shot {
        samples: shared.samples.into_inner(),
        bytes: shared.bytes.into_inner(),
        elapsed,
        first_ms: 0.0,
        latencies: shared.latencies.into_inner().unwrap_or_else(PoisonError::into_inner),
    })
}

fn thread(
    shared: &Shared<'_>,
    stop: &AtomicBool,
    source: &dyn Source,
    order: &[u32],
    length: Length,
    watch: &Watch,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let mut buffer = Vec::new();
    let mut latencies = Vec::with_capacity(KEPT);
    let (mut samples, mut bytes) = (0_u64, 0_u64);
    // At least one sample is read, since a thread may wait for longer than its time.
    while samples == 0 || (!stop.load(Ordering::Relaxed) && watch.seconds() < length.seconds) {
        if shared.cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let position = shared.next.fetch_add(1, Ordering::Relaxed);
        if position as u64 >= length.samples {
            break;
        }
        let sample = order[position % order.len()] as usize;
        let begin = Instant::now();
        let mut taken = Ok(());
        source.read(sample, &mut buffer, &mut |b| {
            bytes += b.len() as u64;
            taken = sink.take(sample, b);
        })?;
        taken?;
        let nanoseconds = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let at = usize::try_from(samples % KEPT as u64).unwrap_or(0);
        match latencies.get_mut(at) {
            Some(old) => *old = nanoseconds,
            None => latencies.push(nanoseconds),
        }
        samples += 1;
    }
    shared.samples.fetch_add(samples, Ordering::Relaxed);
    shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    shared.latencies.lock().unwrap_or_else(PoisonError::into_inner).append(&mut latencies);
    Ok(())
}

/// Reads each sample once, in order: a number that is the same for all sources that
/// give the same bytes for the same samples, and the bytes.
pub(crate) fn fingerprint(
    source: &dyn Source,
    samples: usize,
    cancel: &AtomicBool,
) -> Result<(u64, u64), Error> {
    let mut buffer = Vec::new();
    let (mut all, mut bytes) = (0_u64, 0_u64);
    for sample in 0..samples {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        source.read(sample, &mut buffer, &mut |b| {
            all = mix(all ^ hash(b));
            bytes += b.len() as u64;
        })?;
    }
    Ok((all, bytes))
}

/// A hash that notices exchanged words, for bytes that nobody forged.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|w| u64::from_le_bytes(*w));
    let all = words.chain(rest.iter().map(|b| u64::from(*b)));
    all.fold(bytes.len() as u64, |h, w| (h ^ w).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

fn mix(z: u64) -> u64 {
    gular_order::mix(z)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source in which sample i is i bytes of value i.
    struct Made;

    impl Source for Made {
        fn read(
            &self,
            sample: usize,
            buffer: &mut Vec<u8>,
            look: crate::sources::Look<'_>,
        ) -> Result<(), Error> {
            buffer.clear();
            buffer.resize(sample, sample as u8);
            look(buffer);
            Ok(())
        }
    }

    /// Counts how often each sample was read.
    struct Count(std::sync::Arc<Mutex<Vec<u32>>>);

    impl Sink for Count {
        fn take(&mut self, sample: usize, bytes: &[u8]) -> Result<(), Error> {
            assert_eq!(bytes.len(), sample);
            self.0.lock().unwrap()[sample] += 1;
            Ok(())
        }
    }

    #[test]
    fn an_epoch_reads_every_sample_once_on_any_number_of_threads() {
        let order: Vec<u32> = (0..100).rev().collect();
        for threads in [1, 3] {
            let counts = std::sync::Arc::new(Mutex::new(vec![0; 100]));
            let sink = || Box::new(Count(std::sync::Arc::clone(&counts))) as Box<dyn Sink>;
            let length = Length { seconds: f64::INFINITY, samples: 100 };
            let shot =
                shoot(&Made, &order, threads, length, &sink, &AtomicBool::new(false)).unwrap();
            assert_eq!((shot.samples, shot.bytes), (100, 99 * 50));
            assert_eq!(shot.latencies.len(), 100);
            assert!(counts.lock().unwrap().iter().all(|n| *n == 1));
        }
    }

    #[test]
    fn a_request_to_stop_ends_it() {
        let length = Length { seconds: f64::INFINITY, samples: u64::MAX };
        let sink = || Box::new(Sum(0)) as Box<dyn Sink>;
        let stopped = shoot(&Made, &[1], 2, length, &sink, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(Error::Cancelled)));
        assert!(matches!(fingerprint(&Made, 3, &AtomicBool::new(true)), Err(Error::Cancelled)));
    }

    #[test]
    fn sums_and_hashes_see_every_byte() {
        let bytes: Vec<u8> = (0..=60).collect();
        for i in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[i] ^= 0x80;
            assert_ne!(sum(&changed), sum(&bytes), "{i}");
            assert_ne!(hash(&changed), hash(&bytes), "{i}");
        }
        let mut swapped = bytes.clone();
        swapped.swap(0, 8);
        assert_ne!(hash(&swapped), hash(&bytes));
    }
}
