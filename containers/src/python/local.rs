//! Wheels on this machine, named by their paths.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::Interpreter;
use super::tags::WheelName;
use crate::package::file_name;
use crate::{Error, Package, Result, Sha256};

/// Begins the URL of a wheel that is beside the recipe.
const HERE: &str = "./";

/// How many files of a folder an error names.
const SHOWN: usize = 8;

/// The path of a package that is on no server; `dir` is the recipe's folder.
pub(crate) fn local_path(package: &Package, dir: &Path) -> Option<PathBuf> {
    let path = package.urls.first()?.strip_prefix(HERE)?;
    Some(dir.join(path))
}

/// Finds the files that a recipe's path means, by name: in the last part of the path, a `*` stands
/// for any characters, such as a version that each build changes, and a `?` for one.
///
/// # Errors
/// [`Error::Requirements`] when a pattern matches no file; [`Error::Io`].
pub(super) fn find(path: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    let pattern = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !pattern.contains(['*', '?']) {
        return Ok(vec![path.to_owned()]);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let here = dir.join(folder);
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(&here).map_err(Error::io("read", &here))? {
        let entry = entry.map_err(Error::io("read", &here))?.file_name();
        let Some(entry) = entry.to_str() else { continue };
        match matches(&pattern, entry) {
            true => found.push(folder.join(entry)),
            false => others.push(format!("`{entry}`")),
        }
    }
    found.sort();
    others.sort();
    if !found.is_empty() {
        return Ok(found);
    }
    let shown = match folder.as_os_str().is_empty() {
        true => "the recipe's folder".to_owned(),
        false => format!("`{}`", folder.display()),
    };
    let hint = match others.len() {
        0 => {
            format!("{shown} is empty: build the wheel first, for example with `uv build --wheel`")
        }
        count => {
            others.truncate(SHOWN);
            let more = count - others.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{shown} has {}{more}", others.join(", "))
        }
    };
    let reason = "no file has a name like this".to_owned();
    Err(Error::Requirements { path: path.display().to_string(), reason, hint: Some(hint) })
}

/// Whether a name matches a pattern with `*` and `?`.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of_name) = (0, 0);
    // Where the last `*` is, and how much of the name it stands for.
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = name.get(of_name) {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of_name));
                at += 1;
            }
            Some(p) if *p == '?' || p == c => {
                at += 1;
                of_name += 1;
            }
            _ => match star {
                Some((place, end)) => {
                    star = Some((place, end + 1));
                    at = place + 1;
                    of_name = end + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|c| *c == '*')
}

/// The wheels that recipes and requirements name by their paths. Of several files of one package,
/// the one that suits the image is taken.
///
/// # Errors
/// [`Error::Requirements`] for a file that is not a wheel, or does not suit the image; and if two
/// suit it equally well. [`Error::Io`].
pub(super) fn packages<'p>(
    paths: impl Iterator<Item = &'p Path>,
    dir: &Path,
    interpreter: &Interpreter,
) -> Result<Vec<Package>> {
    let mut named: BTreeMap<String, (WheelName, PathBuf)> = BTreeMap::new();
    for path in paths {
        let (mut unfit, mut some) = (None, false);
        for path in find(path, dir)? {
            let name = wheel_name(&path, dir)?;
            let Some(rank) = name.rank(interpreter) else {
                unfit = Some(path);
                continue;
            };
            some = true;
            match named.get(&name.name) {
                Some((_, there)) if *there == path => continue,
                Some((other, there))
                    if other.rank(interpreter) == Some(rank) || other.version != name.version =>
                {
                    let reason = format!(
                        "it is a wheel of `{}`, and so is `{}`: expected one",
                        name.name,
                        there.display()
                    );
                    let hint = format!("write the full name of one, such as `{}`", path.display());
                    let path = path.display().to_string();
                    return Err(Error::Requirements { path, reason, hint: Some(hint) });
                }
                Some((other, _)) if other.rank(interpreter) > Some(rank) => {}
                _ => drop(named.insert(name.name.clone(), (name, path))),
            }
        }
        if let Some(path) = unfit.filter(|_| !some) {
            let reason = format!("this wheel is not for {}", interpreter.shown());
            let hint = format!(
                "build it with Python {}, or choose a `[base]` whose Python it is for",
                interpreter.short()
            );
            let path = path.display().to_string();
            return Err(Error::Requirements { path, reason, hint: Some(hint) });
        }
    }
    named.into_values().map(|(name, path)| package(&name, &path, dir)).collect()
}

fn package(name: &WheelName, path: &Path, dir: &Path) -> Result<Package> {
    let here = dir.join(path);
    let bytes = std::fs::metadata(&here).map_err(Error::io("read", &here))?.len();
    Ok(Package {
        name: name.name.clone(),
        version: name.version.to_string(),
        arch: None,
        bytes,
        sha256: Sha256::of_file(&here)?,
        urls: vec![format!("{HERE}{}", path.display())],
        license: None,
    })
}

/// Reads a wheel's name, and whether the file can be one.
fn wheel_name(path: &Path, dir: &Path) -> Result<WheelName> {
    let shown = path.display().to_string();
    let wrong = |reason: &str, hint: String| Error::Requirements {
        path: shown.clone(),
        reason: reason.to_owned(),
        hint: Some(hint),
    };
    let file = file_name(&format!("{HERE}{shown}")).unwrap_or_default();
    let Some(name) = WheelName::parse(&file) else {
        return Err(match () {
            () if file.ends_with(".tar.gz") || file.ends_with(".zip") => wrong(
                "this is an archive with sources, not a wheel",
                format!("build its wheel with `pip wheel --no-deps {shown}`, and give that file"),
            ),
            () if file.ends_with(".whl") => wrong(
                "its name is not that of a wheel",
                "expected a name such as `mine-1.0-py3-none-any.whl`: do not rename wheels"
                    .to_owned(),
            ),
            () if dir.join(path).is_dir() => wrong(
                "this is a folder, not a wheel",
                format!(
                    "build its wheel with `uv build --wheel {shown}`; all wheels of a folder are `{shown}/*.whl`"
                ),
            ),
            () => wrong(
                "this is not a wheel",
                format!(
                    "if it is a list of packages, write `requirements = \"{shown}\"` in `[python]`"
                ),
            ),
        });
    };
    let here = dir.join(path);
    let mut file = std::fs::File::open(&here).map_err(Error::io("read", &here))?;
    let mut start = [0; 2];
    match file.read_exact(&mut start) {
        // The magic of ZIP archives.
        Ok(()) if start == *b"PK" => Ok(name),
        _ => Err(wrong(
            "it has the name of a wheel, but is not a ZIP archive",
            "fetch or build it again: a failed download may have left a page, or git a pointer to the file".to_owned(),
        )),
    }
}

/// A path from the recipe's folder, of an absolute one.
pub(super) fn from_dir(path: &Path, dir: &Path) -> Option<String> {
    let base = std::path::absolute(dir).ok()?;
    let (mut up, mut at) = (0, base.as_path());
    loop {
        if let Ok(rest) = path.strip_prefix(at) {
            return Some(format!("{HERE}{}{}", "../".repeat(up), rest.display()));
        }
        (up, at) = (up + 1, at.parent()?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_a_shell_matches_them() {
        for (pattern, yes, no) in [
            ("*cp311*.whl", "a-1-cp311-cp311-linux_x86_64.whl", "a-1-cp312-cp312-linux_x86_64.whl"),
            ("a-?.whl", "a-1.whl", "a-10.whl"),
            ("*", "", "/"),
            ("a*b*c", "aXbbYc", "aXcYb"),
            ("a-*.whl", "a-.whl", "b-.whl"),
            ("*é?", "éé1", "é"),
        ] {
            assert!(matches(pattern, yes), "{pattern} {yes}");
            assert!(no == "/" || !matches(pattern, no), "{pattern} {no}");
        }
    }

    #[test]
    fn paths_start_from_the_recipe() {
        let dir = Path::new("/a/b");
        for (path, expected) in
            [("/a/b/c.whl", "./c.whl"), ("/a/c.whl", "./../c.whl"), ("/x/c.whl", "./../../x/c.whl")]
        {
            assert_eq!(from_dir(Path::new(path), dir).as_deref(), Some(expected));
        }
    }
}
