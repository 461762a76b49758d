//! Names of files and of types that say nothing.

use std::fs;

use crate::code::code_of;
use crate::{root, sources};

/// Names of files that are not used: a name such as `run.rs` only says that something happens in
/// it.
const FILES: [&str; 13] = [
    "common.rs",
    "each.rs",
    "helpers.rs",
    "here.rs",
    "known.rs",
    "misc.rs",
    "out.rs",
    "own.rs",
    "place.rs",
    "report.rs",
    "run.rs",
    "utils.rs",
    "work.rs",
];

/// Words that would name a different type in each room, or mean something else in Gular; names such
/// as `PackReport`, `EntryKind` and `ByteOrder` have one meaning.
const TYPES: [&str; 5] = ["Image", "Kind", "Order", "Report", "Stage"];

/// Words that several rooms could use for a public type, each with another meaning. Only one room
/// may use it. Within a crate, the types beside it make the meaning clear.
const PUBLIC_ONCE: [&str; 28] = [
    "Cache",
    "Check",
    "Compression",
    "Depth",
    "Entry",
    "Facts",
    "Fault",
    "Filter",
    "Finding",
    "Format",
    "Header",
    "Labels",
    "Layout",
    "Limit",
    "Listing",
    "Node",
    "Number",
    "Opened",
    "Package",
    "Part",
    "Plan",
    "Recipe",
    "Source",
    "Target",
    "Trials",
    "UnknownLabels",
    "View",
    "Watch",
];

#[test]
fn files_are_named_by_what_is_in_them() {
    let says_nothing = |file: &String| FILES.contains(&file.rsplit('/').next().unwrap_or(file));
    let found: Vec<String> = sources().into_iter().filter(says_nothing).collect();
    assert!(found.is_empty(), "files that need a name: {found:?}");
}

#[test]
fn types_are_named_by_what_they_are() {
    let named = |file: String| {
        let text = fs::read_to_string(root().join(&file)).expect("a source file");
        let names: Vec<String> = types(&code_of(&text));
        names.into_iter().filter(|name| TYPES.contains(&name.as_str())).map(move |_| file.clone())
    };
    let found: Vec<String> = sources().into_iter().flat_map(named).collect();
    assert!(found.is_empty(), "types that need a name of their own: {found:?}");
}

#[test]
fn a_public_name_has_one_meaning() {
    let public = |file: String| {
        let text = fs::read_to_string(root().join(&file)).expect("a source file");
        let names = public_types(&code_of(&text));
        names.into_iter().map(move |name| (name, file.clone()))
    };
    let found: Vec<(String, String)> = sources().into_iter().flat_map(public).collect();
    for word in PUBLIC_ONCE {
        let of_word: Vec<_> = found.iter().filter(|(name, _)| name == word).collect();
        assert!(of_word.len() < 2, "types that need names of their own: {of_word:?}");
    }
}

/// Returns the names of the enums, structs and traits of `code` that other crates can see.
fn public_types(code: &str) -> Vec<String> {
    code.split("pub ").skip(1).filter_map(|item| types(item.lines().next()?).pop()).collect()
}

/// Returns the names of the enums, structs and traits of `code`.
fn types(code: &str) -> Vec<String> {
    let mut words =
        code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if ["enum", "struct", "trait"].contains(&word) {
            found.extend(words.next().map(str::to_owned));
        }
    }
    found
}

#[test]
fn every_kind_of_type_is_seen() {
    let code = "pub enum Kind {}\nstruct Report<'a>(&'a str);\npub(crate) trait Source: Send {}\n";
    assert_eq!(types(code), ["Kind", "Report", "Source"]);
    assert_eq!(public_types(code), ["Kind"]);
}
