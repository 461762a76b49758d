//! Format and clippy, warnings denied.

use anyhow::Result;

use crate::cargo::{Set, cargo};
use crate::process;
use crate::setup::{self, Line, Ready};
use crate::workspace::Workspace;

/// Check the format and run clippy with and without libtorch.
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
    format(workspace, ready)?;
    for set in sets {
        let mut clippy = cargo(workspace, ready, "clippy");
        clippy.args(set.args(ready.turbo)).args(["--all-targets", "--", "-D", "warnings"]);
        process::run(&mut clippy)?;
    }
    // What training jobs compile, which no build of the whole workspace does.
    let mut lean = cargo(workspace, ready, "clippy");
    lean.args(["--package=gular-bundle", "--no-default-features", "--", "-D", "warnings"]);
    process::run(&mut lean)
}

/// Lints what is tested while it is compiled, and so compiles each crate once: what
/// [`lint`] checks, the tests would compile again. `ready` says that what is built is linted.
pub(crate) fn build(workspace: &Workspace, ready: &Ready) -> Result<()> {
    format(workspace, ready)?;
    let mut all = cargo(workspace, ready, "build");
    process::run(all.args(Set::Plain.args(ready.turbo)).arg("--all-targets"))?;
    let mut lean = cargo(workspace, ready, "build");
    process::run(lean.args(["--package=gular-bundle", "--no-default-features"]))
}

fn format(workspace: &Workspace, ready: &Ready) -> Result<()> {
    process::run(cargo(workspace, ready, "fmt").args(["--all", "--check"]))
}
