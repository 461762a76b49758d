//! Builds a recipe's program with cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gular_containers::Error;
use gular_containers::make::{Compile, Program};
use gular_containers::recipe::App;
use serde_json::Value;

/// Runs cargo, whose messages go to stderr.
pub(super) struct Cargo {
    /// Cargo's name for how to compile: `release`, `dev`, or one of the workspace's own.
    pub(super) profile: String,
    pub(super) offline: bool,
    pub(super) quiet: bool,
}

impl Compile for Cargo {
    fn compile(&self, app: &App, package: &str, dir: &Path) -> Result<Program, Error> {
        let bin = match &app.bin {
            Some(bin) => bin.clone(),
            None => only_program(app, package, dir)?,
        };
        let text = output(
            &mut self.rustc(app, package, &bin, dir),
            &format!("build `{bin}` of the package `{package}`"),
        )?;
        let path = programs(&text)
            .into_iter()
            .next()
            .ok_or_else(|| failed(format!("cargo did not report a program `{bin}`"), None))?;
        let cargo_lock = lock_file(&text).and_then(|path| std::fs::read_to_string(path).ok());
        Ok(Program { path, cargo_lock })
    }
}

impl Cargo {
    /// The program looks for its libraries in `../lib` beside its folder, where the
    /// image has them.
    fn rustc(&self, app: &App, package: &str, bin: &str, dir: &Path) -> Command {
        let mut cargo = cargo(app, "rustc", dir);
        cargo.args(["--profile", &self.profile, "--package", package, "--bin", bin]);
        cargo.arg("--message-format=json-render-diagnostics");
        if self.offline {
            cargo.arg("--offline");
        }
        if self.quiet {
            cargo.arg("--quiet");
        }
        if !app.features.is_empty() {
            cargo.arg("--features").arg(app.features.join(","));
        }
        cargo.args(["--", "-C", "link-arg=-Wl,-rpath,$ORIGIN/../lib"]);
        cargo
    }
}

fn failed(reason: String, hint: Option<String>) -> Error {
    Error::Program { reason, hint }
}

/// The package's only program, or that of its name.
fn only_program(app: &App, package: &str, dir: &Path) -> Result<String, Error> {
    let mut cargo = cargo(app, "metadata", dir);
    cargo.args(["--no-deps", "--format-version", "1"]);
    let text = output(&mut cargo, "read the workspace")?;
    let metadata: Value = serde_json::from_str(&text).unwrap_or_default();
    let packages: Vec<&Value> = metadata["packages"].as_array().into_iter().flatten().collect();
    let Some(found) = packages.iter().find(|found| found["name"] == package) else {
        let names: Vec<_> = packages.iter().filter_map(|found| found["name"].as_str()).collect();
        let message = format!("the cargo workspace has no package `{package}`");
        return Err(failed(message, Some(format!("its packages are {}", names.join(", ")))));
    };
    let targets = found["targets"].as_array().into_iter().flatten();
    let bins = targets.filter(|target| {
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "bin"))
    });
    let names: Vec<&str> = bins.filter_map(|target| target["name"].as_str()).collect();
    match &names[..] {
        [one] => Ok((*one).to_owned()),
        [] => {
            let hint = "choose a package with a `src/main.rs` or a `[[bin]]`";
            let message = format!("the package `{package}` does not contain a program");
            Err(failed(message, Some(hint.to_owned())))
        }
        several if several.contains(&package) => Ok(package.to_owned()),
        several => {
            let message =
                format!("the package `{package}` has several programs: {}", several.join(", "));
            Err(failed(message, Some("choose one with `bin = \"…\"` in `[app]`".to_owned())))
        }
    }
}

/// `cargo VERB` in the workspace around the recipe, or the one it names.
fn cargo(app: &App, verb: &str, dir: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg(verb).current_dir(dir);
    if let Some(manifest) = &app.manifest {
        cargo.arg("--manifest-path").arg(manifest);
    }
    cargo
}

/// Returns what cargo prints on stdout.
fn output(cargo: &mut Command, what: &str) -> Result<String, Error> {
    let output = cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|e| {
        let hint =
            "install Rust (https://rustup.rs), or give a program that is already built: `path = \"…\"` in `[app]`";
        failed(format!("cannot start `cargo`: {e}"), Some(hint.to_owned()))
    })?;
    if !output.status.success() {
        let hint = "see cargo's message above";
        let message = format!("cargo could not {what}: {}", output.status);
        return Err(failed(message, Some(hint.to_owned())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
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
