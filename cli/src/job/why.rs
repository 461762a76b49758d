//! `gular job why`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use gular_jobs::why::{EventLog, JobReason, JobState, why};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show;

/// Texts up to this length are read at once. Only event logs may be longer: the log of a DAG with
/// some ten thousand nodes is.
const MAX_TEXT_BYTES: u64 = 64 << 20;
/// Of longer lines of such a log, only the beginning is read.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Say why a job is idle, held or failed, and what to do
///
/// Reads what the batch system's tools print: `condor_q -better-analyze`, `-long`, `-json` or
/// `-hold`, a job's event log, `scontrol show job`, `sacct`, `squeue`. If a job's number is given
/// instead of a file, these tools are run. Nothing is changed or submitted.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 the state of all jobs is explained, 1 for some job Gular does not know the reason, 2 nothing to read

Example:
  gular job why logs/train.log
  condor_q -better-analyze 123.0 | gular job why -
  gular job why 123.0")]
pub(super) struct WhyArgs {
    /// Files with the output of a tool, `-` for standard input, or jobs' numbers
    #[arg(required = true, value_name = "FILE|JOB")]
    sources: Vec<String>,
}

pub(super) fn run(args: &WhyArgs, output: &Output) -> Result<Exit, Failure> {
    let mut reasons: Vec<JobReason> = Vec::new();
    for source in &args.sources {
        let found = if source == "-" {
            read(io::stdin().lock(), source)?
        } else if !Path::new(source).exists() && is_job(source) {
            ask(source)?
        } else {
            let failed = |e| {
                let failure = Failure::from(gular_files::Error::new("read", source, e));
                failure.with_hint("give a file, or the number of a job, such as `123` or `123.0`")
            };
            read(BufReader::new(File::open(source).map_err(failed)?), source)?
        };
        if found.is_empty() {
            let hint = "give the output of `condor_q -better-analyze`, `condor_q -long`, `scontrol show job`, `sacct` or `squeue` (with its header), or a job's event log";
            let message = format!("`{source}` does not say anything about a job");
            return Err(Failure::new(message, Some(hint.to_owned())));
        }
        reasons.extend(found);
    }
    let is_known = |reason: &JobReason| !reason.why.is_empty() || is_well(reason.state);
    let exit = if reasons.iter().all(is_known) { Exit::Done } else { Exit::Unsound };
    show::value(&json!({ "jobs": reasons }), &words(&reasons), output)?;
    Ok(exit)
}

/// Whether a state needs no reason.
fn is_well(state: JobState) -> bool {
    matches!(state, JobState::Running | JobState::Done | JobState::Removed)
}

fn words(reasons: &[JobReason]) -> String {
    let mut text = String::new();
    for JobReason { job, state, why, remedy, said, .. } in reasons {
        let verb = state.verb();
        let _ = match why.as_str() {
            "" if is_well(*state) => writeln!(text, "job {job} {verb}"),
            "" if *state == JobState::Unread && job == "?" => {
                writeln!(text, "Gular cannot read this line:")
            }
            "" if *state == JobState::Unread => {
                writeln!(text, "Gular cannot read the state of job {job}")
            }
            "" => writeln!(text, "job {job} {verb}; Gular does not know this reason"),
            why => writeln!(text, "job {job} {verb}: {why}"),
        };
        if !said.is_empty() {
            let _ = writeln!(text, "  said: {said}");
        }
        if !remedy.is_empty() {
            let _ = writeln!(text, "  fix: {remedy}");
        }
    }
    text
}

/// The reasons of the jobs in a text of any length.
fn read(mut from: impl BufRead, name: &str) -> Result<Vec<JobReason>, Failure> {
    let failed = |e| Failure::from(gular_files::Error::new("read", name, e));
    let mut bytes = Vec::new();
    from.by_ref().take(MAX_TEXT_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    if from.fill_buf().map_err(failed)?.is_empty() {
        return Ok(why(&String::from_utf8_lossy(&bytes)));
    }
    let found = read_log(Cursor::new(bytes).chain(from)).map_err(failed)?;
    if found.is_empty() {
        let mib = MAX_TEXT_BYTES >> 20;
        let message = format!("`{name}` is longer than {mib} MiB, and is not a job's event log");
        let hint = "ask for fewer jobs, such as `condor_q -long 123.0`, or give the event log";
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    Ok(found)
}

fn read_log(mut from: impl BufRead) -> io::Result<Vec<JobReason>> {
    let mut log = EventLog::default();
    let mut line = Vec::new();
    while from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? > 0 {
        if line.last() != Some(&b'\n') {
            from.skip_until(b'\n')?;
        }
        log.line(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(log.finish())
}

/// Whether a word is the number of a job: `123`, `123.0`, `123_4`.
fn is_job(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '_'))
}

/// Asks the batch system of this machine.
fn ask(job: &str) -> Result<Vec<JobReason>, Failure> {
    // A search for one process ends where it is found; a cluster may have many.
    let history: &[&str] = match job.contains('.') {
        true => &["-long", "-limit", "1", job],
        false => &["-long", job],
    };
    let questions: [(&str, &[&str]); 4] = [
        ("condor_q", &["-long", job]),
        ("condor_history", history),
        ("scontrol", &["show", "job", job]),
        ("sacct", &["-P", "--format=JobID,State,ExitCode", "-j", job]),
    ];
    let mut refusals: Vec<String> = Vec::new();
    for (tool, arguments) in questions {
        let Some((text, refusal)) = printed(tool, arguments) else { continue };
        refusals.push(refusal);
        let mut found = why(&text);
        if tool == "condor_q" {
            analyze(job, &mut found);
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let message = match refusals.iter().find(|refusal| !refusal.is_empty()) {
        Some(refusal) => format!("cannot ask for job `{job}`: {refusal}"),
        None if !refusals.is_empty() => format!("the batch system does not know job `{job}`"),
        None => format!("cannot ask for job `{job}`: this machine has neither HTCondor nor Slurm"),
    };
    let hint = "run `gular job why` on the access point or login node, or give it a file";
    Err(Failure::new(message, Some(hint.to_owned())))
}

/// Asks HTCondor why it does not start those of the jobs that are idle: their attributes do not
/// say it.
fn analyze(job: &str, found: &mut [JobReason]) {
    let mut idle = found.iter_mut().filter(|reason| reason.state == JobState::Idle).peekable();
    if idle.peek().is_none() {
        return;
    }
    let Some((text, _)) = printed("condor_q", &["-better-analyze", job]) else { return };
    let analyzed = why(&text).into_iter().map(|reason| (reason.job.clone(), reason));
    let mut analyzed: BTreeMap<String, JobReason> = analyzed.collect();
    for reason in idle {
        if let Some(better) = analyzed.remove(&reason.job) {
            *reason = better;
        }
    }
}

/// What a tool prints, and the first line of its errors; `None` if it is not on this machine.
fn printed(tool: &str, arguments: &[&str]) -> Option<(String, String)> {
    let printed = Command::new(tool).args(arguments).stdin(Stdio::null()).output().ok()?;
    let errors = String::from_utf8_lossy(&printed.stderr);
    let refusal = errors.lines().next().unwrap_or_default().trim().to_owned();
    Some((String::from_utf8_lossy(&printed.stdout).into_owned(), refusal))
}
