//! Unsafe code is only in the files of ARCHITECTURE.md's table, each with a reason. A crate without
//! unsafe code forbids it at its root, so that no file can allow it again.

use std::collections::BTreeSet;
use std::fs;

use crate::code::code_of;
use crate::{packages, root, sources};

#[test]
fn unsafe_code_is_where_the_table_says() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let listed = listed(&page);
    assert!(listed.len() > 5, "the table has a file in each row: {listed:?}");
    let has =
        |file: &String| has_unsafe(&fs::read_to_string(root().join(file)).expect("a source file"));
    let found: BTreeSet<String> = sources().into_iter().filter(has).collect();
    let unlisted: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(unlisted.is_empty() && gone.is_empty(), "unlisted: {unlisted:?}; gone: {gone:?}");
}

#[test]
fn crates_without_unsafe_code_forbid_it() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let (listed, sources) = (listed(&page), sources());
    let (mut roots, mut faults) = (0, Vec::new());
    for package in packages() {
        let src = format!("{}/src/", package.folder);
        if listed.iter().any(|file| file.starts_with(&src)) {
            continue;
        }
        let is_root = |file: &&String| {
            let name = file.strip_prefix(&src).unwrap_or_default();
            ["lib.rs", "main.rs"].contains(&name) || name.starts_with("bin/")
        };
        for file in sources.iter().filter(is_root) {
            roots += 1;
            let text = fs::read_to_string(root().join(file)).expect("a source file");
            if !text.contains("\n#![forbid(unsafe_code)]\n") {
                faults.push(file);
            }
        }
    }
    assert!(roots > 15, "only {roots} crates were found");
    assert!(faults.is_empty(), "without `#![forbid(unsafe_code)]`: {faults:?}");
}

/// Returns the files that rows under "Unsafe code" link to.
fn listed(page: &str) -> BTreeSet<String> {
    let section = page.split("\n## ").find(|section| section.starts_with("Unsafe code"));
    let rows = section.unwrap_or_default().lines().filter(|line| line.starts_with('|'));
    let links = |row: &str| -> Vec<String> {
        let cell = row.split('|').nth(1).unwrap_or_default();
        cell.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.into())).collect()
    };
    rows.flat_map(links).collect()
}

fn has_unsafe(text: &str) -> bool {
    let is_word = |word: &str| word == "unsafe";
    code_of(text).split(|c: char| !c.is_alphanumeric() && c != '_').any(is_word)
}

#[test]
fn unsafe_is_a_word_of_the_code() {
    assert!(has_unsafe("fn f() {\n    // SAFETY: so\n    unsafe { g() }\n}\n"));
    assert!(has_unsafe("unsafe impl Send for A {}"));
    assert!(!has_unsafe("// an unsafe name\nfn f() { refuse(\"the unsafe name\") }\n"));
    assert!(!has_unsafe("#![forbid(unsafe_code)]\n"));
}

#[test]
fn a_row_lists_the_files_that_its_first_cell_links_to() {
    let page = "# Code\n\n## Unsafe code\n\n| file | why |\n|---|---|\n| [a](x/a.rs), [b](b.rs) | [c](c.md) |\n\n## Next\n| [d](d.rs) | |\n";
    assert_eq!(listed(page), BTreeSet::from(["x/a.rs".to_owned(), "b.rs".to_owned()]));
}
