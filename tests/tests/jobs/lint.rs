//! `gular job lint` on files with known faults: all of them are found, and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gular_tests::{Outcome, files, finish, gular, put};
use serde_json::Value;

/// Copies the folder `name` of files, since repairs change it.
fn copy(name: &str) -> tempfile::TempDir {
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/jobs/files").join(name);
    let dir = tempfile::tempdir().unwrap();
    for (path, bytes) in files(&from) {
        put(dir.path(), path, &bytes);
    }
    dir
}

fn lint(dir: &Path, args: &[&str]) -> Outcome {
    finish(Command::new(gular()).args(["job", "lint"]).args(args).current_dir(dir))
}

/// Returns `rule file:line` of each finding, and the exit code.
fn found(dir: &Path, args: &[&str]) -> (Option<i32>, Vec<String>) {
    let outcome = lint(dir, &[args, &["--json"]].concat());
    assert_eq!(outcome.stderr, "", "{outcome:?}");
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let text = |finding: &Value| {
        for part in ["what", "why", "fix"] {
            assert!(finding[part].as_str().is_some_and(|text| text.len() > 5), "{finding}");
        }
        let word = |key: &str| finding[key].as_str().unwrap().to_owned();
        format!("{} {}:{}", word("rule"), word("file"), finding["line"])
    };
    (outcome.code, findings.iter().map(text).collect())
}

#[test]
fn every_fault_of_a_checkpointing_job_is_found_and_nothing_else() {
    let dir = copy("catdog");
    let (code, faults) = found(dir.path(), &["train.sub"]);
    assert_eq!(
        faults,
        [
            "stale-name train.sub:2",
            "evict-with-outputs train.sub:6",
            "unknown-attribute train.sub:9",
            "unknown-command train.sub:10",
            "unit train.sub:11",
            "disk-forgets-inputs train.sub:12",
            "gpus-without-request train.sub:13",
            "restart-mkdir train.sh:2",
            "restart-rm train.sh:4",
            "backslash-space train.sh:5",
            "wrong-script train.sh:5",
            "no-continuation train.sh:8",
        ]
    );
    assert_eq!(code, Some(1));
    let fixed = lint(dir.path(), &["train.sub", "--fix", "--quiet"]);
    assert_eq!(fixed.code, Some(0), "{fixed:?}");
    let (_, left) = found(dir.path(), &["train.sub"]);
    assert_eq!(
        left,
        [
            "stale-name train.sub:2",
            "evict-with-outputs train.sub:6",
            "unit train.sub:11",
            "disk-forgets-inputs train.sub:12",
            "unknown-option train.sh:4",
            "wrong-script train.sh:4",
        ]
    );
    // What only the author knows: which script is the right one.
    let script = dir.path().join("train.sh");
    let right = fs::read_to_string(&script).unwrap().replace("train.py", "train_ckpt.py");
    fs::write(&script, right).unwrap();
    let (_, left) = found(dir.path(), &["train.sub"]);
    assert_eq!(
        left[4..],
        [
            "option-twice train_ckpt.py:13",
            "unseeded-split train_ckpt.py:17",
            "label-in-path train_ckpt.py:30",
            "save-not-atomic train_ckpt.py:41",
            "state-incomplete train_ckpt.py:41",
            "exit-before-test train_ckpt.py:42",
        ]
    );
}

#[test]
fn every_fault_of_a_sweep_is_found_and_nothing_else() {
    let dir = copy("sweep");
    let (_, faults) = found(dir.path(), &["sweep.sub"]);
    assert_eq!(
        faults,
        [
            "undefined-macro sweep.sub:2",
            "swallowed-command sweep.sub:3",
            "unit sweep.sub:4",
            "unit sweep.sub:5",
            "comment-in-value sweep.sub:6",
            "unit sweep.sub:7",
            "bad-value sweep.sub:8",
            "environment-quotes sweep.sub:9",
            "missing-file sweep.sub:10",
            "pelican-scheme sweep.sub:10",
            "outputs-collide sweep.sub:11",
            "unquoted-remaps sweep.sub:12",
            "missing-folder sweep.sub:12",
            "attribute-quotes sweep.sub:13",
            "missing-folder sweep.sub:14",
            "stdout-collides sweep.sub:14",
            "set-twice sweep.sub:16",
            "after-queue sweep.sub:22",
            "no-shebang run.sh:1",
        ]
    );
    lint(dir.path(), &["sweep.sub", "--fix", "--quiet"]);
    let (_, left) = found(dir.path(), &["sweep.sub"]);
    assert_eq!(
        left,
        [
            "undefined-macro sweep.sub:2",
            "unit sweep.sub:5",
            "unit sweep.sub:8",
            "missing-file sweep.sub:11",
            "pelican-scheme sweep.sub:11",
            "outputs-collide sweep.sub:12",
            "unquoted-remaps sweep.sub:13",
            "missing-folder sweep.sub:13",
            "missing-folder sweep.sub:15",
            "set-twice sweep.sub:17",
            "after-queue sweep.sub:23",
        ]
    );
}

#[test]
fn every_fault_of_a_graph_and_its_jobs_is_found_and_nothing_else() {
    let dir = copy("graph");
    let (_, faults) = found(dir.path(), &["work.dag"]);
    assert_eq!(
        faults,
        [
            "cycle work.dag:6",
            "unknown-node work.dag:7",
            "bad-dag-line work.dag:10",
            "unknown-dag-command work.dag:11",
            "missing-file work.dag:3",
            "undefined-macro one.sub:3",
            "stdout-collides one.sub:7",
        ]
    );
}

#[test]
fn every_fault_of_a_batch_script_is_found_and_nothing_else() {
    let dir = copy("slurm");
    let (_, faults) = found(dir.path(), &["train.sbatch"]);
    assert_eq!(
        faults,
        [
            "no-request train.sbatch:2",
            "unit train.sbatch:4",
            "sbatch-variable train.sbatch:5",
            "sbatch-comment train.sbatch:6",
            "sbatch-option train.sbatch:7",
            "signal-unheard train.sbatch:8",
            "restart-mkdir train.sbatch:9",
            "srun-cpus train.sbatch:10",
            "no-master-addr train.sbatch:10",
            "requeue-truncates train.sbatch:11",
            "sbatch-late train.sbatch:12",
        ]
    );
}

#[test]
fn a_repair_is_shown_before_it_is_made_and_keeps_permissions() {
    let dir = copy("catdog");
    let script = dir.path().join("train.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o751)).unwrap();
    let before = files(dir.path());
    let shown = lint(dir.path(), &["train.sub", "--fix", "--dry-run"]);
    assert!(shown.stdout.contains("-mkdir output\n+mkdir -p output\n"), "{shown:?}");
    assert_eq!(files(dir.path()), before);
    lint(dir.path(), &["train.sub", "--fix"]);
    assert_ne!(files(dir.path()), before);
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o751);
    assert!(fs::read_to_string(&script).unwrap().contains("mkdir -p output\n"));
}

#[test]
fn a_rule_is_explained_with_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let said = lint(dir.path(), &["--explain", "unit"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.stdout.contains("error[unit]: ") && said.stdout.contains("  source: "),
        "{said:?}"
    );
    let none = lint(dir.path(), &["--explain", "units"]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("there is no rule `units`"), "{none:?}");
}

#[test]
fn exit_codes_say_errors_warnings_and_what_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let sound =
        "executable = a.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\nqueue\n";
    put(dir.path(), "a.sh", b"#!/bin/sh\ntrue\n");
    put(dir.path(), "sound.sub", sound.as_bytes());
    put(dir.path(), "notes.sub", sound.replace("request_cpus = 1\n", "").as_bytes());
    put(dir.path(), "warns.sub", sound.replace("request_cpus = 1\n", "cpus = 1\n").as_bytes());
    put(dir.path(), "binary.sub", b"\0\x01");
    let code = |args: &[&str]| lint(dir.path(), args).code;
    assert_eq!(code(&["sound.sub", "--strict"]), Some(0));
    assert_eq!((code(&["warns.sub"]), code(&["warns.sub", "--strict"])), (Some(0), Some(1)));
    assert_eq!(code(&["notes.sub", "--strict"]), Some(0));
    assert_eq!(code(&["warns.sub", "--strict", "--allow", "unknown-command"]), Some(0));
    assert_eq!(code(&["none.sub"]), Some(2));
    assert_eq!(code(&["binary.sub"]), Some(2));
}

#[test]
fn what_was_not_judged_is_never_said_to_be_right() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "open.sh", b"#!/bin/bash\nif true; then\n  echo 'a\n");
    put(dir.path(), "a.pl", b"#!/usr/bin/perl\nprint 1;\n");
    for (file, expected, line) in [("open.sh", 1, "open.sh:3: error"), ("a.pl", 0, "a.pl:1: note")]
    {
        let said = lint(dir.path(), &[file]);
        assert_eq!(said.code, Some(expected), "{said:?}");
        assert!(said.stdout.starts_with(&format!("{line}[not-judged]: ")), "{said:?}");
        assert!(!said.stdout.contains("no traps found"), "{said:?}");
        assert_eq!(lint(dir.path(), &[file, "--allow", "not-judged"]).code, Some(0));
    }
    // Once, also if another job calls it by another path.
    let sub =
        b"executable = a.pl\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\nqueue\n";
    put(dir.path(), "a.sub", sub);
    put(dir.path(), "b.sub", sub);
    put(dir.path(), "a.dag", b"JOB A a.sub\nJOB B b.sub DIR .\n");
    assert_eq!(found(dir.path(), &["a.dag"]), (Some(0), vec!["not-judged a.pl:1".to_owned()]));
}
