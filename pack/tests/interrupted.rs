//! An interrupted run is resumed, and files of other runs are not touched.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{big_images, files, images, options, png, put, run, small_shards};
use gular_pack::{
    Error, OnBadInput, PackReport, PlanOptions, Progress, RunError, ShardError, pack,
};

/// Packs until `samples` have gone into shards, then stops.
fn stop_after(
    samples: u64,
    source: &Path,
    out: &Path,
    plan: PlanOptions,
) -> Result<PackReport, Error> {
    let cancel = AtomicBool::new(false);
    let seen = AtomicU64::new(0);
    let progress = |p: Progress| {
        if let Progress::Packed(1, _) = p
            && seen.fetch_add(1, Ordering::Relaxed) + 1 == samples
        {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    pack(source, out, &options(plan, 1), &progress, &cancel)
}

#[test]
fn a_bundle_or_foreign_folder_is_never_overwritten() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    run(source.path(), out.path(), PlanOptions::default(), 1).unwrap();
    let before = files(out.path());
    let other = || PlanOptions { seed: 7, ..PlanOptions::default() };
    let again = run(source.path(), out.path(), other(), 1).unwrap_err();
    assert!(matches!(again, Error::Shard(ShardError::AlreadyBundle { .. })), "{again}");
    assert!(files(out.path()) == before);
    // A run killed while it put its notes away leaves them under this name.
    put(out.path(), ".gular-tmp-done/plan", b"x");
    run(source.path(), out.path(), other(), 1).unwrap_err();
    assert!(files(out.path()) == before);
    let foreign = tempfile::tempdir().unwrap();
    put(foreign.path(), "thesis.tex", b"x");
    let error = run(source.path(), foreign.path(), PlanOptions::default(), 1).unwrap_err();
    assert!(error.to_string().contains("thesis.tex"), "{error}");
}

#[test]
fn a_finished_run_is_found_done() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    put(source.path(), "train/cat/bad.jpg", b"no image");
    let skip = || PlanOptions { on_error: OnBadInput::Skip, ..PlanOptions::default() };
    let first = run(source.path(), out.path(), skip(), 1).unwrap();
    assert!(!first.already_done);
    let before = files(out.path());
    put(out.path(), ".gular-tmp-done/plan", b"x");
    let again = run(source.path(), out.path(), skip(), 2).unwrap();
    assert!(again.already_done);
    assert_eq!(
        (again.digest, again.samples, again.bytes),
        (first.digest, first.samples, first.bytes)
    );
    assert_eq!((again.skipped, again.splits), (1, first.splits));
    assert!(files(out.path()) == before);
    // A run with these options would not have left anything out.
    let refused = |plan: PlanOptions| {
        let error = run(source.path(), out.path(), plan, 1).unwrap_err();
        assert!(matches!(error, Error::Shard(ShardError::AlreadyBundle { .. })), "{error}");
    };
    refused(PlanOptions::default());
    refused(PlanOptions { envelope: gular_bundle::Envelope::Tar, ..skip() });
    put(source.path(), "train/cat/new.png", &png(1));
    refused(skip());
    fs::remove_file(source.path().join("train/cat/new.png")).unwrap();
    // A bundle with an incomplete file is not finished.
    let data = fs::read_dir(out.path().join("data")).unwrap().next().unwrap().unwrap().path();
    fs::write(&data, b"cut").unwrap();
    run(source.path(), out.path(), skip(), 1).unwrap_err();
}

#[test]
fn a_stopped_run_goes_on_and_gives_the_same_bytes() {
    let source = tempfile::tempdir().unwrap();
    big_images(source.path());
    let whole = tempfile::tempdir().unwrap();
    run(source.path(), whole.path(), small_shards(), 1).unwrap();
    let expected = files(whole.path());
    for samples in [1, 4, 9, 15, 23] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("bundle");
        let stopped = stop_after(samples, source.path(), &out, small_shards());
        assert!(matches!(stopped, Err(Error::Shard(ShardError::Unfinished { .. }))), "{stopped:?}");
        assert!(!out.join("manifest.json").exists());
        assert_eq!(out.exists(), samples > 1, "what finished nothing leaves nothing");
        if out.exists() {
            // A killed writer leaves such a file.
            fs::write(out.join("data/.gular-tmp-x"), b"half").unwrap();
        }
        let report = run(source.path(), &out, small_shards(), 2).unwrap();
        assert_eq!(report.resumed_shards > 0, samples > 1);
        assert!(files(&out) == expected, "stopped after {samples}");
    }
}

#[test]
fn a_bad_input_met_late_costs_no_finished_shard() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    big_images(source.path());
    put(source.path(), "c0/bad.png", b"no png");
    let failing = dir.path().join("failing");
    let failed = run(source.path(), &failing, small_shards(), 1).unwrap_err();
    assert!(matches!(failed, Error::Run(RunError::BadInputs(_))), "{failed}");
    let again = PlanOptions { on_error: OnBadInput::Skip, ..small_shards() };
    let report = run(source.path(), &failing, again.clone(), 1).unwrap();
    assert!(report.resumed_shards > 0, "the hint promised that finished shards are kept");
    assert_eq!(report.skipped, 1);
    let at_once = dir.path().join("at-once");
    run(source.path(), &at_once, again, 2).unwrap();
    assert!(files(&failing) == files(&at_once));
}

#[test]
fn shards_that_left_something_out_are_no_use_to_a_run_that_may_not() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    big_images(source.path());
    for i in 0..24 {
        put(source.path(), &format!("c0/bad{i}.png"), b"no png");
    }
    let out = dir.path().join("bundle");
    let skip = PlanOptions { on_error: OnBadInput::Skip, ..small_shards() };
    stop_after(45, source.path(), &out, skip.clone()).unwrap_err();
    let error = run(source.path(), &out, small_shards(), 1).unwrap_err();
    assert!(matches!(error, Error::Run(RunError::BadInputs(_))), "{error}");
    let report = run(source.path(), &out, skip, 1).unwrap();
    assert!(report.resumed_shards > 0);
    assert_eq!((report.samples, report.skipped), (24, 24));
}

#[test]
fn other_images_or_options_do_not_continue_a_run() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    big_images(source.path());
    let out = dir.path().join("bundle");
    stop_after(15, source.path(), &out, small_shards()).unwrap_err();
    let before = files(&out.join("data"));
    let seeded = PlanOptions { seed: 7, ..small_shards() };
    let error = run(source.path(), &out, seeded, 1).unwrap_err();
    assert!(matches!(error, Error::Shard(ShardError::OtherPlan { .. })), "{error}");
    put(source.path(), "c0/new.png", &png(1));
    let error = run(source.path(), &out, small_shards(), 1).unwrap_err();
    assert!(matches!(error, Error::Shard(ShardError::OtherPlan { .. })), "{error}");
    assert!(files(&out.join("data")) == before, "finished shards were touched");
    fs::remove_file(source.path().join("c0/new.png")).unwrap();
    assert!(run(source.path(), &out, small_shards(), 1).unwrap().resumed_shards > 0);
}

#[test]
fn a_run_killed_before_its_first_shard_binds_nobody() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let out = dir.path().join("bundle");
    put(&out, ".gular-pack/plan", b"{\"format\":\"gular-plan\",\"version\":1}\nof other options");
    put(&out, ".gular-pack/.gular-tmp-plan", b"half");
    put(&out, "data/.gular-tmp-x", b"half");
    assert_eq!(run(source.path(), &out, PlanOptions::default(), 1).unwrap().samples, 60);
}

#[test]
fn shards_of_an_input_that_changed_in_place_do_not_stay() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    big_images(source.path());
    let out = dir.path().join("bundle");
    stop_after(15, source.path(), &out, small_shards()).unwrap_err();
    // Killed after a shard had its name and before that was noted.
    let stray = "data/train-0123456789abcdef.safetensors";
    put(&out, stray, b"of other bytes");
    run(source.path(), &out, small_shards(), 1).unwrap();
    assert!(!out.join(stray).exists());
    let whole = dir.path().join("whole");
    run(source.path(), &whole, small_shards(), 1).unwrap();
    assert!(files(&out) == files(&whole));
}

#[test]
fn a_folder_in_use_is_left_alone() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    put(out.path(), ".gular-pack/lock", b"");
    let lock = fs::File::open(out.path().join(".gular-pack/lock")).unwrap();
    lock.lock().unwrap();
    let error = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap_err();
    assert!(matches!(error, Error::Shard(ShardError::Busy { .. })), "{error}");
    drop(lock);
    assert_eq!(run(source.path(), out.path(), PlanOptions::default(), 1).unwrap().samples, 60);
}

#[test]
fn a_run_killed_after_its_manifest_is_finished_by_the_same_run_alone() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    big_images(source.path());
    for same in [true, false] {
        let (out, kept) = (dir.path().join(format!("{same}")), tempfile::tempdir().unwrap());
        let seen = AtomicU64::new(0);
        let progress = |p: Progress| {
            if let Progress::Packed(1, _) = p
                && seen.fetch_add(1, Ordering::Relaxed) == 22
            {
                for (name, bytes) in files(&out.join(".gular-pack")) {
                    put(kept.path(), name.to_str().unwrap(), &bytes);
                }
            }
        };
        let cancel = AtomicBool::new(false);
        pack(source.path(), &out, &options(small_shards(), 1), &progress, &cancel).unwrap();
        let whole = files(&out);
        for (name, bytes) in files(kept.path()) {
            put(&out.join(".gular-pack"), name.to_str().unwrap(), &bytes);
        }
        let seed = if same { 0 } else { 7 };
        let again = run(source.path(), &out, PlanOptions { seed, ..small_shards() }, 1);
        match again {
            Ok(report) => assert!(same && report.resumed_shards > 0),
            Err(error) => {
                assert!(
                    !same && matches!(error, Error::Shard(ShardError::AlreadyBundle { .. })),
                    "{error}"
                );
            }
        }
        assert!(files(&out) == whole, "the bundle was touched");
    }
}

#[test]
fn a_stop_while_planning_leaves_nothing() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let out = dir.path().join("bundle");
    let cancel = AtomicBool::new(true);
    let stopped = pack(source.path(), &out, &options(small_shards(), 1), &|_| {}, &cancel);
    assert!(matches!(stopped, Err(Error::Run(RunError::Cancelled))), "{stopped:?}");
    assert!(!out.exists());
}
