//! Files of other tools become bundles in place.

use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{images, jpeg, png, run};
use gular_bundle::{Bundle, Envelope, FieldIdx, OpenOptions, SampleId, ShardIdx, Split};
use gular_pack::{
    AdoptOptions, AdoptReport, AdoptSplit, Error, ExportOptions, OnUnknownLabel, PlanOptions,
    Progress, RunError, ShardError, adopt, export,
};

fn take(paths: &[PathBuf], out: &Path, options: &AdoptOptions) -> Result<AdoptReport, Error> {
    adopt(paths, out, options, &|_| {}, &Arc::new(AtomicBool::new(false)))
}

/// A tar of these members, by the library that everybody uses.
fn tar(path: &Path, members: &[(&str, Vec<u8>)]) {
    let mut builder = tar::Builder::new(fs::File::create(path).unwrap());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    builder.finish().unwrap();
}

/// Returns every value of field `field`, with its key.
fn values(dir: &Path, field: usize) -> Vec<(String, Vec<u8>)> {
    let bundle = Bundle::open(dir, OpenOptions::default()).unwrap();
    let mut found = Vec::new();
    for shard in ShardIdx::first(bundle.manifest().shards.len()) {
        for row in bundle.shard(shard).unwrap().index().unwrap().rows() {
            let (id, mut out) = (SampleId { shard, row }, Vec::new());
            bundle.read(id, FieldIdx(field), &mut out).unwrap();
            found.push((bundle.key(id).unwrap().to_string(), out));
        }
    }
    found
}

fn label(n: i64) -> Vec<u8> {
    n.to_le_bytes().to_vec()
}

#[test]
fn a_webdataset_is_read_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("birds-val-0.tar");
    let long = format!("{}/x", "long".repeat(60));
    let named = |n: &str| format!("{long}{n}");
    let (first, second) = (named(".seg.png"), named(".jpg"));
    let members = [
        ("./README", b"no sample".to_vec()),
        (".hidden.jpg", jpeg(9)),
        ("a.b/1.jpg", jpeg(1)),
        ("a.b/1.cls", b"4\n".to_vec()),
        ("a.b/1.json", b"{}".to_vec()),
        ("a.b/2.png", png(2)),
        (first.as_str(), png(3)),
        (second.as_str(), jpeg(4)),
    ];
    tar(&path, &members);
    let before = fs::read(&path).unwrap();
    let out = dir.path().join("bundle");
    let report = take(std::slice::from_ref(&path), &out, &AdoptOptions::default()).unwrap();
    assert_eq!(report.splits[&Split::Val], 3);
    assert_eq!(fs::read(&path).unwrap(), before);
    let keys = ["a.b/1.jpg", "a.b/2.png", second.as_str()].map(str::to_owned);
    let images = [jpeg(1), png(2), jpeg(4)];
    assert_eq!(values(&out, 0), keys.clone().into_iter().zip(images).collect::<Vec<_>>());
    // A sample without a label is of no known class, one without a field has it empty.
    let labels: Vec<Vec<u8>> = values(&out, 1).into_iter().map(|(_, v)| v).collect();
    assert_eq!(labels, [label(4), label(-1), label(-1)]);
    let names: Vec<&String> = report.fields.keys().collect();
    assert_eq!(names, ["image", "json", "label", "seg"]);
    let segments: Vec<Vec<u8>> = values(&out, 3).into_iter().map(|(_, v)| v).collect();
    assert_eq!(segments, [Vec::new(), Vec::new(), png(3)]);
    let manifest = Bundle::open(&out, OpenOptions::default()).unwrap().manifest().clone();
    assert_eq!(manifest.envelope, Envelope::Tar);
    assert_eq!(report.unknown_labels, 2);
    assert_eq!(report.unknown_label_keys, keys[1..]);
    assert!(report.warnings[0].contains("2 samples"), "{:?}", report.warnings);
}

#[test]
fn unknown_labels_are_refused_dropped_or_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("birds.tar");
    let members = [
        ("1.jpg", jpeg(1)),
        ("1.cls", b"1".to_vec()),
        ("2.jpg", jpeg(2)),
        ("3.jpg", jpeg(3)),
        ("3.cls", b"-1".to_vec()),
        ("4.jpg", jpeg(4)),
        ("4.cls", b"0".to_vec()),
    ];
    tar(&path, &members);
    let paths = std::slice::from_ref(&path);
    let adopted = |name: &str, unknown| {
        let options = AdoptOptions { unknown, ..AdoptOptions::default() };
        let out = dir.path().join(name);
        take(paths, &out, &options).map(|report| {
            assert_eq!(report.unknown_labels, 2, "{name}");
            assert_eq!(report.unknown_label_keys, ["2.jpg", "3.jpg"], "{name}");
            assert!(take(paths, &out, &options).unwrap().already_done, "{name}");
            let keys: Vec<String> = values(&out, 0).into_iter().map(|(key, _)| key).collect();
            let labels: Vec<Vec<u8>> = values(&out, 1).into_iter().map(|(_, v)| v).collect();
            assert_eq!(report.splits[&Split::Train], keys.len() as u64, "{name}");
            (keys, labels)
        })
    };
    let all = ["1.jpg", "2.jpg", "3.jpg", "4.jpg"].map(str::to_owned).to_vec();
    let kept = adopted("keep", OnUnknownLabel::Keep).unwrap();
    assert_eq!(kept, (all.clone(), vec![label(1), label(-1), label(-1), label(0)]));
    let dropped = adopted("drop", OnUnknownLabel::Drop).unwrap();
    assert_eq!(dropped, (vec![all[0].clone(), all[3].clone()], vec![label(1), label(0)]));
    let mapped = adopted("class", OnUnknownLabel::Class(2)).unwrap();
    assert_eq!(mapped, (all, vec![label(1), label(2), label(2), label(0)]));
    let error = adopted("refuse", OnUnknownLabel::Refuse).unwrap_err();
    let text = "2 samples have no label or an unknown one: `2.jpg`, `3.jpg`";
    assert_eq!(error.to_string(), text);
    assert!(!dir.path().join("refuse").exists());
    // If there are class names, the class must be one of them.
    let words = dir.path().join("words.tar");
    tar(&words, &[("1.jpg", jpeg(1)), ("1.cls", b"cat".to_vec()), ("2.jpg", jpeg(2))]);
    let options =
        |class| AdoptOptions { unknown: OnUnknownLabel::Class(class), ..Default::default() };
    let paths = std::slice::from_ref(&words);
    let error = take(paths, &dir.path().join("one"), &options(1)).unwrap_err().to_string();
    assert!(error.contains("there are only 1 classes"), "{error}");
    take(paths, &dir.path().join("zero"), &options(0)).unwrap();
}

#[test]
fn labels_in_place_are_counted_and_left_out_too() {
    let dir = tempfile::tempdir().unwrap();
    images(&dir.path().join("images"));
    // HDF5 stores labels as 64-bit numbers.
    let plan = PlanOptions { envelope: Envelope::Hdf5, ..PlanOptions::default() };
    run(&dir.path().join("images"), &dir.path().join("packed"), plan, 1).unwrap();
    let data = fs::read_dir(dir.path().join("packed/data")).unwrap();
    let is_file = |path: &PathBuf| path.extension().is_some_and(|e| e == "h5");
    let file = data.map(|e| e.unwrap().path()).find(is_file).unwrap();
    let whole = take(std::slice::from_ref(&file), &dir.path().join("a"), &AdoptOptions::default());
    let n = whole.unwrap().splits.values().sum::<u64>();
    let labels: Vec<Vec<u8>> =
        values(&dir.path().join("a"), 1).into_iter().map(|(_, v)| v).collect();
    let n_zero = labels.iter().filter(|l| **l == label(0)).count() as u64;
    // The first class becomes none, where its numbers lie.
    let bundle = Bundle::open(&dir.path().join("a"), OpenOptions::default()).unwrap();
    let shard = bundle.shard(ShardIdx(0)).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    for row in shard.index().unwrap().rows().filter(|row| labels[row.0] == label(0)) {
        let (at, len) = shard.range(row, FieldIdx(1)).unwrap().unwrap();
        bytes[at as usize..at as usize + len].fill(0xff);
    }
    let damaged = dir.path().join("unknown.h5");
    fs::write(&damaged, bytes).unwrap();
    for (unknown, left) in [(OnUnknownLabel::Keep, n), (OnUnknownLabel::Drop, n - n_zero)] {
        let out = dir.path().join(format!("{unknown:?}"));
        let options = AdoptOptions { unknown, ..AdoptOptions::default() };
        let report = take(std::slice::from_ref(&damaged), &out, &options).unwrap();
        assert_eq!(report.unknown_labels, n_zero);
        assert_eq!(report.splits.values().sum::<u64>(), left);
        assert_eq!(values(&out, 1).len() as u64, left);
    }
}

#[test]
fn an_adopted_bundle_is_found_done_until_its_files_change() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("a.tar"), dir.path().join("bundle"));
    tar(&path, &[("1.jpg", jpeg(1)), ("1.cls", b"1".to_vec()), ("2.jpg", jpeg(2))]);
    let paths = std::slice::from_ref(&path);
    let first = take(paths, &out, &AdoptOptions::default()).unwrap();
    let again = take(paths, &out, &AdoptOptions::default()).unwrap();
    assert!(!first.already_done && again.already_done);
    assert_eq!(again.digest, first.digest);
    let refused = |options: &AdoptOptions| {
        let error = take(paths, &out, options).unwrap_err();
        assert!(matches!(error, Error::Shard(ShardError::AlreadyBundle { .. })), "{error}");
    };
    refused(&AdoptOptions { key: Some(None), ..AdoptOptions::default() });
    refused(&AdoptOptions { split: AdoptSplit::All(Split::Val), ..AdoptOptions::default() });
    refused(&AdoptOptions { unknown: OnUnknownLabel::Class(0), ..AdoptOptions::default() });
    let later = std::time::SystemTime::now() + Duration::from_secs(5);
    fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    refused(&AdoptOptions::default());
}

#[test]
fn what_no_sample_can_be_made_of_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("a.tar"), dir.path().join("bundle"));
    let refused = |members: &[(&str, Vec<u8>)], expected: &str| {
        tar(&path, members);
        let paths = std::slice::from_ref(&path);
        let error = take(paths, &out, &AdoptOptions::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!out.exists(), "{expected}");
    };
    refused(
        &[("a.jpg", jpeg(1)), ("b.jpg", jpeg(2)), ("a.cls", b"1".to_vec())],
        "are not next to each other",
    );
    refused(&[("a.jpg", jpeg(1)), ("a.jpg", jpeg(2))], "two files that end in `.jpg`");
    refused(&[("a.jpg", jpeg(1)), ("b.cls", b"1".to_vec())], "sample `b.cls`");
    refused(&[("README", b"x".to_vec())], "has no samples");
    refused(&[("a.jpg.gz", jpeg(1))], "gzip");
    fs::write(&path, [0x1f, 0x8b, 8, 0]).unwrap();
    let error = take(&[path], &out, &AdoptOptions::default()).unwrap_err().to_string();
    assert!(error.contains("compressed with gzip"), "{error}");
}

#[test]
fn several_images_a_sample_need_one_to_be_named() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("a.tar"), dir.path().join("bundle"));
    tar(&path, &[("1.left.jpg", jpeg(1)), ("1.right.jpg", jpeg(2)), ("1.cls", b"cat".to_vec())]);
    let paths = std::slice::from_ref(&path);
    let error = take(paths, &out, &AdoptOptions::default()).unwrap_err().to_string();
    assert!(
        error.contains("it is not clear which column holds the images: there are `label`"),
        "{error}"
    );
    let options = AdoptOptions { image: Some("right".into()), ..AdoptOptions::default() };
    let report = take(paths, &out, &options).unwrap();
    assert_eq!((report.fields["image"].as_str(), report.classes), ("right", 1));
    assert_eq!(values(&out, 0)[0].1, jpeg(2));
    assert_eq!(values(&out, 1)[0].1, label(0), "labels in words are numbered");
    assert_eq!(values(&out, 2)[0].1, jpeg(1));
}

#[test]
fn folders_are_splits_and_classes_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("a.tar"), dir.path().join("bundle"));
    let keys = ["train/cat/1.jpg", "val/dog/2.jpg", "train/dog/3.jpg"];
    let members: Vec<_> = keys.iter().zip(1..).map(|(key, i)| (*key, jpeg(i))).collect();
    tar(&path, &members);
    let options = AdoptOptions {
        label: Some("folder".into()),
        split: AdoptSplit::Folder,
        ..AdoptOptions::default()
    };
    let report = take(&[path], &out, &options).unwrap();
    assert_eq!(report.splits, [(Split::Train, 2), (Split::Val, 1)].into());
    let found: Vec<String> = values(&out, 0).into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, [keys[0], keys[2], keys[1]]);
    let labels: Vec<Vec<u8>> = values(&out, 1).into_iter().map(|(_, v)| v).collect();
    assert_eq!(labels, [label(0), label(1), label(1)]);
}

/// Writes one file with samples of two splits, as `train/…` and `val/…`.
fn of_two_splits(dir: &Path, envelope: Envelope) -> PathBuf {
    let (source, packed) = (dir.join("images"), dir.join("packed"));
    images(&source);
    let plan = PlanOptions {
        envelope,
        images: vec!["{label}/{key}.{ext}".parse().unwrap()],
        ..PlanOptions::default()
    };
    run(&source, &packed, plan, 1).unwrap();
    let bundle = Bundle::open(&packed, OpenOptions::default()).unwrap();
    assert_eq!(bundle.manifest().shards.len(), 1);
    bundle.path_of(&bundle.manifest().shards[0].file)
}

#[test]
fn a_file_of_two_splits_is_carried_once() {
    for envelope in [Envelope::Squashfs, Envelope::Hdf5, Envelope::Tar] {
        let dir = tempfile::tempdir().unwrap();
        let (path, out) = (of_two_splits(dir.path(), envelope), dir.path().join("bundle"));
        let options = AdoptOptions { split: AdoptSplit::Folder, ..AdoptOptions::default() };
        let report = take(std::slice::from_ref(&path), &out, &options).unwrap();
        assert_eq!(report.splits, [(Split::Train, 45), (Split::Val, 15)].into(), "{envelope}");
        assert_eq!((report.shards, report.bytes), (1, path.metadata().unwrap().len()));
        // There are the file and one index per split.
        assert_eq!(fs::read_dir(out.join("data")).unwrap().count(), 3, "{envelope}");
        assert_eq!(values(&out, 0).len(), 60);
        assert!(take(std::slice::from_ref(&path), &out, &options).unwrap().already_done);

        let (file, none) = (dir.path().join("a.tar.zst"), AtomicBool::new(false));
        let options = ExportOptions { level: 1, jobs: 1, dry_run: false };
        let report = export(&out, &file, &options, &|_| {}, &none).unwrap();
        let mut tar = tar::Archive::new(zstd::Decoder::new(fs::File::open(file).unwrap()).unwrap());
        assert_eq!((report.files, tar.entries().unwrap().count()), (4, 4), "{envelope}");
    }
}

#[test]
fn our_own_shards_are_adopted_with_their_samples() {
    let dir = tempfile::tempdir().unwrap();
    let (source, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source);
    for envelope in Envelope::ALL {
        let plan = PlanOptions { envelope, ..PlanOptions::default() };
        run(&source, &bundle, plan, 2).unwrap();
        let out = dir.path().join("adopted");
        take(&[bundle.join("data")], &out, &AdoptOptions::default()).unwrap();
        let (mut found, mut expected) = (values(&out, 0), values(&bundle, 0));
        found.sort();
        expected.sort();
        assert!(found == expected, "{envelope}");
        fs::remove_dir_all(&bundle).unwrap();
        fs::remove_dir_all(&out).unwrap();
    }
}

/// A shard of MosaicML Streaming, MDS version 2, of an image and a label each.
fn mds(images: &[Vec<u8>]) -> Vec<u8> {
    let config = "{\"column_encodings\": [\"jpeg\", \"int\", \"str\"], \"column_names\": [\"image\", \"label\", \"path\"], \
                  \"column_sizes\": [null, 8, null], \"format\": \"mds\", \"version\": 2}";
    let sample = |(i, image): (usize, &Vec<u8>)| {
        let path = format!("c/{i}.jpg").into_bytes();
        let sizes = [image.len(), path.len()].map(|n| (n as u32).to_le_bytes()).concat();
        [sizes, image.clone(), label(i as i64), path].concat()
    };
    let samples: Vec<Vec<u8>> = images.iter().enumerate().map(sample).collect();
    let mut bytes = (images.len() as u32).to_le_bytes().to_vec();
    let mut at = 8 + 4 * images.len() + config.len();
    for len in std::iter::once(0).chain(samples.iter().map(Vec::len)) {
        at += len;
        bytes.extend_from_slice(&(at as u32).to_le_bytes());
    }
    [bytes, config.into(), samples.concat()].concat()
}

/// A `.beton`, version 2, of an image as JPEG and a label each.
fn beton(images: &[Vec<u8>]) -> Vec<u8> {
    let field = |kind: u8, name: &str| {
        let mut bytes = [&[kind], name.as_bytes()].concat();
        bytes.resize(1041, 0);
        bytes
    };
    let pages = 2_u64 << 20;
    let (mut rows, mut values, mut table) = (Vec::new(), Vec::new(), Vec::new());
    for (i, image) in images.iter().enumerate() {
        let at = pages + values.len() as u64;
        rows.extend([&[0, 8, 0, 8, 0][..], &at.to_le_bytes(), &[0; 3]].concat());
        rows.extend(label(i as i64));
        values.extend_from_slice(image);
        table.extend([i as u64, at, image.len() as u64].map(u64::to_le_bytes).concat());
    }
    values.resize(pages as usize, 0);
    let mut bytes = vec![2, 0, 2, 0];
    bytes.extend_from_slice(&(pages as u32).to_le_bytes());
    bytes.extend([images.len() as u64, 2 * pages].map(u64::to_le_bytes).concat());
    bytes.extend([field(2, "image"), field(1, "label"), rows].concat());
    bytes.resize(pages as usize, 0);
    [bytes, values, table].concat()
}

#[test]
fn shards_of_streaming_are_adopted_as_their_list_says() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, out) = (dir.path().join("train"), dir.path().join("bundle"));
    fs::create_dir(&folder).unwrap();
    let (first, second) = (mds(&[jpeg(1), jpeg(2)]), mds(&[jpeg(3)]));
    let list = |names: &[&str]| {
        let shard = |name: &&str| {
            format!("{{\"raw_data\": {{\"basename\": \"{name}\", \"bytes\": {}}}}}", first.len())
        };
        let shards: Vec<String> = names.iter().map(shard).collect();
        let text = format!("{{\"shards\": [{}], \"version\": 2}}", shards.join(", "));
        fs::write(folder.join("index.json"), text).unwrap();
    };
    let refused = |expected: &str| {
        let error = take(std::slice::from_ref(&folder), &out, &AdoptOptions::default());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    fs::write(folder.join("shard.00000.mds.zstd"), [0x28, 0xb5, 0x2f, 0xfd, 0]).unwrap();
    refused("`zstd -d shard.00000.mds.zstd -o shard.00000.mds`");
    // The compressed copy is of no interest once the shard is there.
    fs::write(folder.join("shard.00000.mds"), &first).unwrap();
    list(&["shard.00000.mds", "shard.00001.mds"]);
    refused("not there");
    fs::write(folder.join("shard.00001.mds"), &second).unwrap();
    refused(&format!("of {} bytes", second.len()));
    list(&["shard.00000.mds"]);
    fs::remove_file(folder.join("shard.00001.mds")).unwrap();
    let report = take(std::slice::from_ref(&folder), &out, &AdoptOptions::default()).unwrap();
    assert_eq!((report.envelope, report.keys.as_str()), (Envelope::Mds, "path"));
    let images = [("c/0.jpg".to_owned(), jpeg(1)), ("c/1.jpg".to_owned(), jpeg(2))];
    assert_eq!(values(&out, 0), images);
    assert_eq!(values(&out, 1)[1].1, label(1));
}

#[test]
fn formats_without_a_magic_are_known_by_structure() {
    let dir = tempfile::tempdir().unwrap();
    let images = [jpeg(1), jpeg(2)];
    for (name, bytes, envelope) in [
        ("a.bin", mds(&images), Envelope::Mds),
        ("b.bin", beton(&images), Envelope::Ffcv),
        // The count of samples is that of gzip's magic.
        ("c.mds", mds(&vec![vec![1]; 0x8b1f]), Envelope::Mds),
    ] {
        let (path, out) = (dir.path().join(name), dir.path().join(format!("{name}-bundle")));
        fs::write(&path, bytes).unwrap();
        let report = take(&[path], &out, &AdoptOptions::default()).unwrap();
        assert_eq!(report.envelope, envelope, "{name}");
        let found: Vec<Vec<u8>> = values(&out, 1).into_iter().map(|(_, v)| v).take(2).collect();
        assert_eq!(found, [label(0), label(1)], "{name}");
    }
    let (path, out) = (dir.path().join("a.beton"), dir.path().join("bundle"));
    fs::write(&path, [0; 100]).unwrap();
    let error = take(&[path], &out, &AdoptOptions::default()).unwrap_err().to_string();
    assert!(error.contains("a.beton") && error.contains("version is 0"), "{error}");
}

#[test]
fn adopting_stops_within_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.tar");
    tar(&file, &[("0.jpg", jpeg(0)), ("0.bin", vec![7; 8 << 20])]);
    let (cancel, blocks) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let progress = |p: Progress| {
        if matches!(p, Progress::Packed(..)) {
            blocks.fetch_add(1, Ordering::Relaxed);
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let options = AdoptOptions { jobs: 1, memory_bytes: 1 << 20, ..AdoptOptions::default() };
    let error = adopt(&[file], &dir.path().join("out"), &options, &progress, &cancel).unwrap_err();
    assert!(matches!(error, Error::Shard(ShardError::Unfinished { total: 1, .. })), "{error}");
    assert_eq!(blocks.load(Ordering::Relaxed), 1);
}

#[test]
fn the_walk_of_a_file_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many.tar");
    let mut builder = tar::Builder::new(BufWriter::new(fs::File::create(&path).unwrap()));
    for n in 0..60_000 {
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        builder.append_data(&mut header, format!("{n}.jpg"), io::empty()).unwrap();
    }
    builder.into_inner().unwrap().into_inner().unwrap();
    // The walk makes 60,000 reads; it is stopped before it has said how many samples it found.
    let (cancel, walked) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let progress = |p: Progress| {
        if matches!(p, Progress::Scanned(_)) {
            walked.fetch_add(1, Ordering::Relaxed);
        }
    };
    let out = dir.path().join("out");
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(2));
            cancel.store(true, Ordering::Relaxed);
        });
        adopt(&[path], &out, &AdoptOptions::default(), &progress, &cancel)
    });
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Run(RunError::Cancelled)), "{error}");
    assert_eq!(walked.load(Ordering::Relaxed), 0);
    assert!(!out.exists());
}
