//! The file being uploaded: read in pieces, with each checksum computed at most once.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::Error;
use crate::checksum::{Checksum, Summer};
use gular_files::Watch;

/// Bytes read from the file at a time; four of them wait for the network.
pub(super) const PIECE: usize = 256 << 10;

/// The file to be uploaded.
pub(crate) struct Local<'a> {
    pub(crate) path: &'a Path,
    pub(crate) len: u64,
    file: File,
    /// The sums made so far: the file does not change, and may be long.
    sums: RefCell<Vec<Checksum>>,
}

impl<'a> Local<'a> {
    pub(crate) fn open(path: &'a Path) -> Result<Self, Error> {
        let io = |e| Error::io("open", path, e);
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(io(io::Error::other("it is not a regular file")));
        }
        Ok(Self { path, len: metadata.len(), file, sums: RefCell::default() })
    }

    pub(crate) fn changed(&self, reason: &str) -> Error {
        Error::Changed { path: self.path.to_owned(), reason: reason.to_owned() }
    }

    /// Returns the file's checksum by the algorithm of `like`.
    pub(crate) fn checksum(&self, like: &Checksum, watch: Watch<'_>) -> Result<Checksum, Error> {
        let known = self.sums.borrow().iter().find(|sum| sum.algorithm == like.algorithm).cloned();
        if let Some(sum) = known {
            return Ok(sum);
        }
        let mut summer = Summer::new(like.algorithm);
        let mut piece = vec![0; PIECE];
        let mut position = 0;
        while position < self.len {
            if watch.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let n = self.piece_at(position, &mut piece)?;
            summer.update(piece.get(..n).unwrap_or_default());
            position += n as u64;
        }
        let sum = summer.finish();
        self.sums.borrow_mut().push(sum.clone());
        Ok(sum)
    }

    /// Fills as much of `piece` as the file has from `position` on.
    pub(super) fn piece_at(&self, position: u64, piece: &mut [u8]) -> Result<usize, Error> {
        let left = usize::try_from(self.len.saturating_sub(position)).unwrap_or(usize::MAX);
        let n = left.min(piece.len());
        let part = piece.get_mut(..n).unwrap_or_default();
        match self.file.read_exact_at(part, position) {
            Ok(()) => Ok(n),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.changed("it became shorter"))
            }
            Err(e) => Err(Error::io("read", self.path, e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::checksum::Algorithm;

    #[test]
    fn a_sum_ends_when_it_is_cancelled_and_is_made_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![7; 3 * PIECE]).unwrap();
        let local = Local::open(file.path()).unwrap();
        let like = Summer::new(Algorithm::Crc32c).finish();
        let cancel = AtomicBool::new(true);
        let cancelled = Watch::silent(&cancel);
        let stopped = local.checksum(&like, cancelled);
        assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
        let sum = local.checksum(&like, Watch::never()).unwrap();
        // The checksum is known by now, so nothing is read.
        assert_eq!(local.checksum(&like, cancelled).unwrap(), sum);
    }
}
