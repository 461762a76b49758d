//! The paths of a bundle's files in a local folder (FORMAT.md, "Where the data is").
//!
//! ```text
//! DIR/data/NAME      as it was packed, or fetched
//! DIR/../data/NAME   DIR is NAME/VERSION, copied as it was published
//! DIR/NAME           all in one folder, as in a job's sandbox
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use gular_files::MAX_RENAMES;

use crate::manifest::DATA_DIR;
use crate::{FileEntry, Manifest, ShardEntry, Split};

/// Returns the folder with the shards and indexes of the bundle in `dir`: the first folder that has
/// the first shard of a split, or its index; `DIR/data` if there is none.
#[must_use]
pub fn data_folder(dir: &Path, manifest: &Manifest) -> PathBuf {
    let own = dir.join(DATA_DIR);
    // Not every shard is looked for, since a folder may lack whole splits, and a manifest may list
    // 100,000 shards.
    let first = |split| manifest.of_split(split).next();
    let files: Vec<&FileEntry> =
        Split::ALL.into_iter().filter_map(first).flat_map(ShardEntry::files).collect();
    let holds = |folder: &Path| {
        let is_there = |file: &&FileEntry| {
            [folder.join(file.name.as_str()), renamed(folder, file, 1)].iter().any(|p| p.is_file())
        };
        files.iter().any(is_there)
    };
    let shared = dir.parent().map(|name| name.join(DATA_DIR));
    let folders = [Some(own.clone()), shared, Some(dir.to_owned())];
    folders.into_iter().flatten().find(|folder| holds(folder)).unwrap_or(own)
}

/// Returns the file in `folder` with the bytes of `file`: the one with its name, or the first with
/// a replacement name that has the right length; the path with its own name if there is none.
#[must_use]
pub fn stored_file(folder: &Path, file: &FileEntry) -> PathBuf {
    let path = folder.join(file.name.as_str());
    let len = |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|m| m.len());
    if len(&path) == Some(file.bytes) {
        return path;
    }
    for number in 1..=MAX_RENAMES {
        let other = renamed(folder, file, number);
        match len(&other) {
            Some(found) if found == file.bytes => return other,
            Some(_) => {}
            // Replacement names are used in order, so there is none after this one.
            None => break,
        }
    }
    path
}

fn renamed(folder: &Path, file: &FileEntry, number: u32) -> PathBuf {
    folder.join(format!("{}~{number}", file.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BundlePath, Digest};

    #[test]
    fn a_burned_name_is_passed_over_for_the_next_of_the_right_length() {
        let dir = tempfile::tempdir().unwrap();
        let name = BundlePath::parse("train-0.tar").unwrap();
        let file = FileEntry { name, bytes: 5, digest: Digest::of(b"") };
        let check = |expected: &str| {
            assert_eq!(stored_file(dir.path(), &file), dir.path().join(expected));
        };
        let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
        check("train-0.tar");
        write("train-0.tar", b"cut");
        check("train-0.tar");
        write("train-0.tar~2", b"whole");
        check("train-0.tar");
        write("train-0.tar~1", b"cu");
        check("train-0.tar~2");
        write("train-0.tar~1", b"whole");
        check("train-0.tar~1");
        // The broken object is removed.
        fs::remove_file(dir.path().join("train-0.tar")).unwrap();
        check("train-0.tar~1");
        write("train-0.tar", b"whole");
        check("train-0.tar");
    }
}
