//! Runs HTCondor's lines without Apptainer, in a user namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::folder;
use super::process::run;
use super::{JOB, Means, Outcome, Replay};
use crate::cuda::from_host;
use crate::elf::ElfFacts;
use crate::rootfs::{RootPath, Rootfs, What};
use crate::{Error, Result};

/// Run by the host's shell in the namespace: the image's files cannot be written to,
/// `/tmp` and the job's folder can.
const ENTER: &str = r#"set -e
root=$1 job=$2
shift 2
mount --bind "$root" "$root"
if [ -d "$root/dev" ]; then mount --rbind /dev "$root/dev"; fi
if [ -d "$root/tmp" ]; then mount -t tmpfs none "$root/tmp"; fi
if [ -d "$root/srv" ]; then mount --bind "$job" "$root/srv"; fi
mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
"#;

/// Sets the image's environment, as Apptainer does before a command.
const SOURCED: &str = r#"for script in /.singularity.d/env/*.sh; do
    if [ -f "$script" ]; then . "$script"; fi
done
exec "$@""#;

/// With these variables, `ld.so` lists what it would load, and looks for every symbol. They are set
/// inside only: otherwise the tools of the host would be listed, too.
const LISTED: &str = "export LD_TRACE_LOADED_OBJECTS=1 LD_WARN=1 LD_BIND_NOW=1; exec \"$@\"";

/// The folders of the host's own tools.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Replays on a tree what HTCondor does before and with a job, and lets the image's
/// `ld.so` say what the program would load. `means.program` is `unshare` of
/// util-linux; `mount` and `chroot` of this machine are used, too.
///
/// # Errors
/// [`Error::Io`], [`Error::Cancelled`]. A line that fails is not an error.
pub fn in_namespace(
    tree: &Rootfs,
    program: Option<&RootPath>,
    means: &Means<'_>,
) -> Result<Vec<Replay>> {
    let temp = tempfile::TempDir::with_prefix_in("gular-replay-", means.temp);
    let temp = temp.map_err(Error::io("create", means.temp))?;
    let (root, job) = (temp.path().join("root"), temp.path().join("job"));
    for dir in [&root, &job] {
        fs::create_dir(dir).map_err(Error::io("create", dir))?;
    }
    // This tries whether namespaces are allowed at all.
    let mut probe = unshare(means.program);
    probe.args(["sh", "-c", "mount -t tmpfs none \"$1\"", "sh"]).arg(&root);
    let (probe, _) = run("namespace", &mut probe, means)?;
    if probe.outcome != Outcome::Ok {
        let said = probe.stderr.lines().last().unwrap_or_default().to_owned();
        let why = format!("this machine does not allow user namespaces ({said})");
        let names = ["test", "exec", "job script", "libraries"];
        return Ok(names.map(|name| Replay::not_possible(name, why.clone())).into());
    }
    folder::fill(tree, &root)?;
    let script = job.join("job.sh");
    fs::write(&script, JOB).map_err(Error::io("write", &script))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        .map_err(Error::io("write", &script))?;
    let inside = Inside { root: &root, job: &job, means };
    let shell = RootPath::new("bin/sh")?;
    let shell = tree.follow(&shell).is_some();
    let test = inside.run("test", shell, &["/.singularity.d/test"])?;
    let (exec, mut script) = if shell {
        let exec = inside.run("exec", false, &["/bin/sh", "-c", ":"])?;
        (exec, inside.run("job script", shell, &["/srv/job.sh"])?)
    } else {
        let why = "the image has no shell";
        (Replay::not_possible("exec", why), Replay::not_possible("job script", why))
    };
    if script.outcome == Outcome::Ok && !job.join("written").exists() {
        script.outcome = Outcome::Failed;
        script.why = Some("the file that the job wrote is missing afterwards".to_owned());
    }
    let mut replays = vec![test, exec, script];
    if let Some(program) = program {
        replays.push(libraries(tree, program, &inside)?);
    }
    Ok(replays)
}

fn unshare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH);
    command.args([
        "--user",
        "--map-root-user",
        "--mount",
        "--pid",
        "--net",
        "--ipc",
        "--fork",
        "--kill-child",
    ]);
    command
}

struct Inside<'a> {
    root: &'a Path,
    job: &'a Path,
    means: &'a Means<'a>,
}

impl Inside<'_> {
    fn command(&self, sourced: bool, words: &[&str]) -> Command {
        let mut command = unshare(self.means.program);
        command.args(["sh", "-c", ENTER, "sh"]).arg(self.root).arg(self.job);
        if sourced {
            command.args(["/bin/sh", "-c", SOURCED, "sh"]);
        }
        command.args(words);
        command
    }

    fn run(&self, name: &'static str, sourced: bool, words: &[&str]) -> Result<Replay> {
        let (mut replay, _) = run(name, &mut self.command(sourced, words), self.means)?;
        replay.line = words.join(" ");
        Ok(replay)
    }
}

/// Lets `ld.so` say what the program would load; every symbol is looked for.
fn libraries(tree: &Rootfs, program: &RootPath, inside: &Inside<'_>) -> Result<Replay> {
    const NAME: &str = "libraries";
    let facts = match tree.follow(program).map(|(_, node)| &node.what) {
        Some(What::File(source)) => ElfFacts::read(source)?,
        _ => None,
    };
    let Some(interpreter) = facts.and_then(|facts| facts.interpreter) else {
        return Ok(Replay::not_possible(NAME, "the program loads none"));
    };
    // Others take `--list` for a name, or run the program.
    if !interpreter.rsplit('/').next().is_some_and(|name| name.starts_with("ld-linux")) {
        let why = format!("`{interpreter}` is not the GNU C library's");
        return Ok(Replay::not_possible(NAME, why));
    }
    let path = program.to_string();
    let mut command = if tree.follow(&RootPath::new("bin/sh")?).is_some() {
        inside.command(false, &["/bin/sh", "-c", LISTED, "sh", &interpreter, &path])
    } else {
        // With `--list`, `ld.so` stops at the first library that is missing.
        inside.command(false, &[&interpreter, "--list", &path])
    };
    let (mut replay, out) = run(NAME, &mut command, inside.means)?;
    replay.line = format!("{interpreter} --list {path}");
    if replay.outcome == Outcome::Failed && !replay.stderr.is_empty() {
        replay.why = replay.stderr.lines().last().map(str::to_owned);
    }
    let missing: Vec<_> = out.lines().chain(replay.stderr.lines()).filter(|l| lacks(l)).collect();
    if !missing.is_empty() {
        replay.outcome = Outcome::Failed;
        replay.why = Some(missing.iter().map(|line| line.trim()).collect::<Vec<_>>().join("; "));
    }
    Ok(replay)
}

/// Whether a line of `ld.so` reports a missing library that the host does not provide.
fn lacks(line: &str) -> bool {
    let line = line.trim();
    if let Some((name, rest)) = line.split_once(" => ") {
        return rest.starts_with("not found") && !from_host(name);
    }
    // The driver's functions: `cuInit`, `nvmlInit`.
    let symbol = line.split_once("undefined symbol: ").map(|(_, symbol)| symbol);
    let of_driver = |symbol: &str| {
        symbol.starts_with("nvml")
            || symbol.strip_prefix("cu").is_some_and(|rest| rest.starts_with(char::is_uppercase))
    };
    symbol.is_some_and(|symbol| !of_driver(symbol)) || line.contains("' not found (required by")
}
