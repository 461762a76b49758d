//! The stages of the demo: each runs a real program as a user would.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The exit code that says "checkpointed, run me again".
const EXIT_CHECKPOINTED: i32 = 85;

/// A finished program: its JSON report and how long it took.
pub(crate) struct Done {
    pub(crate) report: Value,
    pub(crate) seconds: f64,
}

/// Runs `command` to its end, its messages and bars on our stderr, its JSON from its stdout.
pub(crate) fn run(mut command: Command, what: &str) -> Result<Done> {
    let start = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    ensure!(output.status.success(), "{what} failed with {}", output.status);
    let report = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{what} printed no JSON report"))?;
    Ok(Done { report, seconds: start.elapsed().as_secs_f64() })
}

/// A training run; the demo's two differ only in their folder.
pub(crate) struct Training {
    /// The program's command, able to find libtorch.
    pub(crate) command: Command,
    /// The bundle: a folder or a URL.
    pub(crate) bundle: String,
    /// The folder of the cache, for a URL.
    pub(crate) cache: PathBuf,
    pub(crate) digest: String,
    pub(crate) epochs: u32,
    pub(crate) out: PathBuf,
}

impl Training {
    /// Returns the command line, which is always the same, since a job's submit file has only one.
    fn command(&self) -> Command {
        let mut command = Command::new(self.command.get_program());
        command.envs(self.command.get_envs().filter_map(|(k, v)| Some((k, v?))));
        command.arg("train").arg(&self.bundle).args(["--digest", &self.digest]);
        command.arg("--cache").arg(&self.cache);
        command.args(["--epochs", &self.epochs.to_string(), "--json"]);
        command.arg("--checkpoint-dir").arg(self.out.join("checkpoints"));
        command.arg("--metrics").arg(self.out.join("metrics"));
        command
    }

    /// Trains from start to end without disturbance.
    pub(crate) fn undisturbed(&self) -> Result<Done> {
        run(self.command(), "the undisturbed training")
    }

    /// Trains, is told to stop in the middle of an epoch by SIGTERM, must exit
    /// with 85, and is started again; `after` is the step to be stopped after.
    pub(crate) fn stopped_and_resumed(&self, after: u64) -> Result<Done> {
        let start = Instant::now();
        let mut child =
            self.command().stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(
                || format!("cannot start `{}`", self.command.get_program().display()),
            )?;
        let metrics = self.out.join("metrics").join("metrics.jsonl");
        while steps_logged(&metrics) < after {
            if let Some(status) = child.try_wait()? {
                bail!("the training ended with {status} before step {after}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        terminate(&child)?;
        let status = child.wait()?;
        let mut said = String::new();
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_to_string(&mut said)?;
        }
        let code = status.code();
        ensure!(
            code == Some(EXIT_CHECKPOINTED),
            "after SIGTERM the training ended with {status}, expected exit code {EXIT_CHECKPOINTED}"
        );
        eprintln!(
            "stopped by SIGTERM at step {after} or just after: exit code 85; starting it again"
        );
        let resumed = run(self.command(), "the resumed training")?;
        Ok(Done { report: resumed.report, seconds: start.elapsed().as_secs_f64() })
    }
}

/// Counts the training steps in a metrics file so far.
fn steps_logged(metrics: &Path) -> u64 {
    let Ok(text) = fs::read_to_string(metrics) else { return 0 };
    let step = |line: &str| serde_json::from_str::<Value>(line).ok()?.get("step")?.as_u64();
    text.lines().filter_map(step).max().unwrap_or(0)
}

fn terminate(child: &Child) -> Result<()> {
    // Not by `kill`: small systems have it only as a part of the shell.
    let id =
        i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process has an id")?;
    kill_process(id, Signal::TERM)
        .with_context(|| format!("cannot send SIGTERM to process {}", child.id()))
}
