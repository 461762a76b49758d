//! Where the files of a sample are on the Earth, and the pages of TIFF files.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use crate::fields::field;
use crate::scenes::arrays;
use crate::support::{png, put, run, samples};
use gular_bundle::Dtype;
use gular_codec::tiff::{Geo, GeoTiffWriter, Number, Packing};
use gular_pack::{
    Align, Error, Inputs, Labels, OnBadInput, Pages, PlanOptions, Remedy, RunError, ShardError,
    TileOptions,
};

/// Returns a TIFF of one band whose pixels are `side` metres wide, and whose corner is at `x`.
fn raster(crs: &str, x: f64, side: f64, size: (u32, u32)) -> Vec<u8> {
    let transform = Some([x, side, 0.0, 5e6, 0.0, -side]);
    let geo = Geo { transform, crs: Some(crs.to_owned()), ..Geo::default() };
    let out = Cursor::new(Vec::new());
    let mut writer = GeoTiffWriter::new(out, size, 1, Number::U8, geo, Packing::None).unwrap();
    writer.push(&vec![1; (size.0 * size.1) as usize]).unwrap();
    writer.finish().unwrap().into_inner()
}

/// Writes 16 x 16 images `a` to `d` and their files: one as its image, one shifted, one in another
/// system, one of larger pixels.
fn pairs(dir: &Path) -> (PathBuf, PathBuf) {
    let utm = "EPSG:32633";
    for (name, crs, x, side, size) in [
        ("a", utm, 500_000.0, 10.0, (16, 16)),
        ("b", utm, 500_640.0, 10.0, (16, 16)),
        ("c", "EPSG:32634", 500_000.0, 10.0, (16, 16)),
        ("d", utm, 500_000.0, 20.0, (16, 16)),
    ] {
        put(dir, &format!("images/{name}.tif"), &raster(utm, 500_000.0, 10.0, (16, 16)));
        put(dir, &format!("files/{name}.tif"), &raster(crs, x, side, size));
    }
    (dir.join("images"), dir.join("files"))
}

#[test]
fn files_that_are_not_where_their_image_is_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (images, files) = pairs(dir.path());
    let tile = TileOptions { size: 16, overlap: 0, min_valid: 0.0, block: None };
    for (i, (name, tile)) in
        [("mask", None), ("height", None), ("mask", Some(tile)), ("height", Some(tile))]
            .into_iter()
            .enumerate()
    {
        let plan = PlanOptions { fields: vec![field(name, &files, "")], tile, ..arrays() };
        let out = |way: &str| dir.path().join(format!("{way}{i}"));
        let error = run(&images, &out("fail"), plan.clone(), 2).unwrap_err();
        let Error::Run(RunError::BadInputs(bad)) = &error else { panic!("{error}") };
        assert_eq!(bad.n, 3, "{error}");
        assert!(bad.named.iter().all(|bad| bad.remedy == Remedy::Align), "{bad:?}");
        let mut texts: Vec<String> = bad.named.iter().map(ToString::to_string).collect();
        texts.sort();
        let end = if tile.is_some() { "/r000000_c000000" } else { "" };
        for (text, (file, reason)) in texts.iter().zip([
            ("b", "it is shifted against its image by 640 m: by 64 to the right (in pixels)"),
            ("c", "its CRS is `EPSG:32634`, but that of its image is `EPSG:32633`"),
            ("d", "its pixels are 20 x 20 m, but those of its image are 10 x 10 m"),
        ]) {
            let expected = format!("`{file}.tif{end}`: its `{name}`, `{file}.tif`: {reason}");
            assert!(text.starts_with(&expected), "{text}");
        }
        let skip = PlanOptions { on_error: OnBadInput::Skip, ..plan.clone() };
        let report = run(&images, &out("skip"), skip, 2).unwrap();
        assert_eq!((report.samples, report.skipped), (1, 3));
        // In the folder of the run that failed.
        let ignore = PlanOptions { align: Align::Ignore, ..plan };
        assert_eq!(run(&images, &out("fail"), ignore.clone(), 2).unwrap().samples, 4);
        assert!(run(&images, &out("fail"), ignore.clone(), 2).unwrap().already_done);
        // What a finished bundle left out is not called packed.
        let again = PlanOptions { on_error: OnBadInput::Skip, ..ignore };
        let refused = run(&images, &out("skip"), again, 2);
        assert!(
            matches!(refused, Err(Error::Shard(ShardError::AlreadyBundle { .. }))),
            "{refused:?}"
        );
    }
}

#[test]
fn what_each_file_says_is_a_field_of_its_sample() {
    let dir = tempfile::tempdir().unwrap();
    let file = |geo: Geo| {
        let out = Cursor::new(Vec::new());
        let mut writer =
            GeoTiffWriter::new(out, (4, 6), 1, Number::U8, geo, Packing::None).unwrap();
        writer.push(&[2; 24]).unwrap();
        writer.finish().unwrap().into_inner()
    };
    let rpc: Vec<f64> = (0..92).map(f64::from).collect();
    let said = Geo { scales: vec![[0.5, -3.0]], rpc, ..Geo::default() };
    let warped = Geo { gcps: vec![[1.0, 2.0, 10.0, 50.0, 0.0]], ..Geo::default() };
    put(dir.path(), "in/a.tif", &file(said));
    put(dir.path(), "in/b.tif", &file(warped));
    put(dir.path(), "in/c.tif", &file(Geo::default()));
    let tile = TileOptions { size: 4, overlap: 0, min_valid: 0.0, block: None };
    let out = dir.path().join("out");
    run(&dir.path().join("in"), &out, PlanOptions { tile: Some(tile), ..arrays() }, 1).unwrap();
    let (bundle, samples) = samples(&out);
    let fields: Vec<_> = bundle.manifest().fields.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(fields, ["image", "image_scale", "image_offset", "image_gcps", "image_rpc"]);
    let numbers = |key: &str, at: usize| -> Vec<f64> {
        let value = &samples[&format!("{key}.tif/r000002_c000000")].1[at];
        let skipped = if fields[at] == "image_gcps" { 128 } else { 0 };
        value[skipped..].as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()
    };
    let of = |key: &str| [numbers(key, 1), numbers(key, 2), numbers(key, 3)];
    assert_eq!(of("a"), [vec![0.5], vec![-3.0], vec![]]);
    // The second tile begins two rows further down.
    assert_eq!(of("b"), [vec![1.0], vec![0.0], vec![1.0, 0.0, 10.0, 50.0, 0.0]]);
    assert_eq!(of("c"), [vec![1.0], vec![0.0], vec![]]);
    assert_eq!(numbers("a", 4)[..5], [0.0, 1.0, 0.0, 3.0, 4.0]);
    assert_eq!(numbers("a", 4).len(), 92);
    assert!(numbers("c", 4).iter().all(|n| n.is_nan()));
    // Of files beside images it is said.
    let plan =
        PlanOptions { fields: vec![field("height", &dir.path().join("beside"), "")], ..arrays() };
    std::fs::create_dir(dir.path().join("beside")).unwrap();
    std::fs::copy(dir.path().join("in/a.tif"), dir.path().join("beside/a.tif")).unwrap();
    std::fs::remove_file(dir.path().join("in/b.tif")).unwrap();
    std::fs::remove_file(dir.path().join("in/c.tif")).unwrap();
    let report = run(&dir.path().join("in"), &dir.path().join("out2"), plan, 1).unwrap();
    let text = "files of `height` have a scale or an offset, which the bundle does not record";
    assert!(report.doubts[0].text.starts_with(text), "{:?}", report.doubts);
}

#[test]
fn files_without_a_place_go_with_any_image() {
    let dir = tempfile::tempdir().unwrap();
    let (images, _) = pairs(dir.path());
    let plain = |geo: Geo| {
        let out = Cursor::new(Vec::new());
        let mut writer =
            GeoTiffWriter::new(out, (16, 16), 1, Number::U8, geo, Packing::None).unwrap();
        writer.push(&[2; 256]).unwrap();
        writer.finish().unwrap().into_inner()
    };
    for name in ["a", "b", "c", "d"] {
        put(dir.path(), &format!("plain/{name}.tif"), &plain(Geo::default()));
    }
    let plan =
        PlanOptions { fields: vec![field("mask", &dir.path().join("plain"), "")], ..arrays() };
    assert_eq!(run(&images, &dir.path().join("out"), plan, 1).unwrap().samples, 4);
}

#[test]
fn a_set_with_several_systems_and_sizes_of_pixels_says_so_once() {
    let dir = tempfile::tempdir().unwrap();
    let (_, files) = pairs(dir.path());
    let report = run(&files, &dir.path().join("out"), arrays(), 2).unwrap();
    let texts: Vec<&str> = report.doubts.iter().map(|doubt| doubt.text.as_str()).collect();
    let expected = [
        "the files have different CRS: `EPSG:32633` in 3 files, `EPSG:32634` in 1 file",
        "the files have pixels of different sizes: 10 x 10 m in 3 files, 20 x 20 m in 1 file",
    ];
    assert_eq!(texts, expected);
    let (images, _) = pairs(dir.path());
    assert!(run(&images, &dir.path().join("alike"), arrays(), 2).unwrap().doubts.is_empty());
}

/// Returns a TIFF of one band whose values are the columns and rows of `corner` and behind.
fn numbered(crs: &str, corner: (f64, f64), side: f64, size: (u32, u32)) -> Vec<u8> {
    let transform = Some([corner.0, side, 0.0, corner.1, 0.0, -side]);
    let geo = Geo { transform, crs: Some(crs.to_owned()), ..Geo::default() };
    let out = Cursor::new(Vec::new());
    let mut writer = GeoTiffWriter::new(out, size, 1, Number::U8, geo, Packing::None).unwrap();
    let values = (0..size.1).flat_map(|y| (0..size.0).map(move |x| (y * 16 + x) as u8));
    writer.push(&values.collect::<Vec<u8>>()).unwrap();
    writer.finish().unwrap().into_inner()
}

#[test]
fn masks_are_brought_to_the_grid_of_their_images() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = (dir.path().join("images"), dir.path().join("masks"));
    let utm = "EPSG:32633";
    // Coarser; finer; of the same size, and larger at the left and at the top by 3 and 2 pixels.
    let kinds = [("a", (0.0, 0.0), 20.0, (8, 8)), ("b", (0.0, 0.0), 5.0, (32, 32))];
    let kinds = kinds.into_iter().chain([("c", (-30.0, 20.0), 10.0, (19, 18))]);
    for (name, corner, side, size) in kinds.clone() {
        put(&images, &format!("{name}.tif"), &numbered(utm, (0.0, 0.0), 10.0, (16, 16)));
        put(&masks, &format!("{name}.tif"), &numbered(utm, corner, side, size));
    }
    let expected = |name: &str, x: usize, y: usize| match name {
        "a" => (y / 2 * 16 + x / 2) as u8,
        // The middle of a pixel is a corner of four of the mask, of which the last counts.
        "b" => ((y * 2 + 1) * 16 + x * 2 + 1) as u8,
        _ => ((y + 2) * 16 + x + 3) as u8,
    };
    let resampled =
        PlanOptions { align: Align::Resample, fields: vec![field("mask", &masks, "")], ..arrays() };
    let out = dir.path().join("whole");
    run(&images, &out, resampled.clone(), 2).unwrap();
    let (bundle, found) = samples(&out);
    assert_eq!(bundle.manifest().fields[1].as_fixed(), Some((Dtype::U8, &[16, 16][..])));
    assert_eq!(bundle.manifest().made["align"], gular_bundle::MadeValue::Text("resample".into()));
    for (name, ..) in kinds {
        let mask = &found[&format!("{name}.tif")].1[1];
        let all = (0..256).all(|i| mask[i] == expected(name, i % 16, i / 16));
        assert!(all, "{name}: {mask:?}");
    }
    // The last tile of each row and column ends with the scene.
    let tile = Some(TileOptions { size: 7, overlap: 0, min_valid: 0.0, block: None });
    let out = dir.path().join("tiles");
    run(&images, &out, PlanOptions { tile, ..resampled.clone() }, 2).unwrap();
    let (_, found) = samples(&out);
    assert_eq!(found.len(), 3 * 9);
    for (key, (_, values)) in &found {
        let (scene, place) = key.split_once(".tif/r").unwrap();
        let (row, column) = place.split_once("_c").unwrap();
        let (row, column): (usize, usize) = (row.parse().unwrap(), column.parse().unwrap());
        let same = (0..49).all(|i| values[1][i] == expected(scene, column + i % 7, row + i / 7));
        assert!(same, "{key}: {:?}", values[1]);
    }
    // A tile that is larger than its scene.
    let tile = Some(TileOptions { size: 20, overlap: 0, min_valid: 0.0, block: None });
    let out = dir.path().join("padded");
    run(&images, &out, PlanOptions { tile, ..resampled.clone() }, 2).unwrap();
    let mask = &samples(&out).1["a.tif/r000000_c000000"].1[1];
    assert_eq!((mask[15], mask[16], mask[15 * 20 + 15], mask[16 * 20]), (7, 255, 7 * 16 + 7, 255));

    put(&masks, "a.tif", &numbered("EPSG:32634", (0.0, 0.0), 20.0, (8, 8)));
    put(&masks, "b.tif", &numbered(utm, (20.0, 0.0), 10.0, (16, 16)));
    for tile in [None, Some(TileOptions { size: 16, overlap: 0, min_valid: 0.0, block: None })] {
        let plan = PlanOptions { tile, ..resampled.clone() };
        let error = run(&images, &dir.path().join("bad"), plan, 1).unwrap_err();
        let Error::Run(RunError::BadInputs(bad)) = &error else { panic!("{error}") };
        let says = |words: &str| bad.named.iter().any(|bad| bad.reason.ends_with(words));
        assert_eq!(bad.n, 2, "{error}");
        assert!(says("its CRS is `EPSG:32634`, but that of its image is `EPSG:32633`"), "{error}");
        assert!(says("`b.tif`: it does not cover its whole image"), "{error}");
    }
}

/// Returns a TIFF with pages of 4 x 3 pixels, each of one value.
fn pages(values: &[u8], description: &str) -> Vec<u8> {
    let mut file = b"II*\0".to_vec();
    let text = format!("{description}\0\0\0\0\0");
    let (strips, texts) = (8, 8 + values.len() as u32 * 12);
    let first = texts + text.len() as u32;
    let of_page = 2 + 10 * 12 + 4;
    file.extend(first.to_le_bytes());
    values.iter().for_each(|value| file.extend([*value; 12]));
    file.extend(text.as_bytes());
    for i in 0..values.len() as u32 {
        let last = i + 1 == values.len() as u32;
        let next = if last { 0 } else { first + (i + 1) * of_page };
        file.extend(10_u16.to_le_bytes());
        for (tag, kind, n, value) in [
            (256_u16, 4_u16, 1, 4),
            (257, 4, 1, 3),
            (258, 3, 1, 8),
            (259, 3, 1, 1),
            (262, 3, 1, 1),
            (270, 2, text.len() as u32, texts),
            (273, 4, 1, strips + i * 12),
            (277, 3, 1, 1),
            (278, 4, 1, 3),
            (279, 4, 1, 12_u32),
        ] {
            file.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
            file.extend([u32::to_le_bytes(n), value.to_le_bytes()].concat());
        }
        file.extend(next.to_le_bytes());
    }
    file
}

#[test]
fn pages_of_arrays_are_bands_or_refused_and_never_the_first_alone() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    put(&source, "0.tif", &pages(&[1, 2, 3], ""));
    put(&source, "1.tif", &pages(&[4, 5, 6], ""));
    let packed = |pages: Pages, on_error: OnBadInput| {
        let out = tempfile::tempdir().unwrap();
        let plan = PlanOptions { pages, on_error, ..arrays() };
        let report = run(&source, &out.path().join("out"), plan, 2)?;
        let (bundle, found) = samples(&out.path().join("out"));
        let shape = bundle.manifest().fields[0].as_fixed().map(|(_, shape)| shape.to_vec());
        let value = found.values().next().unwrap().1[0].clone();
        Ok::<_, Error>((report, shape.unwrap(), value))
    };
    let error = packed(Pages::AsSaid, OnBadInput::Fail).unwrap_err();
    let Error::Run(RunError::BadInputs(bad)) = &error else { panic!("{error}") };
    assert_eq!((bad.n, bad.named[0].remedy), (2, Remedy::ChoosePages));
    let reason = "the TIFF has 3 pages of 4 x 3 pixels, and does not say what they are";
    assert_eq!(bad.named[0].reason, reason);
    let (_, shape, value) = packed(Pages::Bands, OnBadInput::Fail).unwrap();
    assert_eq!((shape, &value[..6]), (vec![3, 4, 3], &[1, 2, 3, 1, 2, 3][..]));
    let (_, shape, value) = packed(Pages::First, OnBadInput::Fail).unwrap();
    assert_eq!((shape, value), (vec![3, 4, 1], vec![1; 12]));
    // One of both says what its pages are.
    put(&source, "1.tif", &pages(&[4, 5, 6], "ImageJ=1.54f\nimages=3\nchannels=3\n"));
    let (report, shape, value) = packed(Pages::AsSaid, OnBadInput::Skip).unwrap();
    assert_eq!((report.samples, report.skipped), (1, 1));
    assert_eq!((shape, &value[..3]), (vec![3, 4, 3], &[4, 5, 6][..]));
}

#[test]
fn pages_of_masks_and_scenes_are_refused_too() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "images/0.png", &png(0));
    put(dir.path(), "masks/0.tif", &pages(&[1, 2], ""));
    let masks = dir.path().join("masks");
    let plan = PlanOptions {
        inputs: Inputs::Images,
        labels: Labels::None,
        fields: vec![field("mask", &masks, "")],
        ..arrays()
    };
    let images = dir.path().join("images");
    let error = run(&images, &dir.path().join("out"), plan.clone(), 1).unwrap_err().to_string();
    assert!(error.contains("`mask` is `0.tif`: the TIFF has 2 pages of 4 x 3 pixels"), "{error}");
    let first = PlanOptions { pages: Pages::First, ..plan };
    let error = run(&images, &dir.path().join("out"), first, 1).unwrap_err().to_string();
    assert!(error.contains("it has 4 x 3 pixels, but its image has 12 x 9"), "{error}");
    let tile = Some(TileOptions { size: 2, overlap: 0, min_valid: 0.0, block: None });
    let plan = PlanOptions { tile, ..arrays() };
    let error = run(&masks, &dir.path().join("tiles"), plan.clone(), 1).unwrap_err().to_string();
    assert!(error.contains("`0.tif`: the TIFF has 2 pages"), "{error}");
    let out = dir.path().join("bands");
    run(&masks, &out, PlanOptions { pages: Pages::Bands, ..plan }, 1).unwrap();
    let (bundle, found) = samples(&out);
    assert_eq!(bundle.manifest().fields[0].as_fixed(), Some((Dtype::U8, &[2, 2, 2][..])));
    assert_eq!(found["0.tif/r000000_c000002"].1[0], [1, 2, 1, 2, 1, 2, 1, 2]);
}
