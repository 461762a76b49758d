//! Sorts more records than fit in memory.
//!
//! Records gather in one arena up to a bound, are sorted and written to an
//! unnamed temporary file, a *run*; in the end all runs are merged. Ties of the
//! sort key are broken by the record, so the result never depends on the bound.
//!
//! ```text
//! level 0   64 runs of the arena's size ─▶ merged into one run of level 1
//! level 1   64 of those ─▶ one of level 2, and so on
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{
    self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _,
};
use std::path::{Path, PathBuf};

/// Buffer for each run that is merged.
const RUN_BUFFER: usize = 64 << 10;
/// Runs of a level before they become one of the next: each is an open file,
/// of which a process may often have no more than 1024. 10⁹ paths at the
/// default bound make some 1600 runs: at most 64 + 25 files are open at a time.
const FAN_IN: usize = 64;

#[derive(Debug)]
pub(crate) struct Sorter {
    dir: PathBuf,
    bound: usize,
    arena: Vec<u8>,
    entries: Vec<Entry>,
    /// The runs on disk; their levels never rise from one to the next.
    runs: Vec<Run>,
}

#[derive(Debug)]
struct Run {
    level: u32,
    file: File,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    start: usize,
    key: u32,
    len: u32,
}

/// A sort key and its value.
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
        let mut out = RunWriter::new(&self.dir)?;
        for e in &self.entries {
            let all = &self.arena[e.start..e.start + e.len as usize];
            out.write(all, e.key)?;
        }
        self.runs.push(Run { level: 0, file: out.finish()? });
        self.arena.clear();
        self.entries.clear();
        self.merge_full_levels()
    }

    fn merge_full_levels(&mut self) -> io::Result<()> {
        while let Some(level) = self.runs.last().map(|run| run.level) {
            let start = self.runs.partition_point(|run| run.level > level);
            if self.runs.len() - start < FAN_IN {
                break;
            }
            let mut out = RunWriter::new(&self.dir)?;
            for pair in merge(self.runs.drain(start..).collect())? {
                let (mut all, record) = pair?;
                let key = u32::try_from(all.len()).map_err(io::Error::other)?;
                all.extend_from_slice(&record);
                out.write(&all, key)?;
            }
            self.runs.push(Run { level: level + 1, file: out.finish()? });
        }
        Ok(())
    }

    /// Returns all records in order.
    pub(crate) fn finish(mut self) -> io::Result<Sorted> {
        if self.runs.is_empty() {
            self.sort();
            return Ok(Sorted::Memory { arena: self.arena, entries: self.entries.into_iter() });
        }
        self.spill()?;
        merge(self.runs)
    }
}

fn merge(runs: Vec<Run>) -> io::Result<Sorted> {
    let mut files = Vec::with_capacity(runs.len());
    let mut heap = BinaryHeap::with_capacity(runs.len());
    for (i, Run { mut file, .. }) in runs.into_iter().enumerate() {
        file.seek(SeekFrom::Start(0))?;
        let mut file = BufReader::with_capacity(RUN_BUFFER, file);
        if let Some(pair) = next_pair(&mut file)? {
            heap.push(Reverse((pair, i)));
        }
        files.push(file);
    }
    Ok(Sorted::Merged { files, heap })
}

struct RunWriter(BufWriter<File>);

impl RunWriter {
    fn new(dir: &Path) -> io::Result<Self> {
        Ok(Self(BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(dir)?)))
    }

    /// Writes a record, the first `key` bytes of `all` being its sort key.
    fn write(&mut self, all: &[u8], key: u32) -> io::Result<()> {
        let len = u32::try_from(all.len()).map_err(io::Error::other)?;
        self.0.write_all(&key.to_le_bytes())?;
        self.0.write_all(&len.to_le_bytes())?;
        self.0.write_all(all)
    }

    fn finish(self) -> io::Result<File> {
        self.0.into_inner().map_err(io::IntoInnerError::into_error)
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
    Merged { files: Vec<BufReader<File>>, heap: BinaryHeap<Reverse<(Pair, usize)>> },
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
            Self::Merged { files, heap } => {
                let Reverse((pair, i)) = heap.pop()?;
                match next_pair(&mut files[i]) {
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
                assert!(sorter.runs.len() < 2 * FAN_IN, "{} open files", sorter.runs.len());
            }
            let sorted: Vec<Pair> = sorter.finish().unwrap().map(Result::unwrap).collect();
            assert!(sorted == expected, "bound {bound}");
        }
    }
}
