//! Buffers values until the field before them is written.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{SpooledTempFile, spooled_tempfile_in};

use crate::Error;
use crate::envelope::Out;

/// Values wait in memory up to this size, then in a temporary file.
const SPOOL_BYTES: usize = 8 << 20;

/// The values of one field.
#[derive(Debug)]
pub(crate) struct Spool {
    file: SpooledTempFile,
    dir: PathBuf,
}

impl Spool {
    /// Makes an empty spool, whose temporary file would be in `dir`.
    pub(crate) fn new(dir: &Path) -> Self {
        Self { file: spooled_tempfile_in(SPOOL_BYTES, dir), dir: dir.to_owned() }
    }

    pub(crate) fn push(&mut self, value: &[u8]) -> Result<(), Error> {
        self.file.write_all(value).map_err(|e| Error::io("spool", &self.dir, e))
    }

    /// Writes all values to `out`.
    pub(crate) fn copy(mut self, out: &mut Out) -> Result<(), Error> {
        let io = |e| Error::io("read a temporary file of", &self.dir, e);
        self.file.seek(SeekFrom::Start(0)).map_err(io)?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = self.file.read(&mut buffer).map_err(io)?;
            match buffer.get(..n) {
                Some(piece) if n > 0 => out.write(piece)?,
                _ => return Ok(()),
            }
        }
    }
}

/// Returns the end of each value, counted from the beginning of the first.
pub(crate) fn ends(lengths: &[i32]) -> Vec<i64> {
    let mut end = 0_i64;
    let add = |len: &i32| {
        end = end.saturating_add(i64::from(*len));
        end
    };
    lengths.iter().map(add).collect()
}

/// Returns the first byte of each value of a field that begins at `start`; `None` on overflow.
pub(crate) fn starts(start: u64, lengths: &[i32]) -> Option<Vec<u64>> {
    let mut next = start;
    let mut starts = Vec::with_capacity(lengths.len());
    for len in lengths {
        starts.push(next);
        next = next.checked_add(u64::try_from(*len).ok()?)?;
    }
    Some(starts)
}
