//! Builds and runs the fuzz targets with the stable compiler.
//!
//! ```text
//! target/fuzz/seeds/TARGET/    what `fuzz-seeds` writes, made again each time
//! fuzz/corpus/TARGET/          what earlier runs found on this machine
//! fuzz/artifacts/TARGET/       inputs on which the target failed
//! ```

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use crate::cargo::{FUZZ_SEEDS, Set, build, cargo};
use crate::process::{self, command};
use crate::setup::Ready;
use crate::workspace::Workspace;

// The flags of `cargo fuzz`, without the address sanitizer, which would need a nightly compiler.
// libFuzzer still sees the branches taken, and panics, endless loops and large allocations are
// still found.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions";

/// Builds every target of `fuzz` and says where the programs are. Other stages run meanwhile, so
/// there is one job, and it gives way to them: the calling thread keeps a low priority.
pub(super) fn build_targets(workspace: &Workspace, ready: &Ready) -> Result<PathBuf> {
    // On Linux each thread has its own priority, which the programs that it starts inherit. If the
    // call is refused, the other stages only wait longer.
    let _ = rustix::process::nice(19);
    let host = process::stdout_of(command("rustc").args(["--print", "host-tuple"]))?;
    let build_dir = workspace.target.join("fuzz");
    let mut targets = cargo(workspace, ready, "build");
    // With `--target`, the flags do not apply to build scripts and macros.
    targets
        .args(["--quiet", "--jobs", "1", "--release", "--bins", "--target", host.trim()])
        .arg("--manifest-path")
        .arg(workspace.root.join("fuzz/Cargo.toml"));
    targets.env("RUSTFLAGS", RUSTFLAGS).env("CARGO_TARGET_DIR", &build_dir);
    process::run(&mut targets)?;
    Ok(build_dir.join(host.trim()).join("release"))
}

/// Runs each target for `time`, on seeds and on what earlier runs found; as many at once as there
/// are processors, since each has one thread.
pub(super) fn run(
    workspace: &Workspace,
    ready: &Ready,
    programs: &Path,
    time: Duration,
) -> Result<()> {
    let seeds = workspace.target.join("fuzz/seeds");
    if seeds.exists() {
        fs::remove_dir_all(&seeds)
            .with_context(|| format!("cannot clear `{}`", seeds.display()))?;
    }
    let [write_seeds] = build(workspace, ready, Set::Plain, [&FUZZ_SEEDS])?;
    process::run(command(write_seeds).arg(&seeds))?;
    let names = target_names(workspace)?;
    for name in &names {
        ensure!(seeds.join(name).is_dir(), "`fuzz-seeds` writes no seeds for the target `{name}`");
    }
    let jobs = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            run_one(workspace, programs, &seeds.join(name), name, time)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.get()).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().map_err(|_| anyhow!("a thread that fuzzes a target failed (a panic)"))?
        })
    })
}

/// Runs one target; what it says of itself is shown when it has ended.
fn run_one(
    workspace: &Workspace,
    programs: &Path,
    seeds: &Path,
    name: &str,
    time: Duration,
) -> Result<()> {
    let home = workspace.root.join("fuzz");
    let corpus = home.join("corpus").join(name);
    let artifacts = home.join("artifacts").join(name);
    for dir in [&corpus, &artifacts] {
        fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
    }
    let mut fuzz = command(programs.join(name));
    fuzz.arg(format!("-max_total_time={}", time.as_secs()));
    fuzz.args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"]);
    fuzz.arg(format!("-artifact_prefix={}/", artifacts.display()));
    // New inputs are written to the first folder.
    fuzz.arg(&corpus).arg(seeds);
    let output = fuzz.output().with_context(|| process::cannot_start(&fuzz))?;
    let said = String::from_utf8_lossy(&output.stderr);
    eprintln!("fuzzed `{name}`\n{said}");
    ensure!(
        output.status.success(),
        "`{name}` failed ({}) on an input kept in `{}`",
        output.status,
        artifacts.display()
    );
    Ok(())
}

fn target_names(workspace: &Workspace) -> Result<Vec<String>> {
    let dir = workspace.root.join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot list `{}`", dir.display()))?;
    let names = entries.filter_map(|entry| {
        entry.ok()?.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned)
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    Ok(names)
}
