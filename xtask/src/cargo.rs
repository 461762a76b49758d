//! Decides which packages and features are built. No other file does.
//!
//! Cargo unites the features of all packages that it builds together, so packages that must work
//! without libtorch are built separately. Everything except benchmarks and images is built in one
//! of two sets, with the dev profile, so that demo, tests and peers share the compiled crates.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{self, command};
use crate::setup::Ready;
use crate::workspace::{Workspace, cargo_program};

/// Packages built together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// All packages that need no libtorch.
    Plain,
    /// Packages that can use libtorch, built with it.
    Torch,
    /// The codecs without libjpeg-turbo, which the other two have where it can be built.
    Codec,
}

/// A program that cargo builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Artifact {
    /// The package, and its folder: several may have a test of one name.
    package: (&'static str, &'static str),
    /// The kind of target: `bin`, `example` or `test`.
    kind: &'static str,
    name: &'static str,
    /// Features of a release build besides the default ones.
    features: &'static [&'static str],
}

/// The package that cannot be built without libtorch.
const TRAIN_PACKAGE: &str = "gular-train";
/// The short program beside it, which is empty without its feature `torch`.
const MINIMAL_PACKAGE: &str = "gular-minimal";
/// The tutorial of scenes, which is also empty without its feature `torch`.
const EARTH_PACKAGE: &str = "gular-earth";
/// The library of the Python package.
const PYTHON_PACKAGE: &str = "gular-python";
/// `turbo` is the one default feature of all that can be built without libjpeg-turbo.
const WITHOUT_TURBO: &str = "--no-default-features";
/// Asks for what the other set needs of shared crates; see there.
const FEATURES_PACKAGE: &str = "xtask-features";

/// The compiler with clippy's lints: what `cargo clippy` starts to check, and what compiles as well.
const CLIPPY: &str = "clippy-driver";
/// The flag with which `cargo clippy` passes on `-D warnings`.
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

const CODEC: (&str, &str) = ("gular-codec", "crates/codec");
const CONTAINERS: (&str, &str) = ("gular-containers", "containers");
const FEDERATION_ROOM: (&str, &str) = ("gular-federation", "crates/federation");
const RUNTIME: (&str, &str) = ("gular-runtime", "runtime");
const SQUASHFS: (&str, &str) = ("gular-squashfs", "crates/squashfs");

/// The command line tool, without libtorch.
pub const GULAR: Artifact = Artifact::new(("gular", "cli"), "bin", "gular", &[]);
/// The tutorial's trainer.
pub const TRAIN: Artifact =
    Artifact::new((TRAIN_PACKAGE, "tutorials/train"), "bin", "gular-train", &[]);
/// The tutorial of scenes.
pub const EARTH: Artifact =
    Artifact::new((EARTH_PACKAGE, "tutorials/earth"), "bin", "gular-earth", &["torch"]);
/// The shortest trainer.
pub const MINIMAL: Artifact =
    Artifact::new((MINIMAL_PACKAGE, "tutorials/minimal"), "bin", "gular-minimal", &["torch"]);
/// The benchmarks.
pub const BENCH: Artifact =
    Artifact::new(("xtask-bench", "xtask/bench"), "bin", "xtask-bench", &[]);
/// The program that writes the pages as HTML.
pub const DOCS: Artifact = Artifact::new(("xtask-docs", "xtask/docs"), "bin", "xtask-docs", &[]);
/// The program that makes the images of the demo.
pub const DEMO_IMAGES: Artifact = Artifact::new(CODEC, "example", "demo_images", &[]);
/// A director in front of other servers.
pub const DIRECTOR: Artifact = Artifact::new(FEDERATION_ROOM, "example", "director", &[]);
/// The GPU path's checks and rates.
pub const GPU: Artifact = Artifact::new(RUNTIME, "example", "gpu", &["cuda"]);
/// Times of large photographs.
pub const LARGE_PHOTOS: Artifact = Artifact::new(CODEC, "example", "large_photos", &[]);
/// The loader's turns in its benchmark.
pub const LOADER_RATES: Artifact =
    Artifact::new(RUNTIME, "example", "loader_rates", &["net", "torch"]);
/// Times of packing in its benchmark.
pub const PACK_RATES: Artifact =
    Artifact::new(("gular-bench", "bench"), "example", "pack_rates", &[]);
/// Prints the batches of an epoch, for Python to compare.
pub const PRINT_BATCHES: Artifact = Artifact::new(RUNTIME, "example", "print_batches", &[]);
/// A program that prints an order, for Python to compare.
pub const PRINT_ORDER: Artifact = Artifact::new(RUNTIME, "example", "print_order", &[]);
/// A bundle of very many shards.
pub const SCALE: Artifact = Artifact::new(("gular-order", "crates/order"), "example", "scale", &[]);
/// A program that prints a tally, for Python to compare.
pub const PRINT_TALLY: Artifact = Artifact::new(RUNTIME, "example", "print_tally", &[]);
/// A program that writes metrics, for `TensorBoard` to read.
pub const WRITE_METRICS: Artifact = Artifact::new(RUNTIME, "example", "write_metrics", &[]);
/// A program that says which glibc a program needs.
pub const GLIBC_NEEDED: Artifact = Artifact::new(CONTAINERS, "example", "glibc_needed", &[]);
/// A program that makes an image of a folder.
pub const SIF_OF_DIR: Artifact = Artifact::new(CONTAINERS, "example", "sif_of_dir", &[]);
/// A program that makes a `SquashFS` image of a folder.
pub const SQUASH_DIR: Artifact = Artifact::new(SQUASHFS, "example", "squash_dir", &[]);
/// A program that writes the inputs that fuzzing starts from.
pub const FUZZ_SEEDS: Artifact = Artifact::new(("gular-tests", "tests"), "bin", "fuzz-seeds", &[]);
/// Publishing to a federation and fetching from it.
pub const FEDERATION: Artifact =
    Artifact::new(("gular-tests", "tests"), "test", "publish_and_fetch", &[]);

impl Artifact {
    const fn new(
        package: (&'static str, &'static str),
        kind: &'static str,
        name: &'static str,
        features: &'static [&'static str],
    ) -> Self {
        Self { package, kind, name, features }
    }
}

impl Set {
    /// The package selection for cargo; `turbo` says whether libjpeg-turbo can be built.
    #[must_use]
    pub fn args(self, turbo: bool) -> Vec<&'static str> {
        let mut args = match self {
            Self::Plain => vec!["--workspace", "--exclude", TRAIN_PACKAGE],
            Self::Torch => vec![
                "-p",
                "gular-runtime",
                "-p",
                TRAIN_PACKAGE,
                "-p",
                MINIMAL_PACKAGE,
                "-p",
                EARTH_PACKAGE,
                "-p",
                FEATURES_PACKAGE,
                "--features",
                "gular-runtime/cuda,gular-earth/torch,gular-minimal/torch",
            ],
            Self::Codec => vec!["-p", "gular-codec"],
        };
        if !turbo || self == Self::Codec {
            args.push(WITHOUT_TURBO);
        }
        args
    }
}

/// Returns the command `cargo VERB …` in the workspace, able to find libtorch. In CI a lock file
/// that does not match the manifests is an error; elsewhere cargo updates it.
#[must_use]
pub fn cargo(workspace: &Workspace, ready: &Ready, verb: &str) -> Command {
    let mut cargo = command(cargo_program());
    cargo.arg(verb).current_dir(&workspace.root);
    let resolves = ["build", "clippy", "test"].contains(&verb);
    if resolves && env::var_os("CI").is_some_and(|value| value == "true") {
        cargo.arg("--locked");
    }
    forget_own_package(&mut cargo);
    ready.apply(&mut cargo);
    if ready.lints {
        lint_what_is_compiled(&mut cargo);
    }
    cargo
}

/// Lets what `command` compiles of the workspace be linted, with warnings denied.
pub(crate) fn lint_what_is_compiled(command: &mut Command) {
    command.env("RUSTC_WORKSPACE_WRAPPER", CLIPPY).env("CLIPPY_ARGS", DENY_WARNINGS);
}

/// Keeps from `command` what cargo told us about our own package: build scripts that look at it
/// would run again, and all that depends on them be compiled again, each time that cargo is
/// called from here and then from a shell.
pub(crate) fn forget_own_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let own = name.to_string_lossy();
        if own.starts_with("CARGO_PKG_") || own.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

/// Builds programs of `set` as its tests are built, and returns their paths.
///
/// # Errors
/// When one could not be built.
pub fn build<const N: usize>(
    workspace: &Workspace,
    ready: &Ready,
    set: Set,
    artifacts: [&Artifact; N],
) -> Result<[PathBuf; N]> {
    let mut build = cargo(workspace, ready, "build");
    build.arg("--message-format=json-render-diagnostics").args(set.args(ready.turbo));
    for artifact in artifacts {
        build.arg(format!("--{}", artifact.kind)).arg(artifact.name);
    }
    let messages = messages(&mut build)?;
    let mut paths = [const { PathBuf::new() }; N];
    for (path, artifact) in paths.iter_mut().zip(artifacts) {
        *path = artifact.path(&messages, workspace, &build)?;
    }
    Ok(paths)
}

/// Builds the library of the Python package as [`build`] builds programs, and returns its path.
///
/// # Errors
/// When it could not be built.
pub fn build_python(workspace: &Workspace, ready: &Ready) -> Result<PathBuf> {
    let mut build = cargo(workspace, ready, "build");
    build.arg("--message-format=json-render-diagnostics").args(Set::Plain.args(ready.turbo));
    // This builds the libraries of all packages; the others are built already, for the programs.
    build.arg("--lib");
    python_library(workspace, &mut build)
}

/// Builds the library of the Python package for speed, and returns its path.
///
/// # Errors
/// When it could not be built.
pub fn build_python_release(workspace: &Workspace, ready: &Ready) -> Result<PathBuf> {
    let mut build = cargo(workspace, ready, "build");
    build.args(["--release", "--message-format=json-render-diagnostics", "-p", PYTHON_PACKAGE]);
    build.arg("--lib");
    if !ready.turbo {
        build.arg(WITHOUT_TURBO);
    }
    python_library(workspace, &mut build)
}

/// Runs `build`, and returns the path of the library of the Python package.
fn python_library(workspace: &Workspace, build: &mut Command) -> Result<PathBuf> {
    library(&messages(build)?, &workspace.root.join("python"))
        .with_context(|| format!("`{}` named no library of Python", process::line(build)))
}

/// Builds one program for speed, with everything it can use, and returns its path.
///
/// # Errors
/// When it could not be built.
pub fn build_release(workspace: &Workspace, ready: &Ready, artifact: &Artifact) -> Result<PathBuf> {
    let mut build = cargo(workspace, ready, "build");
    build.args(["--release", "--message-format=json-render-diagnostics", "-p", artifact.package.0]);
    build.arg(format!("--{}", artifact.kind)).arg(artifact.name);
    for feature in artifact.features {
        build.args(["--features", feature]);
    }
    if !ready.turbo {
        build.arg(WITHOUT_TURBO);
    }
    artifact.path(&messages(&mut build)?, workspace, &build)
}

/// Returns the messages of a build: one JSON object per line.
fn messages(build: &mut Command) -> Result<String> {
    let output =
        build.stderr(Stdio::inherit()).output().with_context(|| process::cannot_start(build))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", process::line(build), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Artifact {
    /// Returns the program's path, as the messages of `build` name it.
    fn path(&self, messages: &str, workspace: &Workspace, build: &Command) -> Result<PathBuf> {
        let dir = workspace.root.join(self.package.1);
        executable(messages, &dir, self.name)
            .with_context(|| format!("`{}` named no program `{}`", process::line(build), self.name))
    }
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

/// The path of the library of the package in `dir` in cargo's messages.
fn library(messages: &str, dir: &Path) -> Option<PathBuf> {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut of_package = artifacts.filter(|value| {
        value["reason"] == "compiler-artifact"
            && value["manifest_path"].as_str().is_some_and(|p| Path::new(p).starts_with(dir))
    });
    of_package.find_map(|value| value["filenames"][0].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

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

    #[test]
    fn the_library_of_python_is_found_among_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","filenames":["/t/libgular_runtime.rlib"],"manifest_path":"/w/runtime/Cargo.toml"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","filenames":["/t/lib_gular.so"],"manifest_path":"/w/python/Cargo.toml"}"#,
        );
        let found = |dir| library(messages, Path::new(dir));
        assert_eq!(found("/w/python"), Some("/t/lib_gular.so".into()));
        assert_eq!(found("/w/cli"), None);
    }

    /// Returns what cargo would build for `args` and these kinds of dependency: `PACKAGE|FEATURES`.
    fn tree(args: &[&str], edges: &str) -> String {
        let mut tree = command(cargo_program());
        // Not offline: crates of the other sets may not be downloaded yet.
        tree.args(["tree", "--prefix=none", "--format={p}|{f}", "--edges", edges]);
        tree.args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
        process::stdout_of(&mut tree).expect("cargo tells")
    }

    /// Returns each foreign package of the tree, with the sets of features that it gets.
    fn features(args: &[&str], edges: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut packages = BTreeMap::<_, BTreeSet<_>>::new();
        for line in tree(args, edges).lines() {
            let line = line.trim_end_matches(" (*)");
            // A package of the workspace is printed with its folder.
            if let Some((package, features)) = line.split_once('|').filter(|_| !line.contains("(/"))
            {
                packages.entry(package.to_owned()).or_default().insert(features.to_owned());
            }
        }
        packages
    }

    /// The package is in the workspace, so cargo builds it with all others in any case.
    #[test]
    fn without_libjpeg_turbo_no_set_asks_for_its_tools() {
        for set in [Set::Plain, Set::Torch, Set::Codec] {
            for turbo in [true, false] {
                let text = tree(&set.args(turbo), "normal,build,dev");
                let asks = text.lines().any(|line| {
                    line.starts_with("gular-codec-tools ") && line.contains("|required")
                });
                assert_eq!(asks, turbo && set != Set::Codec, "{set:?}");
                assert_eq!(text.contains("turbojpeg-sys "), asks, "{set:?}");
            }
        }
    }

    #[test]
    fn no_set_asks_of_a_shared_crate_what_another_does_not() {
        let (tested, built) = ("normal,build,dev", "normal,build");
        let (plain, torch) = (Set::Plain.args(true), Set::Torch.args(true));
        let all = features(&plain, tested);
        assert!(all.len() > 100, "only {} packages were found", all.len());
        for (name, args, edges) in [
            ("without tests", &plain, built),
            ("with libtorch", &torch, tested),
            ("with libtorch, without tests", &torch, built),
            ("xtask", &vec!["-p", "xtask"], built),
        ] {
            for (package, asked) in features(args, edges) {
                let Some(known) = all.get(&package) else { continue };
                let other: Vec<_> = asked.difference(known).collect();
                assert!(
                    other.is_empty(),
                    "{name}: {package} is compiled again with {other:?}, not {known:?}: \
                     let `xtask/features` ask for all of it"
                );
            }
        }
    }
}
