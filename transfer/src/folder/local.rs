//! The files of a local folder.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gular_files::TEMP_PREFIX;
use gular_pelican::Url;

use super::MAX_DEPTH;
use super::failures::Failed;
use super::listed_objects::{at, join};
use crate::watch::check;
use crate::{Error, Watch};

/// A local file, and the name that it is published under.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct File {
    /// Path of the file below the folder.
    pub(super) name: String,
    pub(super) len_bytes: u64,
}

/// The files of a folder, and entries that are not files.
#[derive(Debug, Default)]
pub(super) struct Local {
    pub(super) files: Vec<File>,
    pub(super) failed: Vec<Failed>,
    pub(super) doubtful: Doubtful,
}

/// Files of a folder that its owner may not want to publish, such as hidden files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Doubtful {
    /// Files whose names, or those of folders above them, begin with a dot, such as `.env`.
    pub hidden: usize,
    /// Links that lead out of the folder.
    pub links_out: usize,
}

/// Finds all regular files below `dir`, links followed, as objects below `url`.
///
/// # Errors
/// When `dir` itself cannot be read; [`Error::TooMany`]; when it is cancelled.
pub(super) fn files(
    dir: &Path,
    url: &Url,
    max_objects: usize,
    watch: Watch<'_>,
) -> Result<Local, Error> {
    let open = |e| Error::io("open", dir, e);
    let real = fs::canonicalize(dir).map_err(open)?;
    let (left, found) = (max_objects, Local::default());
    let mut walk = Walk { dir, real: &real, url, watch, left, max_objects, found };
    let root = fs::metadata(dir).map_err(open)?;
    let names = names(dir).map_err(|e| Error::io("list", dir, e))?;
    walk.entries("", names, &mut vec![(root.dev(), root.ino())])?;
    Ok(walk.found)
}

struct Walk<'a> {
    dir: &'a Path,
    /// The real path of `dir`, with links resolved.
    real: &'a Path,
    url: &'a Url,
    watch: Watch<'a>,
    /// The number of further files and folders that are allowed.
    left: usize,
    max_objects: usize,
    found: Local,
}

impl Walk<'_> {
    /// Adds the contents of `folder`. `above` is this folder and all folders above it, which a link
    /// could lead back to.
    fn entries(
        &mut self,
        folder: &str,
        entries: Vec<(OsString, bool)>,
        above: &mut Vec<(u64, u64)>,
    ) -> Result<(), Error> {
        for (entry, is_link) in entries {
            check(self.watch)?;
            if entry.to_string_lossy().starts_with(TEMP_PREFIX) {
                continue;
            }
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                let place = self.dir.display().to_string();
                Error::TooMany { place, limit: self.max_objects }
            })?;
            let shown = join(folder, &entry.to_string_lossy());
            let name = entry.to_str().map(|entry| join(folder, entry));
            let Some(name) = name.filter(|name| at(self.url, name).is_some()) else {
                self.fail(&shown, Error::ObjectName { name: shown.clone() });
                continue;
            };
            let path = self.dir.join(&name);
            match fs::metadata(&path) {
                Ok(found) if found.is_file() => {
                    self.doubt(&name, &path, is_link);
                    self.found.files.push(File { name, len_bytes: found.len() });
                }
                Ok(found) if found.is_dir() => {
                    let id = (found.dev(), found.ino());
                    if above.contains(&id) || above.len() > MAX_DEPTH {
                        let place = path.display().to_string();
                        self.fail(&name, Error::TooDeep { place, limit: MAX_DEPTH });
                        continue;
                    }
                    match names(&path) {
                        Ok(entries) => {
                            self.doubt("", &path, is_link);
                            above.push(id);
                            self.entries(&name, entries, above)?;
                            above.pop();
                        }
                        Err(e) => self.fail(&name, Error::io("list", &path, e)),
                    }
                }
                Ok(_) => {
                    let e = std::io::Error::other("it is neither a file nor a folder");
                    self.fail(&name, Error::io("publish", &path, e));
                }
                Err(e) => self.fail(&name, Error::io("look at", &path, e)),
            }
        }
        Ok(())
    }

    /// Counts the file `name`, and a link at `path`, if the owner may not want to publish them.
    fn doubt(&mut self, name: &str, path: &Path, is_link: bool) {
        let doubtful = &mut self.found.doubtful;
        doubtful.hidden += usize::from(name.split('/').any(|part| part.starts_with('.')));
        let leads_out = || fs::canonicalize(path).is_ok_and(|to| !to.starts_with(self.real));
        doubtful.links_out += usize::from(is_link && leads_out());
    }

    fn fail(&mut self, name: &str, error: Error) {
        self.found.failed.push(Failed { name: name.to_owned(), error });
    }
}

/// Returns the names in a folder, and which of them are links.
fn names(dir: &Path) -> std::io::Result<Vec<(OsString, bool)>> {
    let mut names = fs::read_dir(dir)?
        .map(|entry| entry.and_then(|e| Ok((e.file_name(), e.file_type()?.is_symlink()))))
        .collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Returns the folders of all files, by their paths below the root.
pub(super) fn folders(files: &[File]) -> std::collections::BTreeSet<PathBuf> {
    let above = |file: &File| -> Vec<PathBuf> {
        Path::new(&file.name).ancestors().skip(1).map(Path::to_owned).collect()
    };
    files.iter().flat_map(above).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn found(dir: &Path, most: usize) -> Result<(Vec<String>, Vec<String>), Error> {
        let cancel = AtomicBool::new(false);
        let url = Url::parse("file:///to").unwrap();
        let Local { files, failed, .. } = files(dir, &url, most, Watch::silent(&cancel))?;
        let names = files.into_iter().map(|file| file.name).collect();
        Ok((names, failed.into_iter().map(|failed| failed.name).collect()))
    }

    #[test]
    fn files_are_found_and_what_no_object_can_be_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        for name in ["a/b/2", "a/1", ".hidden", "what?", ".gular-tmp-fetch-x"] {
            fs::write(at(name), name).unwrap();
        }
        symlink("a/1", at("link")).unwrap();
        symlink("..", at("a/b/up")).unwrap();
        symlink("nothing", at("broken")).unwrap();
        let (names, failed) = found(dir.path(), 100).unwrap();
        assert_eq!(names, [".hidden", "a/1", "a/b/2", "link"]);
        assert_eq!(failed, ["a/b/up", "broken", "what?"]);
        assert!(matches!(found(dir.path(), 5), Err(Error::TooMany { .. })));
        assert!(matches!(found(&at("none"), 5), Err(Error::Io(_))));
    }

    #[test]
    fn what_may_not_be_meant_is_counted() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at(".git/a")).unwrap();
        fs::create_dir_all(other.path().join("folder")).unwrap();
        for name in [".env", ".git/a/1", ".git/.2", "3"] {
            fs::write(at(name), name).unwrap();
        }
        fs::write(other.path().join("folder/secret"), "secret").unwrap();
        symlink("3", at("inside")).unwrap();
        symlink(other.path().join("folder"), at("out")).unwrap();
        symlink(other.path().join("folder/secret"), at("secret")).unwrap();
        let cancel = AtomicBool::new(false);
        let url = Url::parse("file:///to").unwrap();
        let found = files(dir.path(), &url, 100, Watch::silent(&cancel)).unwrap();
        assert_eq!(found.doubtful, Doubtful { hidden: 3, links_out: 2 });
        assert_eq!(found.files.len(), 7);
    }

    #[test]
    fn every_folder_above_a_file_is_one() {
        let file = |name: &str| File { name: name.to_owned(), len_bytes: 0 };
        let all = folders(&[file("a/b/1"), file("a/c/2"), file("3")]);
        let all: Vec<&str> = all.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(all, ["", "a", "a/b", "a/c"]);
    }
}
