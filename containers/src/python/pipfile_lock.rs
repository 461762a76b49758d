//! `Pipfile.lock`, the lock file of Pipenv.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::pinned::{Pinned, Pins, Source, Wheels};
use super::requirements::below;
use super::selection::Selection;
use super::wanted::{Indexes, NeededPython, Place};
use crate::package::names_a_user;
use crate::wheel::{Marker, Versions};
use crate::{Result, Sha256};

#[derive(Deserialize)]
struct Text {
    #[serde(rename = "_meta")]
    meta: Meta,
    default: BTreeMap<String, Entry>,
    #[serde(flatten)]
    groups: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    requires: BTreeMap<String, String>,
    #[serde(default)]
    sources: Vec<Index>,
}

#[derive(Deserialize)]
struct Index {
    url: String,
}

#[derive(Deserialize)]
struct Entry {
    version: Option<String>,
    markers: Option<String>,
    #[serde(default)]
    hashes: Vec<String>,
    git: Option<String>,
    r#ref: Option<String>,
    subdirectory: Option<String>,
    path: Option<String>,
}

/// The index that a Pipfile names where its author wrote none.
const USUAL: &str = "https://pypi.org/simple";

/// Reads a text; `path` names it in errors.
///
/// # Errors
/// [`Error::Recipe`](crate::Error::Recipe) with the line.
pub(super) fn parse(text: &str, path: &str, selection: &Selection<'_>) -> Result<Pins> {
    let place = |words: &str| Place::at(path, text, text.find(words).unwrap_or(0));
    let read: Text = serde_json::from_str(text)
        .map_err(|e| Place { path: path.to_owned(), line: e.line() }.wrong(e.to_string(), None))?;
    let first = place("");
    selection.extras(&BTreeMap::<String, ()>::new(), &first)?;
    let mut entries: Vec<(String, Entry)> = read.default.into_iter().collect();
    for (group, packages) in selection.groups(&read.groups, &first)? {
        let packages: BTreeMap<String, Entry> = serde_json::from_value(packages.clone())
            .map_err(|e| place(group).wrong(e.to_string(), None))?;
        entries.extend(packages);
    }
    let python = match read.meta.requires.get("python_version") {
        Some(version) => {
            Some(NeededPython::parse(&format!("=={version}.*"), place("python_version"))?)
        }
        None => None,
    };
    let mut indexes = Indexes::default();
    for Index { url } in read.meta.sources {
        if names_a_user(&url) {
            return Err(place("sources")
                .wrong("a URL has a user name or password before the host".to_owned(), None));
        }
        let url = url.trim_end_matches('/').to_owned();
        if url != USUAL {
            indexes.extra.push(url);
        }
    }
    let mut pins = Pins { pinned: Vec::new(), indexes, python };
    for (name, entry) in entries {
        let from = place(&format!("\"{name}\": {{"));
        let wrong = |reason: String| from.wrong(format!("package `{name}`: {reason}"), None);
        let marker = match entry.markers.as_deref() {
            Some(text) => {
                let marker = Marker::parse(text);
                Some(marker.ok_or_else(|| wrong(format!("`{text}` is not a marker")))?)
            }
            None => None,
        };
        let mut hashes = Vec::new();
        for digits in entry.hashes.iter().filter_map(|hash| hash.strip_prefix("sha256:")) {
            let digest: Result<Sha256, _> = digits.parse();
            hashes.push(digest.map_err(|error| wrong(error.to_string()))?);
        }
        let version = entry.version.as_deref().and_then(Versions::parse);
        let version = version.and_then(|versions| versions.only());
        let source = match (entry.git, entry.r#ref, entry.path) {
            (Some(url), _, _) if names_a_user(&url) => {
                return Err(wrong(
                    "its URL has a user name or password before the host".to_owned(),
                ));
            }
            (Some(url), Some(commit), _) => {
                Some(Source::Git { url, commit, inside: entry.subdirectory })
            }
            (None, _, Some(inside)) => {
                let folder = std::path::Path::new(path).parent();
                Some(Source::Folder(below(folder.unwrap_or(std::path::Path::new("")), &inside)))
            }
            _ => None,
        };
        let wheels = match &source {
            Some(_) => Wheels::Listed(Vec::new()),
            None if version.is_none() || hashes.is_empty() => {
                return Err(wrong("it has no version with a SHA-256".to_owned()));
            }
            None => Wheels::OfIndex(hashes),
        };
        let name = from.name(&name)?;
        pins.pinned.push(Pinned { name, version, marker, wheels, source, from });
    }
    Ok(pins)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn lock() -> String {
        format!(
            "{{\n  \"_meta\": {{\"requires\": {{\"python_version\": \"3.11\"}}, \"sources\": [{{\"name\": \"pypi\", \"url\": \"https://pypi.org/simple\"}}, {{\"url\": \"https://i.example/simple/\"}}]}},\n  \"default\": {{\n    \"NumPy\": {{\"hashes\": [\"sha256:{A}\"], \"version\": \"==2.0\", \"markers\": \"python_version >= '3.9'\"}},\n    \"own\": {{\"git\": \"https://x.example/own\", \"ref\": \"0a1b2c3\"}}\n  }},\n  \"develop\": {{\"pytest\": {{\"hashes\": [\"sha256:{A}\"], \"version\": \"==8\"}}}}\n}}\n"
        )
    }

    fn read(text: &str, groups: &[String]) -> Result<Pins> {
        parse(text, "Pipfile.lock", &Selection { extras: &[], groups })
    }

    #[test]
    fn packages_come_with_their_digests() {
        let pins = read(&lock(), &[]).unwrap();
        let shown: Vec<_> = pins.pinned.iter().map(Pinned::shown).collect();
        assert_eq!(shown, ["numpy==2.0", "own"]);
        assert_eq!(pins.pinned[0].wheels, Wheels::OfIndex(vec![A.parse().unwrap()]));
        assert_eq!(pins.pinned[0].from.line, 4);
        assert_eq!(pins.indexes.extra, ["https://i.example/simple"]);
        assert_eq!(pins.python.unwrap().versions.to_string(), "==3.11.*");
        assert_eq!(read(&lock(), &["develop".to_owned()]).unwrap().pinned.len(), 3);
    }

    #[test]
    fn what_cannot_be_taken_is_said_with_its_line() {
        for (from, to, says) in [
            ("==2.0", ">=2.0", "package `NumPy`: it has no version with a SHA-256"),
            ("\"NumPy\"", "\"../NumPy\"", "`../NumPy` is not a package's name"),
            ("sha256:01", "sha256:", "is not a SHA-256"),
            ("https://x", "https://u:secret@x", "user name or password"),
            ("\"default\"", "\"x\"", "missing field `default`"),
        ] {
            let error = read(&lock().replacen(from, to, 1), &[]).unwrap_err().to_string();
            assert!(error.starts_with("`Pipfile.lock` line ") && error.contains(says), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
