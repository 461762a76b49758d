//! Wheels on this machine, named by their paths.

use std::path::{Path, PathBuf};

use super::Interpreter;
use super::tags::WheelName;
use crate::package::file_name;
use crate::{Error, Package, Result, Sha256};

/// Begins the URL of a wheel that is beside the recipe.
const HERE: &str = "./";

/// The path of a package that is on no server; `dir` is the recipe's folder.
pub(crate) fn local_path(package: &Package, dir: &Path) -> Option<PathBuf> {
    let path = package.urls.first()?.strip_prefix(HERE)?;
    Some(dir.join(path))
}

/// Finds the one file that a recipe's path means: a `*` in its name stands for any characters, such
/// as a version that each build changes.
///
/// # Errors
/// [`Error::Wheel`] when the path matches no file, or several; [`Error::Io`].
pub(super) fn find(path: &Path, dir: &Path) -> Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some((start, end)) = name.split_once('*') else { return Ok(path.to_owned()) };
    let folder = path.parent().unwrap_or(Path::new(""));
    let here = dir.join(folder);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&here).map_err(Error::io("read", &here))? {
        let entry = entry.map_err(Error::io("read", &here))?.file_name();
        let Some(entry) = entry.to_str() else { continue };
        let fits = entry.strip_prefix(start).is_some_and(|rest| rest.ends_with(end));
        found.extend(fits.then(|| folder.join(entry)));
    }
    found.sort();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        other => {
            let reason = format!("{} files match this name, expected one", other.len());
            let hint = other
                .last()
                .map(|last| format!("write the full name of one, such as `{}`", last.display()));
            Err(Error::Wheel { name: path.display().to_string(), reason, hint })
        }
    }
}

/// A wheel that a recipe names by its path.
///
/// # Errors
/// [`Error::Wheel`] for one that does not fit the image, [`Error::Io`].
pub(super) fn package(path: &Path, dir: &Path, interpreter: &Interpreter) -> Result<Package> {
    let path = &find(path, dir)?;
    let shown = path.display().to_string();
    let wrong = |reason: String| Error::Wheel { name: shown.clone(), reason, hint: None };
    let url = format!("{HERE}{shown}");
    let name = file_name(&url).and_then(|file| WheelName::parse(&file));
    let name = name.ok_or_else(|| wrong("this is not a wheel's name".to_owned()))?;
    if name.rank(interpreter).is_none() {
        return Err(wrong(format!("the wheel is not for {}", interpreter.shown())));
    }
    let here = dir.join(path);
    let bytes = std::fs::metadata(&here).map_err(Error::io("read", &here))?.len();
    Ok(Package {
        name: name.name,
        version: name.version.to_string(),
        arch: None,
        bytes,
        sha256: Sha256::of_file(&here)?,
        urls: vec![url],
        license: None,
    })
}
