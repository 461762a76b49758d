//! Samples that need special treatment: pixels of 16 bits, unknown classes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod job;

use std::path::Path;

use gular_bundle::{Dtype, Field, FieldName};
use job::{Job, code, image, report, said, write_bundle, write_labelled};

const UNKNOWN: [usize; 5] = [0, 9, 21, 43, 45];

/// Samples 0 to 43 to train on, 44 to 52 to test.
fn partly_labelled(dir: &Path) {
    let media = vec!["image/jpeg".into(), "image/png".into()];
    let encoded = Field::bytes(FieldName::image(), media);
    let label = |i: usize| if UNKNOWN.contains(&i) { -1 } else { i as i64 % 3 };
    write_labelled(dir, encoded, 9, &image, &label);
}

#[test]
fn unknown_classes_are_refused_with_their_number_and_the_flag() {
    let dir = tempfile::tempdir().unwrap();
    partly_labelled(dir.path());
    let output = Job::new(dir.path(), "").run(&[]);
    let told = said(&output);
    assert_eq!(code(&output), 2, "{told}");
    assert!(told.contains("4 of 44 samples of split `train` have no class"), "{told}");
    assert!(told.contains("hint: ") && told.contains("`--unknown-labels drop`"), "{told}");
}

#[test]
fn unknown_classes_are_dropped_and_a_resume_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    partly_labelled(dir.path());
    let undisturbed = Job::new(dir.path(), "--unknown-labels drop");
    let output = undisturbed.run(&[]);
    let summary = report(&output);
    // There are 40 samples in batches of 8.
    assert_eq!((&summary["images"], &summary["steps"]), (&120.into(), &15.into()));
    let told = said(&output);
    assert!(told.contains("left out 4 samples of split `train`"), "{told}");
    assert!(told.contains("left out 1 samples of split `val`"), "{told}");
    let job = Job::new(dir.path(), "--unknown-labels drop");
    assert_eq!(code(&job.run(&["--stop-after-steps", "7"])), 85);
    let other = job.run(&["--unknown-labels", "ignore"]);
    assert!(
        said(&other).contains("samples left out: 4, but this loader has 0"),
        "{}",
        said(&other)
    );
    assert_eq!(report(&job.run(&[]))["resumed_at_step"], 7);
    assert!(job.weights() == undisturbed.weights(), "other weights");
}

#[test]
fn unknown_classes_that_stay_count_neither_in_loss_nor_in_accuracy() {
    let dir = tempfile::tempdir().unwrap();
    partly_labelled(dir.path());
    // Each step has one sample, so that some steps have nothing to learn from.
    let job = Job::new(dir.path(), "--unknown-labels ignore --batch-size 1 --epochs 6");
    let output = job.run(&[]);
    let summary = report(&output);
    assert_eq!((&summary["images"], &summary["steps"]), (&240.into(), &264.into()));
    assert_eq!(summary["loader"]["unlabelled"], 24);
    for name in ["loss_first", "loss_last", "val_loss", "val_accuracy"] {
        assert!(summary[name].as_f64().is_some_and(f64::is_finite), "{name}: {summary}");
    }
    // 8 of the 9 samples for the test have a class.
    let right = summary["val_accuracy"].as_f64().unwrap() * 8.0;
    assert!((right - right.round()).abs() < 1e-9, "{summary}");
    assert!(said(&output).contains("4 samples of unknown class"), "{}", said(&output));
}

#[test]
fn pixels_of_16_bits_are_trained_on_or_their_high_byte_when_asked() {
    let (wide, narrow) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shape = vec![20, 30, 3];
    let pixels = |i: usize| -> Vec<u8> {
        let value = |at: usize| (at * (i + 3) % 50) as u8 + if at % 3 == i % 3 { 180 } else { 40 };
        (0..20 * 30 * 3).map(value).collect()
    };
    // The low byte is lost, whatever it is.
    let low = |value: u8| value.wrapping_mul(7);
    let field = |dtype| Field::fixed(FieldName::image(), dtype, shape.clone());
    write_bundle(wide.path(), field(Dtype::U16), 9, &|i| {
        pixels(i).into_iter().flat_map(|value| [low(value), value]).collect()
    });
    write_bundle(narrow.path(), field(Dtype::U8), 9, &pixels);
    // The numbers alone: the file also says what bits it was trained on.
    let model = |bundle: &Path, options: &[&str]| {
        let job = Job::new(bundle, "");
        report(&job.run(options));
        let file = job.weights();
        let (len, rest) = file.split_first_chunk().unwrap();
        rest[u64::from_le_bytes(*len) as usize..].to_vec()
    };
    let bytes = model(narrow.path(), &[]);
    assert!(model(wide.path(), &[]) != bytes, "the low byte counts");
    assert!(model(wide.path(), &["--depth", "8"]) == bytes, "the high byte is what a byte is");
}

#[test]
fn five_bands_of_16_bits_are_trained_on() {
    let dir = tempfile::tempdir().unwrap();
    let field = Field::fixed(FieldName::image(), Dtype::U16, vec![20, 30, 5]);
    // The class can be seen in the fourth band only.
    write_bundle(dir.path(), field, 9, &|i| {
        let value = |at: usize| if at % 5 == 3 { i % 3 * 3000 + 500 } else { at * (i + 3) % 900 };
        (0..20 * 30 * 5).flat_map(|at| (value(at) as u16).to_le_bytes()).collect()
    });
    let summary = report(&Job::new(dir.path(), "").run(&[]));
    assert!(summary["loss_last"].as_f64().unwrap() < summary["loss_first"].as_f64().unwrap());
}
