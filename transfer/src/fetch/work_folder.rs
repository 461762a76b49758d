//! The working folder of a bundle of chosen samples, inside the folder that becomes the bundle.
//!
//! ```text
//! DIR/data/.gular-tmp-keys/   shards and indexes, then manifest.json: the bundle is whole
//!     ─▶ DIR/data/            shards and indexes
//!     ─▶ DIR/manifest.json    last
//! ```
//!
//! A run that is killed while it moves a complete bundle leaves the rest to the next run for the
//! same samples; an incomplete bundle is removed.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gular_bundle::{
    Bundle, DATA_DIR, FileEntry, MANIFEST_NAME, MadeValue, Manifest, OpenOptions, ShardEntry,
};
use gular_files::{TEMP_PREFIX, sync_folder};

use super::bundle::has_len;
use super::disk::FolderLock;
use super::folder::{none_of, strangers};
use crate::remote::read_manifest;
use crate::{Error, Watch};

/// How a bundle was made, as its manifest describes it.
pub(super) type Made = BTreeMap<String, MadeValue>;

/// Opens the bundle in `dir`, if it is the one that would be made; `None` if there are no files
/// yet.
///
/// # Errors
/// [`Error::NotEmpty`] when there are other files.
pub(super) fn there(dir: &Path, made: &Made) -> Result<Option<Bundle>, Error> {
    // The order of these checks matters, since another run may be moving its files.
    let mut others = strangers(dir)?;
    let left = left(dir, made);
    let bundle = Bundle::open(dir, OpenOptions::default()).ok();
    if let Some(bundle) = bundle.filter(|bundle| bundle.manifest().made == *made) {
        bundle.check_lengths()?;
        return Ok(Some(bundle));
    }
    if let Some(left) = left {
        let ours: Vec<String> =
            files(&left).map(|file| format!("{DATA_DIR}/{}", file.name)).collect();
        others.retain(|name| !ours.contains(name));
    }
    if fs::symlink_metadata(dir.join(MANIFEST_NAME)).is_ok() {
        others.push(MANIFEST_NAME.to_owned());
    }
    none_of(dir, others)?;
    Ok(None)
}

/// Returns the manifest of a complete bundle that was not, or not completely, moved from the work
/// folder.
fn left(dir: &Path, made: &Made) -> Option<Manifest> {
    let (folder, data) = (folder_in(dir), dir.join(DATA_DIR));
    let bytes = read_manifest(&folder).ok()?;
    let manifest = Manifest::parse(&folder.display().to_string(), &bytes).ok()?;
    let is_there = |file: &FileEntry| {
        let name = file.name.as_str();
        has_len(&folder.join(name), file) || has_len(&data.join(name), file)
    };
    (manifest.made == *made && files(&manifest).all(is_there)).then_some(manifest)
}

fn files(manifest: &Manifest) -> impl Iterator<Item = &FileEntry> {
    manifest.shards.iter().flat_map(ShardEntry::files)
}

fn folder_in(dir: &Path) -> PathBuf {
    dir.join(DATA_DIR).join(format!("{TEMP_PREFIX}keys"))
}

/// The work folder of `dir`. It is removed when this value is dropped, unless a complete bundle is
/// in it.
pub(super) struct WorkFolder<'a> {
    dir: &'a Path,
    folder: PathBuf,
    /// Keeps other processes from writing to `dir`.
    _lock: FolderLock,
}

impl<'a> WorkFolder<'a> {
    /// Waits until no other process writes to `dir`; completes the moves of a killed run, or
    /// removes the files that it left.
    pub(super) fn begin(dir: &'a Path, made: &Made, watch: Watch<'_>) -> Result<Self, Error> {
        let data = dir.join(DATA_DIR);
        fs::create_dir_all(&data).map_err(|e| Error::io("create", &data, e))?;
        let lock = FolderLock::wait(&data, watch)?;
        let work = Self { dir, folder: folder_in(dir), _lock: lock };
        if let Some(manifest) = left(dir, made) {
            work.publish(&manifest)?;
        }
        let folder = &work.folder;
        match fs::remove_dir_all(folder) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("remove", folder, e)),
            _ => Ok(work),
        }
    }

    /// Returns the folder, after making it if needed.
    pub(super) fn folder(&self) -> Result<&Path, Error> {
        fs::create_dir_all(&self.folder).map_err(|e| Error::io("create", &self.folder, e))?;
        Ok(&self.folder)
    }

    /// Moves the bundle to its final place.
    pub(super) fn publish(&self, manifest: &Manifest) -> Result<(), Error> {
        let data = self.dir.join(DATA_DIR);
        for file in files(manifest) {
            let to = data.join(file.name.as_str());
            match fs::rename(self.folder.join(file.name.as_str()), &to) {
                // A killed run has already moved this file.
                Err(e) if e.kind() == ErrorKind::NotFound && has_len(&to, file) => {}
                moved => moved.map_err(|e| Error::io("rename to", &to, e))?,
            }
        }
        sync_folder(&data)?;
        let to = self.dir.join(MANIFEST_NAME);
        fs::rename(self.folder.join(MANIFEST_NAME), &to)
            .map_err(|e| Error::io("rename to", &to, e))?;
        Ok(sync_folder(self.dir)?)
    }
}

impl Drop for WorkFolder<'_> {
    fn drop(&mut self) {
        if !self.folder.join(MANIFEST_NAME).exists() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
