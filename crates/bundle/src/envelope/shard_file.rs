//! The shard file being written: buffered, hashed during writing, and flushed to the disk early.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use std::io::Write as _;

use gular_files::{WriteBack, temp_in};
use tempfile::NamedTempFile;

use crate::Error;
use crate::block::{BlockHasher, BlockTree};

/// Bytes are written in pieces of this size: smaller ones leave the page cache in small folios,
/// which are read up to 40 % slower.
const WRITE_BYTES: usize = 1 << 20;
/// Writing back to the disk is requested each time this many bytes were written.
const SYNC_BYTES: usize = 16 << 20;

/// A growing file under a temporary name. Only its first bytes are ever
/// changed again, by [`Out::finish`].
#[derive(Debug)]
pub(crate) struct Out {
    temp: NamedTempFile,
    write_back: WriteBack,
    /// Bytes written since writing back was last requested.
    unsynced: usize,
    buffer: Vec<u8>,
    hasher: BlockHasher,
}

/// A complete file, still under its temporary name.
pub(crate) struct Written {
    pub(crate) temp: NamedTempFile,
    pub(crate) blocks: BlockTree,
}

impl Out {
    pub(crate) fn create(dir: &Path) -> Result<Self, Error> {
        let temp = temp_in(dir)?;
        let write_back =
            WriteBack::start(temp.as_file()).map_err(|e| Error::io("write back", dir, e))?;
        let (buffer, hasher) = (Vec::with_capacity(WRITE_BYTES), BlockHasher::new());
        Ok(Self { temp, write_back, unsynced: 0, buffer, hasher })
    }

    /// The folder of the file, in which a layout puts its temporary files.
    pub(crate) fn dir(&self) -> &Path {
        self.temp.path().parent().unwrap_or(Path::new("."))
    }

    /// Bytes written so far.
    pub(crate) fn position(&self) -> u64 {
        self.hasher.len_bytes().saturating_add(self.buffer.len() as u64)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.put(bytes).map_err(|e| Error::io("write", self.temp.path(), e))
    }

    pub(crate) fn zeros(&mut self, n: u64) -> Result<(), Error> {
        self.write(&vec![0; usize::try_from(n).unwrap_or(0)])
    }

    /// Writes zeros up to the next multiple of `align`.
    #[cfg(feature = "foreign")]
    pub(crate) fn align(&mut self, align: u64) -> Result<(), Error> {
        let position = self.position();
        let next = position.checked_next_multiple_of(align).unwrap_or(position);
        self.zeros(next.saturating_sub(position))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len().saturating_add(bytes.len()) > WRITE_BYTES {
            self.drain()?;
        }
        if bytes.len() >= WRITE_BYTES {
            self.hasher.update(bytes);
            self.temp.write_all(bytes)?;
            self.written(bytes.len());
            return Ok(());
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn drain(&mut self) -> io::Result<()> {
        self.hasher.update(&self.buffer);
        self.temp.write_all(&self.buffer)?;
        self.written(self.buffer.len());
        self.buffer.clear();
        Ok(())
    }

    fn written(&mut self, len: usize) {
        self.unsynced = self.unsynced.saturating_add(len);
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.write_back.request();
        }
    }

    /// Replaces the first bytes by `head` and completes file and block tree.
    pub(crate) fn finish(mut self, head: &[u8]) -> Result<Written, Error> {
        let path = self.temp.path().to_owned();
        let io = |e| Error::io("write", &path, e);
        self.drain().map_err(io)?;
        let Self { temp, write_back, hasher, .. } = self;
        temp.as_file().write_all_at(head, 0).map_err(io)?;
        let blocks = hasher.finish(head);
        write_back.finish().map_err(io)?;
        Ok(Written { temp, blocks })
    }
}

impl io::Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes).map(|()| bytes.len())
    }

    /// Does nothing, since the buffer exists to collect small pieces.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
