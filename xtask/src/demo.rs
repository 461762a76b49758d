//! The main job on one machine.

use anyhow::Result;

use crate::cargo::{self, Profile, Program};
use crate::setup::{self, Line};
use crate::workspace::Workspace;

/// Set up and build the programs the main job needs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// `cargo xtask demo`.
pub(crate) fn run(_args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let ready = setup::prepare(&workspace, Line::Current)?;
    let gular = cargo::build(&workspace, &ready, Program::Gular, Profile::Release)?;
    let train = cargo::build(&workspace, &ready, Program::Train, Profile::Release)?;
    for program in [gular, train] {
        eprintln!("built `{}`", workspace.relative(&program).display());
    }
    Ok(())
}
