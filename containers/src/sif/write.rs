//! Writes a SIF in one pass over its objects.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use super::format::{
    CAPACITY, DESCRIPTOR_BYTES, DESCRIPTORS_START, Entry, Header, MAX_NAME, PARTITION_ALIGN,
};
use super::{Arch, ObjectKind};
use crate::UnixTime;

/// The settings in the header of a SIF.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Processor of the programs inside.
    pub arch: Arch,
    /// Time at which the image was made.
    pub time: UnixTime,
}

/// Writes one file: [`add`](Self::add) for small objects; [`start`](Self::start),
/// the bytes through [`io::Write`], [`end`](Self::end) for the root file system.
#[derive(Debug)]
pub struct Writer {
    sink: BufWriter<File>,
    settings: Settings,
    position: u64,
    entries: Vec<Entry>,
    /// First bytes of objects, known only at their ends.
    heads: Vec<(u64, Vec<u8>)>,
    /// Over all objects, without what their heads replace, then over the heads; of
    /// an object that something stands for over that.
    hasher: blake3::Hasher,
    stood_for: bool,
}

impl Writer {
    /// Starts a file. `file` is empty, and open for writing.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(file: File, settings: Settings) -> io::Result<Self> {
        let data_start = DESCRIPTORS_START + CAPACITY * DESCRIPTOR_BYTES as u64;
        let mut sink = BufWriter::with_capacity(1 << 20, file);
        sink.write_all(&vec![0; data_start as usize])?;
        Ok(Self {
            sink,
            settings,
            position: data_start,
            entries: Vec::new(),
            heads: Vec::new(),
            hasher: blake3::Hasher::new(),
            stood_for: false,
        })
    }

    /// Adds a whole object.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn add(&mut self, kind: ObjectKind, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.start(kind, name)?;
        self.write_all(bytes)?;
        self.end(&[]);
        Ok(())
    }

    /// Starts an object: what is written from here to [`end`](Self::end) is its bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a name over 127 bytes or a 49th object;
    /// the operating system's.
    pub fn start(&mut self, kind: ObjectKind, name: &str) -> io::Result<()> {
        let wrong = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        if name.len() > MAX_NAME {
            return wrong(format!("the name `{name}` is longer than {MAX_NAME} bytes"));
        }
        if self.entries.len() as u64 == CAPACITY {
            return wrong(format!("a SIF can hold at most {CAPACITY} objects"));
        }
        let align = if matches!(kind, ObjectKind::RootPartition(_)) { PARTITION_ALIGN } else { 1 };
        let before = self.position;
        let padding = before.next_multiple_of(align) - before;
        self.write_all(&vec![0; padding as usize])?;
        self.entries.push(Entry {
            kind,
            id: self.entries.len() as u32 + 1,
            offset: self.position,
            bytes: 0,
            padded: padding,
            time: self.settings.time,
            name: name.to_owned(),
        });
        Ok(())
    }

    /// Number of bytes written so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Sets the identity of the object just started, so that its bytes need not be hashed: they
    /// follow from `identity`.
    pub fn stand_for(&mut self, identity: &[u8; 32]) {
        self.hasher.update(identity);
        self.stood_for = true;
    }

    /// Ends the object that was started last. `head` replaces its first bytes.
    pub fn end(&mut self, head: &[u8]) {
        self.stood_for = false;
        if let Some(entry) = self.entries.last_mut() {
            entry.bytes = self.position - entry.offset;
            entry.padded += entry.bytes;
            if !head.is_empty() {
                self.heads.push((entry.offset, head.to_vec()));
            }
        }
    }

    /// Writes header and descriptors, and returns the file, which is not synced yet. Its UUID is
    /// made of a digest of all objects (RFC 9562, version 8), so the same objects give the same
    /// file.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn finish(mut self) -> io::Result<File> {
        for (offset, head) in &self.heads {
            self.sink.seek(SeekFrom::Start(*offset))?;
            self.sink.write_all(head)?;
            self.hasher.update(head);
        }
        let mut descriptors = Vec::new();
        for entry in &self.entries {
            descriptors.extend_from_slice(&entry.to_bytes());
        }
        self.hasher.update(&descriptors);
        self.sink.seek(SeekFrom::Start(DESCRIPTORS_START))?;
        self.sink.write_all(&descriptors)?;

        let mut uuid = [0; 16];
        self.hasher.finalize_xof().fill(&mut uuid);
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        let data_start = DESCRIPTORS_START + CAPACITY * DESCRIPTOR_BYTES as u64;
        let header = Header {
            arch: self.settings.arch.code(),
            uuid,
            created: self.settings.time,
            modified: self.settings.time,
            free: CAPACITY - self.entries.len() as u64,
            capacity: CAPACITY,
            data_start,
            data_bytes: self.position - data_start,
        };
        self.sink.seek(SeekFrom::Start(0))?;
        self.sink.write_all(&header.to_bytes())?;
        self.sink.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write_all(bytes)?;
        if !self.stood_for {
            self.hasher.update(bytes);
        }
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
