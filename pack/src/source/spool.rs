//! Unpacks what is compressed as a whole once: nothing in it can be found without unpacking all
//! that is before.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::path::Path;
use std::sync::atomic::Ordering;

use super::archive::Opening;
use crate::facts::RunError;
use crate::source::{ArchiveLimit, SMALL, SourceError};

/// Bytes that are unpacked at a time.
const PIECE: usize = 1 << 20;
/// After so many bytes the disk is asked for its room again.
const LOOK_AGAIN: u64 = 256 << 20;

/// A nameless file that grows within the limits of an archive.
pub(super) struct Spool<'a> {
    path: &'a Path,
    opening: &'a Opening<'a>,
    file: File,
    /// The length of the archive.
    packed: u64,
    total: u64,
    /// When the disk is asked for its room again.
    look: u64,
}

impl<'a> Spool<'a> {
    /// An empty file for the archive at `path`, of `packed` bytes.
    pub(super) fn new(
        path: &'a Path,
        packed: u64,
        opening: &'a Opening<'a>,
    ) -> Result<Self, SourceError> {
        let dir = opening.temp;
        let file =
            tempfile::tempfile_in(dir).map_err(|e| SourceError::io("create a file in", dir, e))?;
        Ok(Self { path, opening, file, packed, total: 0, look: 0 })
    }

    /// Appends bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        let Opening { limits, temp: dir, cancel } = *self.opening;
        if cancel.load(Ordering::Relaxed) {
            return Err(RunError::Cancelled.into());
        }
        // Headers and the end of a tar are zeros for the most part.
        let most = self.packed.saturating_mul(limits.ratio).max(SMALL);
        if self.total >= self.look {
            let free = gular_files::free(dir)?.bytes;
            let to_come = to_come(self.total, most.min(limits.total_bytes));
            if free < to_come {
                let needed = self.total.saturating_add(to_come);
                let path = dir.display().to_string();
                return Err(RunError::NoSpace { path, needed, free }.into());
            }
            self.look = self.total.saturating_add(LOOK_AGAIN);
        }
        self.total = self.total.saturating_add(bytes.len() as u64);
        let over = if self.total > limits.total_bytes {
            Some((ArchiveLimit::Total, limits.total_bytes))
        } else if self.total > most {
            Some((ArchiveLimit::Ratio, most))
        } else {
            None
        };
        if let Some((limit, most)) = over {
            let reason = format!("it unpacks to more than {most} bytes from only {}", self.packed);
            let path = self.path.display().to_string();
            return Err(SourceError::Expands { path, limit, reason });
        }
        self.file.write_all(bytes).map_err(|e| SourceError::io("write in", dir, e))
    }

    /// The file, at its beginning.
    pub(super) fn finish(mut self) -> Result<File, SourceError> {
        self.file.rewind().map_err(|e| SourceError::io("read in", self.opening.temp, e))?;
        Ok(self.file)
    }
}

/// Unpacks `from` into a nameless file; `packed` is the length of the archive.
pub(super) fn unpack(
    path: &Path,
    mut from: impl Read,
    packed: u64,
    opening: &Opening<'_>,
) -> Result<File, SourceError> {
    let mut spool = Spool::new(path, packed, opening)?;
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return spool.finish(),
            Ok(n) => spool.push(piece.get(..n).unwrap_or_default())?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                let reason = format!("it cannot be decompressed beyond {} bytes: {e}", spool.total);
                return Err(SourceError::BadArchive { path: path.display().to_string(), reason });
            }
        }
    }
}

/// Room for what comes until the disk is asked again, of an archive that unpacks to at most `most`
/// bytes.
fn to_come(total: u64, most: u64) -> u64 {
    most.saturating_sub(total).min(LOOK_AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_archive_needs_little_room() {
        assert_eq!(to_come(0, 2 << 20), 2 << 20);
        assert_eq!(to_come(0, 1 << 40), LOOK_AGAIN);
        assert_eq!(to_come(3 << 30, (3 << 30) + 5), 5);
    }
}
