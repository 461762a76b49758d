//! The report names what was damaged, and nothing else.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{first, flip, full, kinds, make, run};
use gular_bundle::{Bundle, FieldIdx, Index, OpenOptions, Row, write_manifest};
use gular_files::Watch;
use gular_verify::{Error, Fault, FaultKind, Mode, VerifyOptions, VerifyReport, verify};

fn first_index(dir: &Path) -> Index {
    let bundle = Bundle::open(dir, OpenOptions::default()).unwrap();
    let manifest = bundle.manifest();
    let bytes = fs::read(bundle.path_of(&manifest.shards[0].index)).unwrap();
    Index::parse("i", bytes, &manifest.fields, manifest.shards[0].file.bytes).unwrap()
}

/// Returns the keys of the samples that have a value with byte `at`.
fn keys_at(index: &Index, at: u64) -> Vec<String> {
    let holds = |row: Row| {
        index
            .fields()
            .filter_map(|field| index.range(row, field))
            .any(|(s, n)| (s..s + n as u64).contains(&at))
    };
    index.rows().filter(|r| holds(*r)).map(|r| index.key(r).unwrap().to_owned()).collect()
}

fn of_kind(report: &VerifyReport, kind: FaultKind) -> Vec<&Fault> {
    report.faults.iter().filter(|f| f.kind == kind).collect()
}

#[test]
fn the_keys_named_are_those_that_hold_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[1000, 900_000, 0, 400_000, 50]);
    let (path, _) = first(dir.path());
    let (index, good) = (first_index(dir.path()), fs::read(&path).unwrap());
    assert!(index.blocks().n_blocks() > 1);
    // The bytes are at a stride through the whole file, and every 5th byte of the tables behind the
    // samples.
    let tables = 4096 + 1_301_050;
    let places = (0..good.len()).step_by(65_537).chain((tables..good.len()).step_by(5));
    let (mut of_samples, mut of_none) = (0, 0);
    for at in places {
        flip(&path, at);
        let report = full(dir.path());
        let expected = keys_at(&index, at as u64);
        let blocks = of_kind(&report, FaultKind::Blocks);
        assert_eq!(blocks.len(), 1, "byte {at}");
        let holding = |f: &Fault| f.ranges.iter().any(|r| (r.start..r.end).contains(&(at as u64)));
        assert!(holding(blocks[0]), "byte {at}: {:?}", blocks[0]);
        let samples = of_kind(&report, FaultKind::Samples);
        if expected.is_empty() {
            of_none += 1;
            assert!(samples.is_empty() && blocks[0].message.contains("no sample"), "byte {at}");
            // The ranges only have bytes that belong to no sample.
            for range in &blocks[0].ranges {
                for byte in [range.start, range.end - 1] {
                    assert!(keys_at(&index, byte).is_empty(), "byte {at}: {range:?}");
                }
            }
        } else {
            of_samples += 1;
            assert_eq!((samples.len(), &samples[0].keys), (1, &expected), "byte {at}");
            assert!(holding(samples[0]), "byte {at}");
        }
        fs::write(&path, &good).unwrap();
    }
    assert!(of_samples > 15 && of_none > 15, "{of_samples} {of_none}");
}

#[test]
fn the_fields_that_were_hit_are_named() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[1000, 900, 800]);
    let (path, _) = first(dir.path());
    let index = first_index(dir.path());
    // The images of samples 0 and 1 are bad, and the labels of 1 and 2.
    for (field, rows) in [(0, [0, 1]), (1, [1, 2])] {
        for row in rows {
            let (start, len) = index.range(Row(row), FieldIdx(field)).unwrap();
            flip(&path, usize::try_from(start).unwrap() + len - 1);
        }
    }
    for mode in [Mode::Full, Mode::Sample { fraction: 1.0, seed: 0 }] {
        let report = run(dir.path(), mode, None).unwrap();
        let samples = of_kind(&report, FaultKind::Samples);
        for (fault, field, rows) in [(samples[0], "image", [0, 1]), (samples[1], "label", [1, 2])] {
            let keys = rows.map(|row| index.key(Row(row)).unwrap().to_owned());
            assert_eq!((fault.field.as_deref(), &fault.keys[..]), (Some(field), &keys[..]));
            assert!(fault.message.contains(&format!("in field `{field}`")), "{fault:?}");
        }
        assert_eq!(samples.len(), 2);
    }
}

#[test]
fn no_message_repeats_the_path_that_the_fault_names() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[100, 200]);
    let bundle = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
    let entries = bundle.manifest().shards.clone();
    flip(&bundle.path_of(&entries[0].file), 8);
    let huge_header = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[..8].fill(0xff);
        fs::write(path, bytes).unwrap();
    };
    huge_header(&bundle.path_of(&entries[1].file));
    fs::remove_file(bundle.path_of(&entries[2].file)).unwrap();
    fs::create_dir(bundle.path_of(&entries[2].file)).unwrap();
    let report = full(dir.path());
    assert_eq!(of_kind(&report, FaultKind::Structure).len(), 2);
    assert_eq!(of_kind(&report, FaultKind::Unreadable).len(), 1);
    fs::write(dir.path().join("manifest.json"), b"{\"format\":1}").unwrap();
    let faults = [report.faults, full(dir.path()).faults].concat();
    assert!(faults.iter().any(|f| f.kind == FaultKind::Manifest));
    let shown = dir.path().to_str().unwrap();
    assert!(faults.iter().all(|f| !f.message.contains(shown)), "{faults:?}");
}

#[test]
fn harm_in_and_outside_samples_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[3_000_000]);
    let (path, _) = first(dir.path());
    // One byte is in the padding of the header's block, and one in the third block.
    flip(&path, 4000);
    flip(&path, 2_500_000);
    let sample = full(dir.path());
    // One value is in both blocks, so both are explained by it.
    assert_eq!(of_kind(&sample, FaultKind::Blocks).len(), 1);

    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[1_500_000, 1_500_000]);
    let (path, _) = first(dir.path());
    flip(&path, 4000);
    flip(&path, 2_500_000);
    let report = full(dir.path());
    let blocks = of_kind(&report, FaultKind::Blocks);
    assert_eq!(blocks.len(), 2, "{report:?}");
    assert!(!blocks[0].message.contains("no sample") && blocks[1].message.contains("no sample"));
    assert_eq!((blocks[1].ranges[0].start, blocks[1].ranges[0].end), (0, 4096));
    let samples = of_kind(&report, FaultKind::Samples);
    assert_eq!(samples[0].keys, ["train/c1/0-1.jpg"]);
}

#[test]
fn a_cut_shard_names_the_samples_past_its_end() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[1_000_000; 4]);
    let (path, _) = first(dir.path());
    // Sample 2 is cut, sample 3 is missing, and so are all labels, which are behind them.
    let good = fs::read(&path).unwrap();
    fs::write(&path, &good[..4096 + 2_500_000]).unwrap();
    let report = full(dir.path());
    let length = of_kind(&report, FaultKind::Length)[0];
    assert_eq!(length.found.as_deref(), Some("2504096"));
    assert_eq!(length.expected, Some(good.len().to_string()));
    let samples = of_kind(&report, FaultKind::Samples);
    let counts: Vec<_> = samples.iter().map(|f| (f.field.as_deref(), f.n_keys)).collect();
    assert_eq!(counts, [(Some("image"), 2), (Some("label"), 4)], "{report:?}");
    let ranges = &samples[0].ranges;
    assert!(ranges.iter().any(|r| r.start == 4096 + 2_000_000), "sample 2: {ranges:?}");
}

#[test]
fn a_missing_shard_names_its_samples() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[10; 5]);
    let (path, _) = first(dir.path());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(kinds(&full(dir.path())), [FaultKind::Unreadable]);
    fs::remove_dir(&path).unwrap();
    let report = run(dir.path(), Mode::Quick, None).unwrap();
    assert_eq!(kinds(&report), [FaultKind::Missing]);
    let fault = &report.faults[0];
    assert_eq!((fault.keys.len(), fault.n_keys), (3, 5));
}

#[test]
fn a_label_outside_the_classes_is_found_in_every_mode() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[10, 10]);
    let mut manifest = Bundle::open(dir.path(), OpenOptions::default()).unwrap().manifest().clone();
    manifest.classes.truncate(1);
    write_manifest(dir.path(), &manifest).unwrap();
    for mode in [Mode::Quick, Mode::Full, Mode::Sample { fraction: 1.0, seed: 0 }] {
        let report = run(dir.path(), mode, None).unwrap();
        assert_eq!(kinds(&report), [FaultKind::Index; 3]);
        assert!(
            report.faults[0]
                .message
                .contains("`train/c1/0-1.jpg` has label 1, but the bundle has only 1 classes")
        );
        assert!(report.faults[0].advice.contains("pack again"), "{:?}", report.faults[0]);
    }
}

#[test]
fn at_least_one_sample_is_read_and_the_seed_says_which() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[40; 4]);
    let tiny = |seed| run(dir.path(), Mode::Sample { fraction: 1e-12, seed }, None).unwrap();
    for seed in 0..4 {
        let report = tiny(seed);
        assert!(report.sound && report.samples_checked == 1, "{report:?}");
    }
    let (path, _) = first(dir.path());
    flip(&path, 4096);
    let found = (0..64).filter(|seed| !tiny(*seed).sound).count();
    // One of twelve samples is bad; the same seed gives the same result.
    assert!((1..32).contains(&found), "{found}");
    assert_eq!(found, (0..64).filter(|seed| !tiny(*seed).sound).count());
    let all = run(dir.path(), Mode::Sample { fraction: 1.0, seed: 9 }, None).unwrap();
    assert_eq!((all.samples_checked, all.faults[0].n_keys), (12, 1));
}

#[test]
fn any_number_of_jobs_gives_the_same_report() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[300; 9]);
    let bundle = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
    for shard in &bundle.manifest().shards {
        flip(&bundle.path_of(&shard.file), 4200);
    }
    let with = |jobs| {
        let options = VerifyOptions { jobs, ..VerifyOptions::default() };
        verify(dir.path(), &options, Watch::silent(&AtomicBool::new(false))).unwrap().faults
    };
    let one = with(1);
    assert_eq!(one.len(), 6);
    for jobs in [0, 2, usize::MAX] {
        assert_eq!(with(jobs), one);
    }
}

#[test]
fn progress_ends_at_the_total_and_a_stop_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[1_200_000, 5]);
    let seen = Mutex::new((0, 0));
    let progress = |done: u64, total: u64| {
        let mut seen = seen.lock().unwrap();
        *seen = (seen.0.max(done), total);
    };
    let options = VerifyOptions { jobs: 2, ..VerifyOptions::default() };
    let report = verify(
        dir.path(),
        &options,
        Watch { progress: &progress, ..Watch::silent(&AtomicBool::new(false)) },
    )
    .unwrap();
    assert_eq!(*seen.lock().unwrap(), (report.bytes, report.bytes));

    let cancel = AtomicBool::new(false);
    let stop = |_: u64, _: u64| cancel.store(true, Ordering::Relaxed);
    let stopped = verify(dir.path(), &options, Watch { progress: &stop, ..Watch::silent(&cancel) });
    assert!(matches!(stopped, Err(Error::Cancelled { bytes, total }) if bytes < total));
}
