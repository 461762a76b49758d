//! Bytes decide what an image is, not the extension of its name.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::support::{big_images, jpeg, options, png, put, run};
use gular_bundle::{Bundle, FieldKind, OpenOptions};
use gular_pack::{
    CheckImages, Error, Inputs, Labels, MergeOptions, PackOptions, PackReport, Pages, Part,
    PlanOptions, Remedy, RunError, SourceError, merge, pack,
};

fn media_types(bundle: &Path) -> Vec<String> {
    let bundle = Bundle::open(bundle, OpenOptions::default()).unwrap();
    match &bundle.manifest().fields[0].kind {
        FieldKind::Bytes { media_types } => media_types.clone(),
        FieldKind::Fixed { .. } => Vec::new(),
    }
}

fn named(report: &PackReport) -> Vec<(String, String)> {
    let mut named: Vec<_> =
        report.misnamed.named.iter().map(|one| (one.path.clone(), one.reason.clone())).collect();
    named.sort();
    named
}

#[test]
fn misnamed_images_are_packed_as_what_they_are() {
    let source = tempfile::tempdir().unwrap();
    for i in 0..6 {
        put(source.path(), &format!("train/cat/{i}.jpg"), &jpeg(i));
    }
    put(source.path(), "train/cat/really.jpg", &png(3));
    put(source.path(), "train/cat/also.webp", &jpeg(4));
    for check in [CheckImages::None, CheckImages::Header, CheckImages::Full, CheckImages::Strict] {
        let out = tempfile::tempdir().unwrap();
        let plan = PlanOptions { check, ..PlanOptions::default() };
        let report = run(source.path(), out.path(), plan, 2).unwrap();
        assert_eq!((report.samples, report.skipped, report.misnamed.n), (8, 0, 2), "{check:?}");
        let says =
            |name: &str, is: &str| format!("its extension says {name}, and its content is {is}");
        let expected = [
            ("train/cat/also.webp".to_owned(), says("image/webp", "image/jpeg")),
            ("train/cat/really.jpg".to_owned(), says("image/jpeg", "image/png")),
        ];
        assert_eq!(named(&report), expected);
        assert_eq!(media_types(out.path()), ["image/jpeg", "image/png"], "what is in the bundle");
    }
}

#[test]
fn parts_find_the_media_types_that_one_machine_finds() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    big_images(source.path());
    put(source.path(), "c0/last.png", &jpeg(1));
    let plan = PlanOptions { shard_bytes: 1 << 20, ..PlanOptions::default() };
    let whole = run(source.path(), &out.path().join("whole"), plan.clone(), 1).unwrap();
    let mut parts = Vec::new();
    for number in 1..=2 {
        let part = out.path().join(number.to_string());
        let options = PackOptions { part: Part::new(number, 2), ..options(plan.clone(), 1) };
        pack(source.path(), &part, &options, &|_| {}, &AtomicBool::new(false)).unwrap();
        parts.push(part);
    }
    let merged = out.path().join("merged");
    let merging = MergeOptions { jobs: 1, dry_run: false };
    let report = merge(&parts, &merged, &merging, &|_| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!((Some(report.digest), report.misnamed.n), (whole.digest, 1));
    assert_eq!(media_types(&merged), ["image/jpeg", "image/png"]);
}

#[test]
fn jpegs_under_their_other_names_are_packed() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(source.path(), "train/cat/a.jfif", &jpeg(1));
    // Two pictures one after the other: the first one is read.
    put(source.path(), "train/cat/b.MPO", &[jpeg(2), jpeg(3)].concat());
    put(source.path(), "train/cat/c.jpe", &jpeg(4));
    let plan = PlanOptions { check: CheckImages::Full, ..PlanOptions::default() };
    let report = run(source.path(), out.path(), plan, 1).unwrap();
    assert_eq!((report.samples, report.misnamed.n), (3, 0));
    assert_eq!(media_types(out.path()), ["image/jpeg"]);
}

#[test]
fn formats_that_are_not_packed_are_counted_with_one_way_that_works() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(source.path(), "train/cat/a.jpg", &jpeg(1));
    for name in ["d.ico", "e.tga", "f.avif", "g.HEIC", "h.jxl"] {
        put(source.path(), &format!("train/cat/{name}"), b"whatever");
    }
    let report = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap();
    let [warning] = report.warnings.as_slice() else { panic!("{:?}", report.warnings) };
    for kind in ["ico", "tga", "avif", "heic", "jxl"] {
        assert!(warning.contains(&format!("1 {kind}")), "{warning}");
    }
    assert!(warning.ends_with(gular_codec::CONVERT), "{warning}");
    // Under the name of another format the same words are the hint.
    put(source.path(), "train/cat/h.jpg", b"\0\0\0\x18ftypheic");
    let error = run(source.path(), &out.path().join("x"), PlanOptions::default(), 1).unwrap_err();
    let Error::Run(RunError::BadInputs(bad)) = error else { panic!("{error}") };
    assert_eq!(bad.named[0].hint.as_deref(), Some(gular_codec::CONVERT));
}

#[test]
fn formats_that_are_not_read_are_named_whatever_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let dicom = [&[0; 128][..], b"DICM"].concat();
    for (name, file, bytes, expected) in [
        ("grib", "X/R10m/T33_B02_10m.grib", &b"GRIB"[..], "GRIB"),
        ("dicom", "a/IM0001", &dicom, "DICOM"),
        ("hdf", "a/b.hdf", b"\x0e\x03\x13\x01", "HDF4"),
        ("netcdf", "a/b.nc", b"CDF\x01", "netCDF"),
        ("zarr", "a.zarr/.zgroup", b"{}", "Zarr"),
        ("zarr3", "a.zarr/zarr.json", b"{}", "Zarr"),
    ] {
        put(&dir.path().join(name), file, bytes);
        let check = |source: &Path, inputs: Inputs, is_of_file: bool| {
            let plan = PlanOptions { inputs, labels: Labels::None, ..PlanOptions::default() };
            let error = run(source, &dir.path().join("out"), plan, 1).unwrap_err();
            let Error::Source(SourceError::Outside { format, is_file, .. }) = &error else {
                panic!("{error}")
            };
            assert_eq!((format.name, *is_file), (expected, is_of_file), "{error}");
            assert!(error.to_string().contains(&format!("{expected} is not read")), "{error}");
        };
        for inputs in [Inputs::Images, Inputs::Arrays] {
            check(&dir.path().join(name), inputs, false);
            if expected != "Zarr" {
                check(&dir.path().join(name).join(file), inputs, true);
            }
        }
    }
    // Beside images they are warned of.
    put(&dir.path().join("grib"), "X/ql.jpg", &jpeg(1));
    put(&dir.path().join("grib"), "X/ql.ico", b"BM");
    let plan = PlanOptions { labels: Labels::None, ..PlanOptions::default() };
    let warnings = run(&dir.path().join("grib"), &dir.path().join("ql"), plan, 1).unwrap().warnings;
    let [left_out, pictures] = warnings.as_slice() else { panic!("{warnings:?}") };
    let words = "files left out, since GRIB is not read: 1 grib; to pack them, convert them";
    assert!(left_out.starts_with(words) && pictures.contains(": 1 ico; "), "{warnings:?}");
    // As files of any kind they are packed.
    let plan =
        PlanOptions { inputs: Inputs::Bytes, labels: Labels::None, ..PlanOptions::default() };
    assert_eq!(
        run(&dir.path().join("hdf"), &dir.path().join("bytes"), plan, 1).unwrap().samples,
        1
    );
}

#[test]
fn images_without_an_extension_are_known_by_their_bytes() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = dir.path().join("set");
    for (path, bytes) in [("cat/1", jpeg(1)), ("cat/2.png", png(2)), ("dog/3", png(3))] {
        put(&source, path, &bytes);
    }
    put(&source, "dog/LICENSE", b"Permission is hereby granted");
    put(&source, "dog/more.zip", b"PK");
    let report = run(&source, &out.path().join("a"), PlanOptions::default(), 1).unwrap();
    assert_eq!(report.images, ["{label}/{key}.{ext}", "{label}/{key}"]);
    assert_eq!((report.samples, report.ignored["no extension"]), (3, 1));
    assert!(report.warnings[0].contains("not opened: 1 zip"), "{:?}", report.warnings);
    let bundle = Bundle::open(&out.path().join("a"), OpenOptions::default()).unwrap();
    let FieldKind::Bytes { media_types } = &bundle.manifest().fields[0].kind else { panic!() };
    assert_eq!(media_types.len(), 2);
}

#[test]
fn pictures_of_further_formats_become_png() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ppm = |n: u8| [&b"P6\n2 1\n255\n"[..], &[n; 6]].concat();
    put(dir.path(), "a/1.ppm", &ppm(7));
    put(dir.path(), "b/2.pgm", b"P5\n2 1\n255\n\x01\x02");
    let report = run(dir.path(), &out.path().join("a"), PlanOptions::default(), 1).unwrap();
    assert!(report.warnings[0].ends_with("same pixels: 1 pgm, 1 ppm"), "{:?}", report.warnings);
    assert_eq!(
        (media_types(&out.path().join("a")), report.misnamed.n),
        (vec!["image/png".into()], 0)
    );
    let (bundle, found) = crate::support::samples(&out.path().join("a"));
    let image = bundle.manifest().fields.iter().position(|f| f.name.as_str() == "image").unwrap();
    let png = &found["a/1.ppm"].1[image];
    let picture = gular_codec::Decoder::new(gular_codec::DecodeOptions::default()).decode(png);
    assert_eq!(picture.unwrap().data(), [7; 6]);
    // An animation is refused, or its first picture taken.
    let animation = include_bytes!("data/two_frames.gif");
    put(dir.path(), "b/3.gif", animation);
    let error = run(dir.path(), &out.path().join("b"), PlanOptions::default(), 1).unwrap_err();
    let Error::Run(RunError::BadInputs(bad)) = error else { panic!("{error}") };
    assert_eq!(bad.named[0].remedy, Remedy::TakeFirstFrame);
    let first = PlanOptions { pages: Pages::First, ..PlanOptions::default() };
    assert_eq!(run(dir.path(), &out.path().join("c"), first, 1).unwrap().samples, 3);
}
