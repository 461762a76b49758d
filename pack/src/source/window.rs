//! A part of a file, read at positions of its own.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// A file, or a part of one: an archive in a tar lies there as it is.
#[derive(Debug, Clone)]
pub(super) struct Window {
    file: Arc<File>,
    start: u64,
    len: u64,
}

impl Window {
    /// All of a file.
    pub(super) fn whole(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), start: 0, len })
    }

    /// A part of this part; `None` if it ends behind it.
    pub(super) fn part(&self, start: u64, len: u64) -> Option<Self> {
        start.checked_add(len).filter(|end| *end <= self.len)?;
        Some(Self { file: Arc::clone(&self.file), start: self.start + start, len })
    }

    /// Whether it is all of its file.
    pub(super) fn is_whole(&self) -> bool {
        self.start == 0 && self.file.metadata().is_ok_and(|file| file.len() == self.len)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let room = usize::try_from(self.len.saturating_sub(at)).unwrap_or(usize::MAX);
        let room = room.min(buffer.len());
        self.file.read_at(buffer.get_mut(..room).unwrap_or_default(), self.start + at)
    }

    pub(super) fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        rawzip::ReaderAt::read_exact_at(self, buffer, at)
    }

    /// Reads it from the beginning.
    pub(super) fn reader(&self) -> impl Read + Seek + use<> {
        Reader { window: self.clone(), at: 0 }
    }
}

impl rawzip::ReaderAt for Window {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        Self::read_at(self, buffer, at)
    }
}

struct Reader {
    window: Window,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.window.read_at(buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.window.len().checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
