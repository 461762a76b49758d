//! Tar archives: uncompressed ones, or unpacked from a compressed one.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use tar::EntryType;

use super::members::{Found, Gather, Members, damaged, safe};
use super::window::Window;
use crate::source::{ArchiveLimits, SourceError};

const BLOCK: u64 = 512;
/// Headers of one member, long names and extensions among them, take at most this many bytes.
const MOST_HEADER_BYTES: u64 = 1 << 20;

/// An open archive.
#[derive(Debug)]
pub(super) struct Tar {
    file: Window,
    members: Members<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    len: u64,
}

/// A member's header.
struct Member<'a> {
    name: &'a [u8],
    found: Found<'static>,
    place: Place,
}

impl Tar {
    pub(super) fn open(
        path: &Path,
        file: Window,
        limits: &ArchiveLimits,
    ) -> Result<Self, SourceError> {
        let mut gather = Gather::new(path.display().to_string(), limits);
        each(path, &file, &mut |member| gather.member(member.name, &member.found, member.place))?;
        let members = gather.finish(file.len(), &mut |name| {
            files(path, &file, &mut |n, _| {
                name(n);
                Ok(())
            })
        })?;
        Ok(Self { file, members })
    }

    /// Calls `each` with names and sizes of all files.
    pub(super) fn files<E: From<SourceError>>(
        &self,
        path: &Path,
        each: &mut dyn FnMut(&str, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        files(path, &self.file, each)
    }

    /// Whether the archive is all of its file.
    pub(super) fn is_whole(&self) -> bool {
        self.file.is_whole()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some()
    }

    fn place(&self, name: &str) -> io::Result<&Place> {
        self.members.get(name).ok_or_else(|| damaged("it is not a file of this archive"))
    }

    /// The bytes of a member, where they are.
    pub(super) fn window(&self, name: &str) -> io::Result<Window> {
        let Place { offset, len } = *self.place(name)?;
        self.file.part(offset, len).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let place = self.place(name)?;
        let mut bytes = vec![0; usize::try_from(place.len).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, place.offset)?;
        Ok(bytes)
    }

    pub(super) fn read_start(&self, name: &str, start: &mut [u8]) -> io::Result<()> {
        let place = self.place(name)?;
        if place.len < start.len() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_exact_at(start, place.offset)
    }
}

fn each<E: From<SourceError>>(
    path: &Path,
    file: &Window,
    each: &mut dyn FnMut(&Member<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let len = file.len();
    let bad = |e: io::Error| SourceError::BadArchive {
        path: path.display().to_string(),
        reason: e.to_string(),
    };
    let left = std::cell::Cell::new(MOST_HEADER_BYTES);
    let (mut end, mut last) = (0, String::new());
    let reader = Bounded { file, position: 0, left: &left };
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries_with_seek().map_err(bad)? {
        let entry = entry.map_err(bad)?;
        left.set(MOST_HEADER_BYTES);
        let (offset, bytes) = (entry.raw_file_position(), entry.size());
        if offset.checked_add(bytes).is_none_or(|end| end > len) {
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let reason =
                format!("it is cut short: its file `{name}` would end after its {len} bytes");
            return Err(bad(io::Error::other(reason)).into());
        }
        end = (offset + bytes).next_multiple_of(BLOCK);
        last = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let found = match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                Found::File { packed: bytes, unpacked: bytes }
            }
            EntryType::Directory => Found::Folder,
            EntryType::Symlink | EntryType::Link => Found::Refused("it is a link"),
            EntryType::GNUSparse => Found::Refused("it is a sparse file"),
            EntryType::XGlobalHeader => continue,
            _ => Found::Refused("it is not a plain file"),
        };
        each(&Member { name: &entry.path_bytes(), found, place: Place { offset, len: bytes } })?;
    }
    // Two of them end an archive; some programs write one.
    let mut zeros = [1; BLOCK as usize];
    if file.read_exact_at(&mut zeros, end).is_err() || zeros != [0; BLOCK as usize] {
        let after = if last.is_empty() { String::new() } else { format!(" after file `{last}`") };
        let reason =
            format!("it is cut short{after}: the blocks of zeros that end a tar are missing");
        return Err(bad(io::Error::other(reason)).into());
    }
    Ok(())
}

fn files<E: From<SourceError>>(
    path: &Path,
    file: &Window,
    take: &mut dyn FnMut(&str, u64) -> Result<(), E>,
) -> Result<(), E> {
    each(path, file, &mut |member| match (&member.found, safe(member.name, false)) {
        (Found::File { unpacked, .. }, Ok(Some(name))) => take(&name, *unpacked),
        _ => Ok(()),
    })
}

/// Reads a file from a position of its own, and no more than `left` bytes until that is set
/// again: the crate keeps a member's long name in memory, however long it says it is.
struct Bounded<'a> {
    file: &'a Window,
    position: u64,
    left: &'a std::cell::Cell<u64>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.get()).unwrap_or(usize::MAX);
        if left == 0 {
            let text =
                format!("the headers of a file in it take more than {MOST_HEADER_BYTES} bytes");
            return Err(damaged(text));
        }
        let room = left.min(buf.len());
        let n = self.file.read_at(&mut buf[..room], self.position)?;
        self.left.set(self.left.get().saturating_sub(n as u64));
        self.position += n as u64;
        Ok(n)
    }
}

impl Seek for Bounded<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(n) => Some(n),
            SeekFrom::Current(n) => self.position.checked_add_signed(n),
            SeekFrom::End(n) => self.file.len().checked_add_signed(n),
        };
        self.position =
            position.ok_or_else(|| damaged("the size of a file in it is out of range"))?;
        Ok(self.position)
    }
}
