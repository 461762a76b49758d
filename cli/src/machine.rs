//! `gular doctor` without a URL: what this machine has of what Gular uses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use gular_pelican::{Env, TokenHeld, token_places};
use gular_transfer::Cache;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::{hints, show, units};

/// Another program's answer is waited for this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most Pythons that are asked.
const MOST_PYTHONS: usize = 16;

/// With less free space in the cache's folder, few bundles can be fetched.
const LITTLE_SPACE: u64 = 10_000_000_000;

/// A bundle has thousands of files at most.
const FEW_FILES: u64 = 10_000;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What was found, and whether it needs something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// Works, or is missing where few need it.
    Note,
    Problem,
}

/// One line of the result.
#[derive(Debug, Serialize)]
struct Line {
    /// What was looked at, such as `wheel`.
    what: &'static str,
    /// `ok`, `note` or `problem`.
    verdict: Verdict,
    /// What was found.
    found: String,
    /// What to do about it.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct MachineReport {
    /// Whether there is no problem.
    well: bool,
    /// What was looked at, in the order of the text.
    lines: Vec<Line>,
}

/// What is found in one place.
struct Found(Verdict, String, Option<String>);

/// Looks at one part of a machine.
type Check = fn(&Machine) -> Vec<Found>;

/// What is looked at, and how.
const CHECKS: [(&str, Check); 9] = [
    ("program", program),
    ("wheel", wheels),
    ("libtorch", libtorch),
    ("GPU", gpus),
    ("cache", cache),
    ("tokens", tokens),
    ("batch", batch_systems),
    ("images", image_programs),
    ("namespaces", user_namespaces),
];

pub(crate) fn run(output: &Output) -> Result<Exit, Failure> {
    let machine = Machine::here();
    let mut lines = Vec::new();
    for (what, check) in CHECKS {
        let line = |Found(verdict, found, next)| Line { what, verdict, found, next };
        lines.extend(check(&machine).into_iter().map(line));
    }
    let well = lines.iter().all(|line| line.verdict != Verdict::Problem);
    let report = MachineReport { well, lines };
    match output.json {
        true => show::json(&report)?,
        false => show::text(&text(&report, output.quiet))?,
    }
    Ok(if well { Exit::Done } else { Exit::Unsound })
}

fn text(report: &MachineReport, quiet: bool) -> String {
    let mut text = String::new();
    let mut last = "";
    for Line { what, verdict, found, next } in &report.lines {
        let word = match verdict {
            Verdict::Problem => "PROBLEM",
            _ if quiet => continue,
            Verdict::Ok => "ok",
            Verdict::Note => "note",
        };
        let title = if *what == last { "" } else { what };
        last = what;
        let _ = writeln!(text, "{title:<10}  {word:<7}  {found}");
        if let Some(next) = next {
            let _ = writeln!(text, "  do: {next}");
        }
    }
    if !quiet {
        let verdict = if report.well {
            "no problem was found; `gular doctor URL` checks the servers of a federation"
        } else {
            "something is wrong: see the lines marked PROBLEM"
        };
        let _ = writeln!(text, "{verdict}");
    }
    text
}

/// The environment, and the folders of programs.
struct Machine {
    env: Env,
    path: Vec<PathBuf>,
}

impl Machine {
    fn here() -> Self {
        let env = Env::process();
        let path = env.get("PATH").map(|path| std::env::split_paths(path).collect());
        Self { path: path.unwrap_or_default(), env }
    }

    /// The first program with one of these names.
    fn program(&self, names: &[&str]) -> Option<PathBuf> {
        let at = |name: &&str| self.path.iter().map(|dir| dir.join(name)).find(|at| at.is_file());
        names.iter().find_map(at)
    }

    /// What a program says, if there is one.
    fn ask(&self, name: &str, arguments: &[&str]) -> Option<Result<String, String>> {
        self.program(&[name]).map(|program| ask(&program, arguments))
    }
}

/// What a program prints, else why it failed.
fn ask(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    // A program that writes more than a pipe holds must not wait for a reader.
    let out = std::thread::spawn(move || read(out));
    let err = std::thread::spawn(move || read(err));
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break status,
            None if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(5)),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {}", units::span(PATIENCE)));
            }
        }
    };
    let text = |read: std::thread::JoinHandle<String>| read.join().unwrap_or_default();
    let (out, err) = (text(out), text(err));
    if status.success() {
        return Ok(out.trim().to_owned());
    }
    let said = [err, out].into_iter().find_map(|text| text.lines().next().map(str::to_owned));
    Err(said.unwrap_or_else(|| format!("it ended with {status}")))
}

fn read(stream: Option<impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let _ = stream.take(1 << 16).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn ok(found: impl Into<String>) -> Found {
    Found(Verdict::Ok, found.into(), None)
}

fn note(found: impl Into<String>, next: &str) -> Found {
    Found(Verdict::Note, found.into(), Some(next.to_owned()))
}

fn problem(found: impl Into<String>, next: impl Into<String>) -> Found {
    Found(Verdict::Problem, found.into(), Some(next.into()))
}

fn program(machine: &Machine) -> Vec<Found> {
    let path =
        std::env::current_exe().map_or_else(|e| e.to_string(), |at| at.display().to_string());
    let libc = machine.ask("getconf", &["GNU_LIBC_VERSION"]).and_then(Result::ok);
    let libc = libc.map(|libc| format!(", {libc}")).unwrap_or_default();
    let decoder = gular_codec::jpeg_backend();
    let found = format!("gular {VERSION}, {decoder}{libc}, `{path}`");
    vec![if !cfg!(feature = "turbo") {
        note(
            found,
            "this build decodes JPEG more slowly: install `cmake`, `make` and `nasm`, or run \
             `eval \"$(cargo xtask setup)\"`, which needs no root, and build again",
        )
    } else if cfg!(debug_assertions) {
        note(
            found,
            "this build is not optimized: build with `cargo build --release` to measure or train",
        )
    } else {
        ok(found)
    }]
}

/// Each Python says its version, where it is, and the version of its package `gular`.
const OF_PYTHON: &str = "\
import sys
try:
    from importlib.metadata import version
    found = version('gular')
except Exception:
    found = ''
print('.'.join(map(str, sys.version_info[:3])), found, sys.prefix, sep='|')";

fn wheels(machine: &Machine) -> Vec<Found> {
    // By their folders: the same one has several names.
    let mut pythons = BTreeMap::<String, (String, String)>::new();
    for program in machine.path.iter().flat_map(|dir| pythons_in(dir)).take(MOST_PYTHONS) {
        let Ok(said) = ask(&program, &["-c", OF_PYTHON]) else { continue };
        let mut parts = said.splitn(3, '|').map(str::to_owned);
        if let (Some(python), Some(wheel), Some(prefix)) =
            (parts.next(), parts.next(), parts.next())
        {
            pythons.entry(prefix).or_insert((python, wheel));
        }
    }
    let (with, without): (Vec<_>, Vec<_>) =
        pythons.iter().partition(|(_, (_, wheel))| !wheel.is_empty());
    let mut found: Vec<Found> = with
        .iter()
        .map(|(prefix, (python, wheel))| {
            let found = format!("Python {python} in `{prefix}` has gular {wheel}");
            if wheel == VERSION {
                return ok(found);
            }
            let next = format!("install the wheel of this version: `{prefix}/bin/python -m pip install gular-{VERSION}-*.whl`");
            problem(format!("{found}, and this program is {VERSION}"), next)
        })
        .collect();
    if without.is_empty() && with.is_empty() {
        found.push(note("no Python was found", "only training in Python needs one"));
    } else if !without.is_empty() {
        let named: Vec<String> =
            without.iter().map(|(prefix, (python, _))| format!("{python} in `{prefix}`")).collect();
        let text = format!("without gular: Python {}", named.join(", "));
        found.push(match with.is_empty() {
            true => note(text, "to train in Python: `python3 -m pip install gular-*.whl`"),
            false => ok(text),
        });
    }
    found
}

/// The programs `python`, `python3` and `python3.N` in a folder.
fn pythons_in(dir: &Path) -> Vec<PathBuf> {
    let is_python = |name: &str| {
        let end = name.strip_prefix("python").map(|end| end.strip_prefix('3').unwrap_or(end));
        let end = end.map(|end| end.strip_prefix('.').unwrap_or(end));
        end.is_some_and(|end| end.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut pythons: Vec<PathBuf> =
        names.filter(|name| is_python(name)).map(|name| dir.join(name)).collect();
    pythons.sort_unstable();
    pythons
}

fn libtorch(machine: &Machine) -> Vec<Found> {
    let Some(folder) = machine.env.get("LIBTORCH") else {
        return vec![ok("`LIBTORCH` is not set; only training programs in Rust need libtorch")];
    };
    let at = Path::new(folder);
    let next = "set it with `eval \"$(cargo xtask setup)\"`, or name the folder that has `lib` and `include`";
    if !at.join("lib/libtorch_cpu.so").is_file() {
        let shown = show::plain(folder);
        return vec![problem(
            format!("`LIBTORCH` is `{shown}`, which has no `lib/libtorch_cpu.so`"),
            next,
        )];
    }
    let version = fs::read_to_string(at.join("build-version")).unwrap_or_default();
    let version = version.trim();
    let version = if version.is_empty() { "of unknown version" } else { version };
    let gpu = at.join("lib/libtorch_cuda.so").is_file();
    let gpu = if gpu { "for GPUs" } else { "for CPUs only" };
    vec![ok(format!("libtorch {version} {gpu}, `{folder}`"))]
}

const OF_GPU: [&str; 2] =
    ["--query-gpu=name,compute_cap,memory.total,driver_version", "--format=csv,noheader"];

fn gpus(machine: &Machine) -> Vec<Found> {
    match machine.ask("nvidia-smi", &OF_GPU) {
        Some(Ok(gpus)) if !gpus.is_empty() => gpus.lines().map(gpu).collect(),
        Some(Ok(_)) => vec![problem("`nvidia-smi` lists no GPU", NO_GPU)],
        Some(Err(said)) => vec![problem(format!("`nvidia-smi` failed: {said}"), NO_GPU)],
        None if Path::new("/dev/nvidiactl").exists() => vec![problem(
            "this machine has a GPU, but there is no `nvidia-smi` here",
            "in a container, start it with `--nv` (Apptainer) or `--gpus all` (Docker)",
        )],
        None => {
            vec![note("none", "on a cluster, run this command inside a job that asks for a GPU")]
        }
    }
}

const NO_GPU: &str =
    "check that the job asked for a GPU and that the driver works: run `nvidia-smi`";

/// Describes a GPU: name, compute capability, memory, driver.
fn gpu(line: &str) -> Found {
    let parts: Vec<&str> = line.split(',').map(str::trim).collect();
    match parts.as_slice() {
        [name, capability, memory, driver] => {
            ok(format!("{name}, compute capability {capability}, {memory}, driver {driver}"))
        }
        // An old driver does not know the compute capability.
        _ => ok(line),
    }
}

fn cache(machine: &Machine) -> Vec<Found> {
    let cache = Cache::at(None, &machine.env);
    let root = show::plain(&cache.root().display().to_string());
    let elsewhere = "set GULAR_CACHE to a folder of your own, on a local disk";
    if let Err(error) = cache.check() {
        return vec![problem(
            error.to_string(),
            hints::transfer(&error).unwrap_or(elsewhere.to_owned()),
        )];
    }
    if let Err(why) = writable(cache.root()) {
        return vec![problem(format!("`{root}` cannot be written: {why}"), elsewhere)];
    }
    let free = match gular_files::free(cache.root()) {
        Ok(free) => free,
        Err(error) => return vec![problem(error.to_string(), elsewhere)],
    };
    let files = match free.files {
        u64::MAX => "any number of files".to_owned(),
        n => show::count(n, "file"),
    };
    let found = format!("`{root}`, free: {}, {files}", show::size(free.bytes));
    let little = free.bytes < LITTLE_SPACE || free.files < FEW_FILES;
    vec![if little {
        note(found, "make room there, or set GULAR_CACHE to a folder on a larger disk")
    } else {
        ok(found)
    }]
}

/// Tries to write where the folder is, or will be made.
fn writable(folder: &Path) -> Result<(), String> {
    let there = folder.ancestors().find(|above| above.is_dir());
    let there = there.ok_or_else(|| "no folder above it exists".to_owned())?;
    // It has no name where the file system allows that, and is removed otherwise.
    tempfile::tempfile_in(there).map(drop).map_err(|e| e.to_string())
}

fn tokens(machine: &Machine) -> Vec<Found> {
    let mut found = Vec::new();
    for place in token_places(&machine.env) {
        let at = show::plain(&place.place);
        let again = "get a new one with `gular login URL`, or from where this one came";
        found.push(match place.held {
            TokenHeld::Nothing => continue,
            TokenHeld::Unfit(why) => problem(
                format!("{at}: {why}"),
                "repair or remove it, or unset the variable that names it",
            ),
            TokenHeld::Token { opaque: true, .. } => {
                note(format!("{at}: it is not a JSON Web Token, which federations need"), again)
            }
            TokenHeld::Token { expires, issuer, .. } => {
                let issuer = issuer.map(|by| format!(", issued by {}", show::plain(&by)));
                let issuer = issuer.unwrap_or_default();
                match expires.map(|end| end.duration_since(SystemTime::now())) {
                    None => ok(format!("{at}: does not say when it expires{issuer}")),
                    Some(Ok(left)) => ok(format!("{at}: expires in {}{issuer}", units::span(left))),
                    Some(Err(past)) => problem(
                        format!("{at}: expired {} ago{issuer}", units::span(past.duration())),
                        again,
                    ),
                }
            }
            _ => continue,
        });
    }
    if found.is_empty() {
        found.push(ok("none; public data needs none, and `gular login URL` gets one"));
    }
    found
}

/// The programs with which jobs are submitted, the argument that shows their version, and the
/// variable that a job has.
const BATCH_SYSTEMS: [(&str, &str, &str, &str); 2] = [
    ("HTCondor", "condor_submit", "-version", "_CONDOR_SCRATCH_DIR"),
    ("Slurm", "sbatch", "--version", "SLURM_JOB_ID"),
];

fn batch_systems(machine: &Machine) -> Vec<Found> {
    let mut found = Vec::new();
    for (name, submit, version, variable) in BATCH_SYSTEMS {
        if machine.env.get(variable).is_some() {
            found.push(ok(format!("this is a job of {name}")));
        }
        found.extend(machine.ask(submit, &[version]).map(|said| match said {
            Ok(said) => ok(format!("{name}: {}", said.lines().next().unwrap_or_default())),
            Err(said) => problem(
                format!("{name}: `{submit}` failed: {said}"),
                "ask the operators of this machine",
            ),
        }));
    }
    if found.is_empty() {
        found.push(note(
            "neither HTCondor (`condor_submit`) nor Slurm (`sbatch`)",
            "to submit jobs, log in to an access point or a login node",
        ));
    }
    found
}

fn image_programs(machine: &Machine) -> Vec<Found> {
    let Some(program) = machine.program(&["apptainer", "singularity"]) else {
        return vec![note(
            "neither `apptainer` nor `singularity`",
            "only running and testing images needs one; `gular image` builds them without it",
        )];
    };
    let at = program.display();
    vec![match ask(&program, &["--version"]) {
        Ok(said) => ok(format!("{said}, `{at}`")),
        Err(said) => problem(format!("`{at}` failed: {said}"), "ask the operators of this machine"),
    }]
}

/// Settings of the kernel that forbid user namespaces, and the value that does.
const FORBID: [(&str, &str); 3] = [
    ("user/max_user_namespaces", "0"),
    ("kernel/unprivileged_userns_clone", "0"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1"),
];

fn user_namespaces(machine: &Machine) -> Vec<Found> {
    let next = "images are then checked less thoroughly, and Apptainer may need its setuid part: ask the operators";
    let said = match machine.ask("unshare", &["--user", "--map-root-user", "true"]) {
        Some(Ok(_)) => return vec![ok("user namespaces are allowed")],
        Some(Err(said)) => said,
        None => "there is no program `unshare`".to_owned(),
    };
    let set = FORBID.iter().find(|(name, value)| {
        fs::read_to_string(Path::new("/proc/sys").join(name)).is_ok_and(|set| set.trim() == *value)
    });
    let why = set.map_or(said, |(name, value)| format!("{} is {value}", name.replace('/', ".")));
    vec![note(format!("user namespaces are not allowed: {why}"), next)]
}
