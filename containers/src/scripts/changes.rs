//! What programs changed in a tree.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::llistxattr;

use super::scratch::{MOUNTS, PRIVATE, Scratch};
use crate::hash_file::blake3_of;
use crate::rootfs::{FileBytes, RootPath, Rootfs, What};
use crate::store::{Filling, Limits, MemberKind};
use crate::swept_dir::open_folders;
use crate::{Error, Result};

/// A change to one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// The node is gone, with what is below it.
    Removed,
    /// A directory, new or with another mode.
    Dir(u16),
    /// A symbolic link.
    Symlink(String),
    /// A file.
    File {
        /// Its mode.
        mode: u16,
        /// BLAKE3 of its bytes.
        blake3: blake3::Hash,
    },
    /// A further name of a file.
    Hardlink(RootPath),
    /// A pipe or a socket, which no image can have.
    Special(&'static str),
}

/// All changes by path, and for each the time at which it was made, in nanoseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The changes.
    pub(super) made: BTreeMap<RootPath, Change>,
    /// The time of each.
    pub(super) at: HashMap<RootPath, i128>,
    /// Extended attributes, which no image can have.
    attributes: BTreeMap<RootPath, Vec<String>>,
}

/// Finds what is different in a folder from the tree that was written to it.
///
/// # Errors
/// [`Error::Io`]; [`Error::Archive`] for names that are not UTF-8.
pub(super) fn changes(scratch: &Scratch, tree: &Rootfs) -> Result<Changes> {
    let root = scratch.root();
    open_folders(&root).map_err(Error::io("read", &root))?;
    let of_machine = attributes(&root);
    let mut walk = Walk {
        scratch,
        tree,
        root: &root,
        found: Changes::default(),
        names: HashMap::new(),
        of_machine,
    };
    let mut there = HashSet::new();
    walk.folder(&RootPath::ROOT, &mut there)?;
    for (path, _) in tree.iter().skip(1) {
        let parent = path.parent().unwrap_or(RootPath::ROOT);
        let mounted = MOUNTS.iter().any(|name| parent.as_str().split('/').next() == Some(name));
        // What is below a removed folder goes with it.
        if !there.contains(path)
            && !mounted
            && (there.contains(&parent) || parent == RootPath::ROOT)
        {
            walk.found.made.insert(path.clone(), Change::Removed);
        }
    }
    Ok(walk.found)
}

struct Walk<'a> {
    scratch: &'a Scratch,
    tree: &'a Rootfs,
    root: &'a Path,
    found: Changes,
    /// First names of files with several.
    names: HashMap<u64, RootPath>,
    /// Attributes that this machine gives to all files, such as SELinux's label.
    of_machine: Vec<String>,
}

impl Walk<'_> {
    fn folder(&mut self, dir: &RootPath, there: &mut HashSet<RootPath>) -> Result<()> {
        let place = self.root.join(dir.as_str());
        let entries = fs::read_dir(&place).map_err(Error::io("read", &place))?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(Error::io("read", &place))?.file_name();
            let name = name.into_string().map_err(|name| Error::Archive {
                path: place.display().to_string(),
                reason: format!("the name `{}` is not UTF-8", name.to_string_lossy()),
            })?;
            names.push(name);
        }
        names.sort_unstable();
        for name in names {
            let path = dir.join(&name);
            if *dir == RootPath::ROOT && name == PRIVATE {
                continue;
            }
            let place = self.root.join(path.as_str());
            let meta = fs::symlink_metadata(&place).map_err(Error::io("read", &place))?;
            self.node(&path, &place, &meta)?;
            there.insert(path.clone());
            let mounted = *dir == RootPath::ROOT && MOUNTS.contains(&name.as_str());
            if meta.is_dir() && !mounted {
                self.folder(&path, there)?;
            }
        }
        Ok(())
    }

    fn node(&mut self, path: &RootPath, place: &PathBuf, meta: &Metadata) -> Result<()> {
        let before = self.tree.get(path).map(|node| (&node.what, node.mode));
        let mode = (meta.mode() & 0o7777) as u16;
        if !meta.is_symlink() && !self.scratch.is_untouched(path, meta) {
            let mut own = attributes(place);
            own.retain(|name| !self.of_machine.contains(name));
            if !own.is_empty() {
                self.found.attributes.insert(path.clone(), own);
            }
        }
        let change = if meta.is_dir() {
            // We opened folders to read them.
            match before {
                Some((What::Dir, before)) if before | 0o700 == mode => return Ok(()),
                _ => Change::Dir(mode),
            }
        } else if meta.is_symlink() {
            let target = fs::read_link(place).map_err(Error::io("read", place))?;
            let target = target.into_os_string().into_string().map_err(|_| Error::Archive {
                path: place.display().to_string(),
                reason: "its target is not UTF-8".to_owned(),
            })?;
            match before {
                Some((What::Symlink(before), _)) if *before == target => return Ok(()),
                _ => Change::Symlink(target),
            }
        } else if meta.is_file() {
            match self.file(path, place, meta, mode, before)? {
                Some(change) => change,
                None => return Ok(()),
            }
        } else {
            let is_pipe = meta.file_type().is_fifo();
            Change::Special(if is_pipe { "named pipe" } else { "socket" })
        };
        let at = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
        self.found.at.insert(path.clone(), at);
        self.found.made.insert(path.clone(), change);
        Ok(())
    }

    fn file(
        &mut self,
        path: &RootPath,
        place: &Path,
        meta: &Metadata,
        mode: u16,
        before: Option<(&What, u16)>,
    ) -> Result<Option<Change>> {
        if self.scratch.is_untouched(path, meta) {
            return Ok(None);
        }
        if meta.nlink() > 1 {
            if let Some(first) = self.names.get(&meta.ino()) {
                let first = first.clone();
                let same = matches!(before, Some((What::Hardlink(before), _)) if *before == first);
                return Ok((!same).then_some(Change::Hardlink(first)));
            }
            self.names.insert(meta.ino(), path.clone());
        }
        if meta.mode() & 0o400 == 0 {
            let readable = Permissions::from_mode(meta.mode() | 0o400);
            fs::set_permissions(place, readable).map_err(Error::io("read", place))?;
        }
        let blake3 = blake3_of(place)?;
        let known = match before {
            Some((What::File(FileBytes::File { blake3: Some(known), .. }), _)) => Some(*known),
            Some((What::File(FileBytes::Bytes(bytes)), _)) => Some(blake3::hash(bytes).into()),
            _ => None,
        };
        let same =
            known == Some(*blake3.as_bytes()) && before.is_some_and(|(_, before)| before == mode);
        Ok((!same).then_some(Change::File { mode, blake3 }))
    }
}

/// The names of a node's extended attributes; none where the file system has no such thing.
fn attributes(place: &Path) -> Vec<String> {
    // Asked with no space, it says how much it needs.
    let mut names = vec![0_u8; llistxattr(place, &mut [0_u8; 0]).unwrap_or(0)];
    let len = llistxattr(place, &mut names).unwrap_or(0);
    let names = names.get(..len).unwrap_or_default().split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

impl Changes {
    /// Keeps the changes of which `keep` says so, by path and whether the node is gone. If the
    /// first name of a file is not kept, another name of it becomes the file.
    pub(super) fn retain(&mut self, keep: impl Fn(&RootPath, bool) -> bool) {
        let made = std::mem::take(&mut self.made).into_iter();
        let (mut kept, dropped): (BTreeMap<_, _>, BTreeMap<_, _>) =
            made.partition(|(path, change)| keep(path, *change == Change::Removed));
        let mut firsts: HashMap<RootPath, RootPath> = HashMap::new();
        for (path, change) in &mut kept {
            let Change::Hardlink(first) = change else { continue };
            let Some(file @ Change::File { .. }) = dropped.get(first) else { continue };
            match firsts.get(first) {
                Some(now) => first.clone_from(now),
                None => {
                    firsts.insert(first.clone(), path.clone());
                    *change = file.clone();
                }
            }
        }
        self.made = kept;
        self.attributes.retain(|path, _| keep(path, false));
    }

    /// Adds the changes to an archive of the store, with the bytes of files from the folder that
    /// they were found in: what is gone first.
    ///
    /// # Errors
    /// Those of [`Filling::add_file`].
    pub(super) fn fill(
        &self,
        scratch: &Scratch,
        filling: &mut Filling,
        limits: &Limits,
    ) -> Result<()> {
        for (path, name) in
            self.attributes.iter().flat_map(|(path, n)| n.iter().map(move |n| (path, n)))
        {
            filling.add(path, 0, MemberKind::Attribute(name.clone()), limits)?;
        }
        for (path, change) in &self.made {
            let (mode, kind) = match change {
                Change::Removed => (0, MemberKind::Whiteout),
                Change::Special(what) => (0, MemberKind::Special((*what).to_owned())),
                Change::Dir(mode) => (*mode, MemberKind::Dir),
                Change::Symlink(target) => (0o777, MemberKind::Symlink(target.clone())),
                Change::Hardlink(first) => (0, MemberKind::Hardlink(first.as_str().to_owned())),
                Change::File { mode, .. } => {
                    let place = scratch.root().join(path.as_str());
                    let mut file = fs::File::open(&place).map_err(Error::io("open", &place))?;
                    filling.add_file(path, *mode, &mut file, limits)?;
                    continue;
                }
            };
            filling.add(path, mode, kind, limits)?;
        }
        Ok(())
    }
}
