//! The folder in which the cache of blocks is stored.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::EarlierBlocks;
use super::earlier_blocks::read_list;
use super::files::{Files, Placed, blake3_hex, find_digests};
use crate::{Error, Result};

/// An image goes when a newer one has this part of its blocks, in percent: a
/// program that was replaced is not worth a second image.
const MOST_IN_NEWER: u64 = 90;
/// Age of what a killed process left behind before it is removed.
const STALE: Duration = Duration::from_hours(24);
const PART: &str = ".part-";

/// A cache of the compressed blocks of earlier images. Images are the same with it and without.
#[derive(Debug, Clone)]
pub struct BlockCache {
    dir: PathBuf,
    most_bytes: u64,
}

impl BlockCache {
    /// Makes a cache in this folder, which is created when something is stored in it. The images it
    /// holds have up to `most_bytes` in all; those least recently used go.
    pub fn new(dir: &Path, most_bytes: u64) -> Self {
        Self { dir: dir.to_owned(), most_bytes }
    }

    /// Returns the images in the cache. Damaged ones are removed, and a folder that cannot be read
    /// counts as empty.
    pub(crate) fn lend(&self) -> EarlierBlocks {
        let mut lent = EarlierBlocks::default();
        for folder in self.folders() {
            if lent.add(&folder).is_none() {
                self.remove(&folder);
            }
        }
        lent
    }

    /// Keeps `image`, in which `files` lie, and lets others go.
    pub(crate) fn keep(
        &self,
        lent: &EarlierBlocks,
        (path, image): (&Path, &File),
        mut files: Vec<Placed>,
        threads: NonZeroUsize,
    ) -> Result<()> {
        let (used, damaged) = lent.outcome();
        damaged.iter().for_each(|folder| self.remove(folder));
        let bytes = image.metadata().map_err(Error::io("read", path))?.len();
        if files.is_empty() || bytes > self.most_bytes {
            return Ok(());
        }
        find_digests(&mut files, image, threads).map_err(Error::io("read", path))?;
        for folder in used {
            // The time only says when the image was last used.
            let _ = File::open(folder.join("files"))
                .and_then(|file| file.set_modified(SystemTime::now()));
        }
        let list = Files { files };
        let text = serde_json::to_vec(&list).unwrap_or_default();
        let folder = self.dir.join(blake3_hex(&text));
        fs::create_dir_all(&self.dir).map_err(Error::io("create", &self.dir))?;
        let part = TempDir::with_prefix_in(PART, &self.dir);
        let part = part.map_err(Error::io("create", &self.dir))?;
        link_or_copy(path, &part.path().join("image"))?;
        let place = part.path().join("files");
        fs::write(&place, text).map_err(Error::io("write", &place))?;
        match fs::rename(part.path(), &folder) {
            Ok(()) => drop(part.keep()),
            // The folder exists already, or another process created it first, with the same
            // contents.
            Err(_) if folder.join("files").exists() => {}
            Err(e) => return Err(Error::io("create", &folder)(e)),
        }
        self.trim(&folder, &list);
        Ok(())
    }

    /// Lets images go that `newest` makes needless, and the oldest when there are
    /// too many bytes.
    fn trim(&self, newest: &Path, list: &Files) {
        let keys: HashSet<_> = list.files.iter().map(|file| file.key.as_str()).collect();
        let mut rest = Vec::new();
        for folder in self.folders() {
            let Some(other) = read_list(&folder) else { continue };
            let sum = |known: bool| -> u64 {
                let files = other.files.iter();
                files.filter(|f| !known || keys.contains(&f.key[..])).map(Placed::stored).sum()
            };
            let needless = sum(true) >= sum(false) / 100 * MOST_IN_NEWER;
            if folder != newest && needless {
                self.remove(&folder);
                continue;
            }
            let used = fs::metadata(folder.join("files")).and_then(|m| m.modified());
            let bytes = fs::metadata(folder.join("image")).map_or(0, |m| m.len());
            rest.push((folder != newest, used.unwrap_or(SystemTime::UNIX_EPOCH), bytes, folder));
        }
        // The newest image first, then by when they were used last.
        rest.sort_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
        let mut total = 0_u64;
        for (_, _, bytes, folder) in rest {
            total = total.saturating_add(bytes);
            if total > self.most_bytes {
                self.remove(&folder);
            }
        }
        self.remove_stale();
    }

    /// Folders of images, in the order of their names.
    fn folders(&self) -> Vec<PathBuf> {
        let mut folders = self.entries(|name| name.len() == 64);
        folders.sort();
        folders
    }

    fn remove_stale(&self) {
        for folder in self.entries(|name| name.starts_with(PART)) {
            let age = fs::metadata(&folder).and_then(|m| m.modified()).map(|time| time.elapsed());
            if age.is_ok_and(|age| age.is_ok_and(|age| age > STALE)) {
                let _ = fs::remove_dir_all(folder);
            }
        }
    }

    fn entries(&self, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let wanted =
            |path: &PathBuf| path.file_name().and_then(|n| n.to_str()).is_some_and(&wanted);
        entries.map(|entry| entry.path()).filter(wanted).collect()
    }

    /// Removes an image: first from sight, so that nobody finds half of it.
    fn remove(&self, folder: &Path) {
        if let Ok(away) = TempDir::with_prefix_in(PART, &self.dir) {
            let _ = fs::rename(folder, away.path());
        }
    }
}

/// Gives `image` a second name, or copies it to another file system.
fn link_or_copy(image: &Path, to: &Path) -> Result<()> {
    match fs::hard_link(image, to) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::StorageFull => Err(Error::io("create", to)(e)),
        Err(_) => fs::copy(image, to).map(drop).map_err(Error::io("write", to)),
    }
}
