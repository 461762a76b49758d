//! The files next to the program and the wheel: changelog, licences, and the checksums of all
//! files.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The list of files and digests, in the format of `sha256sum`.
pub(super) const SUMS: &str = "SHA256SUMS";
/// Files that are copied unchanged.
const COPIED: [&str; 3] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Checks that the changelog has an entry for this version.
///
/// # Errors
/// If it has none.
pub(super) fn check_changelog(root: &Path) -> Result<()> {
    let path = root.join("CHANGELOG.md");
    let text = fs::read_to_string(&path).with_context(|| cannot("read", &path))?;
    let version = env!("CARGO_PKG_VERSION");
    ensure!(tells_of(&text, version), "`{}` has no heading `## {version}`", path.display());
    Ok(())
}

fn tells_of(changelog: &str, version: &str) -> bool {
    let headings = changelog.lines().filter_map(|line| line.strip_prefix("## "));
    headings.map(|heading| heading.split([' ', ',']).next()).any(|first| first == Some(version))
}

/// Removes from `out` what an earlier run listed there, such as the wheel of another version.
///
/// # Errors
/// When a file cannot be removed.
pub(super) fn forget_earlier(out: &Path) -> Result<()> {
    let Ok(list) = fs::read_to_string(out.join(SUMS)) else { return Ok(()) };
    for name in list.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| name) {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        let path = out.join(name);
        if inside && path.is_file() {
            fs::remove_file(&path).with_context(|| cannot("remove", &path))?;
            // Folders that are empty now are removed, too; others cannot be removed.
            let _ = path
                .ancestors()
                .skip(1)
                .take_while(|folder| *folder != out)
                .try_for_each(fs::remove_dir);
        }
    }
    fs::remove_file(out.join(SUMS)).with_context(|| cannot("remove", &out.join(SUMS)))
}

/// Copies changelog and licences to `out`.
///
/// # Errors
/// When one cannot be copied.
pub(super) fn copy(root: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    let copied = COPIED.map(|name| {
        let to = out.join(name);
        fs::copy(root.join(name), &to).with_context(|| cannot("write", &to))?;
        Ok(to)
    });
    copied.into_iter().collect()
}

/// Every file below `folder`, sorted.
///
/// # Errors
/// When a folder cannot be listed.
pub(super) fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| cannot("list", &folder))? {
            let path = entry.with_context(|| cannot("list", &folder))?.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

fn cannot(what: &str, path: &Path) -> String {
    format!("cannot {what} `{}`", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changelog_tells_of_a_version_by_its_heading() {
        let text = "# Changelog\n\n## 0.1.0, unreleased\n\n- Of 0.2.0.\n";
        assert!(tells_of(text, "0.1.0") && !tells_of(text, "0.2.0") && !tells_of(text, "0.1"));
        check_changelog(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap();
    }

    #[test]
    fn what_an_earlier_run_listed_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (out, kept) = (dir.path().join("out"), dir.path().join("kept"));
        fs::create_dir_all(out.join("share")).unwrap();
        for path in [out.join("old.whl"), out.join("share/a.1"), out.join("mine"), kept.clone()] {
            fs::write(path, "x").unwrap();
        }
        forget_earlier(&out).unwrap();
        fs::write(out.join(SUMS), "00  old.whl\n00  share/a.1\n00  ../kept\n00  gone\n").unwrap();
        forget_earlier(&out).unwrap();
        assert_eq!(files_below(&out).unwrap(), [out.join("mine")]);
        assert!(kept.is_file() && !out.join("share").exists());
    }
}
