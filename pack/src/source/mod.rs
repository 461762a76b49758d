//! Where images come from: a folder, an archive that stays packed, or files of rows of pixels.
//!
//! ```text
//! folder ─────────────────────────────────▶ files
//! .zip ─ central directory ───────────────▶ members, each by a positional read and inflated alone
//! .tar ─ headers, walked once ────────────▶ members, each by a positional read
//! .tar.gz .tar.zst ─ unpacked once ─ nameless temporary file ─▶ as .tar
//! archives in an archive or folder without images ─ in place, or in a .zip unpacked once ─▶ as these
//! .h5 .nc ─ see `datasets` ─────────────────▶ rows of datasets, as .npy files
//! .csv, MNIST, CIFAR ─ see `pixels` ────────▶ rows, each by a positional read
//! ```

mod archive;
mod column_names;
mod datasets;
mod error;
mod headers;
mod limits;
mod members;
mod nested;
mod options;
mod parquet_images;
mod pixels;
mod spool;
mod tar;
mod walk;
mod window;
mod zip;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::buffer::spare_capacity;

pub(crate) use archive::Archive;
use archive::Opening;
pub use column_names::separator_of;
pub(crate) use column_names::{
    BOM, MOST_ROW_BYTES, all_labels, find, find_key, find_label, find_split, is_of_boxes,
    is_of_classes, is_of_ids, is_of_numbered_splits, is_of_run_lengths, is_of_splits, is_of_texts,
    may_be_of_splits, split_named,
};
pub(crate) use datasets::{Column, DatasetRows, Other, are_of_groups, columns};
pub use datasets::{DatasetFault, has_datasets};
pub use error::SourceError;
pub(crate) use headers::{array_start, document_start, first_line, picture_start, read_file};
pub(crate) use limits::SMALL;
pub use limits::{ArchiveLimit, ArchiveLimits};
pub use options::{Classes, FieldFiles, Inputs, LabelColumn, OnBadInput};
pub(crate) use options::{SourceOptions, listed_classes};
pub(crate) use parquet_images::{FILE_NAME, METADATA, ParquetImages};
pub use pixels::{PixelColumns, PixelFiles};
pub(crate) use pixels::{PixelRows, first_members, pixel_files};
pub(crate) use walk::{hidden, media_type_of, walk};

use crate::facts::outside;

/// An opened source of inputs.
#[derive(Debug)]
pub(crate) enum Source {
    Folder(PathBuf),
    Archive(Archive),
    Pixels(PixelRows),
    Datasets(DatasetRows),
}

impl Source {
    /// Opens a folder or an archive. What is compressed as a whole is unpacked in folder `temp`;
    /// without one, archives in an archive are not opened.
    pub(crate) fn open(
        path: &Path,
        options: &SourceOptions<'_>,
        temp: Option<&Path>,
        cancel: &AtomicBool,
    ) -> Result<Self, SourceError> {
        let metadata = fs::metadata(path).map_err(|e| SourceError::io("open", path, e))?;
        if let Some(rows) = DatasetRows::open(path, options, temp)? {
            return Ok(Self::Datasets(rows));
        }
        if metadata.is_dir() {
            let opening = Opening { limits: options.archive, temp: temp.unwrap_or(path), cancel };
            let archives = match temp.is_some() && options.inputs != Inputs::Bytes {
                true => Archive::of_folder(path, &opening)?,
                false => None,
            };
            if options.images.is_empty() && archives.as_ref().is_some_and(Archive::has_shards) {
                let path = path.display().to_string();
                return Err(SourceError::Shards { path });
            }
            let archives = archives.map(Self::Archive);
            return Ok(archives.unwrap_or_else(|| Self::Folder(path.to_owned())));
        }
        // Opening a pipe would wait until somebody writes into it.
        if !metadata.is_file() {
            return Err(SourceError::NoSource(path.display().to_string()));
        }
        if options.inputs != Inputs::Bytes
            && let Some(format) = outside::of_file(path)
        {
            let path = path.display().to_string();
            return Err(SourceError::Outside {
                path,
                is_file: true,
                ignored: String::new(),
                format,
            });
        }
        // Of files of any kind, archives are such files.
        let nested = temp.is_some() && options.inputs != Inputs::Bytes;
        let opening = Opening { limits: options.archive, temp: temp.unwrap_or(path), cancel };
        Archive::open(path, nested, &opening).map(Self::Archive)
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Folder(path) => path,
            Self::Archive(archive) => archive.path(),
            Self::Pixels(rows) => &rows.path,
            Self::Datasets(rows) => rows.path(),
        }
    }

    /// Returns the archive that this is.
    fn as_archive(&self) -> Option<&Archive> {
        match self {
            Self::Archive(archive) => Some(archive),
            _ => None,
        }
    }

    /// An input of `bytes` bytes, in `memory` if it is a file, and how long it is now: another
    /// length has other bytes.
    pub(crate) fn read(
        &self,
        key: &str,
        bytes: u64,
        memory: Vec<u8>,
    ) -> io::Result<(Vec<u8>, u64)> {
        match self {
            Self::Folder(folder) => {
                let file = File::open(folder.join(key))?;
                // One byte more than planned is read, to notice a file that grew.
                let room = usize::try_from(bytes).unwrap_or(0).saturating_add(1);
                let found = read_up_to(&file, room, memory)?;
                let len = match found.len() as u64 == bytes {
                    true => bytes,
                    false => file.metadata().map_or(found.len() as u64, |m| m.len()),
                };
                Ok((found, len))
            }
            Self::Archive(archive) => {
                let found = archive.read(key)?;
                let len = found.len() as u64;
                Ok((found, len))
            }
            Self::Pixels(_) => Err(is_row()),
            Self::Datasets(rows) => {
                let found = rows.read(key)?;
                let len = found.len() as u64;
                Ok((found, len))
            }
        }
    }

    /// Paths and sizes of all files but hidden ones.
    pub(crate) fn files<E: From<SourceError>>(
        &self,
        each: &mut dyn FnMut(&str, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let folder = match self {
            Self::Archive(archive) => {
                return archive.files(&mut |name, bytes| match hidden(name) {
                    true => Ok(()),
                    false => each(name, bytes),
                });
            }
            Self::Pixels(rows) => return rows.files(each),
            Self::Datasets(rows) => return rows.files(each),
            Self::Folder(folder) => folder,
        };
        walk(folder, &mut |path| {
            let relative = path.strip_prefix(folder).unwrap_or(path);
            let Some(name) = relative.to_str().filter(|name| !hidden(name)) else {
                return Ok(None);
            };
            match fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => return Ok(Some(metadata)),
                Ok(metadata) if metadata.is_file() => each(name, metadata.len())?,
                _ => {}
            }
            Ok(None)
        })
    }

    /// Reads at most the first `most` bytes of a file.
    pub(crate) fn head(&self, key: &str, most: usize) -> io::Result<Vec<u8>> {
        match self {
            Self::Folder(folder) => {
                let file = File::open(folder.join(key))?;
                let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
                read_up_to(&file, most.min(len), Vec::new())
            }
            Self::Archive(archive) => {
                let mut bytes = archive.read(key)?;
                bytes.truncate(most);
                Ok(bytes)
            }
            Self::Pixels(_) => Err(is_row()),
            Self::Datasets(rows) => {
                let mut bytes = rows.read(key)?;
                bytes.truncate(most);
                Ok(bytes)
            }
        }
    }

    /// Reads the first bytes of an input.
    pub(crate) fn start<const N: usize>(&self, key: &str) -> io::Result<[u8; N]> {
        let mut start = [0; N];
        match self {
            Self::Folder(folder) => File::open(folder.join(key))?.read_exact(&mut start)?,
            Self::Archive(archive) => archive.read_start(key, &mut start)?,
            Self::Pixels(_) | Self::Datasets(_) => return Err(is_row()),
        }
        Ok(start)
    }
}

/// A row has no bytes of its own: [`PixelRows::pixels`] reads it.
fn is_row() -> io::Error {
    io::Error::other("it is a row of a table")
}

/// The first `room` bytes of a file, or all of it, and more if `memory` is larger: two reads, where
/// `read_to_end` takes five to feel its way, and no zeros written first.
fn read_up_to(file: &File, room: usize, memory: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut bytes = memory;
    bytes.clear();
    bytes.reserve_exact(room);
    while bytes.len() < room {
        match rustix::io::read(file, spare_capacity(&mut bytes)) {
            Ok(0) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(bytes)
}
