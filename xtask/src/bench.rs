//! `cargo xtask bench`: builds and runs the package of the benchmarks.

use std::ffi::OsString;

use anyhow::Result;

use crate::cargo::{self, Set};
use crate::process::{self, command};
use crate::setup::{self, Line};
use crate::workspace::Workspace;

/// Measure against the peers, in one run: `cargo xtask bench --help` shows what there is.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What to measure, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    rest: Vec<OsString>,
}

/// `cargo xtask bench`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let ready = setup::prepare(&workspace, Line::Current)?;
    let [bench] = cargo::build(&workspace, &ready, Set::Plain, [&cargo::BENCH])?;
    process::run(command(bench).args(&args.rest))
}
