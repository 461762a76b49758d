//! A directory becomes a bundle, the same one every time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gular_bundle::{Bundle, OpenOptions, Split};
use gular_image::{encode_jpeg, encode_png};
use gular_pack::{
    Check, Error, Labels, OnError, PackOptions, PackOrder, PlanOptions, Progress, Report, pack,
};

fn jpeg(i: u32) -> Vec<u8> {
    let (w, h) = (20 + i % 17, 16 + i % 5);
    let pixels: Vec<u8> = (0..w * h * 3).map(|p| (p * 7 + i * 31) as u8).collect();
    encode_jpeg(&pixels, w, h, 80).unwrap()
}

fn png(i: u32) -> Vec<u8> {
    encode_png(&vec![i as u8; 12 * 9 * 3], 12, 9).unwrap()
}

fn put(dir: &Path, name: &str, bytes: &[u8]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// 2 splits, 3 classes, 60 images.
fn images(dir: &Path) {
    for i in 0..60 {
        let split = if i % 4 == 0 { "val" } else { "train" };
        let class = ["cat", "dog", "a-b"][i as usize % 3];
        let (extension, bytes) = if i % 5 == 0 { ("png", png(i)) } else { ("jpg", jpeg(i)) };
        put(dir, &format!("{split}/{class}/{i}.{extension}"), &bytes);
    }
}

fn options(plan: PlanOptions, jobs: usize) -> PackOptions {
    PackOptions { plan, jobs, dry_run: false }
}

fn run(source: &Path, out: &Path, plan: PlanOptions, jobs: usize) -> Result<Report, Error> {
    pack(source, out, &options(plan, jobs), &|_| {}, &AtomicBool::new(false))
}

/// Every file below `dir` with its bytes.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// Images so large that shards of 1 MiB hold only a few.
fn big_images(dir: &Path) {
    for i in 0..24_u32 {
        let mut state = u64::from(i) + 1;
        let noise = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let pixels: Vec<u8> = (0..300 * 300 * 3).map(noise).collect();
        let bytes = encode_png(&pixels, 300, 300).unwrap();
        put(dir, &format!("c{}/{i}.png", i % 3), &bytes);
    }
}

fn small_shards() -> PlanOptions {
    PlanOptions { shard_bytes: 1 << 20, ..PlanOptions::default() }
}

#[test]
fn every_image_arrives_under_its_key_with_its_label() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let report = run(source.path(), out.path(), PlanOptions::default(), 2).unwrap();
    assert_eq!((report.samples, report.shards, report.skipped), (60, 2, 0));
    let bundle = Bundle::open(out.path(), OpenOptions::default()).unwrap();
    assert_eq!(bundle.digest().to_string(), report.digest.unwrap());
    assert_eq!(bundle.manifest().classes, ["a-b", "cat", "dog"]);
    let mut bytes = Vec::new();
    let mut seen = 0;
    for split in [Split::Train, Split::Val] {
        for i in 0..bundle.n_samples(split) {
            let id = bundle.locate(split, i).unwrap();
            let key = bundle.key(id).unwrap();
            bundle.read(id, 0, &mut bytes).unwrap();
            assert_eq!(bytes, fs::read(source.path().join(key.as_str())).unwrap());
            let label = bundle.shard(id.shard).unwrap().label(id.row).unwrap();
            let class = &bundle.manifest().classes[label as usize];
            assert!(key.as_str().starts_with(&format!("{split}/{class}/")));
            seen += 1;
        }
    }
    assert_eq!(seen, 60);
    assert!(!out.path().join(".gular-pack").exists());
}

#[test]
fn any_number_of_jobs_gives_the_same_bytes() {
    let source = tempfile::tempdir().unwrap();
    big_images(source.path());
    let packed: Vec<_> = [1, 2, 5]
        .into_iter()
        .map(|jobs| {
            let out = tempfile::tempdir().unwrap();
            let report = run(source.path(), out.path(), small_shards(), jobs).unwrap();
            assert!(report.shards > 5, "{}", report.shards);
            files(out.path())
        })
        .collect();
    assert!(packed[0] == packed[1] && packed[1] == packed[2]);
}

#[test]
fn a_stopped_run_goes_on_and_gives_the_same_bytes() {
    let source = tempfile::tempdir().unwrap();
    big_images(source.path());
    let whole = tempfile::tempdir().unwrap();
    run(source.path(), whole.path(), small_shards(), 1).unwrap();
    let expected = files(whole.path());
    for stop_after in [1, 4, 9, 15, 23] {
        let out = tempfile::tempdir().unwrap();
        let cancel = AtomicBool::new(false);
        let seen = AtomicU64::new(0);
        let progress = |p: Progress| {
            if let Progress::Packed(1, _) = p
                && seen.fetch_add(1, Ordering::Relaxed) + 1 == stop_after
            {
                cancel.store(true, Ordering::Relaxed);
            }
        };
        let stopped =
            pack(source.path(), out.path(), &options(small_shards(), 1), &progress, &cancel);
        assert!(matches!(stopped, Err(Error::Cancelled { .. })), "{stopped:?}");
        assert!(!out.path().join("manifest.json").exists());
        // What a killed writer leaves.
        fs::create_dir_all(out.path().join("data")).unwrap();
        fs::write(out.path().join("data/.gular-tmp-x"), b"half").unwrap();
        let report = run(source.path(), out.path(), small_shards(), 2);
        if let Err(Error::NotEmpty { .. }) = report {
            // Nothing was finished, so nothing was kept; the folder is not ours.
            assert_eq!(stop_after, 1);
            continue;
        }
        assert_eq!(report.unwrap().resumed_shards > 0, stop_after > 1);
        assert!(files(out.path()) == expected, "stopped after {stop_after}");
    }
}

#[test]
fn sorted_order_is_that_of_image_folder() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (i, name) in ["a/z.jpg", "a-b/c.jpg", "a/b.jpg", "B/x.jpg"].iter().enumerate() {
        put(source.path(), name, &jpeg(i as u32));
    }
    let plan = PlanOptions { order: PackOrder::Sorted, ..PlanOptions::default() };
    run(source.path(), out.path(), plan, 1).unwrap();
    let bundle = Bundle::open(out.path(), OpenOptions::default()).unwrap();
    let keys: Vec<String> = (0..4)
        .map(|i| bundle.key(bundle.locate(Split::Train, i).unwrap()).unwrap().to_string())
        .collect();
    // sorted(["B", "a", "a-b"]), then sorted names in each.
    assert_eq!(keys, ["B/x.jpg", "a/b.jpg", "a/z.jpg", "a-b/c.jpg"]);
    assert_eq!(bundle.manifest().classes, ["B", "a", "a-b"]);
}

#[test]
fn fractions_split_by_key_alone() {
    let source = tempfile::tempdir().unwrap();
    for i in 0..200 {
        put(source.path(), &format!("c/{i}.png"), &png(i));
    }
    let plan = || PlanOptions {
        fractions: vec![(Split::Train, 0.75), (Split::Val, 0.25)],
        ..PlanOptions::default()
    };
    let members = || {
        let out = tempfile::tempdir().unwrap();
        run(source.path(), out.path(), plan(), 1).unwrap();
        let bundle = Bundle::open(out.path(), OpenOptions::default()).unwrap();
        (0..bundle.n_samples(Split::Val))
            .map(|i| bundle.key(bundle.locate(Split::Val, i).unwrap()).unwrap().to_string())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let before = members();
    assert!((25..75).contains(&before.len()), "{}", before.len());
    for i in 200..260 {
        put(source.path(), &format!("c/{i}.png"), &png(i));
    }
    assert!(before.is_subset(&members()), "a sample changed its split");
}

#[test]
fn inputs_that_cannot_be_packed_are_skipped_and_listed() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let good = jpeg(1);
    put(source.path(), "train/cat/empty.jpg", b"");
    put(source.path(), "train/cat/text.jpg", b"hello, this is text");
    put(source.path(), "train/cat/png.jpg", &png(3));
    put(source.path(), "train/cat/cut.jpg", &good[..good.len() / 2]);
    let plan = |check| PlanOptions { check, on_error: OnError::Skip, ..PlanOptions::default() };
    let report = run(source.path(), out.path(), plan(Check::Full), 2).unwrap();
    assert_eq!((report.samples, report.skipped), (60, 4));
    let listed = fs::read_to_string(out.path().join("skipped.jsonl")).unwrap();
    for (name, word) in
        [("cut.jpg", ""), ("empty.jpg", "empty"), ("png.jpg", "image/png"), ("text.jpg", "")]
    {
        let line = listed.lines().find(|l| l.contains(name)).unwrap();
        assert!(line.contains(word), "{line}");
    }
    assert_eq!(listed.lines().count(), 4);
    let fail = PlanOptions { check: Check::Full, ..PlanOptions::default() };
    let other = tempfile::tempdir().unwrap();
    let into = other.path().join("new");
    assert!(matches!(run(source.path(), &into, fail, 1), Err(Error::BadInput(..))));
    assert!(!into.exists(), "nothing is left of a run that finished nothing");
}

#[test]
fn unusable_sources_are_refused() {
    let check = |make: &dyn Fn(&Path), plan: PlanOptions, expected: &str| {
        let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make(source.path());
        let error = run(source.path(), out.path(), plan, 1).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.hint().is_some(), "{error}");
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0, "{error}: something was left");
    };
    let default = PlanOptions::default;
    check(&|_| {}, default(), "no JPEG or PNG image");
    check(&|d| put(d, "a/x.tif", b"II"), default(), "1 tif");
    check(&|d| put(d, "x.jpg", &jpeg(1)), default(), "lies in no class folder");
    check(
        &|d| {
            put(d, "train/a/x.jpg", &jpeg(1));
            put(d, "extra/a/x.jpg", &jpeg(1));
        },
        default(),
        "named like a split",
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
        "directory loop",
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
    let classes = PlanOptions { classes: Some(list.path().to_owned()), ..default() };
    check(&|d| put(d, "bird/x.jpg", &jpeg(1)), classes, "not one of the 2 classes");
    let fractions = PlanOptions { fractions: vec![(Split::Train, 0.5)], ..default() };
    check(&|d| put(d, "a/x.jpg", &jpeg(1)), fractions, "sum to 0.5");
}

#[test]
fn a_bundle_or_foreign_folder_is_never_overwritten() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    run(source.path(), out.path(), PlanOptions::default(), 1).unwrap();
    let before = files(out.path());
    let again = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap_err();
    assert!(matches!(again, Error::AlreadyBundle { .. }), "{again}");
    assert!(files(out.path()) == before);
    let foreign = tempfile::tempdir().unwrap();
    put(foreign.path(), "thesis.tex", b"x");
    let error = run(source.path(), foreign.path(), PlanOptions::default(), 1).unwrap_err();
    assert!(error.to_string().contains("thesis.tex"), "{error}");
}

#[test]
fn flat_folders_pack_without_labels() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(source.path(), "x.jpg", &jpeg(1));
    put(source.path(), "deep/er/y.png", &png(2));
    put(source.path(), ".hidden.jpg", b"");
    let plan = PlanOptions { labels: Labels::None, ..PlanOptions::default() };
    let report = run(source.path(), out.path(), plan, 1).unwrap();
    assert_eq!((report.samples, report.ignored["hidden"]), (2, 1));
    let bundle = Bundle::open(out.path(), OpenOptions::default()).unwrap();
    assert_eq!(bundle.manifest().fields.len(), 1);
    assert!(bundle.manifest().classes.is_empty());
}

#[test]
fn a_dry_run_writes_nothing() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let options = PackOptions { dry_run: true, ..options(PlanOptions::default(), 1) };
    let into = out.path().join("new");
    let report = pack(source.path(), &into, &options, &|_| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!((report.samples, report.shards, report.splits[&Split::Val].samples), (60, 2, 15));
    assert_eq!(report.splits[&Split::Val].classes["cat"], 5);
    assert!(!into.exists());
}
