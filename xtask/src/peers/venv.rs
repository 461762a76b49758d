//! The Python environment of the peer tests, in the target folder.

use std::fs;
use std::io::{IsTerminal as _, stderr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process::{self, command};
use crate::setup::{self, Missing, Tool};
use crate::workspace::Workspace;

/// Every package with its version, those that others depend on included: pip
/// resolves nothing. `mosaicml-streaming` asks for an older numpy than it needs
/// and for the SDKs of five clouds; with what its writer imports it is 6 MB.
const REQUIREMENTS: &str = include_str!("../../peers/requirements.txt");

/// Packages of the long tests alone, in a folder beside: TensorFlow, JAX, Lightning, accelerate,
/// transformers, torchdata, Ray, torchgeo.
const LONG: &str = include_str!("../../peers/requirements-long.txt");

// These packages are 0.6 GB of wheels.
const LONG_BYTES: u64 = 3_500_000_000;

// PyTorch brings its CUDA libraries along: 4.6 GB installed, 2.7 GB of wheels
// beside it until pip is done.
const NEEDED_BYTES: u64 = 8_000_000_000;

/// # Errors
/// When there is no Python that can make the environment.
pub(crate) fn check_tools() -> Result<()> {
    let mut missing = Missing::default();
    missing.need(Tool::Venv, setup::venv());
    missing.check()
}

/// Makes `dir/venv` unless it is there with these very packages.
///
/// An environment cannot be renamed, its scripts hold its path; a stamp
/// written last says that it is whole.
pub fn prepare(workspace: &Workspace, dir: &Path) -> Result<PathBuf> {
    let (venv, stamp, scratch) = (dir.join("venv"), dir.join("venv.stamp"), dir.join("scratch"));
    if fs::read_to_string(&stamp).is_ok_and(|text| text == REQUIREMENTS)
        && venv.join("bin/python").exists()
    {
        return Ok(venv);
    }
    for old in [&venv, &scratch] {
        if old.exists() {
            fs::remove_dir_all(old)
                .with_context(|| format!("cannot remove `{}`", old.display()))?;
        }
    }
    fs::create_dir_all(&scratch).with_context(|| format!("cannot make `{}`", scratch.display()))?;
    setup::require_free(dir, NEEDED_BYTES, "setting up the peer tests")?;
    check_tools()?;
    eprintln!(
        "setting up the peer tests' Python packages in `{}`",
        workspace.relative(&venv).display()
    );
    let python =
        setup::venv().context("no Python 3.11 or newer with the module `venv` was found")?;
    process::run(command(python).args(["-m", "venv"]).arg(&venv))?;
    let requirements = dir.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS)
        .with_context(|| format!("cannot write `{}`", requirements.display()))?;
    let mut pip = command(venv.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "--no-cache-dir",
        "install",
    ]);
    pip.args(["--only-binary=:all:", "--no-compile", "--no-deps", "--requirement"])
        .arg(&requirements)
        .env("TMPDIR", &scratch);
    if !stderr().is_terminal() {
        pip.arg("--quiet");
    }
    process::run(&mut pip).context("cannot install the peer tests' Python packages")?;
    let _ = fs::remove_dir_all(&scratch);
    fs::write(&stamp, REQUIREMENTS)
        .with_context(|| format!("cannot write `{}`", stamp.display()))?;
    Ok(venv)
}

/// Makes `dir/long`, the packages that the long peer tests need besides, unless it is there with
/// these very ones; for PYTHONPATH.
pub(super) fn prepare_long(workspace: &Workspace, dir: &Path) -> Result<PathBuf> {
    let (folder, stamp) = (dir.join("long"), dir.join("long.stamp"));
    if fs::read_to_string(&stamp).is_ok_and(|text| text == LONG) && folder.exists() {
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    setup::require_free(dir, LONG_BYTES, "setting up the long peer tests")?;
    eprintln!("setting up more Python packages in `{}`", workspace.relative(&folder).display());
    let requirements = dir.join("requirements-long.txt");
    fs::write(&requirements, LONG)
        .with_context(|| format!("cannot write `{}`", requirements.display()))?;
    let mut pip = command(dir.join("venv/bin/python"));
    pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "--no-cache-dir"]);
    pip.args(["install", "--only-binary=:all:", "--no-compile", "--no-deps", "--quiet"]);
    pip.arg("--requirement").arg(&requirements).arg("--target").arg(&folder);
    process::run(&mut pip).context("cannot install the long peer tests' Python packages")?;
    fs::write(&stamp, LONG).with_context(|| format!("cannot write `{}`", stamp.display()))?;
    Ok(folder)
}
