//! An archive of any kind.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gular_codec::Format;

use super::Source;
use super::nested::Nested;
use super::parquet_images::ParquetImages;
use super::spool::unpack;
use super::tar::Tar;
use super::window::Window;
use super::zip::Zip;
use crate::source::{ArchiveLimits, SourceError};

/// The first bytes of archives, up to the magic of tar.
const HEAD: u64 = 262;

/// An archive whose members are known, and safe.
#[derive(Debug)]
pub(crate) struct Archive {
    path: PathBuf,
    kind: ArchiveKind,
    nested: Nested,
}

#[derive(Debug)]
enum ArchiveKind {
    Zip(Zip),
    Tar(Tar),
    /// A folder of archives.
    Folder,
}

/// How archives are opened.
pub(super) struct Opening<'a> {
    pub(super) limits: &'a ArchiveLimits,
    /// The folder in which what is compressed is unpacked.
    pub(super) temp: &'a Path,
    pub(super) cancel: &'a AtomicBool,
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
fn check_many(path: &Path, plain: &Window) -> Result<(), SourceError> {
    let mut head = [0; 16];
    let n = plain.read_at(&mut head, 0).map_err(|e| SourceError::io("read", path, e))?;
    match Format::sniff(head.get(..n).unwrap_or_default()) {
        Some(_) => Err(SourceError::NoSource(path.display().to_string())),
        None => Ok(()),
    }
}

impl Archive {
    /// Looks at every member's header; `nested` says whether also in archives that are in the archive.
    /// What is compressed as a whole is unpacked for that.
    pub(super) fn open(
        path: &Path,
        nested: bool,
        opening: &Opening<'_>,
    ) -> Result<Self, SourceError> {
        let file = File::open(path).map_err(|e| SourceError::io("open", path, e))?;
        if is_part(path) {
            return Err(SourceError::ArchivePart(path.display().to_string()));
        }
        let window = Window::whole(file).map_err(|e| SourceError::io("read", path, e))?;
        let mut archive = Self::of(path.to_owned(), window, opening)?;
        if nested {
            archive.nested = Nested::open(&archive, opening)?;
        }
        Ok(archive)
    }

    /// The archives in a folder that has no images of its own, if it has any; each is read as
    /// [`Nested`] says.
    pub(super) fn of_folder(
        path: &Path,
        opening: &Opening<'_>,
    ) -> Result<Option<Self>, SourceError> {
        let kind = ArchiveKind::Folder;
        let mut archive = Self { path: path.to_owned(), kind, nested: Nested::default() };
        if !Nested::has_only_archives(&archive) {
            return Ok(None);
        }
        archive.nested = Nested::open(&archive, opening)?;
        Ok(Some(archive))
    }

    /// Whether it is a folder of shards as WebDataset writes them.
    pub(super) fn has_shards(&self) -> bool {
        self.nested.are_shards()
    }

    /// Opens the archive `name` in `outer`; `path` is for messages.
    pub(super) fn inner(
        path: PathBuf,
        outer: &Self,
        name: &str,
        opening: &Opening<'_>,
    ) -> Result<Self, SourceError> {
        let window = outer.own_member(&path, name, opening)?;
        let mut archive = Self::of(path, window, opening)?;
        if let ArchiveKind::Folder = outer.kind {
            archive.nested = Nested::open(&archive, opening)?;
        }
        Ok(archive)
    }

    /// The bytes of a member, also of one in an archive in this one. What is in a zip is unpacked.
    pub(super) fn member(&self, name: &str, opening: &Opening<'_>) -> Result<Window, SourceError> {
        let path = self.path.join(name);
        match self.nested.find(name) {
            Some((inner, name)) => inner.own_member(&path, name, opening),
            None => self.own_member(&path, name, opening),
        }
    }

    /// The bytes of a member; `path` is for messages.
    fn own_member(
        &self,
        path: &Path,
        name: &str,
        opening: &Opening<'_>,
    ) -> Result<Window, SourceError> {
        let io = |e| SourceError::io("read", path, e);
        match &self.kind {
            ArchiveKind::Tar(tar) => tar.window(name).map_err(io),
            ArchiveKind::Zip(zip) => {
                let (reader, packed) = zip.reader(name).map_err(io)?;
                Window::whole(unpack(path, reader, packed, opening)?).map_err(io)
            }
            ArchiveKind::Folder => {
                File::open(self.path.join(name)).and_then(Window::whole).map_err(io)
            }
        }
    }

    fn of(path: PathBuf, window: Window, opening: &Opening<'_>) -> Result<Self, SourceError> {
        let io = |e| SourceError::io("read", &path, e);
        let mut head = Vec::new();
        window.reader().take(HEAD).read_to_end(&mut head).map_err(io)?;
        let named = |extension: &str| path.to_string_lossy().to_lowercase().ends_with(extension);
        let limits = opening.limits;
        let tar = |plain: &mut dyn Read| {
            let plain = unpack(&path, plain, window.len(), opening)?;
            let plain = Window::whole(plain).map_err(io)?;
            check_many(&path, &plain)?;
            Tar::open(&path, plain, limits).map(ArchiveKind::Tar)
        };
        let kind = match head.as_slice() {
            [b'P', b'K', 3 | 5, 4 | 6, ..] => ArchiveKind::Zip(Zip::open(&path, window, limits)?),
            [0x1f, 0x8b, ..] => {
                let reader = BufReader::new(window.reader());
                tar(&mut flate2::bufread::MultiGzDecoder::new(reader))?
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                tar(&mut zstd::Decoder::new(window.reader()).map_err(io)?)?
            }
            head if head.ends_with(b"ustar") || named(".tar") => {
                ArchiveKind::Tar(Tar::open(&path, window, limits)?)
            }
            [b'P', b'A', b'R', b'1', ..] if path.is_file() => {
                let images = ParquetImages::open(&path)?;
                let images =
                    images.ok_or_else(|| SourceError::NoSource(path.display().to_string()))?;
                let plain = Window::whole(images.to_tar(&path, opening)?).map_err(io)?;
                ArchiveKind::Tar(Tar::open(&path, plain, limits)?)
            }
            _ => return Err(SourceError::NoSource(path.display().to_string())),
        };
        Ok(Self { path, kind, nested: Nested::default() })
    }

    /// Whether it is read from a temporary file of its own.
    pub(super) fn is_unpacked(&self) -> bool {
        match &self.kind {
            ArchiveKind::Zip(zip) => zip.is_whole(),
            ArchiveKind::Tar(tar) => tar.is_whole(),
            ArchiveKind::Folder => false,
        }
    }

    /// Whether it has a file of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.nested.find(name).is_some()
            || match &self.kind {
                ArchiveKind::Zip(zip) => zip.has(name),
                ArchiveKind::Tar(tar) => tar.has(name),
                ArchiveKind::Folder => self.path.join(name).is_file(),
            }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Names and sizes of all files, in the order of the archive.
    pub(crate) fn files<E: From<SourceError>>(
        &self,
        each: &mut dyn FnMut(&str, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let own: &mut dyn FnMut(&str, u64) -> Result<(), E> =
            &mut |name, bytes| match self.nested.has(name) {
                true => Ok(()),
                false => each(name, bytes),
            };
        match &self.kind {
            ArchiveKind::Zip(zip) => zip.files(&self.path, own)?,
            ArchiveKind::Tar(tar) => tar.files(&self.path, own)?,
            ArchiveKind::Folder => Source::Folder(self.path.clone()).files(own)?,
        }
        self.nested.files(each)
    }

    /// Reads the whole of a member.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        match (self.nested.find(name), &self.kind) {
            (Some((inner, name)), _) => inner.read(name),
            (None, ArchiveKind::Zip(zip)) => zip.read(name),
            (None, ArchiveKind::Tar(tar)) => tar.read(name),
            (None, ArchiveKind::Folder) => fs::read(self.path.join(name)),
        }
    }

    /// Reads the first bytes of a member.
    pub(super) fn read_start(&self, name: &str, start: &mut [u8]) -> io::Result<()> {
        match (self.nested.find(name), &self.kind) {
            (Some((inner, name)), _) => inner.read_start(name, start),
            (None, ArchiveKind::Zip(zip)) => zip.read_start(name, start),
            (None, ArchiveKind::Tar(tar)) => tar.read_start(name, start),
            (None, ArchiveKind::Folder) => File::open(self.path.join(name))?.read_exact(start),
        }
    }
}
