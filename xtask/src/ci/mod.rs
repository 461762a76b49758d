//! Runs everything that CI runs, one stage after another.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use gular_files::Size;

mod bare_machine;
mod deny;
mod fuzz;
mod older_line;
mod packages;
mod soak;

use self::bare_machine::BareMachine;
use crate::peers::venv;
use crate::setup::{self, Line, Ready};
use crate::workspace::Workspace;
use crate::{dist, lint, peers, test};

/// How long each fuzz target runs: long enough to try its seeds and similar inputs, or to search.
const FUZZ_SHORT: Duration = Duration::from_secs(4);
const FUZZ_LONG: Duration = Duration::from_secs(60);

/// Run all that CI runs: format, demo, test, lint, peers, soak, fuzz.
///
/// Demo and test are the two commands of README.md, on a machine that has only what README.md says
/// is needed. Clippy lints each crate while it is compiled for them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also the long tests, the tests without the tools that single ones use, the fuzz targets for
    /// a minute each and not for seconds, libtorch 2.7.0, the program and the wheel compiled for
    /// aarch64, the licences and sources of all crates, and the packages and the documentation of
    /// ours
    #[arg(long)]
    long: bool,
}

/// `cargo xtask ci`. Stops at the first stage that fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let mut stages = Stages::new(&workspace);
    stages.run("format", || lint::format(&workspace))?;
    venv::check_tools()?;
    let bare = BareMachine::prepare(&workspace)?;
    // Most of what the peers take is downloading their packages; meanwhile there is work to do.
    // Should it fail, `peers` tries again and says why.
    let packages = thread::spawn({
        let workspace = workspace.clone();
        move || venv::prepare(&workspace, &workspace.target.join("peers"))
    });
    // First: what is compiled here is not compiled again, and so was built on a bare machine.
    stages.run("demo", || bare.demo())?;
    let ready = stages.run("setup", || setup::prepare(&workspace, Line::Current))?;
    let linted = Ready { lints: true, ..ready.clone() };
    // Many tests and peers wait, for servers that are slow on purpose and for packages.
    let fuzz_targets = thread::spawn({
        let (workspace, ready) = (workspace.clone(), linted.clone());
        move || fuzz::build_targets(&workspace, &ready)
    });
    stages.run("test", || bare.test(args.long))?;
    if args.long {
        stages.run("long tests", || {
            let options = test::Options { long: true, rest: &[] };
            test::test(&workspace, &linted, &test::ALL, &options)
        })?;
    }
    stages.run("lint", || lint::build(&workspace, &linted))?;
    stages.run("peers", || {
        let _ = packages.join();
        peers::peers(&workspace, &linted, "", &[], args.long)
    })?;
    stages.run("soak", || soak::run(&workspace, &linted))?;
    let time = if args.long { FUZZ_LONG } else { FUZZ_SHORT };
    stages.run("fuzz", || {
        let built = fuzz_targets
            .join()
            .map_err(|_| anyhow!("building the fuzz targets failed (a panic)"))?;
        fuzz::run(&workspace, &linted, &built?, time)
    })?;
    if args.long {
        stages.run("deny", || deny::run(&workspace, &ready))?;
        stages.run("packages", || packages::run(&workspace, &ready))?;
        stages.run("aarch64", || dist::check_aarch64(&workspace, &ready))?;
        stages.run("libtorch 2.7.0", || older_line::run(&workspace))?;
    }
    stages.summary();
    Ok(())
}

/// Measures how long the stages take.
struct Stages<'a> {
    workspace: &'a Workspace,
    done: Vec<(&'static str, Duration)>,
}

impl<'a> Stages<'a> {
    fn new(workspace: &'a Workspace) -> Self {
        Self { workspace, done: Vec::new() }
    }

    fn run<T>(&mut self, name: &'static str, stage: impl FnOnce() -> Result<T>) -> Result<T> {
        eprintln!("\n== {name}");
        let start = Instant::now();
        let result = stage().with_context(|| format!("the stage `{name}` failed"));
        let took = start.elapsed();
        let free = gular_files::free(&self.workspace.target)
            .map_or_else(|_| "unknown".into(), |free| Size(free.bytes).to_string());
        let end = if result.is_ok() { "done" } else { "failed" };
        eprintln!("== {name}: {end} after {:.0} s, {free} of disk free", took.as_secs_f64());
        self.done.push((name, took));
        if result.is_err() {
            self.summary();
        }
        result
    }

    fn summary(&self) {
        let total: Duration = self.done.iter().map(|(_, took)| *took).sum();
        println!();
        for (name, took) in self.done.iter().chain([&("total", total)]) {
            println!("{name:<16}{:>6.0} s", took.as_secs_f64());
        }
    }
}
