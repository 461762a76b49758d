//! The list of one archive's contents.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::archive::Limits;
use crate::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use crate::{Error, Result, UnixTime};

const LISTING: &str = "listing.json";

/// A folder of unpacked archives.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
}

/// One archive's nodes, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    dir: PathBuf,
    /// The nodes.
    pub entries: Vec<Entry>,
}

/// One node of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its path in the image.
    pub path: String,
    /// The 12 permission bits.
    pub mode: u16,
    /// The node's kind.
    pub kind: MemberKind,
    /// The time of its last change, where the archive's times count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<i64>,
}

/// The kind of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberKind {
    /// A directory.
    Dir,
    /// A file: the number of its bytes in the folder, how many they are, and their
    /// BLAKE3 in hex.
    File(u64, u64, String),
    /// A symbolic link's target.
    Symlink(String),
    /// A hard link: the path of the file it is another name of.
    Hardlink(String),
    /// A file of a lower layer that is gone (OCI's `.wh.NAME`).
    Whiteout,
    /// A directory whose contents in lower layers are removed (OCI's `.wh..wh..opq`).
    Opaque,
    /// A device or pipe, which is not kept: `character device 1:3`. Runtimes mount
    /// `/dev` of their own.
    Special(String),
    /// An extended attribute of the node that follows, which is not kept: its name.
    Attribute(String),
}

/// An entry of an archive that is not in the tree made from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftOut {
    /// Path of the entry in the image.
    pub path: String,
    /// The part that was left out, such as `character device 1:3` or `attribute
    /// security.capability`.
    pub what: String,
}

impl Store {
    /// Makes a store in this folder, which is created when something is stored in it.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Returns whether the store has the archive with this digest.
    pub fn has(&self, digest: &(impl Display + ?Sized)) -> bool {
        self.dir.join(digest.to_string()).join(LISTING).is_file()
    }

    /// Returns the archive with this digest: from the store, or unpacked into it by `fill`, whose
    /// errors leave nothing behind.
    ///
    /// # Errors
    /// Those of `fill`, [`Error::Io`].
    pub fn listing(
        &self,
        digest: &(impl Display + ?Sized),
        fill: impl FnOnce(&mut Filling) -> Result<()>,
    ) -> Result<Listing> {
        let dir = self.dir.join(digest.to_string());
        let path = dir.join(LISTING);
        match fs::read(&path) {
            Ok(bytes) => {
                if let Ok(entries) = serde_json::from_slice(&bytes) {
                    return Ok(Listing { dir, entries });
                }
                // Damaged, by a power cut say: it is unpacked again.
                fs::remove_dir_all(&dir).map_err(Error::io("remove", &dir))?;
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("read", &path)(e)),
        }
        fs::create_dir_all(&self.dir).map_err(Error::io("create", &self.dir))?;
        let temp = TempDir::with_prefix_in(".part-", &self.dir);
        let temp = temp.map_err(Error::io("create", &self.dir))?;
        let mut filling = Filling::new(temp.path());
        fill(&mut filling)?;
        let part = temp.path().join(LISTING);
        let text = serde_json::to_vec(&filling.entries).unwrap_or_default();
        File::create_new(&part)
            .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
            .map_err(Error::io("write", &part))?;
        // The rename is not synced: if it is lost in a crash, the archive is unpacked again.
        match fs::rename(temp.path(), &dir) {
            Ok(()) => drop(temp.keep()),
            // Another process was faster, with the same contents.
            Err(_) if path.exists() => {}
            Err(e) => return Err(Error::io("create", &dir)(e)),
        }
        Ok(Listing { dir, entries: filling.entries })
    }
}

/// An archive that is being added to the store.
#[derive(Debug)]
pub struct Filling {
    dir: PathBuf,
    /// The archive's name in errors.
    archive: String,
    entries: Vec<Entry>,
    files: u64,
    bytes: u64,
}

impl Filling {
    fn new(dir: &Path) -> Self {
        let (dir, archive) = (dir.to_owned(), String::new());
        Self { dir, archive, entries: Vec::new(), files: 0, bytes: 0 }
    }

    /// Names the archive that it is filled from, for errors.
    pub(crate) fn name_archive(&mut self, name: &str) {
        name.clone_into(&mut self.archive);
    }

    fn over(&self, what: &'static str, found: u64, limit: u64) -> Error {
        Error::Limit { path: self.archive.clone(), what, found, limit }
    }

    /// The nodes so far.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The bytes of a file that was added; `None` for another node, and for more than `most`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn read(&self, entry: usize, most: u64) -> Result<Option<Vec<u8>>> {
        match self.entries.get(entry).map(|entry| &entry.kind) {
            Some(MemberKind::File(number, len, _)) if *len <= most => {
                let place = self.dir.join(number.to_string());
                fs::read(&place).map(Some).map_err(Error::io("read", &place))
            }
            _ => Ok(None),
        }
    }

    /// Gives a file that was added other bytes.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::Io`].
    pub(crate) fn replace(&mut self, entry: usize, bytes: &[u8], limits: &Limits) -> Result<()> {
        let Some(MemberKind::File(number, len, digest)) =
            self.entries.get_mut(entry).map(|entry| &mut entry.kind)
        else {
            return Ok(());
        };
        let place = self.dir.join(number.to_string());
        fs::write(&place, bytes).map_err(Error::io("write", &place))?;
        let before = std::mem::replace(len, bytes.len() as u64);
        *digest = blake3::hash(bytes).to_hex().to_string();
        self.bytes = self.bytes.saturating_sub(before).saturating_add(bytes.len() as u64);
        match self.bytes > limits.bytes {
            true => Err(self.over("bytes", self.bytes, limits.bytes)),
            false => Ok(()),
        }
    }

    /// Adds a node that is not a file.
    ///
    /// # Errors
    /// [`Error::Limit`] over the limits.
    pub fn add(
        &mut self,
        path: &RootPath,
        mode: u16,
        kind: MemberKind,
        limits: &Limits,
    ) -> Result<()> {
        let found = self.entries.len() as u64 + 1;
        if found > limits.entries {
            return Err(self.over("files and folders", found, limits.entries));
        }
        let (path, mode) = (path.as_str().to_owned(), mode & 0o7777);
        self.entries.push(Entry { path, mode, kind, time: None });
        Ok(())
    }

    /// Gives the node that was added last the time of its last change.
    pub(super) fn set_time(&mut self, time: UnixTime) {
        if let Some(last) = self.entries.last_mut() {
            last.time = Some(time.0);
        }
    }

    /// Adds a file with all bytes from `reader`.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::Io`]; [`Error::Read`] when the reader failed.
    pub fn add_file(
        &mut self,
        path: &RootPath,
        mode: u16,
        reader: &mut dyn Read,
        limits: &Limits,
    ) -> Result<()> {
        let number = self.files;
        let place = self.dir.join(number.to_string());
        let file = File::create_new(&place).map_err(Error::io("create", &place))?;
        let mut sink = BufWriter::with_capacity(256 << 10, file);
        let mut buffer = vec![0; 256 << 10];
        let mut len = 0;
        let mut hasher = blake3::Hasher::new();
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(Error::Read { path: path.to_string(), source }),
            };
            len += read as u64;
            if self.bytes + len > limits.bytes {
                return Err(self.over("bytes", self.bytes + len, limits.bytes));
            }
            let read = buffer.get(..read).unwrap_or_default();
            hasher.update(read);
            sink.write_all(read).map_err(Error::io("write", &place))?;
        }
        sink.flush().map_err(Error::io("write", &place))?;
        self.bytes += len;
        self.files += 1;
        self.add(
            path,
            mode,
            MemberKind::File(number, len, hasher.finalize().to_hex().to_string()),
            limits,
        )
    }

    /// Adds a file like [`add_file`](Self::add_file), with all bytes that `write` writes.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::Io`]; those of `write`, unless it failed at one of these.
    pub fn add_file_by(
        &mut self,
        path: &RootPath,
        mode: u16,
        limits: &Limits,
        write: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let number = self.files;
        let place = self.dir.join(number.to_string());
        let file = File::create_new(&place).map_err(Error::io("create", &place))?;
        let most = limits.bytes.saturating_sub(self.bytes);
        let hasher = blake3::Hasher::new();
        let mut sink = Sink { file, hasher, bytes: 0, most, over: None, failed: None };
        let written = write(&mut sink);
        if let Some(wanted) = sink.over {
            return Err(self.over("bytes", self.bytes + wanted, limits.bytes));
        }
        if let Some(source) = sink.failed {
            return Err(Error::io("write", &place)(source));
        }
        written?;
        self.bytes += sink.bytes;
        self.files += 1;
        let digest = sink.hasher.finalize().to_hex().to_string();
        self.add(path, mode, MemberKind::File(number, sink.bytes, digest), limits)
    }
}

/// A file that takes so many bytes, and keeps the reason why not more.
struct Sink {
    file: File,
    hasher: blake3::Hasher,
    bytes: u64,
    most: u64,
    /// The number of bytes, if it would exceed `most`.
    over: Option<u64>,
    failed: Option<io::Error>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wanted = self.bytes + bytes.len() as u64;
        if wanted > self.most {
            self.over = Some(wanted);
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match self.file.write(bytes) {
            Ok(written) => {
                self.bytes += written as u64;
                self.hasher.update(bytes.get(..written).unwrap_or_default());
                Ok(written)
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Err(e),
            Err(e) => {
                let kind = e.kind();
                self.failed = Some(e);
                Err(kind.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Listing {
    /// Adds the archive's files to a tree. Directories that are there keep their mode.
    ///
    /// # Errors
    /// Those of [`Rootfs::add`].
    pub fn add_to(&self, tree: &mut Rootfs, layer: Layer) -> Result<()> {
        self.add_some_to(tree, layer, |_| true)
    }

    /// Adds files like [`add_to`](Self::add_to), except those whose paths `wanted` refuses.
    ///
    /// # Errors
    /// As `add_to`.
    pub fn add_some_to(
        &self,
        tree: &mut Rootfs,
        layer: Layer,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<()> {
        for entry in self.entries.iter().filter(|entry| wanted(&entry.path)) {
            let path = RootPath::new(&entry.path)?;
            let what = match &entry.kind {
                MemberKind::Dir if tree.follow(&path).is_some() => continue,
                MemberKind::Dir | MemberKind::File(..) | MemberKind::Symlink(_) => {
                    self.what(entry)?
                }
                MemberKind::Hardlink(first) => {
                    let first = RootPath::new(first)?;
                    let Some((real, _)) = tree.follow(&first) else {
                        let reason = format!("a hard link to {first}, which does not exist");
                        return Err(Error::Conflict { path: path.to_string(), reason });
                    };
                    What::Hardlink(real)
                }
                MemberKind::Whiteout => {
                    tree.remove(&path);
                    continue;
                }
                MemberKind::Opaque => {
                    let inside: Vec<_> = tree.children(&path).map(|(child, _)| child).collect();
                    inside.iter().for_each(|child| tree.remove(child));
                    continue;
                }
                MemberKind::Special(_) | MemberKind::Attribute(_) => continue,
            };
            tree.add(layer, &path, entry.mode, what)?;
        }
        Ok(())
    }

    /// Returns the entries of the archive that are not in a tree made from it.
    pub fn left_out(&self) -> impl Iterator<Item = LeftOut> {
        self.entries.iter().filter_map(|entry| {
            let what = match (&entry.kind, entry.time.map(UnixTime)) {
                (MemberKind::Special(what), _) => what.clone(),
                (MemberKind::Attribute(name), _) => format!("attribute {name}"),
                (_, Some(time)) if time != UnixTime::from(time.clamped_to_u32()) => {
                    format!("time {} (kept are times from 1970 to 2106)", time.0)
                }
                _ => return None,
            };
            Some(LeftOut { path: format!("/{}", entry.path), what })
        })
    }

    /// An entry as a node of a tree: a directory, a file, or a symbolic link.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a hard link or a whiteout, which mean nothing alone.
    pub fn what(&self, entry: &Entry) -> Result<What> {
        match &entry.kind {
            MemberKind::Dir => Ok(What::Dir),
            MemberKind::File(number, bytes, blake3) => Ok(What::File(FileBytes::File {
                path: self.dir.join(number.to_string()),
                bytes: *bytes,
                blake3: blake3::Hash::from_hex(blake3).ok().map(Into::into),
            })),
            MemberKind::Symlink(target) => Ok(What::Symlink(target.clone())),
            MemberKind::Hardlink(_)
            | MemberKind::Whiteout
            | MemberKind::Opaque
            | MemberKind::Special(_)
            | MemberKind::Attribute(_) => {
                let reason = "it is listed for another file".to_owned();
                Err(Error::Conflict { path: entry.path.clone(), reason })
            }
        }
    }
}
