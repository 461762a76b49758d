//! Runs HTCondor's own lines with Apptainer.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::process::run;
use super::{JOB, Means, Outcome, Replay};
use crate::{Error, Result};

/// Replays on a SIF what HTCondor's starter does before and with a job
/// (`SINGULARITY_RUN_TEST_BEFORE_JOB`, and the job itself).
///
/// # Errors
/// [`Error::Io`], [`Error::Cancelled`]. A line that fails is not an error.
pub fn with_apptainer(sif: &Path, means: &Means<'_>) -> Result<Vec<Replay>> {
    let temp = tempfile::TempDir::with_prefix_in("gular-job-", means.temp);
    let temp = temp.map_err(Error::io("create", means.temp))?;
    let job = temp.path().join("job.sh");
    fs::write(&job, JOB).map_err(Error::io("write", &job))?;
    fs::set_permissions(&job, fs::Permissions::from_mode(0o755))
        .map_err(Error::io("write", &job))?;
    let line = |quiet: &str, verb: &str, command: &[OsString]| {
        let mut line = as_user(means.program);
        line.args([quiet, verb, "-S", "/tmp", "-S", "/var/tmp", "-W"]).arg(temp.path());
        line.arg("--pwd").arg(temp.path()).arg("-B").arg(temp.path());
        line.args(["--no-home", "-C"]).arg(sif).args(command);
        line
    };
    let shell = ["/bin/sh", "-c", ":"].map(OsString::from);
    let (test, _) = run("test", &mut line("-q", "test", &[]), means)?;
    let (exec, _) = run("exec", &mut line("-s", "exec", &shell), means)?;
    let (mut script, _) = run("job script", &mut line("-s", "exec", &[job.into()]), means)?;
    if script.outcome == Outcome::Ok && !temp.path().join("written").exists() {
        script.outcome = Outcome::Failed;
        script.why = Some("the file that the job wrote is missing afterwards".to_owned());
    }
    Ok(vec![test, exec, script])
}

/// Starts a program as a batch system would, which never runs jobs as root. Apptainer refuses root
/// without all capabilities, as in a container, so root gets a user namespace.
fn as_user(program: &Path) -> Command {
    // A program that does not exist fails by itself.
    if !rustix::process::geteuid().is_root() || !program.is_file() {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(program);
    command
}
