//! Training runs on a part of the samples, or with some of them more often.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod job;

use std::fs;

use gular_bundle::{Bundle, FieldIdx, OpenOptions, Split};
use job::{Job, bundle, code, report, said};

#[test]
fn a_fold_is_validated_on_and_not_trained_on_and_a_resume_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let undisturbed = Job::new(dir.path(), "--fold 1/4");
    let output = undisturbed.run(&[]);
    let summary = report(&output);
    // 33 of 44 samples are used, in batches of 8.
    assert_eq!((&summary["images"], &summary["steps"]), (&99.into(), &15.into()));
    let told = said(&output);
    assert!(told.contains("epoch 3: 33 samples, each once"), "{told}");
    assert!(told.contains(" %: 11 samples, each once"), "{told}");
    let job = Job::new(dir.path(), "--fold 1/4");
    assert_eq!(code(&job.run(&["--stop-after-steps", "7"])), 85);
    let other = job.run(&["--fold", "2/4"]);
    assert_eq!(code(&other), 2);
    assert!(said(&other).contains("the state was saved with selection"), "{}", said(&other));
    assert_eq!(report(&job.run(&[]))["resumed_at_step"], 7);
    assert!(job.weights() == undisturbed.weights(), "other weights");
}

#[test]
fn images_that_are_never_to_be_used_are_left_out_by_digest() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let opened = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
    let mut list = String::new();
    for sample in [3, 20, 43] {
        let id = opened.locate(Split::Train, sample).unwrap();
        let digest = opened.shard(id.shard).unwrap().digest(id.row, FieldIdx(0)).unwrap().unwrap();
        list += &format!("{digest}\n");
    }
    let file = dir.path().join("never.txt");
    fs::write(&file, &list).unwrap();
    let job = Job::new(dir.path(), &format!("--never {}", file.display()));
    let output = job.run(&[]);
    assert_eq!(report(&output)["images"], 123);
    let told = said(&output);
    assert!(told.contains("left out 3 samples of split `train`"), "{told}");
    assert!(told.contains("epoch 1: 41 samples, each once"), "{told}");
    fs::write(&file, "blake3:abc\n").unwrap();
    let output = Job::new(dir.path(), &format!("--never {}", file.display())).run(&[]);
    assert_eq!(code(&output), 2);
    assert!(said(&output).contains("`blake3:abc` is not a BLAKE3 digest"), "{}", said(&output));
}

#[test]
fn classes_are_drawn_equally_often() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let output = Job::new(dir.path(), "--draw by-class").run(&[]);
    assert_eq!(report(&output)["images"], 132);
    assert!(said(&output).contains("epoch 3: 44 samples, each as drawn"), "{}", said(&output));
    let wrong = Job::new(dir.path(), "--draw by-class --order window").run(&[]);
    assert!(said(&wrong).contains("option `draw`"), "{}", said(&wrong));
}
