//! Checks the format and runs clippy, with warnings as errors.

use std::fs;

use anyhow::{Context, Result};

use crate::cargo::{Set, cargo};
use crate::process::{self, command};
use crate::setup::{self, Line, Ready};
use crate::workspace::{Workspace, cargo_program};

/// The manifest of the fuzz targets, which are a workspace of their own.
const FUZZ: &str = "fuzz/Cargo.toml";

/// Check the format and run clippy with and without libtorch, the fuzz targets included.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// `cargo xtask lint`.
pub(crate) fn run(_args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let ready = setup::prepare(&workspace, Line::Current)?;
    lint(&workspace, &ready, &[Set::Plain, Set::Torch])
}

/// The whole of it, on a machine that is set up.
pub(crate) fn lint(workspace: &Workspace, ready: &Ready, sets: &[Set]) -> Result<()> {
    format(workspace)?;
    for set in sets {
        let mut clippy = cargo(workspace, ready, "clippy");
        clippy.args(set.args(ready.turbo)).args(["--all-targets", "--", "-D", "warnings"]);
        process::run(&mut clippy)?;
    }
    // Training jobs compile this, which no build of the whole workspace does.
    let mut lean = cargo(workspace, ready, "clippy");
    lean.args(["--package=gular-bundle", "--no-default-features", "--", "-D", "warnings"]);
    process::run(&mut lean)?;
    fuzz_targets(workspace, ready)
}

/// Lints what is tested while it is compiled, and so compiles each crate once: what
/// [`lint`] checks, the tests would compile again. `ready` says that what is built is linted.
pub(crate) fn build(workspace: &Workspace, ready: &Ready) -> Result<()> {
    let mut all = cargo(workspace, ready, "build");
    process::run(all.args(Set::Plain.args(ready.turbo)).arg("--all-targets"))?;
    let mut lean = cargo(workspace, ready, "build");
    process::run(lean.args(["--package=gular-bundle", "--no-default-features"]))
}

/// Checks the format of all sources.
pub(crate) fn format(workspace: &Workspace) -> Result<()> {
    for scope in [["--all", "--check"].as_slice(), &["--check", "--manifest-path", FUZZ]] {
        let mut fmt = command(cargo_program());
        process::run(fmt.arg("fmt").args(scope).current_dir(&workspace.root))?;
    }
    Ok(())
}

/// The fuzz targets: nothing else here compiles them, and they use many rooms.
fn fuzz_targets(workspace: &Workspace, ready: &Ready) -> Result<()> {
    let target = workspace.target.join("fuzz");
    // libFuzzer itself is C++, and takes longer to compile than everything else here. Nothing is
    // linked, so an empty file is enough.
    let library = target.join("checked/libfuzzer.a");
    let dir = library.parent().unwrap_or(&target);
    fs::create_dir_all(dir)
        .and_then(|()| if library.exists() { Ok(()) } else { fs::write(&library, "") })
        .with_context(|| format!("cannot write `{}`", library.display()))?;
    let mut clippy = cargo(workspace, ready, "clippy");
    clippy.args(["--manifest-path", FUZZ, "--bins", "--", "-D", "warnings"]);
    clippy.env("CARGO_TARGET_DIR", target).env("CUSTOM_LIBFUZZER_PATH", library);
    process::run(&mut clippy)
}
