//! A batch, borrowed from the ring of slots.

use std::fmt;
use std::sync::Arc;

use gular_augment::{AxisOrder, Blended};

use super::IGNORED_LABEL;
use super::batch_slots::BatchSlots;
use super::columns::{Array, Column, Values};
use super::slot::{Memory, Slot};
use crate::Error;

/// Samples of one step; its memory goes back to the loader when it is dropped.
///
/// It may outlive the epoch and the loader, and move to another thread.
pub struct Batch {
    slot: Slot,
    skipped: Vec<Error>,
    about: Arc<About>,
    ring: Arc<BatchSlots>,
}

/// The properties that all batches of a loader share.
#[derive(Debug)]
pub(super) struct About {
    pub(super) columns: Vec<Column>,
    /// Whether the first column is the image.
    pub(super) pictured: bool,
    pub(super) labelled: bool,
    pub(super) size: (u32, u32),
    pub(super) layout: AxisOrder,
}

impl Batch {
    pub(super) fn new(
        mut slot: Slot,
        replaced: bool,
        about: Arc<About>,
        ring: Arc<BatchSlots>,
    ) -> Self {
        let broken = std::mem::take(&mut slot.broken);
        let gone: Vec<usize> = broken.iter().map(|(row, _)| *row).filter(|_| !replaced).collect();
        close_gaps(&mut slot, &gone, &about.columns);
        if !about.labelled {
            slot.labels.clear();
        }
        let skipped = broken.into_iter().map(|(_, error)| error).collect();
        Self { slot, skipped, about, ring }
    }

    /// The number of samples: the batch size, or less at the end of an epoch (0 on a
    /// rank that gets no sample of the last step) and if some were skipped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slot.ids.len()
    }

    /// Whether it has no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slot.ids.is_empty()
    }

    /// (width, height) of each picture.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        self.about.size
    }

    /// The bytes of field `image` as they are in memory. Unless
    /// [`LoaderOptions`](super::LoaderOptions) say otherwise, they are RGB `u8` of shape
    /// `[len, height, width, 3]`; [`Batch::field`] says type and shape. Empty if the bundle
    /// has no images.
    #[must_use]
    pub fn images(&self) -> &[u8] {
        let Some(column) = self.about.columns.first().filter(|_| self.about.pictured) else {
            return &[];
        };
        self.array(column, self.slot.columns.first()).map_or(&[], |array| array.bytes)
    }

    /// Returns the values of field `name`: `image`, or one of
    /// [`LoaderOptions::fields`](super::LoaderOptions::fields).
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Values<'_>> {
        self.fields().find(|(found, _)| *found == name).map(|(_, values)| values)
    }

    /// All fields but the label, by name.
    pub fn fields(&self) -> impl Iterator<Item = (&str, Values<'_>)> {
        self.about.columns.iter().zip(&self.slot.columns).map(|(column, memory)| {
            let values = match memory {
                Memory::Bytes(values) => Values::Bytes(values),
                Memory::Rows(_) => {
                    let (dtype, shape) = (gular_bundle::Dtype::U8, vec![0]);
                    let none = Array { dtype, shape, channels_last: false, bytes: &[] };
                    Values::Array(self.array(column, Some(memory)).unwrap_or(none))
                }
            };
            (column.name.as_str(), values)
        })
    }

    fn array<'a>(&'a self, column: &Column, memory: Option<&'a Memory>) -> Option<Array<'a>> {
        let (Some((dtype, shape)), Some(Memory::Rows(bytes))) = (&column.fixed, memory) else {
            return None;
        };
        let shape = std::iter::once(self.len()).chain(shape.iter().copied()).collect();
        let bytes = bytes.get(..self.len() * column.row_bytes()?)?;
        Some(Array { dtype: *dtype, shape, channels_last: column.channels_last, bytes })
    }

    /// The order in memory of the numbers of `image`.
    #[must_use]
    pub fn layout(&self) -> AxisOrder {
        self.about.layout
    }

    /// Class indices, shape `[len]`; empty for a bundle without labels.
    /// A sample of unknown class has [`IGNORED_LABEL`](super::IGNORED_LABEL).
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

    /// Keys of the samples, shape `[len]`.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.slot.keys
    }

    /// Returns what each sample was blended with, shape `[len]`; empty unless
    /// [`LoaderOptions::blend`](super::LoaderOptions::blend) is set.
    #[must_use]
    pub fn blended(&self) -> &[Blended] {
        &self.slot.blended
    }

    /// Returns the share of each of `n_classes` classes in each sample, `f32` of shape `[len,
    /// n_classes]`: as torchvision's `transforms.v2.MixUp` and `CutMix` return labels.
    ///
    /// If a sample was not blended, its class has share 1; unknown classes have share 0.
    #[must_use]
    pub fn soft_labels(&self, n_classes: usize) -> Vec<f32> {
        let mut soft = vec![0.0; self.labels().len() * n_classes];
        for (row, label) in self.labels().iter().enumerate() {
            let with = self.blended().get(row);
            let (weight, other) = with.map_or((1.0, *label), |with| (with.weight, with.label));
            for (label, part) in [(*label, weight), (other, 1.0 - weight)] {
                let class = usize::try_from(label).ok().filter(|class| *class < n_classes);
                class.into_iter().for_each(|class| soft[row * n_classes + class] += part);
            }
        }
        soft
    }

    /// The errors of samples that were left out
    /// ([`OnBadSample::Skip`](super::OnBadSample::Skip)) or replaced by others
    /// ([`OnBadSample::Replace`](super::OnBadSample::Replace)).
    #[must_use]
    pub fn skipped(&self) -> &[Error] {
        &self.skipped
    }

    /// Takes the keys out of the batch.
    #[cfg(feature = "torch")]
    pub(crate) fn take_keys(&mut self) -> Vec<String> {
        std::mem::take(&mut self.slot.keys)
    }

    /// Takes a field of bytes out of the batch.
    #[cfg(feature = "torch")]
    pub(crate) fn take_bytes(&mut self, name: &str) -> Vec<Vec<u8>> {
        let at = self.about.columns.iter().position(|column| column.name == name);
        match at.and_then(|at| self.slot.columns.get_mut(at)) {
            Some(Memory::Bytes(values)) => std::mem::take(values),
            _ => Vec::new(),
        }
    }

    /// The memory of the images, and behind them, at a multiple of 8 bytes, room for as many `i64`
    /// as the batch has samples. Empty if the bundle has no images.
    #[cfg(feature = "cuda")]
    pub(crate) fn image_memory(&self) -> &[u8] {
        match self.slot.columns.first() {
            Some(Memory::Rows(memory)) if self.about.pictured => memory,
            _ => &[],
        }
    }

    /// Does the same as [`Batch::image_memory`], but the memory can be written to.
    #[cfg(feature = "cuda")]
    pub(crate) fn image_memory_mut(&mut self) -> &mut [u8] {
        match self.slot.columns.first_mut() {
            Some(Memory::Rows(memory)) if self.about.pictured => memory,
            _ => &mut [],
        }
    }

    /// Returns whether the loader could continue if this batch were kept for a long time. If it
    /// could not, code that lends the batch's memory to others copies it instead.
    #[must_use]
    pub fn may_be_kept(&self) -> bool {
        self.ring.has_others()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.ring.give_back(std::mem::take(&mut self.slot));
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |(name, values): (&str, Values<'_>)| match values {
            Values::Array(array) => format!("{name} {:?} {:?}", array.dtype, array.shape),
            Values::Bytes(values) => format!("{name} bytes [{}]", values.len()),
        };
        write!(f, "Batch({})", self.fields().map(of).collect::<Vec<_>>().join(", "))
    }
}

/// Removes the rows `gone` (sorted), and moves the rows after them up.
fn close_gaps(slot: &mut Slot, gone: &[usize], columns: &[Column]) {
    let Some(first) = gone.first().copied() else { return };
    let mut to = first;
    for row in first..slot.ids.len() {
        if gone.binary_search(&row).is_ok() {
            continue;
        }
        for (memory, column) in slot.columns.iter_mut().zip(columns) {
            match memory {
                Memory::Rows(bytes) => {
                    let len = column.row_bytes().unwrap_or_default();
                    bytes.copy_within(row * len..(row + 1) * len, to * len);
                }
                Memory::Bytes(values) => values.swap(row, to),
            }
        }
        slot.ids[to] = slot.ids[row];
        slot.labels[to] = slot.labels[row];
        slot.keys.swap(row, to);
        if let Some(blended) = slot.blended.get(row).copied() {
            slot.blended[to] = blended;
        }
        to += 1;
    }
    slot.ids.truncate(to);
    slot.labels.truncate(to);
    slot.keys.truncate(to);
    slot.blended.truncate(to);
    for memory in &mut slot.columns {
        if let Memory::Bytes(values) = memory {
            values.truncate(to);
        }
    }
}
