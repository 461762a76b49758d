//! A batch, lent from the ring.

use std::fmt;
use std::sync::Arc;

use super::batch_slots::{BatchSlots, Slot};
use super::normalise::Table;
use super::{IGNORED_LABEL, LoaderError};
use crate::Error;

/// Samples of one step; its memory goes back to the loader when it is dropped.
///
/// It may outlive the epoch and the loader, and move to another thread.
pub struct Batch {
    slot: Slot,
    n: usize,
    size: (u32, u32),
    skipped: Vec<Error>,
    table: Arc<Table>,
    ring: Arc<BatchSlots>,
}

impl Batch {
    pub(super) fn new(
        mut slot: Slot,
        size: (u32, u32),
        labelled: bool,
        replaced: bool,
        table: Arc<Table>,
        ring: Arc<BatchSlots>,
    ) -> Self {
        let broken = std::mem::take(&mut slot.broken);
        let gone: Vec<usize> = broken.iter().map(|(row, _)| *row).filter(|_| !replaced).collect();
        close_gaps(&mut slot, &gone, size.0 as usize * size.1 as usize * 3);
        if !labelled {
            slot.labels.clear();
        }
        let skipped = broken.into_iter().map(|(_, error)| error).collect();
        Self { n: slot.ids.len(), slot, size, skipped, table, ring }
    }

    /// The number of samples: the batch size, or less at the end of an epoch (0 on a
    /// rank that no sample of the last step falls to) and where some were skipped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether it has no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// (width, height) of each picture.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        self.size
    }

    /// RGB `u8` of shape `[len, height, width, 3]`; of samples of 16 bits the high byte, see
    /// [`LoaderOptions::narrow_u16`](super::LoaderOptions::narrow_u16).
    #[must_use]
    pub fn images(&self) -> &[u8] {
        &self.slot.images[..self.n * self.row_bytes()]
    }

    /// Class indices, shape `[len]`; empty for a bundle without labels.
    /// [`IGNORED_LABEL`](super::IGNORED_LABEL) where the class is unknown.
    #[must_use]
    pub fn labels(&self) -> &[i64] {
        &self.slot.labels
    }

    /// The number of samples whose class is known; 0 for a bundle without labels.
    #[must_use]
    pub fn n_labelled(&self) -> usize {
        self.slot.labels.iter().filter(|label| **label != IGNORED_LABEL).count()
    }

    /// Numbers of the samples within the split, shape `[len]`.
    #[must_use]
    pub fn sample_ids(&self) -> &[u64] {
        &self.slot.ids
    }

    /// Why samples were left out, under [`OnBadSample::Skip`](super::OnBadSample::Skip), or others came
    /// instead of them, under [`OnBadSample::Replace`](super::OnBadSample::Replace).
    #[must_use]
    pub fn skipped(&self) -> &[Error] {
        &self.skipped
    }

    /// Writes the images as `f32` of shape `[len, 3, height, width]`, normalised;
    /// one pass, image by image, on the calling thread.
    ///
    /// # Errors
    /// [`LoaderError::Buffer`] unless `out` holds `len * 3 * height * width` numbers.
    pub fn write_f32_nchw(&self, out: &mut [f32]) -> Result<(), Error> {
        let images = self.images();
        if out.len() != images.len() {
            return Err(LoaderError::Buffer { expected: images.len(), found: out.len() }.into());
        }
        let row = self.row_bytes();
        for (image, out) in images.chunks_exact(row).zip(out.chunks_exact_mut(row)) {
            self.table.image(image, out);
        }
        Ok(())
    }

    fn row_bytes(&self) -> usize {
        self.size.0 as usize * self.size.1 as usize * 3
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.ring.give_back(std::mem::take(&mut self.slot));
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = self.size;
        write!(f, "Batch([{}, {height}, {width}, 3])", self.n)
    }
}

/// Moves the rows after each of `gone` (sorted) up.
fn close_gaps(slot: &mut Slot, gone: &[usize], row_bytes: usize) {
    let Some(first) = gone.first().copied() else { return };
    let mut to = first;
    for row in first..slot.ids.len() {
        if gone.binary_search(&row).is_ok() {
            continue;
        }
        slot.images.copy_within(row * row_bytes..(row + 1) * row_bytes, to * row_bytes);
        slot.ids[to] = slot.ids[row];
        slot.labels[to] = slot.labels[row];
        to += 1;
    }
    slot.ids.truncate(to);
    slot.labels.truncate(to);
}
