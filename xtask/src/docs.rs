//! `cargo xtask docs`: builds and runs the package that writes the pages as HTML.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cargo::{self, Set};
use crate::process::{self, command};
use crate::setup::{self, Ready};
use crate::workspace::Workspace;

/// Write README, docs, tutorials and FORMAT.md as one folder of HTML.
///
/// The folder needs no server: open its index.html. Search, light and dark colours and
/// everything else are in it; nothing is asked of another server. A link that leads nowhere
/// is an error.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder; an earlier one is replaced [default: target/docs]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// `cargo xtask docs`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let ready = setup::without_libtorch(&workspace)?;
    let out = args.out.clone().unwrap_or_else(|| workspace.target.join("docs"));
    write(&workspace, &ready, &out)
}

/// Writes the folder to `out`.
pub(crate) fn write(workspace: &Workspace, ready: &Ready, out: &Path) -> Result<()> {
    let [docs] = cargo::build(workspace, ready, Set::Plain, [&cargo::DOCS])?;
    process::run(command(docs).args([&workspace.root, out]))
}
