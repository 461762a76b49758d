//! The Markdown files of the project.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Every Markdown file below `root`, sorted, relative to it. Folders that programs fill are left
/// out: hidden ones, cargo's, Python's environments.
///
/// # Errors
/// When a folder cannot be listed.
pub(crate) fn markdown(root: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list `{}`", folder.display()))?;
            let (path, name) = (entry.path(), entry.file_name());
            let hidden = name.to_string_lossy().starts_with('.');
            let filled = ["CACHEDIR.TAG", "pyvenv.cfg"].iter().any(|mark| path.join(mark).exists());
            if hidden || filled || name == "target" {
                continue;
            }
            let kind =
                entry.file_type().with_context(|| format!("cannot list `{}`", folder.display()))?;
            if kind.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.strip_prefix(root).unwrap_or(&path).to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The path, below the root, of the link `target` on the page `page`; `None` if it leaves the
/// project.
pub(crate) fn resolved(page: &Path, target: &str) -> Option<PathBuf> {
    if target.is_empty() {
        return Some(page.to_owned());
    }
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if !path.pop() {
                    return None;
                }
            }
            name => path.push(name),
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_from_their_page() {
        let check = |target: &str, expected: Option<&str>| {
            assert_eq!(
                resolved(Path::new("docs/a.md"), target),
                expected.map(PathBuf::from),
                "{target}"
            );
        };
        check("", Some("docs/a.md"));
        check("b.md", Some("docs/b.md"));
        check("../README.md", Some("README.md"));
        check("bench/", Some("docs/bench"));
        check("../../x", None);
    }
}
