//! Detects whether reads wait for a disk or a network, or come from memory.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A read from memory takes no longer than this and [`MEMORY_SPEED`] allow: measured, 13 µs
/// for 110 KB.
const FROM_MEMORY: Duration = Duration::from_micros(100);

/// Speed of reads from memory, in bytes per second.
const MEMORY_SPEED: f64 = 2e9;

/// Decides from the last 32 reads whether reads wait.
#[derive(Debug, Default)]
pub(super) struct Slow {
    /// One bit for each read, the latest in the lowest bit.
    recent: AtomicU32,
    is_on: AtomicBool,
}

impl Slow {
    /// Returns whether this read was what turns reading ahead on: a quarter of the last reads
    /// waited. It is turned off if none did.
    pub(super) fn note(&self, took: Duration, bytes: usize) -> bool {
        let from_memory = FROM_MEMORY + Duration::from_secs_f64(bytes as f64 / MEMORY_SPEED);
        let bit = u32::from(took > from_memory);
        let note = |recent: u32| Some(recent << 1 | bit);
        let before = self.recent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, note);
        let recent = before.map_or(0, |recent| recent << 1 | bit);
        match recent.count_ones() {
            0 => {
                self.is_on.store(false, Ordering::Relaxed);
                false
            }
            8.. => !self.is_on.swap(true, Ordering::Relaxed),
            _ => false,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ahead_is_for_reads_that_wait() {
        let slow = Slow::default();
        let (memory, disk) = (Duration::from_micros(20), Duration::from_millis(1));
        for _ in 0..100 {
            assert!(!slow.note(memory, 110_000));
        }
        // Reading a megabyte from memory also takes some time.
        assert!(!slow.note(Duration::from_micros(550), 1_000_000));
        assert!(!slow.is_on());
        let turned: Vec<bool> = (0..10).map(|_| slow.note(disk, 110_000)).collect();
        assert_eq!(turned.iter().filter(|turned| **turned).count(), 1);
        assert!(slow.is_on());
        assert!((0..31).all(|_| !slow.note(memory, 110_000)));
        assert!(slow.is_on());
        slow.note(memory, 110_000);
        assert!(!slow.is_on());
    }
}
