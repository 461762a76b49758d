//! Masks whose classes are colours.

use std::io::Cursor;
use std::path::Path;

use gular_bundle::{Dtype, MadeValue};
use gular_codec::tiff::{Geo, GeoTiffWriter, Number, Packing};
use gular_codec::{DecodeOptions, Decoder, encode_jpeg, encode_png};
use gular_pack::{
    Error, FieldFiles, Fit, Inputs, Labels, MaskColours, PayloadOptions, PlanOptions, RawOptions,
    Remedy, RunError, TileOptions,
};

use crate::fields::field;
use crate::support::{png, put, run, samples, small_shards};

/// Classes 0, 1 and 2 of a mask.
const COLOURS: [[u8; 3]; 3] = [[255, 255, 255], [0, 0, 255], [0, 255, 0]];

fn table(dir: &Path) -> MaskColours {
    put(dir, "colours.csv", b"name,r,g,b\nroad,255,255,255\nbuilding,0,0,255\ntree,0,255,0\n");
    MaskColours::read(&dir.join("colours.csv")).unwrap()
}

fn class(x: u32, y: u32) -> u8 {
    ((x / 3 + y) % 3) as u8
}

fn rgb((width, height): (u32, u32)) -> Vec<u8> {
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    pixels.flat_map(|(x, y)| COLOURS[usize::from(class(x, y))]).collect()
}

fn classes((width, height): (u32, u32)) -> Vec<u8> {
    (0..height).flat_map(|y| (0..width).map(move |x| class(x, y))).collect()
}

pub(crate) fn tiff(size: (u32, u32), bands: u16, pixels: &[u8]) -> Vec<u8> {
    let out = Cursor::new(Vec::new());
    let geo = Geo::default();
    let mut writer =
        GeoTiffWriter::new(out, size, bands, Number::U8, geo, Packing::Deflate).unwrap();
    writer.push(pixels).unwrap();
    writer.finish().unwrap().into_inner()
}

fn plan(fields: Vec<FieldFiles>, colours: Option<MaskColours>) -> PlanOptions {
    PlanOptions { fields, mask_colours: colours, labels: Labels::None, ..small_shards() }
}

#[test]
fn colours_become_classes() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = (dir.path().join("images"), dir.path().join("masks"));
    let size = (12, 9);
    for i in 0..3 {
        put(&images, &format!("{i}.png"), &png(i));
    }
    put(&masks, "0.png", &encode_png(&rgb(size), 12, 9).unwrap());
    put(&masks, "1.png", &encode_png(&rgb(size), 12, 9).unwrap());
    put(&masks, "2.tif", &tiff(size, 3, &rgb(size)));
    let fields = vec![field("mask", &masks, "")];
    let Err(Error::Run(RunError::BadInputs(bad))) =
        run(&images, &dir.path().join("none"), plan(fields.clone(), None), 1)
    else {
        panic!("colours without a table");
    };
    assert_eq!(bad.named[0].remedy, Remedy::NameColours);

    let out = dir.path().join("out");
    run(&images, &out, plan(fields.clone(), Some(table(dir.path()))), 2).unwrap();
    let (bundle, found) = samples(&out);
    let made = &bundle.manifest().made["mask_colours"];
    let expected = "0=255,255,255 road; 1=0,0,255 building; 2=0,255,0 tree";
    assert_eq!(*made, MadeValue::Text(expected.to_owned()));
    let mut decoder = Decoder::new(DecodeOptions::default());
    for (_, values) in found.values() {
        let (found_size, found) = decoder.decode_values(&values[1]).unwrap();
        let found: Vec<u8> = found.into_iter().map(|v| u8::try_from(v).unwrap()).collect();
        assert_eq!((found_size, found), (size, classes(size)));
    }

    let raw = RawOptions { width: 12, height: 9, fit: Fit::Stretch, channels: 3, depth: None };
    let raw = PlanOptions {
        payload: PayloadOptions::Raw(raw),
        ..plan(fields.clone(), Some(table(dir.path())))
    };
    let out = dir.path().join("raw");
    run(&images, &out, raw, 1).unwrap();
    let (bundle, found) = samples(&out);
    assert_eq!(bundle.manifest().fields[1].as_fixed(), Some((Dtype::U8, &[9, 12][..])));
    assert!(found.values().all(|(_, values)| values[1] == classes(size)));

    let refuse = |bytes: &[u8], expected: &str| {
        put(&masks, "1.png", bytes);
        let plan = plan(fields.clone(), Some(table(dir.path())));
        let error = run(&images, &dir.path().join("bad"), plan, 1).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let mut other = rgb(size);
    other[(2 * 12 + 5) * 3] ^= 1;
    refuse(&encode_png(&other, 12, 9).unwrap(), "its pixel (5, 2) has the colour");
    refuse(&encode_jpeg(&rgb(size), 12, 9, 90).unwrap(), "it is a JPEG, which changes colours");
    refuse(&encode_png(&rgb((12, 8)), 12, 8).unwrap(), "12 x 8");
}

#[test]
fn scenes_have_masks_in_colour() {
    let dir = tempfile::tempdir().unwrap();
    let (scenes, masks) = (dir.path().join("scenes"), dir.path().join("masks"));
    let size = (20, 10);
    put(&scenes, "a.tif", &tiff(size, 1, &[7; 200]));
    put(&masks, "a.tif", &tiff(size, 3, &rgb(size)));
    let tile = TileOptions { size: 12, overlap: 0, min_valid: 0.0, block: None };
    let tiled = PlanOptions {
        inputs: Inputs::Arrays,
        tile: Some(tile),
        ..plan(vec![field("mask", &masks, "")], Some(table(dir.path())))
    };
    let out = dir.path().join("out");
    run(&scenes, &out, tiled, 1).unwrap();
    let (bundle, found) = samples(&out);
    assert_eq!(bundle.manifest().fields[1].as_fixed(), Some((Dtype::U8, &[12, 12][..])));
    let (_, values) = &found["a.tif/r000000_c000008"];
    for (at, found) in values[1].iter().enumerate() {
        let (x, y) = (at as u32 % 12 + 8, at as u32 / 12);
        // The last rows are beyond the scene.
        assert_eq!(*found, if y < 10 { class(x, y) } else { 255 }, "({x}, {y})");
    }
}

#[test]
fn grey_tiff_masks_have_colours_too() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = (dir.path().join("images"), dir.path().join("masks"));
    put(dir.path(), "grey.csv", b"no,0,0,0\nyes,255,255,255\n");
    let table = MaskColours::read(&dir.path().join("grey.csv")).unwrap();
    let (size, values) = ((12, 9), |n: u32| (0..n).map(|i| if i % 3 == 0 { 255 } else { 0 }));
    put(&images, "0.png", &png(0));
    put(&masks, "0.tif", &tiff(size, 1, &values(108).collect::<Vec<u8>>()));
    let options = plan(vec![field("mask", &masks, "")], Some(table.clone()));
    let out = dir.path().join("out");
    run(&images, &out, options.clone(), 1).unwrap();
    let expected: Vec<u16> = (0..108).map(|i| u16::from(i % 3 == 0)).collect();
    let mut decoder = Decoder::new(DecodeOptions::default());
    for (_, found) in samples(&out).1.values() {
        assert_eq!(decoder.decode_values(&found[1]).unwrap(), (size, expected.clone()));
    }

    let (scenes, cut) = (dir.path().join("scenes"), dir.path().join("cut"));
    put(&scenes, "0.tif", &tiff(size, 1, &[7; 108]));
    let tile = TileOptions { size: 9, overlap: 0, min_valid: 0.0, block: None };
    let tiled = PlanOptions { inputs: Inputs::Arrays, tile: Some(tile), ..options };
    run(&scenes, &cut, tiled, 1).unwrap();
    let (_, found) = samples(&cut);
    let (_, values) = &found["0.tif/r000000_c000000"];
    let expected: Vec<u8> = (0..81).map(|i| u8::from((i / 9 * 12 + i % 9) % 3 == 0)).collect();
    assert_eq!(values[1], expected);
}

#[test]
fn a_table_of_colours_needs_masks() {
    let dir = tempfile::tempdir().unwrap();
    let images = dir.path().join("images");
    put(&images, "1.png", &png(1));
    let plan = plan(Vec::new(), Some(table(dir.path())));
    let error = run(&images, &dir.path().join("out"), plan, 1).unwrap_err();
    assert!(error.to_string().contains("but no masks"), "{error}");
}
