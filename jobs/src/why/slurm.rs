//! Reads what `scontrol show job`, `sacct` and `squeue` print.

use super::causes::{CAUSES, Sign, fits};
use super::{JobReason, JobState, MAX_SAID_CHARS};

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
        let (id, state) = (get("JobId")?, get("JobState")?);
        if !is_id(id) {
            return None;
        }
        // As squeue and sacct name it, and other commands take it.
        let id = match get("ArrayJobId").zip(get("ArrayTaskId")) {
            Some((array, task)) if task.parse::<u64>().is_ok() => format!("{array}_{task}"),
            Some((array, tasks)) => format!("{array}_[{tasks}]"),
            None => id.to_owned(),
        };
        let unread =
            || JobReason { said: state.to_owned(), ..JobReason::new(&id, JobState::Unread) };
        let exit = get("ExitCode").unwrap_or_default();
        Some(of(&id, state, reason, exit).unwrap_or_else(unread))
    };
    jobs.into_iter().filter_map(reason).collect()
}

/// The table of `sacct` or `squeue`, with its header.
pub(super) fn table(text: &str) -> Vec<JobReason> {
    let mut lines = text.lines();
    let Some(header) = lines.find(|line| is_header(line)) else { return Vec::new() };
    let rest: Vec<&str> = lines.collect();
    let dashes = rest.first().copied().filter(|line| line.starts_with("---"));
    let table = Table { header, dashes };
    let mut found: Vec<JobReason> = Vec::new();
    for line in rest {
        // squeue names each cluster before its table.
        let is_data = !line.trim().is_empty()
            && !line.starts_with("---")
            && !line.starts_with("CLUSTER: ")
            && !is_header(line);
        if !is_data {
            continue;
        }
        let Some((id, state, new)) = table.job(line) else {
            let words: Vec<&str> = line.split_whitespace().collect();
            let id = words.first().copied().filter(|word| is_id(word)).unwrap_or("?");
            let said = words.join(" ").chars().take(MAX_SAID_CHARS).collect();
            found.push(JobReason { said, ..JobReason::new(id, JobState::Unread) });
            continue;
        };
        match id.split_once('.') {
            // A step says more than its job only if it ran out of memory.
            Some((job, _)) if state == "OUT_OF_MEMORY" => {
                if let Some(old) = found.iter_mut().find(|old| old.job == job) {
                    *old = JobReason { job: job.to_owned(), ..new };
                }
            }
            Some(_) => {}
            None => found.push(new),
        }
    }
    // Words that look like a header may be in any text.
    if found.iter().all(|line| line.job == "?") { Vec::new() } else { found }
}

const IDS: [&str; 3] = ["JobID", "JobIDRaw", "JOBID"];
const STATES: [&str; 3] = ["State", "ST", "STATE"];
const REASONS: [&str; 3] = ["Reason", "REASON", "NODELIST(REASON)"];
/// The columns in which a user may write spaces.
const NAMES: [&str; 2] = ["JobName", "NAME"];

fn is_header(line: &str) -> bool {
    let words: Vec<&str> = line.split(['|', ' ']).map(str::trim).collect();
    let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
    has(&IDS) && has(&STATES)
}

/// Whether a word is the number of a job: `12`, `12_3`, `12.batch`, `12_[1-9%2]`.
fn is_id(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains(':')
}

/// Where the cells of a table are.
struct Table<'a> {
    header: &'a str,
    /// The line below the header, as wide as the columns.
    dashes: Option<&'a str>,
}

impl Table<'_> {
    /// A job's number, its state and why it is so; `None` if the line cannot be read.
    fn job(&self, line: &str) -> Option<(String, &'static str, JobReason)> {
        let columns = self.columns();
        let column = |names: &[&str]| columns.iter().position(|name| names.contains(name));
        let read = |cells: &[String]| {
            let cell = |at: Option<usize>| at.and_then(|at| cells.get(at)).map_or("", |c| c);
            let id = cell(column(&IDS));
            let state = cell(column(&STATES));
            let reason = cell(column(&REASONS));
            // A job that runs has its nodes here instead of `(Reason)`.
            let inside = reason.strip_prefix('(').and_then(|reason| reason.strip_suffix(')'));
            let reason = inside.unwrap_or(reason);
            let is_number = |(name, cell): (&&str, &String)| !is_of_digits(name) || is_amount(cell);
            if !is_id(id) || !columns.iter().zip(cells).all(is_number) {
                return None;
            }
            let new = of(id, state, reason, cell(column(&["ExitCode"])))?;
            Some((id.to_owned(), state_of(state)?, new))
        };
        self.cuts(line, &columns).iter().find_map(|cells| read(cells))
    }

    fn columns(&self) -> Vec<&str> {
        if self.header.contains('|') {
            return self.header.split('|').map(str::trim).collect();
        }
        self.header.split_whitespace().collect()
    }

    /// The ways to cut a line into cells, the likeliest first.
    fn cuts(&self, line: &str, columns: &[&str]) -> Vec<Vec<String>> {
        if self.header.contains('|') {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            return spread(&cells, "|", columns);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, but_last) = columns.split_last().unwrap_or((&"", &[]));
        // A job may have neither nodes nor a reason yet.
        let by_words = [spread(&words, " ", columns), spread(&words, " ", but_last)].concat();
        if let Some(dashes) = self.dashes {
            let mut begins = Vec::new();
            for width in dashes.split(' ').map(str::len) {
                begins.push(begins.last().map_or(width, |end| end + 1 + width));
            }
            begins.pop();
            return [vec![cut_at(line, &begins)], by_words].concat();
        }
        // Cells that are empty, or that touch each other, are known only by where they are: below
        // the beginnings of the header's words, or below their ends.
        let letters: Vec<char> = self.header.chars().collect();
        let is_blank = |at: usize| letters.get(at).is_none_or(|c| *c == ' ');
        let words_of = (0..letters.len()).filter(|&at| !is_blank(at));
        let begins: Vec<usize> =
            { words_of.clone() }.filter(|&at| at == 0 || is_blank(at - 1)).skip(1).collect();
        let mut ends: Vec<usize> = words_of.map(|at| at + 1).filter(|&end| is_blank(end)).collect();
        ends.pop();
        [by_words, vec![cut_at(line, &begins), cut_at(line, &ends)]].concat()
    }
}

/// Cuts a line at these places, counted in characters.
fn cut_at(line: &str, places: &[usize]) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    let mut from = 0;
    let cells = places.iter().chain([&usize::MAX]).map(|place| {
        let to = (*place).min(letters.len());
        let cell: String = letters.get(from..to).unwrap_or_default().iter().collect();
        from = to;
        cell.trim().to_owned()
    });
    cells.collect()
}

/// The ways to give more pieces than columns to the columns: all others belong to the job's name
/// or, in the last column, to the reason. The name gets as many as it can.
fn spread(pieces: &[&str], joint: &str, columns: &[&str]) -> Vec<Vec<String>> {
    // Each way is tried; no person's name has as many words.
    const MAX_PIECES: usize = 200;
    let extra = pieces.len().checked_sub(columns.len());
    let Some(extra) = extra.filter(|_| pieces.len() <= MAX_PIECES) else { return Vec::new() };
    let name = columns.iter().position(|column| NAMES.contains(column));
    let last = columns.len().saturating_sub(1);
    let cut = |of_name: usize| {
        let mut rest = pieces.iter();
        let cells = (0..columns.len()).map(|at| {
            let n = match at {
                _ if Some(at) == name => 1 + of_name,
                _ if at == last => pieces.len(),
                _ => 1,
            };
            let cell: Vec<&str> = rest.by_ref().take(n).copied().collect();
            cell.join(joint)
        });
        cells.collect::<Vec<_>>()
    };
    let most = if name.is_some() { extra } else { 0 };
    // The brackets around a reason say where the name ends.
    let in_brackets = |cells: &Vec<String>| {
        let reason = cells.last().map_or("", String::as_str);
        let open = reason.matches('(').count();
        !reason.ends_with(')') || (reason.starts_with('(') && open == reason.matches(')').count())
    };
    (0..=most).rev().map(cut).filter(in_brackets).collect()
}

/// Whether a column holds times or amounts.
fn is_of_digits(column: &str) -> bool {
    column.starts_with("TIME") || ["NODES", "CPUS"].contains(&column)
}

fn is_amount(cell: &str) -> bool {
    cell.starts_with(|c: char| c.is_ascii_digit())
        || ["UNLIMITED", "INVALID", "NOT_SET", "N/A", "Partition_Limit"].contains(&cell)
}

/// Slurm's states, with the short names of squeue.
const SHORT: [(&str, &str); 25] = [
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
    ("LF", "LAUNCH_FAILED"),
    ("PR", "PREEMPTED"),
    ("DL", "DEADLINE"),
    ("CA", "CANCELLED"),
    ("S", "SUSPENDED"),
    ("ST", "STOPPED"),
    ("RQ", "REQUEUED"),
    ("RF", "REQUEUE_FED"),
    ("RH", "REQUEUE_HOLD"),
    ("RD", "RESV_DEL_HOLD"),
    ("SE", "SPECIAL_EXIT"),
    ("RS", "RESIZING"),
    ("RV", "REVOKED"),
    ("SI", "SIGNALING"),
    ("SO", "STAGE_OUT"),
];

/// The whole name of a state: `PD` is PENDING, `CANCELLED by 1000` CANCELLED. sacct cuts long
/// names: `OUT_OF_ME+`.
fn state_of(state: &str) -> Option<&'static str> {
    let state = state.split([' ', '+']).next().unwrap_or_default();
    let named = |name: &str| name == state || (state.len() >= 6 && name.starts_with(state));
    SHORT.iter().find(|(short, name)| *short == state || named(name)).map(|(_, name)| *name)
}

/// The reason of one job, from its columns.
fn of(job: &str, state: &str, reason: &str, exit: &str) -> Option<JobReason> {
    if !is_id(job) {
        return None;
    }
    let state = state_of(state)?;
    // `ReqNodeNotAvail,_UnavailableNodes:n1`
    let key = reason.split([',', '(']).next().unwrap_or_default().trim().replace(' ', "_");
    let code = |part: Option<&str>| part.and_then(|part| part.parse::<i64>().ok());
    let mut parts = exit.split(':');
    let (status, signal) = (code(parts.next()), code(parts.next()));
    let by_state = |is: JobState| {
        let found = JobReason::new(job, is);
        let sign = CAUSES.iter().map(|cause| cause.sign);
        let sign = { sign }.find(|sign| matches!(sign, Sign::State(name) if *name == state));
        JobReason { said: state.to_owned(), ..found.because(sign.as_slice()) }
    };
    Some(match state {
        "PENDING" | "REQUEUED" | "REQUEUE_FED" => {
            let is_held = key.starts_with("JobH") || key.ends_with("held") || key.contains("held_");
            let state = if is_held { JobState::Held } else { JobState::Idle };
            let cause = CAUSES.iter().map(|cause| cause.sign);
            let cause =
                { cause }.find(|sign| matches!(sign, Sign::Reason(pattern) if fits(pattern, &key)));
            let found = JobReason::new(job, state).because(cause.as_slice());
            JobReason { said: reason.to_owned(), ..found }
        }
        "SUSPENDED" | "STOPPED" => by_state(JobState::Idle),
        "REQUEUE_HOLD" | "RESV_DEL_HOLD" | "SPECIAL_EXIT" => by_state(JobState::Held),
        "RUNNING" | "CONFIGURING" | "RESIZING" | "SIGNALING" | "STAGE_OUT" => {
            JobReason::new(job, JobState::Running)
        }
        "COMPLETING" => by_state(JobState::Ending),
        "COMPLETED" => JobReason::new(job, JobState::Done),
        // slurmstepd could not open the files: its error 4021 (ESLURMD_IO_ERROR) is taken for the
        // status of a process, and 4021 & 127 is 53.
        "FAILED" if signal == Some(53) || key == "RaisedSignal:53" => {
            let found = JobReason::new(job, JobState::Failed);
            let said =
                if exit.is_empty() { reason.to_owned() } else { format!("exit code {exit}") };
            JobReason { said, ..found.because(&[Sign::Reason("RaisedSignal:53")]) }
        }
        "FAILED" if status == Some(0) && signal.is_none_or(|signal| signal == 0) => {
            JobReason { said: reason.to_owned(), ..JobReason::new(job, JobState::Failed) }
        }
        "FAILED" => JobReason::ended(job, status.or(Some(1)), signal),
        "CANCELLED" | "REVOKED" => by_state(JobState::Removed),
        _ => by_state(JobState::Failed),
    })
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
    fn jobs_of_an_array_have_their_number_in_it() {
        let text = "JobId=15 ArrayJobId=12 ArrayTaskId=3 JobName=a\n   JobState=FAILED Reason=NonZeroExitCode\n   ExitCode=3:0\n\n\
            JobId=12 ArrayJobId=12 ArrayTaskId=4-9%2 ArrayTaskThrottle=2 JobName=a\n   JobState=PENDING Reason=JobHeldUser\n   ExitCode=0:0\n";
        let found = why(text);
        let jobs: Vec<_> = found.iter().map(|found| (found.job.as_str(), found.state)).collect();
        assert_eq!(jobs, [("12_3", JobState::Failed), ("12_[4-9%2]", JobState::Held)]);
        assert!(found[1].remedy.contains("scontrol release 12`"), "{found:?}");
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
        let nodes = "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions";
        check("PENDING", nodes, "0:0", Idle, "down, drained");
        check("PENDING", "MaxMemPerLimit", "0:0", Idle, "more memory per node");
        check("SUSPENDED", "None", "0:0", Idle, "stopped for a time");
        check("COMPLETING", "None", "0:0", JobState::Ending, "cleaned up");
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

    const DOWN: &str = "the nodes that it could run on are down, drained, or reserved for jobs in partitions with a higher priority";
    const PRIORITY: &str = "jobs with a higher priority come first";

    /// Lines that Slurm 22.05 printed, but for the last ones of some tables.
    #[test]
    fn a_name_with_spaces_hides_no_job() {
        let squeue = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n         4_[1-9%1]      main      arr     root PD       0:00      1 (JobArrayTaskLimit)\n                 6      main      d e     root PD       0:00      2 (Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions)\n                 7      main     a (x     root PD       0:00      1 (BeginTime)\n                 2      main my train     root  R       0:01      1 n1\n                 8      main   x PD 1     root CG       0:01      1 \n";
        let limit = "its array runs as many jobs as its `%` allows";
        let begin = "the time at which it may start has not come (`--begin`, or a requeue)";
        let ending = "its program ended, and its nodes are being cleaned up";
        let expected = [
            is("4_[1-9%1]", JobState::Idle, limit),
            is("6", JobState::Idle, DOWN),
            is("7", JobState::Idle, begin),
            is("2", JobState::Running, ""),
            is("8", JobState::Ending, ending),
        ];
        assert_eq!(said(squeue), expected);
        // As it is after a copy without its spaces.
        let lines =
            squeue.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(said(&lines.collect::<Vec<_>>().join("\n")), expected);
        let long = "Sat Nov 28 20:38:06 2026\n             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)\n                 3       gpu my train       me  PENDING       0:00     30:00      1 (Priority)\n";
        assert_eq!(said(long), [is("3", JobState::Idle, PRIORITY)]);
        let own = "JOBID NAME ST REASON\n6 d e PD Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions\n7 a (x PD Priority\n";
        assert_eq!(said(own), [is("6", JobState::Idle, DOWN), is("7", JobState::Idle, PRIORITY)]);
        let left = "JOBID               NAME                STATE               REASON              \n3                   second one (v2)     PENDING             Priority            \n5                   a name as wide as itPENDING             Priority            \n6                                       PENDING             Priority            \n";
        let all = ["3", "5", "6"].map(|job| is(job, JobState::Idle, PRIORITY));
        assert_eq!(said(left), all);
        let piped = "JobID|JobName|State|ExitCode\n7|a|b|TIMEOUT|0:0\n";
        assert_eq!(said(piped).len(), 1);
        let partition = "JOBID NAME ST NODELIST(REASON)\n6 d e PD (Job's account not permitted to use this partition (gpu allows a not b))\n";
        let account = "its account may not use this partition";
        assert_eq!(said(partition), [is("6", JobState::Idle, account)]);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_a_job_without_a_reason() {
        let text = "JOBID NAME ST REASON\n6 a PD Priority\n7 a XX Priority\n8\nslurm_load_jobs error: timed out\n";
        let found = why(text);
        let states = found.iter().map(|line| (line.job.as_str(), line.state, line.said.as_str()));
        assert_eq!(
            states.collect::<Vec<_>>(),
            [
                ("6", JobState::Idle, "Priority"),
                ("7", JobState::Unread, "7 a XX Priority"),
                ("8", JobState::Unread, "8"),
                ("?", JobState::Unread, "slurm_load_jobs error: timed out"),
            ]
        );
        let long = format!("JOBID NAME ST REASON\n6 {}\n", "a ".repeat(100_000));
        assert_eq!(why(&long).first().map(|job| job.state), Some(JobState::Unread));
        assert_eq!(
            why("JobId=8 JobState=NEW\n").first().map(|job| job.state),
            Some(JobState::Unread)
        );
    }

    #[test]
    fn remedies_name_what_the_tools_of_slurm_take() {
        let remedy = |line: &str| {
            let found = why(&format!("JOBID NAME ST NODELIST(REASON)\n{line}\n"));
            found.first().map(|job| job.remedy.clone()).unwrap_or_default()
        };
        for job in ["1234568_[0-9%4]", "1234568_7"] {
            let said = remedy(&format!("{job} a PD (JobArrayTaskLimit)"));
            assert!(said.contains("`scontrol update JobId=1234568 ArrayTaskThrottle=N`"), "{said}");
        }
        assert!(remedy("12_[0-9] a PD (JobHeldUser)").contains("`scontrol release 12`"));
        assert!(remedy("12_3 a PD (JobHeldUser)").contains("`scontrol release 12_3`"));
        for reason in
            ["QOSMaxJobsPerUserLimit", "QOSGrpGRES", "QOSMaxGRESPerUser", "QOSMaxCpuPerJobLimit"]
        {
            let said = remedy(&format!("12 a PD ({reason})"));
            assert!(said.contains("show qos") && !said.contains("show assoc"), "{reason}: {said}");
        }
        assert!(remedy("12 a PD (MaxMemPerLimit)").contains("MaxMemPerNode"));
    }

    #[test]
    fn an_output_that_cannot_be_opened_is_not_a_signal() {
        for text in [
            "JobId=1 JobName=a.sh JobState=FAILED Reason=JobLaunchFailure ExitCode=0:53\n",
            "JobID|State|ExitCode\n1|FAILED|0:53\n1.batch|FAILED|0:53\n",
            "JOBID NAME ST NODELIST(REASON)\n1 a F (RaisedSignal:53(Real-time_signal_19))\n",
        ] {
            let found = why(text);
            let [found] = found.as_slice() else { panic!("{found:?}") };
            assert!(found.state == JobState::Failed && found.why.contains("cannot be opened"));
            assert!(found.remedy.contains("make the folder"), "{found:?}");
        }
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
