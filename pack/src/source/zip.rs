//! Zip archives. Their members are those that the central directory lists.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rawzip::{
    CompressionMethod, FileReader, RECOMMENDED_BUFFER_SIZE, ZipArchive, ZipArchiveEntryWayfinder,
    ZipFileHeaderRecord,
};

use super::limits::ArchiveLimits;
use super::members::{Found, Gather, Members, damaged, safe};
use crate::Error;

/// An open archive.
#[derive(Debug)]
pub(super) struct Zip {
    archive: ZipArchive<FileReader>,
    /// The same file, from which members' bytes are read.
    file: File,
    len: u64,
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
    pub(super) fn open(path: &Path, file: File, limits: &ArchiveLimits) -> Result<Self, Error> {
        let io = |e| Error::io("read", path, e);
        let bytes = file.try_clone().map_err(io)?;
        let len = bytes.metadata().map_err(io)?.len();
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let archive = ZipArchive::from_file(file, &mut buffer).map_err(|e| bad(path, &e))?;
        let mut gather = Gather::new(path.display().to_string(), limits);
        each(path, &archive, &mut |entry| {
            let place = Place {
                way: entry.wayfinder(),
                crc: entry.crc32(),
                deflated: entry.compression_method() == CompressionMethod::DEFLATE,
            };
            gather.member(entry.file_path().as_bytes(), &found(entry), place)
        })?;
        let members = gather.finish(len, &mut |name| files(path, &archive, &mut |n, _| name(n)))?;
        Ok(Self { archive, file: bytes, len, members })
    }

    /// Calls `each` with names and sizes of all files.
    pub(super) fn files(
        &self,
        path: &Path,
        each: &mut dyn FnMut(&str, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        files(path, &self.archive, &mut |name, bytes| {
            if result.is_ok() {
                result = each(name, bytes);
            }
        })?;
        result
    }

    /// The bytes of a member: as many as the central directory says, of the digest it says.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let place =
            self.members.get(name).ok_or_else(|| damaged("it is not a file of this archive"))?;
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
        let crc = crc32fast::hash(&bytes);
        if crc != place.crc {
            let text = format!("its CRC-32 is {crc:08x}, but the archive states {:08x}", place.crc);
            return Err(damaged(text));
        }
        Ok(bytes)
    }

    /// Reads the first bytes of a member.
    pub(super) fn read_start(&self, name: &str, start: &mut [u8]) -> io::Result<()> {
        let place =
            self.members.get(name).ok_or_else(|| damaged("it is not a file of this archive"))?;
        let packed = self.packed(place)?;
        match place.deflated {
            true => flate2::bufread::DeflateDecoder::new(packed.as_slice()).read_exact(start),
            false => packed.as_slice().read_exact(start),
        }
    }

    fn packed(&self, place: &Place) -> io::Result<Vec<u8>> {
        let entry = self.archive.get_entry(place.way).map_err(|e| damaged(e.to_string()))?;
        let (start, end) = entry.compressed_data_range();
        let len = end.checked_sub(start).filter(|_| end <= self.len);
        let len = len.and_then(|len| usize::try_from(len).ok());
        let mut bytes =
            vec![0; len.ok_or_else(|| damaged("it ends after the end of the archive"))?];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }
}

fn each(
    path: &Path,
    archive: &ZipArchive<FileReader>,
    each: &mut dyn FnMut(&ZipFileHeaderRecord<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
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
        return Err(Error::BadArchive { path: path.display().to_string(), reason });
    }
    Ok(())
}

fn files(
    path: &Path,
    archive: &ZipArchive<FileReader>,
    file: &mut dyn FnMut(&str, u64),
) -> Result<(), Error> {
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

fn bad(path: &Path, error: &rawzip::Error) -> Error {
    Error::BadArchive { path: path.display().to_string(), reason: error.to_string() }
}
