//! The work and the waiting time of each phase, which show a user the bottleneck.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where a loader's time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reading bytes from the shard, including waits for the disk.
    Read,
    /// Checking the BLAKE3 digest of a sample that is read for the first time.
    Check,
    /// The threads decode, crop, resize and mirror.
    Decode,
    /// The threads wait for the function of the training program that is called with each sample.
    Each,
    /// Threads are idle: all slots are full, so the training program is the slower side.
    WaitForSlot,
    /// The training program is idle: its batch is not ready, so the loader is the slower side.
    WaitForBatch,
}

impl Phase {
    const ALL: [Self; 6] =
        [Self::Read, Self::Check, Self::Decode, Self::Each, Self::WaitForSlot, Self::WaitForBatch];

    /// A short name for tables and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Check => "check",
            Self::Decode => "decode",
            Self::Each => "each",
            Self::WaitForSlot => "wait for slot",
            Self::WaitForBatch => "wait for batch",
        }
    }
}

/// What a training run waits for: the slowest part of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// The storage, or the network from which bytes are read.
    Reading,
    /// The digests of samples that are read for the first time.
    Checking,
    /// Decoding, cropping and resizing.
    Decoding,
    /// The training program's own function that is called with each sample.
    Function,
    /// The training itself: batches are ready when it asks.
    Training,
}

impl Bottleneck {
    /// A name in a word or two.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Checking => "checking digests",
            Self::Decoding => "decoding",
            Self::Function => "the function of each sample",
            Self::Training => "the model",
        }
    }
}

/// Sums since the loader was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Time in each phase, in the order of [`Phase`]: the sum over all threads, or, for
    /// [`Phase::WaitForBatch`], the time of the training program.
    pub time: [Duration; 6],
    /// Samples made, including those that were made ahead and thrown away.
    pub samples: u64,
    /// Number of these samples that were read before a decoding thread needed them.
    pub n_read_ahead: u64,
    /// Number of bytes read from shards.
    pub bytes: u64,
    /// Number of batches that were returned.
    pub batches: u64,
    /// Number of samples in these batches.
    pub images: u64,
    /// Samples that could not be decoded: they were left out or replaced.
    pub skipped: u64,
    /// Blocks and indexes that were damaged on this machine and fetched again, since the bundle was
    /// opened.
    pub repaired_blocks: u64,
    /// Samples among those handed out whose class is unknown, under
    /// [`UnknownLabels::Ignore`](super::UnknownLabels::Ignore).
    pub unlabelled: u64,
    /// Time in which an epoch was in progress.
    pub elapsed: Duration,
    /// Number of threads that decode.
    pub threads: usize,
    /// Number of cores that this process may use.
    pub cores: usize,
}

impl Stats {
    /// Returns the time spent in `phase`.
    #[must_use]
    pub fn of(&self, phase: Phase) -> Duration {
        self.time[phase as usize]
    }

    /// Returns the sums since `earlier`, which is an earlier answer of the same loader.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut time = self.time;
        for (now, then) in time.iter_mut().zip(earlier.time) {
            *now = now.saturating_sub(then);
        }
        Self {
            time,
            samples: self.samples.saturating_sub(earlier.samples),
            n_read_ahead: self.n_read_ahead.saturating_sub(earlier.n_read_ahead),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            batches: self.batches.saturating_sub(earlier.batches),
            images: self.images.saturating_sub(earlier.images),
            skipped: self.skipped.saturating_sub(earlier.skipped),
            repaired_blocks: self.repaired_blocks.saturating_sub(earlier.repaired_blocks),
            unlabelled: self.unlabelled.saturating_sub(earlier.unlabelled),
            elapsed: self.elapsed.saturating_sub(earlier.elapsed),
            ..*self
        }
    }

    /// The number of samples handed out per second of an epoch; 0 before the first sample.
    #[must_use]
    pub fn images_per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.images as f64 / seconds } else { 0.0 }
    }

    /// Returns what the training run waits for most; `None` before enough was measured. For a part
    /// of the run, use it on [`Stats::since`].
    #[must_use]
    pub fn waited_for(&self) -> Option<Bottleneck> {
        let [read, check, decode, each, ..] = self.time;
        let waited = self.of(Phase::WaitForBatch);
        if self.batches == 0 {
            None
        } else if waited * 20 < self.elapsed {
            Some(Bottleneck::Training)
        } else if read > decode + check + each {
            Some(Bottleneck::Reading)
        } else if each > decode + check {
            Some(Bottleneck::Function)
        } else if check > decode {
            Some(Bottleneck::Checking)
        } else {
            Some(Bottleneck::Decoding)
        }
    }

    /// Returns which side waits for the other; `None` before enough was measured.
    #[must_use]
    pub fn bottleneck(&self) -> Option<&'static str> {
        Some(match self.waited_for()? {
            Bottleneck::Training => "the training itself: batches are ready when it asks for them",
            Bottleneck::Reading => "reading: the training waits for the storage",
            Bottleneck::Checking => "checking digests: each sample is hashed when it is first read",
            Bottleneck::Decoding => "decoding images: more cores or smaller images would help",
            Bottleneck::Function => {
                "the function of `each`: more cores would help, or less work in it"
            }
        })
    }

    /// Returns what is wrong with the settings; `None` if nothing is.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        (self.threads > self.cores).then(|| {
            format!("{} threads share {} cores: use one thread per core", self.threads, self.cores)
        })
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<16}{:>10}{:>14}", "phase", "seconds", "us per sample")?;
        for phase in Phase::ALL {
            let seconds = self.of(phase).as_secs_f64();
            if phase == Phase::Each && seconds == 0.0 {
                continue;
            }
            let each = seconds * 1e6 / self.samples.max(1) as f64;
            writeln!(f, "{:<16}{seconds:>10.2}{each:>14.1}", phase.name())?;
        }
        write!(
            f,
            "{} images in {} batches, {:.0} images/s, {:.1} MB/s read, {} threads",
            self.images,
            self.batches,
            self.images_per_second(),
            self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64().max(1e-9),
            self.threads,
        )?;
        if self.n_read_ahead > 0 {
            write!(f, "\n{} samples were read ahead", self.n_read_ahead)?;
        }
        if self.skipped > 0 {
            write!(f, "\n{} samples could not be decoded", self.skipped)?;
        }
        if self.repaired_blocks > 0 {
            write!(f, "\n{} damaged blocks were fetched again", self.repaired_blocks)?;
        }
        if self.unlabelled > 0 {
            write!(f, "\n{} samples of unknown class were ignored", self.unlabelled)?;
        }
        if let Some(bottleneck) = self.bottleneck() {
            write!(f, "\nthe bottleneck is {bottleneck}")?;
        }
        self.warning().map_or(Ok(()), |warning| write!(f, "\nwarning: {warning}"))
    }
}

/// The sums that all threads add to.
#[derive(Debug, Default)]
pub(super) struct Meters {
    time: [AtomicU64; 6],
    samples: AtomicU64,
    n_read_ahead: AtomicU64,
    bytes: AtomicU64,
}

impl Meters {
    pub(super) fn add(&self, phase: Phase, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.time[phase as usize].fetch_add(nanos, Ordering::Relaxed);
    }

    /// Does `job` and counts its time, whether it succeeds or not.
    pub(super) fn time<T>(&self, phase: Phase, job: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let done = job();
        self.add(phase, since.elapsed());
        done
    }

    pub(super) fn count(&self, bytes: usize) {
        self.samples.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_ahead(&self, was_read_ahead: bool) {
        self.n_read_ahead.fetch_add(u64::from(was_read_ahead), Ordering::Relaxed);
    }

    /// Adds the threads' counts to `stats`.
    pub(super) fn fill(&self, stats: &mut Stats) {
        for (time, nanos) in stats.time.iter_mut().zip(&self.time) {
            *time = Duration::from_nanos(nanos.load(Ordering::Relaxed));
        }
        stats.samples = self.samples.load(Ordering::Relaxed);
        stats.n_read_ahead = self.n_read_ahead.load(Ordering::Relaxed);
        stats.bytes = self.bytes.load(Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_phases_bottleneck_and_a_bad_setting() {
        let ms = Duration::from_millis;
        let stats = Stats {
            time: [ms(10), ms(20), ms(1500), ms(0), ms(0), ms(800)],
            samples: 1000,
            n_read_ahead: 600,
            bytes: 50_000_000,
            batches: 10,
            images: 990,
            skipped: 10,
            repaired_blocks: 3,
            unlabelled: 7,
            elapsed: ms(1000),
            threads: 4,
            cores: 2,
        };
        let expected = "\
phase              seconds us per sample
read                  0.01          10.0
check                 0.02          20.0
decode                1.50        1500.0
wait for slot         0.00           0.0
wait for batch        0.80         800.0
990 images in 10 batches, 990 images/s, 50.0 MB/s read, 4 threads
600 samples were read ahead
10 samples could not be decoded
3 damaged blocks were fetched again
7 samples of unknown class were ignored
the bottleneck is decoding images: more cores or smaller images would help
warning: 4 threads share 2 cores: use one thread per core";
        assert_eq!(stats.to_string(), expected);
        let training = Stats { time: [ms(1); 6], ..stats };
        assert!(training.bottleneck().is_some_and(|b| b.starts_with("the training")));
        let disk = Stats { time: [ms(900), ms(1), ms(1), ms(0), ms(0), ms(800)], ..stats };
        assert!(disk.bottleneck().is_some_and(|b| b.starts_with("reading")));
        let first = Stats { time: [ms(9), ms(900), ms(1), ms(0), ms(0), ms(800)], ..stats };
        assert!(first.bottleneck().is_some_and(|b| b.starts_with("checking")));
        let of = [&stats, &training, &disk, &first].map(Stats::waited_for);
        use Bottleneck::{Checking, Decoding, Reading, Training};
        assert_eq!(of, [Decoding, Training, Reading, Checking].map(Some));
        assert_eq!(Stats::default().waited_for(), None);
        assert_eq!(Stats::default().bottleneck(), None);
        let nothing = Stats { threads: 4, cores: 2, ..Stats::default() };
        assert_eq!((stats.since(&nothing), stats.since(&stats)), (stats, nothing));
    }
}
