//! Finds the workspace and its target folder.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::{self, command};

/// The workspace that this program was built from.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The folder of the workspace's Cargo.toml.
    pub root: PathBuf,
    /// Cargo's target folder, by default `target` in `root`.
    pub target: PathBuf,
}

impl Workspace {
    /// Asks cargo, so that `CARGO_TARGET_DIR` and configuration files count.
    pub fn locate() -> Result<Self> {
        let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let mut metadata = command(cargo_program());
        metadata.args(["metadata", "--no-deps", "--format-version=1"]).current_dir(&manifest_dir);
        let text = process::stdout_of(&mut metadata)?;
        let value: Value =
            serde_json::from_str(&text).context("`cargo metadata` did not answer with JSON")?;
        let folder = |key: &str| {
            value[key]
                .as_str()
                .map(PathBuf::from)
                .with_context(|| format!("`cargo metadata` has no `{key}`"))
        };
        Ok(Self { root: folder("workspace_root")?, target: folder("target_directory")? })
    }

    /// `path` as a person in the workspace root would type it.
    pub fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}

/// The cargo that runs this program, else the one in `PATH`.
pub fn cargo_program() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// Makes `dir`, without what an earlier run left in it.
pub fn empty(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot empty `{}`", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))
}
