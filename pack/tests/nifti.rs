//! NIfTI as arrays: numbers, axes, and what the header says.

use std::io::Write as _;
use std::path::Path;

use gular_bundle::{Axes, Dtype, FieldName};
use gular_pack::{Error, Inputs, Labels, PlanOptions, Remedy, RunError, TileOptions};

use crate::fields::field;
use crate::support::{put, run, samples, small_shards};

/// A file of version 2 with 16-bit integers, big-endian or not, of a volume with `dim` = columns,
/// rows, slices. Its first voxel is at (`x`, 20, 30), and its voxels are cubes of 2 mm.
fn volume(dim: [i64; 3], x: f64, big_endian: bool, numbers: &[i16]) -> Vec<u8> {
    let mut file = vec![0; 544];
    let mut put = |at: usize, bytes: &[u8]| {
        file[at..at + bytes.len()].copy_from_slice(bytes);
        if big_endian {
            file[at..at + bytes.len()].reverse();
        }
    };
    put(0, &540_i32.to_le_bytes());
    put(12, &4_i16.to_le_bytes());
    put(14, &16_i16.to_le_bytes());
    for (i, n) in [3].into_iter().chain(dim).enumerate() {
        put(16 + 8 * i, &n.to_le_bytes());
    }
    for i in 1..5 {
        put(104 + 8 * i, &2_f64.to_le_bytes());
    }
    put(168, &544_i64.to_le_bytes());
    put(176, &0.5_f64.to_le_bytes());
    put(184, &(-1_f64).to_le_bytes());
    put(348, &1_i32.to_le_bytes());
    let rows = [[2.0, 0.0, 0.0, x], [0.0, 2.0, 0.0, 20.0], [0.0, 0.0, 2.0, 30.0]];
    for (i, n) in rows.as_flattened().iter().enumerate() {
        put(400 + 8 * i, &n.to_le_bytes());
    }
    put(500, &2_i32.to_le_bytes());
    file[4..12].copy_from_slice(b"n+2\0\r\n\x1a\n");
    for n in numbers {
        file.extend(if big_endian { n.to_be_bytes() } else { n.to_le_bytes() });
    }
    file
}

fn gzip(file: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(file).unwrap();
    packed.finish().unwrap()
}

fn arrays() -> PlanOptions {
    PlanOptions { inputs: Inputs::Arrays, labels: Labels::None, ..small_shards() }
}

fn values(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|n| f64::from_le_bytes(*n)).collect()
}

/// Two volumes of 4 x 3 x 2, and what segments them.
fn source(dir: &Path, x: f64) -> PlanOptions {
    let numbers: Vec<i16> = (-12..12).collect();
    put(dir, "scans/a.nii", &volume([4, 3, 2], 10.0, false, &numbers));
    put(dir, "scans/b.T1.nii.gz", &gzip(&volume([4, 3, 2], 11.0, true, &numbers)));
    put(dir, "segments/a.nii.gz", &gzip(&volume([4, 3, 2], x, false, &[3; 24])));
    put(dir, "segments/b.T1.nii", &volume([4, 3, 2], 11.0, false, &[4; 24]));
    PlanOptions { fields: vec![field("segments", &dir.join("segments"), "")], ..arrays() }
}

#[test]
fn volumes_have_the_axes_and_the_facts_of_their_headers() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let plan = source(dir.path(), 10.5);
    let report = run(&dir.path().join("scans"), out.path(), plan, 2).unwrap();
    assert_eq!((report.samples, report.axes.as_deref()), (2, Some("zyx")));
    let (bundle, found) = samples(out.path());
    let fields = &bundle.manifest().fields;
    let at = |name: &str| fields.iter().position(|field| field.name.as_str() == name).unwrap();
    let image = &fields[at("image")];
    assert_eq!(image.as_fixed(), Some((Dtype::I16, &[2, 3, 4][..])));
    let segments = &fields[at("segments")];
    assert_eq!(segments.axes.as_ref().map(Axes::as_str), Some("zyx"));
    assert_eq!(segments.grid.as_ref().map(ToString::to_string).as_deref(), Some("image"));
    let numbers: Vec<u8> = (-12..12_i16).flat_map(i16::to_le_bytes).collect();
    for (key, x, class) in [("a.nii", 10.0, 3_i16), ("b.T1.nii.gz", 11.0, 4)] {
        let of = &found[key].1;
        assert_eq!(of[at("image")], numbers, "{key}");
        assert_eq!(of[at("segments")], class.to_le_bytes().repeat(24));
        let rows = [[2.0, 0.0, 0.0, x], [0.0, 2.0, 0.0, 20.0], [0.0, 0.0, 2.0, 30.0]];
        let affine = [rows.as_flattened(), &[0.0, 0.0, 0.0, 1.0]].concat();
        assert_eq!(values(&of[at("image_world")]), affine);
        assert_eq!(values(&of[at("image_spacing")]), [2.0; 4]);
        assert_eq!(of[at("image_units")], b"mm unknown");
        assert_eq!(values(&of[at("image_scale")]), [0.5]);
        assert_eq!(values(&of[at("image_offset")]), [-1.0]);
    }
}

#[test]
fn a_field_whose_voxels_are_elsewhere_is_refused() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let plan = source(dir.path(), 13.0);
    let error = run(&dir.path().join("scans"), out.path(), plan, 1).unwrap_err();
    let Error::Run(RunError::BadInputs(bad)) = error else { panic!("{error}") };
    let told = "its `segments`, `a.nii.gz`: its voxels are up to 1.5 voxels away";
    assert!(bad.named[0].reason.contains(told), "{bad:?}");
    assert_eq!((bad.n, bad.named[0].remedy), (1, Remedy::Align));
}

#[test]
fn a_volume_of_one_slice_is_a_picture_and_may_be_a_mask() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(dir.path(), "scans/a.nii.gz", &gzip(&volume([4, 3, 1], 0.0, false, &[7; 12])));
    put(dir.path(), "masks/a.nii.gz", &gzip(&volume([4, 3, 1], 0.0, false, &[1; 12])));
    let plan =
        PlanOptions { fields: vec![field("mask", &dir.path().join("masks"), "")], ..arrays() };
    let report = run(&dir.path().join("scans"), out.path(), plan, 1).unwrap();
    assert_eq!(report.axes.as_deref(), Some("yx"));
    let (bundle, found) = samples(out.path());
    let at = bundle.manifest().fields.iter().position(|f| f.name.as_str() == "mask").unwrap();
    assert_eq!(bundle.manifest().fields[at].as_fixed(), Some((Dtype::I16, &[3, 4][..])));
    assert_eq!(found["a.nii.gz"].1[at], 1_i16.to_le_bytes().repeat(12));
}

#[test]
fn volumes_are_not_cut_into_tiles() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(dir.path(), "a.nii", &volume([4, 3, 2], 0.0, false, &[7; 24]));
    let tile = Some(TileOptions { size: 2, overlap: 0, min_valid: 0.0, block: None });
    let error = run(dir.path(), out.path(), PlanOptions { tile, ..arrays() }, 1).unwrap_err();
    assert!(error.to_string().contains("`a.nii` is not TIFF, JPEG 2000, PNG or JPEG"), "{error}");
}

#[test]
fn images_and_labels_of_nnunet_need_no_option() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = |class: i16| gzip(&volume([4, 3, 2], 10.0, false, &[class; 24]));
    for case in ["a_001", "a_002"] {
        for channel in 0..2 {
            put(dir.path(), &format!("imagesTr/{case}_{channel:04}.nii.gz"), &file(channel));
        }
        put(dir.path(), &format!("labelsTr/{case}.nii.gz"), &file(2));
    }
    // The labels of tests are not published.
    put(dir.path(), "imagesTs/a_003_0000.nii.gz", &file(7));
    put(dir.path(), "dataset.json", b"{\"channel_names\": {\"0\": \"T1\", \"1\": \"T2\"}, \"labels\": {\"background\": 0, \"tumour\": 2}, \"numTraining\": 2, \"file_ending\": \".nii.gz\"}");
    let plan = PlanOptions { labels: Labels::Path, ..arrays() };
    let report = run(dir.path(), out.path(), plan, 1).unwrap();
    assert_eq!((report.samples, report.axes.as_deref()), (2, Some("zyx")));
    let (bundle, found) = samples(out.path());
    let fields: Vec<&str> = bundle.manifest().fields.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(fields[..3], ["image", "segmentation", "channel_1"]);
    assert_eq!(bundle.manifest().fields[1].ignore, Some(255));
    for (_, values) in found.values() {
        let of = |class: i16| class.to_le_bytes().repeat(24);
        assert_eq!(values[..3], [of(0), of(2), of(1)]);
    }
}

#[test]
fn a_fourth_axis_is_times_or_channels() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let numbers: Vec<i16> = (0..48).collect();
    let mut file = volume([4, 3, 2], 0.0, false, &numbers);
    file[16] = 4;
    file[48..56].copy_from_slice(&2_i64.to_le_bytes());
    put(dir.path(), "a.nii", &file);
    let told = |report: &gular_pack::PackReport| {
        report.doubts.iter().any(|doubt| doubt.text.contains("the axes are `czyx`"))
    };
    let report = run(dir.path(), &out.path().join("times"), arrays(), 1).unwrap();
    assert_eq!((report.axes.as_deref(), told(&report)), (Some("tzyx"), true));
    let axes = [(FieldName::image(), Some("czyx".parse().unwrap()))].into();
    let plan = PlanOptions { axes, ..arrays() };
    let report = run(dir.path(), &out.path().join("channels"), plan, 1).unwrap();
    assert_eq!((report.axes.as_deref(), told(&report)), (Some("czyx"), false));
    let (_, found) = samples(&out.path().join("channels"));
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    assert_eq!(found["a.nii"].1[0], bytes);
}
