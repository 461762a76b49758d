//! HDF5, netCDF-4 and `.npz` files, whose rows are samples. `data/make.py` wrote the first two.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use gular_bundle::{Axes, Dtype, FieldKind, FieldName, Nodata, Split, npy_header};
use gular_pack::{
    ArchiveLimits, DatasetFault, Error, Inputs, LabelColumn, Labels, LayoutError, PackReport,
    PlanError, PlanOptions, RunError, SourceError, TileOptions, Unlabelled,
};

use crate::support::{run, samples};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Row `i` of the files.
fn row(i: usize, n: usize) -> impl Iterator<Item = u8> {
    (0..n).map(move |j| u8::try_from((7 * i + j) % 251).unwrap())
}

fn images(pattern: &str) -> PlanOptions {
    PlanOptions { images: vec![pattern.parse().unwrap()], ..PlanOptions::default() }
}

fn fault(error: Error) -> Option<DatasetFault> {
    match error {
        Error::Source(SourceError::Datasets { fault, .. }) => Some(*fault),
        _ => None,
    }
}

fn pack(source: &str, plan: PlanOptions) -> (Result<PackReport, Error>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let report = run(&data(source), &dir.path().join("out"), plan, 2);
    (report, dir)
}

#[test]
fn groups_are_samples_where_a_pattern_says_so() {
    let (report, _dir) = pack("groups.h5", PlanOptions::default());
    let Err(Error::Layout(LayoutError::Doubt(doubt))) = report else { panic!("{report:?}") };
    assert!(doubt.text.contains("so its groups seem to be samples"), "{doubt}");
    assert_eq!(doubt.readings[0].images, ["{key}/image.npy"]);
    let (report, dir) = pack("groups.h5", images("{key}/image.npy"));
    let report = report.unwrap();
    assert_eq!((report.samples, report.label_dataset.as_deref()), (5, Some("label")));
    assert_eq!(
        (report.axes.as_deref(), report.fields.as_slice()),
        (Some("yxc"), &["mask".to_owned()][..])
    );
    let (bundle, found) = samples(&dir.path().join("out"));
    let fields = &bundle.manifest().fields;
    let at = |name: &str| fields.iter().position(|field| field.name.as_str() == name).unwrap();
    assert_eq!(fields[at("mask")].as_fixed(), Some((Dtype::U8, &[6, 5][..])));
    for i in 0..5 {
        let (_, values) = &found[&format!("p{}/image.npy", 4 - i)];
        let image: Vec<u8> = row(i, 90).flat_map(|v| u16::from(v).to_le_bytes()).collect();
        assert_eq!(values[at("image")], image, "{i}");
        assert_eq!(values[at("mask")], row(i, 90).step_by(3).collect::<Vec<u8>>());
        assert_eq!(values[at("label")], (i as i64 % 3).to_le_bytes());
    }
}

#[test]
fn a_file_for_each_split_and_part_needs_no_option() {
    let (report, dir) = pack("splits", PlanOptions::default());
    let report = report.unwrap();
    assert_eq!(report.images, ["{split}/x/{key}.npy"]);
    assert_eq!(report.label_dataset.as_deref(), Some("y"));
    assert_eq!(report.axes.as_deref(), Some("yxc"));
    let (bundle, found) = samples(&dir.path().join("out"));
    assert_eq!((found.len(), bundle.manifest().classes.len()), (13, 3));
    for (split, folder, n) in [(Split::Train, "train", 9), (Split::Val, "val", 4)] {
        for i in 0..n {
            let (of, values) = &found[&format!("{folder}/x/{i:07}.npy")];
            assert_eq!((*of, &values[0]), (split, &row(i, 90).collect::<Vec<u8>>()));
            assert_eq!(values[1], (i as i64 % 3).to_le_bytes());
        }
    }
    // The same command again finds the same bundle.
    let again = run(&data("splits"), &dir.path().join("out"), PlanOptions::default(), 1).unwrap();
    assert!(again.already_done);
}

#[test]
fn several_images_are_asked_about_and_the_others_become_fields() {
    let error = pack("several.h5", PlanOptions::default()).0.unwrap_err();
    let Error::Layout(LayoutError::Doubt(doubt)) = &error else { panic!("{error:?}") };
    let ways: Vec<_> = doubt.readings.iter().map(|way| way.images.join(" ")).collect();
    assert_eq!(ways, ["sen1/{key}.npy", "sen2/{key}.npy"]);
    let (report, dir) = pack("several.h5", images("sen2/{key}.npy"));
    let report = report.unwrap();
    assert_eq!(
        (report.fields, report.on_image),
        (vec!["sen1".to_owned()], vec!["sen1".to_owned()])
    );
    let left_out = report.doubts.iter().map(|doubt| doubt.text.as_str()).collect::<Vec<_>>();
    assert_eq!(left_out, ["datasets that are not packed: `name`"]);
    let (bundle, found) = samples(&dir.path().join("out"));
    let kind = FieldKind::Fixed { dtype: Dtype::U16, shape: vec![4, 4, 3] };
    assert_eq!(bundle.manifest().fields[0].kind, kind);
    for (i, label) in [0_i64, 1, 2, 2, 1, 0].into_iter().enumerate() {
        let (_, values) = &found[&format!("sen2/{i:07}.npy")];
        let sen2: Vec<u8> = row(i, 48).flat_map(|n| u16::from(n).to_le_bytes()).collect();
        let sen1: Vec<u8> = row(i, 32).flat_map(|n| f32::from(n).to_le_bytes()).collect();
        assert_eq!(*values, [sen2, label.to_le_bytes().to_vec(), sen1]);
    }
}

#[test]
fn every_layout_and_filter_gives_the_same_numbers() {
    for name in ["gzip", "lzf", "szip", "fletcher", "offset", "growing", "big_endian", "part"] {
        let plan = PlanOptions { labels: Labels::None, ..images(&format!("{name}/{{key}}.npy")) };
        let (report, dir) = pack("filters.h5", plan);
        let report = report.unwrap();
        assert_eq!(report.fields.len(), 7, "{:?}", report.fields);
        assert!(report.doubts.iter().any(|doubt| doubt.text.ends_with("`nbit`")), "{report:?}");
        let (_, found) = samples(&dir.path().join("out"));
        assert_eq!(found.len(), 7);
        for (i, (key, (_, values))) in found.iter().enumerate() {
            let is_filled = name == "part" && i >= 4;
            let whole = row(i, 48).map(|n| if is_filled { 9 } else { u16::from(n) });
            let whole: Vec<u8> = whole.flat_map(u16::to_le_bytes).collect();
            assert_eq!(values[0], whole, "{key}");
        }
    }
}

#[test]
fn dimensions_of_netcdf_give_axes_and_say_what_belongs_to_rows() {
    let (report, dir) = pack("era.nc", images("t2m/{key}.npy"));
    let report = report.unwrap();
    // `lat` has as many values as there are times.
    assert_eq!(report.fields, ["time"]);
    let (bundle, found) = samples(&dir.path().join("out"));
    let image = &bundle.manifest().fields[0];
    assert_eq!(image.nodata.as_ref().map(Nodata::value), Some(-999.0));
    assert_eq!(image.axes.as_ref().map(Axes::as_str), Some("yx"));
    let (_, values) = &found["t2m/0000003.npy"];
    let expected: Vec<u8> = row(3, 20).flat_map(|n| f32::from(n).to_le_bytes()).collect();
    assert_eq!(*values, [expected, 3_f64.to_le_bytes().to_vec()]);
    let error = pack("era.nc", images("packed/{key}.npy")).0.unwrap_err();
    let Some(DatasetFault::Packed { attribute, .. }) = fault(error) else { panic!() };
    assert_eq!(attribute, "scale_factor");
}

#[test]
fn negative_labels_are_none() {
    let packed = |unlabelled| {
        let plan = PlanOptions { unlabelled, ..PlanOptions::default() };
        pack("labels/negative.h5", plan)
    };
    // The nodata value is none, too.
    for source in ["labels/negative.h5", "labels/fill.h5"] {
        let error = pack(source, PlanOptions::default()).0.unwrap_err();
        let Error::Plan(PlanError::Unlabelled { n: 1, images, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(images, "`images/0000002.npy`");
    }
    let labels = |dir: &tempfile::TempDir| -> Vec<i64> {
        let (_, found) = samples(&dir.path().join("out"));
        found.values().map(|(_, of)| i64::from_le_bytes(of[1][..].try_into().unwrap())).collect()
    };
    let (report, dir) = packed(Unlabelled::Skip);
    assert_eq!((report.unwrap().unlabelled, labels(&dir)), (1, vec![0, 1, 1, 0]));
    let (report, dir) = packed(Unlabelled::Keep);
    let report = report.unwrap();
    assert_eq!((report.unlabelled, labels(&dir)), (0, vec![0, 1, -1, 1, 0]));
    assert!(report.doubts[0].text.contains("1 row has a label that stands for none"), "{report:?}");
}

#[test]
fn labels_that_cannot_be_read_are_refused() {
    for (name, words) in [
        ("u64", "unsigned integers of 64 bits"),
        ("text", "texts"),
        ("enum", "names"),
        // Its name may be that of a field.
        ("enum_y", "names"),
        ("float", "type F32"),
    ] {
        let source = format!("labels/{name}.h5");
        let error = pack(&source, PlanOptions::default()).0.unwrap_err();
        let Some(DatasetFault::LabelType { dataset, found }) = fault(error) else {
            panic!("{name}")
        };
        assert_eq!(dataset, if name == "enum_y" { "y" } else { "labels" });
        assert!(found.contains(words), "{found}");
        let plan = PlanOptions { labels: Labels::None, ..PlanOptions::default() };
        assert_eq!(pack(&source, plan).0.unwrap().samples, 5, "{name}");
    }
}

#[test]
fn labels_in_a_file_of_another_name_are_asked_about() {
    let error = pack("years", PlanOptions::default()).0.unwrap_err();
    let Error::Layout(LayoutError::Doubt(doubt)) = &error else { panic!("{error:?}") };
    assert!(doubt.text.contains("2019.h5") && doubt.text.contains("2020.h5"), "{doubt}");
    let ways = doubt.readings.iter().map(|way| way.label_column.as_deref().unwrap());
    assert_eq!(ways.collect::<Vec<_>>(), ["labels", "none"]);
    for (column, classes) in [(LabelColumn::Named("labels".to_owned()), 2), (LabelColumn::None, 0)]
    {
        let plan = PlanOptions { labels: Labels::Column(column), ..PlanOptions::default() };
        let (report, dir) = pack("years", plan);
        report.unwrap();
        assert_eq!(samples(&dir.path().join("out")).0.manifest().classes.len(), classes);
    }
}

#[test]
fn attributes_that_are_not_one_number_are_refused() {
    for (name, expected) in
        [("scales", "scale_factor"), ("text", "add_offset"), ("fills", "missing_value")]
    {
        let error = pack("attributes.h5", images(&format!("{name}/{{key}}.npy"))).0.unwrap_err();
        let Some(DatasetFault::Packed { attribute, .. }) = fault(error) else { panic!("{name}") };
        assert_eq!(attribute, expected);
    }
    let report = pack("attributes.h5", images("range/{key}.npy")).0.unwrap();
    assert!(report.doubts.iter().any(|doubt| doubt.text.contains("`valid_range`")), "{report:?}");
}

#[test]
fn labels_are_chosen_or_left_out() {
    let named = |name: &str| PlanOptions {
        labels: Labels::Column(LabelColumn::Named(name.to_owned())),
        ..images("sen2/{key}.npy")
    };
    let error = pack("several.h5", named("none_such")).0.unwrap_err();
    assert!(error.to_string().contains("there is no dataset `none_such`"), "{error}");
    // Its rows have several numbers that are not 0.
    let error = pack("several.h5", named("sen1")).0.unwrap_err();
    assert!(matches!(fault(error), Some(DatasetFault::NotAClass { row: 0, .. })));
    let plan = PlanOptions { labels: Labels::None, ..images("sen2/{key}.npy") };
    let (report, dir) = pack("several.h5", plan);
    report.unwrap();
    assert!(samples(&dir.path().join("out")).0.manifest().classes.is_empty());
    // Of a folder of arrays there is no dataset to take.
    let arrays = tempfile::tempdir().unwrap();
    fs::write(arrays.path().join("a.npy"), b"").unwrap();
    let plan = PlanOptions { inputs: Inputs::Arrays, images: Vec::new(), ..named("y") };
    let error = run(arrays.path(), &dir.path().join("x"), plan, 1).unwrap_err();
    assert!(matches!(error, Error::Run(RunError::Setting { .. })), "{error:?}");
}

#[test]
fn what_rows_cannot_be_is_refused() {
    let check = |plan: PlanOptions, words: &str| {
        let error = pack("splits", plan).0.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let tile = Some(TileOptions { size: 4, overlap: 0, min_valid: 0.0, block: None });
    check(PlanOptions { tile, inputs: Inputs::Arrays, ..PlanOptions::default() }, "only TIFF");
    let axes = [(FieldName::image(), Some(Axes::cyx()))].into_iter().collect();
    let cyx = PlanOptions { axes, ..PlanOptions::default() };
    assert_eq!(pack("splits", cyx).0.unwrap().axes.as_deref(), Some("cyx"));
    let archive = ArchiveLimits { total_bytes: 800, ..ArchiveLimits::default() };
    check(PlanOptions { archive, ..PlanOptions::default() }, "has 810 bytes");
    // Files of one name for one split.
    let dir = tempfile::tempdir().unwrap();
    for name in ["train_1.h5", "train_2.h5"] {
        fs::copy(data("several.h5"), dir.path().join(name)).unwrap();
    }
    let plan = images("{split}/sen2/{key}.npy");
    let error = run(dir.path(), &dir.path().join("../out"), plan, 1).unwrap_err();
    assert!(matches!(fault(error), Some(DatasetFault::Twice { .. })));
}

#[test]
fn damaged_files_are_refused_without_a_panic() {
    let whole = fs::read(data("filters.h5")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.h5");
    for (i, at) in (8..whole.len()).step_by(1999).enumerate() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (i % 8);
        if i % 5 == 0 {
            bytes.truncate(at);
        }
        fs::write(&path, bytes).unwrap();
        let plan = PlanOptions { labels: Labels::None, ..images("gzip/{key}.npy") };
        // Whether a change is noticed depends on what it is in.
        drop(run(&path, &dir.path().join(format!("out{i}")), plan, 1));
    }
}

/// An `.npz` file of arrays.
fn npz(arrays: &[(&str, Dtype, &[u64], &[u8])]) -> Vec<u8> {
    let array = |(name, dtype, shape, values): &(&str, Dtype, &[u64], &[u8])| {
        ((*name).to_owned(), [npy_header(*dtype, shape).as_slice(), values].concat())
    };
    zip_of(&arrays.iter().map(array).collect::<Vec<_>>())
}

/// A zip of arrays: every second one is compressed.
fn zip_of(arrays: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut zip = rawzip::ZipArchiveWriter::new(&mut bytes);
    for (i, (name, array)) in arrays.iter().enumerate() {
        let method = [rawzip::CompressionMethod::DEFLATE, rawzip::CompressionMethod::STORE][i % 2];
        let name = format!("{name}.npy");
        let (mut entry, config) = zip.new_file(&name).compression_method(method).start().unwrap();
        let descriptor = if i % 2 == 1 {
            let mut writer = config.wrap(&mut entry);
            writer.write_all(array).unwrap();
            writer.finish().unwrap().1
        } else {
            let encoder =
                flate2::write::DeflateEncoder::new(&mut entry, flate2::Compression::fast());
            let mut writer = config.wrap(encoder);
            writer.write_all(array).unwrap();
            let (encoder, descriptor) = writer.finish().unwrap();
            encoder.finish().unwrap();
            descriptor
        };
        entry.finish(descriptor).unwrap();
    }
    zip.finish().unwrap();
    bytes
}

/// As MedMNIST has it: all splits in one file, each with images and a column of labels.
fn med_mnist() -> Vec<u8> {
    let images: Vec<u8> = (0..6).flat_map(|i| row(i, 60)).collect();
    let labels: Vec<u8> = [2_i64, 0, 1, 1, 0, 2].iter().flat_map(|n| n.to_le_bytes()).collect();
    npz(&[
        ("train_images", Dtype::U8, &[3, 4, 5, 3], &images[..180]),
        ("val_images", Dtype::U8, &[1, 4, 5, 3], &images[180..240]),
        ("test_images", Dtype::U8, &[2, 4, 5, 3], &images[240..]),
        ("train_labels", Dtype::I64, &[3, 1], &labels[..24]),
        ("val_labels", Dtype::I64, &[1, 1], &labels[24..32]),
        ("test_labels", Dtype::I64, &[2, 1], &labels[32..]),
    ])
}

#[test]
fn arrays_of_several_splits_in_one_npz_need_no_option() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("pathmnist.npz"), med_mnist()).unwrap();
    // The file itself, and the folder that has it.
    for (i, source) in [dir.path().join("pathmnist.npz"), dir.path().to_owned()].iter().enumerate()
    {
        let out = tempfile::tempdir().unwrap();
        let report = run(source, out.path(), PlanOptions::default(), 2).unwrap();
        assert_eq!(report.images, ["{split}/images/{key}.npy"], "{i}");
        assert_eq!(report.label_dataset.as_deref(), Some("labels"));
        assert_eq!(report.axes.as_deref(), Some("yxc"));
        let (bundle, found) = samples(out.path());
        assert_eq!((found.len(), bundle.manifest().classes.len()), (6, 3));
        let expected = [
            (Split::Train, "train", [2_i64, 0, 1].as_slice()),
            (Split::Val, "val", &[1]),
            (Split::Test, "test", &[0, 2]),
        ];
        let mut at = 0;
        for (split, folder, labels) in expected {
            for (n, label) in labels.iter().enumerate() {
                let (of, values) = &found[&format!("{folder}/images/{n:07}.npy")];
                assert_eq!((*of, &values[0]), (split, &row(at, 60).collect::<Vec<u8>>()));
                assert_eq!(values[1], label.to_le_bytes());
                at += 1;
            }
        }
    }
}

#[test]
fn arrays_as_keras_names_them_are_images_and_labels() {
    let dir = tempfile::tempdir().unwrap();
    let images: Vec<u8> = (0..3).flat_map(|i| row(i, 4)).collect();
    let bytes = npz(&[
        ("x_test", Dtype::U8, &[1, 2, 2], &images[..4]),
        ("x_train", Dtype::U8, &[2, 2, 2], &images[4..]),
        ("y_test", Dtype::U8, &[1], &[1]),
        ("y_train", Dtype::U8, &[2], &[0, 1]),
    ]);
    let path = dir.path().join("mnist.npz");
    fs::write(&path, bytes).unwrap();
    let report = run(&path, &dir.path().join("out"), PlanOptions::default(), 1).unwrap();
    assert_eq!(report.images, ["{split}/x/{key}.npy"]);
    assert_eq!(report.label_dataset.as_deref(), Some("y"));
    let (_, found) = samples(&dir.path().join("out"));
    assert_eq!(found["train/x/0000001.npy"].1[0], row(2, 4).collect::<Vec<u8>>());
}

#[test]
fn arrays_that_cannot_be_read_are_refused() {
    let check = |bytes: &[u8], expected: &str| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        fs::write(&path, bytes).unwrap();
        let error = run(&path, &dir.path().join("out"), PlanOptions::default(), 1).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    let images: Vec<u8> = row(0, 8).collect();
    let of = |labels: (&str, Dtype, &[u64], &[u8])| {
        npz(&[("images", Dtype::U8, &[2, 2, 2], &images), labels])
    };
    // Texts and pickled objects are types that no field has.
    for kind in [b"|O8", b"<U2"] {
        let mut labels = [npy_header(Dtype::I64, &[2]).as_slice(), &[0; 16]].concat();
        let at = labels.windows(3).position(|bytes| bytes == b"<i8").unwrap();
        labels[at..at + 3].copy_from_slice(kind);
        let array = [npy_header(Dtype::U8, &[2, 2, 2]).as_slice(), &images].concat();
        let arrays = [("images".to_owned(), array), ("labels".to_owned(), labels)];
        check(&zip_of(&arrays), "`labels` seems to have the labels, and they cannot be read");
    }
    check(&of(("labels", Dtype::I64, &[3], &[0; 16])), "they are fewer or more than");
    check(&of(("labels", Dtype::U8, &[3], &[0, 1, 0])), "`labels` has 3 labels, and there are 2");
    let mut damaged = of(("labels", Dtype::U8, &[2], &[0, 1]));
    let data = damaged.windows(6).rposition(|bytes| bytes == b"\x93NUMPY").unwrap();
    // Its header has 128 bytes.
    damaged[data + 128] ^= 1;
    check(&damaged, "CRC-32");
}
