//! The source of a copy: a bundle's files, its samples as plain files, or a folder.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gular_bundle::{
    Bundle, DATA_DIR, Field, FieldIdx, MANIFEST_NAME, ShardIdx, Split, StreamDigest, file_head,
};
use gular_transfer::RemoteBundle;

use super::mount;
use super::need::Need;
use crate::{Error, Unfit};

/// A source that was measured, but not read yet.
#[derive(Debug)]
pub(super) enum Source {
    /// A bundle, file by file.
    Bundle(Box<Bundle>),
    /// The samples of a bundle, as plain files.
    Samples(Box<Bundle>),
    /// A bundle on this machine whose shards are mounted.
    Mounted(Box<Bundle>),
    /// A published bundle.
    Remote(Box<RemoteBundle>),
    /// A folder of plain files.
    Directory(Directory),
}

/// A folder of plain files.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// Folders below the directory, each after the one that contains it.
    pub(super) folders: Vec<PathBuf>,
    pub(super) files: Vec<PlainFile>,
}

/// A file of a directory.
#[derive(Debug)]
pub(super) struct PlainFile {
    /// Path of the file below the folder.
    pub(super) path: PathBuf,
    pub(super) len: u64,
    /// Time of the file's last change, in seconds and nanoseconds.
    pub(super) changed: (i64, i64),
}

impl Source {
    /// Returns the name of the copy: equal names mean equal bytes.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Bundle(bundle) => bundle.digest().hex(),
            Self::Samples(bundle) => format!("{}-files", bundle.digest().hex()),
            Self::Mounted(bundle) => mount::name(bundle),
            Self::Remote(remote) => remote.digest().hex(),
            Self::Directory(directory) => directory.name(),
        }
    }

    /// Refuses a copy inside the folder that is copied, since the copy would contain itself.
    pub(super) fn check_apart(&self, base: &Path) -> Result<(), Error> {
        match self {
            Self::Directory(directory) if base.starts_with(&directory.path) => {
                let path = directory.path.display().to_string();
                Err(Error::Source { path, reason: Unfit::HoldsTheCopy })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn need(&self) -> Result<Need, Error> {
        let mut need = Need::default();
        match self {
            Self::Bundle(bundle) => {
                let manifest = fs::metadata(bundle.dir().join(MANIFEST_NAME));
                need.add(manifest.map_or(0, |m| m.len()));
                bundle_files(bundle.manifest(), &mut need);
            }
            Self::Remote(remote) => {
                need.add(remote.manifest_bytes().len() as u64);
                bundle_files(remote.manifest(), &mut need);
            }
            Self::Samples(bundle) => sample_files(bundle, &mut need)?,
            Self::Mounted(bundle) => need = mount::need(bundle),
            Self::Directory(directory) => {
                need.add_folders(directory.folders.len() as u64 + 1);
                directory.files.iter().for_each(|file| need.add(file.len));
            }
        }
        Ok(need)
    }
}

fn bundle_files(manifest: &gular_bundle::Manifest, need: &mut Need) {
    let mut folders = Folders::new(need);
    for file in manifest.files() {
        need.add(file.bytes);
        folders.add(need, DATA_DIR, file.name.as_str());
    }
}

/// Adds the space for files of samples, which is known from the indexes.
fn sample_files(bundle: &Bundle, need: &mut Need) -> Result<(), Error> {
    let manifest = bundle.manifest();
    let heads: Vec<u64> = manifest.fields.iter().map(|f| file_head(f).len() as u64).collect();
    let mut folders = Folders::new(need);
    let mut lists = 0;
    for (shard, entry) in ShardIdx::first(manifest.shards.len()).zip(&manifest.shards) {
        let open = bundle.shard(shard)?;
        let split = entry.split.to_string();
        let index = open.index()?;
        for row in index.rows() {
            for (field, head) in FieldIdx::first(heads.len()).zip(&heads) {
                if field.of(&manifest.fields).is_some_and(|f| !f.is_label()) {
                    need.add(index.range(row, field).map_or(0, |(_, len)| len) as u64 + head);
                }
            }
            let key = index.key(row).unwrap_or_default();
            folders.add(need, &split, key);
            lists += line_bound(&manifest.fields, key);
        }
        need.add_list(0);
    }
    // These are the list of each split, and the part of a shard that is being joined to it.
    Split::ALL.iter().for_each(|_| need.add_list(0));
    need.add_list(lists.saturating_mul(2));
    need.add_list(manifest.classes.iter().map(|class| class.len() as u64 + 1).sum());
    Ok(())
}

/// Returns more than the length of a sample's line in the list, in which each file is named by the
/// key, its field, and an extension.
fn line_bound(fields: &[Field], key: &str) -> u64 {
    let names = fields.iter().map(|field| key.len() + field.name.as_str().len() + 32);
    (names.sum::<usize>() + key.len() + 1) as u64
}

/// Counts folders, each once, by hashes of their paths. If two have the same hash, the count is too
/// low by one folder, which is far less than the margin.
struct Folders {
    state: RandomState,
    seen: HashSet<u64>,
}

impl Folders {
    /// Starts with the folder of the copy itself.
    fn new(need: &mut Need) -> Self {
        need.add_folders(1);
        Self { state: RandomState::new(), seen: HashSet::new() }
    }

    /// Counts those folders of the file `below` in folder `top` that were not counted before.
    fn add(&mut self, need: &mut Need, top: &str, below: &str) {
        let mut path = below;
        loop {
            let folder = path.rsplit_once('/').map(|(folder, _)| folder);
            if !self.seen.insert(self.state.hash_one((top, folder))) {
                return;
            }
            need.add_folders(1);
            match folder {
                Some(folder) => path = folder,
                None => return,
            }
        }
    }
}

impl Directory {
    /// Lists `path`. Links to files count as files; links to folders are refused.
    pub(super) fn list(path: &Path) -> Result<Self, Error> {
        let path = fs::canonicalize(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::NoSource { path: path.display().to_string() },
            _ => Error::io("open", path, e),
        })?;
        if !path.is_dir() {
            let path = path.display().to_string();
            return Err(Error::Source { path, reason: Unfit::NotAFolder });
        }
        let mut found = Self { path, folders: Vec::new(), files: Vec::new() };
        found.add(Path::new(""))?;
        let mut next = 0;
        while let Some(folder) = found.folders.get(next).cloned() {
            found.add(&folder)?;
            next += 1;
        }
        found.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn add(&mut self, folder: &Path) -> Result<(), Error> {
        let dir = self.path.join(folder);
        let io = |e| Error::io("list", &dir, e);
        for entry in fs::read_dir(&dir).map_err(io)? {
            let entry = entry.map_err(io)?;
            let kind = entry.file_type().map_err(io)?;
            let below = folder.join(entry.file_name());
            if kind.is_dir() {
                self.folders.push(below);
                continue;
            }
            let path = entry.path();
            let refused = |reason| Error::Source { path: path.display().to_string(), reason };
            let meta = fs::metadata(&path).map_err(|e| Error::io("look at", &path, e))?;
            if !meta.is_file() {
                let link = kind.is_symlink();
                return Err(refused(if link { Unfit::LinkToFolder } else { Unfit::NotAFile }));
            }
            let changed = (meta.mtime(), meta.mtime_nsec());
            self.files.push(PlainFile { path: below, len: meta.len(), changed });
        }
        Ok(())
    }

    /// Returns whether there are indexes of shards where a bundle has them.
    pub(super) fn holds_shards(&self) -> bool {
        let is_index = |path: &Path| {
            path.starts_with(DATA_DIR)
                && path.as_os_str().as_bytes().ends_with(b".index.safetensors")
        };
        self.files.iter().any(|file| is_index(&file.path))
    }

    /// Returns a name made of the directory's path, and of the names, lengths and times of its
    /// contents.
    fn name(&self) -> String {
        let mut digest = StreamDigest::new();
        let mut text = |bytes: &[u8]| {
            digest.update(&(bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        text(b"gular-stage directory 1");
        text(self.path.as_os_str().as_bytes());
        let mut folders: Vec<&PathBuf> = self.folders.iter().collect();
        folders.sort();
        folders.iter().for_each(|folder| text(folder.as_os_str().as_bytes()));
        for file in &self.files {
            text(file.path.as_os_str().as_bytes());
            text(&file.len.to_le_bytes());
            text(&file.changed.0.to_le_bytes());
            text(&file.changed.1.to_le_bytes());
        }
        digest.finish().hex()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_counts_once_and_is_a_page_and_an_inode() {
        let mut need = Need::default();
        let mut folders = Folders::new(&mut need);
        let mut check = |top: &str, key: &str, expected: u64| {
            folders.add(&mut need, top, key);
            assert_eq!((need.inodes, need.bytes), (expected, expected * 4096), "{top}/{key}");
        };
        check("train", "x.jpg", 2);
        check("train", "y.jpg", 2);
        check("train", "a/b/c/x.jpg", 5);
        check("train", "a/b/d/x.jpg", 6);
        check("train", "a/e/x.jpg", 7);
        // Changing it back gives the old name again.
        check("train", "a/b/c/y.jpg", 7);
        check("val", "a/b/c/x.jpg", 11);
        check("train", "c/x.jpg", 12);
    }
}
