//! HTCondor's lines, replayed on an image.

use std::path::Path;
use std::time::Duration;

use gular_containers::check::{Finding, Report, Severity};
use gular_containers::replay::{Means, Outcome, Replay, in_namespace, with_apptainer};
use gular_containers::rootfs::{RootPath, Rootfs};
use gular_containers::sif::Arch;

use super::places::{Cache, on_path};
use crate::exit::Failure;
use crate::network::ended;
use crate::stop::Stop;

/// A line takes a second; starting a container on a slow disk some more.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Replays on the files of an image, in a user namespace.
pub(super) fn of_tree(
    tree: &Rootfs,
    arch: Arch,
    program: Option<&RootPath>,
    cache: &Cache,
    stop: &Stop,
) -> Result<Vec<Replay>, Failure> {
    let here = if cfg!(target_arch = "aarch64") { Arch::Arm64 } else { Arch::Amd64 };
    if arch != here {
        // Nothing of it runs on this machine.
        return Ok(Vec::new());
    }
    // Without it the line says that it was not possible.
    let unshare = on_path("unshare").unwrap_or_else(|| "unshare".into());
    let temp = cache.made()?;
    let means = Means { program: &unshare, temp, timeout: TIMEOUT, cancel: &stop.flag };
    in_namespace(tree, program, &means).map_err(|error| ended(error, stop))
}

/// Replays by Apptainer on a SIF, where it is installed; nothing otherwise.
pub(super) fn of_sif(path: &Path, cache: &Cache, stop: &Stop) -> Result<Vec<Replay>, Failure> {
    let Some(apptainer) = on_path("apptainer").or_else(|| on_path("singularity")) else {
        return Ok(Vec::new());
    };
    let temp = cache.made()?;
    let means = Means { program: &apptainer, temp, timeout: TIMEOUT, cancel: &stop.flag };
    with_apptainer(path, &means).map_err(|error| ended(error, stop))
}

/// A line that failed is a finding: the job would fail as well.
pub(super) fn judge(replayed: &[Replay], report: &mut Report) {
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

/// One line for all.
pub(super) fn text(replayed: &[Replay]) -> String {
    if replayed.is_empty() {
        return String::new();
    }
    let word = |line: &Replay| {
        let outcome = match line.outcome {
            Outcome::Ok => "ok",
            Outcome::Failed => "failed",
            Outcome::NotPossible => "not possible here",
        };
        format!("{} {outcome}", line.name)
    };
    let words = replayed.iter().map(word).collect::<Vec<_>>().join(", ");
    format!("{:<18}{words}\n", "HTCondor's lines")
}
