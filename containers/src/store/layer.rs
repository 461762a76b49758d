//! Applies a layer to those below it.

use super::{Listing, MemberKind};
use crate::rootfs::{Layer, RootPath, Rootfs, What};
use crate::{Error, Result, UnixTime};

impl Listing {
    /// Applies a layer of an OCI image to a tree: first it hides what it hides, then its own nodes
    /// take the places of those that are there, whatever they are (image-spec, `layer.md`,
    /// "Applying Changesets").
    ///
    /// # Errors
    /// [`Error::Conflict`] for a hard link to nothing, or something below a file;
    /// [`Error::Path`] for links in a circle.
    pub fn lay_over(&self, tree: &mut Rootfs, layer: Layer) -> Result<()> {
        // A directory replaces a link, so what hides something in it means nothing of what
        // the link led to. Sorted: a link above is gone before what is below it is looked at.
        let dirs = self.entries.iter().filter(|entry| entry.kind == MemberKind::Dir);
        let mut dirs = dirs.map(|entry| RootPath::new(&entry.path)).collect::<Result<Vec<_>>>()?;
        dirs.sort_unstable();
        for path in &dirs {
            if tree.get(path).is_some_and(|node| matches!(node.what, What::Symlink(_))) {
                tree.remove(path);
            }
        }
        for entry in &self.entries {
            let path = RootPath::new(&entry.path)?;
            match entry.kind {
                MemberKind::Whiteout => tree.remove(&path),
                MemberKind::Opaque => {
                    let inside: Vec<_> = tree.children(&path).map(|(child, _)| child).collect();
                    inside.iter().for_each(|child| tree.remove(child));
                }
                _ => {}
            }
        }
        for entry in &self.entries {
            let path = RootPath::new(&entry.path)?;
            let (mut mode, mut time) = (entry.mode, entry.time.map(UnixTime));
            let what = match &entry.kind {
                MemberKind::Whiteout | MemberKind::Opaque | MemberKind::Attribute(_) => continue,
                // The file below such a node is removed, too.
                MemberKind::Special(_) => {
                    tree.remove(&path);
                    continue;
                }
                MemberKind::Hardlink(first) => {
                    let what = linked(tree, &path, first)?;
                    // All names of a file have the mode and the time of the first.
                    if let What::Hardlink(first) = &what
                        && let Some(node) = tree.get(first)
                    {
                        (mode, time) = (node.mode, node.time);
                    }
                    what
                }
                MemberKind::Dir | MemberKind::File(..) | MemberKind::Symlink(_) => {
                    self.what(entry)?
                }
            };
            if let Some(there) = tree.get(&path) {
                match (&there.what, &what) {
                    (What::Dir, What::Dir) if there.mode == mode => {
                        time.into_iter().for_each(|time| tree.set_time(&path, time));
                        continue;
                    }
                    (What::Dir, What::Dir)
                    | (What::Symlink(_), What::Symlink(_))
                    | (What::File(_) | What::Hardlink(_), What::File(_) | What::Hardlink(_)) => {}
                    _ => tree.remove(&path),
                }
            }
            tree.add(layer, &path, mode, what)?;
            time.into_iter().for_each(|time| tree.set_time(&path, time));
        }
        Ok(())
    }
}

/// Returns the node for a hard link: a further name of a file, or a copy of the symbolic link that
/// it names, since Linux does not follow that.
fn linked(tree: &Rootfs, path: &RootPath, first: &str) -> Result<What> {
    let first = RootPath::new(first)?;
    let nothing = || {
        let reason = format!("it is a hard link to {first}, which is not a file");
        Error::Conflict { path: path.to_string(), reason }
    };
    let node = tree.get(&first).ok_or_else(nothing)?;
    match &node.what {
        What::Symlink(target) => Ok(What::Symlink(target.clone())),
        What::File(_) | What::Hardlink(_) => match tree.follow(&first) {
            Some((real, node)) if matches!(node.what, What::File(_)) => Ok(What::Hardlink(real)),
            _ => Err(nothing()),
        },
        What::Dir => Err(nothing()),
    }
}
