//! What can be checked in minutes and without a network.

use anyhow::Result;

use crate::cargo::Set;
use crate::setup;
use crate::workspace::Workspace;
use crate::{lint, test};

/// Lint and test all that needs no libtorch; nothing is downloaded but crates.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// `cargo xtask check`.
pub(crate) fn run(_args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let ready = setup::without_libtorch(&workspace)?;
    lint::lint(&workspace, &ready, &[Set::Plain])?;
    let sets = [Set::Plain, Set::Codec];
    test::test(&workspace, &ready, &sets, &test::Options { long: false, rest: &[] })
}
