//! Every replay that this machine can do, and what its result says about an image.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{Means, Outcome, Replay, in_namespace, with_apptainer};
use crate::Result;
use crate::check::{CheckReport, Finding, Severity};
use crate::rootfs::{RootPath, Rootfs};
use crate::sif::Arch;

/// A line takes a second; starting a container on a slow disk some more.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Programs of this machine that replays start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tools {
    /// `unshare` of util-linux. Without it nothing is replayed on a tree.
    pub unshare: Option<PathBuf>,
    /// `apptainer` or `singularity`. Without it nothing is replayed on a SIF.
    pub apptainer: Option<PathBuf>,
}

/// Replays with the tools of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Replays<'a> {
    /// The programs of this machine.
    pub tools: &'a Tools,
    /// A folder for temporary files; on the store's file system, so that its files
    /// need not be copied.
    pub temp: &'a Path,
    /// Set when the work is to stop.
    pub cancel: &'a AtomicBool,
}

impl Replays<'_> {
    /// Replays on the files of an image, in a user namespace; nothing without a tool for
    /// it, or for another processor, whose programs do not run here.
    ///
    /// # Errors
    /// Those of [`in_namespace`].
    pub fn of_tree(
        &self,
        tree: &Rootfs,
        arch: Arch,
        program: Option<&RootPath>,
    ) -> Result<Vec<Replay>> {
        let here = if cfg!(target_arch = "aarch64") { Arch::Arm64 } else { Arch::Amd64 };
        match &self.tools.unshare {
            Some(unshare) if arch == here => in_namespace(tree, program, &self.means(unshare)),
            _ => Ok(Vec::new()),
        }
    }

    /// Replays by Apptainer on a SIF; nothing without it.
    ///
    /// # Errors
    /// Those of [`with_apptainer`].
    pub fn of_sif(&self, path: &Path) -> Result<Vec<Replay>> {
        match &self.tools.apptainer {
            Some(apptainer) => with_apptainer(path, &self.means(apptainer)),
            None => Ok(Vec::new()),
        }
    }

    fn means<'a>(&'a self, program: &'a Path) -> Means<'a> {
        Means { program, temp: self.temp, timeout: TIMEOUT, cancel: self.cancel }
    }
}

/// Adds findings to a report: a line that failed is an error, since a job would fail
/// as well.
pub fn judge(replayed: &[Replay], report: &mut CheckReport) {
    for line in replayed.iter().filter(|line| line.outcome != Outcome::Ok) {
        let why = line.why.clone().unwrap_or_default();
        let severity = match line.outcome {
            Outcome::Failed => Severity::Error,
            _ => Severity::Note,
        };
        let said = line.stderr.trim();
        report.findings.push(Finding {
            severity,
            rule: "replay",
            subject: line.name.to_owned(),
            message: if said.is_empty() { why } else { format!("{why}: {said}") },
            hint: (severity == Severity::Error).then(|| format!("the line was: {}", line.line)),
        });
    }
    report.findings.sort();
}
