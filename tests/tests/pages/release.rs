//! What a release says of itself in several places is the same in all of them.

use std::fs;
use std::process::Command;

use crate::root;

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("`{name}`: {error}"))
}

/// Returns the text between `before` and the next `after`.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let found = text.split_once(before).and_then(|(_, rest)| rest.split_once(after));
    found.unwrap_or_else(|| panic!("no text between `{before}` and `{after}`")).0
}

#[test]
fn every_place_names_the_same_version() {
    let version = env!("CARGO_PKG_VERSION");
    let changelog = read("CHANGELOG.md");
    let mut headings = changelog.lines().filter_map(|line| line.strip_prefix("## "));
    let newest = headings.find(|heading| *heading != "Unreleased").unwrap();
    let (newest, date) = newest.split_once(", ").expect("a heading is `## VERSION, DATE`");
    assert_eq!(newest, version, "the newest version in CHANGELOG.md");
    let is_date = date.len() == 10
        && date.bytes().enumerate().all(|(at, b)| match at {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        });
    assert!(is_date, "`{date}` is not a date such as 2026-11-28");
    // The wheel takes its version from Cargo.toml.
    let project = read("python/pyproject.toml");
    assert!(project.contains("dynamic = [\"version\"]"), "pyproject.toml has a version of its own");
    assert!(!project.contains("\nversion"), "pyproject.toml has a version of its own");
    for page in ["README.md", "docs/install.md", "docs/jobs.md", "docs/python.md"] {
        for named in read(page).split("gular-").skip(1) {
            let named = named.split('-').next().unwrap_or_default();
            let is_version = named.starts_with(|c: char| c.is_ascii_digit());
            assert!(!is_version || named == version, "{page} names a wheel of {named}");
        }
    }
}

#[test]
fn every_place_names_the_same_oldest_python() {
    let oldest = read("python/pyproject.toml");
    let oldest = between(&oldest, "requires-python = \">=", "\"");
    let minor = oldest.strip_prefix("3.").expect("Python 3");
    let built = read("Cargo.toml");
    let built = built.lines().find(|line| line.starts_with("pyo3 =")).unwrap();
    assert!(built.contains(&format!("\"abi3-py3{minor}\"")), "{built}");
    let tag = format!("-cp3{minor}-abi3-manylinux_2_28_x86_64.whl");
    for page in ["README.md", "docs/install.md", "xtask/src/dist/mod.rs"] {
        assert!(read(page).contains(&tag), "{page} names no wheel `gular-VERSION{tag}`");
    }
    for page in ["README.md", "docs/install.md", "docs/python.md", "docs/compatibility.md"] {
        assert!(read(page).contains(oldest), "{page} does not name Python {oldest}");
    }
}

/// An older Python can get the package by unpacking the wheel, as a job does.
#[test]
fn an_older_python_is_refused_in_one_sentence() {
    let import = |version: &str| {
        let code = format!("import sys; sys.version_info = ({version}, 0); import gular");
        let mut python = Command::new("python3");
        let output = python.args(["-B", "-c", &code]).current_dir(root().join("python"));
        let stderr = output.output().expect("python3 starts").stderr;
        String::from_utf8(stderr).unwrap().lines().last().unwrap_or_default().to_owned()
    };
    let oldest = read("python/pyproject.toml");
    let oldest = between(&oldest, "requires-python = \">=", "\"").replace('.', ", ");
    let refused = format!(
        "ImportError: gular needs Python {} or newer; this is Python 3.8",
        oldest.replace(", ", ".")
    );
    assert_eq!(import("3, 8"), refused);
    // The compiled part is not beside the sources.
    assert!(import(&oldest).contains("_gular"), "{}", import(&oldest));
}
