//! Files that others wrote become bundles where they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{images, jpeg, png, run};
use gular_bundle::{Bundle, Envelope, FieldIdx, OpenOptions, SampleId, ShardIdx, Split};
use gular_pack::{AdoptOptions, AdoptReport, AdoptSplit, Error, PlanOptions, Progress, adopt};

fn take(paths: &[PathBuf], out: &Path, options: &AdoptOptions) -> Result<AdoptReport, Error> {
    adopt(paths, out, options, &|_| {}, &AtomicBool::new(false))
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

/// Every value of field `field`, with its key.
fn values(dir: &Path, field: usize) -> Vec<(String, Vec<u8>)> {
    let bundle = Bundle::open(dir, OpenOptions::default()).unwrap();
    let mut found = Vec::new();
    for shard in ShardIdx::first(bundle.manifest().shards.len()) {
        for row in bundle.shard(shard).unwrap().index().rows() {
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
    assert!(take(&[path], &out, &AdoptOptions::default()).is_err(), "never overwritten");
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
        "do not lie together",
    );
    refused(&[("a.jpg", jpeg(1)), ("a.jpg", jpeg(2))], "two members `.jpg`");
    refused(&[("a.jpg", jpeg(1)), ("b.cls", b"1".to_vec())], "sample `b.cls`");
    refused(&[("README", b"x".to_vec())], "no members that are samples");
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
    assert!(error.contains("`--image NAME`"), "{error}");
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
    assert!(error.contains("a.beton") && error.contains("version 0"), "{error}");
}

#[test]
fn adopting_stops_within_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.tar");
    tar(&file, &[("0.jpg", jpeg(0)), ("0.bin", vec![7; 8 << 20])]);
    let (cancel, blocks) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = |p: Progress| {
        if matches!(p, Progress::Packed(..)) {
            blocks.fetch_add(1, Ordering::Relaxed);
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let options = AdoptOptions { jobs: 1, memory: 1 << 20, ..AdoptOptions::default() };
    let error = adopt(&[file], &dir.path().join("out"), &options, &progress, &cancel).unwrap_err();
    assert!(matches!(error, Error::Cancelled { total: 1, .. }), "{error}");
    assert_eq!(blocks.load(Ordering::Relaxed), 1);
}
