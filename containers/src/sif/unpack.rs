//! The files of a SIF's root partition, as a listing of the store.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use gular_squashfs::read::{self as squashfs, EntryKind, ReadBytes, Walk};

use super::{Descriptor, Sif};
use crate::rootfs::{Layer, RootPath, Rootfs, text_of};
use crate::store::{self, Filling, Limits, Listing, Store};
use crate::{Error, Result};

/// Number of bytes that are hashed at a time.
const BUFFER: usize = 1 << 20;

impl Sif {
    /// Returns the files of the root file system, which are unpacked into the store first if
    /// necessary. The root file system is read once for its digest, and again if it is new.
    ///
    /// # Errors
    /// [`Error::Sif`] without a SquashFS in gzip, xz, zstd or stored, for a damaged one, or one
    /// with a device or pipe; [`Error::Limit`]; [`Error::Io`]. After an
    /// error, nothing is left in the store.
    pub fn unpack(&self, store: &Store, limits: &Limits) -> Result<Listing> {
        let part = self.part(self.root()?);
        let digest = part.digest().map_err(Error::io("read", &self.path))?;
        store.listing(&format!("squashfs-{digest}"), |filling| self.fill(&part, filling, limits))
    }

    /// The root file system, all of it as [`Layer::Base`].
    ///
    /// # Errors
    /// Those of [`unpack`](Self::unpack), and [`Rootfs::add`].
    pub fn rootfs(&self, store: &Store, limits: &Limits) -> Result<Rootfs> {
        let mut tree = Rootfs::default();
        self.unpack(store, limits)?.add_to(&mut tree, Layer::Base)?;
        Ok(tree)
    }

    /// The compressor that the root file system names: `gzip`, `zstd`, `xz` and such.
    ///
    /// # Errors
    /// [`Error::Sif`] without a SquashFS, [`Error::Io`].
    pub fn compressor(&self) -> Result<String> {
        let part = self.part(self.root()?);
        let walk = Walk::new(&part).map_err(|e| self.damaged("", e))?;
        Ok(walk.compressor())
    }

    /// Reads a file of the root file system as text, without unpacking others; `None` if it does
    /// not exist.
    ///
    /// # Errors
    /// Those of [`unpack`](Self::unpack); [`Error::Limit`] above `max_bytes`.
    pub fn text(&self, name: &str, max_bytes: u64) -> Result<Option<String>> {
        let part = self.part(self.root()?);
        let mut walk = Walk::new(&part).map_err(|e| self.damaged("", e))?;
        while let Some(entry) = walk.next().map_err(|e| self.damaged("", e))? {
            if entry.path != name.as_bytes() {
                continue;
            }
            let EntryKind::File { size, .. } = entry.kind else { return Ok(None) };
            if size > max_bytes {
                let (path, limit) = (self.path.display().to_string(), max_bytes);
                return Err(Error::Limit { path, what: "bytes", found: size, limit });
            }
            let mut bytes = Vec::new();
            walk.copy_to(&mut bytes).map_err(|e| self.damaged(name, e))?;
            return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
        }
        Ok(None)
    }

    /// Whether a path in the root file system is `wanted`; nothing is unpacked. `None` if the names
    /// cannot be read, because they are encrypted or compressed in another way.
    ///
    /// # Errors
    /// Those of [`unpack`](Self::unpack), except for errors in the contents of files.
    pub(crate) fn has_path(&self, wanted: impl Fn(&[u8]) -> bool) -> Result<Option<bool>> {
        let Ok(root) = self.root() else { return Ok(None) };
        let part = self.part(root);
        let search = || {
            let mut walk = Walk::new(&part)?;
            while let Some(entry) = walk.next()? {
                if wanted(entry.path) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        match search() {
            Ok(found) => Ok(Some(found)),
            Err(squashfs::Error::Unsupported { .. }) => Ok(None),
            Err(error) => Err(self.damaged("", error)),
        }
    }

    fn part(&self, root: &Descriptor) -> Part<'_> {
        Part { file: self.file(), start: root.offset, bytes: root.bytes }
    }

    fn fill(&self, part: &Part<'_>, filling: &mut Filling, limits: &Limits) -> Result<()> {
        filling.name_archive(&self.path.display().to_string());
        let mut walk = Walk::new(part).map_err(|e| self.damaged("", e))?;
        // The first name of each inode.
        let mut names: HashMap<u64, String> = HashMap::new();
        loop {
            let Some(entry) = walk.next().map_err(|e| self.damaged("", e))? else { return Ok(()) };
            let (kind, mode, inode) = (entry.kind, entry.mode, entry.inode);
            let path = RootPath::new(&text_of(entry.path))?;
            match kind {
                EntryKind::Folder => filling.add(&path, mode, store::MemberKind::Dir, limits)?,
                EntryKind::Symlink => {
                    let target = walk.target().map_err(|e| self.damaged(&path.to_string(), e))?;
                    let target = text_of(&target.unwrap_or_default());
                    filling.add(&path, 0o777, store::MemberKind::Symlink(target), limits)?;
                }
                EntryKind::File { .. } if names.contains_key(&inode) => {
                    let first = names.get(&inode).cloned().unwrap_or_default();
                    filling.add(&path, mode, store::MemberKind::Hardlink(first), limits)?;
                }
                EntryKind::File { size, .. } => {
                    if size > limits.bytes {
                        let (path, found) = (self.path.display().to_string(), size);
                        let limit = limits.bytes;
                        return Err(Error::Limit { path, what: "bytes", found, limit });
                    }
                    filling.add_file_by(&path, mode, limits, |sink| {
                        walk.copy_to(sink).map_err(|e| self.damaged(&path.to_string(), e))
                    })?;
                    names.insert(inode, path.as_str().to_owned());
                }
                EntryKind::Other => {
                    return Err(self.bad(format!("{path} is a device, pipe or socket")));
                }
            }
        }
    }

    fn damaged(&self, path: &str, error: squashfs::Error) -> Error {
        match error {
            squashfs::Error::Read(source) => Error::io("read", &self.path)(source),
            other => match path {
                "" => self.bad(format!("its root partition: {other}")),
                path => self.bad(format!("{path} of its root partition: {other}")),
            },
        }
    }

    fn bad(&self, reason: String) -> Error {
        Error::Sif { path: self.path.display().to_string(), reason }
    }
}

/// A reader of a partition's bytes in the file.
struct Part<'a> {
    file: &'a File,
    start: u64,
    bytes: u64,
}

impl Part<'_> {
    fn digest(&self) -> io::Result<String> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; BUFFER];
        let mut at = 0;
        while at < self.bytes {
            let len = usize::try_from(self.bytes - at).unwrap_or(BUFFER).min(BUFFER);
            let part = buffer.get_mut(..len).unwrap_or_default();
            self.read_at(at, part)?;
            hasher.update(part);
            at += len as u64;
        }
        Ok(hasher.finalize().to_hex().to_string())
    }
}

impl ReadBytes for Part<'_> {
    fn len_bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= self.bytes);
        if end.is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_exact_at(out, self.start + offset)
    }
}
