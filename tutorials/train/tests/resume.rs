//! The trainer as a job runs it: stopped at any step and resumed, it ends with the same weights,
//! bit for bit.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod job;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use gular_bundle::{Digest, Dtype, Field, FieldName};
use gular_codec::encode_png;
use job::{
    EPOCHS, Job, STEPS_PER_EPOCH, bundle, bundle_of, code, report, said, signal, write_bundle,
};
use serde_json::Value;

/// The weights and metrics of an undisturbed training.
fn undisturbed(bundle: &Path, options: &str) -> (Vec<u8>, Vec<Value>) {
    let job = Job::new(bundle, options);
    report(&job.run(&[]));
    (job.weights(), job.metrics())
}

/// Lays the bundle in `set` out as `gular publish` does: set/v1/manifest.json beside
/// set/data; its URL.
fn published(set: &Path, digest: Digest) -> String {
    fs::create_dir(set.join("v1")).unwrap();
    fs::rename(set.join("manifest.json"), set.join("v1/manifest.json")).unwrap();
    format!("file://{}/v1#blake3={}", set.display(), digest.hex())
}

#[test]
fn a_training_stopped_at_any_step_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    for order in ["elastic", "torch", "window --window 1"] {
        let options = format!("--order {order}");
        let (weights, metrics) = undisturbed(dir.path(), &options);
        // The run stops in the first step, in the middle of an epoch, at its end, or in the last
        // step.
        let stops: &[u64] = match order {
            "elastic" => &[1, 4, STEPS_PER_EPOCH, EPOCHS * STEPS_PER_EPOCH],
            _ => &[8],
        };
        for stop in stops {
            // Decoding threads may change in between; nothing else may.
            let job = Job::new(dir.path(), &options);
            let first = job.run(&["--jobs", "3", "--stop-after-steps", &stop.to_string()]);
            assert_eq!(code(&first), 85, "{}", said(&first));
            assert!(first.stdout.is_empty());
            let second = report(&job.run(&["--jobs", "1"]));
            assert_eq!(second["resumed_at_step"], *stop);
            assert!(job.weights() == weights, "{order}, stopped after {stop}: other weights");
            assert_eq!(job.metrics(), metrics, "{order}, stopped after {stop}");
        }
    }
}

#[test]
fn a_training_stopped_every_five_steps_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let (weights, _) = undisturbed(dir.path(), "");
    let job = Job::new(dir.path(), "--stop-after-steps 5");
    let runs = (1..).find(|_| code(&job.run(&[])) != 85).unwrap();
    assert_eq!((runs, job.weights() == weights), (4, true));
    // In another run nothing is left to do, and the result is the same.
    let again = report(&job.run(&[]));
    assert_eq!(again["weights"], Digest::of(&weights).to_string());
}

#[test]
fn sigterm_saves_and_exits_with_85() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    // Long enough that the signal comes before the end.
    let options = "--epochs 40";
    let (weights, _) = undisturbed(dir.path(), options);
    for name in ["TERM", "INT"] {
        let job = Job::new(dir.path(), options);
        let mut child = job.command(&[]).stderr(Stdio::piped()).spawn().unwrap();
        while job.metrics().len() < 9 {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it was stopped");
            sleep(Duration::from_millis(2));
        }
        signal(&child, name);
        let first = child.wait_with_output().unwrap();
        assert_eq!(code(&first), 85, "{}", said(&first));
        let told = said(&first);
        assert!(told.contains("stopped") && told.contains("after step"), "{told}");
        assert_ne!(report(&job.run(&[]))["resumed_at_step"], Value::Null);
        assert!(job.weights() == weights, "after SIG{name}: other weights");
    }
}

#[test]
fn sigterm_while_validating_is_heard_at_once() {
    let dir = tempfile::tempdir().unwrap();
    bundle_of(dir.path(), 0, 4000);
    let (weights, metrics) = undisturbed(dir.path(), "--epochs 2");
    let job = Job::new(dir.path(), "--epochs 2");
    let mut child = job.command(&[]).stderr(Stdio::piped()).spawn().unwrap();
    // The steps of an epoch and its sum: then come 500 batches of validation.
    while job.metrics().len() as u64 <= STEPS_PER_EPOCH {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was stopped");
        sleep(Duration::from_millis(1));
    }
    signal(&child, "TERM");
    let first = child.wait_with_output().unwrap();
    assert_eq!(code(&first), 85, "{}", said(&first));
    assert!(said(&first).contains("while validating"), "{}", said(&first));
    assert_eq!(report(&job.run(&[]))["resumed_at_step"], STEPS_PER_EPOCH);
    assert!(job.weights() == weights, "other weights");
    assert_eq!(job.metrics(), metrics);
}

#[test]
fn a_bundle_by_url_gives_the_same_bits_and_is_fetched_once() {
    let dir = tempfile::tempdir().unwrap();
    let (set, cache) = (dir.path().join("set"), dir.path().join("cache"));
    let digest = bundle(&set, 0);
    let (weights, _) = undisturbed(&set, "");
    let url = published(&set, digest);
    let mut job = Job::new(Path::new(&url), "--checkpoint-every 3");
    job.options.extend(["--cache".into(), cache.display().to_string()]);
    let first = job.run(&["--stop-after-steps", "4"]);
    assert_eq!(code(&first), 85, "{}", said(&first));
    assert!(said(&first).contains(", 0 were in the cache"), "{}", said(&first));
    fs::remove_dir_all(&set).unwrap();
    let second = job.run(&[]);
    report(&second);
    assert!(!said(&second).contains(", 0 were in the cache"), "{}", said(&second));
    assert!(job.weights() == weights, "other weights");
}

#[test]
fn a_published_bundle_needs_no_samples_to_test() {
    let dir = tempfile::tempdir().unwrap();
    let (set, cache) = (dir.path().join("set"), dir.path().join("cache"));
    let digest = bundle_of(&set, 0, 0);
    let url = published(&set, digest);
    let mut job = Job::new(Path::new(&url), "");
    job.options.extend(["--cache".into(), cache.display().to_string()]);
    let report = report(&job.run(&[]));
    assert_eq!((&report["val_loss"], &report["steps"]), (&Value::Null, &18.into()));
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "");
    for (option, value) in [
        ("--dropout", "2"),
        ("--dropout", "nan"),
        ("--lr", "inf"),
        ("--lr", "-1"),
        ("--batch-size", "0"),
        ("--torch-threads", "0"),
        ("--device", "gpu"),
    ] {
        let output = job.run(&[option, value]);
        let told = said(&output);
        assert_eq!(code(&output), 2, "{option} {value}: {told}");
        assert!(told.contains(&format!("invalid value '{value}' for '{option}")), "{told}");
    }
}

#[test]
fn pixels_give_the_bits_of_the_same_pictures_encoded() {
    let (encoded, raw) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (width, height) = (30_u32, 20_u32);
    let pixels = |i: usize| -> Vec<u8> {
        let n = (width * height * 3) as usize;
        (0..n)
            .map(|at| (at * (i + 3) % 50) as u8 + if at % 3 == i % 3 { 180 } else { 40 })
            .collect()
    };
    let png = Field::bytes(FieldName::image(), vec!["image/png".into()]);
    write_bundle(encoded.path(), png, 9, &|i| encode_png(&pixels(i), width, height).unwrap());
    let shape = vec![height.into(), width.into(), 3];
    let fixed = Field::fixed(FieldName::image(), Dtype::U8, shape);
    write_bundle(raw.path(), fixed, 9, &pixels);
    assert!(undisturbed(raw.path(), "") == undisturbed(encoded.path(), ""));
}

#[test]
fn other_settings_than_those_it_was_begun_with_are_told() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "");
    assert_eq!(code(&job.run(&["--stop-after-steps", "2"])), 85);
    let output = job.run(&["--lr", "0.02", "--stop-after-steps", "1"]);
    let told = said(&output);
    assert!(
        told.contains("warning: the training began with `--lr 0.01`, and now it is 0.02"),
        "{told}"
    );
    assert_eq!(told.matches("warning:").count(), 1, "{told}");
    // The checkpoint now has the new setting.
    let told = said(&job.run(&["--lr", "0.02"]));
    assert!(!told.contains("warning:"), "{told}");
}

#[test]
fn mixed_precision_augmentation_and_late_losses_resume_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let options = "--precision bf16 --read-loss-after 2 --hflip 0.3 --vflip 0.5 \
                   --crop-scale 0.5,1 --color-jitter 0.2,0.2,0.2,0.05 --random-erase 0.5 \
                   --mixup-alpha 0.4 --cutmix-alpha 1 --checkpoint-every 4";
    let (weights, metrics) = undisturbed(dir.path(), options);
    for stop in [1, 8, STEPS_PER_EPOCH] {
        let job = Job::new(dir.path(), options);
        assert_eq!(code(&job.run(&["--stop-after-steps", &stop.to_string()])), 85);
        let second = report(&job.run(&["--jobs", "1"]));
        assert_eq!(second["resumed_at_step"], stop);
        assert!(job.weights() == weights, "stopped after {stop}: other weights");
        assert_eq!(job.metrics(), metrics, "stopped after {stop}");
    }
    let told = said(&Job::new(dir.path(), options).run(&["--epochs", "1"]));
    assert!(!told.contains("warning"), "{told}");
}

#[test]
fn a_loss_that_is_read_later_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let (weights, metrics) = undisturbed(dir.path(), "");
    assert_eq!(metrics.iter().filter(|line| line.get("loss").is_some()).count(), 18);
    let late = undisturbed(dir.path(), "--read-loss-after 3");
    assert!(late == (weights, metrics));
}

#[test]
fn the_network_learns_in_mixed_precision_and_keeps_f32() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "--epochs 8 --precision bf16");
    let report = report(&job.run(&[]));
    let number = |name: &str| report[name].as_f64().unwrap();
    assert!(number("loss_last") < 0.7 * number("loss_first"), "{report}");
    let exact = Job::new(dir.path(), "--epochs 8");
    exact.run(&[]);
    assert!(job.weights() != exact.weights(), "it computed in f32");
    // The headers are equal: names, shapes, f32.
    let header = |bytes: &[u8]| {
        let (len, rest) = bytes.split_first_chunk().unwrap();
        let header = &rest[..u64::from_le_bytes(*len) as usize];
        assert!(!String::from_utf8_lossy(header).contains("BF16"));
        header.to_vec()
    };
    assert!(header(&job.weights()) == header(&exact.weights()));
}

#[test]
fn another_scaling_is_refused_and_another_augmentation_told() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "--scaling full --hflip 0");
    assert_eq!(code(&job.run(&["--stop-after-steps", "2"])), 85);
    let output = job.run(&["--scaling", "reduced"]);
    let told = said(&output);
    assert_eq!(code(&output), 2, "{told}");
    assert!(told.contains("began with `--scaling full`, and now it is `reduced`"), "{told}");
    let told = said(&job.run(&["--hflip", "0.5", "--stop-after-steps", "1"]));
    assert!(
        told.contains("warning: the training began with `--hflip 0`, and now it is 0.5"),
        "{told}"
    );
    assert_eq!(told.matches("warning:").count(), 1, "{told}");
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_the_end_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let (weights, metrics) = undisturbed(dir.path(), "");
    let job = Job::new(dir.path(), "--checkpoint-every 3");
    assert_eq!(code(&job.run(&["--stop-after-steps", "10"])), 85);
    let model = job.newest().join("model.safetensors");
    let mut bytes = fs::read(&model).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&model, bytes).unwrap();
    let second = job.run(&[]);
    assert_eq!(report(&second)["resumed_at_step"], 9);
    assert!(said(&second).contains("warning: checkpoint"), "{}", said(&second));
    assert!(job.weights() == weights, "other weights");
    assert_eq!(job.metrics(), metrics);
}

#[test]
fn the_network_learns_and_the_report_says_how_much() {
    let dir = tempfile::tempdir().unwrap();
    let digest = bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "--epochs 8");
    let report = report(&job.run(&["--digest", &digest.to_string()]));
    let number = |name: &str| report[name].as_f64().unwrap();
    assert!(number("loss_last") < 0.7 * number("loss_first"), "{report}");
    assert!(number("val_accuracy") > 0.6, "{report}");
    assert_eq!((number("images"), number("samples")), (8.0 * 44.0, 44.0));
    assert_eq!(report["bundle"], digest.to_string());
    assert_eq!(report["weights"], Digest::of(&job.weights()).to_string());
    assert_eq!(report["decoder"], gular_codec::jpeg_backend());
}

#[test]
fn what_cannot_go_on_is_refused_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    let (digest, _) = (bundle(&one, 0), bundle(&other, 1));
    let mut job = Job::new(&one, "");
    assert_eq!(code(&job.run(&["--stop-after-steps", "2"])), 85);
    let check = |job: &Job, more: &[&str], words: &[&str]| {
        let output = job.run(more);
        assert_eq!((code(&output), output.stdout.len()), (2, 0), "{}", said(&output));
        let said = said(&output);
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    check(&job, &["--seed", "1"], &["error: the state was saved with seed 0", "has 1", "hint: "]);
    check(&job, &["--order", "torch"], &["error: the state was saved with order", "hint: "]);
    check(&job, &["--resume", "never"], &["error: the checkpoint"]);
    let digest = digest.to_string();
    job.bundle = other;
    check(&job, &[], &["error: checkpoint `", "was made with the bundle", &digest, "hint: "]);
    check(&job, &["--digest", &digest], &["error: `", "expected", &digest, "hint: "]);
    job.bundle = dir.path().join("none");
    check(&job, &[], &["error: cannot open `", "manifest.json", "hint: "]);
}
