//! `cargo xtask check`: what can be checked in minutes and without a network.

use anyhow::Result;

use crate::cargo::Set;
use crate::setup;
use crate::workspace::Workspace;
use crate::{lint, test};

/// Lint and test all that needs no libtorch; nothing is downloaded but crates.
///
/// The format of all sources; clippy on the workspace without libtorch and on the fuzz targets;
/// the tests of rooms and programs, and those of the codecs without libjpeg-turbo. `cargo xtask
/// ci` adds what uses libtorch, the peers, the demo, and runs the fuzz targets.
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
