//! `gular job measure`: measurements of commands whose needs are known.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use gular_tests::{Outcome, finish, gular, put};
use serde_json::Value;

fn measure(dir: &Path, script: &str) -> (Outcome, Value) {
    let mut command = Command::new(gular());
    command.args(["job", "measure", "--json", "--", "sh", "-c", script]).current_dir(dir);
    let path = format!("{}:/usr/bin:/bin", dir.display());
    let outcome = finish(command.env("PATH", path));
    let last = outcome.stdout.lines().last().unwrap_or_default();
    let report = serde_json::from_str(last).unwrap_or(Value::Null);
    (outcome, report)
}

fn mib(report: &Value, key: &str) -> u64 {
    report["measured"][key].as_u64().unwrap() >> 20
}

#[test]
fn memory_of_processes_and_of_files_in_memory_is_seen_once() {
    let dir = tempfile::tempdir().unwrap();
    // dd keeps one block of 60 MB, twice; a file of 40 MB is in memory, unmapped. Other programs
    // may use /dev/shm meanwhile.
    let name = format!("/dev/shm/gular-test-{}", std::process::id());
    let script = format!(
        "trap 'rm -f {name}' EXIT; head -c 40000000 /dev/zero > {name}; \
         (dd if=/dev/zero bs=60000000 count=60 of=/dev/null & dd if=/dev/zero bs=60000000 count=60 of=/dev/null; wait) 2> /dev/null"
    );
    let (outcome, report) = measure(dir.path(), &script);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for key in ["memory_bytes", "pss_bytes"] {
        let seen = mib(&report, key);
        assert!((150..260).contains(&seen), "{key}: {report}");
    }
    assert!((38..120).contains(&mib(&report, "shared_bytes")), "{report}");
    assert!(!Path::new(&name).exists());
}

#[test]
fn disk_time_and_exit_code_are_those_of_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "mkdir a; head -c 30000000 /dev/urandom > a/x; sleep 1.5; rm a/x; echo said; exit 85";
    let (outcome, report) = measure(dir.path(), script);
    assert_eq!(outcome.code, Some(85), "{outcome:?}");
    assert!(outcome.stdout.starts_with("said\n"), "{outcome:?}");
    assert!((28..32).contains(&mib(&report, "disk_bytes")), "{report}");
    let seconds = report["measured"]["seconds"].as_f64().unwrap();
    assert!((1.5..20.0).contains(&seconds), "{report}");
    assert_eq!(report["requests"]["request_disk"], "1060 MB", "{report}");
    let missing =
        Command::new(gular()).args(["job", "measure", "--", "/no/such/program"]).output().unwrap();
    assert!(matches!(missing.status.code(), Some(126 | 127)), "{missing:?}");
}

#[test]
fn what_is_written_again_counts_and_what_is_only_read_does_not() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "data", &vec![7; 20_000_000]);
    let script = "head -c 10000000 data > weights";
    for run in 1..=2 {
        let (outcome, report) = measure(dir.path(), script);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!((9..12).contains(&mib(&report, "disk_bytes")), "run {run}: {report}");
    }
}

/// A script takes the place of nvidia-smi, since there is no GPU; the test is about how its numbers
/// are used.
#[test]
fn memory_of_a_gpu_is_what_it_grew_by() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("nvidia-smi");
    let script = format!(
        "#!/bin/sh\necho 100\nif [ -e {0}/busy ]; then echo 5200; else echo 200; fi\n",
        dir.path().display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (outcome, report) = measure(dir.path(), "touch busy; sleep 2.5");
    assert_eq!((outcome.code, mib(&report, "gpu_bytes")), (Some(0), 5000), "{outcome:?}");
    assert_eq!(report["requests"]["request_gpus"], "1");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let mut command = Command::new(gular());
    let outcome = finish(command.args(["job", "measure", "--", "/no/such/program"]));
    assert_eq!(outcome.code, Some(127), "{outcome:?}");
    assert!(outcome.stderr.contains("cannot run `/no/such/program`"), "{outcome:?}");
    assert!(!outcome.stderr.contains("cgroup"), "{outcome:?}");
}
