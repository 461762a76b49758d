//! Where the files of a dataset are: a folder, an archive, or one file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::files::{
    FileSet, FolderLevels, FoundSet, check_not_one_of_several, name_levels, names_of, only_table,
    recognise,
};
use crate::source::{
    Source, SourceError, SourceOptions, archive::Opening, spool::unpack, window::Window,
};

/// The source of rows of pixels.
pub(super) enum PixelSource {
    /// A table.
    File(PathBuf),
    /// A folder or an archive.
    Files(Box<Source>),
}

/// The first bytes of what gzip compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

impl PixelSource {
    pub(super) fn open(
        path: &Path,
        options: &SourceOptions<'_>,
        opening: &Opening<'_>,
    ) -> Result<Self, SourceError> {
        if path.is_dir() || is_archive(path)? {
            return Source::open(path, options, Some(opening.temp), opening.cancel)
                .map(|source| Self::Files(Box::new(source)));
        }
        check_not_one_of_several(path)?;
        Ok(Self::File(path.to_owned()))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Files(source) => source.path(),
        }
    }

    /// The path of one of its files.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Files(source) => source.path().join(name),
        }
    }

    /// Finds the files that are packed.
    pub(super) fn file_set(&self) -> Result<FoundSet, SourceError> {
        let path = self.path();
        let found = match self {
            Self::File(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let (set, ignored) = (FileSet::Table(name), BTreeMap::new());
                return Ok(FoundSet { set, ignored });
            }
            Self::Files(source) => match &**source {
                Source::Folder(_) => match recognise(path, FolderLevels::new(path))? {
                    None => only_table(path, FolderLevels::new(path))?,
                    found => found,
                },
                source => {
                    let names = names_of(source)?;
                    match recognise(path, name_levels(names.clone()))? {
                        None => only_table(path, name_levels(names))?,
                        found => found,
                    }
                }
            },
        };
        found.ok_or_else(|| SourceError::PixelFiles {
            path: path.display().to_string(),
            reason: "it has no files of pixels with known names; expected those of MNIST (`train-images-idx3-ubyte`), of CIFAR-10 or CIFAR-100 (`data_batch_1`; `train` and `meta`), or one .csv or .tsv".to_owned(),
        })
    }

    /// The bytes of a file. What is compressed is unpacked into a temporary file.
    pub(super) fn file(&self, name: &str, opening: &Opening<'_>) -> Result<Window, SourceError> {
        let path = self.path_of(name);
        let io = |e| SourceError::io("read", &path, e);
        let archive = match self {
            Self::Files(source) => source.as_archive(),
            Self::File(_) => None,
        };
        let file = match archive {
            Some(archive) => archive.member(name, opening)?,
            None => {
                let file = File::open(&path).map_err(|e| SourceError::io("open", &path, e))?;
                Window::whole(file).map_err(io)?
            }
        };
        let mut head = [0; 2];
        let n = file.read_at(&mut head, 0).map_err(io)?;
        if n < head.len() || head != GZIP {
            return Ok(file);
        }
        let packed = BufReader::new(file.reader());
        let plain = flate2::bufread::MultiGzDecoder::new(packed);
        Window::whole(unpack(&path, plain, file.len(), opening)?).map_err(io)
    }
}

/// Whether a file has other files in it, by its first bytes.
fn is_archive(path: &Path) -> Result<bool, SourceError> {
    let file = File::open(path).map_err(|e| SourceError::io("open", path, e))?;
    let mut head = Vec::new();
    // Up to the end of the magic of tar.
    file.take(262).read_to_end(&mut head).map_err(|e| SourceError::io("read", path, e))?;
    let name = path.to_string_lossy().to_lowercase();
    Ok(match head.as_slice() {
        [b'P', b'K', 3 | 5, 4 | 6, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => true,
        // One file is compressed in the same way as a tar.
        [0x1f, 0x8b, ..] => !name.ends_with(".csv.gz") && !name.ends_with(".tsv.gz"),
        head => head.ends_with(b"ustar") || name.ends_with(".tar"),
    })
}

/// Most members of a compressed tar that are looked at before it is unpacked.
const MOST_MEMBERS: usize = 8;
/// Most bytes that are unpacked to look at them: the batches of CIFAR-10 have 30 MB each.
const MOST_LOOKED: u64 = 64 << 20;

/// The names of the first members of a compressed tar, as far as they can be read: what is wrong
/// with an archive is said when it is opened.
pub(crate) fn first_members(path: &Path) -> Vec<String> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let mut file = BufReader::new(file);
    let Ok(head) = std::io::BufRead::fill_buf(&mut file) else { return Vec::new() };
    let plain: Box<dyn Read> = match head {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => match zstd::Decoder::with_buffer(file) {
            Ok(plain) => Box::new(plain),
            Err(_) => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    let mut archive = tar::Archive::new(plain.take(MOST_LOOKED));
    let Ok(members) = archive.entries() else { return Vec::new() };
    let names = members.map_while(Result::ok).take(MOST_MEMBERS);
    let name = |member: tar::Entry<'_, _>| {
        Some(String::from_utf8_lossy(&member.path_bytes()).into_owned())
    };
    names.filter_map(name).collect()
}
