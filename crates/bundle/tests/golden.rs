//! Versions 1 and 2 of the format, byte for byte and kept for good: one bundle in every envelope,
//! and `golden/v2`, which is derived from the bundle in `golden/v1`.
//!
//! `golden/v1` (envelope `shards`) and `golden/v1-ENVELOPE` were written by the first
//! release. Changing these files means that bundles people have published no longer read
//! or no longer verify. Two envelopes are laid out by libraries; an upgrade of one that
//! changes bytes is seen here.

use std::fs;
use std::path::{Path, PathBuf};

use gular_bundle::{
    About, Backend, Band, Bundle, BundlePath, DATA_DIR, Decimal, Digest, Dtype, Envelope, Field,
    FieldIdx, FieldName, MadeValue, Manifest, Nodata, OpenOptions, Payload, ReadAt, Row,
    ShardEntry, ShardSpec, ShardWriter, Split, View, rebuild_index, write_manifest,
};

/// The bundle digest in every envelope.
const DIGESTS: [(Envelope, &str); 6] = [
    (Envelope::Shards, "e8096d0ef7845fbfe09b511dcc69b531e08be03914c5d75177b58721c367dafd"),
    (Envelope::Arrow, "f3bbe42378999365c72f3c145d49ca2adf02f9c225cb5e82692c58c1bfa20795"),
    (Envelope::Parquet, "25ecfbb50218a6df878c2a3f0dd03a1bf2acdc1c24e450c61dfe2c79f42a6066"),
    (Envelope::Hdf5, "fa09ba861f8bcaa8964431b2aca4c4e8d291f8d4668f185d8da4a008a3755911"),
    (Envelope::Tar, "cf69472e506af8c59e8372969736b8cac88e55d71c8b3158ae08759a2fc2fdf8"),
    (Envelope::Squashfs, "e03a1710b15dc73965382dd13ba1beea2d98cf61ebaad8f33036f0ec20bf5df7"),
];

fn golden(envelope: Envelope) -> PathBuf {
    let folder = match envelope {
        Envelope::Shards => "v1".to_owned(),
        other => format!("v1-{other}"),
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder)
}

fn fields() -> Vec<Field> {
    let mut mask = Field::fixed(FieldName::parse("mask").unwrap(), Dtype::U16, vec![2, 3]);
    mask.bands =
        vec![Band { name: "B04".into(), wavelength_nm: Some(Decimal::parse("664.6").unwrap()) }];
    mask.nodata = Some(Nodata::parse("-9999").unwrap());
    mask.crs = Some("EPSG:32632".into());
    mask.transform =
        Some(["600000", "10", "0", "5900040", "0", "-10"].map(|d| Decimal::parse(d).unwrap()));
    vec![
        Field::bytes(FieldName::image(), vec!["image/png".into(), "image/jpeg".into()]),
        Field::label(),
        mask,
    ]
}

fn image(split: Split, i: u8) -> Vec<u8> {
    (0..20 + i).map(|b| b.wrapping_mul(11) ^ (split as u8)).collect()
}

fn write(dir: &Path, envelope: Envelope) -> Digest {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data).unwrap();
    let (fields, classes) = (fields(), ["kläss 0".to_owned(), "kläss 1".to_owned()]);
    let mut shards = Vec::new();
    for (split, n) in [(Split::Train, 5), (Split::Val, 2)] {
        let spec = ShardSpec { envelope, split, fields: &fields, classes: &classes };
        let mut writer = ShardWriter::create(&data, &spec).unwrap();
        for i in 0..n {
            let key = BundlePath::parse(&format!("{split}/kläss {}/{i}.png", i % 2)).unwrap();
            let label = i64::from(i % 2).to_le_bytes();
            writer.push(&key, &[&image(split, i), &label, &[i; 12]]).unwrap();
        }
        shards.push(writer.finish().unwrap());
    }
    let manifest = Manifest {
        envelope,
        payload: Payload::Encoded,
        fields,
        classes: classes.to_vec(),
        made: [
            ("order".to_owned(), MadeValue::Text("sorted".into())),
            ("seed".to_owned(), MadeValue::Number(0)),
        ]
        .into(),
        about: About {
            name: Some("golden".into()),
            licence: Some("CC0-1.0".into()),
            ..About::default()
        },
        statistics: None,
        shards,
    };
    write_manifest(dir, &manifest).unwrap()
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = vec![PathBuf::from("manifest.json")];
    for entry in fs::read_dir(dir.join(DATA_DIR)).unwrap() {
        paths.push(Path::new(DATA_DIR).join(entry.unwrap().file_name()));
    }
    paths.sort();
    paths.into_iter().map(|p| (p.clone(), fs::read(dir.join(&p)).unwrap())).collect()
}

#[test]
fn the_writers_still_write_version_1() {
    for (envelope, digest) in DIGESTS {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(write(dir.path(), envelope).hex(), digest, "{envelope}");
        let same = files(dir.path()) == files(&golden(envelope));
        assert!(same, "bytes differ from {}", golden(envelope).display());
    }
}

#[test]
fn the_reader_still_reads_version_1() {
    for (envelope, digest) in DIGESTS {
        let digest = Some(Digest::parse(digest).unwrap());
        let options = OpenOptions { digest, ..OpenOptions::default() };
        let bundle = Bundle::open(&golden(envelope), options).unwrap();
        assert_eq!((bundle.manifest().envelope, &bundle.manifest().fields), (envelope, &fields()));
        let mut out = Vec::new();
        for (split, n) in [(Split::Train, 5), (Split::Val, 2)] {
            assert_eq!(bundle.n_samples(split), n);
            for i in 0..n as u8 {
                let id = bundle.locate(split, u64::from(i)).unwrap();
                let key = format!("{split}/kläss {}/{i}.png", i % 2);
                assert_eq!(bundle.key(id).unwrap().as_str(), key, "{envelope}");
                bundle.read(id, FieldIdx(0), &mut out).unwrap();
                assert_eq!(out, image(split, i), "{envelope} {key}");
                bundle.read(id, FieldIdx(2), &mut out).unwrap();
                assert_eq!(out, [i; 12], "{envelope} {key}");
                let label = bundle.shard(id.shard).unwrap().label(id.row).unwrap();
                assert_eq!(label, Some(i32::from(i % 2)), "{envelope} {key}");
            }
        }
    }
}

/// The index of a shard can be made again from the shard alone.
#[test]
fn the_indexers_still_give_the_indexes_of_version_1() {
    for (envelope, _) in DIGESTS {
        let bundle = Bundle::open(&golden(envelope), OpenOptions::default()).unwrap();
        for entry in &bundle.manifest().shards {
            let shard = ReadAt::open(&bundle.path_of(&entry.file), Backend::Pread).unwrap();
            let index = rebuild_index(&shard, envelope, &fields()).unwrap();
            assert!(index == bundle.read_file(&entry.index).unwrap(), "{envelope}");
        }
    }
}

const DERIVED: &str = "c2503d5f794042154571c05f73065656d92409baa2ca988508efd11eb6122e2d";

/// Makes the bundle with views. Of the training samples, the view of `train` has 0 and 2, and
/// sample 2 has another label; sample 3 is in split `val`. Of the other samples all are kept.
fn derive(dir: &Path) -> Digest {
    write(dir, Envelope::Shards);
    let base = Bundle::open(dir, OpenOptions::default()).unwrap();
    let [train, val] = base.manifest().shards.as_slice() else { panic!("two shards") };
    let with_view = |split: Split, rows: &[usize], labels: Vec<(Row, i32)>| {
        let view = View::new(5, rows.iter().map(|row| Row(*row)), labels).unwrap();
        let (file, bytes) = view.file(split, train.index.digest).unwrap();
        fs::write(dir.join(DATA_DIR).join(file.name.as_str()), bytes).unwrap();
        let samples = rows.len() as u64;
        ShardEntry { split, samples, view: Some(file), ..train.clone() }
    };
    let shards = vec![
        with_view(Split::Train, &[0, 2], vec![(Row(2), 1)]),
        with_view(Split::Val, &[3], Vec::new()),
        val.clone(),
    ];
    let made = [("base".to_owned(), MadeValue::Text(base.digest().to_string()))].into();
    let manifest = Manifest { shards, made, ..base.manifest().clone() };
    write_manifest(dir, &manifest).unwrap()
}

#[test]
fn the_writers_still_write_version_2() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2");
    assert_eq!(derive(dir.path()).hex(), DERIVED);
    assert!(files(dir.path()) == files(&golden), "bytes differ from {}", golden.display());
}

#[test]
fn the_reader_still_reads_version_2() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2");
    let bundle = Bundle::open(&golden, OpenOptions::default()).unwrap();
    assert_eq!(bundle.digest().hex(), DERIVED);
    let mut out = Vec::new();
    let mut check = |split: Split, expected: &[(Split, u8, i32)]| {
        assert_eq!(bundle.n_samples(split), expected.len() as u64);
        for ((of, i, label), number) in expected.iter().zip(0..) {
            let id = bundle.locate(split, number).unwrap();
            let key = format!("{of}/kläss {}/{i}.png", i % 2);
            assert_eq!(bundle.key(id).unwrap().as_str(), key);
            bundle.read(id, FieldIdx(0), &mut out).unwrap();
            assert_eq!(out, image(*of, *i), "{key}");
            assert_eq!(bundle.shard(id.shard).unwrap().label(id.row).unwrap(), Some(*label));
            bundle.read(id, FieldIdx(1), &mut out).unwrap();
            assert_eq!(out, i64::from(*label).to_le_bytes(), "{key}");
        }
    };
    check(Split::Train, &[(Split::Train, 0, 0), (Split::Train, 2, 1)]);
    check(Split::Val, &[(Split::Train, 3, 1), (Split::Val, 0, 0), (Split::Val, 1, 1)]);
}

#[test]
fn there_is_a_golden_bundle_of_every_envelope() {
    assert_eq!(DIGESTS.map(|(envelope, _)| envelope), Envelope::ALL);
}
