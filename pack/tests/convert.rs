//! A converted bundle contains the same samples.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{big_images, files, images, jpeg, png, put, run, small_shards};
use gular_bundle::{Bundle, BundlePath, Envelope, FieldIdx, OpenOptions, write_manifest};
use gular_pack::{
    ConvertOptions, ConvertReport, Error, ExportOptions, OnBadInput, PackOrder, PayloadOptions,
    PlanOptions, Progress, ReencodeOptions, RunError, ShardError, Target, convert, export,
};

fn to(source: &Path, out: &Path, target: Target, jobs: usize) -> Result<ConvertReport, Error> {
    let options = ConvertOptions { target, jobs, dry_run: false };
    convert(source, out, &options, &|_| {}, &AtomicBool::new(false))
}

/// Returns the files of a `.tar.zst`.
fn unpacked(file: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let tar = zstd::decode_all(fs::read(file).unwrap().as_slice()).unwrap();
    let out = tempfile::tempdir().unwrap();
    tar::Archive::new(tar.as_slice()).unpack(out.path()).unwrap();
    files(out.path())
}

#[test]
fn there_and_back_gives_the_same_files() {
    let dir = tempfile::tempdir().unwrap();
    let (source, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source);
    let packed = run(&source, &bundle, PlanOptions::default(), 2).unwrap();
    for envelope in Envelope::ALL {
        let (there, back) = (dir.path().join(envelope.name()), dir.path().join("back"));
        let converted = to(&bundle, &there, Target::Bundle(envelope), 2).unwrap();
        // The result must be the same as when packing into that envelope.
        let at_once = dir.path().join("at-once");
        let plan = PlanOptions { envelope, ..PlanOptions::default() };
        run(&source, &at_once, plan, 1).unwrap();
        assert!(files(&there) == files(&at_once), "{envelope}");
        let report = to(&there, &back, Target::Bundle(Envelope::Shards), 1).unwrap();
        assert_eq!(report.digest, packed.digest);
        assert_eq!(report.source, converted.digest.unwrap());
        assert!(files(&back) == files(&bundle), "{envelope}");
        fs::remove_dir_all(&back).unwrap();
        fs::remove_dir_all(&at_once).unwrap();
    }
}

#[test]
fn a_directory_holds_the_images_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let (source, bundle, out) =
        (dir.path().join("images"), dir.path().join("bundle"), dir.path().join("out"));
    images(&source);
    run(&source, &bundle, PlanOptions::default(), 2).unwrap();
    to(&bundle, &out, Target::Directory, 2).unwrap();
    let mut found = files(&out);
    let mut lists = Vec::new();
    found.retain(|(path, bytes)| {
        let list = path.extension().is_some_and(|e| e == "tsv");
        if list {
            lists.push(String::from_utf8(bytes.clone()).unwrap());
        }
        !list && path != Path::new("classes.txt")
    });
    // Keys begin with the split here: its folder is not there twice, and packed again
    // the files are the same bundle.
    assert!(found == files(&source));
    let again = dir.path().join("again");
    let first = Bundle::open(&bundle, OpenOptions::default()).unwrap();
    let packed = run(&out, &again, PlanOptions::default(), 2).unwrap();
    assert_eq!(packed.digest, Some(first.digest()));
    let lines: usize = lists.iter().map(|l| l.lines().count()).sum();
    assert_eq!(lines, 60 + 2, "a line a sample and one head a split");
    assert!(lists[0].starts_with("key\timage\tlabel\n"), "{}", lists[0]);
    assert_eq!(fs::read_to_string(out.join("classes.txt")).unwrap(), "a-b\ncat\ndog\n");
}

#[test]
fn a_directory_has_a_folder_a_split_where_keys_have_none() {
    let dir = tempfile::tempdir().unwrap();
    let (source, bundle, out) =
        (dir.path().join("images"), dir.path().join("bundle"), dir.path().join("out"));
    // A class may have the name of a split.
    for name in ["train/a.png", "train/b.png", "zebra/train/c.png"] {
        put(&source, name, &png(1));
    }
    let plan = PlanOptions {
        images: vec!["{label}/{key}.{ext}".parse().unwrap()],
        ..PlanOptions::default()
    };
    run(&source, &bundle, plan, 1).unwrap();
    to(&bundle, &out, Target::Directory, 1).unwrap();
    for name in ["train/a.png", "train/b.png", "zebra/train/c.png"] {
        assert!(out.join("train").join(name).is_file(), "{name}");
    }
}

#[test]
fn files_of_different_shards_have_different_names() {
    let dir = tempfile::tempdir().unwrap();
    let (source, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
    big_images(&source);
    // Recoded, `c0/0.png` would be a file `c0/0.png.jpg`, which is another one's key; and
    // its `~2` is taken, too. `c1/1.png.jpg` would be a folder.
    for i in (0..24).step_by(3) {
        put(&source, &format!("c0/{i}.png.jpg"), &jpeg(i));
        put(&source, &format!("c0/{i}.png~2.jpg"), &jpeg(i + 1));
    }
    put(&source, "c1/1.png.jpg/x.jpg", &jpeg(90));
    let payload = PayloadOptions::Reencoded(ReencodeOptions { max_side: None, quality: 90 });
    let plan = PlanOptions { payload, order: PackOrder::Sorted, ..small_shards() };
    run(&source, &bundle, plan, 2).unwrap();
    let (whole, out) = (dir.path().join("whole"), dir.path().join("out"));
    to(&bundle, &whole, Target::Directory, 2).unwrap();
    let (cancel, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = |p: Progress| {
        if matches!(p, Progress::Packed(1, _)) && seen.fetch_add(1, Ordering::Relaxed) == 30 {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let options = ConvertOptions { target: Target::Directory, jobs: 1, dry_run: false };
    convert(&bundle, &out, &options, &progress, &cancel).unwrap_err();
    let report = to(&bundle, &out, Target::Directory, 1).unwrap();
    assert!(report.resumed_shards > 0);
    assert!(files(&out) == files(&whole));

    let bundle = Bundle::open(&bundle, OpenOptions::default()).unwrap();
    let split = gular_bundle::Split::Train;
    assert!(bundle.manifest().shards.len() > 2);
    let list = fs::read_to_string(out.join("train/samples.tsv")).unwrap();
    assert_eq!(list.lines().count() as u64, bundle.n_samples(split) + 1);
    for (i, line) in list.lines().skip(1).enumerate() {
        let [key, file, _] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let sample = bundle.locate(split, i as u64).unwrap();
        let mut value = Vec::new();
        bundle.read(sample, FieldIdx(0), &mut value).unwrap();
        assert!(fs::read(out.join("train").join(file)).unwrap() == value, "{line}");
        assert_eq!(key, bundle.key(sample).unwrap().to_string());
        match key {
            "c0/3.png" => assert_eq!(file, "c0/3.png~3.jpg"),
            "c1/1.png" => assert_eq!(file, "c1/1.png~2.jpg"),
            "c1/4.png" => assert_eq!(file, "c1/4.png.jpg"),
            _ => {}
        }
    }
}

#[test]
fn a_changed_sample_ends_the_run_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (source, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source);
    run(&source, &bundle, PlanOptions::default(), 2).unwrap();
    for (path, mut bytes) in files(&bundle.join("data")) {
        if !path.to_str().unwrap().contains("index") {
            bytes[4100] ^= 1;
            fs::write(bundle.join("data").join(path), bytes).unwrap();
        }
    }
    let out = dir.path().join("out");
    for target in [Target::Bundle(Envelope::Tar), Target::Bundle(Envelope::Shards)] {
        let error = to(&bundle, &out, target, 1).unwrap_err();
        assert!(
            matches!(error, Error::Run(RunError::Bundle(gular_bundle::Error::SampleDigest(_)))),
            "{error}"
        );
        assert!(!out.exists());
    }
    let file = dir.path().join("b.tar.zst");
    let options = ExportOptions { level: 1, jobs: 1, dry_run: false };
    export(&bundle, &file, &options, &|_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(!file.exists());
}

#[test]
fn an_interrupted_conversion_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (source, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
    big_images(&source);
    run(&source, &bundle, small_shards(), 2).unwrap();
    for target in [Target::Bundle(Envelope::Tar), Target::Directory] {
        let (whole, out) = (dir.path().join("whole"), dir.path().join("out"));
        to(&bundle, &whole, target, 1).unwrap();
        let (cancel, seen) = (AtomicBool::new(false), AtomicU64::new(0));
        let progress = |p: Progress| {
            if matches!(p, Progress::Packed(1, _)) && seen.fetch_add(1, Ordering::Relaxed) == 15 {
                cancel.store(true, Ordering::Relaxed);
            }
        };
        let options = ConvertOptions { target, jobs: 1, dry_run: false };
        let stopped = convert(&bundle, &out, &options, &progress, &cancel).unwrap_err();
        assert!(matches!(stopped, Error::Shard(ShardError::Unfinished { .. })), "{stopped}");
        // Another conversion into the same folder is refused.
        let other = Target::Bundle(Envelope::Shards);
        let other = to(&bundle, &out, other, 1).unwrap_err();
        assert!(matches!(other, Error::Shard(ShardError::OtherPlan { .. })), "{other}");
        let report = to(&bundle, &out, target, 2).unwrap();
        assert!(report.resumed_shards > 0);
        assert!(files(&out) == files(&whole));
        fs::remove_dir_all(&whole).unwrap();
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn an_export_is_the_folder_and_the_same_with_any_threads() {
    let dir = tempfile::tempdir().unwrap();
    let (source, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
    big_images(&source);
    run(&source, &bundle, small_shards(), 2).unwrap();
    let mut written = Vec::new();
    for jobs in [1, 3] {
        let file = dir.path().join(format!("{jobs}.tar.zst"));
        let options = ExportOptions { level: 1, jobs, dry_run: false };
        export(&bundle, &file, &options, &|_| {}, &AtomicBool::new(false)).unwrap();
        written.push(fs::read(&file).unwrap());
    }
    assert!(written[0] == written[1]);
    assert!(unpacked(&dir.path().join("1.tar.zst")) == files(&bundle));
}

#[test]
fn an_export_has_shards_of_long_names() {
    let dir = tempfile::tempdir().unwrap();
    let (source, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source);
    run(&source, &bundle, PlanOptions::default(), 1).unwrap();
    let mut manifest = Bundle::open(&bundle, OpenOptions::default()).unwrap().manifest().clone();
    for (shard, len) in manifest.shards.iter_mut().zip([95, 96]) {
        let name = BundlePath::parse(&"n".repeat(len)).unwrap();
        let data = bundle.join("data");
        fs::rename(data.join(shard.file.name.as_str()), data.join(name.as_str())).unwrap();
        shard.file.name = name;
    }
    fs::remove_file(bundle.join("manifest.json")).unwrap();
    write_manifest(&bundle, &manifest).unwrap();
    let file = dir.path().join("b.tar.zst");
    let options = ExportOptions { level: 1, jobs: 1, dry_run: false };
    export(&bundle, &file, &options, &|_| {}, &AtomicBool::new(false)).unwrap();
    assert!(unpacked(&file) == files(&bundle));
}

#[test]
fn an_export_counts_all_files_and_takes_no_other_index() {
    let dir = tempfile::tempdir().unwrap();
    let (source, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source);
    put(&source, "train/cat/bad.jpg", b"no image");
    let plan = PlanOptions { on_error: OnBadInput::Skip, ..PlanOptions::default() };
    run(&source, &bundle, plan, 1).unwrap();
    let file = dir.path().join("b.tar.zst");
    let options = ExportOptions { level: 1, jobs: 1, dry_run: false };
    let run = || export(&bundle, &file, &options, &|_| {}, &AtomicBool::new(false));
    let report = run().unwrap();
    let found = unpacked(&file);
    assert!(found.iter().any(|(path, _)| path == Path::new("skipped.jsonl")));
    assert_eq!(report.files, found.len() as u64);
    assert_eq!(report.bytes, found.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>());

    fs::remove_file(&file).unwrap();
    let opened = Bundle::open(&bundle, OpenOptions::default()).unwrap();
    let index = opened.path_of(&opened.manifest().shards[0].index);
    // However long: its length is compared before it is read.
    let longer = fs::metadata(&index).unwrap().len() + 1;
    fs::File::options().write(true).open(&index).unwrap().set_len(longer).unwrap();
    let error = run().unwrap_err();
    assert!(
        matches!(error, Error::Run(RunError::Bundle(gular_bundle::Error::Length { .. }))),
        "{error}"
    );
    assert!(!file.exists());
}
