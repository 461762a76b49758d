//! `gular job why`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use gular_jobs::why::{JobReason, JobState, why};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show;

/// Longer logs are read up to here.
const MAX_TEXT_BYTES: u64 = 64 << 20;

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
            why(&text(io::stdin().lock(), source)?)
        } else if !Path::new(source).exists() && is_job(source) {
            ask(source)?
        } else {
            let failed = |e| Failure::from(gular_files::Error::new("read", source, e));
            why(&text(File::open(source).map_err(failed)?, source)?)
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

fn text(from: impl Read, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = from.take(MAX_TEXT_BYTES).read_to_end(&mut bytes);
    read.map_err(|e| Failure::from(gular_files::Error::new("read", name, e)))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a word is the number of a job: `123`, `123.0`, `123_4`.
fn is_job(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '_'))
}

/// Asks the batch system of this machine.
fn ask(job: &str) -> Result<Vec<JobReason>, Failure> {
    let questions: [(&str, &[&str]); 4] = [
        ("condor_q", &["-long", job]),
        ("condor_history", &["-long", "-limit", "1", job]),
        ("scontrol", &["show", "job", job]),
        ("sacct", &["-P", "--format=JobID,State,ExitCode", "-j", job]),
    ];
    let mut refusals: Vec<String> = Vec::new();
    for (tool, arguments) in questions {
        let Some((text, refusal)) = printed(tool, arguments) else { continue };
        refusals.push(refusal);
        let found = why(&text);
        // Only the analysis says why HTCondor starts no job.
        if tool == "condor_q" && found.iter().any(|reason| reason.state == JobState::Idle) {
            let analyzed = printed(tool, &["-better-analyze", job]).map(|(text, _)| why(&text));
            if let Some(analyzed) = analyzed.filter(|analyzed| !analyzed.is_empty()) {
                return Ok(analyzed);
            }
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

/// What a tool prints, and the first line of its errors; `None` if it is not on this machine.
fn printed(tool: &str, arguments: &[&str]) -> Option<(String, String)> {
    let printed = Command::new(tool).args(arguments).stdin(Stdio::null()).output().ok()?;
    let errors = String::from_utf8_lossy(&printed.stderr);
    let refusal = errors.lines().next().unwrap_or_default().trim().to_owned();
    Some((String::from_utf8_lossy(&printed.stdout).into_owned(), refusal))
}
