//! The dependencies that rooms may have, and things that a library must not do.
//!
//! A room is a top folder or a folder of `crates/` or `tutorials/`. The table of rooms is read from
//! ARCHITECTURE.md. The tests fail for a room without a row, a row without a room, an edge that is
//! not in the table, an edge of the table that nobody uses, and a library that opens a socket,
//! prints, exits or reads its surroundings.

#![expect(clippy::panic, reason = "a test fails by panicking")]

mod circles;
mod code;
mod included;
mod inside;
mod names;
mod unsafe_code;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::code::{code_of, contains_word, library_sources, with_imports_apart, without_tests};

/// The rooms that a room may use.
#[derive(Debug, PartialEq)]
enum May {
    /// These rooms.
    Use(Vec<String>),
    /// Any room: programs and tests join the others.
    UseAll,
}
use May::{Use, UseAll};

/// The table: each room's folder and what it may use.
type Rooms = BTreeMap<String, May>;

/// Folders of programs and tests: they may print, exit and read their surroundings.
const PROGRAMS: [&str; 5] = ["cli", "fuzz", "tests", "tutorials", "xtask"];

/// Folders whose folders are rooms.
const OF_ROOMS: [&str; 2] = ["crates", "tutorials"];

/// Rooms that the tests of any room may also use: to make their own data, and to reach a server.
const TESTS_MAY_USE: [&str; 3] = ["crates/bundle", "crates/codec", "crates/federation"];

/// Words that libraries do not contain outside their tests, the reason, and the rooms that may
/// contain them.
const FORBIDDEN: [(&[&str], &str, &[&str]); 3] = [
    (
        &[
            "std::net",
            "rustix::net",
            "net::Tcp",
            "net::Udp",
            "unix::net",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "UnixStream",
        ],
        "opens sockets; only `pelican`, `federation`, `group` and `view` do",
        &[
            "crates/pelican/",
            "crates/federation/",
            "crates/group/",
            "view/src/client.rs",
            "view/src/server.rs",
            // Pairs without an address, to its own processes.
            "python/src/function_channels.rs",
        ],
    ),
    (
        &[
            "std::env",
            "env::var",
            "env::args",
            "env::current_dir",
            "env::temp_dir",
            "env::home_dir",
            "current_exe",
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
        // What a panic says, which Rust would print with its secrets.
        &["python/src/lib.rs"],
    ),
];

/// The files that may print: they hide secrets first, or say why not.
const PRINTING: [&str; 4] = [
    "cli/src/show.rs",
    // Bars; their texts are masked.
    "cli/src/progress.rs",
    "tutorials/train/src/progress.rs",
    // The table of predictions, which is data.
    "tutorials/train/src/predict.rs",
];

/// A package of the workspace, with the workspace packages that it depends on.
#[derive(Debug, Default)]
struct Package {
    /// Folder of the package, below the workspace root.
    folder: String,
    /// Folder of each package that it depends on, and whether only tests use that.
    uses: Vec<(String, bool)>,
}

#[test]
fn every_edge_between_rooms_is_in_the_table() {
    let (rooms, packages) = (rooms(), packages());
    for folder in ["crates/bundle", "xtask", "tutorials/train", "fuzz"] {
        assert!(packages.iter().any(|package| package.folder == folder), "{packages:?}");
    }
    let faults: Vec<_> = packages.iter().flat_map(|package| bad_edges(&rooms, package)).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_edge_of_the_table_is_used() {
    let faults = unused_edges(&rooms(), &packages());
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn rows_of_the_table_and_folders_of_rooms_are_the_same_and_no_arrow_runs_up() {
    let rooms = rooms();
    let (listed, found): (BTreeSet<_>, _) = (rooms.keys().cloned().collect(), room_folders());
    let missing: Vec<_> = listed.iter().filter(|room| !root().join(room).is_dir()).collect();
    assert!(missing.is_empty(), "rooms without a folder: {missing:?}");
    let unlisted: Vec<_> = found.difference(&listed).collect();
    assert!(unlisted.is_empty(), "folders without a row: {unlisted:?}");
    let faults = arrows_that_run_up(&rooms);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn libraries_keep_to_themselves() {
    let mut n_files = 0;
    let mut faults = Vec::new();
    let rooms = rooms();
    for package in packages() {
        let room = room(&rooms, &package.folder).map(|(name, _)| name.as_str());
        if room.is_none_or(is_program) {
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
fn programs_print_only_where_secrets_are_hidden() {
    let (words, ..) = FORBIDDEN[2];
    let mut faults = Vec::new();
    for file in ["cli/src", "tutorials/train/src"].map(|dir| library_sources(&root().join(dir))) {
        for file in file {
            let name = file.strip_prefix(root()).expect("below the root").display().to_string();
            let text = fs::read_to_string(&file).expect("a source file");
            let code = code_of(&text);
            let lines = with_imports_apart(without_tests(&code));
            let prints = |line: &str| {
                let mut words = words.iter().filter(|word| !word.starts_with("process::"));
                words.any(|word| contains_word(line, word))
            };
            if !PRINTING.contains(&name.as_str()) {
                let lines = lines.iter().filter(|(_, line)| prints(line));
                faults.extend(lines.map(|(number, _)| format!("{name}:{number} prints")));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// A job that only reads local bundles need not compile an HTTP client, TLS or a server.
#[test]
fn a_loader_without_features_compiles_no_network() {
    let compiled = |features: &[&str]| -> Vec<String> {
        let tree = ["tree", "--package=gular-runtime", "--edges=normal", "--prefix=none"];
        let text = cargo(&root().join("Cargo.toml"), &[&tree[..], features].concat());
        text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    let network = ["gular-pelican", "gular-transfer", "hyper", "rustls", "tokio"];
    let of_network = |names: &[String]| -> Vec<&str> {
        network.into_iter().filter(|name| names.iter().any(|found| found == name)).collect()
    };
    let without = compiled(&[]);
    assert!(without.iter().any(|name| name == "gular-bundle"), "{without:?}");
    assert_eq!(of_network(&without), [""; 0]);
    assert_eq!(of_network(&compiled(&["--features=net"])), network);
}

/// A training job reads bundles in every envelope by their indexes and compiles none of the
/// libraries that write them: it does not need the feature `foreign` of `crates/bundle`.
#[test]
fn the_loader_compiles_no_library_of_an_envelope() {
    let libraries = ["arrow-", "parquet", "flatbuffers", "snap", "gular-squashfs"];
    let compiles = |package: &str| {
        let args = ["tree", "--package", package, "--edges=normal,build", "--prefix=none"];
        let tree = cargo(&root().join("Cargo.toml"), &args);
        libraries.map(|library| tree.lines().any(|line| line.starts_with(library)))
    };
    assert_eq!(compiles("gular-runtime"), [false; 5], "{libraries:?}");
    // Packages that write bundles do compile them, which shows that the question is asked rightly.
    assert_eq!(compiles("gular-pack"), [true; 5], "{libraries:?}");
}

#[test]
fn an_edge_that_is_not_in_the_table_is_a_fault() {
    let table = "\
| folder | what lives there | may use |
|---|---|---|
| `pack/` | plans | bundle |
| `stage/` | copies | pack |
| `tutorials/train` | a lesson | stage |
| `tutorials/page`, `tutorials/words` | pages | – |
| `cli/` | the program | all |
| `crates/bundle` | the format | – |
";
    let rooms = parse_rooms(table);
    let uses = |names: &[&str]| Use(names.iter().map(|&name| name.to_owned()).collect());
    let expected = [
        ("cli", UseAll),
        ("crates/bundle", uses(&[])),
        ("pack", uses(&["crates/bundle"])),
        ("stage", uses(&["pack"])),
        ("tutorials/page", uses(&[])),
        ("tutorials/train", uses(&["stage"])),
        ("tutorials/words", uses(&[])),
    ];
    assert_eq!(rooms, expected.map(|(room, may)| (room.to_owned(), may)).into());
    let check = |folder: &str, used: &str, only_tests: bool, expected: Option<&str>| {
        let package = Package { folder: folder.into(), uses: vec![(used.into(), only_tests)] };
        assert_eq!(bad_edges(&rooms, &package), Vec::from_iter(expected.map(str::to_owned)));
    };
    check("pack", "crates/bundle", false, None);
    check("pack", "stage", false, Some("`pack` uses `stage`, which the table does not allow"));
    check(
        "crates/bundle",
        "pack",
        true,
        Some("`crates/bundle` uses `pack` in its tests, which the table does not allow"),
    );
    check("stage", "crates/bundle", true, None);
    check(
        "stage",
        "crates/bundle",
        false,
        Some("`stage` uses `crates/bundle`, which the table does not allow"),
    );
    check("tutorials/train", "stage", false, None);
    check("cli", "stage", false, None);
    check("shed", "crates/bundle", false, Some("`shed` is in no room of the table"));
    check(
        "tutorials/words",
        "stage",
        false,
        Some("`tutorials/words` uses `stage`, which the table does not allow"),
    );

    let package = |folder: &str, uses: &[(&str, bool)]| Package {
        folder: folder.into(),
        uses: uses.iter().map(|&(used, only_tests)| (used.to_owned(), only_tests)).collect(),
    };
    let used = [
        package("pack/tools", &[("crates/bundle", false)]),
        package("stage", &[("pack", true), ("crates/bundle", true)]),
        package("tutorials/train", &[("stage", false)]),
        package("cli", &[("crates/codec", true), ("crates/federation", true)]),
    ];
    let nobody_else = [
        "no tests use `crates/codec` by the leave that all have",
        "no tests use `crates/federation` by the leave that all have",
    ];
    assert_eq!(unused_edges(&rooms, &used), nobody_else);
    let without = [package("stage", &[("crates/bundle", true)])];
    assert_eq!(
        unused_edges(&rooms, &without),
        [
            "`pack` may use `crates/bundle` and does not",
            "`stage` may use `pack` and does not",
            "`tutorials/train` may use `stage` and does not",
            nobody_else[0],
            nobody_else[1],
        ]
    );

    assert_eq!(arrows_that_run_up(&rooms), [""; 0]);
    let mut turned = parse_rooms(table);
    turned.insert("crates/bundle".to_owned(), uses(&["stage"]));
    assert_eq!(
        arrows_that_run_up(&turned),
        [
            "`crates/bundle` may use `stage`, which is above it",
            "`crates/bundle` may use itself by way of others",
            "`pack` may use itself by way of others",
            "`stage` may use itself by way of others",
        ]
    );
    let mut loose = parse_rooms(table);
    loose.insert("crates/bundle".to_owned(), UseAll);
    loose.insert("pack".to_owned(), UseAll);
    loose.insert("stage".to_owned(), uses(&["crates/bundle", "cli"]));
    assert_eq!(
        arrows_that_run_up(&loose),
        [
            "`crates/bundle` may use all rooms, as only programs and tests may",
            "`pack` may use all rooms, as only programs and tests may",
            "`stage` may use `cli`, which nobody may: it is a program",
        ]
    );
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
    check("pack/src/scan.rs", "let arch = std::env::consts::ARCH;\n", &[]);
    check(
        "crates/bundle/src/a.rs",
        "use std::net::TcpStream;\n",
        &[
            "crates/bundle/src/a.rs:1: `std::net` opens sockets; only `pelican`, `federation`, `group` and `view` do",
        ],
    );
    check("crates/pelican/src/a.rs", "use std::net::TcpStream;\n", &[]);
    check("crates/group/src/a.rs", "use std::net::TcpStream;\n", &[]);
    check("pack/src/scan.rs", "/// Never calls println!().\nfn f() {} // std::env\n", &[]);
    let env = "`std::env` reads its surroundings; a library is given an `Env`";
    let line = |number: u32| format!("pack/src/scan.rs:{number}: {env}");
    for text in [
        "use std::{env, fs};\n",
        "use std::{fs, env::var};\n",
        "pub use std::{fs::{self, File}, env};\n",
        "use std::{\n    fs,\n    env,\n};\n",
        "let url = (\"https://x\", std::env::var(\"A\"));\n",
        "let url = (r#\"a \"// b\"#, '\"', std::env::var(\"A\"));\n",
        "fn f<'a>(x: &'a str) { std::env::var('\\''); }\n",
    ] {
        check("pack/src/scan.rs", text, &[&line(1)]);
    }
    check("pack/src/scan.rs", "/* a\n b */\nuse std::{\n    env};\n", &[&line(3)]);
    check("pack/src/scan.rs", "let text = \"never std::env, nor // that\";\n", &[]);
    check("pack/src/scan.rs", "use crate::{env, fs};\nuse std::{fs, process::{self}};\n", &[]);
    check(
        "pack/src/scan.rs",
        "use rustix::{fs, net::socket};\n",
        &[
            "pack/src/scan.rs:1: `rustix::net` opens sockets; only `pelican`, `federation`, `group` and `view` do",
        ],
    );
    check("crates/group/src/a.rs", "use rustix::net::socket;\n", &[]);
    check(
        "pack/src/scan.rs",
        "let program = here::current_exe();\n",
        &["pack/src/scan.rs:1: `current_exe` reads its surroundings; a library is given an `Env`"],
    );
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

/// Reads the table of ARCHITECTURE.md.
fn rooms() -> Rooms {
    parse_rooms(&fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md"))
}

/// Parses rows of the form ``| `folder/` | contents | rooms that it may use |``; a row may be about
/// several folders.
///
/// A room is a top folder, or one of `crates/`, whose name is written without that prefix, or one
/// of `tutorials/`; `all` means any room, `–` none. Text in brackets is for people.
fn parse_rooms(text: &str) -> Rooms {
    let rows = text.lines().skip_while(|line| !line.starts_with("| folder |")).skip(2);
    let mut table: Vec<(String, String)> = Vec::new();
    for line in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [folders, _, uses] = cells.as_slice() else { panic!("not a row of three: {line}") };
        let bare = uses.split('(').next().unwrap_or_default();
        for folder in folders.split(", ") {
            table.push((folder.trim_matches(['`', '/']).to_owned(), bare.trim().to_owned()));
        }
    }
    let folders: BTreeSet<String> = table.iter().map(|(folder, _)| folder.clone()).collect();
    let named = |name: &str| {
        let below = format!("crates/{name}");
        let found = [name.to_owned(), below].into_iter().find(|folder| folders.contains(folder));
        found.unwrap_or_else(|| panic!("`{name}` is not a room of the table"))
    };
    let mut rooms = Rooms::new();
    for (folder, uses) in table {
        let may = match uses.as_str() {
            "all" => UseAll,
            "–" => Use(Vec::new()),
            list => Use(list.split(", ").map(named).collect()),
        };
        let before = rooms.insert(folder.clone(), may);
        assert!(before.is_none(), "`{folder}` is in two rows");
    }
    rooms
}

/// Returns the folders that are rooms: those in [`OF_ROOMS`], and top folders with a package.
fn room_folders() -> BTreeSet<String> {
    let below = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(root().join(folder)).expect("a folder of rooms");
        let paths = entries.map(|entry| entry.expect("a folder entry").path());
        let folders = paths.filter(|path| path.is_dir()).filter_map(|path| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            // Programs leave folders behind, such as `.ipynb_checkpoints` and `__pycache__`.
            (!name.starts_with(['.', '_'])).then_some(name)
        });
        folders.collect()
    };
    let is_package = |folder: &String| root().join(folder).join("Cargo.toml").is_file();
    let mut found: BTreeSet<String> = below("").into_iter().filter(is_package).collect();
    for folder in OF_ROOMS {
        found.extend(below(folder).into_iter().map(|name| format!("{folder}/{name}")));
    }
    found
}

/// Returns whether a room contains programs or tests.
fn is_program(room: &str) -> bool {
    room.split('/').next().is_some_and(|top| PROGRAMS.contains(&top))
}

/// Returns arrows from `crates/` to a room above, arrows from any room to a program, and rooms that
/// depend on themselves.
fn arrows_that_run_up(rooms: &Rooms) -> Vec<String> {
    let mut faults = Vec::new();
    for (room, may) in rooms {
        let Use(used) = may else {
            if !is_program(room) {
                faults.push(format!("`{room}` may use all rooms, as only programs and tests may"));
            }
            continue;
        };
        for above in used.iter().filter(|used| !used.starts_with("crates/")) {
            if room.starts_with("crates/") {
                faults.push(format!("`{room}` may use `{above}`, which is above it"));
            } else if is_program(above) {
                faults
                    .push(format!("`{room}` may use `{above}`, which nobody may: it is a program"));
            }
        }
        let mut reached: BTreeSet<&String> = BTreeSet::new();
        let mut next: Vec<&String> = used.iter().collect();
        while let Some(other) = next.pop() {
            if let (true, Some(Use(more))) = (reached.insert(other), rooms.get(other)) {
                next.extend(more);
            }
        }
        if reached.contains(room) {
            faults.push(format!("`{room}` may use itself by way of others"));
        }
    }
    faults
}

fn room<'a>(rooms: &'a Rooms, folder: &str) -> Option<(&'a String, &'a May)> {
    rooms.iter().find(|(name, _)| {
        folder
            .strip_prefix(name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

fn bad_edges(rooms: &Rooms, package: &Package) -> Vec<String> {
    let folder = &package.folder;
    let Some((own, may)) = room(rooms, folder) else {
        return vec![format!("`{folder}` is in no room of the table")];
    };
    let allowed = |used: &str, only_tests: bool| match (may, room(rooms, used)) {
        (_, None) => false,
        (UseAll, Some(_)) => true,
        (Use(list), Some((name, _))) => {
            name == own
                || list.contains(name)
                || (only_tests && TESTS_MAY_USE.contains(&name.as_str()))
        }
    };
    let bad = package.uses.iter().filter(|(used, only_tests)| !allowed(used, *only_tests));
    let what = |only_tests: bool| if only_tests { " in its tests" } else { "" };
    bad.map(|(used, only_tests)| {
        format!("`{folder}` uses `{used}`{}, which the table does not allow", what(*only_tests))
    })
    .collect()
}

/// Returns the edges that the table or [`TESTS_MAY_USE`] allows and no package uses.
fn unused_edges(rooms: &Rooms, packages: &[Package]) -> Vec<String> {
    let mut unused: BTreeSet<(&String, &String)> = BTreeSet::new();
    for (own, may) in rooms {
        let Use(list) = may else { continue };
        unused.extend(list.iter().map(|used| (own, used)));
    }
    let mut unused_by_tests = BTreeSet::from(TESTS_MAY_USE);
    for package in packages {
        let Some((own, may)) = room(rooms, &package.folder) else { continue };
        for (used, only_tests) in &package.uses {
            let Some((used, _)) = room(rooms, used) else { continue };
            unused.remove(&(own, used));
            let Use(list) = may else { continue };
            if *only_tests && !list.contains(used) {
                unused_by_tests.remove(used.as_str());
            }
        }
    }
    let of_rooms =
        unused.iter().map(|(own, used)| format!("`{own}` may use `{used}` and does not"));
    let of_tests = unused_by_tests
        .iter()
        .map(|used| format!("no tests use `{used}` by the leave that all have"));
    of_rooms.chain(of_tests).collect()
}

/// Returns one line per source line that contains a forbidden word; it names the first such word.
fn forbidden_words(file: &str, text: &str) -> Vec<String> {
    let rules: Vec<_> = FORBIDDEN
        .iter()
        .filter(|(_, _, may)| !may.iter().any(|prefix| file.starts_with(prefix)))
        .collect();
    let mut faults = Vec::new();
    let code = code_of(text);
    for (number, line) in with_imports_apart(without_tests(&code)) {
        // These constants are about the target of the compilation, and not where the program runs.
        let line = line.replace("std::env::consts::", "");
        let hit = rules.iter().find_map(|(words, why, _)| {
            let word = words.iter().find(|word| contains_word(&line, word))?;
            Some(format!("{file}:{number}: `{word}` {why}"))
        });
        faults.extend(hit);
    }
    faults
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package lies in the workspace")
        .to_path_buf()
}

/// Returns the source files of all packages, including tests and examples, from the root of the
/// workspace.
fn sources() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders: Vec<PathBuf> =
        packages().iter().map(|package| root().join(&package.folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a source folder") {
            let path = entry.expect("a folder entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let path = path.strip_prefix(root()).expect("below the root");
                found.insert(path.to_string_lossy().into_owned());
            }
        }
    }
    assert!(found.len() > 500, "only {} source files were found", found.len());
    found
}

/// Returns the packages of the workspace, and `fuzz`, which is a separate workspace.
fn packages() -> Vec<Package> {
    let mut packages = packages_of(&root().join("Cargo.toml"));
    packages.extend(packages_of(&root().join("fuzz/Cargo.toml")));
    packages
}

/// Returns what cargo prints about the workspace with this manifest, without a network.
fn cargo(workspace: &Path, args: &[&str]) -> String {
    let cargo = env::var_os("CARGO").expect("cargo runs the tests and says where it is");
    let mut command = Command::new(cargo);
    command.args(args).args(["--offline", "--manifest-path"]).arg(workspace);
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// Returns the packages as cargo sees them, with features and kinds of dependencies.
fn packages_of(workspace: &Path) -> Vec<Package> {
    let metadata = cargo(workspace, &["metadata", "--no-deps", "--format-version=1"]);
    let metadata: Value = serde_json::from_str(&metadata).expect("cargo writes JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let folder = |path: &str| {
        Path::new(path).strip_prefix(root()).map(|path| path.to_string_lossy().into_owned()).ok()
    };
    let package = |package: Value| {
        let manifest = text(&package["manifest_path"]).expect("a manifest path");
        let own =
            folder(manifest.trim_end_matches("/Cargo.toml")).expect("a member lies below the root");
        let uses = list(&package["dependencies"]).into_iter().filter_map(|dependency| {
            let path = text(&dependency["path"])?;
            Some((folder(&path).unwrap_or(path), dependency["kind"] == "dev"))
        });
        Package { folder: own, uses: uses.collect() }
    };
    list(&metadata["packages"]).into_iter().map(package).collect()
}
