//! Memory of values that have been written, reused for later values.

use std::sync::{Mutex, PoisonError};

/// The most memory that is kept: values are reused after a few others of their kind, when
/// their memory is still in the CPU's caches.
const MOST_BYTES: usize = 4 << 20;

/// Buffers of one length. New memory would be mapped and cleared by the system for each value.
pub(crate) struct Spares {
    len: usize,
    free: Mutex<Vec<Vec<u8>>>,
}

impl Spares {
    /// Returns a store of spares with `len` bytes each.
    pub(crate) fn new(len: usize) -> Self {
        Self { len, free: Mutex::default() }
    }

    /// A buffer with any content, of the length given to [`Spares::new`].
    pub(crate) fn take(&self) -> Vec<u8> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| vec![0; self.len])
    }

    /// Keeps `buffer` if it has the length and there is room.
    pub(crate) fn put(&self, buffer: Vec<u8>) {
        let room = MOST_BYTES.checked_div(self.len).unwrap_or(0);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.len() == self.len && free.len() < room {
            free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_and_no_more_lie_ready_than_may() {
        let spares = Spares::new(1 << 20);
        assert_eq!(spares.take(), vec![0; 1 << 20]);
        for i in 1..=9 {
            spares.put(vec![i; 1 << 20]);
        }
        spares.put(vec![7; 3]);
        let taken: Vec<u8> = (0..5).map(|_| spares.take()[0]).collect();
        assert_eq!(taken, [4, 3, 2, 1, 0], "four of 1 MiB are kept");
    }
}
