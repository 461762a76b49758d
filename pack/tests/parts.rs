//! The parts that several machines pack form the bundle that one machine would have packed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{big_images, files, options, png, put, run, small_shards};
use gular_bundle::{Bundle, OpenOptions};
use gular_pack::{
    Error, Fit, LabelColumn, Labels, MergeOptions, MergeReport, OnBadInput, PackOptions, Part,
    PayloadOptions, PlanOptions, Progress, RawOptions, ShardError, TableOptions, merge, pack,
};

fn part(text: &str, source: &Path, out: &Path, plan: PlanOptions) -> Result<u64, Error> {
    let part = Some(Part::parse(text).unwrap());
    let options = PackOptions { part, ..options(plan, 2) };
    let report = pack(source, out, &options, &|_| {}, &AtomicBool::new(false))?;
    assert_eq!((report.part, report.digest), (part, None));
    Ok(report.samples)
}

fn merged(parts: &[PathBuf], out: &Path) -> Result<MergeReport, Error> {
    let options = MergeOptions { jobs: 2, dry_run: false };
    merge(parts, out, &options, &|_| {}, &AtomicBool::new(false))
}

/// Images, some of them broken, one of them a link to nothing.
fn some_broken(dir: &Path) {
    big_images(dir);
    for i in 0..9 {
        put(dir, &format!("c{}/bad{i}.png", i % 3), b"no png");
    }
    std::os::unix::fs::symlink("nowhere", dir.join("c0/gone.png")).unwrap();
}

fn skip(plan: PlanOptions) -> PlanOptions {
    PlanOptions { on_error: OnBadInput::Skip, ..plan }
}

fn raw() -> PayloadOptions {
    PayloadOptions::Raw(RawOptions {
        width: 300,
        height: 300,
        fit: Fit::Crop,
        channels: 3,
        depth: None,
    })
}

/// Packs at once, and in `n` parts; both must be the same files.
fn check(source: &Path, n: u32, plan: &PlanOptions) {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    run(source, &whole, plan.clone(), 2).unwrap();
    let mut samples = 0;
    let parts: Vec<PathBuf> = (1..=n)
        .map(|i| {
            let out = dir.path().join(format!("part{i}"));
            samples += part(&format!("{i}/{n}"), source, &out, plan.clone()).unwrap();
            out
        })
        .rev()
        .collect();
    let out = dir.path().join("merged");
    let report = merged(&parts, &out).unwrap();
    assert_eq!(report.samples, samples);
    assert!(files(&out) == files(&whole), "{n} parts");
    let bundle = Bundle::open(&out, OpenOptions::default()).unwrap();
    assert_eq!((bundle.digest(), report.copied), (report.digest, 0));
    let again = merged(&parts, &out).unwrap();
    assert!(again.already_done);
}

#[test]
fn any_number_of_parts_gives_the_bytes_of_one_run() {
    let source = tempfile::tempdir().unwrap();
    some_broken(source.path());
    // Eight shards or so: with 40 parts most have none.
    for n in [1, 3, 40] {
        check(source.path(), n, &skip(small_shards()));
    }
}

#[test]
fn statistics_of_decoded_pixels_add_up() {
    let source = tempfile::tempdir().unwrap();
    some_broken(source.path());
    let plan = PlanOptions { payload: raw(), ..skip(small_shards()) };
    check(source.path(), 4, &plan);
}

#[test]
fn tables_of_labels_and_fields_are_the_same_in_every_part() {
    let (source, table) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    some_broken(source.path());
    let mut rows = "file_name,tags,cloud,note\n".to_owned();
    for i in 0..24 {
        rows += &format!("{i}.png,{},{},n{i}\n", ["a|b", "c", "b|c"][i % 3], i as f64 / 3.0);
    }
    put(table.path(), "labels.csv", rows.as_bytes());
    let labels = Labels::Table(TableOptions {
        files: vec![table.path().join("labels.csv")],
        lines: Default::default(),
        key: None,
        label: LabelColumn::Named("tags".into()),
        split: None,
        group: None,
        separator: Some("|".into()),
        fields: gular_pack::FieldColumns::All,
        ..TableOptions::default()
    });
    let unlabelled = gular_pack::Unlabelled::Skip;
    check(source.path(), 3, &PlanOptions { labels, unlabelled, ..skip(small_shards()) });
}

#[test]
fn a_part_that_was_stopped_goes_on() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    some_broken(source.path());
    let plan = || skip(small_shards());
    let whole = dir.path().join("whole");
    run(source.path(), &whole, plan(), 1).unwrap();
    let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
    let (cancel, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = |p: Progress| {
        if let Progress::Packed(1, _) = p
            && seen.fetch_add(1, Ordering::Relaxed) == 12
        {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let of = |text: &str| PackOptions { part: Part::parse(text).ok(), ..options(plan(), 1) };
    let stopped = pack(source.path(), &first, &of("1/2"), &progress, &cancel).unwrap_err();
    assert!(
        matches!(stopped, Error::Shard(ShardError::Unfinished { done: 1.., total: 2..=6, .. })),
        "{stopped}"
    );
    // Another part, or the whole, is refused here, since the finished shards would be lost.
    let before = files(&first);
    for other in [of("2/2"), options(plan(), 1)] {
        let error = pack(source.path(), &first, &other, &|_| {}, &AtomicBool::new(false));
        assert!(matches!(error, Err(Error::Shard(ShardError::OtherPart { .. }))), "{error:?}");
        assert!(files(&first) == before);
    }
    let error = merged(std::slice::from_ref(&first), &dir.path().join("m")).unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    let report = pack(source.path(), &first, &of("1/2"), &|_| {}, &AtomicBool::new(false)).unwrap();
    assert!(report.resumed_shards > 0);
    part("2/2", source.path(), &second, plan()).unwrap();
    let out = dir.path().join("merged");
    merged(&[first.clone(), second], &out).unwrap();
    assert!(files(&out) == files(&whole));
    // A finished part stays finished, and its folder cannot be used for another.
    let again = pack(source.path(), &first, &of("1/2"), &|_| {}, &AtomicBool::new(false)).unwrap();
    assert!(again.already_done);
    assert_eq!((again.samples, again.skipped), (report.samples, report.skipped));
    for other in [of("2/2"), options(plan(), 1), PackOptions { plan: small_shards(), ..of("1/2") }]
    {
        let error = pack(source.path(), &first, &other, &|_| {}, &AtomicBool::new(false));
        assert!(error.is_err(), "{error:?}");
    }
}

#[test]
fn parts_that_are_missing_doubled_or_different_are_named() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    big_images(source.path());
    let at = |name: &str| dir.path().join(name);
    let pack_part = |text: &str, name: &str, plan: PlanOptions| {
        part(text, source.path(), &at(name), plan).unwrap();
        at(name)
    };
    let [one, two, three] =
        ["1/3", "2/3", "3/3"].map(|n| pack_part(n, &n.replace('/', "-"), small_shards()));
    let seeded = pack_part("2/3", "seeded", PlanOptions { seed: 7, ..small_shards() });
    let tar = PlanOptions { envelope: gular_bundle::Envelope::Tar, ..small_shards() };
    let tar = pack_part("2/3", "tar", tar);
    let of_four = pack_part("2/4", "of-four", small_shards());
    put(source.path(), "c0/new.png", &png(1));
    let newer = pack_part("2/3", "newer", small_shards());
    let fault = |parts: &[&PathBuf]| {
        let parts: Vec<PathBuf> = parts.iter().map(|p| (*p).clone()).collect();
        let error = merged(&parts, &at("out")).unwrap_err();
        assert!(!at("out").exists(), "{error}");
        error.to_string()
    };
    for (parts, expected) in [
        (vec![&one, &three], "part 2 of 3 is missing"),
        (vec![&two], "parts 1, 3 of 3 are missing"),
        (vec![&one, &two, &two, &three], "are both part 2/3"),
        (vec![&one, &seeded, &three], "option `seed` is 7, expected 0"),
        (vec![&one, &tar, &three], "`envelope` is \"tar\", expected \"shards\""),
        (vec![&one, &of_four, &three], "it is part 2/4, expected a part of 3"),
        (
            vec![&one, &newer, &three],
            "its source was another one, or was changed: it had 25 samples",
        ),
    ] {
        let text = fault(&parts);
        assert!(text.contains(expected), "{text}");
        assert!(!expected.contains("option") || text.contains("seeded"), "{text}");
    }
    assert!(fault(&[&one, &at("nowhere")]).contains("has no `part.json`"));
    // The file is cut, as after a copy over a network.
    let data = fs::read_dir(two.join("data")).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&data).unwrap();
    fs::write(&data, &bytes[1..]).unwrap();
    assert!(fault(&[&one, &two, &three]).contains("as in the manifest"));
    fs::remove_file(&data).unwrap();
    fs::write(&data, &bytes).unwrap();
    let file = fs::read_to_string(two.join("part.json")).unwrap();
    for (from, to, expected) in [
        ("\"version\":1", "\"version\":2", "its version is 2"),
        ("gular-part", "gular-plan", "its format is `gular-plan`"),
        ("{\"number\":2,\"of\":3}", "{\"number\":2,\"of\":2}", "shards, expected"),
        ("{", "[", "not a finished part"),
    ] {
        fs::write(two.join("part.json"), file.replacen(from, to, 1)).unwrap();
        let text = fault(&[&one, &two, &three]);
        assert!(text.contains(expected), "{text}");
    }
}
