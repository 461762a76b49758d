//! Reads at an offset, from one of two back ends.
//!
//! **map** copies out of a memory map: fastest, but a file that is cut while
//! mapped kills the process (SIGBUS), so it is only for files nobody else
//! writes, such as a cache's own. **pread** asks the kernel each time and
//! turns every fault into an ordinary error: for all other files.

use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gular_files::Map;
use serde::Deserialize;

use crate::Error;

/// How shards and indexes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Positional reads; safe on any file and file system.
    #[default]
    Pread,
    /// Memory maps; only for files that nobody truncates while they are open.
    Map,
}

/// An open file of known length.
#[derive(Debug)]
pub struct ReadAt {
    path: PathBuf,
    len: u64,
    source: Source,
    identity: Option<Identity>,
    /// When set, every read fails.
    stop: Option<Arc<AtomicBool>>,
}

/// Identifies the state of a file: if it is equal, the file is the same, and was not written to
/// in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    len: u64,
    /// Seconds and nanoseconds of the last write.
    written: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            len: file.len(),
            written: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

#[derive(Debug)]
enum Source {
    Pread(File),
    Map(Map),
    Memory(Vec<u8>),
}

impl ReadAt {
    /// Opens `path`; its length is fixed from here on.
    ///
    /// # Errors
    /// [`Error::Io`]; a folder or device is refused.
    pub fn open(path: &Path, backend: Backend) -> Result<Self, Error> {
        let io = |e| Error::io("open", path, e);
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(Error::malformed(path.display().to_string(), "it is not a regular file"));
        }
        let source = match backend {
            Backend::Pread => Source::Pread(file),
            Backend::Map => Source::Map(Map::of(&file).map_err(io)?),
        };
        let identity = Some(Identity::of(&metadata));
        Ok(Self { path: path.to_owned(), len: metadata.len(), source, identity, stop: None })
    }

    /// Reads from memory, for bytes that are not from a local file.
    #[must_use]
    pub fn in_memory(name: &str, bytes: Vec<u8>) -> Self {
        let (len, source) = (bytes.len() as u64, Source::Memory(bytes));
        Self { path: name.into(), len, source, identity: None, stop: None }
    }

    /// Makes reads of this file fail with [`Error::Stopped`] once `stop` is set. So code that walks
    /// a file of millions of samples can be stopped without knowing about `stop`.
    #[must_use]
    pub fn until(mut self, stop: &Arc<AtomicBool>) -> Self {
        self.stop = Some(Arc::clone(stop));
        self
    }

    /// Reads all bytes of the file, and returns it as a file in memory.
    ///
    /// # Errors
    /// Those of [`ReadAt::read_at`].
    pub(crate) fn read_whole(&self) -> Result<Self, Error> {
        let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(0)];
        self.read_at(0, &mut bytes)?;
        let (path, source) = (self.path.clone(), Source::Memory(bytes));
        Ok(Self { path, len: self.len, source, identity: self.identity, stop: self.stop.clone() })
    }

    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self.source, Source::Map(_))
    }

    /// Returns the identity that the file had when it was opened; `None` for bytes in memory.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Returns whether each read asks the kernel, through an open file.
    pub(crate) fn is_read_in_pieces(&self) -> bool {
        matches!(self.source, Source::Pread(_))
    }

    /// Fails if the file was written to since it was opened. Maps and bytes in memory are not
    /// checked.
    pub(crate) fn check_unchanged(&self) -> Result<(), Error> {
        let Source::Pread(file) = &self.source else { return Ok(()) };
        let now = file.metadata().map_err(|e| Error::io("look at", &self.path, e))?;
        match self.identity == Some(Identity::of(&now)) {
            true => Ok(()),
            false => Err(Error::malformed(self.path(), "it was changed while it was open")),
        }
    }

    /// The length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// The file's path, for messages.
    #[must_use]
    pub fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Malformed`] past the end, [`Error::Io`] when the read fails,
    /// [`Error::Stopped`] after [`ReadAt::until`].
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Error::Stopped { path: self.path() });
        }
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= self.len);
        let Some(end) = end else {
            let end = offset.saturating_add(out.len() as u64);
            let reason = format!("it has {} bytes, and at least {end} are needed", self.len);
            return Err(Error::malformed(self.path(), reason));
        };
        match &self.source {
            Source::Pread(file) => {
                file.read_exact_at(out, offset).map_err(|e| Error::io("read", &self.path, e))
            }
            Source::Map(map) => self.copy(map, offset, end, out),
            Source::Memory(bytes) => self.copy(bytes, offset, end, out),
        }
    }

    /// Returns the bytes from `offset` on if they are in memory already: those of a map, within its
    /// length.
    pub(crate) fn mapped(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let bytes: &[u8] = match &self.source {
            Source::Pread(_) => return None,
            Source::Map(map) => map,
            Source::Memory(bytes) => bytes,
        };
        let start = usize::try_from(offset).ok()?;
        bytes.get(start..start.checked_add(len)?)
    }

    /// Returns the bytes `range`, if they are in memory already.
    pub(crate) fn lent(&self, range: &Range<u64>) -> Option<&[u8]> {
        let len = range.end.checked_sub(range.start)?;
        self.mapped(range.start, usize::try_from(len).ok()?)
    }

    fn copy(&self, from: &[u8], start: u64, end: u64, out: &mut [u8]) -> Result<(), Error> {
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let from = range.and_then(|(start, end)| from.get(start..end));
        let from = from.ok_or_else(|| Error::malformed(self.path(), "it changed length"))?;
        out.copy_from_slice(from);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_file_is_not_read() {
        let stop = Arc::new(AtomicBool::new(false));
        let file = ReadAt::in_memory("f", vec![1; 8]).until(&stop);
        file.read_at(0, &mut [0; 8]).unwrap();
        stop.store(true, Ordering::Relaxed);
        let error = file.read_at(0, &mut [0; 8]).unwrap_err();
        assert!(matches!(error, Error::Stopped { path } if path == "f"));
    }

    /// Runs the tests that every back end must pass.
    fn check(backend: Backend) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, (0..=255).collect::<Vec<u8>>()).unwrap();
        let file = ReadAt::open(&path, backend).unwrap();
        assert_eq!(file.len_bytes(), 256);
        let mut out = [0; 4];
        file.read_at(252, &mut out).unwrap();
        assert_eq!(out, [252, 253, 254, 255]);
        file.read_at(256, &mut []).unwrap();
        for offset in [253, 257, u64::MAX] {
            assert!(file.read_at(offset, &mut out).is_err(), "{offset}");
        }
        assert_eq!(file.mapped(252, 4).is_some(), backend == Backend::Map);
        for (offset, len) in [(253, 4), (257, 0), (u64::MAX, 1), (1, usize::MAX)] {
            assert_eq!(file.mapped(offset, len), None, "{offset}");
        }
        assert!(ReadAt::open(dir.path(), backend).is_err());
        assert!(ReadAt::open(&dir.path().join("none"), backend).is_err());
        std::fs::write(&path, b"").unwrap();
        let empty = ReadAt::open(&path, backend).unwrap();
        empty.read_at(0, &mut []).unwrap();
        assert!(empty.read_at(0, &mut out).is_err());
    }

    #[test]
    fn pread_keeps_to_the_file() {
        check(Backend::Pread);
    }

    #[test]
    fn map_keeps_to_the_file() {
        check(Backend::Map);
    }

    #[test]
    fn memory_keeps_to_its_bytes() {
        let file = ReadAt::in_memory("m", vec![1, 2, 3]);
        let mut out = [0; 2];
        file.read_at(1, &mut out).unwrap();
        assert_eq!(out, [2, 3]);
        assert_eq!(file.mapped(1, 2), Some(&[2, 3][..]));
        assert!(file.read_at(2, &mut out).is_err());
    }

    #[test]
    fn pread_of_a_cut_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, [1; 100]).unwrap();
        let file = ReadAt::open(&path, Backend::Pread).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert!(file.read_at(50, &mut [0; 10]).is_err());
    }
}
