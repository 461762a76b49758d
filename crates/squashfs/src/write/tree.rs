//! The files that an image contains, and their names.

use std::collections::HashMap;

use super::data::FileData;
use super::error::{Error, shown};
use super::xattr::Sets;
use crate::format::NONE;

/// Longest segment of a path: the format allows one byte more, but Linux cannot open such a file.
const MAX_NAME: usize = 255;
/// Longest path that Linux opens: `PATH_MAX`, with its final zero byte.
const MAX_PATH: usize = 4095;
/// Longest target of a symbolic link that Linux follows.
const MAX_TARGET: usize = 4095;

/// Owner, permissions and time of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Permissions, set-user-ID, set-group-ID and sticky bit: the low 12 bits of `st_mode`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Seconds since 1970.
    pub mtime: u32,
}

/// The contents of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeNode {
    /// A file with these bytes.
    File(FileData),
    /// A directory.
    Dir,
    /// A symbolic link to this target, which is not checked.
    Symlink(Vec<u8>),
    /// Another name of the node at this path, which is not a directory and may be added later.
    /// Owner, permissions and time are those of that node.
    Hardlink(Vec<u8>),
    /// A character device.
    CharDevice {
        /// Up to 4095.
        major: u32,
        /// Up to 1048575.
        minor: u32,
    },
    /// A block device.
    BlockDevice {
        /// Up to 4095.
        major: u32,
        /// Up to 1048575.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// The paths of an image. The image does not depend on the order in which they are added.
#[derive(Debug)]
pub struct Tree {
    pub(super) entries: Vec<Entry>,
    names: Vec<u8>,
    /// Targets of symbolic and hard links.
    pub(super) targets: Vec<Box<[u8]>>,
    pub(super) sets: Sets,
    /// Directories by path; the root's path is empty.
    directories: HashMap<Box<[u8]>, u32>,
}

/// One node, in as little memory as possible.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) parent: u32,
    name_start: u32,
    name_len: u8,
    /// Whether nobody added the directory, so that it exists only for its contents.
    implied: bool,
    pub(super) mode: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: u32,
    pub(super) xattrs: u32,
    pub(super) what: What,
}

/// A [`TreeNode`] whose variable parts are stored elsewhere.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    File(FileData),
    Dir,
    Symlink(u32),
    Hardlink(u32),
    CharDevice(u32),
    BlockDevice(u32),
    Fifo,
    Socket,
}

/// The number of the root among a tree's entries.
pub(super) const ROOT: u32 = 0;

impl Tree {
    /// Makes a tree of only a root. Directories that are not added themselves, but contain
    /// something, get the owner, permissions and time in `root`.
    pub fn new(root: Meta) -> Self {
        let mut tree = Self {
            entries: Vec::new(),
            names: Vec::new(),
            targets: Vec::new(),
            sets: Sets::default(),
            directories: HashMap::from([(Box::default(), ROOT)]),
        };
        tree.entries.push(Entry::new(ROOT, (0, 0), root, What::Dir));
        tree
    }

    /// Adds a node. `path` has up to 4095 bytes, in segments of up to 255 between `/`, none empty,
    /// `.` or `..`, and no zero byte. [`Writer::finish`](super::Writer::finish) checks whether two
    /// nodes have the same path.
    ///
    /// # Errors
    /// [`Error::Path`], [`Error::Node`] for a device's number or a link's target
    /// out of range, [`Error::Duplicate`] for a directory added twice.
    pub fn add(&mut self, path: impl AsRef<[u8]>, meta: Meta, node: TreeNode) -> Result<(), Error> {
        self.add_with_xattrs(path, meta, node, &[])
    }

    /// Adds a node like [`add`](Self::add), with extended attributes: full names (`user.comment`)
    /// and values, in any order.
    ///
    /// # Errors
    /// As `add`, and [`Error::Xattr`].
    pub fn add_with_xattrs(
        &mut self,
        path: impl AsRef<[u8]>,
        meta: Meta,
        node: TreeNode,
        xattrs: &[(&[u8], &[u8])],
    ) -> Result<(), Error> {
        let path = path.as_ref();
        check(path)?;
        let xattrs = self.sets.number(path, xattrs)?;
        let what = self.what(path, node)?;
        let at = match (what, self.directories.get(path)) {
            (What::Dir, Some(at)) => {
                let entry = &mut self.entries[*at as usize];
                if !entry.implied {
                    return Err(Error::Duplicate { path: shown(path) });
                }
                *entry = Entry::new(entry.parent, (entry.name_start, entry.name_len), meta, what);
                *at
            }
            _ => self.push(path, meta, what)?,
        };
        self.entries[at as usize].xattrs = xattrs;
        Ok(())
    }

    /// Sets the extended attributes of the root.
    ///
    /// # Errors
    /// [`Error::Xattr`].
    pub fn set_root_xattrs(&mut self, xattrs: &[(&[u8], &[u8])]) -> Result<(), Error> {
        self.entries[ROOT as usize].xattrs = self.sets.number(b"", xattrs)?;
        Ok(())
    }

    pub(super) fn entry(&self, at: u32) -> &Entry {
        &self.entries[at as usize]
    }

    pub(super) fn name(&self, at: u32) -> &[u8] {
        let Entry { name_start, name_len, .. } = self.entry(at);
        &self.names[*name_start as usize..][..usize::from(*name_len)]
    }

    /// Returns a node's path, for a message.
    pub(super) fn path(&self, mut at: u32) -> String {
        let mut names = Vec::new();
        while at != ROOT {
            names.push(shown(self.name(at)));
            at = self.entry(at).parent;
        }
        names.reverse();
        names.join("/")
    }

    pub(super) fn directory(&self, path: &[u8]) -> Option<u32> {
        self.directories.get(path).copied()
    }

    fn what(&mut self, path: &[u8], node: TreeNode) -> Result<What, Error> {
        Ok(match node {
            TreeNode::File(data) => What::File(data),
            TreeNode::Dir => What::Dir,
            TreeNode::Symlink(target) => {
                if !(1..=MAX_TARGET).contains(&target.len()) {
                    return Err(Error::Node {
                        path: shown(path),
                        what: "the length of the link's target",
                        found: target.len() as u64,
                        expected: "1 to 4095",
                    });
                }
                What::Symlink(self.target(target)?)
            }
            TreeNode::Hardlink(target) => What::Hardlink(self.target(target)?),
            TreeNode::CharDevice { major, minor } => What::CharDevice(device(path, major, minor)?),
            TreeNode::BlockDevice { major, minor } => {
                What::BlockDevice(device(path, major, minor)?)
            }
            TreeNode::Fifo => What::Fifo,
            TreeNode::Socket => What::Socket,
        })
    }

    fn target(&mut self, target: Vec<u8>) -> Result<u32, Error> {
        let number = count(self.targets.len(), "links")?;
        self.targets.push(target.into_boxed_slice());
        Ok(number)
    }

    /// Adds an entry, and the directories above it that do not exist yet.
    fn push(&mut self, path: &[u8], meta: Meta, what: What) -> Result<u32, Error> {
        let above = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let parent = match self.directories.get(&path[..above]) {
            Some(parent) => *parent,
            None => self.push_missing(&path[..above])?,
        };
        let name = if above == 0 { path } else { &path[above + 1..] };
        self.push_below(parent, path, name, meta, what)
    }

    fn push_missing(&mut self, path: &[u8]) -> Result<u32, Error> {
        let Entry { mode, uid, gid, mtime, .. } = self.entries[ROOT as usize];
        let meta = Meta { mode, uid, gid, mtime };
        let mut parent = ROOT;
        let mut start = 0;
        while start < path.len() {
            let rest = &path[start..];
            let end = start + rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            parent = match self.directories.get(&path[..end]) {
                Some(found) => *found,
                None => {
                    let name = &path[start..end];
                    let made = self.push_below(parent, &path[..end], name, meta, What::Dir)?;
                    self.entries[made as usize].implied = true;
                    made
                }
            };
            start = end + 1;
        }
        Ok(parent)
    }

    fn push_below(
        &mut self,
        parent: u32,
        path: &[u8],
        name: &[u8],
        meta: Meta,
        what: What,
    ) -> Result<u32, Error> {
        let at = count(self.entries.len(), "nodes")?;
        let name_start = count(self.names.len() + name.len(), "bytes of names")?;
        let name_start = name_start - name.len() as u32;
        self.names.extend_from_slice(name);
        self.entries.push(Entry::new(parent, (name_start, name.len() as u8), meta, what));
        if matches!(what, What::Dir) {
            self.directories.insert(path.into(), at);
        }
        Ok(at)
    }
}

impl Entry {
    fn new(parent: u32, (name_start, name_len): (u32, u8), meta: Meta, what: What) -> Self {
        let Meta { mode, uid, gid, mtime } = meta;
        let mode = mode & 0o7777;
        Self {
            parent,
            name_start,
            name_len,
            implied: false,
            mode,
            uid,
            gid,
            mtime,
            xattrs: NONE,
            what,
        }
    }
}

/// Returns the number of the next of `len` things. The highest numbers are reserved.
fn count(len: usize, what: &'static str) -> Result<u32, Error> {
    let most = NONE - 1;
    u32::try_from(len)
        .ok()
        .filter(|len| *len < most)
        .ok_or(Error::TooMany { what, limit: u64::from(most) })
}

fn check(path: &[u8]) -> Result<(), Error> {
    if path.len() > MAX_PATH {
        return Err(Error::Path { path: shown(path), reason: "it is over 4095 bytes" });
    }
    for segment in path.split(|byte| *byte == b'/') {
        let reason = match segment {
            b"" if path.is_empty() => "it is empty",
            b"" => "it starts or ends with `/`, or has two in a row",
            b"." | b".." => "`.` and `..` are not names",
            _ if segment.len() > MAX_NAME => "a segment is over 255 bytes",
            _ if segment.contains(&0) => "it contains a zero byte",
            _ => continue,
        };
        return Err(Error::Path { path: shown(path), reason });
    }
    Ok(())
}

/// Returns a device's number in 32 bits, as Linux does.
fn device(path: &[u8], major: u32, minor: u32) -> Result<u32, Error> {
    let bad = |what, found: u32, expected| {
        Err(Error::Node { path: shown(path), what, found: u64::from(found), expected })
    };
    if major > 0xFFF {
        return bad("the device's major number", major, "0 to 4095");
    }
    if minor > 0xF_FFFF {
        return bad("the device's minor number", minor, "0 to 1048575");
    }
    Ok(minor & 0xFF | major << 8 | (minor & !0xFF) << 12)
}
