//! All tests that need no outside tool.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::num::NonZero;
use std::ops::AddAssign;
use std::process::{Command, Stdio};
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Context, Result, bail};

use crate::cargo::{self, Set};
use crate::process;
use crate::setup::{self, Line, Ready};
use crate::workspace::Workspace;

/// Run all tests that need no outside tool: without libtorch, with it, and the codecs without
/// libjpeg-turbo.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Passed on to every test program, for instance a part of a test's name
    #[arg(last = true, value_name = "ARGS")]
    rest: Vec<String>,
}

/// All that is tested.
pub(crate) const ALL: [Set; 3] = [Set::Plain, Set::Torch, Set::Codec];

/// How many tests of a program run at a time, as Rust's test programs read it.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// What to run.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    /// Also the tests that take minutes.
    pub(crate) long: bool,
    /// Passed on to every test program.
    pub(crate) rest: &'a [String],
}

/// How many tests ended how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// `cargo xtask test`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let ready = setup::prepare(&workspace, Line::Current)?;
    test(&workspace, &ready, &ALL, &Options { long: false, rest: &args.rest })
}

/// The whole of it, on a machine that is set up.
///
/// # Errors
/// When a test failed or could not be built; after all others have run.
pub(crate) fn test(
    workspace: &Workspace,
    ready: &Ready,
    sets: &[Set],
    options: &Options<'_>,
) -> Result<()> {
    // The program first: those of its tests that live in other packages are offered no path to it.
    let [gular] = cargo::build(workspace, ready, Set::Plain, [&cargo::GULAR])?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let mut total = Counts::default();
    let mut broken = Vec::new();
    // Without libjpeg-turbo the first set has the codecs as they are in the third.
    let sets: Vec<Set> =
        sets.iter().copied().filter(|set| *set != Set::Codec || ready.turbo).collect();
    // The scope waits for the compilation beside the tests when one of them cannot be run, too.
    thread::scope(|scope| -> Result<()> {
        let mut beside: Option<ScopedJoinHandle<'_, ()>> = None;
        for (n, set) in sets.iter().enumerate() {
            if let Some(built) = beside.take() {
                let _ = built.join();
            }
            let mut command = tests(workspace, ready, *set);
            command.args(["--no-fail-fast", "--"]).args(options.rest);
            if options.long {
                command.env("GULAR_LONG_TESTS", "1");
            }
            command.env("GULAR_BIN", &gular);
            // Many tests wait, for a server that is slow on purpose or for a lock.
            if env::var_os(TEST_THREADS).is_none() {
                command.env(TEST_THREADS, (4 * cores).to_string());
            }
            let next = sets.get(n + 1).map(|next| {
                let mut build = tests(workspace, ready, *next);
                build.args(["--no-run", "--quiet"]);
                build
            });
            let compile_next = || beside = next.map(|build| scope.spawn(|| compile_beside(build)));
            let (counts, success) = counted(&mut command, compile_next)?;
            total += counts;
            if !success {
                broken.push(process::line(&command));
            }
        }
        Ok(())
    })?;
    println!("\n{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    if !broken.is_empty() {
        bail!("not all tests passed; the failing runs were\n  {}", broken.join("\n  "));
    }
    Ok(())
}

fn tests(workspace: &Workspace, ready: &Ready, set: Set) -> Command {
    let mut command = cargo::cargo(workspace, ready, "test");
    command.args(set.args(ready.turbo));
    command
}

/// Compiles the tests of the next set while those of this one run, many of which wait; gives way
/// to them. What fails to compile is said again when its turn has come.
fn compile_beside(mut build: Command) {
    // On Linux a thread has a priority of its own, which the programs that it starts take over.
    let _ = rustix::process::nice(10);
    let _ = process::run(&mut build);
}

/// Runs a `cargo test`, passing its lines on while adding up its results. `compiled` is called
/// once it has compiled all, since cargo lets nobody else compile before.
fn counted(command: &mut Command, compiled: impl FnOnce()) -> Result<(Counts, bool)> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| process::cannot_start(command))?;
    let mut counts = Counts::default();
    let mut compiled = Some(compiled);
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line
                .with_context(|| format!("cannot read what `{}` prints", process::line(command)))?;
            // The first line is a test program's.
            if let Some(compiled) = compiled.take() {
                compiled();
            }
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            counts += Counts::of_line(&line).unwrap_or_default();
        }
    }
    Ok((counts, child.wait()?.success()))
}

impl Counts {
    /// Reads `test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; …`.
    fn of_line(line: &str) -> Option<Self> {
        let (_, results) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |name: &str| {
            let part = results.split("; ").find_map(|part| part.trim().strip_suffix(name))?;
            part.trim().parse().ok()
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            skipped: count("ignored")?,
        })
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn check(line: &str, expected: Option<(u64, u64, u64)>) {
        let found =
            Counts::of_line(line).map(|counts| (counts.passed, counts.failed, counts.skipped));
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn result_lines_are_counted_and_no_others() {
        check(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s",
            Some((12, 0, 1)),
        );
        check(
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            Some((1, 2, 0)),
        );
        check("test fails ... ok", None);
        check("a test printed test result: ok. 9 passed; 0 failed; 0 ignored", None);
    }

    /// A room's test program is put together by hand, so a file could be left out of it.
    #[test]
    fn every_test_file_belongs_to_a_program() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("in the workspace");
        let mut n_files = 0;
        for room in ["", "crates", "tutorials"].iter().flat_map(|dir| folders(&root.join(dir))) {
            let Ok(program) = fs::read_to_string(room.join("tests/main.rs")) else { continue };
            let manifest = fs::read_to_string(room.join("Cargo.toml")).expect("a package");
            for file in fs::read_dir(room.join("tests")).expect("a folder of tests") {
                let path = file.expect("an entry").path();
                let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
                let Some(module) = name.strip_suffix(".rs").filter(|name| *name != "main") else {
                    continue;
                };
                let included = program.lines().any(|line| line == format!("mod {module};"))
                    || manifest.contains(&format!("\"tests/{name}\""));
                assert!(included, "`{}` is in no test program", path.display());
                n_files += 1;
            }
        }
        assert!(n_files > 5, "only {n_files} test files were found");
    }

    fn folders(dir: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).expect("a folder of the workspace");
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect()
    }
}
