//! Counts the results of peer tests, from the lines they print.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::optional::Skip;
use crate::process;

/// Pause between checks whether a server still runs.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The exit code of `timeout` for a program that it ended.
const TIMED_OUT: i32 = 124;

/// The results of one or more test programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Names of the checks that passed.
    pub(super) ok: Vec<String>,
    /// The text `NAME: why` for each check that failed.
    pub(super) failed: Vec<String>,
    pub(super) skipped: Vec<Skip>,
    /// Checks of an unsteady server that failed and passed, with their counts.
    pub(super) unsteady: Vec<String>,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.ok.extend(other.ok);
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
        self.unsteady.extend(other.unsteady);
    }

    /// Shows a line and counts it when it is a result.
    pub(super) fn line(&mut self, line: &str) {
        println!("  {line}");
        if let Some(name) = line.strip_prefix("ok ") {
            self.ok.push(name.into());
        } else if let Some(rest) = line.strip_prefix("fail ") {
            self.failed.push(rest.into());
        } else if let Some(rest) = line.strip_prefix("skip ") {
            self.skipped.push(Skip::new(rest));
        }
    }

    /// Adds what the exit code says and the lines did not.
    fn finish(&mut self, name: &str, status: ExitStatus) {
        // The program was ended by a signal, or by `timeout`, so other checks did not run.
        let is_cut = !matches!(status.code(), Some(code) if code != TIMED_OUT);
        if is_cut || (!status.success() && self.failed.is_empty()) {
            self.failed.push(format!("{name}: ended with {status}"));
        }
        if status.success() && *self == Self::default() {
            self.failed.push(format!("{name}: reported nothing"));
        }
    }
}

/// A result's line with the name of its file, since files run at the same time; any other as it is.
pub(super) fn named(line: &str, file: &str) -> String {
    match line.split_once(' ') {
        Some((result @ ("ok" | "fail" | "skip"), rest)) => format!("{result} {file}: {rest}"),
        _ => line.to_owned(),
    }
}

/// Runs `peer`; `translate` makes of each line it prints the one to show and count.
pub(super) fn tally_of(
    peer: &mut Command,
    name: &str,
    translate: impl Fn(&str) -> String,
) -> Result<Tally> {
    tally_while(peer, name, translate, || true)
}

/// Runs `peer` like [`tally_of`], and ends it by SIGTERM once `lasts` says that its server is gone.
pub(super) fn tally_while(
    peer: &mut Command,
    name: &str,
    translate: impl Fn(&str) -> String,
    mut lasts: impl FnMut() -> bool + Send,
) -> Result<Tally> {
    let mut child =
        peer.stdout(Stdio::piped()).spawn().with_context(|| process::cannot_start(peer))?;
    let mut tally = Tally::default();
    let Some(stdout) = child.stdout.take() else { bail!("cannot read what `{name}` prints") };
    let process = Pid::from_child(&child);
    let (ended, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while end.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if !lasts() {
                    // The signal is refused only if the process has ended by itself.
                    let _ = kill_process(process, Signal::TERM);
                    break;
                }
            }
        });
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.with_context(|| format!("cannot read what `{name}` prints"))?;
            tally.line(&translate(&String::from_utf8_lossy(&line)));
        }
        // Before its number can become another process's.
        drop(ended);
        anyhow::Ok(())
    })?;
    let status = child.wait()?;
    tally.finish(name, status);
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::command;

    fn check(script: &str, expected: (&[&str], &[&str], &[&str])) {
        let tally =
            tally_of(command("sh").args(["-c", script]), "x.py", str::to_owned).expect("a shell");
        let (ok, failed, skipped) = expected;
        let owned =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let skipped = skipped.iter().map(|text| Skip::new(text)).collect();
        let unsteady = Vec::new();
        let expected = Tally { ok: owned(ok), failed: owned(failed), skipped, unsteady };
        assert_eq!(tally, expected, "{script}");
    }

    #[test]
    fn lines_and_exit_code_both_count() {
        check("echo ok a; echo ok b", (&["a", "b"], &[], &[]));
        check("echo ok a; echo 'fail b: too short'; exit 1", (&["a"], &["b: too short"], &[]));
        check(
            "echo 'skip a: mtools missing, install: apt-get install mtools'",
            (&[], &[], &["a: mtools missing, install: apt-get install mtools"]),
        );
        check("echo ok a; exit 3", (&["a"], &["x.py: ended with exit status: 3"], &[]));
        check(
            "echo ok a; echo 'fail b: too short'; exit 124",
            (&["a"], &["b: too short", "x.py: ended with exit status: 124"], &[]),
        );
        check("echo okay", (&[], &["x.py: reported nothing"], &[]));
    }

    #[test]
    fn results_say_their_file_and_other_lines_stay() {
        assert_eq!(named("ok a: b", "x"), "ok x: a: b");
        assert_eq!(named("fail a: why", "x"), "fail x: a: why");
        assert_eq!(named("okay then", "x"), "okay then");
        assert_eq!(named("ok", "x"), "ok");
    }

    #[test]
    fn a_peer_whose_server_is_gone_is_ended() {
        let script = "echo ok a; exec sleep 600";
        let mut seen = 0;
        let gone = || {
            seen += 1;
            seen < 2
        };
        let tally =
            tally_while(command("sh").args(["-c", script]), "x.py", str::to_owned, gone).unwrap();
        assert_eq!(tally.ok, ["a"]);
        assert_eq!(tally.failed.len(), 1, "{tally:?}");
    }
}
