//! What peer tests found out, from the lines they print.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::optional::Skip;
use crate::process;

/// What the tests of one or more programs found out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) ok: usize,
    /// `NAME: why` of each.
    pub(super) failed: Vec<String>,
    pub(super) skipped: Vec<Skip>,
    /// Checks of an unsteady server that failed and passed, with their counts.
    pub(super) unsteady: Vec<String>,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.ok += other.ok;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
        self.unsteady.extend(other.unsteady);
    }

    /// Shows a line and counts it when it is a result.
    pub(super) fn line(&mut self, line: &str) {
        println!("  {line}");
        if line.starts_with("ok ") {
            self.ok += 1;
        } else if let Some(rest) = line.strip_prefix("fail ") {
            self.failed.push(rest.into());
        } else if let Some(rest) = line.strip_prefix("skip ") {
            self.skipped.push(Skip::new(rest));
        }
    }

    /// Adds what the exit code says and the lines did not.
    fn finish(&mut self, name: &str, success: bool, status: &str) {
        if !success && self.failed.is_empty() {
            self.failed.push(format!("{name}: ended with {status}"));
        }
        if success && *self == Self::default() {
            self.failed.push(format!("{name}: reported nothing"));
        }
    }
}

/// Runs `peer`; `translate` makes of each line it prints the one to show and count.
pub(super) fn tally_of(
    peer: &mut Command,
    name: &str,
    translate: impl Fn(&str) -> String,
) -> Result<Tally> {
    let mut child =
        peer.stdout(Stdio::piped()).spawn().with_context(|| process::cannot_start(peer))?;
    let mut tally = Tally::default();
    let Some(stdout) = child.stdout.take() else { bail!("cannot read what `{name}` prints") };
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.with_context(|| format!("cannot read what `{name}` prints"))?;
        tally.line(&translate(&String::from_utf8_lossy(&line)));
    }
    let status = child.wait()?;
    tally.finish(name, status.success(), &status.to_string());
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::command;

    fn check(script: &str, expected: (usize, &[&str], &[&str])) {
        let tally =
            tally_of(command("sh").args(["-c", script]), "x.py", str::to_owned).expect("a shell");
        let (ok, failed, skipped) = expected;
        let owned =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let skipped = skipped.iter().map(|text| Skip::new(text)).collect();
        let unsteady = Vec::new();
        assert_eq!(tally, Tally { ok, failed: owned(failed), skipped, unsteady }, "{script}");
    }

    #[test]
    fn lines_and_exit_code_both_count() {
        check("echo ok a; echo ok b", (2, &[], &[]));
        check("echo ok a; echo 'fail b: too short'; exit 1", (1, &["b: too short"], &[]));
        check(
            "echo 'skip a: mtools missing, install: apt-get install mtools'",
            (0, &[], &["a: mtools missing, install: apt-get install mtools"]),
        );
        check("echo ok a; exit 3", (1, &["x.py: ended with exit status: 3"], &[]));
        check("echo okay", (0, &["x.py: reported nothing"], &[]));
    }
}
