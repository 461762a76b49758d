//! Walks the tree of directories.

use std::collections::HashSet;
use std::io::Write;

use super::content::Content;
use super::data::Blocks;
use super::error::damaged;
use super::inode::{Folder, Inode, What};
use super::metadata::{Metadata, Place};
use super::read_bytes::{u16_at, u32_at};
use super::superblock::Superblock;
use super::{Error, ReadBytes};
use crate::format::kind;

/// Longest path: that of Linux (`PATH_MAX`, with its final zero byte).
const MAX_PATH: usize = 4095;
/// Most entries below one header of a listing: the kernel refuses more.
const MOST_ENTRIES: u32 = 256;
const HEADER_BYTES: u32 = 12;
const ENTRY_BYTES: u32 = 8;
/// Bytes that a folder's size counts and its listing does not have.
const DOTS: u32 = 3;
/// Cost of an entry besides the bytes of its path, so that short names also cost something.
const ENTRY_COST: u64 = 64;
/// All entries together may cost this much for each byte of the image, and [`SPARE_COST`] more.
/// Names compress well, and folders can share listings. Without a limit a small damaged image could
/// take days, and fill the memory of a caller that keeps its paths. With data behind the names, a
/// file takes about 100 bytes of an image and its path.
const COST_A_BYTE: u64 = 8;
const SPARE_COST: u64 = 4 << 20;

/// Goes through everything in an image except its root: each folder comes before its contents, and
/// names are in the order of their bytes.
pub struct Walk<'a, S: ?Sized> {
    metadata: Metadata<'a, S>,
    superblock: Superblock,
    /// The open listings, from the root to the current folder.
    open: Vec<Listing>,
    path: Vec<u8>,
    /// References to the inodes of folders; each folder may be in one place only.
    folders: HashSet<u64>,
    /// The cost that is left for further entries.
    budget: u64,
    /// The last entry that was returned.
    last: Option<What>,
    blocks: Blocks,
}

/// A file, folder or other entry of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkEntry<'w> {
    /// Path of the entry from the root on, at most 4095 bytes; no name in it is empty, `.` or `..`,
    /// or contains a zero byte.
    pub path: &'w [u8],
    /// Type of the entry.
    pub kind: EntryKind,
    /// Permission bits, 12 of them.
    pub mode: u16,
    /// The place of the entry's inode; entries with the same inode are one file.
    pub inode: u64,
}

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A regular file.
    File {
        /// The file's length in bytes.
        size: u64,
        /// How the file's bytes are stored.
        content: Content,
    },
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket.
    Other,
}

/// A listing that is being read.
struct Listing {
    place: Place,
    /// Bytes of the listing that are left.
    left: u32,
    /// Entries that are left below the last header, and then the block of their inodes.
    entries: u32,
    inodes: u64,
    /// Length of the folder's path.
    path: usize,
    /// The previous name.
    last: Vec<u8>,
}

impl<S: ?Sized> std::fmt::Debug for Walk<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("superblock", &self.superblock).finish_non_exhaustive()
    }
}

impl<'a, S: ReadBytes + ?Sized> Walk<'a, S> {
    /// Starts a walk at the root of the image in `source`.
    ///
    /// # Errors
    /// [`Error::NotSquashfs`], [`Error::Unsupported`], [`Error::Damaged`], [`Error::Read`].
    pub fn new(source: &'a S) -> Result<Self, Error> {
        let superblock = Superblock::read(source)?;
        let metadata = Metadata::new(source, &superblock)?;
        let budget = source.len_bytes().saturating_mul(COST_A_BYTE).saturating_add(SPARE_COST);
        let mut walk = Self {
            metadata,
            superblock,
            open: Vec::new(),
            path: Vec::new(),
            folders: HashSet::new(),
            budget,
            last: None,
            blocks: Blocks::default(),
        };
        let root = superblock.root;
        let inode = walk.inode(root >> 16, u16_at(&root.to_le_bytes(), 0), kind::DIRECTORY)?;
        if let What::Folder(folder) = inode.what {
            walk.enter(root, folder)?;
        }
        Ok(walk)
    }

    /// Returns the name of the compressor in the superblock, which need not have compressed
    /// anything.
    #[must_use]
    pub fn compressor(&self) -> String {
        self.superblock.compressor_name()
    }

    /// Returns the next entry; `None` after the last.
    ///
    /// # Errors
    /// As [`new`](Self::new); the walk is over then.
    #[expect(clippy::should_implement_trait, reason = "entries borrow the walk's path")]
    pub fn next(&mut self) -> Result<Option<WalkEntry<'_>>, Error> {
        self.last = None;
        match self.step() {
            Ok(Some((kind, mode, inode))) => {
                Ok(Some(WalkEntry { path: &self.path, kind, mode, inode }))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.open.clear();
                Err(error)
            }
        }
    }

    /// Writes the bytes of the file that [`next`](Self::next) returned last, block by block, with
    /// holes as zeros; writes nothing if the entry was not a file. An image may claim that a file
    /// of holes is very long, so check its size before.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::Write`]. `sink` may have got some bytes then.
    pub fn copy_to(&mut self, sink: &mut dyn Write) -> Result<(), Error> {
        let Some(What::File(file)) = self.last else { return Ok(()) };
        self.blocks.copy(&file, &mut self.metadata, &self.superblock, sink)
    }

    /// Returns the target of the symbolic link that [`next`](Self::next) returned last, unchanged;
    /// `None` if the entry was not a link.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn target(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(What::Symlink(link)) = self.last else { return Ok(None) };
        let bytes = usize::try_from(link.bytes).unwrap_or(usize::MAX);
        if bytes == 0 || bytes > MAX_PATH {
            return Err(damaged(format!("a link's target has {bytes} bytes")));
        }
        let mut target = vec![0; bytes];
        let mut place = link.place;
        self.metadata.read(&mut place, &mut target)?;
        if target.contains(&0) {
            return Err(damaged("a link's target contains a zero byte"));
        }
        Ok(Some(target))
    }

    /// Puts the next entry's path into `path`, and returns its type, mode and inode.
    fn step(&mut self) -> Result<Option<(EntryKind, u16, u64)>, Error> {
        let listing = loop {
            let Some(listing) = self.open.last_mut() else { return Ok(None) };
            self.path.truncate(listing.path);
            if listing.left > 0 {
                break listing;
            }
            if listing.entries > 0 {
                return Err(damaged("a listing ends before its last name"));
            }
            self.open.pop();
        };
        let (block, offset, plain) = listing.next(&mut self.metadata, &mut self.path)?;
        if self.path.len() > MAX_PATH {
            return Err(damaged(format!("a path is longer than {MAX_PATH} bytes")));
        }
        let budget = self.budget.checked_sub(ENTRY_COST.saturating_add(self.path.len() as u64));
        self.budget = budget.ok_or_else(|| damaged("it has more names than fit its size"))?;
        let inode = self.inode(block, offset, plain)?;
        let reference = block << 16 | u64::from(offset);
        let kind = match inode.what {
            What::Folder(folder) => {
                self.enter(reference, folder)?;
                EntryKind::Folder
            }
            What::File(file) => {
                let content = Content::of(&file, &mut self.metadata, &self.superblock)?;
                EntryKind::File { size: file.size, content }
            }
            What::Symlink(_) => EntryKind::Symlink,
            What::Other => EntryKind::Other,
        };
        self.last = Some(inode.what);
        Ok(Some((kind, inode.mode, reference)))
    }

    fn inode(&mut self, block: u64, offset: u16, plain: u16) -> Result<Inode, Error> {
        let block = self.superblock.inodes.saturating_add(block);
        Inode::read(&mut self.metadata, Place { block, offset: usize::from(offset) }, plain)
    }

    fn enter(&mut self, reference: u64, folder: Folder) -> Result<(), Error> {
        if !self.folders.insert(reference) {
            let path = String::from_utf8_lossy(&self.path).into_owned();
            return Err(damaged(format!("folder `{path}` is listed in two places")));
        }
        let block = self.superblock.listings.saturating_add(u64::from(folder.block));
        self.open.push(Listing {
            place: Place { block, offset: usize::from(folder.offset) },
            left: folder.size.saturating_sub(DOTS),
            entries: 0,
            inodes: 0,
            path: self.path.len(),
            last: Vec::new(),
        });
        Ok(())
    }
}

impl Listing {
    /// Appends the next name to `path`, and returns block, offset and plain type of its inode.
    fn next<S: ReadBytes + ?Sized>(
        &mut self,
        metadata: &mut Metadata<'_, S>,
        path: &mut Vec<u8>,
    ) -> Result<(u64, u16, u16), Error> {
        if self.entries == 0 {
            self.take(HEADER_BYTES)?;
            let header: [u8; 12] = metadata.read_array(&mut self.place)?;
            self.entries = u32_at(&header, 0).saturating_add(1);
            self.inodes = u64::from(u32_at(&header, 4));
            if self.entries > MOST_ENTRIES {
                let reason = format!("one header has {} names", self.entries);
                return Err(damaged(reason));
            }
        }
        self.take(ENTRY_BYTES)?;
        let entry: [u8; 8] = metadata.read_array(&mut self.place)?;
        let (offset, plain) = (u16_at(&entry, 0), u16_at(&entry, 4));
        let len = u32::from(u16_at(&entry, 6)).saturating_add(1);
        if len > MOST_ENTRIES {
            return Err(damaged(format!("a name has {len} bytes")));
        }
        self.take(len)?;
        let mut name = vec![0; usize::try_from(len).unwrap_or(0)];
        metadata.read(&mut self.place, &mut name)?;
        if matches!(name.as_slice(), b"." | b"..") || name.iter().any(|b| matches!(b, 0 | b'/')) {
            return Err(damaged(format!("`{}` is not a name", name.escape_ascii())));
        }
        // The kernel finds names by their order, so they must be sorted.
        if name <= self.last {
            return Err(damaged(format!("name `{}` is out of order", name.escape_ascii())));
        }
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&name);
        self.last = name;
        self.entries = self.entries.saturating_sub(1);
        Ok((self.inodes, offset, plain))
    }

    fn take(&mut self, bytes: u32) -> Result<(), Error> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| damaged("a listing ends within a name"))?;
        Ok(())
    }
}
