//! What must be true at the end: equal bytes, no temporary files, no token.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};

/// The beginning of the names of temporary files.
use gular_files::TEMP_PREFIX;

/// Returns the files below `dir`, by their paths in it.
fn files(dir: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(dir)?.to_owned());
            }
        }
    }
    Ok(found)
}

/// Returns how the files below `copy` differ from those below `original`, one line each.
/// Temporary files are looked for elsewhere.
pub(super) fn differences(copy: &Path, original: &Path) -> Result<Vec<String>> {
    if !copy.is_dir() {
        return Ok(vec![format!("`{}` does not exist", copy.display())]);
    }
    let (mut here, there) = (files(copy)?, files(original)?);
    here.retain(|path| !is_temporary(path));
    let mut found = Vec::new();
    for name in here.union(&there) {
        let path = copy.join(name);
        if !here.contains(name) {
            found.push(format!("`{}` is missing", path.display()));
        } else if !there.contains(name) {
            found.push(format!("`{}` should not exist", path.display()));
        } else if fs::read(&path)? != fs::read(original.join(name))? {
            found.push(format!("`{}` has other bytes", path.display()));
        }
    }
    Ok(found)
}

/// Returns the temporary files below `dir`.
pub(super) fn temporaries(dir: &Path) -> Result<Vec<String>> {
    let left = files(dir)?.into_iter().filter(|path| is_temporary(path));
    Ok(left.map(|path| format!("`{}` was left behind", dir.join(path).display())).collect())
}

/// Lets the temporary files below `dir` look as if they were written an hour ago.
pub(super) fn make_old(dir: &Path) -> Result<()> {
    for path in files(dir)?.into_iter().filter(|path| is_temporary(path)) {
        let file = fs::File::options().write(true).open(dir.join(path))?;
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))?;
    }
    Ok(())
}

/// Returns the files below `dir`, which should have none.
pub(super) fn any(dir: &Path) -> Result<Vec<String>> {
    let left = files(dir)?.into_iter();
    Ok(left.map(|path| format!("`{}` was left behind", dir.join(path).display())).collect())
}

fn is_temporary(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().to_string_lossy().starts_with(TEMP_PREFIX))
}

/// Returns the files below `dir` that contain a secret part of `token`.
pub(super) fn with_token(dir: &Path, token: &str) -> Result<Vec<String>> {
    // The claims and the signature; the header is the same in all tokens.
    let secrets: Vec<&str> = token.split('.').skip(1).collect();
    let mut found = Vec::new();
    for name in files(dir)? {
        let path = dir.join(name);
        let bytes = fs::read(&path)?;
        if secrets.iter().any(|secret| contains(&bytes, secret.as_bytes())) {
            // The text is not shown, since it would be in another log.
            found.push(format!("`{}` has the token", path.display()));
        }
    }
    Ok(found)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    // Shorter parts would be found by chance.
    part.len() >= 16 && memchr::memmem::find(bytes, part).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_temporaries_and_tokens_are_found() {
        let root = tempfile::tempdir().unwrap();
        let (a, b) = (root.path().join("a"), root.path().join("b"));
        for dir in [&a, &b] {
            fs::create_dir_all(dir.join("c")).unwrap();
            fs::write(dir.join("c/same"), b"same").unwrap();
        }
        assert_eq!(differences(&a, &b).unwrap(), [""; 0]);
        fs::write(a.join("c/other"), b"1").unwrap();
        fs::write(b.join("c/other"), b"2").unwrap();
        fs::write(a.join("more"), b"").unwrap();
        fs::write(b.join("less"), b"").unwrap();
        fs::write(a.join(format!("c/{TEMP_PREFIX}x")), b"").unwrap();
        let found = differences(&a, &b).unwrap().join("\n");
        for part in ["c/other` has other bytes", "more` should not exist", "less` is missing"] {
            assert!(found.contains(part), "{found}");
        }
        assert_eq!(found.lines().count(), 3, "{found}");
        assert_eq!(temporaries(&a).unwrap().len(), 1);
        assert_eq!(temporaries(&b).unwrap(), [""; 0]);
        let token = "head.claims-claims-claims.signature-signature";
        fs::write(b.join("log"), "x signature-signature y").unwrap();
        assert_eq!(with_token(&b, token).unwrap().len(), 1);
        assert_eq!(with_token(&a, token).unwrap(), [""; 0]);
    }
}
