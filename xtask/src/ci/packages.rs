//! Checks what people outside this workspace get of the libraries: packages and documentation.

use anyhow::Result;

use crate::cargo::{Set, cargo};
use crate::process;
use crate::setup::Ready;
use crate::workspace::Workspace;

/// Packages that are of use in this workspace alone.
const OURS: [&str; 9] = [
    "gular-earth",
    "gular-minimal",
    "gular-python",
    "gular-tests",
    "gular-train",
    "xtask",
    "xtask-bench",
    "xtask-docs",
    "xtask-features",
];

/// Makes the packages of all others, without compiling them again, and the documentation of all libraries.
pub(super) fn run(workspace: &Workspace, ready: &Ready) -> Result<()> {
    let mut package = cargo(workspace, ready, "package");
    package.args(["--workspace", "--no-verify", "--allow-dirty", "--quiet"]);
    process::run(package.args(OURS.iter().flat_map(|name| ["--exclude", name])))?;
    let mut doc = cargo(workspace, ready, "doc");
    // The words of programs are help, and not Markdown.
    doc.args(["--no-deps", "--lib"]).args(Set::Plain.args(ready.turbo));
    process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}
