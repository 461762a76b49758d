//! `cargo xtask test`: all tests that need no outside tool.

use std::env;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _};
use std::num::NonZero;
use std::ops::AddAssign;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

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

/// All sets that are tested.
pub(crate) const ALL: [Set; 3] = [Set::Plain, Set::Torch, Set::Codec];

/// The variable in which Rust's test programs find how many tests to run at a time.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// The tests to run.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    /// Whether tests that take minutes run, too.
    pub(crate) long: bool,
    /// Arguments that are passed on to every test program.
    pub(crate) rest: &'a [String],
}

/// Numbers of tests, by result.
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
/// When tests could not be built, or when one failed, after all others have run.
pub(crate) fn test(
    workspace: &Workspace,
    ready: &Ready,
    sets: &[Set],
    options: &Options<'_>,
) -> Result<()> {
    // The program first: those of its tests that live in other packages are offered no path to it.
    let [gular] = cargo::build(workspace, ready, Set::Plain, [&cargo::GULAR])?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    // Without libjpeg-turbo, the first set already tests the codecs of the third.
    let sets: Vec<Set> =
        sets.iter().copied().filter(|set| *set != Set::Codec || ready.turbo).collect();
    let run = |set: Set| {
        let mut command = tests(workspace, ready, set);
        command.args(["--no-fail-fast", "--"]).args(options.rest);
        if options.long {
            command.env("GULAR_LONG_TESTS", "1");
        }
        command.env("GULAR_BIN", &gular);
        // Many tests wait, for a server that is slow on purpose or for a lock.
        if env::var_os(TEST_THREADS).is_none() {
            command.env(TEST_THREADS, (4 * cores).to_string());
        }
        command
    };
    let Some((first, others)) = sets.split_first() else { return Ok(()) };
    let ended = thread::scope(|scope| -> Result<Vec<Ended>> {
        // Lines of the other sets, which run beside the first and are shown when it has ended.
        let (say, said) = mpsc::channel();
        let mut beside = None;
        let stderr = if io::stderr().is_terminal() { Stderr::Shown } else { Stderr::Said };
        let first = counted(run(*first), stderr, &mut |line| {
            println!("{line}");
            if !line.trim_start().starts_with("Running ") && !line.starts_with("running ") {
                return;
            }
            // Cargo has compiled the set, and lets others compile.
            beside.get_or_insert_with(|| {
                let say = say.clone();
                scope.spawn(move || -> Result<Vec<Ended>> {
                    let ended = others.iter().map(|set| {
                        compile_beside(tests(workspace, ready, *set));
                        counted(run(*set), Stderr::Said, &mut |line| {
                            let _ = say.send(line.to_owned());
                        })
                    });
                    ended.collect()
                })
            });
        })?;
        drop(say);
        said.into_iter().for_each(|line| println!("{line}"));
        let others = beside.map(|run| run.join().map_err(|panic| std::panic::resume_unwind(panic)));
        Ok([vec![first], others.transpose()?.transpose()?.unwrap_or_default()].concat())
    })?;
    let mut total = Counts::default();
    ended.iter().for_each(|ended| total += ended.counts);
    println!("\n{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    let broken: Vec<String> = ended.into_iter().filter_map(Ended::failure).collect();
    if !broken.is_empty() {
        bail!("not all tests passed; the failing runs were\n  {}", broken.join("\n  "));
    }
    Ok(())
}

/// The result of a `cargo test`.
#[derive(Debug, Clone)]
struct Ended {
    counts: Counts,
    /// The command, if it failed.
    failed: Option<String>,
    /// What cargo and Rust say of the programs that failed.
    reasons: Vec<String>,
}

impl Ended {
    /// The command and the reasons, if it failed.
    fn failure(self) -> Option<String> {
        let reasons = self.reasons.iter().map(|reason| format!("\n    {reason}"));
        Some(self.failed? + &reasons.collect::<String>())
    }
}

/// Whether this line says which test program failed, or how: one that crashes does not count its
/// tests, and none is said to have failed.
fn is_reason(line: &str) -> bool {
    const OF_CARGO: [&str; 3] =
        ["error: test failed", "error: doctest failed", "process didn't exit successfully"];
    // What Rust says before it ends a program: a full stack, a panic within a panic, no memory.
    const OF_RUST: [&str; 4] =
        [" has overflowed its stack", "fatal runtime error", "aborting", "memory allocation of"];
    let line = line.trim_start();
    OF_CARGO.iter().any(|start| line.starts_with(start))
        || OF_RUST.iter().any(|part| line.contains(part))
}

fn tests(workspace: &Workspace, ready: &Ready, set: Set) -> Command {
    let mut command = cargo::cargo(workspace, ready, "test");
    command.args(set.args(ready.turbo));
    command
}

/// Compiles the tests of one set while those of another run, many of which wait, with a lower
/// priority. Compiler errors are printed again when the tests should run.
fn compile_beside(mut build: Command) {
    build.args(["--no-run", "--quiet"]);
    let compile = move || {
        // On Linux each thread has its own priority, which the programs that it starts inherit.
        let _ = rustix::process::nice(10);
        build.stderr(Stdio::null());
        let _ = process::run(&mut build);
    };
    let _ = thread::spawn(compile).join();
}

/// Runs a `cargo test`, passing its lines on while adding up its results. `say` gets what it prints to stderr, too, where that does not go to the terminal.
fn counted(mut command: Command, stderr: Stderr, say: &mut dyn FnMut(&str)) -> Result<Ended> {
    let shown = process::line(&command);
    let (lines, pipe) = io::pipe().context("cannot make a pipe")?;
    if stderr == Stderr::Said {
        command.stderr(pipe.try_clone().context("cannot make a pipe")?);
    }
    let mut child =
        command.stdout(pipe).spawn().with_context(|| process::cannot_start(&command))?;
    // The lines end when nobody can write any more, and the command has the pipe, too.
    drop(command);
    let (mut counts, mut reasons) = (Counts::default(), Vec::new());
    for line in BufReader::new(lines).split(b'\n') {
        let line = line.with_context(|| format!("cannot read what `{shown}` prints"))?;
        let line = String::from_utf8_lossy(&line);
        say(&line);
        counts += Counts::of_line(&line).unwrap_or_default();
        if is_reason(&line) {
            reasons.push(line.trim_start().to_owned());
        }
    }
    let failed = !child.wait()?.success();
    Ok(Ended { counts, failed: failed.then_some(shown), reasons })
}

/// Where the errors of a `cargo test` are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stderr {
    /// On the terminal, with the progress of compiling.
    Shown,
    /// Among the lines of its output.
    Said,
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
    fn what_is_said_of_a_crash_is_kept() {
        for line in [
            "error: test failed, to rerun pass `-p gular-pack --test pack`",
            "  process didn't exit successfully: `target/debug/deps/pack-0` (signal: 6, SIGABRT)",
            "thread 'archives::names' (930) has overflowed its stack",
            "fatal runtime error: stack overflow, aborting",
            "memory allocation of 17179869184 bytes failed",
            "thread caused non-unwinding panic. aborting.",
        ] {
            assert!(is_reason(line), "{line}");
        }
        assert!(!is_reason("test interrupted::an_error_in_the_middle ... ok"));
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
