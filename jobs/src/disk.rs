//! The files on this machine that a job's files name.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Longer files are not texts that people wrote.
const MAX_TEXT_BYTES: u64 = 4 << 20;

/// The files that checks look at; in tests a map.
pub trait Disk {
    /// Length of the file at `path`, if there is one.
    fn len(&self, path: &str) -> Option<u64>;
    /// Whether `path` is a folder.
    fn is_folder(&self, path: &str) -> bool;
    /// The text of the file at `path`, unless it is too long or no text.
    fn text(&self, path: &str) -> Option<String>;
    /// Names of the files in a folder, sorted; empty for the working one.
    fn list(&self, folder: &str) -> Vec<String>;
    /// Whether the file at `path` is executable.
    fn is_executable(&self, path: &str) -> bool;
    /// Whether there is anything at `path`.
    fn exists(&self, path: &str) -> bool {
        self.len(path).is_some() || self.is_folder(path)
    }
}

/// This machine's disk; relative paths are below a folder.
#[derive(Debug, Clone, Default)]
pub struct LocalDisk {
    /// The folder; empty for the working directory.
    pub folder: PathBuf,
}

impl LocalDisk {
    /// The empty path is the folder itself, as `./` is.
    fn at(&self, path: &str) -> PathBuf {
        self.folder.join(if path.is_empty() { "." } else { path })
    }
}

impl Disk for LocalDisk {
    fn len(&self, path: &str) -> Option<u64> {
        let found = fs::metadata(self.at(path)).ok()?;
        found.is_file().then_some(found.len())
    }

    fn is_folder(&self, path: &str) -> bool {
        fs::metadata(self.at(path)).is_ok_and(|found| found.is_dir())
    }

    fn is_executable(&self, path: &str) -> bool {
        fs::metadata(self.at(path)).is_ok_and(|found| found.permissions().mode() & 0o111 != 0)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.len(path).filter(|&len| len <= MAX_TEXT_BYTES)?;
        let mut bytes = Vec::new();
        let file = File::open(self.at(path)).ok()?;
        file.take(MAX_TEXT_BYTES).read_to_end(&mut bytes).ok()?;
        if bytes.contains(&0) {
            return None;
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.at(folder)) else { return Vec::new() };
        let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort();
        names
    }
}

/// `path` as seen from `folder`: absolute ones stay.
pub(crate) fn below(folder: &str, path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    if folder.is_empty() || path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", folder.trim_end_matches('/'))
    }
}

/// `path` without `.` and, as far as names stand before them, `..`.
pub(crate) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            (".", _) => {}
            ("..", Some(last)) if !matches!(*last, "" | "..") => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The folder that a file lies in, empty for none.
pub(crate) fn folder_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
        None => "",
    }
}

/// A folder and those above it, as far as its path names them.
pub(crate) fn above(folder: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(folder), |&folder| {
        (!matches!(folder, "" | "/")).then(|| folder_of(folder))
    })
}

/// The folder in which the user of `file` is when it is submitted: its own, or the one above it
/// from which one of the relative paths `names` is found.
pub(crate) fn start<'f, 'n>(
    file: &'f str,
    names: impl IntoIterator<Item = &'n str>,
    disk: &dyn Disk,
) -> &'f str {
    let own = folder_of(file);
    let mut found = None;
    for name in names.into_iter().filter(|name| !name.starts_with('/')) {
        if disk.exists(&below(own, name)) {
            return own;
        }
        let is_below = name.trim_start_matches("./").contains('/');
        if is_below && !name.starts_with(['$', '~']) && !name.starts_with("../") {
            let exists = |folder: &&str| disk.exists(&below(folder, name));
            found = found.or_else(|| above(own).find(exists));
        }
    }
    found.unwrap_or(own)
}

/// The first folder of an absolute path, if this machine does not have it: then the path is one of
/// another machine.
pub(crate) fn foreign<'p>(path: &'p str, disk: &dyn Disk) -> Option<&'p str> {
    let (first, _) = path.strip_prefix('/')?.split_once('/')?;
    let top = path.get(..=first.len())?;
    (!disk.is_folder(top)).then_some(top)
}

/// The last part of a path or URL.
pub(crate) fn base_name(path: &str) -> &str {
    let path = path.split(['?', '#']).next().unwrap_or(path).trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Files by path.
    #[derive(Debug, Default, Clone)]
    pub(crate) struct Files(pub(crate) BTreeMap<String, String>);

    impl Files {
        pub(crate) fn of(files: &[(&str, &str)]) -> Self {
            Self(files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect())
        }
    }

    impl Disk for Files {
        fn len(&self, path: &str) -> Option<u64> {
            self.0.get(path).map(|text| text.len() as u64)
        }
        fn is_folder(&self, path: &str) -> bool {
            let inside = format!("{}/", path.trim_end_matches('/'));
            path == "." || path.is_empty() || self.0.keys().any(|name| name.starts_with(&inside))
        }
        fn is_executable(&self, path: &str) -> bool {
            self.0.get(path).is_some_and(|text| text.starts_with("#!"))
        }
        fn text(&self, path: &str) -> Option<String> {
            self.0.get(path).cloned()
        }
        fn list(&self, folder: &str) -> Vec<String> {
            self.0
                .keys()
                .filter(|path| folder_of(path) == folder)
                .map(|path| base_name(path).to_owned())
                .collect()
        }
    }

    #[test]
    fn the_working_folder_exists() {
        for path in [".", "./", ""] {
            assert!(LocalDisk::default().exists(&below("", path)), "{path:?}");
        }
    }

    #[test]
    fn paths_are_joined_and_cut() {
        assert_eq!(below("a/", "./b"), "a/b");
        assert_eq!(below("", "b"), "b");
        assert_eq!(below("a", "/b"), "/b");
        assert_eq!(normal("a/./b/../../c/"), "c/");
        assert_eq!([normal("../a"), normal("/a/../b"), normal("x")], ["../a", "/b", "x"]);
        assert_eq!([folder_of("a/b"), folder_of("a"), folder_of("/a")], ["a", "", "/"]);
        assert_eq!(base_name("osdf:///x/y.tar?pack=auto"), "y.tar");
        assert_eq!(base_name("out/"), "out");
    }
}
