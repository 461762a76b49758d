//! Installs cmake from the package index if the system has none; libjpeg-turbo needs it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{download, require_free};
use crate::process::{self, command};
use crate::workspace::Workspace;

// The last release before 4, which dropped support for policies that C
// projects of this age still declare.
const PACKAGE: &str = "cmake==3.31.10";

/// cmake's own program in the folder set-up makes. The `bin/cmake` beside it
/// is a Python script that finds its package only with PYTHONPATH set.
pub(super) fn program(workspace: &Workspace) -> PathBuf {
    workspace.target.join("tools/cmake/data/bin/cmake")
}

/// The cmake that is there: `CMAKE`, as the crate `cmake` reads it, else from
/// `PATH`, else the one set-up made.
pub(super) fn find(workspace: &Workspace) -> Option<PathBuf> {
    let given = env::var_os("CMAKE").map(PathBuf::from).and_then(process::find);
    let own = program(workspace);
    given.or_else(|| process::find("cmake")).or_else(|| own.is_file().then_some(own))
}

pub(super) fn install(workspace: &Workspace, python: &Path) -> Result<()> {
    let (home, part) = (workspace.target.join("tools"), workspace.target.join("tools.part"));
    if program(workspace).is_file() {
        return Ok(()); // another run made it while we waited for the lock
    }
    // cmake is 29 MB to download, and 82 MB unpacked.
    require_free(&workspace.target, 150_000_000, "setting up cmake")?;
    eprintln!("setting up {PACKAGE} in `{}`", workspace.relative(&home).display());
    for old in [&part, &home] {
        let _ = fs::remove_dir_all(old);
    }
    fs::create_dir_all(&part).with_context(|| format!("cannot make `{}`", part.display()))?;
    let mut pip = download::pip(python);
    pip.args(["install", "--no-deps", "--only-binary=:all:", "--no-compile", PACKAGE, "--target"])
        .arg(part.join("unpacked"));
    pip.env("TMPDIR", &part);
    download::watch(&mut pip, &part.join("pip.log"), || {}).context("cannot install cmake")?;
    fs::rename(part.join("unpacked"), &home)
        .with_context(|| format!("cannot rename `{}`", part.display()))?;
    let _ = fs::remove_dir_all(&part);
    let works = process::succeeds(command(program(workspace)).arg("--version"));
    ensure!(
        works,
        "`{}` does not run\nhint: install your system's cmake",
        program(workspace).display()
    );
    Ok(())
}
