//! Limits on the memory that a survey of an Arrow file takes.

use crate::ReadAt;

/// The amount of a file's contents that may be kept in memory. It is limited since overlapping
/// buffers and empty values can repeat contents without making the file larger.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Number of values, of all columns together.
    pub(crate) values: u64,
    /// Bytes of texts.
    pub(crate) texts: u64,
}

impl Budget {
    /// Returns a budget of one value per byte of the file, and of texts that repeat it a few times.
    pub(crate) fn of(file: &ReadAt) -> Self {
        Self { values: file.len_bytes(), texts: file.len_bytes().saturating_mul(8) }
    }

    pub(crate) fn take(&mut self, rows: u64) -> Result<(), String> {
        let left = self.values.checked_sub(rows);
        self.values = left.ok_or("its columns have more values than it has bytes")?;
        Ok(())
    }
}

/// Says which rows have a value.
#[derive(Debug)]
pub(crate) enum Valid {
    All,
    /// One bit per row, the lowest first.
    Bits(Vec<u8>),
}

impl Valid {
    pub(crate) fn has(&self, row: usize) -> bool {
        match self {
            Self::All => true,
            Self::Bits(bits) => bits.get(row / 8).is_some_and(|b| b >> (row % 8) & 1 == 1),
        }
    }

    pub(crate) fn has_all(&self, rows: u64) -> bool {
        match self {
            Self::All => true,
            Self::Bits(_) => usize::try_from(rows).is_ok_and(|n| (0..n).all(|row| self.has(row))),
        }
    }
}
