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
fn tiles_are_parts_of_the_whole_scene() {
    let dir = tempfile::tempdir().unwrap();
    let whole = |name: &str| {
        let one = dir.path().join(format!("only-{name}"));
        fs::create_dir(&one).unwrap();
        fs::copy(file(&format!("{name}.jp2")), one.join("a.jp2")).unwrap();
        let out = dir.path().join(format!("{name}-out"));
        run(&one, &out, arrays(), 1).unwrap();
        samples(&out).1["a.jp2"].1.clone()
    };
    let tile = Some(TileOptions { size: 16, overlap: 4, min_valid: 0.0, block: None });
    let plan = PlanOptions { tile, ..arrays() };
    for (name, (height, width), bands, n) in
        [("tiled", (90, 70), 1, 8 * 6), ("gml", (13, 11), 3, 1)]
    {
        let source = dir.path().join(format!("{name}-alone"));
        fs::create_dir(&source).unwrap();
        fs::copy(file(&format!("{name}.jp2")), source.join("s.jp2")).unwrap();
        let out = dir.path().join(format!("{name}-tiles"));
        run(&source, &out, plan.clone(), 3).unwrap();
        let (_, found) = samples(&out);
        assert_eq!(found.len(), n, "{name}");
        let scene = whole(name);
        for (key, (_, values)) in found {
            let (row, column) = key.rsplit_once("/r").unwrap().1.split_once("_c").unwrap();
            let [top, left] = [row, column].map(|n| n.parse::<usize>().unwrap());
            for y in 0..16 {
                for x in 0..16 * bands {
                    let [tile, part] = [
                        (y * 16 * bands + x) * 2,
                        ((top + y) * width * bands + left * bands + x) * 2,
                    ];
                    let is_inside = top + y < height && left * bands + x < width * bands;
                    let expected = if is_inside { &scene[0][part..part + 2] } else { &[0, 0] };
                    assert_eq!(&values[0][tile..tile + 2], expected, "{key} {x} {y}");
                }
            }
            let at = |value: &[u8], n: usize| f64::from_le_bytes(value.as_chunks().0[n]);
            let corner = [at(&values[2], 0), at(&values[2], 3)];
            let (x, y) = (10.0 * left as f64, 10.0 * top as f64);
            assert_eq!(corner, [at(&scene[2], 0) + x, at(&scene[2], 3) - y]);
        }
    }
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
