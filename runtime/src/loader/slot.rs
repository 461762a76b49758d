//! The memory of a batch: split into rows while it is filled, and joined again.
//!
//! It is one allocation for the loader's life. Each row is *owned* by the thread that writes it,
//! so no two threads ever see the same bytes.

use bytes::BytesMut;

use crate::Error;
use crate::augment::Blended;

/// The memory of one batch, reused for ever.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Of each field.
    pub(super) columns: Vec<Memory>,
    /// Samples of the rows.
    pub(super) ids: Vec<u64>,
    /// Positions of the epoch that the rows are at.
    pub(super) positions: Vec<u64>,
    /// What the rows add to the epoch's tally.
    pub(super) terms: Vec<Option<u64>>,
    /// Keys of the rows.
    pub(super) keys: Vec<String>,
    /// Classes of the rows; empty when the bundle has none.
    pub(super) labels: Vec<i64>,
    /// What each row was blended with; empty where none are.
    pub(super) blended: Vec<Blended>,
    /// Rows that failed, in order.
    pub(super) faults: Vec<(usize, Error)>,
    /// Rows whose own sample cannot be decoded, in order: left out, or with another one.
    pub(super) broken: Vec<(usize, Error)>,
    /// Where rows are while the slot is filled.
    pub(super) rows: Vec<Option<Row>>,
    /// Which of them hold a sample that may be blended.
    pub(super) whole: Vec<bool>,
    /// Rows without memory, for the next time.
    spare: Vec<Row>,
}

/// A field of a batch.
#[derive(Debug)]
pub(super) enum Memory {
    /// Rows of one length; always whole pages, enough for the full batch.
    Rows(BytesMut),
    /// Values of any length.
    Bytes(Vec<Vec<u8>>),
}

/// The memory of one sample, owned by the thread that makes it.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Of each field.
    pub(super) cells: Vec<Cell>,
    pub(super) key: String,
}

/// A field of one sample.
#[derive(Debug)]
pub(super) enum Cell {
    Row(BytesMut),
    Bytes(Vec<u8>),
}

/// A huge page, as x86-64 has them and Linux elsewhere with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// At least `len` bytes of zeros: whole pages, which nothing else shares; as many as fill a huge
/// page begin and end with one, so that the kernel can take those where it is told to.
pub(crate) fn pages(len: usize) -> Option<BytesMut> {
    let page = rustix::param::page_size();
    let page = if len < HUGE_PAGE { page } else { page.max(HUGE_PAGE) };
    let whole = len.max(1).checked_next_multiple_of(page)?;
    let with_room = whole.checked_add(page)?;
    // `zeroed` aborts when memory is short; so ask first.
    Vec::<u8>::new().try_reserve_exact(with_room).ok()?;
    let mut memory = BytesMut::zeroed(with_room);
    let mut aligned = memory.split_off(memory.as_ptr().align_offset(page));
    drop(aligned.split_off(whole));
    Some(aligned)
}

impl Slot {
    /// Splits the memory into one row a sample.
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
    pub(super) fn join(mut self) -> Self {
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
        self
    }
}

impl Memory {
    /// What was not split off, where it is of rows.
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
                slot = slot.join();
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
    fn large_slots_begin_and_end_with_a_huge_page() {
        for len in [HUGE_PAGE, HUGE_PAGE + 1, 3 * HUGE_PAGE - 1] {
            let memory = pages(len).unwrap();
            let found = (memory.as_ptr().align_offset(HUGE_PAGE), memory.len() % HUGE_PAGE);
            assert_eq!(found, (0, 0), "{len}");
            assert!(memory.len() >= len && memory.len() < len + HUGE_PAGE, "{len}");
        }
    }
}
