//! `pylock.toml` (PEP 751), as `uv export --format pylock.toml` and `pip lock` write it.

use std::path::Path;

use serde::Deserialize;

use super::pinned::{Listed, Pinned, Pins, Source, Wheels};
use super::requirements::below;
use super::wanted::{Indexes, NeededPython, Place, read_toml};
use crate::package::{file_name, is_file_name, names_a_user};
use crate::wheel::Marker;
use crate::{Error, Result, Sha256};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Text {
    lock_version: String,
    requires_python: Option<toml::Spanned<String>>,
    #[serde(default)]
    packages: Vec<Entry>,
}

/// Keys that decide nothing here are passed over: tools add their own.
#[derive(Deserialize)]
struct Entry {
    name: toml::Spanned<String>,
    version: Option<String>,
    marker: Option<String>,
    #[serde(default)]
    wheels: Vec<File>,
    sdist: Option<File>,
    archive: Option<File>,
    vcs: Option<Repository>,
    directory: Option<Directory>,
}

#[derive(Deserialize)]
struct File {
    name: Option<String>,
    url: Option<String>,
    path: Option<String>,
    size: Option<u64>,
    #[serde(default)]
    hashes: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Repository {
    #[serde(rename = "type")]
    kind: String,
    url: Option<String>,
    path: Option<String>,
    commit_id: String,
    subdirectory: Option<String>,
}

#[derive(Deserialize)]
struct Directory {
    path: String,
    subdirectory: Option<String>,
}

/// Reads a text; `path` names it in errors, and paths in it start from its folder. A package
/// of sources alone comes without wheels: whether it is needed is not known here.
///
/// # Errors
/// [`Error::Recipe`](crate::Error::Recipe) with the line, for what is not such a file.
pub(super) fn parse(text: &str, path: &str) -> Result<Pins> {
    let place = |at: usize| Place::at(path, text, at);
    let wrong = |at: usize, reason: String| place(at).wrong(reason, None);
    let read: Text = read_toml(text, path)?;
    if !read.lock_version.starts_with("1.") {
        let reason = format!("its lock version is {}, expected 1.0", read.lock_version);
        return Err(wrong(text.find("lock-version").unwrap_or(0), reason));
    }
    let python = match read.requires_python {
        Some(asked) => {
            let from = place(asked.span().start);
            Some(NeededPython::parse(asked.get_ref(), from)?)
        }
        None => None,
    };
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut pins = Pins { pinned: Vec::new(), indexes: Indexes::default(), python };
    for entry in read.packages {
        let at = entry.name.span().start;
        let name = place(at).name(entry.name.get_ref())?;
        let wrong = |reason: String| wrong(at, format!("package `{name}`: {reason}"));
        let marker = match entry.marker.as_deref() {
            Some(text) => match Marker::parse(text) {
                Some(marker) => Some(marker),
                None => return Err(wrong(format!("`{text}` is not a marker"))),
            },
            None => None,
        };
        let (mut wheels, mut source) = (Vec::new(), None);
        for file in entry.wheels.iter().chain(&entry.archive).chain(&entry.sdist) {
            let file = one(file, folder, &wrong)?;
            match file.file.ends_with(".whl") {
                true => wheels.push(file),
                false => source = Some(Source::Archive(file)),
            }
        }
        if let Some(Repository { kind, url, path, commit_id, subdirectory }) = entry.vcs {
            let url = url.or_else(|| path.map(|path| below(folder, &path)));
            let Some(url) = url.filter(|_| kind == "git") else {
                return Err(wrong(format!(
                    "it is in a repository of `{kind}`, and only `git` is known here"
                )));
            };
            if names_a_user(&url) {
                return Err(wrong(USER.to_owned()));
            }
            source = Some(Source::Git { url, commit: commit_id, inside: subdirectory });
        }
        if let Some(Directory { path, subdirectory }) = entry.directory {
            let path = Path::new(&path).join(subdirectory.unwrap_or_default());
            source = Some(Source::Folder(below(folder, &path.to_string_lossy())));
        }
        let known = entry.version.as_deref().and_then(|version| version.parse().ok());
        // An archive has its version in its name alone.
        let version = known.or_else(|| {
            wheels
                .iter()
                .find_map(|wheel| Some(super::tags::WheelName::parse(&wheel.file)?.version))
        });
        if version.is_none() && !wheels.is_empty() {
            return Err(wrong("it has no version".to_owned()));
        }
        let (wheels, from) = (Wheels::Listed(wheels), place(at));
        pins.pinned.push(Pinned { name, version, marker, wheels, source, from });
    }
    Ok(pins)
}

const USER: &str =
    "a URL has a user name or password before the host, which `image.lock` would reveal";

/// Reads a file of a package. Its path starts from `folder`; `wrong` makes errors about it.
fn one(file: &File, folder: &Path, wrong: &dyn Fn(String) -> Error) -> Result<Listed> {
    let inside = file.path.as_deref().map(|path| below(folder, path));
    let url = match (&file.url, inside) {
        (Some(url), _) => url.clone(),
        (None, Some(path)) => format!("./{path}"),
        (None, None) => return Err(wrong("a file has neither `url` nor `path`".to_owned())),
    };
    if url.contains("://") && names_a_user(&url) {
        return Err(wrong(USER.to_owned()));
    }
    let named = file.name.clone().filter(|name| is_file_name(name));
    let Some(name) = named.or_else(|| file_name(&url)) else {
        return Err(wrong(format!("`{url}` does not end in a file's name")));
    };
    let sha256 = match file.hashes.get("sha256") {
        Some(digits) => {
            let digest: Result<Sha256, _> = digits.parse();
            Some(digest.map_err(|error| wrong(format!("`{name}`: {error}")))?)
        }
        None => None,
    };
    Ok(Listed { file: name, url, sha256, bytes: file.size })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// A lock in the form of uv 0.9 and pip 25, with every key that matters here.
    fn lock() -> String {
        format!(
            "lock-version = \"1.0\"\ncreated-by = \"uv\"\nrequires-python = \">=3.11\"\n\n[[packages]]\nname = \"NumPy\"\nversion = \"2.3.4\"\nmarker = \"python_full_version >= '3.11'\"\nindex = \"https://index.example/simple\"\nsdist = {{ url = \"https://f.example/numpy-2.3.4.tar.gz\", hashes = {{ sha256 = \"{A}\" }} }}\nwheels = [\n    {{ url = \"https://f.example/numpy-2.3.4-cp311-cp311-manylinux_2_27_x86_64.whl\", upload-time = 2025-10-15T16:15:19Z, size = 77, hashes = {{ sha256 = \"{A}\" }} }},\n]\n\n[[packages]]\nname = \"mine\"\n[[packages.wheels]]\nname = \"mine-1-py3-none-any.whl\"\npath = \"dist/mine-1-py3-none-any.whl\"\n[packages.wheels.hashes]\nsha256 = \"{A}\"\n\n[[packages]]\nname = \"direct\"\n[packages.archive]\nurl = \"https://f.example/direct-3-py3-none-any.whl\"\nhashes = {{ sha256 = \"{A}\" }}\n"
        )
    }

    #[test]
    fn what_uv_and_pip_write_is_read() {
        let read = parse(&lock(), "pylock.toml").unwrap().pinned;
        let shown: Vec<_> = read.iter().map(Pinned::shown).collect();
        assert_eq!(shown, ["numpy==2.3.4", "mine==1", "direct==3"]);
        assert!(read[0].marker.is_some());
        assert_eq!(read[0].from.to_string(), "`pylock.toml` line 6");
        let Wheels::Listed(wheels) = &read[0].wheels else { panic!("{read:?}") };
        assert_eq!(wheels[0].bytes, Some(77));
        let Wheels::Listed(wheels) = &read[1].wheels else { panic!("{read:?}") };
        assert_eq!(wheels[0].url, "./dist/mine-1-py3-none-any.whl");
        for path in ["locks/pylock.toml", "./locks/pylock.toml"] {
            let below = parse(&lock(), path).unwrap().pinned;
            let Wheels::Listed(wheels) = &below[1].wheels else { panic!("{below:?}") };
            assert_eq!(wheels[0].url, "./locks/dist/mine-1-py3-none-any.whl");
        }
    }

    #[test]
    fn passwords_in_addresses_are_refused_and_not_shown() {
        let text = lock()
            .replace("https://f.example/numpy-2.3.4-", "https://me:secret@f.example/numpy-2.3.4-");
        assert_ne!(text, lock());
        let error = parse(&text, "pylock.toml").unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("secret") && shown.contains("password"), "{shown}");
    }

    #[test]
    fn what_cannot_be_taken_is_said_with_its_line() {
        let text = lock();
        for (from, to, line, says) in [
            (
                "lock-version = \"1.0\"",
                "lock-version = \"2.0\"",
                1,
                "its lock version is 2.0, expected 1.0",
            ),
            ("python_full_version >= '3.11'", "nonsense", 6, "`nonsense` is not a marker"),
            ("\">=3.11\"", "\"3\"", 3, "`3` does not say which versions of Python are needed"),
            ("sha256 = \"01", "sha256 = \"", 6, "is not a SHA-256"),
            ("\"NumPy\"", "\"/home/x\"", 6, "`/home/x` is not a package's name"),
            ("path = \"dist", "place = \"dist", 16, "neither `url` nor `path`"),
            ("[[packages]]", "[[packages]", 5, ""),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            match parse(&changed, "pylock.toml") {
                Err(Error::Recipe { line: found, reason, .. }) => {
                    assert!(reason.contains(says), "{to}: {reason}");
                    assert_eq!(found, line, "{to}: {reason}");
                }
                other => panic!("{to}: {other:?}"),
            }
        }
        for end in (0..text.len()).step_by(11) {
            let _ = parse(&text[..end], "cut");
        }
    }
}
