//! Peer tests: the real tools read what we write, and the reverse.
//!
//! A peer test is a Python file in `tests/peers`. It runs in an empty folder,
//! with our programs' paths in its environment, and prints one line for each
//! thing it found out: `ok NAME`, `fail NAME: why`, or
//! `skip NAME: TOOL missing, install: …`. It exits with 0 unless it failed.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

mod venv;

use crate::cargo::{Set, cargo};
use crate::process::{self, command};
use crate::setup::{self, Line, Ready};
use crate::test::Programs;
use crate::workspace::Workspace;

/// Run the peer tests: PyTorch, TensorBoard and others read what we write.
///
/// Their Python packages go into `target/peers` (2.7 GB to download, 4.6 GB on
/// disk, once).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only files whose name contains this
    #[arg(value_name = "PART")]
    filter: Option<String>,
}

/// `cargo xtask peers`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    venv::check_tools()?;
    let ready = setup::prepare(&workspace, Line::Current)?;
    peers(&workspace, &ready, args.filter.as_deref().unwrap_or_default())
}

/// Runs the files whose names contain `filter`, on a machine that is set up.
///
/// # Errors
/// When one failed, after all have run; in CI also when one was skipped, since
/// there every tool is meant to be installed.
pub(crate) fn peers(workspace: &Workspace, ready: &Ready, filter: &str) -> Result<()> {
    let files = peer_files(&workspace.root.join("tests/peers"), filter)?;
    let surroundings = Surroundings::prepare(workspace, ready)?;
    let mut total = Tally::default();
    for file in &files {
        eprintln!("peer {}", workspace.relative(file).display());
        total.add(surroundings.run(file)?);
    }
    println!("\n{} ok, {} failed, {} skipped", total.ok, total.failed.len(), total.skipped.len());
    let in_ci = env::var_os("CI").is_some_and(|value| value == "true");
    let mut bad = total.failed;
    if in_ci {
        bad.extend(total.skipped);
    }
    ensure!(bad.is_empty(), "not all peer tests passed:\n  {}", bad.join("\n  "));
    Ok(())
}

fn peer_files(dir: &Path, filter: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list `{}`", dir.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".py") && !name.starts_with('_') && name.contains(filter) {
            files.push(path);
        }
    }
    ensure!(!files.is_empty(), "no file `*{filter}*.py` in `{}`", dir.display());
    files.sort();
    Ok(files)
}

/// What a peer test finds around it.
struct Surroundings {
    python: PathBuf,
    variables: BTreeMap<&'static str, OsString>,
    /// Where each test gets an empty folder.
    work: PathBuf,
}

impl Surroundings {
    fn prepare(workspace: &Workspace, ready: &Ready) -> Result<Self> {
        let home = workspace.target.join("peers");
        let venv = venv::prepare(workspace, &home)?;
        let programs = Programs::build(workspace, ready)?;
        process::run(
            cargo(workspace, ready, "build").args(Set::Plain.args(false)).arg("--examples"),
        )?;
        let mut path = OsString::from(venv.join("bin"));
        if let Some(inherited) = env::var_os("PATH") {
            path.push(":");
            path.push(inherited);
        }
        let variables = BTreeMap::from([
            ("GULAR_BIN", programs.gular.into_os_string()),
            ("GULAR_TRAIN_BIN", with_libtorch(&programs.train, ready, &home)?.into_os_string()),
            ("GULAR_PEER_EXAMPLES", workspace.target.join("debug/examples").into_os_string()),
            ("PATH", path),
            ("PYTHONDONTWRITEBYTECODE", "1".into()),
            ("PYTHONUNBUFFERED", "1".into()),
        ]);
        Ok(Self { python: venv.join("bin/python"), variables, work: home.join("work") })
    }

    /// Runs one file; its folder stays when it fails.
    fn run(&self, file: &Path) -> Result<Tally> {
        let work = self.work.join(file.file_stem().unwrap_or_default());
        if work.exists() {
            fs::remove_dir_all(&work)
                .with_context(|| format!("cannot empty `{}`", work.display()))?;
        }
        fs::create_dir_all(&work).with_context(|| format!("cannot make `{}`", work.display()))?;
        let mut peer = command(&self.python);
        peer.arg(file).current_dir(&work).envs(&self.variables);
        // Python's torch has its own libtorch, and ours has no `libtorch.so` it could load.
        peer.env_remove("LD_LIBRARY_PATH");
        let tally = tally_of(&mut peer, file)?;
        if tally.failed.is_empty() {
            fs::remove_dir_all(&work)
                .with_context(|| format!("cannot remove `{}`", work.display()))?;
        } else {
            eprintln!("what the test made is in `{}`", work.display());
        }
        Ok(tally)
    }
}

/// A shell script that runs `program` with our libtorch. The environment of the
/// test itself cannot hold LD_LIBRARY_PATH: Python would load that libtorch too.
fn with_libtorch(program: &Path, ready: &Ready, dir: &Path) -> Result<PathBuf> {
    let script = dir.join(program.file_name().context("a program has a name")?);
    fs::write(
        &script,
        format!("#!/bin/sh\n{}\nexec {} \"$@\"\n", ready.export_line(), setup::quote(program)),
    )
    .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)))
    .with_context(|| format!("cannot write `{}`", script.display()))?;
    Ok(script)
}

/// What the tests of one or more files found out.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    ok: usize,
    /// `NAME: why` of each.
    failed: Vec<String>,
    skipped: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.ok += other.ok;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }

    fn line(&mut self, line: &str) {
        if line.starts_with("ok ") {
            self.ok += 1;
        } else if let Some(rest) = line.strip_prefix("fail ") {
            self.failed.push(rest.into());
        } else if let Some(rest) = line.strip_prefix("skip ") {
            self.skipped.push(format!("{rest} (skipped)"));
        }
    }

    /// Adds what the exit code says and the lines did not.
    fn finish(&mut self, name: &str, success: bool, status: &str) {
        if !success && self.failed.is_empty() {
            self.failed.push(format!("{name}: ended with {status}"));
        }
        if success && *self == Self::default() {
            self.failed.push(format!("{name}: reported nothing"));
        }
    }
}

fn tally_of(peer: &mut Command, file: &Path) -> Result<Tally> {
    let mut child =
        peer.stdout(Stdio::piped()).spawn().with_context(|| process::cannot_start(peer))?;
    let mut tally = Tally::default();
    let Some(stdout) = child.stdout.take() else {
        bail!("cannot read what `{}` prints", file.display())
    };
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.with_context(|| format!("cannot read what `{}` prints", file.display()))?;
        let line = String::from_utf8_lossy(&line);
        println!("  {line}");
        tally.line(&line);
    }
    let status = child.wait()?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    tally.finish(&name, status.success(), &status.to_string());
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str, expected: (usize, &[&str], &[&str])) {
        let tally = tally_of(command("sh").args(["-c", script]), Path::new("tests/peers/x.py"))
            .expect("a shell");
        let (ok, failed, skipped) = expected;
        let owned =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(tally, Tally { ok, failed: owned(failed), skipped: owned(skipped) }, "{script}");
    }

    #[test]
    fn lines_and_exit_code_both_count() {
        check("echo ok a; echo ok b", (2, &[], &[]));
        check("echo ok a; echo 'fail b: too short'; exit 1", (1, &["b: too short"], &[]));
        check(
            "echo 'skip a: mtools missing, install: apt-get install mtools'",
            (0, &[], &["a: mtools missing, install: apt-get install mtools (skipped)"]),
        );
        check("echo ok a; exit 3", (1, &["x.py: ended with exit status: 3"], &[]));
        check("echo okay", (0, &["x.py: reported nothing"], &[]));
    }
}
