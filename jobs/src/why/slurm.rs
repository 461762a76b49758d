//! Reads what `scontrol show job`, `sacct` and `squeue` print.

use super::causes::{CAUSES, Sign, fits};
use super::{JobReason, JobState};

/// `JobId=1 … JobState=PENDING Reason=Priority … ExitCode=0:0`, for each job.
pub(super) fn scontrol(text: &str) -> Vec<JobReason> {
    let mut jobs: Vec<Vec<(&str, &str)>> = Vec::new();
    for (key, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
        if key == "JobId" {
            jobs.push(Vec::new());
        }
        if let Some(job) = jobs.last_mut() {
            job.push((key, value));
        }
    }
    let reason = |job: Vec<(&str, &str)>| {
        let get = |name: &str| job.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let reason = get("Reason").unwrap_or_default();
        of(get("JobId")?, get("JobState")?, reason, get("ExitCode").unwrap_or_default())
    };
    jobs.into_iter().filter_map(reason).collect()
}

/// The table of `sacct` or `squeue`, with its header.
pub(super) fn table(text: &str) -> Vec<JobReason> {
    let mut lines = text.lines();
    let is_header = |line: &&str| {
        let words: Vec<&str> = line.split(['|', ' ']).map(str::trim).collect();
        let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
        has(&["JobID", "JobIDRaw", "JOBID"]) && has(&["State", "ST", "STATE"])
    };
    let Some(header) = lines.find(is_header) else { return Vec::new() };
    let rest: Vec<&str> = lines.collect();
    let dashes = rest.first().filter(|line| line.starts_with("---"));
    // Where each column is: between `|`, under dashes, or at words.
    let cut = |line: &str| -> Vec<String> {
        if header.contains('|') {
            return line.split('|').map(|cell| cell.trim().to_owned()).collect();
        }
        let Some(dashes) = dashes else {
            return line.split_whitespace().map(str::to_owned).collect();
        };
        let mut cells = Vec::new();
        let mut at = 0;
        for width in dashes.split(' ').map(str::len) {
            let cell: String = line.chars().skip(at).take(width).collect();
            cells.push(cell.trim().to_owned());
            at += width + 1;
        }
        cells
    };
    let columns = cut(header);
    let column = |names: &[&str]| columns.iter().position(|name| names.contains(&name.as_str()));
    let (id, state) = (column(&["JobID", "JobIDRaw", "JOBID"]), column(&["State", "ST", "STATE"]));
    let (exit, reason) = (column(&["ExitCode"]), column(&["Reason", "REASON"]));
    let mut found: Vec<JobReason> = Vec::new();
    for line in rest.iter().filter(|line| !line.trim().is_empty() && !line.starts_with("---")) {
        let cells = cut(line);
        let cell = |at: Option<usize>| at.and_then(|at| cells.get(at)).map_or("", String::as_str);
        // The last column of squeue is `(Reason)` for a job that waits.
        let in_brackets = line.rsplit_once('(').and_then(|(_, inside)| inside.split_once(')'));
        let reason = match cell(reason) {
            "" => in_brackets.map_or("", |(inside, _)| inside),
            reason => reason,
        };
        let Some(new) = of(cell(id), cell(state), reason, cell(exit)) else { continue };
        match new.job.split_once('.').map(|(job, _)| job.to_owned()) {
            // A step says more than its job only if it ran out of memory.
            Some(job) if cell(state).starts_with("OUT_OF_ME") => {
                if let Some(old) = found.iter_mut().find(|old| old.job == job) {
                    *old = JobReason { job, ..new };
                }
            }
            Some(_) => {}
            None => found.push(new),
        }
    }
    found
}

/// The short names of squeue.
const SHORT: [(&str, &str); 13] = [
    ("PD", "PENDING"),
    ("R", "RUNNING"),
    ("CG", "COMPLETING"),
    ("CF", "CONFIGURING"),
    ("CD", "COMPLETED"),
    ("F", "FAILED"),
    ("TO", "TIMEOUT"),
    ("OOM", "OUT_OF_MEMORY"),
    ("NF", "NODE_FAIL"),
    ("BF", "BOOT_FAIL"),
    ("PR", "PREEMPTED"),
    ("DL", "DEADLINE"),
    ("CA", "CANCELLED"),
];

/// The reason of one job, from its columns.
fn of(job: &str, state: &str, reason: &str, exit: &str) -> Option<JobReason> {
    let state = state.split([' ', '+']).next().unwrap_or_default();
    let state = SHORT.iter().find(|(short, _)| *short == state).map_or(state, |(_, long)| long);
    // `ReqNodeNotAvail,_UnavailableNodes:n1`
    let key = reason.split([',', '(']).next().unwrap_or_default().trim().replace(' ', "_");
    if job.is_empty() || !job.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let code = |part: Option<&str>| part.and_then(|part| part.parse::<u32>().ok());
    let mut parts = exit.split(':');
    let (status, signal) = (code(parts.next()), code(parts.next()));
    let named = |prefix: &str| {
        let mut states = CAUSES.iter().map(|cause| cause.sign);
        states.find(|sign| matches!(sign, Sign::State(name) if name.starts_with(prefix)))
    };
    let found = match state {
        "PENDING" | "REQUEUED" | "SUSPENDED" => {
            let is_held = key.starts_with("JobH") || key.ends_with("held") || key.contains("held_");
            let state = if is_held { JobState::Held } else { JobState::Idle };
            let cause = CAUSES.iter().map(|cause| cause.sign);
            let cause =
                { cause }.find(|sign| matches!(sign, Sign::Reason(pattern) if fits(pattern, &key)));
            let found = JobReason::new(job, state).because(cause.as_slice());
            JobReason { said: reason.to_owned(), ..found }
        }
        "RUNNING" | "COMPLETING" | "CONFIGURING" => JobReason::new(job, JobState::Running),
        "COMPLETED" => JobReason::new(job, JobState::Done),
        "FAILED" if status == Some(0) && signal.is_none_or(|signal| signal == 0) => {
            JobReason { said: reason.to_owned(), ..JobReason::new(job, JobState::Failed) }
        }
        "FAILED" => JobReason::ended(job, status.or(Some(1)), signal),
        // sacct cuts long names: `OUT_OF_ME+`.
        _ if state.len() >= 6 => {
            let cause = named(state)?;
            let removed = cause == Sign::State("CANCELLED");
            let state_of = if removed { JobState::Removed } else { JobState::Failed };
            let found = JobReason::new(job, state_of).because(&[cause]);
            JobReason { said: state.to_owned(), ..found }
        }
        _ => return None,
    };
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::why;
    use super::*;

    fn said(text: &str) -> Vec<(String, JobState, String)> {
        why(text).into_iter().map(|reason| (reason.job, reason.state, reason.why)).collect()
    }

    fn is(job: &str, state: JobState, why: &str) -> (String, JobState, String) {
        (job.to_owned(), state, why.to_owned())
    }

    #[test]
    fn scontrol_is_read() {
        let job = |state: &str, reason: &str, exit: &str| {
            format!(
                "JobId=81 JobName=train run\n   UserId=me(1000) GroupId=me(1000)\n   JobState={state} Reason={reason} Dependency=(null)\n   Requeue=1 ExitCode={exit}\n   Command=/home/me/a.sh --x=1\n"
            )
        };
        let check = |state: &str, reason: &str, exit: &str, is: JobState, part: &str| {
            let found = why(&job(state, reason, exit));
            let [found] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!((found.job.as_str(), found.state), ("81", is), "{found:?}");
            assert!(
                found.why.contains(part) && (part.is_empty() || !found.remedy.is_empty()),
                "{found:?}"
            );
        };
        use JobState::{Done, Failed, Held, Idle, Running};
        check("PENDING", "Priority", "0:0", Idle, "higher priority");
        check("PENDING", "ReqNodeNotAvail,_UnavailableNodes:n[1-3]", "0:0", Idle, "maintenance");
        check("PENDING", "AssocGrpCPUMinutesLimit", "0:0", Idle, "compute time");
        check("PENDING", "AssocGrpGRES", "0:0", Idle, "as much as it may");
        check("PENDING", "QOSMaxJobsPerUserLimit", "0:0", Idle, "as many jobs");
        check("PENDING", "QOSMaxGRESPerUser", "0:0", Idle, "as much as its QOS");
        check("PENDING", "QOSMaxWallDurationPerJobLimit", "0:0", Idle, "more than its QOS");
        check("PENDING", "JobHeldUser", "0:0", Held, "on hold");
        check("PENDING", "launch_failed_requeued_held", "0:0", Held, "start failed");
        check("PENDING", "DependencyNeverSatisfied", "0:0", Idle, "never start");
        check("RUNNING", "None", "0:0", Running, "");
        check("COMPLETED", "None", "0:0", Done, "");
        check("TIMEOUT", "TimeLimit", "0:0", Failed, "time limit");
        check("OUT_OF_MEMORY", "OutOfMemory", "0:125", Failed, "more memory");
        check("FAILED", "NonZeroExitCode", "127:0", Failed, "not found");
        check("FAILED", "NonZeroExitCode", "0:4", Failed, "illegal instruction");
        check("PENDING", "NewReason", "0:0", Idle, "");
    }

    #[test]
    fn tables_of_sacct_and_squeue_are_read() {
        let sacct = "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n------------ ---------- ---------- ---------- ---------- ---------- -------- \n12              my job        gpu        lab          4     FAILED      2:0 \n12.batch          batch                   lab          4     FAILED      2:0 \n13                train        gpu        lab          4     FAILED      1:0 \n13.0             python                   lab          4 OUT_OF_ME+    0:125 \n14                train        gpu        lab          4 CANCELLED+      0:0 \n15_3              train        gpu        lab          4  COMPLETED      0:0 \n";
        let memory = "it used more memory than it asked for, and was killed";
        let cancelled = "somebody cancelled it with `scancel`, or a job that it waited for failed";
        let usage = "the program ended with exit code 2, by which many programs say that an option is wrong";
        assert_eq!(
            said(sacct),
            [
                is("12", JobState::Failed, usage),
                is("13", JobState::Failed, memory),
                is("14", JobState::Removed, cancelled),
                is("15_3", JobState::Done, ""),
            ]
        );
        let piped = "JobID|State|ExitCode\n7|TIMEOUT|0:0\n7.batch|CANCELLED|0:15\n8|CANCELLED by 1000|0:0\n";
        let limit = "it was still running at its time limit";
        assert_eq!(
            said(piped),
            [is("7", JobState::Failed, limit), is("8", JobState::Removed, cancelled)]
        );
        let squeue = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n    2875_[432-1000]  standard    train       me PD       0:00      1 (Resources)\n           2876  standard    train       me  R       1:00      1 n17\n           2877  standard    train       me PD       0:00      1 (launch failed requeued held)\n";
        assert_eq!(
            said(squeue),
            [
                is("2875_[432-1000]", JobState::Idle, "what it asks for is in use by other jobs"),
                is("2876", JobState::Running, ""),
                is("2877", JobState::Held, "its start failed on a node"),
            ]
        );
        let own = "JOBID STATE REASON\n9 PENDING Priority\n";
        assert_eq!(said(own), [is("9", JobState::Idle, "jobs with a higher priority come first")]);
    }

    #[test]
    fn patterns_fit_whole_names() {
        assert!(fits("AssocGrp*Minutes*", "AssocGrpCPUMinutesLimit") && fits("a*", "a"));
        assert!(!fits("Dependency", "DependencyNeverSatisfied") && !fits("a*c", "ab"));
        assert!(
            fits("Max*PerAccount", "MaxJobsPerAccount") && !fits("Max*PerAccount", "MaxPerUser")
        );
    }
}
