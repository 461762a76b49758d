//! The folders in which a copy may be made.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gular_files::Env;

use super::folder::Folder;
use super::measured_space::MeasuredSpace;
use super::need::Need;
use super::options::StageOptions;
use super::source::Source;
use crate::Error;

/// A folder to stage to.
pub(super) struct Base {
    /// Absolute path of the folder, since the command may run elsewhere.
    pub(super) path: PathBuf,
    /// The folder of copies in this folder.
    pub(super) folder: Folder,
}

impl Base {
    /// Returns whether a new copy is made here: in the last folder if it fits, else that is an
    /// error; in the others only if it leaves most of the space free.
    pub(super) fn takes(
        is_last: bool,
        space: &MeasuredSpace,
        need: Need,
        reserved: u64,
    ) -> Result<bool, Error> {
        match is_last {
            true => space.check(need, reserved).map(|()| true),
            false => Ok(space.is_ample(need, reserved)),
        }
    }
}

/// Returns the folders to try, best first, at least one; if there are several, the last one must
/// exist.
pub(super) fn bases(
    source: &Source,
    options: &StageOptions,
    env: &Env,
) -> Result<Vec<Base>, Error> {
    let folders = options.to.folders(env, &options.root);
    let mut bases: Vec<Base> = Vec::new();
    for (i, dir) in folders.iter().enumerate() {
        let is_last = i + 1 == folders.len();
        match fs::canonicalize(dir) {
            Ok(path) if path.is_dir() => {
                match source.check_apart(&path) {
                    Err(e) if is_last && bases.is_empty() => return Err(e),
                    Err(_) => continue,
                    Ok(()) => {}
                }
                // Two names of one folder are one entry, since the folder has one gate.
                bases.retain(|base| !is_same(&base.path, &path));
                let folder = Folder::below(&path);
                bases.push(Base { path, folder });
            }
            _ if !is_last => {}
            Ok(_) => return Err(no_base(dir, "it is not a folder".into())),
            Err(e) => return Err(no_base(dir, e.to_string())),
        }
    }
    Ok(bases)
}

fn is_same(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    id(a).is_some() && id(a) == id(b)
}

pub(super) fn no_base(dir: &Path, reason: String) -> Error {
    Error::Target { dir: dir.display().to_string(), reason }
}
