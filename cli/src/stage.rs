//! `gular stage`.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Args;
use gular_files::Watch;
use gular_pelican::Env;
use gular_stage::{StageOptions, StageReport, StageTo, Staged, plan, stage};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::exit::{Exit, Failure};
use crate::network::Access;
use crate::progress::bytes_bar;
use crate::shared::{Jobs, Output};
use crate::show;

/// Keep a copy of data in the node's memory or on its disk while a command runs
///
/// SRC is a bundle, the URL of one, or a folder of files. All processes of a user on a node
/// share one copy: the first makes it, the others wait, the last removes it; the next run removes
/// what a killed one left. Bundles are checked block by block; nothing is written unless it fits
/// in memory, cgroup and disk.
///
/// COMMAND finds the copy's path in GULAR_STAGED and in place of `{}` in its arguments. Signals
/// are passed on to its process group, and its exit code is the exit code of `gular stage`
/// (128 + n for signal n). Without COMMAND the path is printed, and the copy stays until SIGTERM
/// or SIGINT.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: those of COMMAND; without it 0 done, 1 bad data, 2 error, 75 try again later

Example:
  gular stage bundle/ -- python train.py --data {}")]
pub(crate) struct StageArgs {
    /// A bundle's folder or URL, or any other folder
    pub(crate) src: String,
    /// Where the copy goes: `auto`, `shm`, `scratch`, or an existing folder
    ///
    /// `auto`: /dev/shm if the copy takes less than half of what is available, otherwise scratch.
    /// `scratch`: _CONDOR_SCRATCH_DIR, SLURM_TMPDIR, TMPDIR or /tmp.
    ///
    /// [default: auto; with --mount, a local bundle is not copied]
    #[arg(long, value_name = "WHERE", value_parser = stage_to)]
    pub(crate) to: Option<StageTo>,
    /// Mount a `squashfs` bundle: its shards appear as folders of plain files
    ///
    /// If a split has only one shard, its files are in `{}/train` (or val, test); the files of
    /// every shard are in `{}/files/SHARD`. `{}` itself can be opened as the bundle. Root uses the
    /// kernel's own mount, other users squashfuse. A local bundle is mounted where it is; with
    /// --to, and always for a URL, a copy is made and mounted.
    #[arg(long, conflicts_with_all = ["unpack", "keep"])]
    pub(crate) mount: bool,
    /// Copy a bundle's samples as plain files
    ///
    /// They have the names that `gular convert --envelope directory` gives them.
    #[arg(long)]
    pub(crate) unpack: bool,
    /// Do not delete the copy at the end, so that later runs can use it
    ///
    /// The last run without --keep removes it.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Only show where the copy would go and whether it fits
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// For a URL, read from the origin instead of from caches
    #[arg(long)]
    pub(crate) direct: bool,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// The command to run, and its arguments; `{}` in them becomes the copy's path
    // Before the network's flags: what follows those is listed below their heading.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) access: Access,
}

pub(crate) fn run(args: &StageArgs, output: &Output) -> Result<Exit, Failure> {
    let relay = Relay::install()?;
    let env = Env::process();
    let options = StageOptions {
        to: args.to.clone().unwrap_or(StageTo::Auto),
        unpack: args.unpack,
        keep: args.keep,
        jobs: args.jobs.count(),
        access: args.access.of_transfer(),
        direct: args.direct,
        ..StageOptions::default()
    };
    // Whether a copy is made; with `--mount`, only if it is asked for, or if the source is a URL.
    let copies = !args.mount || args.to.is_some() || args.src.contains("://");
    let mounting = StageOptions { mount: true, ..options.clone() };
    if args.dry_run {
        let options = if copies { &options } else { &mounting };
        let report = plan(&args.src, options, &env, &relay.cancel);
        say(&report.map_err(|e| relay.ended(e))?, output, true)?;
        return Ok(Exit::Done);
    }
    let bar = bytes_bar("stage", 0, output);
    let waiting = |_: &Path| match bar.is_hidden() && !output.quiet {
        true => show::message("note", "another process copies; waiting"),
        false => bar.set_message("another process copies; waiting"),
    };
    let progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let watch = Watch { progress: &progress, waiting: &waiting, cancel: &relay.cancel };
    if args.mount && !args.src.contains("://") {
        // This fails before the copy is made if the copy could not be mounted.
        plan(&args.src, &mounting, &env, &relay.cancel).map_err(|e| relay.ended(e))?;
    }
    let copied = match copies {
        true => Some(stage(&args.src, &options, &env, watch)),
        false => None,
    };
    let copied = copied.transpose();
    bar.finish_and_clear();
    let copied = copied.map_err(|e| relay.ended(e))?;
    let place = copied.as_ref().map_or_else(|| args.src.clone(), |copy| copy.report.path.clone());
    let (staged, copy) = match (args.mount, copied) {
        (false, Some(copied)) => (copied, None),
        (_, copied) => {
            let mounted = stage(&place, &mounting, &env, watch);
            (mounted.map_err(|e| relay.ended(e))?, copied)
        }
    };
    if let Some(copy) = &copy {
        // The copy stays until the mounts are gone, whatever happens to this process.
        copy.hand_down()?;
    }
    say(&staged.report, output, args.command.is_empty())?;
    let exit = match args.command.split_first() {
        None => {
            relay.hold(args.keep);
            Ok(Exit::Done)
        }
        Some((program, arguments)) => relay.command(&staged, program, arguments),
    };
    staged.release()?;
    copy.map_or(Ok(true), Staged::release)?;
    exit
}

fn stage_to(text: &str) -> Result<StageTo, std::convert::Infallible> {
    Ok(match text {
        "auto" => StageTo::Auto,
        "shm" => StageTo::Shm,
        "scratch" => StageTo::Scratch,
        dir => StageTo::Dir(dir.into()),
    })
}

/// Prints where the copy is. With a command, stdout is the command's, except for `--json`.
fn say(report: &StageReport, output: &Output, stdout: bool) -> Result<(), Failure> {
    if output.json {
        return show::json_line(report);
    }
    if !output.quiet {
        show::paragraph("note", &text(report));
    }
    if stdout && !report.dry_run { show::text(&format!("{}\n", report.path)) } else { Ok(()) }
}

fn text(report: &StageReport) -> String {
    let what = format!("{} in {}", show::size(report.bytes), show::count(report.files, "file"));
    let path = show::plain(&report.path);
    let place = if report.in_memory { "memory" } else { "disk" };
    let mut text = match report {
        StageReport { dry_run: true, shared: true, .. } => {
            format!("{what} are in `{path}` ({place}), or on their way; nothing was written")
        }
        StageReport { dry_run: true, mounted: true, .. } => {
            format!("{what} would be mounted at `{path}`; nothing was mounted")
        }
        StageReport { dry_run: true, .. } => {
            format!("{what} would go to `{path}` ({place}); nothing was written")
        }
        StageReport { shared: true, .. } => {
            format!("{what} are in `{path}` ({place}) already")
        }
        StageReport { mounted: true, .. } => {
            let shards = show::count(report.files, "shard");
            let bytes = show::size(report.bytes);
            format!("mounted {bytes} in {shards} at `{path}`, {:.2} s", report.seconds)
        }
        _ => {
            let pace = show::pace(report.bytes, report.seconds);
            format!("staged {what} to `{path}` ({place}){pace}")
        }
    };
    if let Some(limit) = report.limit.as_ref().filter(|_| !report.mounted) {
        let (needed, left) = (show::size(report.needed_bytes), show::size(limit.available_bytes));
        text.push_str(&format!(
            "\n{needed} had to be free; {} allows {left}",
            show::plain(&limit.name)
        ));
    }
    if report.removed > 0 {
        let copies = match report.removed {
            1 => "1 copy".to_owned(),
            n => format!("{n} copies"),
        };
        text.push_str(&match report.dry_run {
            true => {
                let freed = show::size(report.freed_bytes);
                format!("\n{copies} that killed runs left, {freed}, would be removed first")
            }
            false => format!("\nremoved {copies} that killed runs left"),
        });
    }
    text
}

/// Signals: they end the staging, and go on to the command while it runs.
struct Relay {
    cancel: Arc<AtomicBool>,
    signal: Arc<AtomicU8>,
    child: Arc<Mutex<Option<Child>>>,
}

/// The process that signals are passed on to.
#[derive(Debug, Clone, Copy)]
struct Child {
    pid: Pid,
    /// Whether the process leads a group. Otherwise it is in ours, and the terminal signals both.
    leads: bool,
}

impl Child {
    fn send(self, number: i32) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        // A process that has ended needs no signal, so an error is ignored.
        let _ = match (self.leads, number) {
            (true, _) => rustix::process::kill_process_group(self.pid, signal),
            (false, SIGINT) => Ok(()),
            (false, _) => rustix::process::kill_process(self.pid, signal),
        };
    }
}

impl Relay {
    fn install() -> Result<Self, Failure> {
        let relay = Self { cancel: Arc::default(), signal: Arc::default(), child: Arc::default() };
        let failed = |e| Failure::new(format!("cannot watch for signals: {e}"), None);
        let mut signals =
            Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2]).map_err(failed)?;
        let (cancel, signal) = (Arc::clone(&relay.cancel), Arc::clone(&relay.signal));
        let child = Arc::clone(&relay.child);
        let watch = move || {
            for number in signals.forever() {
                let child = lock(&child);
                if let Some(child) = *child {
                    child.send(number);
                } else if matches!(number, SIGTERM | SIGINT | SIGHUP) {
                    // Others are for a command that is not there yet: nothing of it to save.
                    signal.store(u8::try_from(number).unwrap_or(0), Ordering::Relaxed);
                    // The signal is stored before the flag, so that every reader of the flag can
                    // see which signal came.
                    if cancel.swap(true, Ordering::Release) {
                        let _ = signal_hook::low_level::emulate_default_handler(number);
                    }
                }
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(watch).map_err(failed)?;
        Ok(relay)
    }

    /// A failure, with the exit code of the signal when that is what ended the work.
    fn ended(&self, failure: impl Into<Failure>) -> Failure {
        let mut failure = failure.into();
        if let Some(exit) = self.exit() {
            failure.exit = exit;
        }
        failure
    }

    fn exit(&self) -> Option<Exit> {
        let signal = self.signal.load(Ordering::Relaxed);
        (signal > 0).then(|| Exit::Signal(128 + signal))
    }

    /// Waits for a signal, unless the copy is kept.
    fn hold(&self, keep: bool) {
        while !keep && !self.cancel.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs the command to its end.
    fn command(
        &self,
        staged: &Staged,
        program: &OsStr,
        arguments: &[OsString],
    ) -> Result<Exit, Failure> {
        let path = staged.path();
        // A kill of this process must not take the copy from under the command.
        staged.hand_down()?;
        let mut command = Command::new(program);
        command.args(arguments.iter().map(|argument| filled(argument, &path)));
        command.env("GULAR_STAGED", &path);
        // At a terminal the command stays in our group, or it could not read from the terminal.
        let leads = !std::io::stdin().is_terminal();
        if leads {
            command.process_group(0);
        }
        let mut running = {
            let mut child = lock(&self.child);
            if let Some(exit) = self.exit() {
                return Ok(exit);
            }
            let started = command.spawn().map_err(|e| not_started(program, &e))?;
            *child = pid(started.id()).map(|pid| Child { pid, leads });
            started
        };
        // The process stays a zombie here, so that a signal cannot reach another process with its
        // number.
        if let Some(pid) = pid(running.id()) {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while rustix::process::waitid(WaitId::Pid(pid), options)
                .is_err_and(|e| e == rustix::io::Errno::INTR)
            {}
        }
        *lock(&self.child) = None;
        let status = running.wait();
        let status =
            status.map_err(|e| Failure::new(format!("cannot wait for the command: {e}"), None))?;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok(Exit::Command(u8::try_from(code).unwrap_or(u8::MAX)))
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

fn lock(child: &Mutex<Option<Child>>) -> MutexGuard<'_, Option<Child>> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error for a command that cannot be started, with the exit code of shells: 127 or 126.
fn not_started(program: &OsStr, error: &std::io::Error) -> Failure {
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    let mut failure = Failure::new(format!("cannot start `{}`: {error}", program.display()), None);
    failure.exit = Exit::Command(if missing { 127 } else { 126 });
    failure
}

/// `argument` with the copy's path in place of each `{}`.
fn filled(argument: &OsStr, path: &Path) -> OsString {
    let (mut rest, mut filled) = (argument.as_bytes(), Vec::new());
    while let Some(at) = rest.windows(2).position(|pair| pair == b"{}") {
        let (before, after) = rest.split_at(at);
        filled.extend_from_slice(before);
        filled.extend_from_slice(path.as_os_str().as_bytes());
        rest = after.get(2..).unwrap_or_default();
    }
    filled.extend_from_slice(rest);
    OsString::from_vec(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_become_the_path() {
        let check = |argument: &str, expected: &str| {
            assert_eq!(filled(OsStr::new(argument), Path::new("/c")), expected);
        };
        check("{}", "/c");
        check("--data={}/train:{}", "--data=/c/train:/c");
        check("{", "{");
        check("{{}", "{/c");
        check("", "");
    }
}
