//! TIFF scenes: packed whole, and cut into tiles with all their fields.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Cursor};
use std::sync::atomic::AtomicBool;

use crate::fields::field;
use crate::support::{Samples, files, put, run, samples, small_shards};
use gular_bundle::{Dtype, FieldName, MadeValue, Split, npy_header};
use gular_codec::tiff::{Geo, GeoTiffWriter, Number, Packing};
use gular_codec::{encode_jpeg, jpeg_backend};
use gular_pack::{
    BandNames, DeriveOptions, Error, FieldFiles, FractionsBy, Inputs, LabelColumn, Labels,
    OnBadInput, PlanOptions, RunError, TableOptions, TileOptions, derive,
};

pub(crate) fn geo(x: f64) -> Geo {
    Geo {
        transform: Some([x, 10.0, 0.0, 9000.0, 0.0, -10.0]),
        crs: Some("EPSG:32632".into()),
        nodata: Some(-9.0),
        bands: vec!["B04".into(), "B08".into()],
        ..Geo::default()
    }
}

/// Two bands of i16: column and row, both nodata from column `end` on.
pub(crate) fn scene(size: (u32, u32), end: u32, geo: Geo) -> Vec<u8> {
    scene_with(size, end, geo, (0, 0, 0))
}

/// Returns such a scene with one different pixel: its column, its row, and the value of its first
/// band.
pub(crate) fn scene_with(size: (u32, u32), end: u32, geo: Geo, other: (u32, u32, i16)) -> Vec<u8> {
    let out = Cursor::new(Vec::new());
    let mut writer = GeoTiffWriter::new(out, size, 2, Number::I16, geo, Packing::Deflate).unwrap();
    for y in 0..size.1 {
        let pixel = |x: u32| match (x, y) {
            (x, y) if (x, y) == (other.0, other.1) => [other.2, y as i16],
            (x, y) if x < end => [x as i16, y as i16],
            _ => [-9, -9],
        };
        let row: Vec<u8> = (0..size.0).flat_map(pixel).flat_map(i16::to_le_bytes).collect();
        writer.push(&row).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

pub(crate) fn classes(size: (u32, u32)) -> Vec<u8> {
    let out = Cursor::new(Vec::new());
    let geo = Geo::default();
    let mut writer = GeoTiffWriter::new(out, size, 1, Number::U8, geo, Packing::None).unwrap();
    for y in 0..size.1 {
        writer.push(&(0..size.0).map(|x| (x / 7 + y) as u8).collect::<Vec<u8>>()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Three bands of 8 bits in one strip, which is a JPEG.
fn with_jpeg(size: (u32, u32)) -> Vec<u8> {
    let strip = encode_jpeg(&vec![90; (size.0 * size.1 * 3) as usize], size.0, size.1, 80).unwrap();
    let at = (8 + strip.len()).next_multiple_of(2);
    let mut tiff = [b"II*\0".as_slice(), &(at as u32).to_le_bytes(), &strip].concat();
    tiff.resize(at, 0);
    let (short, long) = (3_u16, 4_u16);
    let entries = [
        (256_u16, long, size.0),
        (257, long, size.1),
        (258, short, 8),
        (259, short, 7),
        (262, short, 6),
        (273, long, 8),
        (277, short, 3),
        (278, long, size.1),
        (279, long, strip.len() as u32),
    ];
    tiff.extend((entries.len() as u16).to_le_bytes());
    for (tag, kind, value) in entries {
        tiff.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
        tiff.extend([1_u32.to_le_bytes(), value.to_le_bytes()].concat());
    }
    tiff.extend([0; 4]);
    tiff
}

/// The positions of the first directory's entries in a TIFF, and of the offset of the next directory.
fn directory(tiff: &[u8]) -> (Vec<usize>, usize) {
    let at = u32::from_le_bytes(tiff[4..8].try_into().unwrap()) as usize;
    let n = usize::from(u16::from_le_bytes(tiff[at..at + 2].try_into().unwrap()));
    ((0..n).map(|i| at + 2 + 12 * i).collect(), at + 2 + 12 * n)
}

/// Adds an overview and then a mask of one bit, as GDAL does, to a TIFF of this size.
fn with_mask(mut tiff: Vec<u8>, size: (u32, u32), valid: impl Fn(u32, u32) -> bool) -> Vec<u8> {
    let mut next = directory(&tiff).1;
    for (kind, (width, height)) in [(1_u32, (2, 1)), (4, size)] {
        let data = tiff.len() as u32;
        for y in 0..height {
            let bit = |x: u32| u8::from(x < width && valid(x, y)) << (7 - x % 8);
            let byte = |x: u32| (x..x + 8).fold(0, |byte, x| byte | bit(x));
            tiff.extend((0..width).step_by(8).map(byte));
        }
        let len = tiff.len() as u32 - data;
        tiff.resize(tiff.len().next_multiple_of(2), 0);
        let at = (tiff.len() as u32).to_le_bytes();
        tiff[next..next + 4].copy_from_slice(&at);
        let entries = [
            (254_u16, kind),
            (256, width),
            (257, height),
            (258, 1),
            (259, 1),
            (262, if kind == 4 { 4 } else { 1 }),
            (273, data),
            (277, 1),
            (278, height),
            (279, len),
        ];
        tiff.extend((entries.len() as u16).to_le_bytes());
        for (tag, value) in entries {
            tiff.extend([tag.to_le_bytes(), 4_u16.to_le_bytes()].concat());
            tiff.extend([1_u32.to_le_bytes(), value.to_le_bytes()].concat());
        }
        next = tiff.len();
        tiff.extend([0; 4]);
    }
    tiff
}

/// Says that the second of two bands is alpha.
fn with_alpha(mut tiff: Vec<u8>) -> Vec<u8> {
    let (entries, _) = directory(&tiff);
    let extra = entries.into_iter().find(|at| tiff[*at..*at + 2] == 338_u16.to_le_bytes());
    let value = extra.unwrap() + 8;
    tiff[value..value + 2].copy_from_slice(&2_u16.to_le_bytes());
    tiff
}

fn statistics(out: &std::path::Path) -> (u64, Vec<u64>, Vec<String>) {
    let bundle = samples(out).0;
    let found = bundle.manifest().statistics.clone().unwrap();
    (found.pixels, found.counts, found.sum.iter().map(|n| n.as_str().to_owned()).collect())
}

#[test]
fn statistics_are_of_pixels_that_have_a_value() {
    let dir = tempfile::tempdir().unwrap();
    let size = (16, 12);
    let none = || Geo { nodata: None, ..geo(0.0) };
    let packed = |name: &str, file: &[u8], tile: Option<u32>, min_valid: f64| {
        let source = dir.path().join(name);
        put(&source, "a.tif", file);
        let tile = tile.map(|size| TileOptions { size, overlap: 0, min_valid, block: None });
        let out = dir.path().join(format!("{name}-out"));
        let report = run(&source, &out, PlanOptions { tile, ..arrays() }, 2).unwrap();
        (statistics(&out), report.samples)
    };
    let sums = |sums: [i64; 2]| sums.map(|n| n.to_string()).to_vec();
    // Columns 0 to 9, or all 16 of them, and rows 0 to 11.
    let (some, all) = (sums([12 * 45, 10 * 66]), sums([12 * 120, 16 * 66]));

    let nodata = scene(size, 10, geo(0.0));
    assert_eq!(packed("nodata", &nodata, None, 0.0), ((0, vec![120; 2], some.clone()), 1));
    let whole = scene(size, 16, geo(0.0));
    assert_eq!(packed("declared", &whole, None, 0.0), ((0, vec![192; 2], all.clone()), 1));
    let plain = scene(size, 16, none());
    assert_eq!(packed("plain", &plain, None, 0.0), ((192, Vec::new(), all.clone()), 1));
    let masked = with_mask(plain.clone(), size, |x, _| x < 10);
    assert_eq!(packed("masked", &masked, None, 0.0), ((0, vec![120; 2], some.clone()), 1));
    // Row 0 has alpha 0.
    let alpha = with_alpha(plain.clone());
    assert_eq!(packed("alpha", &alpha, None, 0.0), ((0, vec![176; 2], sums([11 * 120, 1056])), 1));

    // What is beyond the scene is neither a pixel nor valid.
    assert_eq!(packed("beyond", &plain, Some(20), 0.0), ((0, vec![192; 2], all.clone()), 1));
    assert_eq!(packed("corner", &masked, Some(20), 0.0), ((0, vec![120; 2], some), 1));
    // Of four tiles of 8 by 8 pixels, two have 16 valid pixels of 64 each.
    assert_eq!(packed("tiles", &masked, Some(8), 0.3).1, 2);
    assert_eq!(packed("all", &masked, Some(8), 0.25).1, 4);
    assert_eq!(packed("rows", &alpha, Some(8), 0.9).1, 2);
}

#[test]
fn floats_and_their_missing_values_are_summed_however_they_are_packed() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("src");
    for i in 0..40_u32 {
        let out = Cursor::new(Vec::new());
        let geo = Geo { nodata: Some(f64::NAN), ..Geo::default() };
        let mut tiff =
            GeoTiffWriter::new(out, (60, 50), 2, Number::F32, geo, Packing::None).unwrap();
        let value = |p: u32| match (p % 2, p % 7) {
            (1, 0) => f32::NAN,
            _ => (p as f32 + 0.1) * 1e-3 * (i as f32 + 0.7),
        };
        let bytes: Vec<u8> = (0..60 * 50 * 2).flat_map(|p| value(p).to_le_bytes()).collect();
        tiff.push(&bytes).unwrap();
        put(&source, &format!("{i:02}.tif"), tiff.finish().unwrap().get_ref());
    }
    let plan = || PlanOptions { shard_bytes: 1 << 20, ..arrays() };
    let digests: Vec<_> = [1, 4]
        .into_iter()
        .map(|jobs| run(&source, &dir.path().join(format!("{jobs}")), plan(), jobs).unwrap().digest)
        .collect();
    assert_eq!(digests[0], digests[1]);
    let bundle = samples(&dir.path().join("1")).0;
    assert_eq!(bundle.manifest().fields[0].nodata.as_ref().unwrap().as_str(), "NaN");
    let found = bundle.manifest().statistics.clone().unwrap();
    assert_eq!(found.counts, [40 * 3000, 40 * (3000 - 429)]);
    let expected: f64 = (0..40)
        .flat_map(|i| {
            (0..6000_u32).step_by(2).map(move |p| (p as f32 + 0.1) * 1e-3 * (i as f32 + 0.7))
        })
        .map(f64::from)
        .sum();
    let sum: f64 = found.sum[0].as_str().parse().unwrap();
    assert!((sum / expected - 1.0).abs() < 1e-12, "{sum}, not {expected}");
}

#[test]
fn mixed_folders_keep_what_their_files_say() {
    let dir = tempfile::tempdir().unwrap();
    let with = |bands: &[&str], nodata| {
        let bands = bands.iter().map(|name| (*name).to_owned()).collect();
        scene((4, 3), 4, Geo { bands, nodata, ..geo(0.0) })
    };
    let packed = |name: &str, files: &[Vec<u8>], band_names| {
        let source = dir.path().join(name);
        for (i, file) in files.iter().enumerate() {
            put(&source, &format!("{i}.tif"), file);
        }
        let out = dir.path().join(format!("{name}-out"));
        let report = run(&source, &out, PlanOptions { band_names, ..arrays() }, 2);
        report.map(|_| samples(&out))
    };
    let (nine, compare) = (Some(-9.0), BandNames::Compare);
    let files = [with(&["B04", "B08"], nine), with(&["B08", "B04"], nine)];
    let (bundle, found) = packed("order", &files, compare).unwrap();
    let names = |bundle: &gular_bundle::Bundle| -> Vec<String> {
        bundle.manifest().fields[0].bands.iter().map(|band| band.name.clone()).collect()
    };
    assert_eq!(names(&bundle), ["B04", "B08"]);
    assert_eq!(numbers(&found["0.tif"].1[0])[..4], [0, 0, 1, 0]);
    assert_eq!(numbers(&found["1.tif"].1[0])[..4], [0, 0, 0, 1]);
    let (bundle, found) = packed("ignored", &files, BandNames::Ignore).unwrap();
    assert_eq!(names(&bundle), [""; 0]);
    assert_eq!(numbers(&found["1.tif"].1[0])[..4], [0, 0, 1, 0]);
    let refused = |name: &str, second: &[&str], words: &str| {
        let files = [with(&["B04", "B08"], nine), with(second, nine)];
        let error = packed(name, &files, compare).unwrap_err().to_string();
        assert!(error.contains("`1.tif`") && error.contains(words), "{error}");
        assert!(packed(&format!("{name}-ignored"), &files, BandNames::Ignore).is_ok());
    };
    refused("others", &["B04", "B12"], "its bands are `B04`, `B12`, and those of the first array");
    refused("unnamed", &[], "it does not name its bands");

    let bands = ["B04", "B08"];
    let files = [with(&bands, nine), with(&bands, Some(0.0)), with(&bands, None)];
    let (bundle, found) = packed("nodata", &files, compare).unwrap();
    let fields = &bundle.manifest().fields;
    assert_eq!(fields[0].nodata, None);
    assert_eq!(fields[3].name.as_str(), "image_nodata");
    let nodata = ["0.tif", "1.tif", "2.tif"].map(|key| doubles(&found[key].1[3])[0]);
    assert!(nodata[..2] == [-9.0, 0.0] && nodata[2].is_nan(), "{nodata:?}");
    // Column 0 and row 0 are 0.
    let statistics = bundle.manifest().statistics.clone().unwrap();
    assert_eq!(statistics.counts, [12 + 9 + 12, 12 + 8 + 12]);
    let large = [with(&bands, Some(f64::MIN))];
    let (bundle, _) = packed("large", &large, compare).unwrap();
    let nodata = bundle.manifest().fields[0].nodata.clone().unwrap();
    assert_eq!(nodata.as_str(), "-1.7976931348623157e308");
}

pub(crate) fn arrays() -> PlanOptions {
    PlanOptions { inputs: Inputs::Arrays, labels: Labels::None, ..small_shards() }
}

fn numbers(bytes: &[u8]) -> Vec<i16> {
    bytes.as_chunks().0.iter().map(|pair| i16::from_le_bytes(*pair)).collect()
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|eight| f64::from_le_bytes(*eight)).collect()
}

#[test]
fn whole_files_keep_their_numbers_and_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("tiff");
    for i in 0..3 {
        put(&source, &format!("{i}.tif"), &scene((30, 20), 25, geo(f64::from(i))));
    }
    let out = dir.path().join("out");
    run(&source, &out, arrays(), 2).unwrap();
    let (bundle, found) = samples(&out);
    let image = &bundle.manifest().fields[0];
    assert_eq!(image.as_fixed(), Some((Dtype::I16, &[20, 30, 2][..])));
    assert_eq!(image.nodata.as_ref().unwrap().as_str(), "-9");
    let bands: Vec<&str> = image.bands.iter().map(|band| band.name.as_str()).collect();
    assert_eq!(bands, ["B04", "B08"]);
    let names: Vec<&str> = bundle.manifest().fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["image", "image_crs", "image_transform"]);
    let (_, values) = &found["2.tif"];
    assert_eq!(numbers(&values[0])[(3 * 30 + 5) * 2..][..2], [5, 3]);
    assert_eq!(values[1], b"EPSG:32632");
    assert_eq!(doubles(&values[2]), [2.0, 10.0, 0.0, 9000.0, 0.0, -10.0]);
    put(&source, "3.tif", &scene((30, 21), 25, geo(3.0)));
    let mixed = run(&source, &dir.path().join("mixed"), arrays(), 2).unwrap_err().to_string();
    assert!(mixed.contains("3 are i16 [20, 30, 2], such as `0.tif`; 1 of another"), "{mixed}");
}

#[test]
fn of_jpeg_in_tiff_the_decoder_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let made = |source: &str, fields: Vec<FieldFiles>| {
        let out = dir.path().join("out");
        let plan = PlanOptions { fields, ..arrays() };
        run(&dir.path().join(source), &out, plan, 1).map(|_| {
            let made = samples(&out).0.manifest().made.get("decoder").cloned();
            std::fs::remove_dir_all(&out).unwrap();
            made
        })
    };
    let beside = |name: &str| FieldFiles {
        name: FieldName::parse(name).unwrap(),
        files: Some(dir.path().join("jpeg")),
        pattern: None,
    };
    put(dir.path(), "jpeg/a.tif", &with_jpeg((16, 8)));
    put(dir.path(), "plain/a.tif", &scene((16, 8), 16, geo(0.0)));
    let decoder = Some(MadeValue::Text(jpeg_backend().to_owned()));
    assert_eq!(made("plain", Vec::new()).unwrap(), None);
    assert_eq!(made("jpeg", Vec::new()).unwrap(), decoder);
    assert_eq!(made("plain", vec![beside("colour")]).unwrap(), decoder);
    let mask = made("plain", vec![beside("mask")]).unwrap_err().to_string();
    assert!(mask.contains("mask `a.tif` is compressed by JPEG"), "{mask}");
}

#[test]
fn tiles_are_the_windows_of_their_scenes() {
    let dir = tempfile::tempdir().unwrap();
    let (source, masks) = (dir.path().join("scenes"), dir.path().join("masks"));
    let sizes = [(90, 70), (40, 40), (33, 100), (64, 64), (20, 20)];
    for (i, size) in sizes.into_iter().enumerate() {
        put(&source, &format!("n/{i}.tif"), &scene(size, 60, geo(0.0)));
        put(&masks, &format!("n/{i}.tiff"), &classes(size));
    }
    put(&masks, "n/none.tiff", &classes((20, 20)));
    let mask = FieldFiles {
        name: FieldName::parse("mask").unwrap(),
        files: Some(masks.clone()),
        pattern: None,
    };
    let plan = PlanOptions {
        tile: Some(TileOptions { size: 32, overlap: 8, min_valid: 0.5, block: None }),
        fields: vec![mask],
        fractions: vec![(Split::Train, 0.5), (Split::Val, 0.5)],
        fractions_by: FractionsBy::Hash,
        ..arrays()
    };
    let out = dir.path().join("out");
    let report = run(&source, &out, plan.clone(), 3).unwrap();
    let warned = report.warnings.iter().any(|w| w.contains("1 file belongs to no image"));
    assert!(warned, "{:?}", report.warnings);
    let (bundle, found) = samples(&out);
    assert_eq!(bundle.manifest().fields[0].as_fixed(), Some((Dtype::I16, &[32, 32, 2][..])));
    assert_eq!(bundle.manifest().fields[1].as_fixed(), Some((Dtype::U8, &[32, 32][..])));
    assert_eq!(bundle.manifest().made["tile"], MadeValue::Number(32));
    assert_eq!(bundle.manifest().made["min_valid"], MadeValue::Text("0.5".into()));
    let mut splits: BTreeMap<&str, Split> = BTreeMap::new();
    for (key, (split, values)) in &found {
        let (scene, place) = key.rsplit_once('/').unwrap();
        assert_eq!(splits.entry(scene).or_insert(*split), split, "{key}");
        let (row, column) = place[1..].split_once("_c").unwrap();
        let (row, column): (i16, i16) = (row.parse().unwrap(), column.parse().unwrap());
        let size = sizes[usize::from(scene.as_bytes()[2] - b'0')];
        let pixels = numbers(&values[0]);
        for y in 0..32 {
            for x in 0..32 {
                let at = ((y * 32 + x) * 2) as usize;
                let inside =
                    column + x < 60 && column + x < size.0 as i16 && row + y < size.1 as i16;
                let expected = if inside { [column + x, row + y] } else { [-9, -9] };
                assert_eq!(pixels[at..at + 2], expected, "{key} {x} {y}");
            }
        }
        let class = values[1][33];
        if size.0 > 20 {
            assert_eq!(class, ((column + 1) / 7 + row + 1) as u8, "{key}");
        }
        let corner = doubles(&values[3]);
        assert_eq!(
            (corner[0], corner[3]),
            (f64::from(column) * 10.0, 9000.0 - f64::from(row) * 10.0)
        );
    }
    // The first scene has columns 0, 24, 48 and 58, and rows 0, 24 and 38; tiles from column 48 on
    // are empty. The last scene is smaller than a tile: 400 of 1024 pixels.
    assert_eq!(report.empty_tiles, 2 * 3 + 1);
    assert_eq!(report.samples, found.len() as u64);
    assert!(found.contains_key("n/0.tif/r000038_c000024"));
    assert_eq!(found.len() as u64, 6 + 4 + 2 * 4 + 9);
    let again = dir.path().join("again");
    run(&source, &again, plan.clone(), 1).unwrap();
    assert!(files(&again) == files(&out));
    // Split later, all tiles of a scene come where packing has them.
    let (whole, later) = (dir.path().join("whole"), dir.path().join("later"));
    run(&source, &whole, PlanOptions { fractions: Vec::new(), ..plan.clone() }, 1).unwrap();
    let options = DeriveOptions {
        fractions: plan.fractions.clone(),
        ..DeriveOptions::new(dir.path().to_owned())
    };
    derive(&[whole], &later, &options, &|_| {}, &AtomicBool::new(false)).unwrap();
    let split = |(key, (split, _)): (String, (Split, _))| (key, split);
    let of = |found: Samples| found.into_iter().map(split).collect::<Vec<_>>();
    assert_eq!(of(samples(&later).1), of(found));

    put(&masks, "n/1.tiff", &classes((40, 41)));
    std::fs::write(source.join("n/2.tif"), b"II*\0\x08\0\0\0").unwrap();
    let error = run(&source, &dir.path().join("bad"), plan.clone(), 2).unwrap_err().to_string();
    assert!(error.contains("n/2.tif") || error.contains("it has 40 x 41 pixels"), "{error}");
    let skip = PlanOptions { on_error: OnBadInput::Skip, ..plan };
    let report = run(&source, &dir.path().join("skip"), skip, 2).unwrap();
    assert_eq!((report.samples, report.skipped), (6 + 9, 4 + 1));
}

#[test]
fn a_mask_that_is_smaller_than_its_scene_is_named_with_both_sizes() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "s/a.tif", &scene((60, 20), 60, geo(0.0)));
    put(dir.path(), "m/a.tif", &classes((20, 20)));
    let name = FieldName::parse("mask").unwrap();
    let mask = FieldFiles { name, files: Some(dir.path().join("m")), pattern: None };
    let tile = TileOptions { size: 20, overlap: 0, min_valid: 0.0, block: None };
    let plan = PlanOptions { tile: Some(tile), fields: vec![mask], ..arrays() };
    let error = run(&dir.path().join("s"), &dir.path().join("out"), plan, 1).unwrap_err();
    let Error::Run(RunError::BadInputs(bad)) = &error else { panic!("{error}") };
    assert_eq!(bad.n, 3, "{error}");
    let reason = "its `mask`, `a.tif`: it has 20 x 20 pixels, but its image has 60 x 20";
    assert!(bad.named.iter().all(|bad| bad.reason == reason), "{error}");
}

#[test]
fn tiles_have_the_label_of_their_scene() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "s/1_wood.tif", &scene((40, 20), 40, geo(0.0)));
    put(dir.path(), "s/2_lake.tif", &scene((20, 40), 40, geo(0.0)));
    let tile = TileOptions { size: 20, overlap: 0, min_valid: 0.0, block: None };
    // The end of a scene's path; a tile's key has more text after it.
    let images = vec!["{key}_{label}.tif".parse().unwrap()];
    let plan = PlanOptions { tile: Some(tile), labels: Labels::Path, images, ..arrays() };
    let out = dir.path().join("out");
    run(&dir.path().join("s"), &out, plan, 1).unwrap();
    let (bundle, found) = samples(&out);
    assert_eq!(bundle.manifest().classes, ["lake", "wood"]);
    let labels: Vec<i64> =
        found.values().map(|(_, v)| i64::from_le_bytes(*v[1].first_chunk().unwrap())).collect();
    assert_eq!(labels, [1, 1, 0, 0]);
}

#[test]
fn a_table_says_labels_and_splits_of_scenes() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        put(dir.path(), &format!("scenes/{name}.tif"), &scene((40, 20), 25, geo(0.0)));
    }
    put(dir.path(), "t.csv", b"file,split,label,site\na.tif,train,wet,north\nb.tif,val,dry,south\nc.tif,train,dry,east\n");
    let table = TableOptions {
        files: vec![dir.path().join("t.csv")],
        split: Some("split".to_owned()),
        label: LabelColumn::Named("label".to_owned()),
        ..TableOptions::default()
    };
    let tile = Some(TileOptions { size: 20, overlap: 0, min_valid: 0.0, block: None });
    let plan = PlanOptions { labels: Labels::Table(table), tile, ..arrays() };
    let out = dir.path().join("out");
    let report = run(&dir.path().join("scenes"), &out, plan, 2).unwrap();
    assert_eq!((report.samples, report.unused_rows), (6, 0));
    let (bundle, found) = samples(&out);
    let site = bundle.manifest().fields.iter().position(|f| f.name.as_str() == "site").unwrap();
    for (key, (split, values)) in found {
        let (expected, label, place) = match key.as_bytes()[0] {
            b'a' => (Split::Train, 1, "north"),
            b'b' => (Split::Val, 0, "south"),
            _ => (Split::Train, 0, "east"),
        };
        assert_eq!(
            (split, values[1][0], values[site].as_slice()),
            (expected, label, place.as_bytes())
        );
    }
}

#[test]
fn blocks_of_one_scene_fall_into_splits_and_share_no_pixel() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "s/a.tif", &scene((130, 90), 25, geo(0.0)));
    let tile = TileOptions { size: 16, overlap: 6, min_valid: 0.0, block: Some(40) };
    let fractions = vec![(Split::Train, 0.6), (Split::Val, 0.4)];
    let plan = PlanOptions { tile: Some(tile), fractions, ..arrays() };
    let out = dir.path().join("out");
    run(&dir.path().join("s"), &out, plan.clone(), 2).unwrap();
    let (bundle, found) = samples(&out);
    assert_eq!(bundle.manifest().made["block"], MadeValue::Number(40));
    let mut pixels = BTreeMap::new();
    for (key, (split, _)) in &found {
        let (row, column) = key["a.tif/r".len()..].split_once("_c").unwrap();
        let (row, column): (u32, u32) = (row.parse().unwrap(), column.parse().unwrap());
        for at in (row..row + 16).flat_map(|y| (column..column + 16).map(move |x| (x, y))) {
            assert_eq!(*pixels.entry(at).or_insert(*split), *split, "{key} {at:?}");
        }
    }
    // Every pixel is in a tile, and both splits have some.
    assert_eq!(pixels.len(), 130 * 90);
    assert!([Split::Train, Split::Val].iter().all(|one| pixels.values().any(|split| split == one)));

    let alone = PlanOptions { fractions: Vec::new(), ..plan };
    let refused = run(&dir.path().join("s"), &dir.path().join("other"), alone, 1).unwrap_err();
    assert!(refused.to_string().contains("no fractions"), "{refused}");
}

#[test]
fn tiles_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "s/a.tif", &scene((30, 20), 25, geo(0.0)));
    let check = |tile: TileOptions, inputs: Inputs, words: &str| {
        let plan = PlanOptions { tile: Some(tile), inputs, ..arrays() };
        let refused = run(&dir.path().join("s"), &dir.path().join("out"), plan, 1);
        assert!(
            matches!(&refused, Err(Error::Run(RunError::Setting { text, .. })) if text.contains(words)),
            "{refused:?}"
        );
    };
    let tile = TileOptions { size: 16, overlap: 0, min_valid: 0.0, block: None };
    check(TileOptions { overlap: 16, ..tile }, Inputs::Arrays, "overlap of 16");
    check(TileOptions { size: 0, ..tile }, Inputs::Arrays, "0 pixels");
    check(TileOptions { min_valid: 1.5, ..tile }, Inputs::Arrays, "1.5");
    check(tile, Inputs::Images, "in TIFF");
    let numbers = [npy_header(Dtype::U8, &[20, 30, 2]).as_slice(), &[0; 1200]].concat();
    put(dir.path(), "s/b.npy", &numbers);
    check(tile, Inputs::Arrays, "`b.npy` is not TIFF, JPEG 2000, PNG or JPEG");
}

#[test]
fn tiles_larger_than_a_value_may_be_are_refused_before_any_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let out = Cursor::new(Vec::new());
    let (size, packing) = ((4, 4), Packing::None);
    let mut writer = GeoTiffWriter::new(out, size, 8, Number::U8, Geo::default(), packing).unwrap();
    writer.push(&[7; 4 * 4 * 8]).unwrap();
    put(dir.path(), "s/a.tif", writer.finish().unwrap().get_ref());
    let tile = TileOptions { size: 16_384, overlap: 0, min_valid: 0.0, block: None };
    let plan = PlanOptions { tile: Some(tile), ..arrays() };
    let error = run(&dir.path().join("s"), &dir.path().join("out"), plan, 1).unwrap_err();
    assert!(error.to_string().contains("[16384, 16384, 8] is larger than 2147483647"), "{error}");
}

#[test]
fn tiles_of_half_floats_without_a_value_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    for (name, nodata, empty) in [("nan", None, 0x7e01_u16), ("nodata", Some(-9999.0), 0xf0e2)] {
        let (out, geo) = (Cursor::new(Vec::new()), Geo { nodata, ..Geo::default() });
        let mut writer =
            GeoTiffWriter::new(out, (8, 4), 1, Number::F16, geo, Packing::None).unwrap();
        let row = [[empty; 4], [0x3c00; 4]].concat();
        for _ in 0..4 {
            writer
                .push(&row.iter().flat_map(|bits| bits.to_le_bytes()).collect::<Vec<_>>())
                .unwrap();
        }
        put(dir.path(), &format!("{name}/a.tif"), writer.finish().unwrap().get_ref());
        let tile = TileOptions { size: 4, overlap: 0, min_valid: 0.5, block: None };
        let plan = PlanOptions { tile: Some(tile), ..arrays() };
        let out = dir.path().join(format!("{name}-out"));
        let report = run(&dir.path().join(name), &out, plan, 1).unwrap();
        assert_eq!((report.samples, report.empty_tiles), (1, 1), "{name}");
    }
}

/// 16 MB here, 10 GB with `GULAR_LONG_TESTS` set; most of it is sparse.
#[test]
fn a_scene_larger_than_what_is_kept_in_memory_is_cut() {
    let is_long = std::env::var_os("GULAR_LONG_TESTS").is_some();
    let side: u32 = if is_long { 50_000 } else { 2000 };
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    std::fs::create_dir(&source).unwrap();
    let file = BufWriter::new(File::create(source.join("a.tif")).unwrap());
    let nothing = Geo { nodata: Some(0.0), ..Geo::default() };
    let size = (side, side);
    let mut writer =
        GeoTiffWriter::new(file, size, 2, Number::U16, nothing, Packing::Deflate).unwrap();
    let mut row = vec![0; side as usize * 4];
    for y in 0..side {
        let on = y >= side - 100;
        row[side as usize * 4 - 400..].fill(u8::from(on));
        writer.push(&row).unwrap();
    }
    drop(writer.finish().unwrap());
    let tile = TileOptions { size: 1000, overlap: 0, min_valid: 0.01, block: None };
    let order = gular_pack::PackOrder::Sorted;
    let plan = PlanOptions { tile: Some(tile), order, shard_bytes: 1 << 30, ..arrays() };
    let report = run(&source, &dir.path().join("out"), plan, 1).unwrap();
    let tiles = u64::from(side / 1000).pow(2);
    assert_eq!((report.samples, report.empty_tiles), (1, tiles - 1));
}

#[test]
fn tiles_beside_whole_arrays_stay_in_one_split_when_they_are_derived_again() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for i in 0..6 {
        put(&at("scenes"), &format!("{i}.tif"), &scene((60, 50), 60, geo(0.0)));
    }
    put(&at("arrays"), "whole.tif", &scene((32, 32), 32, geo(0.0)));
    let tile = TileOptions { size: 32, overlap: 0, min_valid: 0.0, block: None };
    run(&at("scenes"), &at("tiles"), PlanOptions { tile: Some(tile), ..arrays() }, 1).unwrap();
    run(&at("arrays"), &at("whole"), arrays(), 1).unwrap();
    let never = AtomicBool::new(false);
    let options = DeriveOptions::new(dir.path().to_owned());
    derive(&[at("whole"), at("tiles")], &at("both"), &options, &|_| {}, &never).unwrap();
    let fractions = vec![(Split::Train, 0.5), (Split::Val, 0.5)];
    let options = DeriveOptions { fractions, ..options };
    derive(&[at("both")], &at("split"), &options, &|_| {}, &never).unwrap();
    let (_, found) = samples(&at("split"));
    let mut splits: BTreeMap<&str, Split> = BTreeMap::new();
    for (key, (split, _)) in found.iter().filter(|(key, _)| *key != "whole.tif") {
        let (scene, _) = key.rsplit_once('/').unwrap();
        assert_eq!(splits.entry(scene).or_insert(*split), split, "{key}");
    }
    let train = splits.values().filter(|split| **split == Split::Train).count();
    assert!(splits.len() == 6 && (1..6).contains(&train), "{splits:?}");
}

#[test]
fn scenes_in_an_archive_and_masks_of_other_formats_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, mut tar) = (dir.path().join("in"), tar::Builder::new(Vec::new()));
    let classes: Vec<u8> = (0..40 * 30).map(|i| (i % 7) as u8).collect();
    let forms = [
        ("png", gular_codec::encode_png(&classes, 40, 30).unwrap()),
        ("npy", [npy_header(Dtype::U8, &[30, 40]), classes.clone()].concat()),
        ("tif", {
            let (out, geo) = (Cursor::new(Vec::new()), Geo::default());
            let mut writer =
                GeoTiffWriter::new(out, (40, 30), 1, Number::U8, geo, Packing::None).unwrap();
            writer.push(&classes).unwrap();
            writer.finish().unwrap().into_inner()
        }),
    ];
    let image = scene((40, 30), 40, geo(0.0));
    put(&folder, "a.tif", &image);
    let mut header = tar::Header::new_gnu();
    header.set_size(image.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, "a.tif", image.as_slice()).unwrap();
    std::fs::write(dir.path().join("in.tar"), tar.into_inner().unwrap()).unwrap();
    let mut all = Vec::new();
    for (extension, mask) in &forms {
        put(dir.path(), &format!("{extension}/a.{extension}"), mask);
        for source in [&folder, &dir.path().join("in.tar")] {
            let files = dir.path().join(extension);
            // A second mask is a field on the image's pixels.
            let fields = vec![field("mask", &files, ""), field("zones", &files, "")];
            let out = dir.path().join(format!("out{}", all.len()));
            let tile = Some(TileOptions { size: 16, overlap: 0, min_valid: 0.0, block: None });
            run(source, &out, PlanOptions { fields, tile, ..arrays() }, 2).unwrap();
            all.push(samples(&out).1);
        }
    }
    assert_eq!(all[0].len(), 3 * 2);
    // The second tile of the second row ends at the edges.
    let values = &all[0]["a.tif/r000014_c000024"].1;
    let expected: Vec<u8> =
        (0..16).flat_map(|y| classes[(14 + y) * 40 + 24..][..16].to_vec()).collect();
    assert_eq!([&values[1], &values[2]], [&expected; 2]);
    assert!(all.iter().all(|other| *other == all[0]));
}

#[test]
fn png_and_jpeg_scenes_that_a_pattern_names_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("in");
    let colours: Vec<u8> = (0..40 * 30 * 3).map(|i| (i % 251) as u8).collect();
    let grey: Vec<u8> = (0..40 * 30).map(|i| (i % 251) as u8).collect();
    put(&source, "colour/a.png", &gular_codec::encode_png(&colours, 40, 30).unwrap());
    put(&source, "grey/a.png", &gular_codec::encode_png(&grey, 40, 30).unwrap());
    let jpeg = encode_jpeg(&colours, 40, 30, 90).unwrap();
    put(&source, "photo/a.jpg", &jpeg);
    let options = gular_codec::DecodeOptions::default();
    let photo = gular_codec::Decoder::new(options).decode(&jpeg).unwrap().into_data();
    let tile = Some(TileOptions { size: 16, overlap: 0, min_valid: 0.0, block: None });
    for (name, extension, pixels, bands) in
        [("colour", "png", &colours, 3), ("grey", "png", &grey, 1), ("photo", "jpg", &photo, 3)]
    {
        let images = vec![format!("{name}/{{key}}.{extension}").parse().unwrap()];
        let out = dir.path().join(name);
        let unmatched = gular_pack::Unlabelled::Skip;
        let plan = PlanOptions { images, tile, unlabelled: unmatched, ..arrays() };
        run(&source, &out, plan.clone(), 2).unwrap();
        let (bundle, found) = samples(&out);
        let decoder = bundle.manifest().made.get("decoder");
        assert_eq!(decoder.is_some(), extension == "jpg", "who made the numbers is told");
        let row = |y: usize| &pixels[(y * 40 + 24) * bands..][..16 * bands];
        let expected: Vec<u8> = (14..30).flat_map(|y| row(y).to_vec()).collect();
        assert_eq!(found.len(), 6, "{name}");
        assert_eq!(
            found[&format!("{name}/a.{extension}/r000014_c000024")].1[0],
            expected,
            "{name}"
        );
        // Whole, too.
        let out = dir.path().join(format!("{name}-whole"));
        run(&source, &out, PlanOptions { tile: None, ..plan }, 2).unwrap();
        assert_eq!(samples(&out).1[&format!("{name}/a.{extension}")].1[0], *pixels);
    }
    // Without a pattern, they are not arrays.
    assert!(run(&source, &dir.path().join("none"), arrays(), 1).is_err());
}
