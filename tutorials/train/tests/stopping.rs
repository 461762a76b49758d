//! What stops a training run besides SIGTERM, and checkpoints at fixed intervals of time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod job;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use job::{Job, STEPS_PER_EPOCH, bundle, bundle_of, code, report, said, signal};
use serde_json::Value;

/// Long enough that it is stopped before its end.
const LONG: &str = "--epochs 60";

fn weights_of(bundle: &Path, options: &str) -> Vec<u8> {
    let job = Job::new(bundle, options);
    report(&job.run(&[]));
    job.weights()
}

fn wait_for(child: &mut Child, what: impl Fn() -> bool) {
    while !what() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was disturbed");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn sigusr1_stops_and_saves_as_sigterm_does() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let weights = weights_of(dir.path(), LONG);
    let job = Job::new(dir.path(), LONG);
    let mut child = job.command(&[]).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&mut child, || job.metrics().len() >= 9);
    signal(&child, "USR1");
    let first = child.wait_with_output().unwrap();
    assert_eq!(code(&first), 85, "{}", said(&first));
    assert_ne!(report(&job.run(&[]))["resumed_at_step"], Value::Null);
    assert!(job.weights() == weights, "other weights");
}

#[test]
fn the_time_it_was_given_stops_it() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "--epochs 1000000");
    let since = Instant::now();
    let output = job.run(&["--stop-after", "2s"]);
    let told = said(&output);
    assert_eq!(code(&output), 85, "{told}");
    assert!(told.contains("time to stop: the time it was given"), "{told}");
    // The text may also be `stopped while validating after step`.
    assert!(told.contains("stopped ") && told.contains("after step"), "{told}");
    assert!(since.elapsed() >= Duration::from_secs(2));
}

#[test]
fn the_end_that_a_batch_system_gives_stops_it_in_time_to_save() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let soon = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        (now + 36).to_string()
    };
    let (job_ad, machine_ad) = (dir.path().join("job.ad"), dir.path().join("machine.ad"));
    fs::write(&job_ad, "ClusterId = 7\nAllowedExecuteDuration = 32\n").unwrap();
    let text = |path: &Path| path.display().to_string();
    let cases = [
        (vec![("_CONDOR_JOB_AD", text(&job_ad))], "AllowedExecuteDuration of the job ad"),
        (vec![("_CONDOR_MACHINE_AD", text(&machine_ad))], "GLIDEIN_ToDie of the machine ad"),
        (
            vec![("SLURM_JOB_ID", "7".to_owned()), ("SLURM_JOB_END_TIME", soon())],
            "SLURM_JOB_END_TIME",
        ),
    ];
    for (variables, source) in cases {
        // A job of HTCondor that starts later waits for its end.
        fs::write(&machine_ad, format!("Name = \"a\"\nGLIDEIN_ToDie = {}\n", soon())).unwrap();
        let job = Job::new(dir.path(), "--epochs 1000000");
        let output = job.command(&[]).envs(variables).output().unwrap();
        let told = said(&output);
        assert_eq!(code(&output), 85, "{told}");
        assert!(told.contains("the job ends in ") && told.contains(source), "{told}");
        assert!(told.contains(&format!("time to stop: {source}")), "{told}");
        assert!(job.newest().join("model.safetensors").is_file());
    }
}

#[test]
fn a_start_just_before_the_end_of_a_job_of_htcondor_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job_ad = dir.path().join("job.ad");
    fs::write(&job_ad, "AllowedExecuteDuration = 10\n").unwrap();
    let job = Job::new(dir.path(), "--epochs 1000000");
    let mut command = job.command(&[]);
    let mut child = command.env("_CONDOR_JOB_AD", &job_ad).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    while !told.contains("waiting for the end of the job\n") {
        assert_ne!(stderr.read_line(&mut told).unwrap(), 0, "{told}");
    }
    sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it ended before the job did");
    signal(&child, "TERM");
    stderr.read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(85), "{told}");
    assert!(told.ends_with("stopped before the first step\n"), "{told}");
    assert!(!job.checkpoints().join("latest").exists());
}

#[test]
fn checkpoints_by_the_clock_outlive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let weights = weights_of(dir.path(), LONG);
    let job = Job::new(dir.path(), LONG);
    let mut child = job.command(&["--checkpoint-minutes", "0.00002"]).spawn().unwrap();
    // This is in the middle of an epoch, where nothing else saves.
    let latest = || fs::read_to_string(job.checkpoints().join("latest")).unwrap_or_default();
    let step = || latest().trim().trim_start_matches("step-").parse::<u64>().ok();
    wait_for(&mut child, || step().is_some_and(|n| n > 2 && n % STEPS_PER_EPOCH != 0));
    signal(&child, "KILL");
    child.wait().unwrap();
    assert_ne!(report(&job.run(&[]))["resumed_at_step"], Value::Null);
    assert!(job.weights() == weights, "other weights");
}

#[test]
fn a_log_says_how_far_it_is_and_what_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let run = |more: &[&str]| said(&Job::new(dir.path(), "").run(more));
    let told = run(&["--log-every", "0"]);
    let lines = told.lines().filter(|line| line.contains(", step ")).collect::<Vec<_>>();
    assert_eq!(lines.len(), 18, "{told}");
    for (i, line) in lines.iter().enumerate() {
        let place = format!("epoch {}/3, step {}/6, loss ", i / 6 + 1, i % 6 + 1);
        assert!(line.starts_with(&place) && line.contains(" images/s, "), "{line}");
        assert_eq!(line.contains(" s left"), i < 17, "{line}");
        let stages = ["reading", "checking digests", "decoding", "the model"];
        assert!(stages.iter().any(|s| line.ends_with(&format!("waiting for {s}"))), "{line}");
    }
    // A resumed run counts from the step at which it resumed.
    let job = Job::new(dir.path(), "--log-every 0");
    assert_eq!(code(&job.run(&["--stop-after-steps", "8"])), 85);
    assert!(said(&job.run(&[])).contains("\nepoch 2/3, step 3/6, loss "));
    // One training run is too short for a line; the other must print none.
    assert!(!run(&[]).contains(", step "));
    assert_eq!(run(&["--log-every", "0", "--quiet"]), "");
}

#[test]
fn metrics_are_logged_once_whenever_it_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    bundle_of(dir.path(), 0, 2000);
    let options = "--epochs 2 --checkpoint-every 3";
    let undisturbed = Job::new(dir.path(), options);
    report(&undisturbed.run(&[]));
    // While it validates, after the last step of an epoch, which has a checkpoint by its number,
    // and after the epoch's sums are logged.
    let job = Job::new(dir.path(), options);
    let mut child = job.command(&[]).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&mut child, || job.metrics().len() as u64 > STEPS_PER_EPOCH);
    signal(&child, "KILL");
    child.wait().unwrap();
    report(&job.run(&[]));
    assert_eq!(job.metrics(), undisturbed.metrics());
    // Stopped while it validates, and killed between the validation's line and the checkpoint:
    // as if the first of two runs from one checkpoint had come to that line only.
    let twice = Job::new(dir.path(), options);
    let mut child = twice.command(&[]).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&mut child, || twice.metrics().len() as u64 > STEPS_PER_EPOCH);
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(85));
    let path = twice.dir.path().join("metrics/metrics.jsonl");
    let mut lines = fs::read_to_string(&path).unwrap();
    lines += "{\"step\":6,\"epoch\":0,\"wall\":1.0,\"val_loss\":0.5,\"val_accuracy\":0.5}\n";
    fs::write(&path, lines).unwrap();
    report(&twice.run(&[]));
    let names = |job: &Job| -> Vec<Vec<String>> {
        let lines = job.metrics().into_iter();
        lines.map(|line| line.as_object().unwrap().keys().cloned().collect()).collect()
    };
    assert_eq!(names(&twice), names(&undisturbed));
}

#[test]
fn another_kind_of_processor_is_told_at_the_resume() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "");
    assert_eq!(code(&job.run(&["--stop-after-steps", "2"])), 85);
    let run = |variable: &[(&str, &str)]| {
        let mut command = job.command(&["--stop-after-steps", "1"]);
        said(&command.envs(variable.iter().copied()).output().unwrap())
    };
    let told = run(&[("ATEN_CPU_CAPABILITY", "default")]);
    assert!(told.contains("warning: the processor is now `"), "{told}");
    assert!(told.contains("ATEN_CPU_CAPABILITY=default"), "{told}");
    // The checkpoint now has the setting of that run.
    let told = run(&[("ATEN_CPU_CAPABILITY", "default")]);
    assert!(!told.contains("warning:"), "{told}");
    assert!(run(&[]).contains("warning: the processor is now `"));
}
