//! `gular job why`: logs and tools' output become reasons and remedies.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use gular_tests::{Outcome, finish, gular, put};
use serde_json::Value;

const LOG: &str = "000 (123.000.000) 2026-05-01 10:00:00 Job submitted from host: <10.0.0.1:9618>
...
001 (123.000.000) 2026-05-01 10:01:00 Job executing on host: <10.0.0.2:9618>
...
012 (123.000.000) 2026-05-01 10:05:00 Job was held.
\tError from slot1@node7: memory usage exceeded request_memory
\tCode 34 Subcode 102
...
";

/// Runs the verb with only the tools in `dir` to ask.
fn why(dir: &Path, args: &[&str]) -> Outcome {
    let mut command = Command::new(gular());
    command.args(["job", "why"]).args(args).current_dir(dir);
    finish(command.env("PATH", dir.join("tools")))
}

/// A tool that prints `text` if it is called with `arguments`.
fn tool(dir: &Path, name: &str, cases: &[(&str, &str)]) {
    let cases: String = cases
        .iter()
        .map(|(arguments, text)| format!("[ \"$*\" = '{arguments}' ] && printf '%s' '{text}'\n"))
        .collect();
    let path = dir.join("tools").join(name);
    put(dir, &path, format!("#!/bin/sh\n{cases}exit 0\n").as_bytes());
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_log_becomes_one_sentence_and_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "train.log", LOG.as_bytes());
    let said = why(dir.path(), &["train.log"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.stdout.starts_with(
            "job 123.0 is held: it used more memory than it asked for\n  said: Error from slot1@node7: "
        ) && said.stdout.contains("`condor_release 123.0`"),
        "{said:?}"
    );
    let report: Value =
        serde_json::from_str(&why(dir.path(), &["train.log", "--json"]).stdout).unwrap();
    let job = &report["jobs"][0];
    assert_eq!((&job["job"], &job["state"]), (&"123.0".into(), &"held".into()));
    assert!(job["source"].as_str().unwrap().contains("HTCondor manual"), "{report}");
}

#[test]
fn exit_codes_say_whether_all_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "odd", b"JobStatus = 5\nHoldReasonCode = 99\nHoldReason = \"odd\"\n");
    put(dir.path(), "none", b"hello\n");
    put(dir.path(), "runs", b"JobId=1 JobState=RUNNING Reason=None ExitCode=0:0\n");
    let odd = why(dir.path(), &["odd"]);
    assert_eq!(odd.code, Some(1), "{odd:?}");
    assert!(odd.stdout.contains("odd (code 99)"), "{odd:?}");
    assert_eq!(why(dir.path(), &["runs"]).code, Some(0));
    for source in ["none", "missing.log", "12.0"] {
        let outcome = why(dir.path(), &[source]);
        assert!(outcome.code == Some(2) && outcome.stderr.contains(source), "{outcome:?}");
    }
}

#[test]
fn a_number_asks_the_batch_system_of_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let analysis = "12.000:  Run analysis summary ignoring user priority.  Of 2 machines,\n 2 match but are serving other users\n";
    tool(
        dir.path(),
        "condor_q",
        &[
            ("-long 12.0", "ClusterId = 12\nProcId = 0\nJobStatus = 1\n"),
            ("-better-analyze 12.0", analysis),
        ],
    );
    tool(
        dir.path(),
        "condor_history",
        &[("-long -limit 1 13.0", "ClusterId = 13\nProcId = 0\nJobStatus = 4\nExitCode = 127\n")],
    );
    tool(
        dir.path(),
        "sacct",
        &[("-P --format=JobID,State,ExitCode -j 14", "JobID|State|ExitCode\n14|TIMEOUT|0:0\n")],
    );
    let starts = |job: &str, text: &str| {
        let outcome = why(dir.path(), &[job]);
        assert!(outcome.code == Some(0) && outcome.stdout.starts_with(text), "{outcome:?}");
    };
    starts("12.0", "job 12.0 is idle: all machines that fit it are in use\n");
    starts("13.0", "job 13.0 failed: a program was not found\n");
    starts("14", "job 14 failed: it was still running at its time limit\n");
    let none = why(dir.path(), &["15"]);
    assert!(none.code == Some(2) && none.stderr.contains("does not know job `15`"), "{none:?}");
    put(dir.path(), "tools/scontrol", b"#!/bin/sh\necho 'no controller' >&2\nexit 1\n");
    let path = dir.path().join("tools/scontrol");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    let down = why(dir.path(), &["15"]);
    assert!(down.code == Some(2) && down.stderr.contains("no controller"), "{down:?}");
}

#[test]
fn each_process_of_a_cluster_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let ad = |cluster: u32, process: u32, rest: &str| {
        format!("ClusterId = {cluster}\nProcId = {process}\n{rest}\n\n")
    };
    let queue = [
        ad(12, 0, "JobStatus = 1"),
        ad(12, 1, "JobStatus = 5\nHoldReasonCode = 34\nHoldReason = \"memory usage exceeded\""),
        ad(12, 2, "JobStatus = 1"),
        ad(12, 3, "JobStatus = 2"),
    ];
    let summary = "12.000:  Run analysis summary ignoring user priority.  Of 2 machines,\n 2 match but are serving other users\n";
    tool(dir.path(), "condor_q", &[("-long 12", &queue.concat()), ("-better-analyze 12", summary)]);
    let ended =
        [ad(13, 1, "JobStatus = 4\nExitCode = 0"), ad(13, 0, "JobStatus = 4\nExitCode = 1")];
    tool(
        dir.path(),
        "condor_history",
        &[("-long 13", &ended.concat()), ("-long -limit 1 13.0", &ended[1])],
    );
    let said = |job: &str| {
        let outcome = why(dir.path(), &[job]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let lines = outcome.stdout.lines().filter(|line| line.starts_with("job "));
        lines.map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let cluster =
        ["job 12.0 is idle", "job 12.1 is held", "job 12.2 is idle", "job 12.3 is running"];
    assert_eq!(said("12"), cluster);
    assert!(why(dir.path(), &["12"]).stdout.contains("12.0 is idle: all machines that fit it are"));
    assert_eq!(said("13"), ["job 13.1 is done", "job 13.0 failed"]);
    assert_eq!(said("13.0"), ["job 13.0 failed"]);
}

#[test]
fn the_end_of_a_long_log_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (submitted, held) = LOG.split_at(LOG.find("012 ").unwrap());
    let line = "x".repeat(1 << 20);
    let padding = format!("{line}\n").repeat(66);
    put(dir.path(), "long.log", format!("{submitted}{padding}{held}").as_bytes());
    put(dir.path(), "long.txt", padding.as_bytes());
    let said = why(dir.path(), &["long.log"]);
    assert!(said.code == Some(0) && said.stdout.starts_with("job 123.0 is held: "), "{said:?}");
    let said = why(dir.path(), &["long.txt"]);
    let hints = said.stderr.contains("longer than 64 MiB") && said.stderr.contains("fewer jobs");
    assert!(said.code == Some(2) && hints, "{said:?}");
}

#[test]
fn a_line_that_cannot_be_read_is_shown_in_a_plain_sentence() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "jobs", b"JobID State ExitCode\n7 ODD 0:0\nodd\n8 COMPLETED 0:0\n");
    let said = why(dir.path(), &["jobs"]);
    let expected = "Gular cannot read the state of job 7\n  said: 7 ODD 0:0\nGular cannot read this line:\n  said: odd\njob 8 is done\n";
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), expected), "{said:?}");
}
