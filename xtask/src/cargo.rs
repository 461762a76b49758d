//! Which packages and features are built, decided here and nowhere else.
//!
//! Two sets, because cargo unites features of all packages it builds together:
//! what must work without libtorch is built without it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{self, command};
use crate::setup::Ready;
use crate::workspace::{Workspace, cargo_program};

/// Packages built together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// Everything that needs no libtorch, default features only.
    Plain,
    /// What has a form with libtorch or libjpeg-turbo, in that form.
    Torch,
}

/// A program other packages' tests, or a person, run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The command line tool; no libtorch in it.
    Gular,
    /// The tutorial's trainer.
    Train,
}

/// The package that cannot be built without libtorch.
const TRAIN: &str = "gular-train";
const TURBO: &str = "gular-codec/turbo";

impl Set {
    /// The package selection for cargo.
    pub(crate) fn args(self, turbo: bool) -> Vec<&'static str> {
        match (self, turbo) {
            (Self::Plain, _) => vec!["--workspace", "--exclude", TRAIN],
            (Self::Torch, false) => {
                vec!["-p", "gular-runtime", "-p", TRAIN, "--features", "gular-runtime/cuda"]
            }
            (Self::Torch, true) => {
                vec![
                    "-p",
                    "gular-runtime",
                    "-p",
                    TRAIN,
                    "-p",
                    "gular-codec",
                    "--features",
                    "gular-runtime/cuda,gular-codec/turbo",
                ]
            }
        }
    }
}

impl Program {
    fn package(self) -> &'static str {
        match self {
            Self::Gular => "gular",
            Self::Train => TRAIN,
        }
    }
}

/// Build settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Dev,
    Release,
}

/// `cargo VERB …` in the workspace, able to find libtorch.
pub(crate) fn cargo(workspace: &Workspace, ready: &Ready, verb: &str) -> Command {
    let mut cargo = command(cargo_program());
    cargo.arg(verb).current_dir(&workspace.root);
    // What cargo told us about ourselves: build scripts that look at it would run
    // again each time that cargo is called from here and then from a shell.
    for (name, _) in std::env::vars_os() {
        let own = name.to_string_lossy();
        if own.starts_with("CARGO_PKG_") || own.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    ready.apply(&mut cargo);
    cargo
}

/// Builds one program with everything it can use and returns its path.
pub(crate) fn build(
    workspace: &Workspace,
    ready: &Ready,
    program: Program,
    profile: Profile,
) -> Result<PathBuf> {
    let package = program.package();
    let mut build = cargo(workspace, ready, "build");
    build.args(["--message-format=json-render-diagnostics", "--bins", "-p", package]);
    if ready.turbo {
        build.args(["--features", TURBO, "-p", "gular-codec"]);
    }
    if profile == Profile::Release {
        build.arg("--release");
    }
    built(&mut build, &workspace.root, package)
}

/// Builds the test program `name` of the package in the folder `package` as
/// `cargo xtask test` does, and returns its path.
pub(crate) fn build_test(
    workspace: &Workspace,
    ready: &Ready,
    package: &str,
    name: &str,
) -> Result<PathBuf> {
    let mut build = cargo(workspace, ready, "test");
    build.args(["--message-format=json-render-diagnostics", "--no-run", "--test", name]);
    build.args(Set::Plain.args(ready.turbo));
    built(&mut build, &workspace.root.join(package), name)
}

/// Runs a build that prints messages, and finds the program `name` in them, of a
/// package below `dir`.
fn built(build: &mut Command, dir: &Path, name: &str) -> Result<PathBuf> {
    let output =
        build.stderr(Stdio::inherit()).output().with_context(|| process::cannot_start(build))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", process::line(build), output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    executable(&text, dir, name)
        .with_context(|| format!("`{}` named no program `{name}`", process::line(build)))
}

/// The path of the program `name` in cargo's messages, one JSON object a line.
/// Several packages may have a test of that name.
fn executable(messages: &str, dir: &Path, name: &str) -> Option<PathBuf> {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_below = |value: &Value| {
        value["manifest_path"].as_str().is_some_and(|p| Path::new(p).starts_with(dir))
    };
    let mut matching = artifacts.filter(|value| {
        value["reason"] == "compiler-artifact" && value["target"]["name"] == name && is_below(value)
    });
    matching.find_map(|value| value["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_found_among_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"gular"},"executable":null,"manifest_path":"/w/a/Cargo.toml"}"#,
            "\nnot JSON\n",
            r#"{"reason":"compiler-artifact","target":{"name":"gular"},"executable":"/t/1","manifest_path":"/w/a/Cargo.toml"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"gular"},"executable":"/t/2","manifest_path":"/w/b/Cargo.toml"}"#,
        );
        let found = |dir: &str, name: &str| executable(messages, Path::new(dir), name);
        assert_eq!(found("/w", "gular"), Some("/t/1".into()));
        assert_eq!(found("/w/b", "gular"), Some("/t/2".into()));
        assert_eq!(found("/w", "gular-train"), None);
    }
}
