//! Measures an image for a Python program: rebuilds after the program changed, and an import from
//! the SIF compared with the same packages in a virtual environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use xtask::process;
use xtask::workspace::Workspace;

use super::machine;

/// What is measured and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// A folder with `image.toml`, its lock, and the files that it names; `[app]` has a `path`
    #[arg(long, value_name = "DIR")]
    recipe: PathBuf,
    /// A virtual environment with the same packages
    #[arg(long, value_name = "DIR")]
    venv: PathBuf,
    /// What both run
    #[arg(long, value_name = "PYTHON", default_value = "import torch")]
    statement: String,
    /// Measured rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

const SCRIPT: &str = include_str!("python_image.py");

/// Runs it all, as root: the image is mounted, and page caches are dropped.
pub(crate) fn run(
    workspace: &Workspace,
    gular: &Path,
    settings: &Settings,
    work: &Path,
) -> Result<()> {
    ensure!(settings.rounds > 0, "`--rounds` is at least 1");
    if work.exists() {
        fs::remove_dir_all(work)?;
    }
    fs::create_dir_all(work)?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "python3", "-c", SCRIPT]).arg(gular);
    command.arg(std::path::absolute(&settings.recipe)?);
    command.arg(std::path::absolute(&settings.venv)?);
    command.arg(&settings.statement).arg(settings.rounds.to_string()).arg(work);
    command.arg(workspace.root.join("tests/peers")).env("GULAR_BIN", gular);
    let said = process::stdout_of(&mut command)?;
    let mut record: Value = serde_json::from_str(&said).context("the script said no JSON")?;
    record["bench"] = json!("python-image");
    record["machine"] = machine();
    println!("{record}");
    fs::remove_dir_all(work)?;
    Ok(())
}
