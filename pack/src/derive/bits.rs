//! One bit per sample of a shard.

use gular_bundle::Row;

/// The samples of a shard that are taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Returns `n` bits, none of them set.
    pub(super) fn none(n: usize) -> Self {
        Self { words: vec![0; n.div_ceil(64)] }
    }

    /// Returns `n` bits, all set.
    pub(super) fn all(n: usize) -> Self {
        let mut words = vec![u64::MAX; n.div_ceil(64)];
        if let (Some(last), used @ 1..) = (words.last_mut(), n % 64) {
            *last = (1 << used) - 1;
        }
        Self { words }
    }

    pub(super) fn set(&mut self, row: Row, to: bool) {
        let bit = 1_u64 << (row.0 % 64);
        if let Some(word) = self.words.get_mut(row.0 / 64) {
            if to { *word |= bit } else { *word &= !bit }
        }
    }

    /// Returns the rows that are taken, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                (left != 0).then(|| {
                    left &= left - 1;
                    Row(at * 64 + bit)
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_that_were_set() {
        let mut bits = Bits::none(200);
        let rows = [0, 63, 64, 130, 199];
        rows.iter().for_each(|row| bits.set(Row(*row), true));
        bits.set(Row(64), false);
        assert_eq!(bits.rows().map(|row| row.0).collect::<Vec<_>>(), [0, 63, 130, 199]);
        for n in [0, 1, 63, 64, 65, 128] {
            assert_eq!((Bits::none(n).rows().count(), Bits::all(n).rows().count()), (0, n));
        }
    }
}
