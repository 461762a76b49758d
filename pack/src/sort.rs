//! Sorting more records than memory holds.
//!
//! Records gather in one arena up to a bound, are sorted and written to an
//! unnamed temporary file; in the end all runs are merged. Ties of the sort
//! key are broken by the record, so the result never depends on the bound.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{
    self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _,
};
use std::path::{Path, PathBuf};

/// Buffers of the runs being merged; 1000 runs take 64 MiB.
const RUN_BUFFER: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Sorter {
    dir: PathBuf,
    bound: usize,
    arena: Vec<u8>,
    entries: Vec<Entry>,
    runs: Vec<File>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    start: usize,
    key: u32,
    len: u32,
}

/// A sort key and what belongs to it.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

impl Sorter {
    /// Spills into folder `dir` above `bound` bytes.
    pub(crate) fn new(dir: &Path, bound: usize) -> Self {
        Self {
            dir: dir.to_owned(),
            bound,
            arena: Vec::new(),
            entries: Vec::new(),
            runs: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, key: &[u8], record: &[u8]) -> io::Result<()> {
        let too_long = || io::Error::other("a record is over 4 GiB");
        let entry = Entry {
            start: self.arena.len(),
            key: u32::try_from(key.len()).map_err(|_| too_long())?,
            len: u32::try_from(key.len() + record.len()).map_err(|_| too_long())?,
        };
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(record);
        self.entries.push(entry);
        // The vectors double when they grow, so that half the bound may be spare.
        let used = self.arena.len() + self.entries.len() * size_of::<Entry>();
        if used > self.bound / 2 { self.spill() } else { Ok(()) }
    }

    fn sort(&mut self) {
        let arena = &self.arena;
        let parts = |e: &Entry| {
            let all = &arena[e.start..e.start + e.len as usize];
            all.split_at(e.key as usize)
        };
        self.entries.sort_unstable_by(|a, b| parts(a).cmp(&parts(b)));
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut out = BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(&self.dir)?);
        for e in &self.entries {
            out.write_all(&e.key.to_le_bytes())?;
            out.write_all(&e.len.to_le_bytes())?;
            out.write_all(&self.arena[e.start..e.start + e.len as usize])?;
        }
        self.runs.push(out.into_inner().map_err(io::IntoInnerError::into_error)?);
        self.arena.clear();
        self.entries.clear();
        Ok(())
    }

    /// All records in order.
    pub(crate) fn finish(mut self) -> io::Result<Sorted> {
        if self.runs.is_empty() {
            self.sort();
            return Ok(Sorted::Memory { arena: self.arena, entries: self.entries.into_iter() });
        }
        self.spill()?;
        self.arena = Vec::new();
        self.entries = Vec::new();
        let mut runs = Vec::with_capacity(self.runs.len());
        let mut heap = BinaryHeap::with_capacity(self.runs.len());
        for (i, mut file) in self.runs.into_iter().enumerate() {
            file.seek(SeekFrom::Start(0))?;
            let mut run = BufReader::with_capacity(RUN_BUFFER, file);
            if let Some(pair) = next_pair(&mut run)? {
                heap.push(Reverse((pair, i)));
            }
            runs.push(run);
        }
        Ok(Sorted::Merged { runs, heap })
    }
}

fn next_pair(run: &mut BufReader<File>) -> io::Result<Option<Pair>> {
    if run.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut lens = [0; 8];
    run.read_exact(&mut lens)?;
    let word =
        |i: usize| u32::from_le_bytes([lens[i], lens[i + 1], lens[i + 2], lens[i + 3]]) as usize;
    let (key_len, len) = (word(0), word(4));
    let mut key = vec![0; len];
    run.read_exact(&mut key)?;
    let record = key.split_off(key_len);
    Ok(Some((key, record)))
}

/// Records in order.
#[derive(Debug)]
pub(crate) enum Sorted {
    Memory { arena: Vec<u8>, entries: std::vec::IntoIter<Entry> },
    Merged { runs: Vec<BufReader<File>>, heap: BinaryHeap<Reverse<(Pair, usize)>> },
}

impl Iterator for Sorted {
    type Item = io::Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Memory { arena, entries } => entries.next().map(|e| {
                let mut key = arena[e.start..e.start + e.len as usize].to_vec();
                let record = key.split_off(e.key as usize);
                Ok((key, record))
            }),
            Self::Merged { runs, heap } => {
                let Reverse((pair, i)) = heap.pop()?;
                match next_pair(&mut runs[i]) {
                    Ok(Some(next)) => heap.push(Reverse((next, i))),
                    Ok(None) => {}
                    Err(e) => return Some(Err(e)),
                }
                Some(Ok(pair))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bound_gives_the_same_order() {
        let dir = tempfile::tempdir().unwrap();
        let pairs: Vec<Pair> = (0..5000_u32)
            .map(|i| {
                (
                    i.wrapping_mul(2_654_435_761).to_be_bytes()[..2].to_vec(),
                    i.to_le_bytes().to_vec(),
                )
            })
            .collect();
        let mut expected = pairs.clone();
        expected.sort();
        for bound in [100, 5_000, 100_000, 1 << 30] {
            let mut sorter = Sorter::new(dir.path(), bound);
            for (key, record) in &pairs {
                sorter.push(key, record).unwrap();
            }
            let sorted: Vec<Pair> = sorter.finish().unwrap().map(Result::unwrap).collect();
            assert!(sorted == expected, "bound {bound}");
        }
    }
}
