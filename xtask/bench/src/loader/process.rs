//! A process that takes turns with others, and is paused between its turns.
//!
//! Contestants start once and stay, so that rounds can be interleaved in seconds. They are stopped
//! between turns, so that none of their threads works ahead in another's turn. If this program ends
//! early, the kernel sends SIGHUP to stopped process groups that have lost their parent.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use xtask::process;

/// How long a contestant may take to start: some pack their data, some compile.
const READY: Duration = Duration::from_secs(300);
/// How long a turn may take, beyond its seconds.
const PATIENCE: Duration = Duration::from_secs(90);
/// Lines of what a process said that are quoted when it fails.
const QUOTED: usize = 6;

/// How to start a process, and its name and files.
pub(crate) struct Start {
    pub(crate) command: Command,
    pub(crate) name: String,
    pub(crate) is_ours: bool,
    /// Files that the process reads: the page cache drops them before each turn of a cold row.
    pub(crate) files: Vec<PathBuf>,
}

pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
    input: ChildStdin,
    answers: Receiver<String>,
    log: PathBuf,
}

impl Process {
    /// Starts it, and waits until it says what it has.
    pub(crate) fn start(start: &Start, logs: &Path) -> Result<(Self, Value)> {
        fs::create_dir_all(logs)?;
        let word = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let log = logs.join(format!("{}.log", start.name.chars().map(word).collect::<String>()));
        let mut command = Command::new(start.command.get_program());
        command.args(start.command.get_args());
        for (name, value) in start.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        // The process and all that it starts are in a process group of their own.
        command.process_group(0);
        let mut child = command.spawn().with_context(|| process::cannot_start(&command))?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("`{}` has no pipes", process::line(&command));
        };
        let (said, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if said.send(line).is_err() {
                    break;
                }
            }
        });
        let mut process = Self { child, group, input, answers, log };
        let answer = process.answer(READY)?;
        process.signal(Signal::STOP);
        Ok((process, answer))
    }

    /// Lets one contestant of the process have a turn.
    pub(crate) fn turn(&mut self, contestant: &str, seconds: f64) -> Result<Value> {
        self.signal(Signal::CONT);
        let sent =
            writeln!(self.input, "{contestant}\t{seconds}").and_then(|()| self.input.flush());
        let answer = match sent {
            Ok(()) => self.answer(PATIENCE + Duration::from_secs_f64(seconds * 3.0)),
            Err(_) => Err(self.ended()),
        };
        self.signal(Signal::STOP);
        answer
    }

    fn answer(&mut self, patience: Duration) -> Result<Value> {
        let line = match self.answers.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                bail!("no answer for {} s{}", patience.as_secs(), self.quoted())
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
        };
        let value: Value = serde_json::from_str(&line)
            .with_context(|| format!("the answer is not JSON: `{line}`"))?;
        match value.get("error").and_then(Value::as_str) {
            Some(error) => bail!("{error}"),
            None => Ok(value),
        }
    }

    fn ended(&mut self) -> anyhow::Error {
        let status = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        anyhow!("it ended with {status}{}", self.quoted())
    }

    /// Returns the last lines that the process printed.
    fn quoted(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(QUOTED)..].join("\n");
        if last.is_empty() { String::new() } else { format!(":\n{last}") }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that has ended needs no signal, so an error is ignored.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Instant;

    use super::*;

    /// A temporary folder, removed in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn started(script: &str, name: &str, logs: &Folder) -> Result<(Process, Value)> {
        let mut command = process::command("sh");
        command.args(["-c", script]);
        let name = name.to_owned();
        Process::start(&Start { command, name, is_ours: true, files: Vec::new() }, &logs.0)
    }

    #[test]
    fn turns_are_answered_and_errors_named() {
        let script = "echo '{\"contestants\": [\"a\"]}'; read x y; echo \"{\\\"said\\\": \\\"$x, $y\\\"}\"; \
                      read x; echo '{\"error\": \"no disk\"}'; read x; echo broken >&2; exit 3";
        let logs = Folder::new("turns");
        let (mut process, ready) = started(script, "turns", &logs).unwrap();
        assert_eq!(ready["contestants"][0], "a");
        assert_eq!(process.turn("a", 0.5).unwrap()["said"], "a, 0.5");
        assert_eq!(process.turn("a", 0.5).unwrap_err().to_string(), "no disk");
        let error = process.turn("a", 0.5).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("broken"), "{error}");
        let error = started("echo missing >&2; exit 1", "missing", &logs);
        let error = error.err().unwrap().to_string();
        assert!(error.contains("missing"), "{error}");
    }

    #[test]
    fn a_process_stands_still_between_turns_and_is_gone_in_the_end() {
        let dir = Folder::new("counter");
        let counter = dir.0.join("counter");
        // Ready, and done with a turn, once the loop has written.
        let script = format!(
            "(while :; do echo >> '{0}'; sleep 0.01; done) & \
             until [ -s '{0}' ]; do sleep 0.01; done; \
             echo '{{}}'; \
             while read x; do \
               last=$(wc -l < '{0}'); \
               while [ $(wc -l < '{0}') = $last ]; do sleep 0.01; done; echo '{{}}'; \
             done",
            counter.display()
        );
        let length = || fs::metadata(&counter).map_or(0, |found| found.len());
        let (mut process, _) = started(&script, "counter", &dir).unwrap();
        thread::sleep(Duration::from_millis(50));
        let before = length();
        assert!(before > 0, "the loop never ran");
        thread::sleep(Duration::from_millis(200));
        assert_eq!(length(), before, "it went on");
        process.turn("a", 0.1).unwrap();
        assert!(length() > before, "it stood still in its turn");
        let since = Instant::now();
        drop(process);
        assert!(since.elapsed() < Duration::from_secs(5));
        let ended = length();
        thread::sleep(Duration::from_millis(200));
        assert_eq!(length(), ended, "what it started goes on");
    }
}
