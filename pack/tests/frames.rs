//! Arrays of nearly one size, which are cropped or padded to one.

use std::io::Cursor;
use std::path::Path;

use gular_bundle::{Axes, Dtype, FieldName, npy_header};
use gular_codec::encode_png;
use gular_codec::tiff::{Geo, GeoTiffWriter, Number, Packing};
use gular_pack::{
    Align, Error, FieldFiles, Fit, FrameOptions, Labels, OnBadInput, PlanOptions, RunError,
    TileOptions,
};

use crate::fields::field;
use crate::scenes::arrays;
use crate::support::{put, run, samples};

/// The value at (column, row).
fn at(x: u32, y: u32) -> u8 {
    (16 * y + x + 1) as u8
}

fn tiff(size: (u32, u32), nodata: Option<f64>) -> Vec<u8> {
    let transform = Some([500.0, 10.0, 0.0, 900.0, 0.0, -10.0]);
    let geo = Geo { transform, crs: Some("EPSG:32632".to_owned()), nodata, ..Geo::default() };
    let out = Cursor::new(Vec::new());
    let mut writer = GeoTiffWriter::new(out, size, 1, Number::U8, geo, Packing::None).unwrap();
    writer.push(&pixels(size)).unwrap();
    writer.finish().unwrap().into_inner()
}

fn pixels((width, height): (u32, u32)) -> Vec<u8> {
    (0..height).flat_map(|y| (0..width).map(move |x| at(x, y))).collect()
}

const SIZES: [(&str, (u32, u32)); 3] = [("a", (5, 4)), ("b", (3, 4)), ("c", (5, 3))];

/// Images of three sizes with masks as PNG, and the images again as a field.
fn set(dir: &Path, nodata: Option<f64>) -> Vec<FieldFiles> {
    for (name, size) in SIZES {
        put(dir, &format!("images/{name}.tif"), &tiff(size, nodata));
        put(dir, &format!("height/{name}.tif"), &tiff(size, Some(99.0)));
        let mask = encode_png(&pixels(size), size.0, size.1).unwrap();
        put(dir, &format!("masks/{name}.png"), &mask);
    }
    vec![field("mask", &dir.join("masks"), ""), field("height", &dir.join("height"), "")]
}

/// The pixels of a window, with `beyond` outside of the image.
fn window(size: (u32, u32), corner: (u32, u32), to: (u32, u32), beyond: u8) -> Vec<u8> {
    let value = |x, y| if x < size.0 && y < size.1 { at(x, y) } else { beyond };
    (0..to.1).flat_map(|y| (0..to.0).map(move |x| value(x + corner.0, y + corner.1))).collect()
}

#[test]
fn images_and_what_lies_on_them_get_one_size() {
    for (fit, to) in [(Fit::Pad, (5, 4)), (Fit::Crop, (3, 3))] {
        for nodata in [None, Some(0.0)] {
            let dir = tempfile::tempdir().unwrap();
            let fields = set(dir.path(), nodata);
            let frame = Some(FrameOptions { fit, size: None });
            let plan = PlanOptions { frame, fields, ..arrays() };
            let out = dir.path().join("out");
            let report = run(&dir.path().join("images"), &out, plan, 2).unwrap();
            let said: Vec<_> = report.doubts.iter().map(|doubt| doubt.text.as_str()).collect();
            assert_eq!(said, ["the arrays have 3 x 3 to 5 x 4 pixels, and get one size"]);
            let (bundle, found) = samples(&out);
            let manifest = bundle.manifest();
            let shape = [u64::from(to.1), u64::from(to.0), 1];
            assert_eq!(manifest.fields[0].as_fixed(), Some((Dtype::U8, &shape[..])));
            let mut sum = 0;
            for (name, size) in SIZES {
                let corner = match fit {
                    Fit::Crop => ((size.0 - to.0) / 2, (size.1 - to.1) / 2),
                    _ => (0, 0),
                };
                let values = &found[&format!("{name}.tif")].1;
                let of = |beyond| window(size, corner, to, beyond);
                assert_eq!(values[0], of(0), "{name} {fit:?}");
                let field = |name: &str| {
                    &values[manifest.fields.iter().position(|of| of.name.as_str() == name).unwrap()]
                };
                assert_eq!(*field("mask"), of(255), "{name} {fit:?}");
                assert_eq!(*field("height"), of(99), "{name} {fit:?}");
                let transform = field("image_transform").as_chunks().0;
                let x = f64::from_le_bytes(transform[0]);
                assert_eq!(x, 500.0 + 10.0 * f64::from(corner.0));
                sum += of(0).iter().map(|v| u64::from(*v)).sum::<u64>();
            }
            // What was added has no value.
            let found = manifest.statistics.clone().unwrap();
            let n = if fit == Fit::Pad { 20 + 12 + 15 } else { 27 };
            let counted = found.counts.first().copied().unwrap_or(found.pixels);
            assert_eq!((counted, found.sum[0].as_str()), (n, &*sum.to_string()));
            let grid: Vec<_> = manifest.fields.iter().filter(|of| of.is_on_image()).collect();
            assert_eq!(grid.len(), 2, "{grid:?}");
        }
    }
}

#[test]
fn arrays_with_any_axes_get_one_size() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("in");
    for (name, (width, height)) in [("a", (3, 2)), ("b", (2, 3))] {
        let values: Vec<u8> = (0..2 * 2 * width * height).collect();
        let shape = [2, 2, height.into(), width.into()];
        let file = [npy_header(Dtype::U8, &shape), values].concat();
        put(&source, &format!("{name}.npy"), &file);
    }
    let axes: Axes = "tcyx".parse().unwrap();
    let plan = PlanOptions {
        axes: [(FieldName::image(), Some(axes))].into(),
        frame: Some(FrameOptions { fit: Fit::Pad, size: Some((3, 3)) }),
        ..arrays()
    };
    run(&source, &dir.path().join("out"), plan, 1).unwrap();
    let (bundle, found) = samples(&dir.path().join("out"));
    assert_eq!(bundle.manifest().fields[0].as_fixed(), Some((Dtype::U8, &[2, 2, 3, 3][..])));
    assert_eq!(found["a.npy"].1[0][..18], [0, 1, 2, 3, 4, 5, 0, 0, 0, 6, 7, 8, 9, 10, 11, 0, 0, 0]);
    assert_eq!(found["b.npy"].1[0][27..], [18, 19, 0, 20, 21, 0, 22, 23, 0]);
    assert_eq!(bundle.manifest().statistics.clone().unwrap().counts, [24, 24]);
}

#[test]
fn sizes_and_settings_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    set(dir.path(), None);
    let (images, out) = (dir.path().join("images"), dir.path().join("out"));
    let with = |fit, size| PlanOptions { frame: Some(FrameOptions { fit, size }), ..arrays() };
    for (fit, size, reason, n) in [
        (Fit::Pad, (4, 4), "it has 5 x 4 pixels, and cannot be padded to 4 x 4", 2),
        (Fit::Crop, (4, 3), "it has 3 x 4 pixels, and cannot be cropped to 4 x 3", 1),
    ] {
        let error = run(&images, &out, with(fit, Some(size)), 1).unwrap_err();
        let Error::Run(RunError::BadInputs(bad)) = &error else { panic!("{error}") };
        let is_named = bad.named.iter().any(|bad| bad.reason == reason);
        assert!(is_named && bad.n == n, "{bad:?}");
        let skip = PlanOptions { on_error: OnBadInput::Skip, ..with(fit, Some(size)) };
        let out = dir.path().join(format!("skip{n}"));
        assert_eq!(run(&images, &out, skip, 1).unwrap().skipped, n);
    }
    // A mask of another size than its image is not cut to it.
    put(dir.path(), "masks/a.png", &encode_png(&pixels((3, 4)), 3, 4).unwrap());
    let fields = vec![field("mask", &dir.path().join("masks"), "")];
    let error = run(&images, &out, PlanOptions { fields, ..with(Fit::Pad, None) }, 1).unwrap_err();
    let expected = "`a.tif`: its `mask`, `a.png`: it has 3 x 4 pixels, but its image has 5 x 4";
    assert!(error.to_string().starts_with(expected), "{error}");
    let tile = Some(TileOptions { size: 2, overlap: 0, min_valid: 0.0, block: None });
    let joined = vec!["{key}_{band}.tif".parse().unwrap()];
    let pad = || with(Fit::Pad, None);
    for plan in [
        with(Fit::Stretch, None),
        PlanOptions { tile, ..pad() },
        PlanOptions { images: joined, ..pad() },
        PlanOptions { align: Align::Resample, ..pad() },
        PlanOptions { inputs: gular_pack::Inputs::Images, labels: Labels::Path, ..pad() },
    ] {
        let error = run(&images, &out, plan, 1).unwrap_err();
        assert!(matches!(error, Error::Run(RunError::Setting { .. })), "{error}");
    }
}
