//! JPEG 2000 as arrays. `data/make.py` wrote the files.

use std::fs;
use std::path::{Path, PathBuf};

use gular_bundle::{Dtype, FieldKind};
use gular_pack::{Error, PlanOptions, Remedy, RunError, TileOptions};

use crate::scenes::arrays;
use crate::support::{run, samples};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn numbers_and_places_are_those_of_the_file() {
    let place = [600_000.0, 10.0, 0.0, 5_300_040.0, 0.0, -10.0_f64];
    for (name, dtype, shape, has_place) in [
        ("tiled", Dtype::U16, [90, 70, 1], true),
        ("gml", Dtype::U16, [13, 11, 3], true),
        ("signed", Dtype::I16, [13, 11, 2], true),
        ("alpha", Dtype::U8, [13, 11, 4], false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("in");
        fs::create_dir(&source).unwrap();
        fs::copy(file(&format!("{name}.jp2")), source.join("a.jp2")).unwrap();
        run(&source, &dir.path().join("out"), arrays(), 1).unwrap();
        let (bundle, found) = samples(&dir.path().join("out"));
        let image = &bundle.manifest().fields[0];
        let kind = FieldKind::Fixed { dtype, shape: shape.to_vec() };
        assert_eq!(image.kind, kind, "{name}");
        let (_, values) = &found["a.jp2"];
        let numbers = (0..shape.iter().product::<u64>()).map(|j| (911 * j % 65_521) as u16);
        let bytes = numbers.flat_map(|number| match dtype {
            Dtype::U8 => number.to_le_bytes()[..1].to_vec(),
            _ => number.to_le_bytes().to_vec(),
        });
        assert_eq!(values[0], bytes.collect::<Vec<u8>>(), "{name}");
        if has_place {
            let place: Vec<u8> = place.iter().flat_map(|n| n.to_le_bytes()).collect();
            assert_eq!(values[1..], [b"EPSG:32633".to_vec(), place], "{name}");
        } else {
            assert_eq!(values.len(), 1);
        }
    }
}

#[test]
fn only_tiff_is_cut_into_tiles() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("in");
    fs::create_dir(&source).unwrap();
    fs::copy(file("tiled.jp2"), source.join("a.jp2")).unwrap();
    let tile = Some(TileOptions { size: 32, overlap: 0, min_valid: 0.0, block: None });
    let error = run(&source, &dir.path().join("out"), PlanOptions { tile, ..arrays() }, 1);
    assert!(error.unwrap_err().to_string().contains("`a.jp2` is not a TIFF"));
}

#[test]
fn damaged_and_large_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("in");
    fs::create_dir(&source).unwrap();
    let whole = fs::read(file("gml.jp2")).unwrap();
    let pack = |bytes: &[u8], max_pixels| {
        fs::write(source.join("a.jp2"), bytes).unwrap();
        let out = tempfile::tempdir().unwrap();
        run(&source, &out.path().join("out"), PlanOptions { max_pixels, ..arrays() }, 1)
    };
    for at in (0..whole.len()).step_by(131) {
        assert!(pack(&whole[..at], 1 << 20).is_err(), "{at}");
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        drop(pack(&bytes, 1 << 20));
    }
    assert!(pack(&whole, 13 * 11 * 3).is_ok());
    let Err(Error::Run(RunError::BadInputs(bad))) = pack(&whole, 13 * 11 * 3 - 1) else { panic!() };
    assert_eq!(bad.named[0].remedy, Remedy::AllowMorePixels, "{bad:?}");
}
