//! Lays an environment into an image.

use std::collections::BTreeMap;

use crate::Result;
use crate::rootfs::{Layer, RootPath, Rootfs, What};
use crate::store::{Listing, MemberKind};

/// The environment's folder in an image.
pub(crate) const PREFIX: &str = "opt/env";

/// Adds all files of an environment, and the variables that its programs expect.
///
/// # Errors
/// Those of [`Rootfs::add`].
pub(crate) fn install(
    tree: &mut Rootfs,
    files: &Listing,
    env: &mut BTreeMap<String, String>,
) -> Result<()> {
    let mut by_path = BTreeMap::new();
    for entry in &files.entries {
        by_path.entry(&entry.path).or_insert(entry);
    }
    for entry in &files.entries {
        let path = RootPath::new(&format!("{PREFIX}/{}", entry.path))?;
        match &entry.kind {
            MemberKind::Dir => tree.add_dir(Layer::Python, &path)?,
            MemberKind::Symlink(target) => {
                tree.add(Layer::Python, &path, 0o777, What::Symlink(target.clone()))?;
            }
            MemberKind::Hardlink(first) => {
                if let Some(same) = by_path.get(first) {
                    tree.add(Layer::Python, &path, same.mode, files.what(same)?)?;
                }
            }
            MemberKind::File(..) => {
                // Everybody reads what only its owner could read in the environment.
                let mode = if entry.mode & 0o111 == 0 { 0o644 } else { 0o755 };
                tree.add(Layer::Python, &path, mode, files.what(entry)?)?;
            }
            _ => {}
        }
    }
    env.insert("CONDA_PREFIX".to_owned(), format!("/{PREFIX}"));
    Ok(())
}
