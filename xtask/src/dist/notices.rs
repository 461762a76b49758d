//! Collects the licences of everything that is compiled into a program, from every crate's own
//! files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::{self, command};
use crate::workspace::{Workspace, cargo_program};

/// Words that names of licence files begin with, in capitals.
const WORDS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Name, version, licence and licence files of each foreign crate in `packages` for `target`.
///
/// # Errors
/// When cargo does not tell.
pub(super) fn notices(workspace: &Workspace, packages: &[&str], target: &str) -> Result<String> {
    let mut tree = command(cargo_program());
    tree.args(["tree", "--edges=normal", "--prefix=none", "--format={p}", "--target", target]);
    for package in packages {
        tree.args(["--package", package, "--features", &format!("{package}/turbo")]);
    }
    let used = used(&process::stdout_of(tree.current_dir(&workspace.root))?);
    let mut metadata = command(cargo_program());
    metadata.args(["metadata", "--format-version=1", "--all-features"]);
    metadata.args(["--filter-platform", target]);
    let text = process::stdout_of(metadata.current_dir(&workspace.root))?;
    let value: Value =
        serde_json::from_str(&text).context("`cargo metadata` did not answer with JSON")?;
    let mut out = String::from(
        "gular contains these libraries, under the licences that follow.\n\
         Rust's standard library: Apache-2.0 OR MIT\n",
    );
    // Each text is listed once, with all crates that have it.
    let mut texts = BTreeMap::<String, BTreeSet<String>>::new();
    for package in value["packages"].as_array().into_iter().flatten() {
        let word = |key: &str| package[key].as_str().unwrap_or_default();
        let name = format!("{} {}", word("name"), word("version"));
        if !used.contains(&name) || package["source"].is_null() {
            continue;
        }
        let _ = writeln!(out, "{name}: {}", word("license"));
        let folder = Path::new(word("manifest_path")).parent().context("a file is in a folder")?;
        for text in licence_files(folder)? {
            texts.entry(text).or_default().insert(name.clone());
        }
    }
    for (text, names) in texts {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let _ = write!(out, "\n{}\n{names}\n\n{}\n", "-".repeat(79), text.trim_end());
    }
    Ok(out)
}

/// `NAME VERSION` of each line `NAME vVERSION …` of `cargo tree`.
fn used(tree: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        Some(format!("{name} {}", rest.split(' ').next()?))
    };
    tree.lines().filter_map(name).collect()
}

/// The texts of a crate's licences, those of C sources that it brings included.
fn licence_files(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let mut folders = vec![(folder.to_path_buf(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() && depth < 2 {
                folders.push((path, depth + 1));
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            if WORDS.iter().any(|word| name.starts_with(word)) && path.is_file() {
                texts.extend(fs::read_to_string(&path));
            }
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_of_a_tree_is_named_once() {
        let tree = "gular v0.1.0 (/w/cli)\nclap v4.6.0\nclap_derive v4.6.0 (proc-macro)\nclap v4.6.0 (*)\n";
        let expected = ["clap 4.6.0", "clap_derive 4.6.0", "gular 0.1.0"];
        assert_eq!(used(tree), BTreeSet::from(expected.map(str::to_owned)));
    }

    #[test]
    fn licences_of_c_sources_inside_a_crate_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("vendor/libjpeg");
        fs::create_dir_all(&deep).unwrap();
        fs::write(dir.path().join("LICENSE-MIT"), "ours").unwrap();
        fs::write(deep.join("LICENSE.md"), "theirs").unwrap();
        fs::write(deep.join("main.c"), "code").unwrap();
        assert_eq!(licence_files(dir.path()).unwrap(), ["ours", "theirs"]);
    }
}
