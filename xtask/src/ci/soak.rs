//! Publishes and fetches through servers that fail in every way we know, with a fixed seed.

use anyhow::Result;

use crate::cargo::{BENCH, GULAR, Set, build};
use crate::process::{self, command};
use crate::setup::Ready;
use crate::workspace::Workspace;

/// Runs the soak with the program that the other stages test.
pub(super) fn run(workspace: &Workspace, ready: &Ready) -> Result<()> {
    let [bench, gular] = build(workspace, ready, Set::Plain, [&BENCH, &GULAR])?;
    process::run(command(bench).args(["soak", "--seed", "1", "--gular"]).arg(gular))
}
