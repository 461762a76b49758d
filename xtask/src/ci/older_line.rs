//! Builds the same sources with the older libtorch, in a copy with a separate lock file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo::{Set, cargo};
use crate::process::{self, command};
use crate::setup::{self, Line};
use crate::workspace::Workspace;

/// Tests what uses libtorch against [`Line::Older`].
pub(super) fn run(workspace: &Workspace) -> Result<()> {
    let line = Line::Older;
    let ready = setup::prepare(workspace, line)?;
    let home = workspace.target.join(format!("line-{line}"));
    let copy = Workspace { root: home.join("source"), target: home.join("build") };
    copy_sources(&workspace.root, &copy.root)?;
    let in_copy = |verb: &str| {
        let mut command = cargo(&copy, &ready, verb);
        command.env("CARGO_TARGET_DIR", &copy.target);
        command
    };
    process::run(in_copy("update").args(["--package", "tch", "--precise", line.tch()]))?;
    process::run(in_copy("test").args(Set::Torch.args(false)))
}

/// Copies what git tracks, and what it would if asked, as it is on disk now.
fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    let mut list = command("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(from);
    let names = process::stdout_of(&mut list)?;
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("cannot empty `{}`", to.display()))?;
    }
    for name in names.split_terminator('\0') {
        let (source, target) = (from.join(name), to.join(name));
        if !source.is_file() {
            continue; // deleted and not yet committed
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot make `{}`", parent.display()))?;
        }
        fs::copy(&source, &target)
            .with_context(|| format!("cannot copy `{}`", source.display()))?;
    }
    Ok(())
}
