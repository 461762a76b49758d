//! Licences, bans and sources of all crates, as `deny.toml` allows them.

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
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let mut deny = command(&program);
        deny.current_dir(&workspace.root).args(["--all-features", "--manifest-path", manifest]);
        deny.args(["check", "--config"]).arg(workspace.root.join("deny.toml"));
        process::run(deny.args(["licenses", "bans", "sources"]))?;
    }
    Ok(())
}
