//! What the axes of arrays mean, and which fields are on the pixels of the image.

use std::path::Path;
use std::sync::Arc;

use gular_bundle::{Axes, Dtype, Envelope, Field, FieldName};
use gular_codec::encode_png;
use gular_codec::tiff::Geo;
use gular_pack::{AdoptOptions, Error, Inputs, Labels, PackReport, PlanOptions, Remedy, adopt};

use crate::fields::{array, field, grey};
use crate::scenes::scene;
use crate::support::{png, put, run, samples, small_shards};

/// Zeros of type f32.
fn zeros(shape: &[u64]) -> Vec<u8> {
    let n: u64 = shape.iter().product();
    array(Dtype::F32, shape, &vec![0; n as usize * 4])
}

fn axes(of: &[(&str, Option<&str>)]) -> PlanOptions {
    let axes = of.iter().map(|(name, axes)| {
        (FieldName::parse(name).unwrap(), axes.map(|axes| axes.parse::<Axes>().unwrap()))
    });
    PlanOptions { axes: axes.collect(), labels: Labels::None, ..small_shards() }
}

fn arrays(of: &[(&str, Option<&str>)]) -> PlanOptions {
    PlanOptions { inputs: Inputs::Arrays, ..axes(of) }
}

fn packed(source: &Path, out: &Path, plan: PlanOptions) -> Result<(PackReport, Vec<Field>), Error> {
    let report = run(source, out, plan, 2)?;
    let (bundle, _) = samples(out);
    Ok((report, bundle.manifest().fields.clone()))
}

#[test]
fn the_axes_of_arrays_are_recorded_or_asked_for() {
    for (i, (shape, given, expected)) in [
        (&[12_u64, 40, 32][..], None, "cyx"),
        (&[40, 32, 12], None, "yxc"),
        (&[40, 32], None, "yx"),
        (&[16, 16, 16], Some("xcy"), "xcy"),
        (&[2, 3, 16, 16], Some("tcyx"), "tcyx"),
        (&[64], Some("c"), "c"),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("arrays");
        put(&source, "1.npy", &zeros(shape));
        let out = dir.path().join(format!("out {i}"));
        let given = given.map(|given| ("image", Some(given)));
        let (report, fields) = packed(&source, &out, arrays(given.as_slice())).unwrap();
        assert_eq!(fields[0].axes.as_ref().map(Axes::as_str), Some(expected), "{shape:?}");
        assert_eq!(report.axes.as_deref(), Some(expected));
    }
    for (shape, given, told) in [
        (&[16_u64, 16, 16][..], None, "more than one way"),
        (&[2, 3, 16, 16], None, "more than one way"),
        (&[64], None, "more than one way"),
        (&[12, 40, 32], Some("yx"), "not the axes `yx`"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("arrays");
        put(&source, "1.npy", &zeros(shape));
        let given = given.map(|given| ("image", Some(given)));
        let error = packed(&source, &dir.path().join("out"), arrays(given.as_slice())).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
        assert!(error.to_string().contains("`1.npy`"), "{error}");
    }
}

#[test]
fn the_axes_of_a_tiff_are_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("arrays");
    put(&source, "1.tif", &scene((20, 16), 20, Geo::default()));
    let (_, fields) = packed(&source, &dir.path().join("out"), arrays(&[])).unwrap();
    assert_eq!(fields[0].axes, Some(Axes::yxc()));
    let refuse = |plan| packed(&source, &dir.path().join("other"), plan).unwrap_err().to_string();
    let told = refuse(arrays(&[("image", Some("cyx"))]));
    assert!(told.contains("its format has the axes `yxc`, not `cyx`"), "{told}");
    // The same type and shape, but the format of one does not say which axis is which.
    put(&source, "2.npy", &array(Dtype::I16, &[16, 20, 2], &[0; 1280]));
    let told = refuse(arrays(&[]));
    assert!(told.contains("`1.tif` is I16 [16, 20, 2] yxc, `2.npy` is I16 [16, 20, 2]"), "{told}");
}

/// Three images of 12 x 9 pixels, and a file beside each.
fn beside(dir: &Path, extension: &str, file: &dyn Fn(u32) -> Vec<u8>) -> std::path::PathBuf {
    for i in 0..3 {
        put(&dir.join("images"), &format!("{i}.png"), &png(i));
        put(&dir.join("more"), &format!("{i}.{extension}"), &file(i));
    }
    dir.join("images")
}

#[test]
fn a_field_of_the_size_of_its_image_is_on_its_pixels() {
    for (shape, given, found) in [
        (&[9_u64, 12][..], None, Some((Some("yx"), true))),
        (&[9, 12, 2], None, Some((Some("yxc"), true))),
        (&[2, 9, 12], None, Some((Some("cyx"), true))),
        (&[9, 12, 2], Some(None), Some((None, false))),
        (&[18, 24], None, Some((None, false))),
        (&[9, 12, 12], None, Some((Some("yxc"), true))),
        (&[9, 12, 9], None, Some((Some("yxc"), true))),
        (&[9, 9, 12], None, Some((Some("cyx"), true))),
        (&[12], None, Some((None, false))),
        (&[5, 2, 9, 12], Some(Some("tcyx")), Some((Some("tcyx"), true))),
        (&[9, 12, 2], Some(Some("tcyx")), None),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let images = beside(dir.path(), "npy", &|_| zeros(shape));
        let given = given.map(|given| ("more", given));
        let fields = vec![field("more", &dir.path().join("more"), "")];
        let plan = PlanOptions { fields, ..axes(given.as_slice()) };
        let result = packed(&images, &dir.path().join("out"), plan);
        let Some((axes, on_image)) = found else {
            assert!(result.unwrap_err().to_string().contains("not the axes `tcyx`"));
            continue;
        };
        let (report, fields) = result.unwrap();
        assert_eq!(fields[1].axes.as_ref().map(Axes::as_str), axes, "{shape:?}");
        assert_eq!(fields[1].is_on_image(), on_image, "{shape:?}");
        assert_eq!(report.on_image, if on_image { vec!["more".to_owned()] } else { Vec::new() });
    }
}

#[test]
fn two_readings_of_a_field_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("images");
    put(&source, "0.npy", &zeros(&[16, 16]));
    put(&dir.path().join("more"), "0.npy", &zeros(&[16, 16, 16]));
    let fields = vec![field("more", &dir.path().join("more"), "")];
    let plan = PlanOptions { fields, ..arrays(&[]) };
    let error = packed(&source, &dir.path().join("out"), plan.clone()).unwrap_err();
    let Error::BadInputs(bad) = &error else { unreachable!("{error}") };
    assert_eq!(bad.named[0].remedy, Remedy::NameAxes);
    assert!(error.to_string().contains("two ways"), "{error}");
    let axes = arrays(&[("more", Some("cyx"))]).axes;
    let (_, fields) =
        packed(&source, &dir.path().join("out"), PlanOptions { axes, ..plan }).unwrap();
    assert!(fields[1].is_on_image());
}

#[test]
fn a_second_picture_is_on_the_pixels_of_the_first_if_it_has_their_size() {
    let pack = |file: &dyn Fn(u32) -> Vec<u8>, given: &[(&str, Option<&str>)]| {
        let dir = tempfile::tempdir().unwrap();
        let images = beside(dir.path(), "png", file);
        let fields = vec![field("more", &dir.path().join("more"), "")];
        packed(&images, &dir.path().join("out"), PlanOptions { fields, ..axes(given) })
    };
    let of = |result: Result<(PackReport, Vec<Field>), Error>| {
        let (_, fields) = result.unwrap();
        (fields[1].axes.clone().map(String::from), fields[1].is_on_image())
    };
    assert_eq!(of(pack(&png, &[])), (Some("yxc".to_owned()), true));
    assert_eq!(of(pack(&|_| grey(12, 9, &[7; 108], false), &[])), (Some("yx".to_owned()), true));
    let small = |_| encode_png(&[0; 4 * 3 * 3], 4, 3).unwrap();
    assert_eq!(of(pack(&small, &[])), (None, false));
    // The first file decides, and the others must be like it.
    let last_small = |i| if i == 2 { small(i) } else { png(i) };
    let error = pack(&last_small, &[]).unwrap_err();
    let Error::BadInputs(bad) = &error else { unreachable!("{error}") };
    assert_eq!(bad.named[0].remedy, Remedy::NotOnImage);
    assert!(error.to_string().contains("4 x 3 pixels, but its image has 12 x 9"), "{error}");
    assert_eq!(of(pack(&last_small, &[("more", None)])), (None, false));
    let last_grey = |i| if i == 2 { grey(12, 9, &[7; 108], false) } else { png(i) };
    let error = pack(&last_grey, &[]).unwrap_err().to_string();
    assert!(error.contains("it has one channel"), "{error}");
}

#[test]
fn the_axes_of_adopted_arrays_are_recorded_or_asked_for() {
    for (shape, given, expected) in [
        (&[12_u64, 40, 32][..], None, Some("cyx")),
        (&[40, 32, 12], None, Some("yxc")),
        (&[16, 16, 16], None, None),
        (&[16, 16, 16], Some(Axes::cyx()), Some("cyx")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("arrays");
        put(&source, "1.npy", &zeros(shape));
        let plan = PlanOptions { envelope: Envelope::Hdf5, ..arrays(&[("image", Some("xcy"))]) };
        run(&source, &dir.path().join("packed"), plan, 1).unwrap();
        let files = std::fs::read_dir(dir.path().join("packed/data")).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let files: Vec<_> =
            files.filter(|file| file.extension().is_some_and(|e| e == "h5")).collect();
        let options = AdoptOptions { axes: given, ..AdoptOptions::default() };
        let out = dir.path().join("adopted");
        let adopted = adopt(&files, &out, &options, &|_| {}, &Arc::default());
        let Some(expected) = expected else {
            let error = adopted.unwrap_err();
            assert!(matches!(error, Error::UnknownAxes { .. }), "{error}");
            continue;
        };
        adopted.unwrap();
        let (bundle, _) = samples(&out);
        let axes = bundle.manifest().fields[0].axes.as_ref();
        assert_eq!(axes.map(Axes::as_str), Some(expected), "{shape:?}");
    }
}
