//! Samples that a view leaves out do not exist, in any envelope, and a wrong view is never
//! accepted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gular_bundle::{
    About, Backend, Bundle, BundlePath, CheckWhen, DATA_DIR, Digest, Dtype, Envelope, Error, Field,
    FieldIdx, FieldName, FileEntry, Manifest, OpenOptions, Payload, Row, SampleId, ShardEntry,
    ShardIdx, ShardSpec, ShardWriter, Split, View, write_manifest,
};
use proptest::prelude::*;

fn fields() -> Vec<Field> {
    vec![
        Field::bytes(FieldName::image(), vec!["image/jpeg".into()]),
        Field::label(),
        Field::fixed(FieldName::parse("box").unwrap(), Dtype::F32, vec![2]),
    ]
}

const CLASSES: [&str; 3] = ["a", "b", "c"];

fn image(i: usize) -> Vec<u8> {
    (0..30 + i).map(|b| (b * 7 + i * 31) as u8).collect()
}

/// Writes one shard of `n` samples, with fields `fields`.
fn shard(dir: &Path, envelope: Envelope, fields: &[Field], n: usize) -> ShardEntry {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data).unwrap();
    let classes = CLASSES.map(str::to_owned);
    let spec = ShardSpec { envelope, split: Split::Train, fields, classes: &classes };
    let mut writer = ShardWriter::create(&data, &spec).unwrap();
    for i in 0..n {
        let key = BundlePath::parse(&format!("k/{i:03}.jpg")).unwrap();
        let (image, label) = (image(i), (i as i64 % 3).to_le_bytes());
        let values = fields.iter().map(|field| match field.name.as_str() {
            "image" => image.as_slice(),
            "label" => &label,
            _ => &[5; 8],
        });
        writer.push(&key, &values.collect::<Vec<_>>()).unwrap();
    }
    writer.finish().unwrap()
}

/// Returns `entry` with a view, which is written beside it.
fn viewed(dir: &Path, entry: &ShardEntry, split: Split, view: &View) -> ShardEntry {
    let (file, bytes) = view.file(split, entry.index.digest).unwrap();
    fs::write(dir.join(DATA_DIR).join(file.name.as_str()), bytes).unwrap();
    ShardEntry { split, samples: view.n_samples() as u64, view: Some(file), ..entry.clone() }
}

fn bundle(dir: &Path, envelope: Envelope, shards: Vec<ShardEntry>) -> Manifest {
    let manifest = Manifest {
        envelope,
        payload: Payload::Encoded,
        fields: fields(),
        classes: CLASSES.map(str::to_owned).to_vec(),
        made: BTreeMap::new(),
        about: About::default(),
        statistics: None,
        shards,
    };
    write_manifest(dir, &manifest).unwrap();
    manifest
}

/// Returns the number and the label of each sample of a split, read in every possible way.
fn samples(dir: &Path, split: Split) -> Vec<(usize, i32)> {
    let mut all: Vec<Vec<(usize, i32)>> = Vec::new();
    for backend in [Backend::Pread, Backend::Map] {
        for (index_bytes, check) in [(0, CheckWhen::Always), (1 << 20, CheckWhen::FirstTouch)] {
            let options = OpenOptions { backend, check, index_bytes, ..OpenOptions::default() };
            let bundle = Bundle::open(dir, options).unwrap();
            let read = |number: u64| {
                let id = bundle.locate(split, number).unwrap();
                let key = bundle.key(id).unwrap().to_string();
                let i: usize = key[2..5].parse().unwrap();
                let shard = bundle.shard(id.shard).unwrap();
                let mut out = Vec::new();
                for _ in 0..2 {
                    shard.read(id.row, FieldIdx(0), &mut out).unwrap();
                    assert_eq!(out, image(i));
                    assert_eq!(shard.view(id.row, FieldIdx(0), &mut out).unwrap(), image(i));
                    shard.read(id.row, FieldIdx(2), &mut out).unwrap();
                    assert_eq!(out, [5; 8]);
                }
                assert_eq!(shard.digest(id.row, FieldIdx(0)).unwrap(), Some(Digest::of(&image(i))));
                let label = shard.label(id.row).unwrap().unwrap();
                shard.read(id.row, FieldIdx(1), &mut out).unwrap();
                assert_eq!(out, i64::from(label).to_le_bytes());
                let index = shard.index().unwrap();
                assert_eq!(index.labels().nth(id.row.0), Some(label));
                assert_eq!(index.stored_row(id.row), Some(Row(i)));
                assert_eq!(index.key(id.row), Some(key.as_str()));
                (i, label)
            };
            all.push((0..bundle.n_samples(split)).map(read).collect());
            let past =
                bundle.manifest().shards.iter().enumerate().filter(|(_, s)| s.split == split);
            for (number, entry) in past {
                let open = bundle.shard(ShardIdx(number)).unwrap();
                let row = Row(entry.samples as usize);
                assert!(open.read(row, FieldIdx(0), &mut Vec::new()).is_err());
                assert_eq!(open.key(row).unwrap(), None);
                assert_eq!(open.label(row).unwrap(), None);
            }
        }
    }
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    all.swap_remove(0)
}

#[test]
fn a_part_with_other_labels_and_splits_reads_as_such_in_every_envelope() {
    for envelope in Envelope::ALL {
        let dir = tempfile::tempdir().unwrap();
        let (fields, n) = (fields(), 70);
        let whole = shard(dir.path(), envelope, &fields, n);
        let even = View::new(n, (0..n).step_by(2).map(Row), vec![(Row(2), 0), (Row(64), -1)]);
        let odd = View::new(n, [1, 33, 69].map(Row), Vec::new());
        let shards = vec![
            viewed(dir.path(), &whole, Split::Train, &even.unwrap()),
            viewed(dir.path(), &whole, Split::Test, &odd.unwrap()),
        ];
        bundle(dir.path(), envelope, shards);
        let label = |i: usize| match i {
            2 => 0,
            64 => -1,
            i => i as i32 % 3,
        };
        let expected: Vec<(usize, i32)> = (0..n).step_by(2).map(|i| (i, label(i))).collect();
        assert_eq!(samples(dir.path(), Split::Train), expected, "{envelope}");
        assert_eq!(samples(dir.path(), Split::Test), [(1, 1), (33, 0), (69, 0)], "{envelope}");
    }
}

#[test]
fn labels_of_a_view_alone_are_those_of_a_bundle_without() {
    for envelope in Envelope::ALL {
        let dir = tempfile::tempdir().unwrap();
        let mut unlabelled = fields();
        unlabelled.remove(1);
        let whole = shard(dir.path(), envelope, &unlabelled, 9);
        let labels = |rows: &[usize]| rows.iter().map(|row| (Row(*row), 2)).collect::<Vec<_>>();
        let view = |labels| View::new(9, [1, 4, 8].map(Row), labels).unwrap();
        let check = |labels| {
            let shards = vec![viewed(dir.path(), &whole, Split::Train, &view(labels))];
            bundle(dir.path(), envelope, shards);
        };
        check(labels(&[1, 4, 8]));
        assert_eq!(samples(dir.path(), Split::Train), [(1, 2), (4, 2), (8, 2)], "{envelope}");
        check(labels(&[1, 8]));
        let open = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
        let error = open.shard(ShardIdx(0)).unwrap_err().to_string();
        assert!(error.contains("its view has labels for 2 of 3 samples"), "{error}");
    }
}

#[test]
fn a_wrong_view_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let whole = shard(dir.path(), Envelope::Shards, &fields(), 40);
    let view = View::new(40, [0, 5, 39].map(Row), vec![(Row(5), 2), (Row(39), 0)]).unwrap();
    let good = view.to_bytes(whole.index.digest);
    assert_eq!(View::parse("v", &good).unwrap(), (whole.index.digest, view.clone()));
    // The manifest lists the view's own length and digest, as a faulty writer would.
    let refused = |bytes: &[u8], samples: u64| {
        let name = BundlePath::parse("train-0000000000000000.view").unwrap();
        let file = FileEntry { name, bytes: bytes.len() as u64, digest: Digest::of(bytes) };
        fs::write(dir.path().join(DATA_DIR).join(file.name.as_str()), bytes).unwrap();
        let entry = ShardEntry { samples, view: Some(file), ..whole.clone() };
        bundle(dir.path(), Envelope::Shards, vec![entry]);
        let open = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
        open.shard(ShardIdx(0)).map(|_| ()).map_err(|e| e.to_string())
    };
    refused(&good, 3).unwrap();
    let check = |at: usize, to: &[u8], word: &str| {
        let mut bytes = good.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        let error = refused(&bytes, 3).unwrap_err();
        assert!(error.contains(word), "{at}: {error}");
    };
    check(0, b"G", "should be a view");
    check(12, &[2], "versions up to 1");
    check(12, &[0], "its version is 0");
    check(16, &[whole.index.digest.as_bytes()[0] ^ 1], "it was made for the index");
    check(48, &[41], "its view was made for 41");
    check(48, &[200], "from the counts in its header");
    check(52, &[3], "from the counts in its header");
    check(61, &[1], "a sample after the last of 40");
    check(56, &[0b10_0000], "it selects 2 samples, expected 3");
    check(56, &[0b1], "it gives a label to sample 5, which it does not select");
    check(64, &[39], "not in the order of samples");
    check(64, &[6], "it gives a label to sample 6, which it does not select");
    check(72, &[3], "has label 3, but the bundle has only 3 classes");
    for cut in [0, 55, 56, good.len() - 1] {
        assert!(refused(&good[..cut], 3).is_err(), "{cut}");
    }
    assert!(refused(&good, 4).unwrap_err().contains("expected 4"));
    // The view has the right name and other bytes, or does not exist.
    refused(&good, 3).unwrap();
    let path = dir.path().join(DATA_DIR).join("train-0000000000000000.view");
    let mut bytes = good.clone();
    bytes[72] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let open = || Bundle::open(dir.path(), OpenOptions::default()).unwrap();
    assert!(matches!(open().shard(ShardIdx(0)), Err(Error::Digest { .. })));
    fs::write(&path, &good[..60]).unwrap();
    assert!(matches!(open().shard(ShardIdx(0)), Err(Error::Length { .. })));
    assert!(matches!(open().check_lengths(), Err(Error::Length { .. })));
    fs::remove_file(&path).unwrap();
    assert!(matches!(open().shard(ShardIdx(0)), Err(Error::Io(_))));
}

/// The index is that of another shard with the same length and number of samples. A malicious
/// writer has put its digest into manifest and view. Its places are those of other values, so every
/// digest differs.
#[test]
fn an_index_of_other_values_is_found_out_by_every_value() {
    let dir = tempfile::tempdir().unwrap();
    let whole = shard(dir.path(), Envelope::Shards, &fields(), 12);
    let data = dir.path().join(DATA_DIR);
    let index = fs::read(data.join(whole.index.name.as_str())).unwrap();
    // The places of all images are one byte further on.
    let at = {
        let header = String::from_utf8_lossy(&index[8..4096]).into_owned();
        let (_, rest) = header.split_once("\"image.offset\"").unwrap();
        let (_, rest) = rest.split_once("\"data_offsets\":[").unwrap();
        let start: usize = rest.split(',').next().unwrap().parse().unwrap();
        start + 8 + u64::from_le_bytes(index[..8].try_into().unwrap()) as usize
    };
    let lie = |by: i64| {
        let mut bytes = index.clone();
        for i in 0..12 {
            let place = &mut bytes[at + 8 * i..at + 8 * i + 8];
            let moved = i64::from_le_bytes((&*place).try_into().unwrap()) + by;
            place.copy_from_slice(&moved.to_le_bytes());
        }
        let digest = Digest::of(&bytes);
        let name = BundlePath::parse("train-1111111111111111.index.safetensors").unwrap();
        fs::write(data.join(name.as_str()), &bytes).unwrap();
        let index = FileEntry { name, bytes: bytes.len() as u64, digest };
        let entry = ShardEntry { index, ..whole.clone() };
        let view = View::new(12, [0, 3, 11].map(Row), Vec::new()).unwrap();
        let entry = viewed(dir.path(), &entry, Split::Train, &view);
        bundle(dir.path(), Envelope::Shards, vec![entry]);
        Bundle::open(dir.path(), OpenOptions::default()).unwrap()
    };
    let bundle = lie(1);
    for row in 0..3 {
        let id = SampleId { shard: ShardIdx(0), row: Row(row) };
        let error = bundle.read(id, FieldIdx(0), &mut Vec::new()).unwrap_err();
        assert!(matches!(error, Error::SampleDigest(_)), "{error}");
    }
    for by in [-1_000_000, 1_000_000] {
        let error = lie(by).shard(ShardIdx(0)).unwrap_err().to_string();
        assert!(error.contains("lies outside the shard"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_view_counts_as_a_plain_list_does(
        counts in proptest::collection::vec(any::<bool>(), 0..200),
        labels in proptest::collection::vec(proptest::option::of(-1..9_i32), 200),
    ) {
        let rows: Vec<usize> = (0..counts.len()).filter(|row| counts[*row]).collect();
        let labelled = rows.iter().filter_map(|row| Some((Row(*row), labels[*row]?)));
        let view = View::new(counts.len(), rows.iter().map(|row| Row(*row)), labelled.collect());
        let view = view.unwrap();
        prop_assert_eq!(view.n_samples(), rows.len());
        for (nth, row) in rows.iter().enumerate() {
            prop_assert_eq!(view.stored(Row(nth)), Some(Row(*row)));
            prop_assert_eq!(view.label(Row(*row)), labels[*row]);
        }
        prop_assert_eq!(view.stored(Row(rows.len())), None);
        let bytes = view.to_bytes(Digest::of(b"i"));
        prop_assert_eq!(View::parse("v", &bytes).unwrap(), (Digest::of(b"i"), view));
    }

    #[test]
    fn no_bytes_make_a_view_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = bytes;
        let _ = View::parse("v", &bytes);
        for (byte, good) in bytes.iter_mut().zip(b"gular-view\0\0\x01\0\0\0") {
            *byte = *good;
        }
        if let Ok((digest, view)) = View::parse("v", &bytes) {
            prop_assert_eq!(view.to_bytes(digest), bytes);
        }
    }
}
