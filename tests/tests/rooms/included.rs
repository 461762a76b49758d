//! Source files that rooms include from one another by `#[path]`, which cargo does not know about.

use std::collections::BTreeSet;
use std::fs;

use crate::{root, sources};

/// The beginning of the paragraph of ARCHITECTURE.md that links to these files.
const PARAGRAPH: &str = "Code of tests that several rooms need";

#[test]
fn files_included_from_other_rooms_are_those_that_the_page_names() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let named = named(&page);
    assert!(!named.is_empty(), "no paragraph begins with `{PARAGRAPH}`");
    let mut found = BTreeSet::new();
    for file in sources() {
        let text = fs::read_to_string(root().join(&file)).expect("a source file");
        found.extend(includes(&file, &text).into_iter().filter(|included| leaves(&file, included)));
    }
    assert_eq!(found, named);
}

/// Returns the files that the paragraph links to.
fn named(page: &str) -> BTreeSet<String> {
    let paragraph = page.lines().find(|line| line.starts_with(PARAGRAPH)).unwrap_or_default();
    let links = paragraph.split("](").skip(1);
    links.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// Returns the files that `file` includes by `#[path]`, from the root of the workspace.
fn includes(file: &str, text: &str) -> Vec<String> {
    let paths = text.lines().filter_map(|line| {
        line.trim().strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]"))
    });
    let resolved = |path: &str| {
        let mut folder: Vec<&str> = file.split('/').collect();
        folder.pop();
        for part in path.split('/') {
            match part {
                ".." => drop(folder.pop()),
                part => folder.push(part),
            }
        }
        folder.join("/")
    };
    paths.map(resolved).collect()
}

/// Returns whether `included` is in another room than `file`.
fn leaves(file: &str, included: &str) -> bool {
    let room = |path: &str| -> Vec<String> {
        let n_parts = if crate::OF_ROOMS.iter().any(|of| path.starts_with(of)) { 2 } else { 1 };
        path.split('/').take(n_parts).map(str::to_owned).collect()
    };
    room(file) != room(included)
}

#[test]
fn an_included_file_is_named_from_the_root() {
    let text = "#[path = \"../../crates/group/tests/port.rs\"]\nmod port;\n// #[path\n";
    assert_eq!(includes("runtime/tests/a.rs", text), ["crates/group/tests/port.rs"]);
    assert!(leaves("runtime/tests/a.rs", "crates/group/tests/port.rs"));
    assert!(leaves("crates/files/src/a.rs", "crates/group/tests/port.rs"));
    assert!(!leaves("crates/group/src/a.rs", "crates/group/tests/port.rs"));
    let page = format!("a\n{PARAGRAPH}: [a](x/a.rs), [b](b.rs).\n[c](c.rs)\n");
    assert_eq!(named(&page), BTreeSet::from(["b.rs".to_owned(), "x/a.rs".to_owned()]));
}
