//! `pylock.toml` (PEP 751), as `uv export --format pylock.toml` and `pip lock` write it.

use std::path::Path;

use pep440_rs::Version;
use serde::Deserialize;

use super::pinned::{Listed, Pinned, Pins, Wheels};
use crate::package::{file_name, is_file_name, names_a_user};
use crate::wheel::{Marker, normal};
use crate::{Error, Result, Sha256};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Text {
    lock_version: String,
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
    wheels: Vec<Wheel>,
    archive: Option<Wheel>,
}

#[derive(Deserialize)]
struct Wheel {
    name: Option<String>,
    url: Option<String>,
    path: Option<String>,
    size: Option<u64>,
    #[serde(default)]
    hashes: std::collections::BTreeMap<String, String>,
}

/// Reads a text; `path` names it in errors, and paths in it start from its folder. A package
/// of sources alone comes without wheels: whether it is needed is not known here.
///
/// # Errors
/// [`Error::Recipe`] with the line: what is not such a file, or has a package without a
/// version or a SHA-256.
pub(super) fn parse(text: &str, path: &str) -> Result<Pins> {
    let line = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
    let wrong = |at: usize, reason: String| Error::Recipe {
        path: path.to_owned(),
        line: line(at),
        reason,
        hint: None,
    };
    let read: Text = toml::from_str(text)
        .map_err(|e| wrong(e.span().map_or(0, |span| span.start), e.message().to_owned()))?;
    if !read.lock_version.starts_with("1.") {
        let reason = format!("its lock version is {}, expected 1.0", read.lock_version);
        return Err(wrong(text.find("lock-version").unwrap_or(0), reason));
    }
    let folder = Path::new(path.trim_start_matches("./")).parent().unwrap_or(Path::new(""));
    let mut pins = Pins::default();
    for entry in read.packages {
        let at = entry.name.span().start;
        let name = normal(entry.name.get_ref());
        let wrong = |reason: String| wrong(at, format!("package `{name}`: {reason}"));
        let marker = match entry.marker.as_deref() {
            Some(text) => match Marker::parse(text) {
                Some(marker) => Some(marker),
                None => return Err(wrong(format!("`{text}` is not a marker"))),
            },
            None => None,
        };
        let mut listed = Vec::new();
        for wheel in entry.wheels.iter().chain(&entry.archive) {
            listed.extend(one(wheel, folder).map_err(wrong)?);
        }
        let known = entry.version.as_deref().and_then(|version| version.parse().ok());
        // An archive has its version in its name alone.
        let version = known.or_else(|| {
            listed
                .iter()
                .find_map(|wheel| Some(super::tags::WheelName::parse(&wheel.file)?.version))
        });
        let version = match version {
            Some(version) => version,
            // A package with sources alone needs no version.
            None if listed.is_empty() => Version::new([0]),
            None => return Err(wrong("it has no version".to_owned())),
        };
        let from = format!("`{path}` line {}", line(at));
        pins.pinned.push(Pinned { name, version, marker, wheels: Wheels::Listed(listed), from });
    }
    Ok(pins)
}

/// Reads a wheel; `None` for another kind of archive. Its path starts from `folder`.
fn one(wheel: &Wheel, folder: &Path) -> Result<Option<Listed>, String> {
    let inside = wheel.path.as_deref().map(|path| folder.join(path.trim_start_matches("./")));
    let url = match (&wheel.url, inside) {
        (Some(url), _) => url.clone(),
        (None, Some(path)) => format!("./{}", path.display()),
        (None, None) => return Err("a wheel has neither `url` nor `path`".to_owned()),
    };
    if url.contains("://") && names_a_user(&url) {
        return Err(
            "a URL has a user name or password before the host, which `image.lock` would reveal"
                .to_owned(),
        );
    }
    let named = wheel.name.clone().filter(|name| is_file_name(name));
    let Some(file) = named.or_else(|| file_name(&url)) else {
        return Err(format!("`{url}` does not end in a file's name"));
    };
    if !file.ends_with(".whl") {
        return Ok(None);
    }
    let Some(digits) = wheel.hashes.get("sha256") else {
        return Err(format!("`{file}` has no `sha256`"));
    };
    let sha256: Sha256 = digits.parse().map_err(|error| format!("`{file}`: {error}"))?;
    Ok(Some(Listed { file, url, sha256, bytes: wheel.size }))
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
        let shown: Vec<_> =
            read.iter().map(|pin| format!("{} {}", pin.name, pin.version)).collect();
        assert_eq!(shown, ["numpy 2.3.4", "mine 1", "direct 3"]);
        assert!(read[0].marker.is_some());
        assert_eq!(read[0].from, "`pylock.toml` line 6");
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
            ("sha256 = \"01", "sha512 = \"01", 0, ""),
            (
                "[packages.wheels.hashes]\nsha256",
                "[packages.wheels.hashes]\nmd5",
                16,
                "has no `sha256`",
            ),
            ("path = \"dist", "place = \"dist", 16, "neither `url` nor `path`"),
            ("[[packages]]", "[[packages]", 5, ""),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            match parse(&changed, "pylock.toml") {
                // The hash of the sdist does not matter.
                Ok(_) if line == 0 => {}
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
