//! Makes the Python package `gular` without a wheel, for tests and for machines without pip.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::workspace::{Workspace, empty};

/// Makes `dir` with the package in it, of its Python files and `library`, as it is in the wheel.
///
/// # Errors
/// When a file cannot be read or written.
pub fn make(workspace: &Workspace, library: &Path, dir: &Path) -> Result<()> {
    empty(dir)?;
    let (from, to) = (workspace.root.join("python/gular"), dir.join("gular"));
    fs::create_dir(&to).with_context(|| format!("cannot make `{}`", to.display()))?;
    let entries =
        fs::read_dir(&from).with_context(|| format!("cannot list `{}`", from.display()))?;
    let files = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
    let files = files.with_context(|| format!("cannot list `{}`", from.display()))?;
    let copies = files.iter().filter(|file| file.is_file()).filter_map(|file| {
        let name = file.file_name()?;
        Some((file.as_path(), to.join(name)))
    });
    for (file, copy) in copies.chain([(library, to.join("_gular.abi3.so"))]) {
        fs::copy(file, &copy).with_context(|| format!("cannot copy `{}`", file.display()))?;
    }
    Ok(())
}
