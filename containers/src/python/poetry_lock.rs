//! `poetry.lock`.
//!
//! From version 2.1 of the format on, each package says for which groups and under which
//! conditions it is needed. Before, that follows from the project's `pyproject.toml` beside it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::{Spanned, Value};

use super::graph::{LockedPackage, Need, closure};
use super::pinned::{Listed, Pinned, Pins, Source, Wheels};
use super::pyproject;
use super::requirements::below;
use super::selection::Selection;
use super::wanted::{Ask, Indexes, NeededPython, Place, Target, read_toml};
use crate::package::{file_name, names_a_user};
use crate::wheel::{Environment, Marker, Versions, normal};
use crate::{Result, Sha256};

#[derive(Deserialize)]
struct Text {
    #[serde(default)]
    package: Vec<Entry>,
    #[serde(default)]
    extras: BTreeMap<String, Vec<String>>,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "python-versions")]
    python: Option<Spanned<String>>,
    /// Of locks before version 2 of the format.
    #[serde(default)]
    files: BTreeMap<String, Vec<File>>,
}

#[derive(Deserialize)]
struct Entry {
    name: Spanned<String>,
    version: String,
    #[serde(default)]
    optional: bool,
    groups: Option<Vec<String>>,
    markers: Option<Value>,
    #[serde(default)]
    files: Vec<File>,
    #[serde(default)]
    dependencies: BTreeMap<String, Value>,
    #[serde(default)]
    extras: BTreeMap<String, Vec<String>>,
    source: Option<From>,
}

#[derive(Deserialize)]
struct File {
    file: String,
    hash: String,
}

#[derive(Deserialize)]
struct From {
    r#type: String,
    url: String,
    resolved_reference: Option<String>,
    subdirectory: Option<String>,
}

/// Reads a text; `project` is that of the `pyproject.toml` beside it.
///
/// # Errors
/// [`Error::Recipe`](crate::Error::Recipe) with the line.
pub(super) fn parse(
    text: &str,
    path: &str,
    project: Option<&str>,
    selection: &Selection<'_>,
    environment: &Environment<'_>,
) -> Result<Pins> {
    let place = |at: usize| Place::at(path, text, at);
    let read: Text = read_toml(text, path)?;
    let python = match &read.metadata.python {
        // Alternatives (`||`) are left to the packages' own wheels.
        Some(asked) => match pyproject::versions(asked.get_ref()) {
            Some(versions) => Some(NeededPython::parse(&versions, place(asked.span().start))?),
            None => None,
        },
        None => None,
    };
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut pins = Pins { pinned: Vec::new(), indexes: Indexes::default(), python };
    let mut packages = Vec::new();
    for entry in &read.package {
        let from = place(entry.name.span().start);
        let files = read.metadata.files.get(entry.name.get_ref());
        packages.push(package(entry, files, folder, from, &mut pins.indexes)?);
    }
    let first = place(0);
    if read.package.iter().all(|entry| entry.groups.is_some()) && !read.package.is_empty() {
        let chosen = selection.extras(&read.extras, &first)?;
        let chosen: Vec<String> = chosen.into_iter().map(|(name, _)| normal(name)).collect();
        let mut known: BTreeMap<String, ()> = BTreeMap::new();
        for group in read.package.iter().flat_map(|entry| entry.groups.iter().flatten()) {
            known.insert(group.clone(), ());
        }
        selection.groups(&known, &first)?;
        let environment = Environment { extras: &chosen, ..*environment };
        for (entry, package) in read.package.iter().zip(packages) {
            let groups = entry.groups.as_deref().unwrap_or_default();
            let asked =
                |group: &str| selection.groups.iter().any(|name| normal(name) == normal(group));
            let wanted = |group: &&String| *group == "main" || asked(group);
            let Some(group) = groups.iter().find(wanted) else { continue };
            let marker = marker(entry.markers.as_ref(), group, &package.pinned.from)?;
            // Of an optional package, the marker says for which extra.
            let counts = match (&marker, entry.optional) {
                (None, true) => false,
                (marker, _) => marker.as_ref().is_none_or(|marker| marker.holds(&environment)),
            };
            pins.pinned.extend(counts.then_some(package.pinned));
        }
        return Ok(pins);
    }
    let Some(project) = project else {
        let reason = "which of its packages the project needs is said in `pyproject.toml`, which is not beside it";
        let hint = "put the project's `pyproject.toml` into the same folder";
        return Err(first.wrong(reason.to_owned(), Some(hint.to_owned())));
    };
    let beside = below(folder, "pyproject.toml");
    let project = pyproject::parse_beside_lock(project, &beside, selection)?;
    let needs = project.wanted.asks.iter().filter_map(need).collect();
    pins.pinned = closure(&packages, needs, environment, &first)?;
    Ok(pins)
}

/// What a project's own requirement needs of the lock.
fn need(ask: &Ask) -> Option<Need> {
    let versions = match &ask.target {
        Target::Index { versions, .. } => Some(versions.clone()),
        _ => None,
    };
    Some(Need {
        name: ask.name.clone()?,
        versions,
        extras: ask.extras.clone(),
        marker: ask.marker.as_ref().map(|(marker, _)| marker.clone()),
    })
}

/// The condition of a package: one for all groups, or one for each.
fn marker(markers: Option<&Value>, group: &str, from: &Place) -> Result<Option<Marker>> {
    let text = match markers {
        Some(Value::String(text)) => Some(text.as_str()),
        Some(Value::Table(groups)) => groups.get(group).and_then(Value::as_str),
        _ => None,
    };
    match text.map(|text| (Marker::parse(text), text)) {
        Some((None, text)) => Err(from.wrong(format!("`{text}` is not a marker"), None)),
        Some((marker, _)) => Ok(marker),
        None => Ok(None),
    }
}

fn package(
    entry: &Entry,
    files: Option<&Vec<File>>,
    folder: &Path,
    from: Place,
    indexes: &mut Indexes,
) -> Result<LockedPackage> {
    let wrong = |reason: String| from.wrong(reason, None);
    let mut hashes = Vec::new();
    for file in entry.files.iter().chain(files.into_iter().flatten()) {
        if let Some(digits) = file.hash.strip_prefix("sha256:") {
            let digest: Result<Sha256, _> = digits.parse();
            hashes.push(digest.map_err(|error| wrong(format!("`{}`: {error}", file.file)))?);
        }
    }
    let (mut wheels, mut source) = (Wheels::OfIndex(hashes.clone()), None);
    if let Some(From { r#type, url, resolved_reference, subdirectory }) = &entry.source {
        if names_a_user(url) {
            return Err(wrong("a URL has a user name or password before the host, which `image.lock` would reveal".to_owned()));
        }
        let none = Wheels::Listed(Vec::new());
        match r#type.as_str() {
            "legacy" => {
                let url = url.trim_end_matches('/').to_owned();
                if !indexes.extra.contains(&url) {
                    indexes.extra.push(url);
                }
            }
            "git" => {
                let commit = resolved_reference.clone();
                let commit = commit
                    .ok_or_else(|| wrong("its source has no `resolved_reference`".to_owned()))?;
                let inside = subdirectory.clone();
                (wheels, source) = (none, Some(Source::Git { url: url.clone(), commit, inside }));
            }
            "directory" => (wheels, source) = (none, Some(Source::Folder(below(folder, url)))),
            "url" | "file" => {
                let url = match r#type == "url" {
                    true => url.clone(),
                    false => format!("./{}", below(folder, url)),
                };
                let file = file_name(&url)
                    .ok_or_else(|| wrong(format!("`{url}` does not end in a file's name")))?;
                let listed = Listed { file, url, sha256: hashes.first().copied(), bytes: None };
                (wheels, source) = match listed.file.ends_with(".whl") {
                    true => (Wheels::Listed(vec![listed]), None),
                    false => (none, Some(Source::Archive(listed))),
                };
            }
            other => {
                return Err(wrong(format!(
                    "its source is of the kind `{other}`, which is not known"
                )));
            }
        }
    }
    let mut needs = Vec::new();
    for (name, value) in &entry.dependencies {
        needs.extend(edges(name, value, &from)?);
    }
    // What an extra needs is optional; its names come with versions: `numpy (>=1.20)`.
    let (optional, needs): (Vec<Edge>, Vec<Edge>) =
        needs.into_iter().partition(|edge| edge.optional);
    let mut extras = BTreeMap::new();
    for (extra, names) in &entry.extras {
        let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let names: Vec<String> = names
            .iter()
            .map(|name| normal(name.split(|c: char| !good(c)).next().unwrap_or_default()))
            .collect();
        let of_extra = optional.iter().filter(|edge| names.contains(&edge.need.name));
        extras.insert(normal(extra), of_extra.map(|edge| edge.need.clone()).collect());
    }
    let version = entry.version.parse();
    let version = version.map_err(|_| wrong(format!("`{}` is not a version", entry.version)))?;
    let name = from.name(entry.name.get_ref())?;
    let pinned = Pinned { name, version: Some(version), marker: None, wheels, source, from };
    Ok(LockedPackage { pinned, needs: needs.into_iter().map(|edge| edge.need).collect(), extras })
}

struct Edge {
    need: Need,
    optional: bool,
}

fn edges(name: &str, value: &Value, from: &Place) -> Result<Vec<Edge>> {
    let entries = match value {
        Value::Array(entries) => entries.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut edges = Vec::new();
    for entry in entries {
        let word = |key: &str| entry.get(key).and_then(Value::as_str);
        let text = entry.as_str().or_else(|| word("version")).unwrap_or("*");
        let versions = pyproject::versions(text).and_then(|text| Versions::parse(&text));
        let marker = word("markers").map(|text| Value::String(text.to_owned()));
        let marker = self::marker(marker.as_ref(), "", from)?;
        let extras = entry.get("extras").and_then(Value::as_array);
        let extras = extras.into_iter().flatten().filter_map(Value::as_str).map(normal).collect();
        let optional = entry.get("optional").and_then(Value::as_bool).unwrap_or(false);
        let need = Need { name: normal(name), versions, extras, marker };
        edges.push(Edge { need, optional });
    }
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn package(name: &str, more: &str) -> String {
        format!(
            "[[package]]\nname = \"{name}\"\nversion = \"1.0\"\ndescription = \"x\"\npython-versions = \">=3.8\"\nfiles = [\n    {{file = \"{name}-1.0-py3-none-any.whl\", hash = \"sha256:{A}\"}},\n]\n{more}\n"
        )
    }

    fn metadata(version: &str) -> String {
        format!(
            "[metadata]\nlock-version = \"{version}\"\npython-versions = \"^3.9\"\ncontent-hash = \"0\"\n"
        )
    }

    /// A lock of Poetry 2.
    fn new() -> String {
        [
            package("a", "optional = false\ngroups = [\"main\", \"dev\"]\nmarkers = {main = \"python_version < \\\"3.12\\\"\"}\n[package.source]\ntype = \"legacy\"\nurl = \"https://i.example/simple/\"\nreference = \"i\"\n"),
            package("b", "optional = false\ngroups = [\"main\"]\nmarkers = \"sys_platform == \\\"win32\\\"\"\n"),
            package("c", "optional = true\ngroups = [\"main\"]\nmarkers = \"extra == \\\"log\\\"\"\n"),
            package("d", "optional = false\ngroups = [\"dev\"]\n"),
            package("e", "optional = false\ngroups = [\"dev-tools\"]\n"),
            "[extras]\nlog = [\"c\"]\n\n".to_owned(),
            metadata("2.1"),
        ]
        .concat()
    }

    /// A lock of Poetry 1, which says nothing of groups.
    fn old() -> String {
        [
            package("a", "[package.dependencies]\nb = {version = \"^1.0\", extras = [\"x\"]}\nw = {version = \"*\", markers = \"sys_platform == \\\"win32\\\"\"}\n"),
            package("b", "[package.dependencies]\nc = {version = \">=1\", optional = true, markers = \"extra == \\\"x\\\"\"}\n[package.extras]\nx = [\"c (>=1)\"]\n"),
            package("c", "[package.source]\ntype = \"git\"\nurl = \"https://x.example/c\"\nreference = \"main\"\nresolved_reference = \"0a1b2c3\"\n"),
            package("d", ""),
            package("w", ""),
            metadata("2.0"),
        ]
        .concat()
    }

    const PROJECT: &str = "[tool.poetry]\nname = \"p\"\n[tool.poetry.dependencies]\npython = \"^3.9\"\na = \"^1\"\n[tool.poetry.group.dev.dependencies]\nd = \"*\"\n";

    fn read(text: &str, project: Option<&str>, extras: &[&str], groups: &[&str]) -> Result<Pins> {
        let owned =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (extras, groups) = (owned(extras), owned(groups));
        let environment = Environment { machine: "x86_64", extras: &[], python: "3.11.2" };
        let selection = Selection { extras: &extras, groups: &groups };
        parse(text, "poetry.lock", project, &selection, &environment)
    }

    fn names(pins: &Pins) -> Vec<&str> {
        pins.pinned.iter().map(|pin| pin.name.as_str()).collect()
    }

    #[test]
    fn what_groups_and_extras_need_is_taken() {
        let pins = read(&new(), None, &[], &[]).unwrap();
        assert_eq!(names(&pins), ["a"]);
        assert_eq!(pins.pinned[0].wheels, Wheels::OfIndex(vec![A.parse().unwrap()]));
        assert_eq!(pins.indexes.extra, ["https://i.example/simple"]);
        assert_eq!(pins.python.unwrap().versions.to_string(), ">=3.9, <4");
        assert_eq!(names(&read(&new(), None, &["log"], &["dev"]).unwrap()), ["a", "c", "d"]);
        // Names of groups are compared in their normal form.
        assert_eq!(names(&read(&new(), None, &[], &["Dev_Tools"]).unwrap()), ["a", "e"]);
    }

    #[test]
    fn old_locks_are_followed_from_the_project() {
        let pins = read(&old(), Some(PROJECT), &[], &[]).unwrap();
        assert_eq!(names(&pins), ["a", "b", "c"]);
        assert!(
            matches!(&pins.pinned[2].source, Some(Source::Git { commit, .. }) if commit == "0a1b2c3")
        );
        assert_eq!(
            names(&read(&old(), Some(PROJECT), &[], &["dev"]).unwrap()),
            ["a", "b", "c", "d"]
        );
        let error = read(&old(), None, &[], &[]).unwrap_err();
        assert!(error.to_string().contains("`pyproject.toml`, which is not beside it"), "{error}");
    }

    #[test]
    fn what_cannot_be_taken_is_said_and_never_panics() {
        for (from, to, says) in [
            ("version = \"1.0\"", "version = \"x\"", "`x` is not a version"),
            ("name = \"a\"", "name = \"../a\"", "`../a` is not a package's name"),
            ("legacy", "other", "its source is of the kind `other`"),
            ("https://i.example", "https://u:secret@i.example", "user name or password"),
            ("sha256:01", "sha256:", "is not a SHA-256"),
        ] {
            let changed = new().replacen(from, to, 1);
            assert_ne!(changed, new(), "{from}");
            let error = read(&changed, None, &[], &[]).unwrap_err().to_string();
            assert!(error.starts_with("`poetry.lock` line ") && error.contains(says), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        for (text, project) in [(new(), None), (old(), Some(PROJECT))] {
            for end in (0..text.len()).step_by(13) {
                let _ = read(&text[..end], project, &[], &[]);
            }
        }
    }
}
