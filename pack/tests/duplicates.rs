//! Images that a bundle contains twice are found by the digests in its indexes.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::support::{jpeg, png, put, run};
use gular_bundle::{Bundle, OpenOptions, Split};
use gular_pack::{
    Among, DuplicateOptions, Duplicates, Error, Inputs, Labels, PlanOptions, find_duplicates,
};

fn found(dirs: &[&Path], options: &DuplicateOptions) -> Duplicates {
    let open = |dir: &&Path| Bundle::open(dir, OpenOptions::default()).unwrap();
    let bundles: Vec<Bundle> = dirs.iter().map(open).collect();
    let shelves: Vec<Among<'_>> =
        bundles.iter().map(|bundle| Among { bundle, has: &|_| true }).collect();
    find_duplicates(&shelves[0], shelves.get(1), options, &AtomicBool::new(false)).unwrap()
}

fn keys(found: &Duplicates) -> Vec<Vec<&str>> {
    found.named.iter().map(|g| g.samples.iter().map(|s| s.key.as_str()).collect()).collect()
}

/// 40 pictures; some of them again: in `val`, in another class, and as a different file.
fn planted(dir: &Path) {
    for i in 0..40 {
        put(dir, &format!("train/c{}/{i}.jpg", i % 2), &jpeg(i));
    }
    put(dir, "val/c0/leak.jpg", &jpeg(4));
    put(dir, "test/c1/leak.jpg", &jpeg(4));
    put(dir, "val/c1/also.jpg", &jpeg(7));
    put(dir, "train/c1/other-class.jpg", &jpeg(10));
    put(dir, "val/c0/alone.png", &png(3));
}

#[test]
fn planted_duplicates_are_all_found_and_leaks_named_first() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    planted(source.path());
    let out = dir.path().join("bundle");
    run(source.path(), &out, PlanOptions::default(), 2).unwrap();
    let list = dir.path().join("list.csv");
    for memory_bytes in [1 << 20, 100] {
        let options = DuplicateOptions {
            memory_bytes,
            list: Some(list.clone()),
            ..DuplicateOptions::default()
        };
        let found = found(&[&out], &options);
        assert_eq!((found.compared, found.pictures, found.samples), (45, 3, 7));
        assert_eq!(found.across_splits(), 2);
        assert_eq!((found.across["train and val"], found.across["train and val and test"]), (1, 1));
        assert_eq!(found.labelled_differently, 2);
        assert_eq!(found.named[2].splits, [Split::Train]);
        let mut keys = keys(&found);
        assert_eq!(keys.pop().unwrap().len(), 2, "what is in one split comes last");
        keys.sort();
        assert_eq!(keys[0], ["train/c0/4.jpg", "val/c0/leak.jpg", "test/c1/leak.jpg"]);
        assert_eq!(keys[1], ["train/c1/7.jpg", "val/c1/also.jpg"]);
        let text = fs::read_to_string(&list).unwrap();
        assert_eq!(text.lines().count(), 8, "{text}");
        assert!(text.starts_with("digest,bundle,split,key,label\n"), "{text}");
        let line = |key: &str| text.lines().find(|l| l.contains(key)).unwrap_or_default();
        assert!(line("train/c1/other-class.jpg").ends_with(",train,train/c1/other-class.jpg,1"));
        assert_eq!(line("train/c0/4.jpg")[..64], line("test/c1/leak.jpg")[..64]);
    }
}

#[test]
fn two_bundles_are_compared_with_each_other_alone() {
    let (a, b, dir) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    planted(a.path());
    for i in 35..50 {
        put(b.path(), &format!("x/new-{i}.jpg"), &jpeg(i));
    }
    let [a_out, b_out] = ["a", "b"].map(|name| dir.path().join(name));
    run(a.path(), &a_out, PlanOptions::default(), 1).unwrap();
    run(b.path(), &b_out, PlanOptions::default(), 1).unwrap();
    let found = found(&[&a_out, &b_out], &DuplicateOptions::default());
    assert_eq!((found.compared, found.pictures, found.samples), (60, 5, 10));
    assert!(keys(&found).iter().all(|keys| keys[1].starts_with("x/new-")), "{found:?}");
    assert!(found.named.iter().all(|g| [g.samples[0].bundle, g.samples[1].bundle] == [0, 1]));
}

#[test]
fn copies_that_were_encoded_again_and_smaller_ones_are_candidates() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Waves of their own for each picture, so that no two are similar.
    let picture = |side: u32, i: u32| -> Vec<u8> {
        let pixel = |p: u32| {
            let (x, y) = (f64::from(p % side), f64::from(p / side));
            let (x, y, i) = (x / f64::from(side), y / f64::from(side), f64::from(i));
            let wave = ((x * (2.0 + 1.7 * i)).sin() + (y * (9.0 - 1.3 * i) + x * i).cos()) * 60.0;
            [(128.0 + wave) as u8; 3]
        };
        (0..side * side).flat_map(pixel).collect()
    };
    for i in 0..5 {
        let png = gular_codec::encode_png(&picture(96, i), 96, 96).unwrap();
        put(source.path(), &format!("train/c/{i}.png"), &png);
        if i == 2 {
            // A text chunk behind the header: other bytes, the same pixels.
            let text = b"tEXtSoftware\0another";
            let mut chunk = ((text.len() - 4) as u32).to_be_bytes().to_vec();
            chunk.extend_from_slice(text);
            chunk.extend(crc(text).to_be_bytes());
            let again = [&png[..33], &chunk, &png[33..]].concat();
            put(source.path(), "val/c/again.png", &again);
        }
    }
    let jpeg = gular_codec::encode_jpeg(&picture(64, 4), 64, 64, 90).unwrap();
    put(source.path(), "val/c/smaller.jpg", &jpeg);
    let out = dir.path().join("bundle");
    run(source.path(), &out, PlanOptions::default(), 2).unwrap();
    let bundle = Bundle::open(&out, OpenOptions::default()).unwrap();
    let among = Among { bundle: &bundle, has: &|_| true };
    let options = gular_pack::LookOptions {
        pixels: true,
        near: true,
        jobs: 2,
        memory_bytes: 1 << 20,
        temp_dir: dir.path().to_owned(),
    };
    let look = |other: Option<&Among<'_>>| {
        let cancel = AtomicBool::new(false);
        gular_pack::find_looks(&among, other, &options, &|_| {}, &cancel).unwrap()
    };
    let looks = look(None);
    assert_eq!((looks.compared, looks.undecodable, looks.same_pixels), (7, 0, 1));
    let keys: Vec<[&str; 2]> = looks
        .pairs
        .iter()
        .map(|p| [p.samples[0].key.as_str(), p.samples[1].key.as_str()])
        .collect();
    assert_eq!(keys[0], ["train/c/2.png", "val/c/again.png"]);
    assert_eq!(keys[1..], [["train/c/4.png", "val/c/smaller.jpg"]], "{looks:?}");
    assert!(looks.pairs[0].bits.is_none() && looks.pairs[1].bits.is_some());
    // Against itself every pair has one of each bundle.
    let against = look(Some(&among));
    assert!(against.pairs.iter().all(|p| (p.samples[0].bundle, p.samples[1].bundle) == (0, 1)));
}

/// Returns the CRC-32 of PNG.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

#[test]
fn files_that_are_not_known_to_be_pictures_are_not_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "src/a.jpg", &jpeg(1));
    let plan =
        PlanOptions { inputs: Inputs::Bytes, labels: Labels::None, ..PlanOptions::default() };
    let out = dir.path().join("out");
    run(&dir.path().join("src"), &out, plan, 1).unwrap();
    let bundle = Bundle::open(&out, OpenOptions::default()).unwrap();
    let among = Among { bundle: &bundle, has: &|_| true };
    let options = gular_pack::LookOptions {
        pixels: true,
        near: true,
        jobs: 1,
        memory_bytes: 1 << 20,
        temp_dir: dir.path().to_owned(),
    };
    let error = gular_pack::find_looks(&among, None, &options, &|_| {}, &AtomicBool::new(false));
    assert!(matches!(error, Err(Error::NoPictures { .. })), "{error:?}");
}

/// ImageNet's number of samples, with `GULAR_LONG_TESTS` set; it says how long the join took.
#[test]
fn planted_duplicates_are_found_among_1_33_million_samples() {
    let is_long = std::env::var_os("GULAR_LONG_TESTS").is_some();
    let (n_shards, in_shard) = if is_long { (133, 10_000_u64) } else { (3_u64, 1000) };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir_all(&data).unwrap();
    let field = gular_bundle::Field::fixed(
        gular_bundle::FieldName::parse("image").unwrap(),
        gular_bundle::Dtype::U8,
        vec![2, 4, 1],
    );
    let fields = vec![field];
    let mut shards = Vec::new();
    for shard in 0..n_shards {
        let split = if shard < n_shards - 1 { Split::Train } else { Split::Val };
        let envelope = gular_bundle::Envelope::Shards;
        let spec = gular_bundle::ShardSpec { envelope, split, fields: &fields, classes: &[] };
        let mut writer = gular_bundle::ShardWriter::create(&data, &spec).unwrap();
        for i in shard * in_shard..(shard + 1) * in_shard {
            // Every 500th of `val` is a picture of the first shard.
            let planted = split == Split::Val && i % 500 == 0;
            let picture = if planted { i - shard * in_shard } else { i };
            let key = gular_bundle::BundlePath::parse(&format!("{split}/{i:08}.png")).unwrap();
            writer.push(&key, &[&picture.to_le_bytes()]).unwrap();
        }
        shards.push(writer.finish().unwrap());
    }
    let manifest = gular_bundle::Manifest {
        envelope: gular_bundle::Envelope::Shards,
        payload: gular_bundle::Payload::Raw,
        fields,
        classes: Vec::new(),
        made: std::collections::BTreeMap::new(),
        about: gular_bundle::About::default(),
        statistics: None,
        shards,
    };
    gular_bundle::write_manifest(dir.path(), &manifest).unwrap();
    let begin = std::time::Instant::now();
    let found = found(&[dir.path()], &DuplicateOptions::default());
    println!("{} samples in {:?}", found.compared, begin.elapsed());
    let planted = in_shard / 500;
    assert_eq!((found.pictures, found.samples), (planted, 2 * planted));
    assert_eq!(found.across["train and val"], planted);
}
