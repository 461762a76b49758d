//! The lines with which HTCondor tests and starts a job, replayed on an image.
//!
//! With Apptainer these are its own lines on the SIF ([`with_apptainer`]). Without Apptainer, the
//! tree is put into a folder, and the same is done in a user namespace ([`in_namespace`]): no root
//! and no runtime is needed. The program itself is never run: the image's own `ld.so` says what it
//! would load.
//!
//! This shows whether an image works, but it is not a sandbox: a program may leave the folder in
//! ways that a real runtime prevents. It is for images of one's own.

mod apptainer;
mod folder;
mod namespace;
mod process;
mod replays;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;

pub use self::apptainer::with_apptainer;
pub use self::namespace::in_namespace;
pub use self::replays::{Replays, Tools, judge};

/// One line that was replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// The step of HTCondor: `test`, `exec`, `job script`, or `libraries`.
    pub name: &'static str,
    /// The command line that was run.
    pub line: String,
    /// Whether the command line succeeded.
    pub outcome: Outcome,
    /// Why the command line failed, or could not be tried.
    pub why: Option<String>,
    /// The end of what the command line printed on standard error.
    pub stderr: String,
}

/// The outcome of a replayed line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The line ended with status 0.
    Ok,
    /// The line failed; a job would fail, too.
    Failed,
    /// The line cannot be tried here.
    NotPossible,
}

/// How a replay was run.
#[derive(Debug, Clone, Copy)]
pub struct Means<'a> {
    /// `apptainer` (or `singularity`) or `unshare` of util-linux.
    pub program: &'a Path,
    /// A folder for temporary files; on the store's file system, so that its files
    /// need not be copied.
    pub temp: &'a Path,
    /// The longest that one line may take.
    pub timeout: Duration,
    /// Set when the work is to stop.
    pub cancel: &'a AtomicBool,
}

impl Replay {
    fn not_possible(name: &'static str, why: impl Into<String>) -> Self {
        Self {
            name,
            line: String::new(),
            outcome: Outcome::NotPossible,
            why: Some(why.into()),
            stderr: String::new(),
        }
    }
}

/// A job's script: HTCondor starts whatever file the user sent.
const JOB: &str = "#!/bin/bash\nset -e\necho done >\"${0%/*}/written\"\n";
