//! Circles of modules: none of a library's top modules imports one that imports it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::code::{code_of, library_sources, with_imports_apart, without_tests};
use crate::{packages, root};

/// Which modules each module uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_module_imports_one_that_imports_it() {
    let mut circles = Vec::new();
    for package in packages() {
        let sources = root().join(&package.folder).join("src");
        if !sources.join("lib.rs").exists() {
            continue;
        }
        let files: Vec<(PathBuf, String)> = library_sources(&sources)
            .into_iter()
            .map(|file| (below(&file, &sources), fs::read_to_string(&file).expect("a source file")))
            .collect();
        let circle = circle_of(&uses(&files));
        circles.extend(circle.map(|circle| format!("{}: {}", package.folder, circle.join(" ▶ "))));
    }
    assert!(circles.is_empty(), "modules import each other:\n{}\n", circles.join("\n"));
}

#[test]
fn a_circle_is_found_through_folders_and_names_at_the_top() {
    let check = |files: &[(&str, &str)], expected: Option<&[&str]>| {
        let owned = |(path, text): &(&str, &str)| (PathBuf::from(path), (*text).to_owned());
        let files: Vec<_> = files.iter().map(owned).collect();
        let found = circle_of(&uses(&files));
        let expected = expected.map(|names| names.iter().map(ToString::to_string).collect());
        assert_eq!(found, expected, "{files:?}");
    };
    let lib = ("lib.rs", "mod a;\nmod b;\npub use b::{B, self};\n");
    check(&[lib, ("a.rs", "use crate::b::B;\n"), ("b.rs", "")], None);
    let circle = Some(&["a", "b", "a"][..]);
    check(&[lib, ("a.rs", "use crate::b::B;\n"), ("b.rs", "fn f() { crate::a::g() }\n")], circle);
    check(&[lib, ("a.rs", "use crate::{A, B};\n"), ("b/c.rs", "use crate::a::g;\n")], circle);
    check(&[lib, ("a.rs", "use super::b;\n"), ("b/mod.rs", "use super::a::g;\n")], circle);
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::a::g;\n}\n";
    check(&[lib, ("a.rs", "use crate::B;\n"), ("b.rs", tests)], None);
}

fn below(file: &Path, dir: &Path) -> PathBuf {
    file.strip_prefix(dir).expect("a file below the folder").to_owned()
}

/// The top modules that each top module of a library names, itself apart.
fn uses(files: &[(PathBuf, String)]) -> Uses {
    let modules = |path: &Path| -> Vec<String> {
        let path = path.with_extension("");
        let names = path.iter().map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| !matches!(name.as_str(), "lib" | "mod")).collect()
    };
    let mut uses: Uses = files
        .iter()
        .filter_map(|(path, _)| Some((modules(path).first()?.clone(), BTreeSet::new())))
        .collect();
    let exported = files.iter().find(|(path, _)| path.as_path() == Path::new("lib.rs"));
    let exported = exported.map(|(_, text)| exports(text)).unwrap_or_default();
    for (path, text) in files {
        let modules = modules(path);
        let Some(own) = modules.first() else { continue };
        let top = "super::".repeat(modules.len());
        for (_, line) in with_imports_apart(without_tests(&code_of(text))) {
            for name in names_behind(&line, "crate::").chain(names_behind(&line, &top)) {
                let module = if uses.contains_key(name) {
                    Some(name)
                } else {
                    exported.get(name).map(String::as_str).filter(|m| uses.contains_key(*m))
                };
                if let Some(module) = module.filter(|module| module != own) {
                    uses.entry(own.clone()).or_default().insert(module.to_owned());
                }
            }
        }
    }
    uses
}

/// The names that follow `start` in a line.
fn names_behind<'a>(line: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(start).map(move |(at, _)| {
        let name = &line[at + start.len()..];
        name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
    })
}

/// The names that `lib.rs` exports, each with the module that defines it.
fn exports(lib: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for (_, line) in with_imports_apart(without_tests(&code_of(lib))) {
        for path in line.trim_start_matches("pub use ").trim_end_matches(';').split(' ') {
            let mut parts = path.trim_start_matches("self::").split("::");
            if let (Some(module), Some(name)) = (parts.next(), parts.last()) {
                exports.insert(name.to_owned(), module.to_owned());
            }
        }
    }
    exports
}

/// A circle, as the modules along it with the first one at its end, too.
fn circle_of(uses: &Uses) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    uses.keys().find_map(|from| walk(uses, from, &mut Vec::new(), &mut done))
}

fn walk<'a>(
    uses: &'a Uses,
    at: &'a String,
    way: &mut Vec<&'a String>,
    done: &mut BTreeSet<&'a String>,
) -> Option<Vec<String>> {
    if let Some(begin) = way.iter().position(|module| *module == at) {
        return Some(way[begin..].iter().copied().chain([at]).cloned().collect());
    }
    if !done.insert(at) {
        return None;
    }
    way.push(at);
    let found = uses.get(at)?.iter().find_map(|next| walk(uses, next, way, done));
    way.pop();
    found
}
