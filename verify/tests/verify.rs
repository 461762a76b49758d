//! No change is accepted, and the report says what was changed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{first, flip, full, kinds, make, run};
use gular_bundle::{Bundle, DATA_DIR, Digest, OpenOptions, Split};
use gular_files::Watch;
use gular_verify::{Error, FaultKind, Mode, VerifyOptions};

#[test]
fn a_sound_bundle_is_sound_in_every_mode() {
    let dir = tempfile::tempdir().unwrap();
    let digest = make(dir.path(), &[100, 0, 1_500_000, 700_000]);
    for mode in [Mode::Quick, Mode::Full, Mode::Sample { fraction: 0.5, seed: 1 }] {
        let report = run(dir.path(), mode, Some(digest)).unwrap();
        assert!(report.sound && report.faults.is_empty() && report.notes.is_empty(), "{report:?}");
        assert_eq!((report.shards, report.samples), (3, 12));
    }
    let report = full(dir.path());
    assert_eq!(report.samples_checked, 12);
    assert!(report.bytes_read > report.bytes);
}

#[test]
fn any_flipped_or_cut_byte_of_any_file_is_found() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[60, 90]);
    let entries = fs::read_dir(dir.path().join(DATA_DIR)).unwrap();
    let mut names: Vec<PathBuf> =
        entries.map(|e| Path::new(DATA_DIR).join(e.unwrap().file_name())).collect();
    names.push("manifest.json".into());
    // Each change is made in a separate bundle, all at the same time.
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| any_flipped_or_cut_byte_is_found(name));
        }
    });
}

fn any_flipped_or_cut_byte_is_found(name: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let digest = make(dir.path(), &[60, 90]);
    let unsound = |what: &str| match run(dir.path(), Mode::Full, Some(digest)) {
        Ok(report) => assert!(!report.sound && !report.faults.is_empty(), "{what}"),
        Err(e) => assert!(matches!(e, Error::TooNew(_)), "{what}: {e}"),
    };
    let file = dir.path().join(name);
    let good = fs::read(&file).unwrap();
    // Every byte at the beginning of files is changed, every few bytes after that, and fewer bytes
    // in the padding of headers.
    let stride = |at| match at {
        0..300 => 1,
        700..4000 => 41,
        _ => 5,
    };
    for at in (0..good.len()).filter(|at| at.is_multiple_of(stride(*at))) {
        flip(&file, at);
        unsound(&format!("{} byte {at}", file.display()));
        flip(&file, at);
    }
    for len in [0, 1, good.len() / 2, good.len() - 1] {
        fs::write(&file, &good[..len]).unwrap();
        unsound(&format!("{} cut at {len}", file.display()));
    }
    let longer = [&good[..], b"x"].concat();
    fs::write(&file, &longer).unwrap();
    unsound(&format!("{} longer", file.display()));
    fs::write(&file, &good).unwrap();
    assert!(run(dir.path(), Mode::Full, Some(digest)).unwrap().sound);
}

#[test]
fn the_samples_hit_are_named_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[1000, 900_000, 900_000, 2_000_000, 50]);
    let (shard, _) = first(dir.path());
    // Samples start at 4096, one behind the other.
    let start_of = |i: usize| 4096 + [0, 1000, 901_000, 1_801_000, 3_801_000][i];
    for (hit, expected) in [(0, vec![0]), (1, vec![1]), (3, vec![3]), (4, vec![4])] {
        let good = fs::read(&shard).unwrap();
        flip(&shard, start_of(hit) + 7);
        let report = full(dir.path());
        assert_eq!(kinds(&report), [FaultKind::Blocks, FaultKind::Samples]);
        let samples = &report.faults[1];
        let keys: Vec<String> =
            expected.iter().map(|i| format!("train/c{}/0-{i}.jpg", i % 2)).collect();
        assert_eq!((samples.keys.clone(), samples.n_keys), (keys, 1));
        let range = samples.ranges[0];
        assert!(range.start as usize == start_of(hit) && samples.ranges.len() == 1);
        fs::write(&shard, good).unwrap();
    }
    // The gap between the last image and its offsets belongs to no sample.
    let good = fs::read(&shard).unwrap();
    flip(&shard, start_of(4) + 50 + 1);
    let report = full(dir.path());
    assert_eq!(kinds(&report), [FaultKind::Blocks]);
    assert!(report.faults[0].message.contains("no sample"), "{report:?}");
    fs::write(&shard, good).unwrap();
}

#[test]
fn keys_are_listed_up_to_a_bound_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[100; 20]);
    let (shard, _) = first(dir.path());
    let mut bytes = fs::read(&shard).unwrap();
    bytes[4096..4096 + 2000].fill(0xee);
    fs::write(&shard, bytes).unwrap();
    let report = full(dir.path());
    let samples = report.faults.iter().find(|f| f.kind == FaultKind::Samples).unwrap();
    assert_eq!((samples.keys.len(), samples.n_keys), (3, 20));
}

#[test]
fn all_faults_come_in_one_report() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[100, 200]);
    let bundle = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
    let entries = bundle.manifest().shards.clone();
    flip(&bundle.path_of(&entries[0].file), 4100);
    fs::remove_file(bundle.path_of(&entries[1].file)).unwrap();
    let index = bundle.path_of(&entries[2].index);
    let bytes = fs::read(&index).unwrap();
    fs::write(&index, &bytes[..bytes.len() - 3]).unwrap();
    fs::write(dir.path().join("data/.gular-tmp-abc"), b"").unwrap();
    fs::write(dir.path().join("data/notes.txt"), b"").unwrap();
    let report = full(dir.path());
    assert_eq!(
        kinds(&report),
        [FaultKind::Blocks, FaultKind::Samples, FaultKind::Missing, FaultKind::Length]
    );
    assert_eq!(report.notes.len(), 2);
}

#[test]
fn what_is_unusual_is_noted_and_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[100]);
    fs::write(dir.path().join("skipped.jsonl"), "{}\n{}\n{}").unwrap();
    fs::write(dir.path().join(".gular-tmp-m"), b"").unwrap();
    for i in 0..25 {
        fs::write(dir.path().join(format!("data/extra-{i:02}")), b"").unwrap();
    }
    let report = full(dir.path());
    assert!(report.sound);
    assert_eq!(report.notes.len(), 1 + 20 + 1 + 1, "{:?}", report.notes);
    assert!(report.notes[0].starts_with("`.gular-tmp-m` is a leftover"));
    assert_eq!(report.notes[21], "and 5 more files outside the bundle");
    assert!(report.notes[22].contains("lists 3 inputs"));
}

#[test]
fn a_lost_index_of_a_sound_shard_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[100, 200]);
    let (shard, index) = first(dir.path());
    flip(&index, 4200);
    let report = full(dir.path());
    assert_eq!(kinds(&report), [FaultKind::Index]);
    assert!(report.faults[0].advice.contains("shard is intact"), "{report:?}");
    flip(&shard, 4100);
    let report = full(dir.path());
    assert_eq!(kinds(&report), [FaultKind::Index, FaultKind::Blocks]);
    assert!(!report.faults[0].advice.contains("shard is intact"));
}

#[test]
fn quick_reads_no_sample_and_sampling_finds_a_ruined_shard() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[300; 50]);
    let (shard, _) = first(dir.path());
    let mut bytes = fs::read(&shard).unwrap();
    bytes[4096..4096 + 50 * 300].fill(1);
    fs::write(&shard, bytes).unwrap();
    assert!(run(dir.path(), Mode::Quick, None).unwrap().sound);
    let report = run(dir.path(), Mode::Sample { fraction: 0.2, seed: 3 }, None).unwrap();
    assert_eq!(kinds(&report), [FaultKind::Samples]);
    assert!((5..100).contains(&report.samples_checked), "{}", report.samples_checked);
}

#[test]
fn swapped_shards_are_found() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[100, 200]);
    let bundle = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
    let paths: Vec<PathBuf> =
        bundle.manifest().shards[..2].iter().map(|s| bundle.path_of(&s.file)).collect();
    let (a, b) = (fs::read(&paths[0]).unwrap(), fs::read(&paths[1]).unwrap());
    fs::write(&paths[0], b).unwrap();
    fs::write(&paths[1], a).unwrap();
    assert!(run(dir.path(), Mode::Quick, None).unwrap().sound, "same length and header");
    assert_eq!(full(dir.path()).faults.iter().filter(|f| f.kind == FaultKind::Blocks).count(), 2);
}

#[test]
fn what_is_no_bundle_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(run(dir.path(), Mode::Full, None), Err(Error::NoManifest { .. })));
    assert!(matches!(run(&dir.path().join("none"), Mode::Full, None), Err(Error::Io(_))));
    fs::create_dir(dir.path().join(".gular-pack")).unwrap();
    assert!(matches!(run(dir.path(), Mode::Full, None), Err(Error::Interrupted { .. })));
    fs::write(dir.path().join("manifest.json"), b"{\"format\":\"gular-bundle\",\"version\":3}")
        .unwrap();
    assert!(matches!(run(dir.path(), Mode::Full, None), Err(Error::TooNew(_))));
    fs::write(dir.path().join("manifest.json"), b"{}").unwrap();
    assert_eq!(kinds(&full(dir.path())), [FaultKind::Manifest]);
}

#[test]
fn another_digest_than_wanted_is_a_fault() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[100]);
    let report = run(dir.path(), Mode::Quick, Some(Digest::of(b"other"))).unwrap();
    assert_eq!(kinds(&report), [FaultKind::Manifest]);
}

#[test]
fn absurd_sizes_in_a_manifest_are_faults() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[100]);
    let path = dir.path().join("manifest.json");
    let entry =
        Bundle::open(dir.path(), OpenOptions::default()).unwrap().manifest().shards[0].clone();
    let text = fs::read_to_string(&path).unwrap();
    let of_index = format!("\"bytes\":{}", entry.index.bytes);
    let absurd = text.replace(&of_index, &format!("\"bytes\":{}", u64::MAX));
    assert_ne!(absurd, text);
    fs::write(&path, absurd).unwrap();
    for mode in [Mode::Quick, Mode::Full, Mode::Sample { fraction: 0.5, seed: 1 }] {
        let report = run(dir.path(), mode, None).unwrap();
        assert!(!report.sound && !report.faults.is_empty());
    }
    // The file is longer than a manifest may be; it is sparse, so that the disk is not filled.
    let limit = gular_bundle::MAX_MANIFEST_BYTES;
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(limit + 1).unwrap();
    assert_eq!(kinds(&full(dir.path())), [FaultKind::Manifest]);
}

#[test]
fn a_split_that_is_not_there_is_not_sound() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[100]);
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let options = VerifyOptions { splits: vec![Split::Test], ..VerifyOptions::default() };
    let error = gular_verify::verify(dir.path(), &options, Watch::silent(&cancel)).unwrap_err();
    assert_eq!(error.to_string(), "the bundle has no split `test`; it has `train`, `val`");
}
