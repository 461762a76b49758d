//! The licences of what is compiled into a program: every crate's own files.

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
    let mut metadata = command(cargo_program());
    metadata.args([
        "metadata",
        "--format-version=1",
        "--all-features",
        "--filter-platform",
        target,
    ]);
    let text = process::stdout_of(metadata.current_dir(&workspace.root))?;
    let value: Value =
        serde_json::from_str(&text).context("`cargo metadata` did not answer with JSON")?;
    let used = used(&value, packages);
    let mut out = String::from("gular contains these libraries, under the licences that follow.\n");
    // The same text once, with all crates that have it.
    let mut texts = BTreeMap::<String, BTreeSet<String>>::new();
    for package in value["packages"].as_array().into_iter().flatten() {
        let word = |key: &str| package[key].as_str().unwrap_or_default();
        if !used.contains(word("id")) || package["source"].is_null() {
            continue;
        }
        let name = format!("{} {}", word("name"), word("version"));
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

/// The ids of all packages that `roots` are compiled with.
fn used(metadata: &Value, roots: &[&str]) -> BTreeSet<String> {
    let all = |key: &str| metadata[key].as_array().into_iter().flatten();
    let is_root = |package: &&Value| roots.iter().any(|root| package["name"] == **root);
    let ids = all("packages").filter(is_root).filter_map(|package| package["id"].as_str());
    let mut left: Vec<&str> = ids.collect();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let mut used = BTreeSet::new();
    while let Some(id) = left.pop() {
        if !used.insert(id.to_owned()) {
            continue;
        }
        for dependency in
            nodes.get(id).and_then(|node| node["deps"].as_array()).into_iter().flatten()
        {
            // Those of build scripts and tests are not in the program.
            let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            if kinds.any(|kind| kind["kind"].is_null()) {
                left.extend(dependency["pkg"].as_str());
            }
        }
    }
    used
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
    use serde_json::json;

    use super::*;

    #[test]
    fn what_only_builds_or_tests_use_is_not_in_the_program() {
        let kind = |kind: Option<&str>| json!({ "kind": kind });
        let metadata = json!({
            "packages": [{"name": "a", "id": "a 1"}, {"name": "b", "id": "b 1"}],
            "resolve": {"nodes": [
                {"id": "a 1", "deps": [
                    {"pkg": "b 1", "dep_kinds": [kind(Some("dev")), kind(None)]},
                    {"pkg": "c 1", "dep_kinds": [kind(Some("build"))]},
                ]},
                {"id": "b 1", "deps": [{"pkg": "a 1", "dep_kinds": [kind(None)]}]},
            ]},
        });
        assert_eq!(used(&metadata, &["a"]), BTreeSet::from(["a 1".to_owned(), "b 1".to_owned()]));
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
