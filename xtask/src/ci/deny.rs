//! Checks the licences, bans and sources of all crates against `deny.toml`.

use anyhow::Result;

use crate::cargo::cargo;
use crate::process::{self, command, find};
use crate::setup::Ready;
use crate::workspace::Workspace;

/// The newest when this was written; installed where there is none.
const VERSION: &str = "0.20.2";

/// Runs `cargo deny` for both workspaces. Advisories are left out: they come from a database on
/// the network, and change without a change here.
pub(super) fn run(workspace: &Workspace, ready: &Ready) -> Result<()> {
    let home = workspace.target.join("deny");
    let own = home.join("bin/cargo-deny");
    let program = match find("cargo-deny") {
        Some(program) => program,
        None => {
            if !own.is_file() {
                let mut install = cargo(workspace, ready, "install");
                install.args(["--locked", "--debug", "--version", VERSION, "cargo-deny", "--root"]);
                process::run(install.arg(&home))?;
            }
            own
        }
    };
    // Packages that deny.toml lists as duplicates must be in the workspace twice; the fuzz targets
    // need fewer.
    for (manifest, unmatched) in [("Cargo.toml", "--deny"), ("fuzz/Cargo.toml", "--allow")] {
        let mut deny = command(&program);
        deny.current_dir(&workspace.root).args(["--all-features", "--config", "deny.toml"]);
        deny.args(["--manifest-path", manifest, "check", unmatched, "unmatched-skip"]);
        process::run(deny.args(["licenses", "bans", "sources"]))?;
    }
    Ok(())
}
