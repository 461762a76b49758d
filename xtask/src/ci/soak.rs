//! Publishes and fetches through servers that fail in every way we know, with a fixed seed; also with
//! the real XRootD and the real Pelican behind them, where they are installed.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::cargo::{BENCH, GULAR, Set, build};
use crate::peers::servers::pelican::Pelican;
use crate::peers::servers::xrootd::{Mode, Started, XRootD, work_folder};
use crate::process::{self, command};
use crate::setup::Ready;
use crate::workspace::Workspace;

/// Runs the soak with the program that the other stages test.
pub(super) fn run(workspace: &Workspace, ready: &Ready) -> Result<()> {
    let [bench, gular] = build(workspace, ready, Set::Plain, [&BENCH, &GULAR])?;
    let soak = |more: &[&str]| {
        let args = ["soak", "--seed", "1"];
        process::run(command(&bench).args(args).args(more).arg("--gular").arg(&gular))
    };
    soak(&[])?;
    let dir = work_folder(&workspace.target.join("soak-xrootd"))?;
    let missing = missing(&workspace.root.join("tests/peers/xrootd"), &dir)?;
    let _ = fs::remove_dir_all(&dir);
    let behind = |name| soak(&["--behind", name, "--objects", "400", "--seconds", "20"]);
    match missing {
        Some(missing) => eprintln!("skip soak of XRootD: {missing}"),
        None => behind("xrootd")?,
    }
    if Pelican::is_installed() {
        behind("pelican")?;
    } else {
        eprintln!("skip soak of Pelican: the program `pelican` is not in PATH");
    }
    Ok(())
}

/// What a server with tokens lacks on this machine, and how to install it. It is started once to find
/// out.
fn missing(scripts: &Path, dir: &Path) -> Result<Option<String>> {
    Ok(match XRootD::start(scripts, dir, Mode::Token)? {
        Started::Missing(what) => Some(what),
        Started::Ready(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn any_part_of_the_server_that_is_missing_is_a_skip() {
        let dir = tempfile::tempdir().unwrap();
        let start = |says: &str| {
            let script = dir.path().join("start.sh");
            fs::write(&script, format!("#!/bin/sh\n{says}\n")).unwrap();
            fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
            missing(dir.path(), &dir.path().join("work"))
        };
        let plugin = "libXrdAccSciTokens.so missing, install: apt-get install xrootd-plugins";
        assert_eq!(start(&format!("echo '{plugin}'")).unwrap().as_deref(), Some(plugin));
        assert_eq!(start("echo ready http://localhost:1/test; sleep 5").unwrap(), None);
        assert!(start("echo sorry").is_err());
    }
}
