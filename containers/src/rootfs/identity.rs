//! The identity of a part of a tree, as a digest: equal trees give equal bytes when they are packed
//! in the same way.

use super::{FileBytes, Node, RootPath, What};
use crate::Result;
use crate::hash_file::blake3_of;

/// Takes paths, modes, times, links and contents of `nodes` into `hasher`. A file whose
/// digest is known is not read.
pub(crate) fn identify<'a>(
    hasher: &mut blake3::Hasher,
    nodes: impl Iterator<Item = (&'a RootPath, &'a Node)>,
) -> Result<()> {
    for (path, node) in nodes {
        hasher.update(format!("{path:?} {:o} {} ", node.mode, node.layer.name()).as_bytes());
        if let Some(time) = node.time {
            hasher.update(format!("t{} ", time.0).as_bytes());
        }
        match &node.what {
            What::Dir => hasher.update(b"d"),
            What::Symlink(target) => hasher.update(format!("l{target:?}").as_bytes()),
            What::Hardlink(first) => hasher.update(format!("h{first:?}").as_bytes()),
            What::File(source) => hasher.update(b"f").update(contents(source)?.as_bytes()),
        };
        hasher.update(b"\n");
    }
    Ok(())
}

fn contents(source: &FileBytes) -> Result<blake3::Hash> {
    match source {
        FileBytes::Bytes(bytes) => Ok(blake3::hash(bytes)),
        FileBytes::File { blake3: Some(digest), .. } => Ok((*digest).into()),
        FileBytes::File { path, .. } => blake3_of(path),
    }
}
