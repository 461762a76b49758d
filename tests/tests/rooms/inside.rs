//! The rooms inside `pack`: each uses only those before it.

use std::collections::BTreeSet;
use std::fs;

use crate::code::{code_of, library_sources, with_imports_apart, without_tests};
use crate::root;

/// The library whose top modules are rooms.
const LIBRARY: &str = "pack/src";

#[test]
fn rooms_of_pack_use_only_those_before_them() {
    let table = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let rooms = parse_order(&table);
    let (mut found, mut faults) = (BTreeSet::new(), Vec::new());
    for file in library_sources(&root().join(LIBRARY)) {
        let path = file.strip_prefix(root()).expect("below the root").display().to_string();
        let modules = modules_of(&path);
        let Some(own) = modules.first() else { continue };
        found.insert((*own).to_owned());
        let text = fs::read_to_string(&file).expect("a source file");
        faults.extend(wrong_uses(&rooms, &path, &text));
    }
    let listed: BTreeSet<String> = rooms.iter().cloned().collect();
    assert_eq!(found, listed, "the table of the rooms of `pack` lists other modules than it has");
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn a_use_of_a_later_room_is_a_fault() {
    let table =
        "| room | what |\n|---|---|\n| `facts` | a |\n| `source` | b |\n| `diff` | c |\n\nx\n";
    let rooms = parse_order(table);
    assert_eq!(rooms, ["facts", "source", "diff"]);
    let check = |file: &str, text: &str, expected: &[&str]| {
        assert_eq!(wrong_uses(&rooms, file, text), expected, "{text}");
    };
    check("pack/src/diff.rs", "use crate::facts::A;\nuse crate::source::{B, c};\n", &[]);
    check("pack/src/source/a.rs", "use crate::source::B;\nuse super::C;\n", &[]);
    check(
        "pack/src/source/a.rs",
        "use crate::facts::A;\nfn f() {\n    crate::diff::g();\n}\n",
        &["pack/src/source/a.rs:3: `source` uses `diff`, which comes after it"],
    );
    check(
        "pack/src/facts/mod.rs",
        "pub use crate::{\n    diff::D,\n    facts::A,\n};\n",
        &["pack/src/facts/mod.rs:1: `facts` uses `diff`, which comes after it"],
    );
    check(
        "pack/src/diff.rs",
        "use crate::Error;\n",
        &["pack/src/diff.rs:1: `crate::Error` is not a room: name the one that defines it"],
    );
    let above = "a path of `super` leaves the room: name the room instead";
    check("pack/src/source/a/b.rs", "use super::super::C;\n", &[]);
    check(
        "pack/src/source/a.rs",
        "use super::super::diff::D;\n",
        &[&format!("pack/src/source/a.rs:1: {above}")],
    );
    check("pack/src/facts/a.rs", "#[cfg(test)]\nmod tests {\n    use crate::diff::D;\n}\n", &[]);
}

/// Parses rows of the form ``| `room` | contents |`` below the head `| room |`.
fn parse_order(text: &str) -> Vec<String> {
    let rows = text.lines().skip_while(|line| !line.starts_with("| room |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.filter_map(|line| Some(line.split('`').nth(1)?.to_owned())).collect()
}

/// Returns the modules that a file is in, from the top: those of its folders, and its own.
fn modules_of(path: &str) -> Vec<&str> {
    let below = path.strip_prefix(LIBRARY).unwrap_or(path).trim_end_matches(".rs");
    below.split('/').filter(|name| !matches!(*name, "" | "lib" | "mod")).collect()
}

/// Returns one line per use of a later room, of a re-export at the top, or of what is above the
/// room.
fn wrong_uses(rooms: &[String], file: &str, text: &str) -> Vec<String> {
    let place = |name: &str| rooms.iter().position(|room| room == name);
    let modules = modules_of(file);
    let own = modules.first().copied().unwrap_or_default();
    let leaves = "super::".repeat(modules.len());
    let mut faults = Vec::new();
    for (number, line) in with_imports_apart(without_tests(&code_of(text))) {
        for (at, _) in line.match_indices("crate::") {
            let used = &line[at + "crate::".len()..];
            let end = used.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(used.len());
            let used = &used[..end];
            match place(used) {
                Some(_) if place(used) <= place(own) => {}
                Some(_) => faults
                    .push(format!("{file}:{number}: `{own}` uses `{used}`, which comes after it")),
                None => faults.push(format!(
                    "{file}:{number}: `crate::{used}` is not a room: name the one that defines it"
                )),
            }
        }
        if line.contains(&leaves) {
            faults.push(format!(
                "{file}:{number}: a path of `super` leaves the room: name the room instead"
            ));
        }
    }
    faults
}
