//! Reads the contents of any SIF, whichever tool wrote it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::format::{self, DESCRIPTOR_BYTES, HEADER_BYTES, MAGIC, VERSION};
use super::{Arch, ObjectKind};
use crate::{Error, Result, UnixTime};

/// Descriptors read at most; the Sylabs library writes 48.
const MAX_DESCRIPTORS: u64 = 4096;
/// Most bytes that are read of a small object.
const MAX_SMALL: u64 = 64 << 20;

/// A SIF, its header and descriptors read and checked.
#[derive(Debug)]
pub struct Sif {
    file: File,
    pub(super) path: PathBuf,
    /// Processor of the programs inside; `None` for one that [`Arch`] does not name.
    pub arch: Option<Arch>,
    /// The file's identity.
    pub uuid: [u8; 16],
    /// Creation time, in seconds since 1970.
    pub created: UnixTime,
    /// The objects, in the order of their descriptors.
    pub descriptors: Vec<Descriptor>,
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// The object's kind.
    pub kind: ObjectKind,
    /// The object's number, from 1.
    pub id: u32,
    /// Offset of the object's first byte in the file.
    pub offset: u64,
    /// The object's length in bytes.
    pub bytes: u64,
    /// The object's name.
    pub name: String,
}

impl Sif {
    /// Opens a file and checks that every object lies inside it.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Sif`] for a file that is none or was cut.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let len = file.metadata().map_err(Error::io("read", path))?.len();
        let damaged = |reason: String| Error::Sif { path: path.display().to_string(), reason };
        if len < HEADER_BYTES as u64 {
            return Err(damaged(format!("it has {len} bytes, expected at least {HEADER_BYTES}")));
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).map_err(Error::io("read", path))?;
        if header[32..42] != MAGIC[..] {
            return Err(damaged("`SIF_MAGIC` is not at byte 32".to_owned()));
        }
        if header[42..45] != VERSION[..] {
            let found = String::from_utf8_lossy(&header[42..44]).into_owned();
            return Err(damaged(format!("its version is {found}, expected 01")));
        }
        let number = |at| u64_at(&header, at);
        let (count, start, bytes) = (number(88), number(96), number(104));
        let table = count.checked_mul(DESCRIPTOR_BYTES as u64);
        let end = start.checked_add(bytes);
        if count > MAX_DESCRIPTORS || table != Some(bytes) || end.is_none_or(|end| end > len) {
            return Err(damaged(format!(
                "its {count} descriptors of {bytes} bytes at byte {start} are not within the file's {len} bytes"
            )));
        }
        let mut table = vec![0; bytes as usize];
        file.read_exact_at(&mut table, start).map_err(Error::io("read", path))?;
        let mut descriptors = Vec::new();
        let (entries, _) = table.as_chunks::<DESCRIPTOR_BYTES>();
        for entry in entries.iter().filter(|entry| entry[4] != 0) {
            let descriptor = descriptor(entry);
            let end = descriptor.offset.checked_add(descriptor.bytes);
            if end.is_none_or(|end| end > len) {
                return Err(damaged(format!(
                    "object {} (`{}`) has {} bytes from byte {} on, but the file ends at byte {len}",
                    descriptor.id, descriptor.name, descriptor.bytes, descriptor.offset
                )));
            }
            descriptors.push(descriptor);
        }
        let arch = header[45..48].try_into().ok().and_then(Arch::from_code);
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&header[48..64]);
        let created = UnixTime(number(64) as i64);
        Ok(Self { file, path: path.to_owned(), arch, uuid, created, descriptors })
    }

    /// Returns whether a file should be read as a SIF: its bytes or its name say that it is one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn is_meant(path: &Path) -> Result<bool> {
        if path.extension().is_some_and(|extension| extension == "sif") {
            return Ok(true);
        }
        if !path.is_file() {
            return Ok(false);
        }
        let file = File::open(path).map_err(Error::io("open", path))?;
        let mut magic = [0; MAGIC.len()];
        Ok(file.read_exact_at(&mut magic, 32).is_ok() && magic[..] == MAGIC[..])
    }

    /// The root file system.
    ///
    /// # Errors
    /// [`Error::Sif`] when there is none in SquashFS.
    pub fn root(&self) -> Result<&Descriptor> {
        let is_root = |d: &&Descriptor| matches!(d.kind, ObjectKind::RootPartition(_));
        self.descriptors.iter().find(is_root).ok_or_else(|| Error::Sif {
            path: self.path.display().to_string(),
            reason: "it has no primary system partition in SquashFS".to_owned(),
        })
    }

    /// The bytes of a small object: its text or JSON, not the root file system.
    ///
    /// # Errors
    /// [`Error::Sif`] for an object over 64 MiB; [`Error::Io`].
    pub fn bytes(&self, object: &Descriptor) -> Result<Vec<u8>> {
        if object.bytes > MAX_SMALL {
            let reason = format!(
                "object {} has {} bytes, more than the limit of {MAX_SMALL}",
                object.id, object.bytes
            );
            return Err(Error::Sif { path: self.path.display().to_string(), reason });
        }
        let mut bytes = vec![0; object.bytes as usize];
        let read = self.file.read_exact_at(&mut bytes, object.offset);
        read.map_err(Error::io("read", &self.path))?;
        Ok(bytes)
    }

    /// The open file, to read an object's bytes from.
    pub fn file(&self) -> &File {
        &self.file
    }
}

fn descriptor(entry: &[u8; DESCRIPTOR_BYTES]) -> Descriptor {
    let word = |at: usize| u32::from_le_bytes(array_at(entry, at));
    let name = &entry[73..201];
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Descriptor {
        kind: format::kind(word(0), &entry[201..]),
        id: word(5),
        offset: u64_at(entry, 17),
        bytes: u64_at(entry, 25),
        name: String::from_utf8_lossy(name).into_owned(),
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Zeros where the bytes end before; headers and descriptors are read whole.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}
