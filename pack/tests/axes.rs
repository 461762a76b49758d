//! What the axes of arrays mean, and which fields are on the pixels of the image.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gular_bundle::{Axes, Dtype, Envelope, Field, FieldName, Nodata};
use gular_codec::encode_png;
use gular_codec::tiff::{Geo, GeoTiffWriter, Number, Packing};
use gular_pack::{
    AdoptOptions, DeriveOptions, Error, Inputs, Labels, OnBadInput, PackReport, PayloadOptions,
    PlanError, PlanOptions, RawOptions, Remedy, Resampling, RunError, TileOptions, adopt, derive,
};

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
        (&[], None, "an image that is an array needs 1 to 5 axes"),
        (&[2; 6], None, "an image that is an array needs 1 to 5 axes"),
        (&[2; 6], Some("tzcyx"), "an image that is an array needs 1 to 5 axes"),
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
    let expected = "1 is i16 [16, 20, 2] yxc, such as `1.tif`; 1 of another type or shape, such as `2.npy`: i16 [16, 20, 2]";
    assert!(told.contains(expected), "{told}");
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
    let Error::Run(RunError::BadInputs(bad)) = &error else { unreachable!("{error}") };
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
    // All must be like the first one.
    let last_small = |i| if i == 2 { small(i) } else { png(i) };
    let error = pack(&last_small, &[]).unwrap_err();
    let Error::Run(RunError::BadInputs(bad)) = &error else { unreachable!("{error}") };
    assert_eq!(bad.named[0].remedy, Remedy::NotOnImage);
    assert!(error.to_string().contains("4 x 3 pixels, but its image has 12 x 9"), "{error}");
    assert_eq!(of(pack(&last_small, &[("more", None)])), (None, false));
    // A grey picture is read as a picture in colour, but not the reverse.
    let one_grey = |at| move |i| if i == at { grey(12, 9, &[7; 108], false) } else { png(i) };
    assert_eq!(of(pack(&one_grey(2), &[])), (Some("yxc".to_owned()), true));
    let error = pack(&one_grey(0), &[]).unwrap_err();
    let Error::Run(RunError::BadInputs(bad)) = &error else { unreachable!("{error}") };
    assert_eq!(bad.named[0].remedy, Remedy::SameColours);
    assert!(error.to_string().contains("it is not a PNG of one channel, as `0.png` is"), "{error}");
    assert_eq!(of(pack(&one_grey(0), &[("more", Some("yxc"))])), (Some("yxc".to_owned()), true));
}

#[test]
fn a_field_of_which_only_some_files_are_on_the_image_is_refused() {
    let small = |_| encode_png(&[0; 4 * 3 * 3], 4, 3).unwrap();
    // Pictures: the file of one image is smaller. Arrays: one image is larger than its array.
    for at in 0..3 {
        for extension in ["png", "npy"] {
            let dir = tempfile::tempdir().unwrap();
            let images = match extension {
                "png" => beside(dir.path(), "png", &|i| if i == at { small(i) } else { png(i) }),
                _ => beside(dir.path(), "npy", &|_| zeros(&[9, 12])),
            };
            let told = match extension {
                "png" => "it has 4 x 3 pixels, but its image has 12 x 9",
                _ => {
                    put(&images, &format!("{at}.png"), &small(at));
                    // What is compared when the plan is made, and what when it is packed.
                    if at == 0 {
                        "has the shape [9, 12], but its image has 4 x 3 pixels"
                    } else {
                        "it has 12 x 9 pixels, but its image has 4 x 3"
                    }
                }
            };
            let fields = vec![field("more", &dir.path().join("more"), "")];
            let plan = PlanOptions { fields, ..axes(&[]) };
            let error = packed(&images, &dir.path().join("out"), plan.clone()).unwrap_err();
            let Error::Run(RunError::BadInputs(bad)) = &error else { unreachable!("{error}") };
            assert_eq!(bad.named[0].remedy, Remedy::NotOnImage);
            let (wrong, like) = (format!("{at}.png"), if at == 0 { 1 } else { 0 });
            assert_eq!(bad.named[0].path, wrong);
            let like = format!("; `{like}.{extension}` has the size of its image");
            let error = error.to_string();
            assert!(error.contains(told) && error.ends_with(&like), "{error}");
            let skip = PlanOptions { on_error: OnBadInput::Skip, ..plan.clone() };
            let (report, fields) = packed(&images, &dir.path().join("skip"), skip).unwrap();
            assert_eq!((report.samples, report.skipped, fields[1].is_on_image()), (2, 1, true));
            let none = PlanOptions { axes: axes(&[("more", None)]).axes, ..plan };
            let (report, fields) = packed(&images, &dir.path().join("none"), none).unwrap();
            assert_eq!((report.samples, fields[1].is_on_image()), (3, false));
        }
    }
}

#[test]
fn axes_that_do_not_apply_are_refused() {
    let text = |_: u32| b"a caption".to_vec();
    let array = |_: u32| zeros(&[18, 24]);
    let refused = |extension: &str, file: &dyn Fn(u32) -> Vec<u8>, name: &str, given: &str| {
        let dir = tempfile::tempdir().unwrap();
        let images = beside(dir.path(), extension, file);
        let given = (name, Some(given).filter(|given| *given != "none"));
        let files = if name == "mask" { "mask" } else { "more" };
        let fields = vec![field(files, &dir.path().join("more"), "")];
        let plan = PlanOptions { fields, ..axes(&[given]) };
        packed(&images, &dir.path().join("out"), plan).unwrap_err()
    };
    for (extension, file, name, given, told, remedy) in [
        (
            "png",
            &png as &dyn Fn(u32) -> Vec<u8>,
            "image",
            "cyx",
            "these are pictures, whose axes are known",
            None,
        ),
        ("png", &png, "aftr", "none", "the fields with files of their own are `more`", None),
        ("npy", &array, "mask", "yx", "`mask`, which always has the axes `yx`", None),
        ("txt", &text, "more", "yx", "neither an array nor a picture", Some(Remedy::NameAxes)),
        ("png", &png, "more", "yx", "with the axes `yxc`, not `yx`", Some(Remedy::NameAxes)),
        ("npy", &array, "more", "yx", "but its image has 12 x 9", Some(Remedy::NotOnImage)),
    ] {
        let error = refused(extension, file, name, given);
        assert!(error.to_string().contains(told), "{error}");
        match (&error, remedy) {
            (Error::Run(RunError::BadInputs(bad)), Some(remedy)) => {
                assert_eq!(bad.named[0].remedy, remedy);
            }
            (Error::Run(RunError::Setting { names, .. }), None) => assert_eq!(*names, ["axes"]),
            _ => unreachable!("{error}"),
        }
    }
    // What is said of a picture, and true, changes nothing.
    let dir = tempfile::tempdir().unwrap();
    let images = beside(dir.path(), "png", &png);
    let fields = vec![field("more", &dir.path().join("more"), "")];
    let given = axes(&[("more", Some("yxc"))]).axes;
    let plain = PlanOptions { fields, ..axes(&[]) };
    let (a, _) = packed(&images, &dir.path().join("a"), plain.clone()).unwrap();
    let said = PlanOptions { axes: given.clone(), ..plain.clone() };
    let (b, fields) = packed(&images, &dir.path().join("b"), said).unwrap();
    assert!(fields[1].is_on_image());
    assert_eq!(a.digest, b.digest);
    // A picture is not resized with its image.
    let raw = PayloadOptions::Raw(RawOptions::new(8, 8));
    let raw = PlanOptions { axes: given, payload: raw, ..plain };
    let error = packed(&images, &dir.path().join("c"), raw.clone()).unwrap_err().to_string();
    assert!(error.contains("which is not resized with its image"), "{error}");
    let bytes = PlanOptions { inputs: Inputs::Bytes, payload: PayloadOptions::Encoded, ..raw };
    let error = packed(&images, &dir.path().join("d"), bytes).unwrap_err().to_string();
    assert!(error.contains("`0.png` is a picture, and no images are packed"), "{error}");
}

#[test]
fn the_nodata_value_of_a_field_is_recorded_and_the_same_in_all_files() {
    let height = |nodata: Option<f64>, number: Number| {
        let (out, geo) = (Cursor::new(Vec::new()), Geo { nodata, ..Geo::default() });
        let mut writer = GeoTiffWriter::new(out, (12, 9), 1, number, geo, Packing::None).unwrap();
        writer
            .push(&[0; 12 * 9 * 4][..12 * 9 * if number == Number::F32 { 4 } else { 1 }])
            .unwrap();
        writer.finish().unwrap().into_inner()
    };
    for (name, number) in [("height", Number::F32), ("mask", Number::U8)] {
        for (values, found) in [
            ([Some(-9999.0), Some(-9999.0)], Ok(Some("-9999"))),
            ([None, None], Ok(None)),
            ([None, Some(f64::NAN)], Ok(Some("NaN"))),
            ([Some(f64::NAN), None], Ok(Some("NaN"))),
            (
                [Some(-9999.0), Some(0.0)],
                Err("`1.tif`, has the nodata value 0, but `0.tif` has the nodata value -9999"),
            ),
            (
                [None, Some(0.0)],
                Err("`1.tif`, has the nodata value 0, but `0.tif` has no nodata value"),
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for (i, nodata) in values.into_iter().enumerate() {
                put(&dir.path().join("images"), &format!("{i}.npy"), &zeros(&[9, 12]));
                put(&dir.path().join("more"), &format!("{i}.tif"), &height(nodata, number));
            }
            let fields = vec![field(name, &dir.path().join("more"), "")];
            let plan = PlanOptions { fields, ..arrays(&[]) };
            let result = packed(&dir.path().join("images"), &dir.path().join("out"), plan);
            match found {
                Ok(nodata) => {
                    let (_, fields) = result.unwrap();
                    assert_eq!(fields[1].nodata.as_ref().map(Nodata::as_str), nodata, "{name}");
                }
                Err(told) => {
                    let error = result.unwrap_err().to_string();
                    assert!(error.contains(told), "{error}");
                }
            }
        }
    }
}

#[test]
fn the_report_says_how_fields_on_the_image_are_resized() {
    for (image, extension, file, expected) in [
        (None, "npy", zeros(&[9, 12]), Resampling::Interpolated),
        (None, "npy", array(Dtype::U8, &[9, 12], &[0; 108]), Resampling::Nearest),
        (None, "png", png(1), Resampling::LikeImage),
        (None, "png", grey(12, 9, &[7; 108], false), Resampling::Nearest),
        (Some(zeros(&[2, 9, 12])), "npy", zeros(&[9, 12, 2]), Resampling::LikeImage),
        (Some(zeros(&[2, 9, 12])), "npy", zeros(&[9, 12]), Resampling::Interpolated),
        (Some(zeros(&[2, 9, 12])), "png", png(1), Resampling::Interpolated),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (images, plan) = match &image {
            None => (beside(dir.path(), extension, &|_| file.clone()), axes(&[])),
            Some(array) => {
                put(&dir.path().join("images"), "0.npy", array);
                put(&dir.path().join("more"), &format!("0.{extension}"), &file);
                (dir.path().join("images"), arrays(&[]))
            }
        };
        let fields = vec![field("more", &dir.path().join("more"), "")];
        let plan = PlanOptions { fields, ..plan };
        let (report, _) = packed(&images, &dir.path().join("out"), plan).unwrap();
        assert_eq!(report.resampling.get("more"), Some(&expected), "{extension}");
    }
}

#[test]
fn images_above_the_usual_limit_of_pixels_have_fields_on_their_pixels() {
    // Only headers are read: 20,000 x 20,000 pixels are more than 2^28.
    let huge = |mut png: Vec<u8>| {
        for at in [16, 20] {
            png[at..at + 4].copy_from_slice(&20_000_u32.to_be_bytes());
        }
        let crc = crc32fast::hash(&png[12..29]).to_be_bytes();
        png[29..33].copy_from_slice(&crc);
        png
    };
    let dir = tempfile::tempdir().unwrap();
    let images = beside(dir.path(), "png", &|i| huge(png(i)));
    for i in 0..3 {
        put(&images, &format!("{i}.png"), &huge(png(i)));
    }
    let fields = vec![field("more", &dir.path().join("more"), "")];
    let plan = PlanOptions { fields, max_pixels: 1 << 30, ..axes(&[]) };
    let (_, fields) = packed(&images, &dir.path().join("out"), plan.clone()).unwrap();
    assert!(fields[1].is_on_image());
    // An image that cannot be read has its own fault.
    put(&images, "0.png", b"\x89PNG\r\n\x1a\n damaged");
    let error = packed(&images, &dir.path().join("other"), plan.clone()).unwrap_err().to_string();
    assert!(error.starts_with("`0.png`: ") && !error.contains("`more`"), "{error}");
    let skip = PlanOptions { on_error: OnBadInput::Skip, ..plan };
    let (report, fields) = packed(&images, &dir.path().join("skip"), skip).unwrap();
    assert_eq!((report.samples, fields[1].is_on_image()), (2, true));
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
        let given = given.map(|axes| (FieldName::image(), Some(axes)));
        let axes = given.into_iter().collect();
        let options = AdoptOptions { axes, ..AdoptOptions::default() };
        let out = dir.path().join("adopted");
        let adopted = adopt(&files, &out, &options, &|_| {}, &Arc::default());
        let Some(expected) = expected else {
            let error = adopted.unwrap_err();
            assert!(matches!(error, Error::Plan(PlanError::UnknownAxes { .. })), "{error}");
            continue;
        };
        adopted.unwrap();
        let (bundle, _) = samples(&out);
        let axes = bundle.manifest().fields[0].axes.as_ref();
        assert_eq!(axes.map(Axes::as_str), Some(expected), "{shape:?}");
    }
}

#[test]
fn bundles_that_differ_only_in_the_axes_or_the_place_of_a_field_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let images = beside(dir.path(), "png", &png);
    let fields = vec![field("more", &dir.path().join("more"), "")];
    let plan = PlanOptions { fields, ..axes(&[]) };
    let bases = [dir.path().join("a"), dir.path().join("b")];
    packed(&images, &bases[0], plan.clone()).unwrap();
    let none = PlanOptions { axes: axes(&[("more", None)]).axes, ..plan };
    packed(&images, &bases[1], none).unwrap();
    let options = DeriveOptions::new(std::env::temp_dir());
    let error = derive(&bases, &dir.path().join("c"), &options, &|_| {}, &AtomicBool::new(false));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("`more` (files yxc, on the image's pixels)"), "{error}");
    assert!(error.contains("`more` (files), expected"), "{error}");
}

#[test]
fn other_adopted_arrays_are_on_the_image_as_packed_ones_are() {
    for (image, more, given, found) in [
        (&[9_u64, 12][..], &[9_u64, 12][..], None, Ok((Some("yx"), true))),
        (&[9, 12, 2], &[2, 9, 12], None, Ok((Some("cyx"), true))),
        (&[9, 12], &[9, 12], Some(("more", None)), Ok((None, false))),
        (&[9, 12], &[18, 24], None, Ok((None, false))),
        (&[9, 12], &[18, 24], Some(("more", Some("tc"))), Ok((Some("tc"), false))),
        (&[9, 12], &[18, 24], Some(("more", Some("yx"))), Err("the image has 12 x 9 pixels")),
        (&[9, 12], &[9, 12], Some(("more", Some("cyx"))), Err("not the axes `cyx`")),
        (&[9, 12], &[9, 12], Some(("mroe", None)), Err("the fields are `image`, `more`")),
        (&[16, 16], &[16, 16, 16], None, Err("can be read in more than one way")),
        (&[16, 16], &[16, 16, 16], Some(("more", Some("cyx"))), Ok((Some("cyx"), true))),
    ] {
        let dir = tempfile::tempdir().unwrap();
        put(&dir.path().join("images"), "1.npy", &zeros(image));
        put(&dir.path().join("more"), "1.npy", &zeros(more));
        let fields = vec![field("more", &dir.path().join("more"), "")];
        let plan = PlanOptions { fields, envelope: Envelope::Hdf5, ..arrays(&[("more", None)]) };
        run(&dir.path().join("images"), &dir.path().join("packed"), plan, 1).unwrap();
        let files = std::fs::read_dir(dir.path().join("packed/data")).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let files: Vec<_> =
            files.filter(|file| file.extension().is_some_and(|e| e == "h5")).collect();
        let axes = axes(given.as_slice()).axes;
        let options = AdoptOptions { axes, ..AdoptOptions::default() };
        let out = dir.path().join("adopted");
        let adopted = adopt(&files, &out, &options, &|_| {}, &Arc::default());
        let (axes, on_image) = match found {
            Ok(found) => found,
            Err(told) => {
                let error = adopted.unwrap_err().to_string();
                assert!(error.contains(told), "{error}");
                continue;
            }
        };
        assert_eq!(adopted.unwrap().resampling.contains_key("more"), on_image, "{more:?}");
        let (bundle, _) = samples(&out);
        let field = &bundle.manifest().fields[1];
        assert_eq!(field.axes.as_ref().map(Axes::as_str), axes, "{more:?}");
        assert_eq!(field.is_on_image(), on_image, "{more:?}");
        // What was adopted in another way is not called done.
        let options = AdoptOptions::default();
        let again = adopt(&files, &out, &options, &|_| {}, &Arc::default());
        assert_eq!(again.is_ok_and(|again| again.already_done), given.is_none(), "{more:?}");
    }
}

#[test]
fn the_size_of_a_picture_is_found_behind_its_notes() {
    // Some hundred kilobytes of a private chunk are before the pixels.
    let noted = |mut png: Vec<u8>| {
        let mut chunk = b"noTe".to_vec();
        chunk.resize(4 + (300 << 10), 7);
        let crc = crc32fast::hash(&chunk).to_be_bytes();
        let len = (300_u32 << 10).to_be_bytes();
        png.splice(33..33, len.into_iter().chain(chunk).chain(crc));
        png
    };
    let dir = tempfile::tempdir().unwrap();
    let images = beside(dir.path(), "png", &|i| noted(png(i)));
    for i in 0..3 {
        put(&images, &format!("{i}.png"), &noted(png(i)));
    }
    let fields = vec![field("more", &dir.path().join("more"), "")];
    let plan = PlanOptions { fields, ..axes(&[]) };
    let (_, fields) = packed(&images, &dir.path().join("out"), plan).unwrap();
    assert!(fields[1].is_on_image());
}

#[test]
fn no_class_is_beyond_a_scene() {
    let dir = tempfile::tempdir().unwrap();
    let (source, masks) = (dir.path().join("scenes"), dir.path().join("masks"));
    put(&source, "1.tif", &scene((20, 16), 20, Geo::default()));
    let out = Cursor::new(Vec::new());
    let mut mask =
        GeoTiffWriter::new(out, (20, 16), 1, Number::U8, Geo::default(), Packing::Deflate).unwrap();
    for _ in 0..16 {
        mask.push(&[3; 20]).unwrap();
    }
    put(&masks, "1.tif", &mask.finish().unwrap().into_inner());
    let tile = Some(TileOptions { size: 24, overlap: 0, min_valid: 0.0, block: None });
    let plan = PlanOptions { tile, fields: vec![field("mask", &masks, "")], ..arrays(&[]) };
    let out = dir.path().join("out");
    run(&source, &out, plan, 1).unwrap();
    let (_, found) = samples(&out);
    let mask = &found.values().next().unwrap().1[1];
    let of = |class: u8| mask.iter().filter(|value| **value == class).count();
    assert_eq!((of(3), of(255)), (20 * 16, 24 * 24 - 20 * 16));
}
