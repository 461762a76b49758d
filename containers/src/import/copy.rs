//! Where the files of COPY and `%files` are, here and in the image.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Files of this machine by their paths in the image.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// Absolute path in the image, path from the context; both without `/` at their ends.
    files: BTreeMap<String, String>,
    /// Folders that are known to be in the image.
    folders: BTreeSet<String>,
}

/// A source that matches nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoFile(pub(super) String);

/// Folders that every image of a Linux distribution has (Filesystem Hierarchy Standard 3.0).
const FOLDERS: [&str; 25] = [
    "/bin",
    "/etc",
    "/home",
    "/lib",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/etc",
    "/usr/local/lib",
    "/usr/local/sbin",
    "/usr/local/share",
    "/usr/local/src",
    "/usr/share",
    "/usr/src",
    "/var",
];

/// Most files that one pattern may name.
const MAX_MATCHES: usize = 10_000;

impl Copied {
    /// Notes that a folder is in the image.
    pub(super) fn folder(&mut self, path: &str) {
        self.folders.insert(path.trim_end_matches('/').to_owned());
    }

    /// Notes a file that a command sees, but the image does not have.
    pub(super) fn mount(&mut self, inside: &str, here: &str) {
        self.files.insert(inside.to_owned(), normal(here, false));
    }

    /// Adds what is copied, and returns it: path in the image, path from the context. Apptainer
    /// copies a folder under its own name into a folder that has a `/` at its end. The error is a
    /// source that matches nothing.
    pub(super) fn copy(
        &mut self,
        sources: &[String],
        dest: &str,
        context: &Path,
        is_apptainer: bool,
    ) -> Result<Vec<(String, String)>, NoFile> {
        let mut found = Vec::new();
        for source in sources {
            found.extend(
                matches(source, context, is_apptainer).ok_or_else(|| NoFile(source.clone()))?,
            );
        }
        let bare = dest.trim_end_matches('/');
        let is_folder = dest.ends_with('/')
            || bare.is_empty()
            || found.len() > 1
            || sources.len() > 1
            || self.folders.contains(bare)
            || FOLDERS.contains(&bare);
        let mut added = Vec::new();
        for here in found {
            let is_dir = context.join(&here).is_dir() || here.is_empty();
            let name = here.rsplit('/').next().unwrap_or_default();
            let within = is_folder && !name.is_empty() && (!is_dir || is_apptainer);
            let inside = if within { format!("{bare}/{name}") } else { bare.to_owned() };
            if is_dir {
                self.folder(&inside);
            }
            if let Some((parent, _)) = inside.rsplit_once('/') {
                self.folder(parent);
            }
            self.files.insert(inside.clone(), here.clone());
            added.push((inside, here));
        }
        Ok(added)
    }

    /// Whether files were copied to a folder, or are in one that was copied.
    pub(super) fn has_within(&self, folder: &str) -> bool {
        let within = format!("{}/", folder.trim_end_matches('/'));
        self.here(folder).is_some() || self.files.keys().any(|path| path.starts_with(&within))
    }

    /// The path from the context of a file in the image: one that was copied, or one in a folder
    /// that was copied.
    pub(super) fn here(&self, inside: &str) -> Option<String> {
        let mut above = inside;
        loop {
            if let Some(here) = self.files.get(above) {
                let rest = inside.get(above.len()..)?.trim_start_matches('/');
                return Some(match (here.as_str(), rest) {
                    ("", rest) => rest.to_owned(),
                    (here, "") => here.to_owned(),
                    (here, rest) => format!("{here}/{rest}"),
                });
            }
            above = above.rsplit_once('/')?.0;
        }
    }
}

/// A path from the context, without `./` and a `/` at its end; empty for the context itself.
/// Docker's paths start from the context even with a `/` and never leave it; those of Apptainer
/// (`of_machine`) may.
fn normal(path: &str, of_machine: bool) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if !of_machine => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let root = if of_machine && path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// The files that a source names; `None` for a pattern that matches none.
fn matches(source: &str, context: &Path, of_machine: bool) -> Option<Vec<String>> {
    let source = normal(source, of_machine);
    if !source.contains(['*', '?', '[']) {
        return Some(vec![source]);
    }
    let (mut found, rest) = match source.strip_prefix('/') {
        Some(rest) => (vec!["/".to_owned()], rest),
        None => (vec![String::new()], source.as_str()),
    };
    for part in rest.split('/') {
        let mut next = Vec::new();
        for dir in &found {
            let join = |name: &str| {
                let bare = dir.trim_end_matches('/');
                if dir.is_empty() { name.to_owned() } else { format!("{bare}/{name}") }
            };
            if !part.contains(['*', '?', '[']) {
                next.push(join(part));
                continue;
            }
            for entry in std::fs::read_dir(context.join(dir)).ok()?.flatten().take(MAX_MATCHES) {
                let name = entry.file_name();
                if let Some(name) = name.to_str().filter(|name| fits(part, name)) {
                    next.push(join(name));
                }
            }
        }
        next.sort();
        found = next;
    }
    found.retain(|path| context.join(path).exists());
    (!found.is_empty()).then_some(found)
}

/// Whether a name fits a pattern of `*` and `?`. (Sets in brackets fit nothing.)
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(p), name.get(n)) {
            (None, None) => return true,
            (Some('*'), _) => {
                back = Some((p + 1, n));
                p += 1;
            }
            (Some(a), Some(b)) if *a == '?' || a == b => {
                p += 1;
                n += 1;
            }
            _ => match back {
                Some((after, at)) if at < name.len() => {
                    back = Some((after, at + 1));
                    (p, n) = (after, at + 1);
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names() {
        for (pattern, name, expected) in [
            ("*.txt", "a.txt", true),
            ("*.txt", "a.txt.gz", false),
            ("requirements*.txt", "requirements-dev.txt", true),
            ("a?c", "abc", true),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xaxx", false),
            ("[ab]", "a", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn files_go_where_docker_puts_them() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        for name in ["a.txt", "b.txt", "src/x.py"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let check = |sources: &[&str], dest: &str, keeps: bool, expected: &[(&str, &str)]| {
            let mut copied = Copied::default();
            copied.folder("/work");
            let sources: Vec<String> = sources.iter().map(|s| (*s).to_owned()).collect();
            let added = copied.copy(&sources, dest, dir.path(), keeps).unwrap();
            let added: Vec<_> = added.iter().map(|(i, h)| (i.as_str(), h.as_str())).collect();
            assert_eq!(added, expected, "{sources:?} {dest}");
        };
        check(&["a.txt"], "/opt/", false, &[("/opt/a.txt", "a.txt")]);
        check(&["a.txt"], "/opt", false, &[("/opt/a.txt", "a.txt")]);
        check(&["src"], "/opt", true, &[("/opt/src", "src")]);
        check(&["a.txt"], "/opt/c", false, &[("/opt/c", "a.txt")]);
        check(&["./a.txt"], "/work", false, &[("/work/a.txt", "a.txt")]);
        check(&["*.txt"], "/opt", false, &[("/opt/a.txt", "a.txt"), ("/opt/b.txt", "b.txt")]);
        check(&["src"], "/opt/src", false, &[("/opt/src", "src")]);
        check(&["src/"], "/opt/", false, &[("/opt", "src")]);
        check(&["src"], "/opt/", true, &[("/opt/src", "src")]);
        check(&["."], "/work", false, &[("/work", "")]);
        check(&["../../a.txt"], "/opt/", false, &[("/opt/a.txt", "a.txt")]);
        check(&["src/../../*.txt"], "/o/", false, &[("/o/a.txt", "a.txt"), ("/o/b.txt", "b.txt")]);
        check(&["../a.txt"], "/opt/", true, &[("/opt/a.txt", "../a.txt")]);
        let mut copied = Copied::default();
        assert_eq!(
            copied.copy(&["*.md".to_owned()], "/", dir.path(), false),
            Err(NoFile("*.md".to_owned()))
        );
        copied.copy(&[".".to_owned()], "/work", dir.path(), false).unwrap();
        assert_eq!(copied.here("/work/src/x.py").as_deref(), Some("src/x.py"));
        assert_eq!(copied.here("/else"), None);
    }
}
