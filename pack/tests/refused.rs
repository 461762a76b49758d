//! Input that cannot be packed is named, with what to do, and nothing is left behind.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::support::{images, jpeg, options, png, put, run};
use gular_bundle::Split;
use gular_pack::{
    CheckImages, Classes, Error, Labels, OnBadInput, PlanOptions, Progress, RunError, pack,
};

#[test]
fn inputs_that_cannot_be_packed_are_skipped_and_listed() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let good = jpeg(1);
    put(source.path(), "train/cat/empty.jpg", b"");
    put(source.path(), "train/cat/text.jpg", b"hello, this is text");
    put(source.path(), "train/cat/cut.jpg", &good[..good.len() / 2]);
    let plan = |check| PlanOptions { check, on_error: OnBadInput::Skip, ..PlanOptions::default() };
    let report = run(source.path(), out.path(), plan(CheckImages::Full), 2).unwrap();
    assert_eq!((report.samples, report.skipped), (60, 3));
    let listed = fs::read_to_string(out.path().join("skipped.jsonl")).unwrap();
    for (name, word) in [("cut.jpg", ""), ("empty.jpg", "empty"), ("text.jpg", "")] {
        let line = listed.lines().find(|l| l.contains(name)).unwrap();
        assert!(line.contains(word), "{line}");
    }
    assert_eq!(listed.lines().count(), 3);
    let fail = PlanOptions { labels: Labels::None, ..plan(CheckImages::Full) };
    let fail = PlanOptions { on_error: OnBadInput::Fail, ..fail };
    // One shard: others would be kept if they ended before the fault was found.
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(one.path(), "1.jpg", &good);
    put(one.path(), "2.jpg", &good[..good.len() / 2]);
    put(one.path(), "3.jpg", b"");
    let into = other.path().join("new");
    assert!(matches!(run(one.path(), &into, fail, 1), Err(Error::Run(RunError::BadInputs(..)))));
    assert!(!into.exists(), "nothing is left of a run that finished nothing");
}

#[test]
fn unusable_sources_are_refused() {
    let check = |make: &dyn Fn(&Path), plan: PlanOptions, expected: &str| {
        let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make(source.path());
        let error = run(source.path(), out.path(), plan, 1).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0, "{error}: something was left");
    };
    let default = PlanOptions::default;
    check(&|_| {}, default(), "no JPEG, PNG, WebP, BMP, GIF or Netpbm image");
    check(&|d| put(d, "a/x.tif", b"II"), default(), "a/x.tif");
    check(&|d| put(d, "26_0_2_17.jpg", &jpeg(1)), default(), "is not in a class folder");
    check(
        &|d| {
            put(d, "train/a/x.jpg", &jpeg(1));
            put(d, "extra/a/x.jpg", &jpeg(1));
        },
        default(),
        "is the name of a split",
    );
    check(
        &|d| {
            put(d, "a/X.jpg", &jpeg(1));
            put(d, "a/x.jpg", &jpeg(2));
        },
        default(),
        "differ only in upper and lower case",
    );
    check(
        &|d| {
            put(d, "a/x.jpg", &jpeg(1));
            symlink(d, d.join("a/up")).unwrap();
        },
        default(),
        "leads back to the folder",
    );
    check(
        &|d| {
            put(d, "a/x.jpg", &jpeg(1));
            symlink("nowhere", d.join("a/y.jpg")).unwrap();
        },
        default(),
        "broken link",
    );
    check(
        &|d| {
            use std::os::unix::ffi::OsStrExt as _;
            put(d, "a/x.jpg", &jpeg(1));
            fs::write(d.join("a").join(std::ffi::OsStr::from_bytes(b"\xff.jpg")), jpeg(2)).unwrap();
        },
        default(),
        "not UTF-8",
    );
    let list = tempfile::NamedTempFile::new().unwrap();
    fs::write(list.path(), "dog\ncat\n").unwrap();
    let classes = PlanOptions { classes: Some(Classes::File(list.path().to_owned())), ..default() };
    check(&|d| put(d, "bird/x.jpg", &jpeg(1)), classes, "not one of the 2 classes");
    let fractions = PlanOptions { fractions: vec![(Split::Train, 0.5)], ..default() };
    check(&|d| put(d, "a/x.jpg", &jpeg(1)), fractions, "sum to 0.5");
    let fractions = PlanOptions { fractions: vec![(Split::Train, 1.0)], ..default() };
    check(&|d| put(d, "train/a/x.jpg", &jpeg(1)), fractions, "so fractions cannot make splits");
    let flat = PlanOptions { labels: Labels::None, ..default() };
    check(
        &|d| {
            put(d, "train/x.jpg", &jpeg(1));
            put(d, "x.jpg", &jpeg(1));
        },
        flat,
        "is not in a split folder",
    );
    let flat = PlanOptions {
        labels: Labels::None,
        classes: Some(Classes::File(list.path().into())),
        ..default()
    };
    check(&|d| put(d, "x.jpg", &jpeg(1)), flat, "a list of classes");
    let memory = PlanOptions { memory_bytes: 1000, ..default() };
    check(&|d| put(d, "a/x.jpg", &jpeg(1)), memory, "the memory to use is 1000 bytes");
    let shards = PlanOptions { shard_bytes: 1000, ..default() };
    check(&|d| put(d, "a/x.jpg", &jpeg(1)), shards, "the shard size is 1000 bytes");
    check(
        &|d| {
            put(d, "a/ΟΔΟΣ/x.jpg", &jpeg(1));
            put(d, "a/οδοσ/x.jpg", &jpeg(2));
        },
        default(),
        "differ only in upper and lower case",
    );
}

#[test]
fn bad_inputs_are_named_together() {
    for place in ["names", "contents"] {
        let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(source.path(), "c/good.png", &png(1));
        for i in 0..25 {
            match place {
                "names" => {
                    fs::create_dir_all(source.path().join("c")).unwrap();
                    symlink("nowhere", source.path().join(format!("c/{i}.jpg"))).unwrap();
                }
                _ => put(source.path(), &format!("c/{i}.jpg"), b"text"),
            }
        }
        let error = run(source.path(), out.path(), PlanOptions::default(), 2).unwrap_err();
        let Error::Run(RunError::BadInputs(bad)) = &error else { panic!("{error}") };
        assert_eq!((bad.named.len(), bad.n), (20, 25), "{place}");
        assert!(error.to_string().ends_with("\n  and 5 more"), "{error}");
    }
}

#[test]
fn a_file_larger_than_a_sample_may_be_is_not_read() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(source.path(), "c/good.png", &png(1));
    let huge = fs::File::create(source.path().join("c/huge.png")).unwrap();
    huge.set_len(1 << 31).unwrap();
    let skip = PlanOptions { on_error: OnBadInput::Skip, ..PlanOptions::default() };
    let report = match run(source.path(), out.path(), skip, 1) {
        Err(Error::Run(RunError::NoSpace { .. })) => {
            println!("skipped: less than 2 GiB are free for temporary files");
            return;
        }
        report => report.unwrap(),
    };
    assert_eq!((report.samples, report.skipped), (1, 1));
    let listed = fs::read_to_string(out.path().join("skipped.jsonl")).unwrap();
    assert!(listed.contains("at most 2147483647"), "{listed}");
}

#[test]
fn a_file_that_changes_after_the_plan_is_refused() {
    for len in [0, 10, 100_000] {
        let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(source.path(), "c/x.jpg", &jpeg(1));
        let progress = |p: Progress| {
            if let Progress::Planned(..) = p {
                let file = fs::OpenOptions::new().write(true).open(source.path().join("c/x.jpg"));
                file.unwrap().set_len(len).unwrap();
            }
        };
        let (options, cancel) = (options(PlanOptions::default(), 1), AtomicBool::new(false));
        let error = pack(source.path(), out.path(), &options, &progress, &cancel).unwrap_err();
        let expected = format!("it now has {len} bytes, and had {}", jpeg(1).len());
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[test]
fn an_unreadable_file_is_named() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(source.path(), "c/x.jpg", &jpeg(1));
    let path = source.path().join("c/x.jpg");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    let error = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap_err();
    assert!(error.to_string().contains("c/x.jpg"), "{error}");
}

#[test]
fn a_bundle_does_not_lie_among_its_inputs() {
    let source = tempfile::tempdir().unwrap();
    images(source.path());
    for out in ["bundle", "train/new/bundle", "."] {
        let out = source.path().join(out);
        let error = run(source.path(), &out, PlanOptions::default(), 1).unwrap_err();
        assert!(matches!(error, Error::Inside { .. }), "{error}");
    }
    assert!(!source.path().join("bundle").exists() && !source.path().join("train/new").exists());
}
