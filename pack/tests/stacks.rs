//! Samples whose array is in several files: a file for each band, for each date, or for both.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use gular_bundle::{Axes, Dtype, Field, FieldName, Nodata};
use gular_codec::tiff::{Geo, GeoTiffWriter, Number, Packing};
use gular_pack::{
    Align, BandNames, Error, FieldColumns, FieldFiles, Inputs, LabelColumn, Labels, OnBadInput,
    PackOrder, PackReport, PlanError, PlanOptions, Remedy, RunError, TableOptions, TileOptions,
};

use crate::support::{put, run, samples, small_shards};

/// A TIFF of one band whose pixel at (column, row) is `value(column, row)`, with pixels of `metres`.
fn band((width, height): (u32, u32), metres: f64, value: impl Fn(u32, u32) -> u16) -> Vec<u8> {
    let geo = Geo {
        transform: Some([500_000.0, metres, 0.0, 4_600_000.0, 0.0, -metres]),
        crs: Some("EPSG:32632".to_owned()),
        nodata: Some(0.0),
        ..Geo::default()
    };
    tiff((width, height), geo, value)
}

fn tiff((width, height): (u32, u32), geo: Geo, value: impl Fn(u32, u32) -> u16) -> Vec<u8> {
    let out = Cursor::new(Vec::new());
    let (number, packing) = (Number::U16, Packing::Deflate);
    let mut writer = GeoTiffWriter::new(out, (width, height), 1, number, geo, packing).unwrap();
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let bytes: Vec<u8> = pixels.flat_map(|(x, y)| value(x, y).to_le_bytes()).collect();
    writer.push(&bytes).unwrap();
    writer.finish().unwrap().into_inner()
}

fn by(pattern: &str) -> PlanOptions {
    PlanOptions {
        inputs: Inputs::Arrays,
        images: vec![pattern.parse().unwrap()],
        labels: Labels::None,
        order: PackOrder::Sorted,
        ..small_shards()
    }
}

/// The keys of samples and their values.
type Packed = Vec<(String, Vec<Vec<u8>>)>;

fn packed(source: &Path, plan: PlanOptions) -> Result<(PackReport, Vec<Field>, Packed), Error> {
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("out");
    let report = run(source, &out, plan, 2)?;
    let (bundle, samples) = samples(&out);
    let samples = samples.into_iter().map(|(key, (_, values))| (key, values)).collect();
    Ok((report, bundle.manifest().fields.clone(), samples))
}

fn numbers(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b)).collect()
}

/// A set of two samples with three bands; that of 20 m has the value 1000 + 100 * column + row.
fn three_bands(dir: &Path) {
    for (i, key) in ["a_1", "b_2"].into_iter().enumerate() {
        let i = i as u16 * 10_000;
        for (name, side, metres) in [("B8A", 4, 20.0), ("B11", 4, 20.0), ("B02", 8, 10.0)] {
            let first = i + 1000 * (1 + name.len() as u16);
            let bytes = band((side, side), metres, |x, y| first + 100 * x as u16 + y as u16);
            put(dir, &format!("{key}/{key}_{name}.tif"), &bytes);
        }
    }
}

#[test]
fn a_file_for_each_band_makes_one_array() {
    let dir = tempfile::tempdir().unwrap();
    three_bands(dir.path());
    let Err(Error::Run(RunError::BadInputs(bad))) = packed(dir.path(), by("{*}/{key}_{band}.tif"))
    else {
        panic!("sizes differ");
    };
    assert_eq!((bad.n, bad.named[0].remedy), (1, Remedy::Resample));
    assert_eq!(bad.named[0].path, "a_1");
    assert_eq!(
        bad.named[0].reason,
        "its band `B8A` has 4 x 4 pixels, and its band `B02` has 8 x 8"
    );

    let resampled = PlanOptions { align: Align::Resample, ..by("{*}/{key}_{band}.tif") };
    let (report, fields, found) = packed(dir.path(), resampled).unwrap();
    assert_eq!(
        (report.samples, report.bands),
        (2, ["B02", "B8A", "B11"].map(str::to_owned).to_vec())
    );
    let image = &fields[0];
    assert_eq!(image.as_fixed(), Some((Dtype::U16, &[8, 8, 3][..])));
    assert_eq!(image.axes.as_ref().map(Axes::as_str), Some("yxc"));
    assert_eq!(image.nodata, Nodata::parse("0"));
    let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["a_1", "b_2"]);
    let pixels = numbers(&found[1].1[0]);
    let at = |x: usize, y: usize| &pixels[(y * 8 + x) * 3..][..3];
    // Between the centres of the coarse pixels 0 and 1 are those of the fine ones 1 and 2.
    assert_eq!(at(0, 0), [14_000, 14_000, 14_000]);
    assert_eq!(at(1, 0), [14_100, 14_025, 14_025]);
    assert_eq!(at(2, 4), [14_204, 14_077, 14_077]);
    assert_eq!(at(7, 7), [14_707, 14_303, 14_303]);
}

#[test]
fn bands_are_chosen_and_put_in_order_by_the_pattern() {
    let dir = tempfile::tempdir().unwrap();
    three_bands(dir.path());
    let (report, fields, found) = packed(dir.path(), by("{*}/{key}_{band:B8A|B11}.tif")).unwrap();
    assert_eq!(report.bands, ["B8A", "B11"]);
    assert_eq!(report.ignored["other bands"], 2);
    assert_eq!(fields[0].as_fixed(), Some((Dtype::U16, &[4, 4, 2][..])));
    assert_eq!(numbers(&found[0].1[0])[..2], [4000, 4000]);
    let (report, ..) = packed(dir.path(), by("{*}/{key}_{band:B11|B8A}.tif")).unwrap();
    assert_eq!(report.bands, ["B11", "B8A"]);
    let plan = PlanOptions { band_names: BandNames::Ignore, ..by("{*}/{key}_{band:B11|B8A}.tif") };
    assert!(packed(dir.path(), plan).unwrap().0.bands.is_empty());
}

#[test]
fn files_that_do_not_fit_together_are_named() {
    let check = |change: &dyn Fn(&Path), expected: &str| {
        let dir = tempfile::tempdir().unwrap();
        for key in ["a", "b"] {
            for name in ["B2", "B3"] {
                put(dir.path(), &format!("{key}_{name}.tif"), &band((4, 4), 10.0, |x, _| x as u16));
            }
        }
        change(dir.path());
        let pattern = "{key}_{band}.tif";
        let Err(Error::Run(RunError::BadInputs(bad))) = packed(dir.path(), by(pattern)) else {
            panic!("{expected}");
        };
        assert_eq!((bad.n, bad.named[0].path.as_str()), (1, "b"), "{expected}");
        assert!(bad.named[0].reason.contains(expected), "{}", bad.named[0].reason);
        let skips = PlanOptions { on_error: OnBadInput::Skip, ..by(pattern) };
        let (report, _, found) = packed(dir.path(), skips).unwrap();
        assert_eq!((report.skipped, found.len()), (1, 1), "{expected}");
    };
    let change = |name: &'static str, bytes: Vec<u8>| move |dir: &Path| put(dir, name, &bytes);
    check(
        &|dir| std::fs::remove_file(dir.join("b_B3.tif")).unwrap(),
        "it has no file for band `B3`",
    );
    let expected = "its band `B3` does not fit its band `B2`: it is shifted";
    let shifted = Geo {
        transform: Some([500_020.0, 10.0, 0.0, 4_600_000.0, 0.0, -10.0]),
        crs: Some("EPSG:32632".to_owned()),
        nodata: Some(0.0),
        ..Geo::default()
    };
    check(&change("b_B3.tif", tiff((4, 4), shifted.clone(), |_, _| 1)), expected);
    let other = Geo::default();
    let expected = "its band `B3` has no nodata, and its band `B2` has the nodata 0";
    check(&change("b_B3.tif", tiff((4, 4), other, |_, _| 1)), expected);
    check(&change("b_B3.tif", b"II*\0".to_vec()), "of its file `b_B3.tif`");
    let eight = {
        let geo = Geo { nodata: Some(0.0), ..Geo::default() };
        let out = Cursor::new(Vec::new());
        let mut writer =
            GeoTiffWriter::new(out, (4, 4), 1, Number::U8, geo, Packing::None).unwrap();
        writer.push(&[1; 16]).unwrap();
        writer.finish().unwrap().into_inner()
    };
    check(&change("b_B3.tif", eight), "its band `B3` has numbers of type U8");
}

#[test]
fn bands_have_the_scale_and_the_name_of_their_own_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, scale: f64| {
        let (bands, scales) = (vec![format!("surface {name}")], vec![[scale, -0.5]]);
        tiff((2, 2), Geo { bands, scales, ..Geo::default() }, |_, _| 7)
    };
    for (date, name, scale) in
        [("2020", "B1", 0.25), ("2020", "B2", 0.5), ("2021", "B1", 0.25), ("2021", "B2", 0.5)]
    {
        put(dir.path(), &format!("a/{date}_{name}.tif"), &file(name, scale));
    }
    let plan = || by("{key}/{date}_{band}.tif");
    let (report, fields, found) = packed(dir.path(), plan()).unwrap();
    assert_eq!(report.bands, ["B1", "B2"]);
    let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["image", "image_scale", "image_offset", "image_dates"]);
    let of = |n: &[f64]| n.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(found[0].1[1..3], [of(&[0.25, 0.5]), of(&[-0.5, -0.5])]);
    put(dir.path(), "a/2021_B2.tif", &file("B2", 0.125));
    let Err(Error::Run(RunError::BadInputs(bad))) = packed(dir.path(), plan()) else { panic!() };
    let expected = "its file `a/2021_B2.tif` has another scale than at the first date";
    assert_eq!(bad.named[0].reason, expected);
}

#[test]
fn files_of_several_dates_make_a_series() {
    let dir = tempfile::tempdir().unwrap();
    for (k, key) in ["a", "b"].into_iter().enumerate() {
        for (d, date) in ["20200210", "20191231", "20200105"].into_iter().enumerate() {
            for (b, name) in ["B3", "B2"].into_iter().enumerate() {
                let value = (1000 * k + 100 * d + 10 * b) as u16 + 1;
                let bytes = band((4, 2), 10.0, |_, _| value);
                put(dir.path(), &format!("{key}/{date}/{name}.tif"), &bytes);
            }
        }
    }
    let (report, fields, found) = packed(dir.path(), by("{key}/{date}/{band}.tif")).unwrap();
    assert_eq!(report.axes.as_deref(), Some("tyxc"));
    assert_eq!(fields[0].as_fixed(), Some((Dtype::U16, &[3, 2, 4, 2][..])));
    assert_eq!(fields.last().unwrap().name.as_str(), "image_dates");
    let (key, values) = &found[1];
    assert_eq!(key, "b");
    let pixels = numbers(&values[0]);
    let firsts: Vec<&[u16]> = pixels.chunks(16).map(|frame| &frame[..2]).collect();
    assert_eq!(firsts, [[1111, 1101], [1211, 1201], [1011, 1001]]);
    assert_eq!(values.last().unwrap(), b"20191231\n20200105\n20200210");

    std::fs::remove_dir_all(dir.path().join("b/20200105")).unwrap();
    let error = packed(dir.path(), by("{key}/{date}/{band}.tif")).unwrap_err().to_string();
    assert!(error.contains("`a` has 3 dates, and `b` has 2"), "{error}");
    let plan = PlanOptions { pad_dates: true, ..by("{key}/{date}/{band}.tif") };
    let (_, fields, found) = packed(dir.path(), plan).unwrap();
    assert_eq!(fields[0].as_fixed(), Some((Dtype::U16, &[3, 2, 4, 2][..])));
    let pixels = numbers(&found[1].1[0]);
    // The value of the third date is nodata.
    assert_eq!((pixels[16], &pixels[32..]), (1011, &[0; 16][..]));
    assert_eq!(found[1].1.last().unwrap(), b"20191231\n20200210");
}

#[test]
fn scenes_of_several_files_are_cut_into_tiles() {
    let dir = tempfile::tempdir().unwrap();
    let value = |x: u32, y: u32| (1 + x + 100 * y) as u16;
    for scene in ["s1", "s2"] {
        put(dir.path(), &format!("{scene}/{scene}_B2.tif"), &band((50, 40), 10.0, value));
        let coarse = band((25, 20), 20.0, |x, y| value(2 * x, 2 * y));
        put(dir.path(), &format!("{scene}/{scene}_B5.tif"), &coarse);
    }
    let whole = PlanOptions { align: Align::Resample, ..by("{*}/{key}_{band}.tif") };
    let tile = TileOptions { size: 16, overlap: 0, min_valid: 0.0, block: None };
    let tiled = PlanOptions { tile: Some(tile), ..whole.clone() };
    let (_, _, scenes) = packed(dir.path(), whole).unwrap();
    let (report, _, tiles) = packed(dir.path(), tiled).unwrap();
    assert_eq!(report.samples, 2 * 4 * 3);
    let scene = numbers(&scenes[1].1[0]);
    for (key, values) in tiles.iter().filter(|(key, _)| key.starts_with("s2/")) {
        let (row, column) = key["s2/r".len()..].split_once("_c").unwrap();
        let (row, column): (usize, usize) = (row.parse().unwrap(), column.parse().unwrap());
        let expected: Vec<u16> = (row..row + 16)
            .flat_map(|y| scene[(y * 50 + column) * 2..(y * 50 + column + 16) * 2].to_vec())
            .collect();
        assert_eq!(numbers(&values[0]), expected, "{key}");
    }
    let transform = &tiles.iter().find(|(key, _)| key == "s2/r000016_c000032").unwrap().1[2];
    let origin: Vec<f64> =
        transform.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
    assert_eq!(origin, [500_320.0, 10.0, 0.0, 4_599_840.0, 0.0, -10.0]);
}

#[test]
fn tables_masks_and_splits_are_of_the_sample() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("images");
    for (split, key) in [("train", "p1"), ("train", "p2"), ("val", "p3")] {
        for name in ["B2", "B3"] {
            let bytes = band((4, 4), 10.0, |x, y| (x * y) as u16);
            put(&source, &format!("{split}/{key}/{key}_{name}.tif"), &bytes);
        }
        put(dir.path(), &format!("masks/{key}.tif"), &band((4, 4), 10.0, |x, _| x as u16));
    }
    put(dir.path(), "labels.csv", b"patch,label\np1,water\np2,forest\np3,water\n");
    let fields = vec![FieldFiles {
        name: FieldName::parse("mask").unwrap(),
        files: Some(dir.path().join("masks")),
        pattern: Some("{key}.tif".parse().unwrap()),
    }];
    let labels = Labels::Table(TableOptions {
        files: vec![dir.path().join("labels.csv")],
        lines: BTreeMap::new(),
        key: Some("patch".to_owned()),
        label: LabelColumn::Find,
        split: None,
        group: None,
        separator: None,
        fields: FieldColumns::Named(Vec::new()),
        ..TableOptions::default()
    });
    let plan = PlanOptions { fields, labels, ..by("{split}/{*}/{key}_{band}.tif") };
    let (report, fields, found) = packed(&source, plan).unwrap();
    let splits: Vec<u64> = report.splits.values().map(|split| split.samples).collect();
    assert_eq!((splits, report.unused_rows), (vec![2, 1], 0));
    assert!(fields.iter().any(|field| field.name.as_str() == "mask"));
    let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["train/p1", "train/p2", "val/p3"]);
    let labels: Vec<u8> = found.iter().map(|(_, values)| values[1][0]).collect();
    assert_eq!(labels, [1, 0, 1]);
}

#[test]
fn a_few_arrays_of_another_size_are_named_or_left_out() {
    let dir = tempfile::tempdir().unwrap();
    for (i, size) in [(4, 3), (4, 4), (4, 4), (5, 4), (4, 4)].into_iter().enumerate() {
        put(dir.path(), &format!("{i}.tif"), &band(size, 10.0, |x, y| (x + y) as u16));
    }
    let plan = || PlanOptions { images: Vec::new(), ..by("{key}") };
    let error = packed(dir.path(), plan()).unwrap_err();
    assert!(matches!(error, Error::Plan(PlanError::MixedArrays { only_size: true, .. })));
    let expected = "the arrays differ: 3 are u16 [4, 4, 1], such as `1.tif`; 2 of another type or shape, such as `0.tif`: u16 [3, 4, 1]";
    assert_eq!(error.to_string(), expected);
    let skips = PlanOptions { on_error: OnBadInput::Skip, ..plan() };
    let (report, fields, _) = packed(dir.path(), skips).unwrap();
    assert_eq!((report.samples, report.skipped), (3, 2));
    assert_eq!(fields[0].as_fixed(), Some((Dtype::U16, &[4, 4, 1][..])));
}

#[test]
fn bands_in_jpeg_2000_are_joined_and_cut() {
    let dir = tempfile::tempdir().unwrap();
    let jp2 = include_bytes!("data/tiled.jp2");
    for band in ["B02", "B03"] {
        put(dir.path(), &format!("a/IMG_DATA/T32_{band}_10m.jp2"), jp2);
    }
    let alone = by("{*}/IMG_DATA/{key}_{band:B02}_10m.jp2");
    let (_, fields, one) = packed(dir.path(), alone).unwrap();
    let (dtype, shape) = fields[0].as_fixed().unwrap();
    let both = by("{*}/IMG_DATA/{key}_{band}_10m.jp2");
    let (_, fields, two) = packed(dir.path(), both.clone()).unwrap();
    assert_eq!(fields[0].as_fixed(), Some((dtype, &[shape[0], shape[1], 2][..])));
    assert_eq!(two[0].0, "T32");
    let bytes = dtype.size_bytes() as usize;
    let twice: Vec<u8> =
        one[0].1[0].chunks(bytes).flat_map(|number| [number, number].concat()).collect();
    assert_eq!(two[0].1[0], twice);
    let tile = Some(TileOptions { size: 16, overlap: 0, min_valid: 0.0, block: None });
    let (_, _, tiles) = packed(dir.path(), PlanOptions { tile, ..both }).unwrap();
    assert_eq!((tiles.len(), tiles[1].0.as_str()), (6 * 5, "T32/r000000_c000016"));
    let row = |y: usize| y * shape[1] as usize * 2 * bytes + 16 * 2 * bytes;
    let expected: Vec<u8> =
        (0..16).flat_map(|y| twice[row(y)..][..16 * 2 * bytes].to_vec()).collect();
    assert_eq!(tiles[1].1[0], expected);
}

#[test]
fn a_long_series_is_read_from_an_archive() {
    let dir = tempfile::tempdir().unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    for day in 0..70_u16 {
        let bytes = band((3, 2), 10.0, |_, _| day + 1);
        put(dir.path(), &format!("a/{}.tif", 20_200_100 + u32::from(day)), &bytes);
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        let name = format!("a/{}.tif", 20_200_100 + u32::from(day));
        tar.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    put(dir.path(), "all.tar", &tar.into_inner().unwrap());
    let plan = || by("{key}/{date:[0-9]+}.tif");
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    std::fs::rename(dir.path().join("a"), dir.path().join("folder/a")).unwrap();
    let (_, _, of_folder) = packed(&dir.path().join("folder"), plan()).unwrap();
    let (_, fields, of_archive) = packed(&dir.path().join("all.tar"), plan()).unwrap();
    assert_eq!(fields[0].as_fixed(), Some((Dtype::U16, &[70, 2, 3, 1][..])));
    assert_eq!(of_folder, of_archive);
}
