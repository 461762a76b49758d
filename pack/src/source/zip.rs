//! Zip archives. Their members are those that the central directory lists.

use std::io::{self, Read};
use std::path::Path;

use rawzip::{
    CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive, ZipArchiveEntryWayfinder,
    ZipFileHeaderRecord, ZipLocator,
};

use super::members::{Found, Gather, Members, damaged, safe};
use super::window::Window;
use crate::source::{ArchiveLimits, SourceError};

/// An open archive.
#[derive(Debug)]
pub(super) struct Zip {
    archive: ZipArchive<Window>,
    file: Window,
    members: Members<Place>,
}

/// The place of a member.
#[derive(Debug, Clone, Copy)]
struct Place {
    way: ZipArchiveEntryWayfinder,
    crc: u32,
    deflated: bool,
}

impl Zip {
    pub(super) fn open(
        path: &Path,
        file: Window,
        limits: &ArchiveLimits,
    ) -> Result<Self, SourceError> {
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let archive = ZipLocator::new()
            .locate_in_reader(file.clone(), &mut buffer, file.len())
            .map_err(|(_, e)| bad(path, &e))?;
        let mut gather = Gather::new(path.display().to_string(), limits);
        each(path, &archive, &mut |entry| {
            let place = Place {
                way: entry.wayfinder(),
                crc: entry.crc32(),
                deflated: entry.compression_method() == CompressionMethod::DEFLATE,
            };
            gather.member(entry.file_path().as_bytes(), &found(entry), place)
        })?;
        let members =
            gather.finish(file.len(), &mut |name| files(path, &archive, &mut |n, _| name(n)))?;
        Ok(Self { archive, file, members })
    }

    /// Calls `each` with names and sizes of all files.
    pub(super) fn files<E: From<SourceError>>(
        &self,
        path: &Path,
        each: &mut dyn FnMut(&str, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut result = Ok(());
        files(path, &self.archive, &mut |name, bytes| {
            if result.is_ok() {
                result = each(name, bytes);
            }
        })?;
        result
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

    /// Reads a member of any length, and says how many bytes it takes here.
    pub(super) fn reader(&self, name: &str) -> io::Result<(impl Read + Send + use<>, u64)> {
        let place = self.place(name)?;
        let (start, len) = self.range(place)?;
        let part = self.file.part(start, len).ok_or(io::ErrorKind::UnexpectedEof)?;
        let packed: Box<dyn Read + Send> = match place.deflated {
            true => Box::new(flate2::read::DeflateDecoder::new(part.reader())),
            false => Box::new(part.reader()),
        };
        let crc = crc32fast::Hasher::new();
        Ok((Checked { from: packed, crc, expected: place.crc }, len))
    }

    /// The bytes of a member: as many as the central directory says, of the digest it says.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let place = self.place(name)?;
        let len = place.way.uncompressed_size_hint();
        let room = usize::try_from(len).unwrap_or(usize::MAX);
        let packed = self.packed(place)?;
        let bytes = if place.deflated {
            let mut bytes = Vec::with_capacity(room.min(1 << 31));
            let inflated = flate2::bufread::DeflateDecoder::new(packed.as_slice());
            inflated
                .take(len.saturating_add(1))
                .read_to_end(&mut bytes)
                .map_err(|e| damaged(format!("it cannot be decompressed: {e}")))?;
            bytes
        } else {
            packed
        };
        if bytes.len() as u64 != len {
            let text = format!("it does not unpack to the {len} bytes that the archive states");
            return Err(damaged(text));
        }
        check_crc(crc32fast::hash(&bytes), place.crc)?;
        Ok(bytes)
    }

    /// Reads the first bytes of a member.
    pub(super) fn read_start(&self, name: &str, start: &mut [u8]) -> io::Result<()> {
        let place = self.place(name)?;
        let packed = self.packed(place)?;
        match place.deflated {
            true => flate2::bufread::DeflateDecoder::new(packed.as_slice()).read_exact(start),
            false => packed.as_slice().read_exact(start),
        }
    }

    /// Where the bytes of a member begin, and how many there are.
    fn range(&self, place: &Place) -> io::Result<(u64, u64)> {
        let entry = self.archive.get_entry(place.way).map_err(|e| damaged(e.to_string()))?;
        let (start, end) = entry.compressed_data_range();
        let len = end.checked_sub(start).filter(|_| end <= self.file.len());
        Ok((start, len.ok_or_else(|| damaged("it ends after the end of the archive"))?))
    }

    fn packed(&self, place: &Place) -> io::Result<Vec<u8>> {
        let (start, len) = self.range(place)?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }
}

fn check_crc(found: u32, expected: u32) -> io::Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(damaged(format!("its CRC-32 is {found:08x}, but the archive states {expected:08x}")))
}

/// Checks what was read when it ends.
struct Checked {
    from: Box<dyn Read + Send>,
    crc: crc32fast::Hasher,
    expected: u32,
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buffer)?;
        self.crc.update(buffer.get(..n).unwrap_or_default());
        if n == 0 && !buffer.is_empty() {
            check_crc(self.crc.clone().finalize(), self.expected)?;
        }
        Ok(n)
    }
}

fn each(
    path: &Path,
    archive: &ZipArchive<Window>,
    each: &mut dyn FnMut(&ZipFileHeaderRecord<'_>) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE * 4];
    let mut entries = archive.entries(&mut buffer);
    let mut n = 0_u64;
    while let Some(entry) = entries.next_entry().map_err(|e| bad(path, &e))? {
        n += 1;
        each(&entry)?;
    }
    let expected = archive.entries_hint();
    if n != expected {
        let reason =
            format!("its list of files has {n} entries, but its last record says {expected}");
        return Err(SourceError::BadArchive { path: path.display().to_string(), reason });
    }
    Ok(())
}

fn files(
    path: &Path,
    archive: &ZipArchive<Window>,
    file: &mut dyn FnMut(&str, u64),
) -> Result<(), SourceError> {
    each(path, archive, &mut |entry| {
        if !entry.is_dir()
            && let Ok(Some(name)) = safe(entry.file_path().as_bytes(), false)
        {
            file(&name, entry.uncompressed_size_hint());
        }
        Ok(())
    })
}

fn found(entry: &ZipFileHeaderRecord<'_>) -> Found<'static> {
    /// `S_IFMT` and the types of files that it may say.
    const TYPE: u32 = 0o170_000;
    let kind = entry.mode().value() & TYPE;
    if entry.is_dir() {
        return Found::Folder;
    }
    if entry.flags().is_encrypted() || entry.flags().has_strong_encryption() {
        return Found::Refused("it is encrypted");
    }
    match kind {
        0 | 0o100_000 => {}
        0o120_000 => return Found::Refused("it is a link"),
        _ => return Found::Refused("it is not a plain file"),
    }
    let (packed, unpacked) = (entry.compressed_size_hint(), entry.uncompressed_size_hint());
    match entry.compression_method() {
        // Deflate adds 5 bytes to each piece that it cannot pack; all of them are read at once.
        CompressionMethod::DEFLATE
            if packed > unpacked.saturating_add(unpacked / 256).saturating_add(4096) =>
        {
            Found::Refused("it takes far more bytes compressed than unpacked")
        }
        CompressionMethod::DEFLATE => Found::File { packed, unpacked },
        CompressionMethod::STORE if packed == unpacked => Found::File { packed, unpacked },
        CompressionMethod::STORE => {
            Found::Refused("its stored and unpacked sizes differ although it is not compressed")
        }
        _ => Found::Refused("it is compressed by a method other than deflate"),
    }
}

fn bad(path: &Path, error: &rawzip::Error) -> SourceError {
    SourceError::BadArchive { path: path.display().to_string(), reason: error.to_string() }
}
