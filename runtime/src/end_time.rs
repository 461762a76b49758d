//! Asks the batch system when it will end this job.
//!
//! | batch system | says it in |
//! |---|---|
//! | Slurm | `SLURM_JOB_END_TIME`, else `scontrol show job` |
//! | HTCondor | `AllowedJobDuration`, `AllowedExecuteDuration` of the job ad (`_CONDOR_JOB_AD`) |
//! | a glidein | `GLIDEIN_ToDie` of the machine ad (`_CONDOR_MACHINE_AD`) |

use std::fmt;
use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gular_files::Env;

// A controller that does not answer makes `scontrol` try for minutes.
const SCONTROL_PATIENCE: Duration = Duration::from_secs(10);

/// When a job will be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTime {
    /// The time.
    pub at: SystemTime,
    /// The source of this time.
    pub source: &'static str,
    /// Whether a program that stops before this time with the code of a checkpoint is started again
    /// at once, as by HTCondor, and not after another wait in the queue.
    pub restarts: bool,
}

impl EndTime {
    /// The earliest end that this job's batch system gives; `None` where it gives none. `now` is
    /// when the program was started.
    ///
    /// An end that is put off later is not seen.
    #[must_use]
    pub fn discover(env: &Env, now: SystemTime) -> Option<Self> {
        Self::earliest(env, now, &scontrol)
    }

    fn earliest(
        env: &Env,
        now: SystemTime,
        scontrol: &dyn Fn(&str) -> Option<String>,
    ) -> Option<Self> {
        let found = [slurm(env, now, scontrol)].into_iter().chain(condor(env, now));
        found.flatten().min_by_key(|end| end.at)
    }

    /// Returns the time left until then; zero if it is past.
    #[must_use]
    pub fn left(&self, now: SystemTime) -> Duration {
        self.at.duration_since(now).unwrap_or_default()
    }
}

impl fmt::Display for EndTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source)
    }
}

/// Seconds since 1970 as a time; 0 and less mean none.
fn at(seconds: i64) -> Option<SystemTime> {
    let seconds = u64::try_from(seconds).ok().filter(|n| *n > 0)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn slurm(env: &Env, now: SystemTime, scontrol: &dyn Fn(&str) -> Option<String>) -> Option<EndTime> {
    let job = env.get("SLURM_JOB_ID")?;
    if let Some(end) =
        env.get("SLURM_JOB_END_TIME").and_then(|text| at(text.trim().parse().ok()?))
    {
        return Some(EndTime { at: end, source: "SLURM_JOB_END_TIME", restarts: false });
    }
    // Limit and running time rather than `EndTime`, which is in the time zone of the machine.
    let shown = scontrol(job)?;
    let of = |name: &str| {
        let value = shown.split_whitespace().find_map(|word| word.strip_prefix(name));
        value.and_then(slurm_duration)
    };
    let left = of("TimeLimit=")?.saturating_sub(of("RunTime=")?);
    Some(EndTime { at: now.checked_add(left)?, source: "scontrol show job", restarts: false })
}

/// `minutes:seconds`, `hours:minutes:seconds` or `days-hours:minutes:seconds`.
fn slurm_duration(text: &str) -> Option<Duration> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds = 0_u64;
    for part in clock.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    let days: u64 = days.parse().ok()?;
    let seconds = days.checked_mul(86_400)?.checked_add(seconds)?;
    clock.contains(':').then(|| Duration::from_secs(seconds))
}

/// The output of Slurm's `scontrol` for a job, if the program exists and answers.
fn scontrol(job: &str) -> Option<String> {
    let mut command = Command::new("scontrol");
    command.args(["--oneliner", "show", "job", job]);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = quiet.spawn().ok()?;
    let since = Instant::now();
    // A line is less than a pipe holds, so that the program never waits for its reader.
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if since.elapsed() < SCONTROL_PATIENCE => sleep(Duration::from_millis(20)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break false;
            }
        }
    };
    let mut text = String::new();
    child.stdout.take()?.read_to_string(&mut text).ok()?;
    ended.then_some(text)
}

/// Job ad and machine ad, as HTCondor's starter writes them when it starts a job.
fn condor(env: &Env, now: SystemTime) -> [Option<EndTime>; 3] {
    let ad = |variable| env.get(variable).and_then(|path| fs::read_to_string(path).ok());
    let (job, machine) = (ad("_CONDOR_JOB_AD"), ad("_CONDOR_MACHINE_AD"));
    let number = |ad: &Option<String>, name| ad.as_deref().and_then(|ad| attribute(ad, name));
    let after = |begin: SystemTime, seconds: i64| {
        begin.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
    };
    // The shadow's own rule: the job's duration counts from the shadow's birth, and that of
    // execution from its beginning or its last checkpoint, which both are a start of this
    // program; the ad may have an earlier one.
    let born = number(&job, "ShadowBday").or_else(|| number(&job, "JobCurrentStartDate"));
    let born = born.and_then(at).unwrap_or(now);
    let of_job = number(&job, "AllowedJobDuration").and_then(|n| after(born, n));
    let of_execution = number(&job, "AllowedExecuteDuration").and_then(|n| after(now, n));
    let of_glidein = number(&machine, "GLIDEIN_ToDie").and_then(at);
    let end = |at: Option<SystemTime>, source| at.map(|at| EndTime { at, source, restarts: true });
    [
        end(of_job, "AllowedJobDuration of the job ad"),
        end(of_execution, "AllowedExecuteDuration of the job ad"),
        end(of_glidein, "GLIDEIN_ToDie of the machine ad"),
    ]
}

/// The whole number that `name` is in an ad of lines `Name = value`; names have no case.
fn attribute(ad: &str, name: &str) -> Option<i64> {
    ad.lines().find_map(|line| {
        let (found, value) = line.split_once('=')?;
        found.trim().eq_ignore_ascii_case(name).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn check(pairs: &[(&str, &str)], shown: Option<&str>, expected: Option<(u64, &str)>) {
        let now = at(NOW as i64).unwrap();
        let scontrol = |job: &str| {
            assert_eq!(job, "7");
            shown.map(str::to_owned)
        };
        let found = EndTime::earliest(&Env::from_pairs(pairs), now, &scontrol);
        let found = found.map(|end| (end.left(now).as_secs(), end.source));
        assert_eq!(found, expected, "{pairs:?} {shown:?}");
    }

    #[test]
    fn slurm_says_it_in_a_variable_or_when_asked() {
        check(&[], None, None);
        check(&[("SLURM_JOB_ID", "7")], None, None);
        let variable = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_END_TIME", "1800003600")];
        check(&variable, None, Some((3600, "SLURM_JOB_END_TIME")));
        check(&variable[1..], None, None);
        let job = &variable[..1];
        // The output has the form of Slurm 22.05.
        let shown = |run: &str, limit: &str| {
            format!(
                "JobId=7 JobName=a Requeue=1 RunTime={run} TimeLimit={limit} TimeMin=N/A \
                     EndTime=2027-01-15T09:00:00 Deadline=N/A"
            )
        };
        let check = |run, limit, expected: Option<u64>| {
            check(job, Some(&shown(run, limit)), expected.map(|n| (n, "scontrol show job")));
        };
        check("00:00:05", "00:10:00", Some(595));
        check("1-02:00:00", "2-00:00:00", Some(79_200));
        check("00:11:00", "00:10:00", Some(0));
        check("00:00:05", "UNLIMITED", None);
        check("00:00:05", "Partition_Limit", None);
        check("INVALID", "00:10:00", None);
    }

    #[test]
    fn condor_says_it_in_its_ads_and_the_earliest_counts() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let check = |job: &str, machine: &str, expected| {
            let (job, machine) = (write("job", job), write("machine", machine));
            check(&[("_CONDOR_JOB_AD", &job), ("_CONDOR_MACHINE_AD", &machine)], None, expected);
        };
        check("", "", None);
        let of_job = "AllowedJobDuration of the job ad";
        check("AllowedJobDuration = 7200\n", "", Some((7200, of_job)));
        let job = "ShadowBday = 1799999000\nJobCurrentStartDate = 5\nallowedjobduration = 7200\n";
        check(job, "", Some((6200, of_job)));
        check(
            "AllowedJobDuration = 7200\nJobCurrentStartDate = 1799999900\n",
            "",
            Some((7100, of_job)),
        );
        // Counted from the last checkpoint, whatever an earlier start was.
        let execute = "JobCurrentStartExecutingDate = 1\nAllowedExecuteDuration = 600\n";
        check(execute, "", Some((600, "AllowedExecuteDuration of the job ad")));
        let machine = "GLIDEIN_ToRetire = 1\nGLIDEIN_ToDie = 1800000500\n";
        check(execute, machine, Some((500, "GLIDEIN_ToDie of the machine ad")));
        check("AllowedJobDuration = 3600 * 2\n", "GLIDEIN_ToDie = undefined\n", None);
    }

    #[test]
    fn a_file_that_is_not_there_says_nothing() {
        check(&[("_CONDOR_JOB_AD", "/none"), ("_CONDOR_MACHINE_AD", "/none")], None, None);
    }
}
