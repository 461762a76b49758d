//! Builds the program of a recipe.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gular_containers::recipe::App;
use serde_json::Value;

use crate::exit::Failure;

/// A program, and the lock file of the workspace it was built in.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) cargo_lock: Option<String>,
}

/// The program a recipe names: built by cargo, or there already. `dir` is the recipe's.
pub(super) fn program(app: &App, dir: &Path) -> Result<Option<Program>, Failure> {
    if !app.embed {
        return Ok(None);
    }
    if let Some(path) = &app.path {
        return Ok(Some(Program { path: dir.join(path), cargo_lock: None }));
    }
    match &app.package {
        Some(package) => build(app, package, dir).map(Some),
        None => Ok(None),
    }
}

/// Runs cargo, whose own messages go to stderr. The program looks for its libraries
/// in `../lib` beside its folder, where the image has them.
fn build(app: &App, package: &str, dir: &Path) -> Result<Program, Failure> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["rustc", "--release", "--bins", "--package", package]);
    cargo.arg("--message-format=json-render-diagnostics").current_dir(dir);
    if let Some(manifest) = &app.manifest {
        cargo.arg("--manifest-path").arg(manifest);
    }
    if !app.features.is_empty() {
        cargo.arg("--features").arg(app.features.join(","));
    }
    cargo.args(["--", "-C", "link-arg=-Wl,-rpath,$ORIGIN/../lib"]);
    let output = cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|e| {
        let hint =
            "install Rust (https://rustup.rs), or name a built program: `path = \"…\"` in `[app]`";
        Failure::new(format!("cannot start `cargo`: {e}"), Some(hint.to_owned()))
    })?;
    if !output.status.success() {
        let hint =
            "see cargo's message above; build a program that links libtorch with LIBTORCH set";
        let message = format!("cargo could not build the package `{package}`: {}", output.status);
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let programs = programs(&text);
    let path = match &programs[..] {
        [one] => one.clone(),
        [] => {
            let hint = "name a package with a `src/main.rs` or a `[[bin]]`";
            let message = format!("the package `{package}` has no program");
            return Err(Failure::new(message, Some(hint.to_owned())));
        }
        several => {
            let named = several.iter().find(|path| path.file_name().is_some_and(|n| n == package));
            named.cloned().ok_or_else(|| {
                let names: Vec<_> =
                    several.iter().filter_map(|p| p.file_name()?.to_str()).collect();
                let message =
                    format!("the package `{package}` has several programs: {}", names.join(", "));
                let hint = "build it, and name one by `path = \"…\"` in `[app]`";
                Failure::new(message, Some(hint.to_owned()))
            })?
        }
    };
    let cargo_lock = lock_file(&text).and_then(|path| std::fs::read_to_string(path).ok());
    Ok(Program { path, cargo_lock })
}

/// Programs among cargo's messages, one JSON object a line.
fn programs(messages: &str) -> Vec<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let artifacts = messages.filter(|message| message["reason"] == "compiler-artifact");
    artifacts.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).collect()
}

/// The `Cargo.lock` that the program's package lies below.
fn lock_file(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut messages = messages;
    let program = messages.find(|message| message["executable"].is_string())?;
    let manifest = program["manifest_path"].as_str().map(PathBuf::from)?;
    manifest.ancestors().skip(1).map(|dir| dir.join("Cargo.lock")).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","executable":null,"manifest_path":"/w/a/Cargo.toml"}"#,
            "\nnot JSON\n",
            r#"{"reason":"compiler-artifact","executable":"/t/train","manifest_path":"/w/b/Cargo.toml"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(programs(messages), [PathBuf::from("/t/train")]);
    }
}
