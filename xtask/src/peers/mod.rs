//! Peer tests: the real tools read what we write, and the reverse.
//!
//! A peer test is a Python file in `tests/peers`. It runs in an empty folder,
//! with our programs' paths in its environment, and prints one line for each
//! thing it found out: `ok NAME`, `fail NAME: why`, or
//! `skip NAME: TOOL missing, install: …`. It exits with 0 unless it failed.
//!
//! The suite of federations (`tests/tests/publish_and_fetch`) runs here too, once for
//! each real server.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};

mod optional;
pub mod servers;
mod tally;
pub mod venv;

use self::servers::Server;
use self::tally::{Tally, named, tally_of};
use crate::cargo::{self, Set};
use crate::image;
use crate::process::{self, command};
use crate::python_package;
use crate::setup::{self, Line, Ready};
use crate::workspace::{Workspace, empty};

/// Many wait, for a server, a scheduler or a process that is to be killed.
const FILES_AT_ONCE: usize = 3;

/// Run the peer tests: PyTorch, TensorBoard, XRootD and others, and we, understand each other.
///
/// Their Python packages go into `target/peers` (2.7 GB to download, 4.6 GB on
/// disk, once). XRootD's servers come from the system's packages. A program `pelican`
/// (client and server) in PATH is started as a whole federation of its own. It and
/// `apptainer` are in no package archive: where one is missing, its checks are skipped, as
/// are those of public job files where github.com cannot be reached.
///
/// With GULAR_TEST_FEDERATION=URL the checks of federations run against that one
/// instead of XRootD's servers: `cargo xtask peers federation` runs them alone.
/// URL is a collection they may write below; BEARER_TOKEN_FILE names a token with
/// storage.read and storage.create for it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only files and servers whose name contains this
    #[arg(value_name = "PART")]
    filter: Option<String>,
    /// Fail where this is missing: `pelican`, `apptainer` or `github.com`; may be repeated
    #[arg(long, value_name = "TOOL", value_parser = optional::parse_required)]
    require: Vec<String>,
    /// Also those of tests/peers/long, whose Python packages take 2 GB more
    #[arg(long)]
    long: bool,
}

/// `cargo xtask peers`.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    venv::check_tools()?;
    let ready = setup::prepare(&workspace, Line::Current)?;
    peers(&workspace, &ready, args.filter.as_deref().unwrap_or_default(), &args.require, args.long)
}

/// Runs the files and servers whose names contain `filter`, on a machine that is
/// set up.
///
/// # Errors
/// When one failed, after all have run; in CI also when one was skipped, since
/// there every tool is meant to be installed that can be; and when one was skipped
/// whose tool is `required`.
pub fn peers(
    workspace: &Workspace,
    ready: &Ready,
    filter: &str,
    required: &[String],
    long: bool,
) -> Result<()> {
    let dir = workspace.root.join("tests/peers");
    let mut files = peer_files(&dir, filter)?;
    let long = if long { peer_files(&dir.join("long"), filter)? } else { Vec::new() };
    let mut servers = Server::all();
    servers.retain(|server| server.name().contains(filter));
    ensure!(
        !files.is_empty() || !long.is_empty() || !servers.is_empty(),
        "no peer's name contains `{filter}`"
    );
    let mut surroundings = None;
    if !files.is_empty() || !long.is_empty() {
        let mut prepared = Surroundings::prepare(workspace, ready)?;
        if !long.is_empty() {
            let more = venv::prepare_long(workspace, &workspace.target.join("peers"))?;
            prepared.variables_of_long.insert("PYTHONPATH", more.into_os_string());
            files.extend(long);
        }
        // A tutorial builds the image again, of the blocks that this leaves in the cache.
        let has_image = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("image_") || name == "tutorials_run.py"
        };
        if files.iter().any(has_image) {
            prepared.build_image(workspace, ready)?;
        }
        surroundings = Some(prepared);
    }
    // The servers' checks mostly wait, so they run beside the files. They begin after the image,
    // since XRootD fails more often beside a compiler.
    let total = thread::scope(|scope| -> Result<Tally> {
        let beside = scope.spawn(|| match servers.is_empty() {
            true => Ok(Tally::default()),
            false => servers::run(workspace, ready, &servers),
        });
        let mut total = match &surroundings {
            Some(surroundings) => surroundings.run_all(workspace, &files)?,
            None => Tally::default(),
        };
        total.add(beside.join().map_err(|panic| std::panic::resume_unwind(panic))??);
        Ok(total)
    })?;
    println!(
        "\n{} ok, {} failed, {} skipped",
        total.ok.len(),
        total.failed.len(),
        total.skipped.len()
    );
    for unsteady in &total.unsteady {
        println!("unsteady: {unsteady}");
    }
    let in_ci = env::var_os("CI").is_some_and(|value| value == "true");
    let mut bad = total.failed;
    let skips = optional::judge(&total.skipped, required, in_ci);
    for note in &skips.notes {
        println!("{note}");
    }
    bad.extend(skips.failed);
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
    files.sort();
    Ok(files)
}

/// The programs, variables and folders of peer tests.
struct Surroundings {
    python: PathBuf,
    /// The compiled trainer.
    train: PathBuf,
    variables: BTreeMap<&'static str, OsString>,
    /// Additional variables of the long tests.
    variables_of_long: BTreeMap<&'static str, OsString>,
    /// The folder in which each test gets an empty folder.
    work: PathBuf,
}

impl Surroundings {
    fn prepare(workspace: &Workspace, ready: &Ready) -> Result<Self> {
        let home = workspace.target.join("peers");
        let venv = venv::prepare(workspace, &home)?;
        let programs = [&cargo::TRAIN, &cargo::EARTH, &cargo::MINIMAL];
        let [train, earth, minimal] = cargo::build(workspace, ready, Set::Torch, programs)?;
        let programs = [
            &cargo::GULAR,
            &cargo::PRINT_BATCHES,
            &cargo::PRINT_ORDER,
            &cargo::PRINT_TALLY,
            &cargo::SIF_OF_DIR,
            &cargo::SQUASH_DIR,
            &cargo::WRITE_METRICS,
        ];
        let [gular, example, ..] = cargo::build(workspace, ready, Set::Plain, programs)?;
        let examples = example.parent().context("a program is in a folder")?;
        let package = home.join("python");
        let library = cargo::build_python(workspace, ready)?;
        python_package::make(workspace, &library, &package)?;
        let mut path = OsString::from(venv.join("bin"));
        if let Some(inherited) = env::var_os("PATH") {
            path.push(":");
            path.push(inherited);
        }
        let variables = BTreeMap::from([
            ("GULAR_BIN", gular.into_os_string()),
            ("GULAR_EARTH_BIN", with_libtorch(&earth, ready, &home)?.into_os_string()),
            ("GULAR_MINIMAL_BIN", with_libtorch(&minimal, ready, &home)?.into_os_string()),
            ("GULAR_TRAIN_BIN", with_libtorch(&train, ready, &home)?.into_os_string()),
            ("GULAR_PEER_EXAMPLES", examples.into()),
            ("GULAR_PYTHON", package.into_os_string()),
            ("PATH", path),
            ("PYTHONDONTWRITEBYTECODE", "1".into()),
            ("PYTHONUNBUFFERED", "1".into()),
        ]);
        let (python, work) = (venv.join("bin/python"), home.join("work"));
        Ok(Self { python, train, variables, variables_of_long: BTreeMap::new(), work })
    }

    /// Builds the tutorial's image in every format, and names the report to the tests.
    fn build_image(&mut self, workspace: &Workspace, ready: &Ready) -> Result<()> {
        let dir = self.work.join("images");
        empty(&dir)?;
        let formats = "sif,oci,oci-archive";
        let report = dir.join("built.json");
        let gular = Path::new(&self.variables["GULAR_BIN"]);
        // Cargo would compile the trainer again, alone and for speed, and all that it is made of.
        let words = ["build", "--locked", "--json", "--format", formats, "--program"];
        let mut arguments: Vec<OsString> = words.map(OsString::from).into();
        arguments.extend([self.train.clone().into(), "--out".into(), dir.into()]);
        eprintln!("building the tutorial's image");
        let text = process::stdout_of(&mut image::command_of(workspace, ready, gular, &arguments))?;
        fs::write(&report, text).with_context(|| format!("cannot write `{}`", report.display()))?;
        self.variables.insert("GULAR_IMAGES", report.into_os_string());
        self.variables.insert("GULAR_IMAGE_CACHE", image::cache(workspace).into_os_string());
        self.variables.insert("GULAR_IMAGE_PROGRAM", self.train.clone().into_os_string());
        Ok(())
    }

    /// Runs `files`, several at a time.
    fn run_all(&self, workspace: &Workspace, files: &[PathBuf]) -> Result<Tally> {
        let next = AtomicUsize::new(0);
        let run_some = || -> Result<Tally> {
            let mut total = Tally::default();
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                eprintln!("peer {}", workspace.relative(file).display());
                total.add(self.run(file)?);
            }
            Ok(total)
        };
        thread::scope(|scope| {
            let runs: Vec<_> = (0..FILES_AT_ONCE).map(|_| scope.spawn(run_some)).collect();
            let mut total = Tally::default();
            for run in runs {
                total.add(run.join().map_err(|panic| std::panic::resume_unwind(panic))??);
            }
            Ok(total)
        })
    }

    /// Runs one file; its folder stays when it fails.
    fn run(&self, file: &Path) -> Result<Tally> {
        let work = self.work.join(file.file_stem().unwrap_or_default());
        empty(&work)?;
        let mut peer = command(&self.python);
        peer.arg(file).current_dir(&work).envs(&self.variables);
        if file.parent().is_some_and(|dir| dir.ends_with("long")) {
            peer.envs(&self.variables_of_long);
        }
        // Python's torch has its own libtorch, and ours has no `libtorch.so` it could load.
        peer.env_remove("LD_LIBRARY_PATH");
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.trim_end_matches(".py");
        let tally = tally_of(&mut peer, &name, |line| named(line, stem))?;
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
