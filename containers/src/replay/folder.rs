//! Writes an image's tree into a folder.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::python::site_of;
use crate::rootfs::{FileBytes, Node, RootPath, Rootfs, What, bytes_of};
use crate::{Error, Result};

/// Fills the empty folder `dir`. Libraries and data are hard links where that is
/// possible, which nobody may write to; what is started is a copy, to have its mode.
/// Python packages stay out but for their libraries: nothing here runs Python, and they
/// are most of an image's files.
pub(super) fn fill(tree: &Rootfs, dir: &Path) -> Result<()> {
    let mut names = Vec::new();
    for (path, node) in tree.iter().skip(1) {
        let place = dir.join(on_disk(&path.bytes()));
        if site_of(path).is_some() {
            if !matches!(node.what, What::File(_)) || !path.name().contains(".so") {
                continue;
            }
            let folder = gular_files::folder_of(&place);
            fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        }
        match &node.what {
            // Always open: other nodes come into it, and it is removed afterwards.
            What::Dir => fs::create_dir(&place).map_err(Error::io("create", &place))?,
            What::Symlink(target) => {
                symlink(on_disk(&bytes_of(target)), &place).map_err(Error::io("create", &place))?;
            }
            What::Hardlink(first) => names.push((place, first)),
            What::File(source) => file(path, node, source, &place)?,
        }
    }
    // A first name that was left out leaves out the others.
    for (place, first) in names {
        let first = dir.join(on_disk(&first.bytes()));
        if first.exists() {
            fs::hard_link(first, &place).map_err(Error::io("create", &place))?;
        }
    }
    Ok(())
}

fn on_disk(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn file(path: &RootPath, node: &Node, source: &FileBytes, place: &Path) -> Result<()> {
    match source {
        FileBytes::Bytes(bytes) => fs::write(place, bytes).map_err(Error::io("write", place))?,
        FileBytes::File { path: from, .. } => {
            let name = path.name();
            let is_library = name.contains(".so") && !name.starts_with("ld");
            let is_started = node.mode & 0o111 != 0 && !is_library;
            if !is_started && fs::hard_link(from, place).is_ok() {
                return Ok(());
            }
            fs::copy(from, place).map_err(Error::io("copy", from))?;
        }
    }
    // Bits such as setuid are removed, and we can always read and remove the file.
    let mode = fs::Permissions::from_mode(u32::from(node.mode & 0o777 | 0o600));
    fs::set_permissions(place, mode).map_err(Error::io("write", place))
}
