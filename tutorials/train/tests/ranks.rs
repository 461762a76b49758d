//! Several processes as one training run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod job;
#[path = "../../../crates/group/tests/group/port.rs"]
mod port;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use job::{Job, bundle, code, report, said, signal};
use port::port;
use serde_json::Value;
use tempfile::TempDir;

/// Processes of one training run. Each has a checkpoint folder of its own, as on machines that
/// share none.
struct Ranks {
    jobs: Vec<Job>,
}

impl Ranks {
    fn new(bundle: &Path, n: usize, options: &str) -> Self {
        Self { jobs: (0..n).map(|_| Job::new(bundle, options)).collect() }
    }

    /// Starts all, told by options or, for odd ranks, as torchrun tells it.
    fn start(&self, more: &[&str]) -> Vec<Child> {
        let (port, n) = (port().to_string(), self.jobs.len().to_string());
        let start = |(rank, job): (usize, &Job)| {
            let rank_text = rank.to_string();
            let mut command = job.command(more);
            if rank.is_multiple_of(2) {
                command.args(["--rank", &rank_text, "--world-size", &n]);
                command.args(["--master-addr", "127.0.0.1", "--master-port", &port]);
            } else {
                command.env("RANK", rank_text).env("WORLD_SIZE", &n);
                command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
            }
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        self.jobs.iter().enumerate().map(start).collect()
    }

    fn run(&self, more: &[&str]) -> Vec<Output> {
        finish(self.start(more))
    }

    fn first(&self) -> &Job {
        &self.jobs[0]
    }
}

fn finish(ranks: Vec<Child>) -> Vec<Output> {
    ranks.into_iter().map(|rank| rank.wait_with_output().unwrap()).collect()
}

fn codes(outputs: &[Output]) -> Vec<i32> {
    outputs.iter().map(code).collect()
}

/// The summary of rank 0; the others print none.
fn summary(outputs: &[Output]) -> Value {
    for output in &outputs[1..] {
        assert_eq!((code(output), output.stdout.is_empty()), (0, true), "{}", said(output));
    }
    report(&outputs[0])
}

/// Waits until rank 0 has logged `lines`.
fn wait_for(job: &Job, rank: &mut Child, lines: usize) {
    while job.metrics().len() < lines {
        assert!(rank.try_wait().unwrap().is_none(), "it ended before it was disturbed");
        sleep(Duration::from_millis(2));
    }
}

fn colours() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    dir
}

#[test]
fn two_processes_learn_what_one_learns_on_twice_the_batch() {
    let dir = colours();
    let alone = Job::new(dir.path(), "--dropout 0");
    let alone_report = report(&alone.run(&[]));
    let two = Ranks::new(dir.path(), 2, "--dropout 0 --batch-size 4");
    let both = summary(&two.run(&[]));
    for same in ["steps", "images", "samples", "bundle"] {
        assert_eq!(both[same], alone_report[same], "{same}");
    }
    assert_eq!(both["world_size"], 2);
    // Adam divides by the size of the gradient, so that rounding grows; runtime/tests/parallel.rs
    // holds the gradients themselves to 1e-6.
    for name in ["loss_first", "loss_last", "val_loss"] {
        let [a, b] = [&both, &alone_report].map(|of| of[name].as_f64().unwrap());
        assert!((a - b).abs() < 1e-3, "{name}: {a} and {b}");
    }
    assert!(!two.jobs[1].checkpoints().exists(), "rank 1 writes nothing");
}

#[test]
fn all_stop_after_the_same_step_and_go_on_to_the_same_bits() {
    let dir = colours();
    let options = "--batch-size 3 --epochs 30";
    let undisturbed = Ranks::new(dir.path(), 3, options);
    summary(&undisturbed.run(&[]));
    // Losses are read when they were, as on a GPU, and are the same.
    let ranks = Ranks::new(dir.path(), 3, &format!("{options} --read-loss-after 2"));
    let mut children = ranks.start(&[]);
    wait_for(ranks.first(), &mut children[0], 9);
    // The signal goes to a rank that does not save.
    signal(&children[2], "TERM");
    let outputs = finish(children);
    assert_eq!(codes(&outputs), [85, 85, 85], "{}", said(&outputs[0]));
    let resumed = summary(&ranks.run(&[]));
    assert_ne!(resumed["resumed_at_step"], Value::Null);
    assert!(ranks.first().weights() == undisturbed.first().weights(), "other weights");
    assert_eq!(ranks.first().metrics(), undisturbed.first().metrics());
}

#[test]
fn a_killed_process_ends_all_with_one_message_and_the_next_run_goes_on() {
    let dir = colours();
    let options = "--batch-size 3 --epochs 30 --checkpoint-every 5";
    let undisturbed = Ranks::new(dir.path(), 3, options);
    summary(&undisturbed.run(&[]));
    let ranks = Ranks::new(dir.path(), 3, options);
    let mut children = ranks.start(&[]);
    wait_for(ranks.first(), &mut children[0], 9);
    signal(&children[1], "KILL");
    let outputs = finish(children);
    for survivor in [&outputs[0], &outputs[2]] {
        let told = said(survivor);
        assert_eq!(code(survivor), 2, "{told}");
        assert!(told.contains("error: rank 1 (127.0.0.1:") && told.contains("was lost"), "{told}");
        assert_eq!(told.matches("error:").count(), 1, "{told}");
    }
    let resumed = summary(&ranks.run(&[]));
    assert_ne!(resumed["resumed_at_step"], Value::Null);
    assert!(ranks.first().weights() == undisturbed.first().weights(), "other weights");
}

#[test]
fn a_process_that_hangs_does_not_keep_the_others_from_saving() {
    let dir = colours();
    let ranks = Ranks::new(dir.path(), 2, "--batch-size 4 --epochs 30");
    let mut children = ranks.start(&[]);
    wait_for(ranks.first(), &mut children[0], 9);
    // This is like a read from a file system that does not answer; after 30 s the rank would count
    // as lost.
    signal(&children[1], "STOP");
    sleep(Duration::from_millis(500));
    let since = Instant::now();
    signal(&children[0], "TERM");
    let first = children.remove(0).wait_with_output().unwrap();
    let told = said(&first);
    assert_eq!(code(&first), 85, "{told}");
    assert!(told.contains("rank 0 was asked to stop, but"), "{told}");
    assert!(told.contains("stopped ") && told.contains("after step"), "{told}");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    signal(&children[0], "KILL");
    children[0].wait().unwrap();
    // The run resumes from the last whole step.
    let steps = ranks.first().metrics().len() as u64;
    let resumed = summary(&ranks.run(&[]));
    assert!(resumed["resumed_at_step"].as_u64().unwrap() <= steps, "{resumed}");
}

#[test]
fn a_process_that_fails_tells_the_others_why() {
    let dir = colours();
    let ranks = Ranks::new(dir.path(), 2, "--batch-size 4");
    // Rank 0 finds no folder to write checkpoints to.
    fs::write(ranks.first().checkpoints(), "in the way").unwrap();
    let outputs = ranks.run(&[]);
    assert_eq!(codes(&outputs), [2, 2]);
    let told = said(&outputs[1]);
    assert!(told.contains("error: rank 0 (") && told.contains("ended the training"), "{told}");
    assert!(told.contains("in the way") || told.contains("checkpoints"), "{told}");
}

#[test]
fn processes_of_different_trainings_do_not_meet() {
    let dir = colours();
    let mut ranks = Ranks::new(dir.path(), 2, "");
    ranks.jobs[1].options.extend(["--seed".into(), "1".into()]);
    let outputs = ranks.run(&[]);
    assert_eq!(codes(&outputs), [2, 2]);
    for output in &outputs {
        let told = said(output);
        assert!(told.contains("seed 0") && told.contains("seed 1"), "{told}");
    }
}

#[test]
fn a_training_goes_on_with_another_number_of_processes() {
    let dir = colours();
    let ranks = Ranks::new(dir.path(), 2, "--batch-size 4");
    let outputs = ranks.run(&["--stop-after-steps", "7"]);
    assert_eq!(codes(&outputs), [85, 85], "{}", said(&outputs[0]));
    let alone = ranks.first().run(&["--batch-size", "8"]);
    let told = said(&alone);
    assert_eq!(report(&alone)["resumed_at_step"], 7);
    assert!(told.contains("began with `--world-size 2`, and now it is 1"), "{told}");
}

#[test]
fn sigterm_while_the_processes_meet_is_to_be_run_again() {
    let dir = colours();
    let job = Job::new(dir.path(), "--rank 0 --world-size 2 --master-addr 127.0.0.1");
    let port = port().to_string();
    let mut command = job.command(&["--master-port", &port]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    while !told.contains("for all 2 processes") {
        assert!(stderr.read_line(&mut told).unwrap() > 0, "it ended: {told}");
    }
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(85));
}

#[test]
fn a_launcher_that_says_half_is_refused() {
    let dir = colours();
    let job = Job::new(dir.path(), "");
    let output = job.command(&[]).env("RANK", "1").output().unwrap();
    let told = said(&output);
    assert_eq!(code(&output), 2, "{told}");
    assert!(told.contains("`RANK` is set, but `WORLD_SIZE` is not"), "{told}");
}

#[test]
fn scaling_says_what_a_second_process_adds() {
    let dir = colours();
    let plot = dir.path().join("scaling.svg");
    let scaling = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gular-train"));
        command.arg("scaling").arg(dir.path()).args(["--ranks", "1,2", "--steps", "8", "--json"]);
        command.arg("--plot").arg(&plot);
        command.args(["--", "--size", "16", "--device", "cpu", "--batch-size"]).args(more);
        command.output().unwrap()
    };
    let found = report(&scaling(&["3"]));
    let rows = found["rows"].as_array().unwrap();
    let of =
        |name: &str| -> Vec<f64> { rows.iter().map(|row| row[name].as_f64().unwrap()).collect() };
    assert_eq!(of("ranks"), [1.0, 2.0]);
    let (rates, efficiency, waited) =
        (of("images_per_second"), of("efficiency"), of("synchronising"));
    assert_eq!((efficiency[0], waited[0]), (1.0, 0.0));
    assert!((efficiency[1] - rates[1] / 2.0 / rates[0]).abs() < 1e-9, "{found}");
    assert!(waited[1] > 0.0 && waited[1] < 1.0, "{found}");
    let svg = fs::read_to_string(&plot).unwrap();
    assert!(svg.contains("2 processes") && svg.ends_with("</svg>\n"), "{svg}");
    // 44 samples: an epoch of two processes is a step.
    let few = scaling(&["22"]);
    assert!(code(&few) == 2 && said(&few).contains("too few steps"), "{}", said(&few));
    let wrong = scaling(&["0"]);
    assert!(code(&wrong) == 2 && said(&wrong).contains("--batch-size"), "{}", said(&wrong));
}
