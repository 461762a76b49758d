//! Limits the pixels that all threads together decode at a time.

use std::sync::{Condvar, Mutex, PoisonError};

/// Pixels that each thread may decode at any time: those of a photograph. Without this share, many
/// threads would wait for each other although their pictures are small.
const PER_THREAD: u64 = 1 << 24;

/// Pixels that may be decoded. Threads that want more than are left wait, in turn.
pub(crate) struct PixelBudget {
    most: u64,
    free: Mutex<u64>,
    freed: Condvar,
    /// Locked by the thread that waits, so that small pictures do not pass a large one for ever.
    turn: Mutex<()>,
}

/// A part of the budget, until it is dropped.
pub(crate) struct Pixels<'a> {
    budget: &'a PixelBudget,
    n: u64,
}

impl PixelBudget {
    /// Makes a budget for so many threads: the largest picture that is allowed fits.
    pub(crate) fn new(max_pixels: u64, threads: usize) -> Self {
        let most = max_pixels.max(PER_THREAD.saturating_mul(threads as u64));
        Self { most, free: Mutex::new(most), freed: Condvar::new(), turn: Mutex::new(()) }
    }

    /// Waits until a picture of so many pixels may be decoded.
    pub(crate) fn take(&self, pixels: u64) -> Pixels<'_> {
        let n = pixels.min(self.most);
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.freed.wait_while(free, |free| *free < n);
        *free.unwrap_or_else(PoisonError::into_inner) -= n;
        Pixels { budget: self, n }
    }
}

impl Drop for Pixels<'_> {
    fn drop(&mut self) {
        *self.budget.free.lock().unwrap_or_else(PoisonError::into_inner) += self.n;
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn all_threads_together_hold_no_more_than_the_largest_picture() {
        let budget = PixelBudget::new(1 << 28, 4);
        let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for large in [true, false, true, false] {
                let (budget, held, most) = (&budget, &held, &most);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let n = if large { 200 << 20 } else { 20 << 20 };
                        let pixels = budget.take(n);
                        let now = held.fetch_add(n, Ordering::SeqCst) + n;
                        most.fetch_max(now, Ordering::SeqCst);
                        thread::yield_now();
                        held.fetch_sub(n, Ordering::SeqCst);
                        drop(pixels);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 1 << 28);
        // One that is refused elsewhere does not wait for ever.
        drop(budget.take(u64::MAX));
        assert_eq!(*budget.free.lock().unwrap(), 1 << 28);
    }
}
