//! Who may use whom, and what a library must not do.
//!
//! A room is a top folder or a folder of `crates/`. The table below is the one
//! of ARCHITECTURE.md, rooms still to come included; an edge that is not in it
//! fails here, and so does a library that opens a socket, prints, exits or
//! reads its surroundings.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What a room may use.
enum May {
    /// These rooms.
    Use(&'static [&'static str]),
    /// Any room: programs and tests join the others.
    UseAll,
}
use May::{Use, UseAll};

/// Room, what it may use, whether it is a library.
const ROOMS: [(&str, May, bool); 16] = [
    ("pack", Use(&["crates/bundle", "crates/codec", "crates/files"]), true),
    ("verify", Use(&["crates/bundle", "crates/files", "crates/pelican", "transfer"]), true),
    ("transfer", Use(&["crates/bundle", "crates/files", "crates/pelican"]), true),
    (
        "runtime",
        Use(&["crates/bundle", "crates/codec", "crates/files", "crates/pelican", "transfer"]),
        true,
    ),
    ("bench", Use(&["crates/bundle", "crates/codec", "crates/files", "pack", "runtime"]), true),
    ("containers", Use(&["crates/files", "crates/squashfs"]), true),
    // A lesson uses what a user would.
    ("tutorials", Use(&["runtime"]), false),
    ("tests", UseAll, false),
    ("xtask", UseAll, false),
    ("crates/bundle", Use(&["crates/files", "crates/squashfs"]), true),
    ("crates/codec", Use(&[]), true),
    ("crates/files", Use(&[]), true),
    ("crates/squashfs", Use(&[]), true),
    ("crates/pelican", Use(&["crates/files"]), true),
    ("crates/federation", Use(&["crates/pelican"]), true),
    ("crates/jobs", Use(&[]), true),
    ("cli", UseAll, false),
];

/// What any room's tests may use, to make their own data and to have a server.
const TESTS_MAY_USE: [&str; 3] = ["crates/bundle", "crates/codec", "crates/federation"];

/// Words that libraries do not contain outside their tests, why, and who may.
const FORBIDDEN: [(&[&str], &str, &[&str]); 3] = [
    (
        &[
            "std::net",
            "net::Tcp",
            "net::Udp",
            "unix::net",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "UnixStream",
        ],
        "opens sockets; only `pelican` does, and ranks that meet",
        &["crates/federation/", "crates/pelican/", "runtime/src/group/"],
    ),
    (
        &[
            "std::env",
            "env::var",
            "env::args",
            "env::current_dir",
            "env::temp_dir",
            "env::home_dir",
        ],
        "reads its surroundings; a library is given an `Env`",
        &["crates/files/src/env.rs"],
    ),
    (
        &[
            "print!(",
            "println!(",
            "eprint!(",
            "eprintln!(",
            "dbg!(",
            "io::stdout",
            "io::stderr",
            "process::exit",
            "process::abort",
        ],
        "prints or exits; a library returns values",
        &[],
    ),
];

/// A package of the workspace and the workspace packages it depends on.
#[derive(Debug, Default)]
struct Package {
    /// Its folder below the workspace root.
    folder: String,
    /// The folder of each, and whether only tests use it.
    uses: Vec<(String, bool)>,
}

#[test]
fn every_edge_between_rooms_is_in_the_table() {
    let packages = workspace_packages();
    assert!(packages.iter().any(|package| package.folder == "crates/bundle"), "{packages:?}");
    let faults: Vec<_> = packages.iter().flat_map(bad_edges).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn libraries_keep_to_themselves() {
    let mut n_files = 0;
    let mut faults = Vec::new();
    for package in workspace_packages() {
        if !room(&package.folder).is_some_and(|(_, _, is_library)| *is_library) {
            continue;
        }
        for file in library_sources(&root().join(&package.folder).join("src")) {
            let text = fs::read_to_string(&file).expect("a source file");
            let name =
                file.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            faults.extend(forbidden_words(&name, &text));
            n_files += 1;
        }
    }
    assert!(n_files > 10, "only {n_files} source files were found");
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn an_edge_that_is_not_in_the_table_is_a_fault() {
    let check = |folder: &str, uses: &str, only_tests: bool, expected: Option<&str>| {
        let package = Package { folder: folder.into(), uses: vec![(uses.into(), only_tests)] };
        assert_eq!(bad_edges(&package), Vec::from_iter(expected.map(str::to_owned)));
    };
    check("pack", "crates/bundle", false, None);
    check(
        "pack",
        "runtime",
        false,
        Some("`pack` uses `runtime`, which the table of rooms does not allow"),
    );
    check(
        "crates/bundle",
        "crates/pelican",
        false,
        Some("`crates/bundle` uses `crates/pelican`, which the table of rooms does not allow"),
    );
    check(
        "verify",
        "crates/codec",
        false,
        Some("`verify` uses `crates/codec`, which the table of rooms does not allow"),
    );
    check("verify", "crates/codec", true, None);
    check(
        "verify",
        "pack",
        true,
        Some("`verify` uses `pack` in its tests, which the table of rooms does not allow"),
    );
    check("tutorials/train", "runtime", false, None);
    check(
        "tutorials/train",
        "crates/bundle",
        false,
        Some("`tutorials/train` uses `crates/bundle`, which the table of rooms does not allow"),
    );
    check("cli", "runtime", false, None);
    check("shed", "crates/bundle", false, Some("`shed` is in no room of the table"));
}

#[test]
fn a_library_that_prints_or_looks_around_is_a_fault() {
    let check = |file: &str, text: &str, expected: &[&str]| {
        assert_eq!(forbidden_words(file, text), expected, "{text}");
    };
    check(
        "pack/src/scan.rs",
        "fn f() {\n    eprintln!(\"{}\", 1);\n}\n",
        &["pack/src/scan.rs:2: `eprintln!(` prints or exits; a library returns values"],
    );
    check(
        "runtime/src/loader.rs",
        "use std::env;\n",
        &[
            "runtime/src/loader.rs:1: `std::env` reads its surroundings; a library is given an `Env`",
        ],
    );
    check("crates/files/src/env.rs", "use std::env;\n", &[]);
    check(
        "crates/bundle/src/a.rs",
        "use std::net::TcpStream;\n",
        &[
            "crates/bundle/src/a.rs:1: `std::net` opens sockets; only `pelican` does, and ranks that meet",
        ],
    );
    check("crates/pelican/src/a.rs", "use std::net::TcpStream;\n", &[]);
    check("runtime/src/group/a.rs", "use std::net::TcpStream;\n", &[]);
    check("pack/src/scan.rs", "/// Never calls println!().\nfn f() {} // std::env\n", &[]);
    check("pack/src/scan.rs", "const V: &str = env!(\"CARGO_PKG_VERSION\");\n", &[]);
    check(
        "pack/src/scan.rs",
        "#[cfg(test)]\nmod tests {\n    use std::env;\n    fn f() {\n    }\n}\n",
        &[],
    );
    check(
        "pack/src/scan.rs",
        "#[cfg(test)]\nuse std::env;\nuse std::env;\n",
        &["pack/src/scan.rs:3: `std::env` reads its surroundings; a library is given an `Env`"],
    );
}

/// The loader alone needs no network: what can be compiled without a server of any kind is
/// compiled in minutes, and everywhere.
#[test]
fn a_loader_without_features_compiles_no_network() {
    let compiled = |features: &[&str]| {
        let tree = ["tree", "--package=gular-runtime", "--edges=normal", "--prefix=none"];
        let text = cargo(&[&tree[..], features].concat());
        let names = text.lines().filter_map(|line| line.split(' ').next());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    };
    let network = ["gular-pelican", "gular-transfer", "hyper", "rustls", "tokio"];
    let none = compiled(&[]);
    assert!(none.iter().any(|name| name == "gular-bundle"), "{none:?}");
    let found: Vec<_> = network.iter().filter(|name| none.iter().any(|n| n == *name)).collect();
    assert!(found.is_empty(), "{found:?}");
    let net = compiled(&["--features=net"]);
    assert!(network.iter().all(|name| net.iter().any(|n| n == name)), "{net:?}");
}

fn room(folder: &str) -> Option<&'static (&'static str, May, bool)> {
    ROOMS.iter().find(|(name, ..)| {
        folder.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

fn bad_edges(package: &Package) -> Vec<String> {
    let folder = &package.folder;
    let Some((own, may, _)) = room(folder) else {
        return vec![format!("`{folder}` is in no room of the table")];
    };
    let allowed = |used: &str, only_tests: bool| match (may, room(used)) {
        (_, None) => false,
        (UseAll, Some(_)) => true,
        (Use(rooms), Some((name, ..))) => {
            name == own || rooms.contains(name) || (only_tests && TESTS_MAY_USE.contains(name))
        }
    };
    let bad = package.uses.iter().filter(|(used, only_tests)| !allowed(used, *only_tests));
    let what = |only_tests: bool| if only_tests { " in its tests" } else { "" };
    bad.map(|(used, only_tests)| {
        format!(
            "`{folder}` uses `{used}`{}, which the table of rooms does not allow",
            what(*only_tests)
        )
    })
    .collect()
}

/// One line per source line that contains a forbidden word, naming the first.
fn forbidden_words(file: &str, text: &str) -> Vec<String> {
    let rules: Vec<_> = FORBIDDEN
        .iter()
        .filter(|(_, _, may)| !may.iter().any(|prefix| file.starts_with(prefix)))
        .collect();
    let mut faults = Vec::new();
    for (number, line) in without_tests(text) {
        let code = line.split("//").next().unwrap_or_default();
        let hit = rules.iter().find_map(|(words, why, _)| {
            let word = words.iter().find(|word| contains_word(code, word))?;
            Some(format!("{file}:{number}: `{word}` {why}"))
        });
        faults.extend(hit);
    }
    faults
}

/// Whether `word` occurs in `code` other than as the end of a longer name.
fn contains_word(code: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| !code[..at].ends_with(is_name))
}

/// Numbered lines of `text`, less each item under `#[cfg(test)]`. rustfmt puts
/// the brace that ends an item in the column the item starts in.
fn without_tests(text: &str) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((idx, line)) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push((idx + 1, line));
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let ends = |line: &str| {
            line == end || (line.ends_with(';') && !line[indent.len()..].starts_with(' '))
        };
        let _ = lines.by_ref().find(|(_, line)| line.len() > indent.len() && ends(line));
    }
    kept
}

/// The `.rs` files below `dir` that are part of the library: not its programs
/// in `bin`, nor test modules in files of their own.
fn library_sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a source folder") {
        let path = entry.expect("a folder entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["bin", "tests"].contains(&name.as_str()) {
            found.extend(library_sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package lies in the workspace")
        .to_path_buf()
}

/// What cargo prints, without a network.
fn cargo(args: &[&str]) -> String {
    let cargo = env::var_os("CARGO").expect("cargo runs the tests and says where it is");
    let command = Command::new(cargo).args(args).arg("--offline").current_dir(root()).output();
    let output = command.expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// The packages as cargo sees them, features and kinds of dependency included.
fn workspace_packages() -> Vec<Package> {
    let output = cargo(&["metadata", "--no-deps", "--format-version=1"]);
    let metadata: Value = serde_json::from_str(&output).expect("cargo writes JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let folder = |path: &str| {
        Path::new(path).strip_prefix(root()).map(|path| path.to_string_lossy().into_owned()).ok()
    };
    let mut packages = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let manifest = text(&package["manifest_path"]).expect("a manifest path");
        let own =
            folder(manifest.trim_end_matches("/Cargo.toml")).expect("a member lies below the root");
        let uses = list(&package["dependencies"]).into_iter().filter_map(|dependency| {
            let path = text(&dependency["path"])?;
            Some((folder(&path).unwrap_or(path), dependency["kind"] == "dev"))
        });
        packages.insert(own.clone(), Package { folder: own, uses: uses.collect() });
    }
    packages.into_values().collect()
}
