//! An archive of any kind.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gular_codec::Format;

use super::limits::ArchiveLimits;
use super::spool::unpack;
use super::tar::Tar;
use super::zip::Zip;
use crate::Error;

/// The first bytes of archives, up to the magic of tar.
const HEAD: u64 = 262;

/// An archive whose members are known, and safe.
#[derive(Debug)]
pub(crate) struct Archive {
    path: PathBuf,
    kind: ArchiveKind,
}

#[derive(Debug)]
enum ArchiveKind {
    Zip(Zip),
    Tar(Tar),
}

/// Whether a name is that of a part of an archive: `train.zip.001`, `train.z01`, `train.tar.aa`.
fn is_part(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let Some((stem, last)) = name.rsplit_once('.') else { return false };
    let digits = |text: &str| text.len() >= 2 && text.bytes().all(|b| b.is_ascii_digit());
    let letters = last.len() == 2 && last.starts_with('a');
    let of_archive = [".zip", ".tar", ".gz", ".tgz", ".zst"].iter().any(|e| stem.ends_with(e));
    of_archive && (digits(last) || letters) || last.strip_prefix('z').is_some_and(digits)
}

/// Refuses a compressed file that holds one image, not an archive.
fn check_many(path: &Path, plain: &File) -> Result<(), Error> {
    let mut head = [0; 16];
    let n = plain.read_at(&mut head, 0).map_err(|e| Error::io("read", path, e))?;
    match Format::sniff(head.get(..n).unwrap_or_default()) {
        Some(_) => Err(Error::NoSource { path: path.display().to_string() }),
        None => Ok(()),
    }
}

impl Archive {
    /// Looks at every member's header; a compressed tar is unpacked in folder `temp` for that.
    pub(crate) fn open(
        path: &Path,
        limits: &ArchiveLimits,
        temp: &Path,
        cancel: &AtomicBool,
    ) -> Result<Self, Error> {
        let io = |e| Error::io("read", path, e);
        let open = || File::open(path).map_err(|e| Error::io("open", path, e));
        let file = open()?;
        let len = file.metadata().map_err(io)?.len();
        let mut head = Vec::new();
        open()?.take(HEAD).read_to_end(&mut head).map_err(io)?;
        let named = |extension: &str| path.to_string_lossy().to_lowercase().ends_with(extension);
        if is_part(path) {
            return Err(Error::ArchivePart { path: path.display().to_string() });
        }
        let kind = match head.as_slice() {
            [b'P', b'K', 3 | 5, 4 | 6, ..] => ArchiveKind::Zip(Zip::open(path, file, limits)?),
            [0x1f, 0x8b, ..] => {
                let plain = flate2::bufread::MultiGzDecoder::new(BufReader::new(file));
                let plain = unpack(path, plain, len, limits, temp, cancel)?;
                check_many(path, &plain)?;
                ArchiveKind::Tar(Tar::open(path, plain, limits)?)
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                let plain = zstd::Decoder::new(file).map_err(io)?;
                let plain = unpack(path, plain, len, limits, temp, cancel)?;
                check_many(path, &plain)?;
                ArchiveKind::Tar(Tar::open(path, plain, limits)?)
            }
            head if head.ends_with(b"ustar") || named(".tar") => {
                ArchiveKind::Tar(Tar::open(path, file, limits)?)
            }
            _ => return Err(Error::NoSource { path: path.display().to_string() }),
        };
        Ok(Self { path: path.to_owned(), kind })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Names and sizes of all files, in the order of the archive.
    pub(crate) fn files(
        &self,
        each: &mut dyn FnMut(&str, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match &self.kind {
            ArchiveKind::Zip(zip) => zip.files(&self.path, each),
            ArchiveKind::Tar(tar) => tar.files(&self.path, each),
        }
    }

    /// Reads the whole of a member.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        match &self.kind {
            ArchiveKind::Zip(zip) => zip.read(name),
            ArchiveKind::Tar(tar) => tar.read(name),
        }
    }

    /// Reads the first bytes of a member.
    pub(super) fn read_start(&self, name: &str, start: &mut [u8]) -> io::Result<()> {
        match &self.kind {
            ArchiveKind::Zip(zip) => zip.read_start(name, start),
            ArchiveKind::Tar(tar) => tar.read_start(name, start),
        }
    }
}
