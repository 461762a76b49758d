//! Stores objects in a folder. No name leads outside it: names are checked, and a link on the path
//! to an object is refused, wherever it points.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::NamedTempFile;

use super::name::Name;

/// A folder of objects, and one beside it for what is not yet whole.
#[derive(Debug, Clone)]
pub(super) struct Store {
    root: PathBuf,
    partial: PathBuf,
}

/// An object or collection that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) metadata: Metadata,
}

impl Found {
    pub(super) fn is_collection(&self) -> bool {
        self.metadata.is_dir()
    }

    pub(super) fn modified(&self) -> SystemTime {
        self.metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// Why a store cannot return or accept an object.
#[derive(Debug)]
pub(super) enum Fault {
    /// There is nothing of that name.
    Absent,
    /// There is something of that name.
    Exists,
    /// An object where a collection would have to be, or the reverse.
    Kind,
    /// A collection that is not empty.
    NotEmpty,
    /// A link, or a file that is neither object nor collection.
    Odd,
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            io::ErrorKind::AlreadyExists => Self::Exists,
            io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => Self::Kind,
            io::ErrorKind::DirectoryNotEmpty => Self::NotEmpty,
            _ => Self::Io(e),
        }
    }
}

impl Store {
    /// `root` without links in it; `partial` on the same file system.
    pub(super) fn new(root: PathBuf, partial: PathBuf) -> Self {
        Self { root, partial }
    }

    /// Finds the object or collection `name`. If the name ends with a `/`, only a collection is
    /// found.
    pub(super) fn find(&self, name: &Name) -> Result<Found, Fault> {
        let mut path = self.root.clone();
        let mut metadata = fs::symlink_metadata(&path)?;
        for segment in name.segments() {
            if !metadata.is_dir() {
                return Err(Fault::Absent);
            }
            path.push(segment);
            metadata = fs::symlink_metadata(&path)?;
            if !metadata.is_dir() && !metadata.is_file() {
                return Err(Fault::Odd);
            }
        }
        if name.collection && !metadata.is_dir() {
            return Err(Fault::Absent);
        }
        Ok(Found { path, metadata })
    }

    /// Makes a file for an upload; it is removed when dropped.
    pub(super) fn begin(&self) -> io::Result<NamedTempFile> {
        Ok(gular_files::temp_in(&self.partial)?)
    }

    /// Moves a file of [`Store::begin`] to `name`: it is synced first, then appears as a whole.
    /// Without `overwrite` the name must be free.
    pub(super) fn place(
        &self,
        file: &NamedTempFile,
        name: &Name,
        overwrite: bool,
    ) -> Result<(), Fault> {
        file.as_file().sync_all()?;
        let path = self.make_parents(name)?;
        if overwrite {
            fs::rename(file.path(), &path)?;
        } else {
            // Unlike a rename, a link fails when another upload was faster.
            fs::hard_link(file.path(), &path)?;
        }
        Ok(gular_files::sync_folder(gular_files::folder_of(&path)).map_err(io::Error::from)?)
    }

    /// Makes a collection and its parents.
    pub(super) fn make_collection(&self, name: &Name) -> Result<(), Fault> {
        Ok(fs::create_dir(self.make_parents(name)?)?)
    }

    /// Removes an object, or a collection with nothing in it.
    pub(super) fn remove(&self, name: &Name) -> Result<(), Fault> {
        let found = self.find(name)?;
        let remove = if found.is_collection() { fs::remove_dir } else { fs::remove_file };
        Ok(remove(found.path)?)
    }

    /// The names in a collection, sorted; names that no request can spell, links and
    /// devices are left out. `None` when there are more than `limit`.
    pub(super) fn list(
        &self,
        path: &Path,
        limit: usize,
    ) -> io::Result<Option<Vec<(String, Metadata)>>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // An entry that was removed meanwhile is not a fault.
            let Ok(metadata) = entry.metadata() else { continue };
            if gular_pelican::protocol::is_segment(&name)
                && (metadata.is_dir() || metadata.is_file())
            {
                entries.push((name, metadata));
            }
            if entries.len() > limit {
                return Ok(None);
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Some(entries))
    }

    /// The path of `name`, below folders that are there.
    fn make_parents(&self, name: &Name) -> Result<PathBuf, Fault> {
        let (last, parents) = name.segments().split_last().ok_or(Fault::Exists)?;
        let mut path = self.root.clone();
        for segment in parents {
            path.push(segment);
            match fs::create_dir(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    let metadata = fs::symlink_metadata(&path)?;
                    if metadata.is_symlink() {
                        return Err(Fault::Odd);
                    }
                    if !metadata.is_dir() {
                        return Err(Fault::Kind);
                    }
                }
                done => done?,
            }
        }
        Ok(path.join(last))
    }
}
