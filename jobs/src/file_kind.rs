//! What a file is for, by its name and its text.

use crate::sbatch;
use crate::script::Language;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// HTCondor's submit file.
    Submit,
    /// DAGMan's graph.
    Dag,
    /// A script for `sbatch`.
    Sbatch,
    /// Any other shell script.
    Shell,
    /// A program in Python.
    Python,
    /// A program in a language that is not read.
    Other,
}

impl FileKind {
    /// Recognises a file by its name, else by its text.
    #[must_use]
    pub(crate) fn of(name: &str, text: &str) -> Self {
        let end = name.rsplit('.').next().unwrap_or_default();
        let is_condors = text.starts_with("#!") && matches!(end, "sub" | "submit" | "condor");
        if (matches!(end, "sh" | "bash") && is_submit(text)) || (is_condors && begins_queue(text)) {
            return Self::Submit;
        }
        match end {
            "dag" => return Self::Dag,
            // Scripts for sbatch are called `run.sub`, too.
            "sub" | "submit" | "condor" if !text.starts_with("#!") => return Self::Submit,
            "sbatch" | "slurm" => return Self::Sbatch,
            "py" => return Self::Python,
            _ => {}
        }
        if sbatch::is_sbatch(text) {
            return Self::Sbatch;
        }
        match Language::of(text) {
            Some(Language::Python) => return Self::Python,
            Some(Language::Other) => return Self::Other,
            Some(Language::Shell) => return Self::Shell,
            None if end == "sh" || end == "bash" => return Self::Shell,
            None => {}
        }
        let dag = |line: &str| {
            let mut words = line.split_whitespace();
            matches!(words.next(), Some("JOB" | "PARENT" | "SPLICE" | "SUBDAG"))
                && !line.contains('=')
        };
        if text.lines().any(dag) { Self::Dag } else { Self::Submit }
    }
}

/// Whether a text sets `executable`, and has a line `queue`.
fn begins_queue(text: &str) -> bool {
    is_submit(text.split_once('\n').map_or("", |(_, rest)| rest))
}

/// Whether a text without a first line `#!` has what every submit file has, whatever its name.
fn is_submit(text: &str) -> bool {
    let begins = |word: &str| {
        text.lines().any(|line| {
            let line = line.trim_start();
            let rest = line.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word));
            rest.and_then(|_| line.get(word.len()..)).is_some_and(|rest| {
                let rest = rest.trim_start();
                rest.is_empty() || word == "queue" || rest.starts_with('=')
            })
        })
    };
    !text.starts_with("#!") && begins("queue") && begins("executable")
}
