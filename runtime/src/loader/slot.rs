//! The memory of a batch: divided into rows while it is filled, and put together afterwards.
//!
//! It is allocated once for each loader. Each row is *owned* by the thread that writes it, so no
//! two threads ever see the same bytes.

use bytes::BytesMut;
use gular_augment::Blended;
use gular_order::Tally;

use crate::Error;

/// The memory of one batch, which is used again for later batches.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The memory of each field.
    pub(super) columns: Vec<Memory>,
    /// The samples in the rows, as numbers of the split.
    pub(super) ids: Vec<u64>,
    /// The rows' positions in the epoch.
    pub(super) positions: Vec<u64>,
    /// The terms that the rows add to the epoch's tally.
    pub(super) terms: Vec<Option<u64>>,
    /// The tally of all rows.
    pub(super) tally: Tally,
    /// Keys of the samples in the rows.
    pub(super) keys: Vec<String>,
    /// Classes of the rows; empty when the bundle has none.
    pub(super) labels: Vec<i64>,
    /// For each row, what it was blended with; empty if no rows are.
    pub(super) blended: Vec<Blended>,
    /// Rows that failed, in order, with their errors.
    pub(super) faults: Vec<(usize, Error)>,
    /// Rows whose own sample cannot be decoded, in order: left out, or with another one.
    pub(super) broken: Vec<(usize, Error)>,
    /// The rows while the slot is filled.
    pub(super) rows: Vec<Option<Row>>,
    /// For each row, whether it contains a sample that may be blended.
    pub(super) whole: Vec<bool>,
    /// Rows without memory, to be used again.
    pub(super) spare: Vec<Row>,
}

/// A field of a batch.
#[derive(Debug)]
pub(super) enum Memory {
    /// Rows of one length; always whole pages, enough for the full batch.
    Rows(BytesMut),
    /// Values of any length, one for each sample.
    Bytes(Vec<Vec<u8>>),
}

/// The memory of one sample, owned by the thread that makes it.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// The cells of a row, one for each field.
    pub(super) cells: Vec<Cell>,
    pub(super) key: String,
}

/// The memory of a field of one sample.
#[derive(Debug)]
pub(super) enum Cell {
    Row(BytesMut),
    Bytes(Vec<u8>),
}

/// A huge page, as x86-64 has them and Linux elsewhere with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// Returns at least `len` bytes of zeros, in whole pages that nothing else shares. If they fill a
/// huge page, they begin and end with one, so that the kernel can use huge pages if it is asked to.
pub(crate) fn pages(len: usize) -> Option<BytesMut> {
    let whole = whole_pages(len)?;
    // `zeroed` aborts when memory is short; so ask first.
    drop(reserve(len)?);
    let mut memory = BytesMut::zeroed(whole.checked_add(page_for(len))?);
    let mut aligned = memory.split_off(memory.as_ptr().align_offset(page_for(len)));
    drop(aligned.split_off(whole));
    huge(&mut aligned);
    Some(aligned)
}

/// Returns the size of a page for `len` bytes.
fn page_for(len: usize) -> usize {
    let page = rustix::param::page_size();
    if len < HUGE_PAGE { page } else { page.max(HUGE_PAGE) }
}

fn whole_pages(len: usize) -> Option<usize> {
    len.max(1).checked_next_multiple_of(page_for(len))
}

/// Reserves the address space that [`pages`] needs for `len` bytes. None of it is written to, so
/// that it takes no memory yet.
pub(super) fn reserve(len: usize) -> Option<Vec<u8>> {
    let mut room = Vec::new();
    let with_room = whole_pages(len)?.checked_add(page_for(len))?;
    room.try_reserve_exact(with_room).ok().map(|()| room)
}

/// Asks for huge pages: a batch of 38 MB needs 20 of them instead of 9,400 of 4 KiB, each of
/// which the kernel brings when it is first written to.
fn huge(memory: &mut BytesMut) {
    if memory.len() >= HUGE_PAGE {
        gular_files::advise_huge_pages(memory);
    }
}

/// Bytes of each field of a slot of `rows` rows of `row_bytes` bytes.
pub(super) fn lens(
    rows: usize,
    row_bytes: &[Option<usize>],
) -> impl Iterator<Item = Option<usize>> + Clone {
    row_bytes.iter().enumerate().map(move |(column, bytes)| {
        // The labels are stored behind the images, so that one copy brings both to a GPU.
        let labels = if column == 0 { rows.saturating_add(1) } else { 0 };
        Some(rows.saturating_mul((*bytes)?).saturating_add(labels.saturating_mul(8)))
    })
}

impl Slot {
    /// Sees to it that there is memory for `rows` rows of `row_bytes` bytes for each field.
    pub(super) fn allocate(&mut self, rows: usize, row_bytes: &[Option<usize>]) -> Option<()> {
        if self.columns.is_empty() {
            let columns = lens(rows, row_bytes).map(|len| match len {
                None => Some(Memory::Bytes(Vec::new())),
                Some(len) => pages(len).map(Memory::Rows),
            });
            self.columns = columns.collect::<Option<_>>()?;
        }
        Some(())
    }

    /// Splits the memory into one row per sample.
    pub(super) fn split(
        &mut self,
        samples: impl Iterator<Item = u64>,
        row_bytes: &[Option<usize>],
    ) {
        self.ids.clear();
        self.ids.extend(samples);
        self.labels.clear();
        self.labels.resize(self.ids.len(), 0);
        self.faults.clear();
        self.broken.clear();
        self.rows.clear();
        for _ in 0..self.ids.len() {
            let mut row = self.spare.pop().unwrap_or_default();
            row.key = self.keys.pop().unwrap_or_default();
            let columns = self.columns.iter_mut().zip(row_bytes);
            row.cells.extend(columns.map(|(column, bytes)| match column {
                Memory::Rows(memory) => Cell::Row(memory.split_to(bytes.unwrap_or_default())),
                Memory::Bytes(values) => Cell::Bytes(values.pop().unwrap_or_default()),
            }));
            self.rows.push(Some(row));
        }
        self.keys.clear();
        for column in &mut self.columns {
            if let Memory::Bytes(values) = column {
                values.clear();
            }
        }
    }

    /// Says at which positions the rows are: `first`, and every `stride` after it.
    pub(super) fn number(&mut self, first: u64, stride: u64) {
        let n = self.ids.len() as u64;
        self.positions.clear();
        self.positions.extend((0..n).map(|i| first.saturating_add(i.saturating_mul(stride))));
        self.terms.clear();
        self.terms.resize(self.ids.len(), None);
        self.tally = Tally::default();
    }

    /// Makes room for what rows are blended with, where they are.
    pub(super) fn blend(&mut self, blended: bool) {
        let n = self.ids.len();
        self.whole.clear();
        self.whole.resize(n, false);
        self.blended.clear();
        let none = Blended { weight: 1.0, label: 0, sample: 0 };
        self.blended.resize(if blended { n } else { 0 }, none);
    }

    /// Joins the rows again; neighbours in memory, so that nothing is copied.
    pub(super) fn join(&mut self) {
        let ends: Vec<_> = self.columns.iter_mut().map(Memory::take).collect();
        for mut row in self.rows.drain(..).flatten() {
            for (column, cell) in self.columns.iter_mut().zip(row.cells.drain(..)) {
                column.join(cell);
            }
            self.keys.push(std::mem::take(&mut row.key));
            self.spare.push(row);
        }
        for (column, end) in self.columns.iter_mut().zip(ends) {
            end.into_iter().for_each(|end| column.join(Cell::Row(end)));
        }
        self.faults.sort_by_key(|(row, _)| *row);
        self.broken.sort_by_key(|(row, _)| *row);
    }

    /// Adds up what the rows add to the tally of an epoch of `n_positions`.
    pub(super) fn count(&mut self, n_positions: u64) {
        self.tally = Tally::default();
        self.tally.broken = self.broken.len() as u64;
        for (position, term) in self.positions.iter().zip(&self.terms) {
            if let Some(term) = term {
                self.tally.add(*term, *position, n_positions);
            }
        }
    }
}

impl Memory {
    /// Takes the memory that was not split off, if it is that of rows.
    fn take(&mut self) -> Option<BytesMut> {
        match self {
            Self::Rows(memory) => Some(std::mem::take(memory)),
            Self::Bytes(_) => None,
        }
    }

    fn join(&mut self, cell: Cell) {
        match (self, cell) {
            (Self::Rows(memory), Cell::Row(row)) => memory.unsplit(row),
            (Self::Bytes(values), Cell::Bytes(value)) => values.push(value),
            (Self::Rows(_), Cell::Bytes(_)) | (Self::Bytes(_), Cell::Row(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_whole_pages_of_their_own_and_stay_where_they_are() {
        let page = rustix::param::page_size();
        for len in [0, 1, page - 1, page, page + 1, 10 * page + 7] {
            let memory = pages(len).unwrap();
            assert_eq!((memory.as_ptr().align_offset(page), memory.len() % page), (0, 0), "{len}");
            assert!(memory.len() >= len && memory.len() < len + page + 1, "{len}");
            let start = memory.as_ptr();
            let columns = vec![Memory::Bytes(Vec::new()), Memory::Rows(memory)];
            let mut slot = Slot { columns, ..Slot::default() };
            for rows in [3_usize, 0, 2] {
                slot.split(0..rows as u64, &[None, Some(len / 3)]);
                slot.join();
                let [Memory::Bytes(values), Memory::Rows(memory)] = &slot.columns[..] else {
                    panic!("other fields");
                };
                assert_eq!((values.len(), slot.keys.len()), (rows, rows));
                assert_eq!((memory.as_ptr(), memory.len()), (start, pages(len).unwrap().len()));
            }
        }
        assert!(pages(usize::MAX).is_none());
    }

    #[test]
    fn behind_the_first_field_is_room_for_labels() {
        let mut slot = Slot::default();
        slot.allocate(5, &[Some(3), Some(3)]).unwrap();
        let Some(Memory::Rows(first)) = slot.columns.first() else { panic!("rows") };
        assert!(first.len() >= (5_usize * 3).next_multiple_of(8) + 5 * 8, "{}", first.len());
    }

    #[test]
    fn large_slots_begin_and_end_with_a_huge_page() {
        for len in [HUGE_PAGE, HUGE_PAGE + 1, 3 * HUGE_PAGE - 1] {
            let memory = pages(len).unwrap();
            let found = (memory.as_ptr().align_offset(HUGE_PAGE), memory.len() % HUGE_PAGE);
            assert_eq!(found, (0, 0), "{len}");
            assert!(memory.len() >= len && memory.len() < len + HUGE_PAGE, "{len}");
        }
    }
}
