//! Version 1 of the format, byte for byte, for good.
//!
//! `golden/v1` was written by the first release. Changing these files means
//! that bundles people have published no longer read or no longer verify.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use gular_bundle::{
    About, Band, Bundle, BundlePath, DATA_DIR, Decimal, Digest, Dtype, Envelope, Field, FieldIdx, FieldName,
    MadeValue, Manifest, OpenOptions, Payload, ShardSpec, ShardWriter, Split, write_manifest,
};

const DIGEST: &str = "e8096d0ef7845fbfe09b511dcc69b531e08be03914c5d75177b58721c367dafd";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

fn fields() -> Vec<Field> {
    let mut mask = Field::fixed(FieldName::parse("mask").unwrap(), Dtype::U16, vec![2, 3]);
    mask.bands =
        vec![Band { name: "B04".into(), wavelength_nm: Some(Decimal::parse("664.6").unwrap()) }];
    mask.nodata = Some(Decimal::parse("-9999").unwrap());
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

fn write(dir: &Path) -> Digest {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data).unwrap();
    let mut shards = Vec::new();
    for (split, n) in [(Split::Train, 5), (Split::Val, 2)] {
        let mut writer =
            ShardWriter::create(&data, &ShardSpec::new(Envelope::Shards, split, &fields()))
                .unwrap();
        for i in 0..n {
            let key = BundlePath::parse(&format!("{split}/kläss {}/{i}.png", i % 2)).unwrap();
            let label = i64::from(i % 2).to_le_bytes();
            writer.push(&key, &[&image(split, i), &label, &[i; 12]]).unwrap();
        }
        shards.push(writer.finish().unwrap());
    }
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        fields: fields(),
        classes: vec!["kläss 0".into(), "kläss 1".into()],
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
fn the_writer_still_writes_version_1() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(write(dir.path()).hex(), DIGEST);
    assert!(files(dir.path()) == files(&golden()), "bytes differ from tests/golden/v1");
}

#[test]
fn the_reader_still_reads_version_1() {
    let digest = Some(Digest::parse(DIGEST).unwrap());
    let bundle = Bundle::open(&golden(), OpenOptions { digest, ..OpenOptions::default() }).unwrap();
    assert_eq!(bundle.manifest().fields, fields());
    let mut out = Vec::new();
    for (split, n) in [(Split::Train, 5), (Split::Val, 2)] {
        assert_eq!(bundle.n_samples(split), n);
        for i in 0..n as u8 {
            let id = bundle.locate(split, u64::from(i)).unwrap();
            assert_eq!(
                bundle.key(id).unwrap().as_str(),
                format!("{split}/kläss {}/{i}.png", i % 2)
            );
            bundle.read(id, FieldIdx(0), &mut out).unwrap();
            assert_eq!(out, image(split, i));
            bundle.read(id, FieldIdx(2), &mut out).unwrap();
            assert_eq!(out, [i; 12]);
            assert_eq!(bundle.shard(id.shard).unwrap().label(id.row), Some(i32::from(i % 2)));
        }
    }
}
