//! The pages for users: their blocks run as written, their commands are known to the program, and
//! the output of `--json` is as described in docs/json.md.
//!
//! A block ```` ```sh ```` of README.md or docs is run, in order, against the embedded federation.
//! A block that cannot be run here says why on its fence: ```` ```sh not run: needs a GPU ````, or
//! ```` ```sh run by peers: needs PyTorch ```` if a test in `tests/peers` runs it. The blocks of
//! tutorials are run by the tests of peers, with real clusters.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

mod arguments;
mod blocks;
mod docs;
mod format;
mod json;
mod readme;
mod release;
mod shell;
mod types;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Returns every page for users, sorted: README and its neighbours, `docs`, the tutorials.
fn pages() -> Vec<PathBuf> {
    let root = root();
    let mut folders = vec![root.clone(), root.join("docs"), root.join("docs/bench")];
    for lessons in ["tutorials", "tutorials/python"].map(|name| root.join(name)) {
        folders.extend(std::fs::read_dir(lessons).unwrap().map(|entry| entry.unwrap().path()));
    }
    let mut found = Vec::new();
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let paths = entries.map(|entry| entry.unwrap().path());
        found.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    found.sort();
    found
}

#[test]
fn help_of_the_loader_has_each_option_once_below_a_title() {
    let script = root().join("python/tests/help.py");
    let Ok(output) = Command::new("python3").arg("-B").arg(script).output() else {
        println!("skipped: no python3");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
