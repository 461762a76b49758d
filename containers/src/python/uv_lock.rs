//! `uv.lock`.
//!
//! uv calls the format its own, and its newest version is 1:
//! <https://docs.astral.sh/uv/concepts/resolution/#lockfile-versioning>.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::graph::{LockedPackage, Need, closure};
use super::pinned::{Listed, Pinned, Pins, Source, Wheels};
use super::requirements::below;
use super::selection::Selection;
use super::wanted::{Indexes, NeededPython, Place, read_toml};
use crate::package::{file_name, is_file_name, names_a_user};
use crate::wheel::{Environment, Marker, Versions, normal};
use crate::{Result, Sha256};

/// The newest version that is read.
const VERSION: u32 = 1;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Text {
    version: u32,
    requires_python: Option<Spanned<String>>,
    #[serde(default)]
    package: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Entry {
    name: Spanned<String>,
    version: Option<String>,
    #[serde(default)]
    source: BTreeMap<String, String>,
    #[serde(default)]
    dependencies: Vec<Edge>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, Vec<Edge>>,
    #[serde(default)]
    dev_dependencies: BTreeMap<String, Vec<Edge>>,
    sdist: Option<File>,
    #[serde(default)]
    wheels: Vec<File>,
}

#[derive(Deserialize)]
struct Edge {
    name: String,
    version: Option<String>,
    marker: Option<String>,
    #[serde(default)]
    extra: Vec<String>,
}

#[derive(Deserialize)]
struct File {
    url: Option<String>,
    path: Option<String>,
    filename: Option<String>,
    hash: Option<String>,
    size: Option<u64>,
}

/// Reads a text; `path` is that of its file from the recipe's folder, beside which its project is.
/// The project itself is not among the packages, only what it needs.
///
/// # Errors
/// [`Error::Recipe`](crate::Error::Recipe) with the line.
pub(super) fn parse(
    text: &str,
    path: &str,
    selection: &Selection<'_>,
    environment: &Environment<'_>,
) -> Result<Pins> {
    let place = |at: usize| Place::at(path, text, at);
    let read: Text = read_toml(text, path)?;
    if read.version != VERSION {
        let reason =
            format!("its version is {}, and this build reads version {VERSION}", read.version);
        let hint = "write another lock file with `uv export --format pylock.toml -o pylock.toml`, and give that";
        return Err(place(0).wrong(reason, Some(hint.to_owned())));
    }
    let python = match read.requires_python {
        Some(asked) => Some(NeededPython::parse(asked.get_ref(), place(asked.span().start))?),
        None => None,
    };
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let is_root = |entry: &&Entry| {
        ["virtual", "editable"]
            .iter()
            .any(|kind| entry.source.get(*kind).is_some_and(|at| at == "."))
    };
    let Some(root) = read.package.iter().find(is_root) else {
        let reason = "it has several projects, and none of them is in its folder";
        let hint = "name one: write its packages with `uv export --package NAME --format pylock.toml -o pylock.toml`, and give that file";
        return Err(place(0).wrong(reason.to_owned(), Some(hint.to_owned())));
    };
    let from = place(root.name.span().start);
    let name = normal(root.name.get_ref());
    let mut needs = edges(&root.dependencies, &from)?;
    for (extra, _) in selection.extras(&root.optional_dependencies, &from)? {
        needs.extend(edges(
            root.optional_dependencies.get(extra).map_or(&[], Vec::as_slice),
            &from,
        )?);
    }
    for (group, _) in selection.groups(&root.dev_dependencies, &from)? {
        needs.extend(edges(root.dev_dependencies.get(group).map_or(&[], Vec::as_slice), &from)?);
    }
    // If extras exclude each other, markers name those that are chosen in this form.
    let chosen = |kind: &str, names: &[String]| {
        let form = |other: &String| normal(&format!("{kind}-{}-{name}-{other}", name.len()));
        names.iter().map(form).collect::<Vec<_>>()
    };
    let extras = [chosen("extra", selection.extras), chosen("group", selection.groups)].concat();
    let environment = Environment { extras: &extras, ..*environment };
    let packages = read
        .package
        .iter()
        .map(|entry| package(entry, folder, place(entry.name.span().start)))
        .collect::<Result<Vec<_>>>()?;
    let pinned = closure(&packages, needs, &environment, &from)?;
    Ok(Pins { pinned, indexes: Indexes::default(), python })
}

fn edges(edges: &[Edge], from: &Place) -> Result<Vec<Need>> {
    let need = |edge: &Edge| {
        let marker = match edge.marker.as_deref().map(|text| (Marker::parse(text), text)) {
            Some((None, text)) => {
                return Err(from.wrong(format!("`{text}` is not a marker"), None));
            }
            Some((marker, _)) => marker,
            None => None,
        };
        let versions = edge.version.as_deref().and_then(|version| version.parse().ok());
        Ok(Need {
            name: normal(&edge.name),
            versions: versions.map(Versions::Exactly),
            extras: edge.extra.iter().map(|extra| normal(extra)).collect(),
            marker,
        })
    };
    edges.iter().map(need).collect()
}

fn package(entry: &Entry, folder: &Path, from: Place) -> Result<LockedPackage> {
    let registry = entry.source.get("registry").map(String::as_str);
    let address = entry.source.get("url").map(String::as_str);
    let one = |file: &File| listed(file, registry, address, folder, &from);
    let mut wheels = entry.wheels.iter().map(one).collect::<Result<Vec<_>>>()?;
    let mut source = None;
    let path = entry.source.get("path").map(|path| below(folder, path));
    for file in entry.sdist.iter() {
        source = Some(Source::Archive(one(file)?));
    }
    if let Some(path) = path.filter(|path| path.ends_with(".whl")) {
        wheels =
            wheels.into_iter().map(|wheel| Listed { url: format!("./{path}"), ..wheel }).collect();
    }
    if let Some(git) = entry.source.get("git") {
        source =
            Some(repository(git).ok_or_else(|| {
                from.wrong(format!("`{git}` is not a commit of a repository"), None)
            })?);
    }
    let inside =
        ["directory", "editable", "virtual"].iter().find_map(|kind| entry.source.get(*kind));
    if let Some(inside) = inside {
        source = Some(Source::Folder(below(folder, inside)));
    }
    let version = entry.version.as_deref().and_then(|version| version.parse().ok());
    let mut extras = BTreeMap::new();
    for (extra, needs) in &entry.optional_dependencies {
        extras.insert(normal(extra), edges(needs, &from)?);
    }
    let needs = edges(&entry.dependencies, &from)?;
    let name = from.name(entry.name.get_ref())?;
    let pinned =
        Pinned { name, version, marker: None, wheels: Wheels::Listed(wheels), source, from };
    Ok(LockedPackage { pinned, needs, extras })
}

/// Reads a file; one of a folder of wheels has a path from there.
fn listed(
    file: &File,
    registry: Option<&str>,
    address: Option<&str>,
    folder: &Path,
    from: &Place,
) -> Result<Listed> {
    let wrong = |reason: String| from.wrong(reason, None);
    let below_registry = |path: &str| {
        format!(
            "./{}",
            below(folder, &Path::new(registry.unwrap_or_default()).join(path).to_string_lossy())
        )
    };
    let url = file.url.clone().or_else(|| file.path.as_deref().map(below_registry));
    let url = url.or_else(|| address.map(str::to_owned));
    let named = || file.filename.as_ref().map(|name| format!("./{name}"));
    let url = url
        .or_else(named)
        .ok_or_else(|| wrong("a file has neither `url` nor `path`".to_owned()))?;
    if url.contains("://") && names_a_user(&url) {
        return Err(wrong(
            "a URL has a user name or password before the host, which `image.lock` would reveal"
                .to_owned(),
        ));
    }
    let name = match &file.filename {
        Some(name) if !is_file_name(name) => {
            return Err(wrong(format!("`{name}` is not a file's name")));
        }
        Some(name) => Some(name.clone()),
        None => file_name(&url),
    };
    let name = name.ok_or_else(|| wrong(format!("`{url}` does not end in a file's name")))?;
    let digits = file.hash.as_deref().and_then(|hash| hash.strip_prefix("sha256:"));
    let sha256 = digits.map(str::parse::<Sha256>).transpose();
    let sha256 = sha256.map_err(|error| wrong(format!("`{name}`: {error}")))?;
    Ok(Listed { file: name, url, sha256, bytes: file.size })
}

/// Reads `https://HOST/REPOSITORY?rev=TAG&subdirectory=FOLDER#COMMIT`.
fn repository(text: &str) -> Option<Source> {
    let (address, commit) = text.split_once('#')?;
    let (url, query) = address.split_once('?').unwrap_or((address, ""));
    let inside = query.split('&').find_map(|part| part.strip_prefix("subdirectory="));
    let good = !names_a_user(url) && commit.bytes().all(|b| b.is_ascii_hexdigit());
    good.then(|| Source::Git {
        url: url.to_owned(),
        commit: commit.to_owned(),
        inside: inside.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// A lock as uv 0.13 writes it, with two versions of one package.
    fn lock() -> String {
        let wheel = |name: &str| {
            format!(
                "wheels = [{{ url = \"https://f.example/{name}-py3-none-any.whl\", hash = \"sha256:{A}\", size = 7, upload-time = \"2026-09-17T14:11:03.168Z\" }}]\n"
            )
        };
        let package = |name: &str, version: &str, source: &str, more: &str| {
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = {{ {source} }}\n{more}\n"
            )
        };
        let registry = "registry = \"https://pypi.org/simple\"";
        [
            "version = 1\nrevision = 3\nrequires-python = \">=3.10\"\nresolution-markers = [\"python_full_version >= '3.12'\"]\n\n".to_owned(),
            package("proj", "0.1.0", "editable = \".\"", "dependencies = [\n    { name = \"a\", version = \"1.0\", source = { registry = \"x\" }, marker = \"python_full_version < '3.12'\" },\n    { name = \"a\", version = \"2.0\", source = { registry = \"x\" }, marker = \"python_full_version >= '3.12'\" },\n    { name = \"b\", extra = [\"fast\"] },\n]\n[package.optional-dependencies]\ngeo = [{ name = \"c\" }]\n[package.dev-dependencies]\nlog = [{ name = \"d\", marker = \"extra == 'group-4-proj-log'\" }]\n[package.metadata]\nrequires-dist = [{ name = \"a\" }]\n"),
            package("a", "1.0", registry, &wheel("a-1.0")),
            package("a", "2.0", registry, &wheel("a-2.0")),
            package("b", "1.0", "git = \"https://x.example/b?rev=main&subdirectory=p#0a1b2c3\"", "[package.optional-dependencies]\nfast = [{ name = \"e\" }]\n"),
            package("c", "1.0", registry, &format!("sdist = {{ url = \"https://f.example/c-1.0.tar.gz\", hash = \"sha256:{A}\" }}\n")),
            package("d", "1.0", "path = \"dist/d-1.0-py3-none-any.whl\"", &format!("wheels = [{{ filename = \"d-1.0-py3-none-any.whl\", hash = \"sha256:{A}\" }}]\n")),
            package("e", "1.0", "directory = \"../e\"", ""),
        ]
        .concat()
    }

    fn read(text: &str, extras: &[&str], groups: &[&str]) -> Result<Pins> {
        let owned =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (extras, groups) = (owned(extras), owned(groups));
        let environment = Environment { machine: "x86_64", extras: &[], python: "3.11.2" };
        let selection = Selection { extras: &extras, groups: &groups };
        parse(text, "in/uv.lock", &selection, &environment)
    }

    #[test]
    fn what_the_project_needs_is_followed() {
        let shown = |pins: &Pins| pins.pinned.iter().map(Pinned::shown).collect::<Vec<_>>();
        let pins = read(&lock(), &[], &[]).unwrap();
        assert_eq!(shown(&pins), ["a==1.0", "b==1.0", "e==1.0"]);
        assert_eq!(pins.python.as_ref().unwrap().from.line, 3);
        let Wheels::Listed(wheels) = &pins.pinned[0].wheels else { panic!("{pins:?}") };
        assert_eq!((wheels[0].bytes, wheels[0].sha256), (Some(7), Some(A.parse().unwrap())));
        let git = Source::Git {
            url: "https://x.example/b".to_owned(),
            commit: "0a1b2c3".to_owned(),
            inside: Some("p".to_owned()),
        };
        assert_eq!(pins.pinned[1].source, Some(git));
        assert_eq!(pins.pinned[2].source, Some(Source::Folder("e".to_owned())));
        let pins = read(&lock(), &["Geo"], &["log"]).unwrap();
        assert_eq!(shown(&pins), ["a==1.0", "b==1.0", "c==1.0", "d==1.0", "e==1.0"]);
        let Wheels::Listed(wheels) = &pins.pinned[3].wheels else { panic!("{pins:?}") };
        assert_eq!(wheels[0].url, "./in/dist/d-1.0-py3-none-any.whl");
        assert!(matches!(pins.pinned[2].source, Some(Source::Archive(_))));
    }

    #[test]
    fn what_cannot_be_taken_is_said_with_its_line() {
        for (from, to, says) in [
            ("version = 1\n", "version = 2\n", "its version is 2, and this build reads version 1"),
            ("editable = \".\"", "editable = \"p\"", "none of them is in its folder"),
            (
                "name = \"e\" }]",
                "name = \"f\" }]",
                "it needs `f`, which the lock file does not have",
            ),
            ("python_full_version < '3.12'\" }", "nonsense\" }", "`nonsense` is not a marker"),
            (
                "https://f.example/a-1.0",
                "https://u:secret@f.example/a-1.0",
                "user name or password",
            ),
            ("#0a1b2c3", "", "is not a commit of a repository"),
            (
                "filename = \"d",
                "filename = \"../../d",
                "`../../d-1.0-py3-none-any.whl` is not a file's name",
            ),
            (
                "name = \"b\"\nversion",
                "name = \"/home/b\"\nversion",
                "`/home/b` is not a package's name",
            ),
            ("[[package]]", "[[package]", ""),
        ] {
            let changed = lock().replacen(from, to, 1);
            assert_ne!(changed, lock(), "{from}");
            let error = read(&changed, &[], &[]).unwrap_err().to_string();
            assert!(error.starts_with("`in/uv.lock` line ") && error.contains(says), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let error = read(&lock(), &["none"], &[]).unwrap_err();
        assert!(error.to_string().contains("the extra `none`, which is not there"), "{error}");
        assert_eq!(error.hint(), Some("expected one of `geo`"));
        for end in (0..lock().len()).step_by(13) {
            let _ = read(&lock()[..end], &[], &[]);
        }
    }
}
