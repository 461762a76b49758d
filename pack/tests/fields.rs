//! Fields whose values are files (masks, arrays, anything), and inputs other than images.

use std::path::Path;

use crate::mask_colours::tiff;
use crate::support::{files, jpeg, png, put, run, samples, small_shards};
use gular_bundle::{Axes, Dtype, FieldKind, FieldName, Payload, npy_header};
use gular_codec::{DecodeOptions, Decoder, Fit, fit_nearest};
use gular_pack::{
    Error, FieldFiles, Inputs, Labels, LayoutError, OnBadInput, PayloadOptions, PlanOptions,
    RawOptions, RunError, TableOptions,
};

/// Returns a grey PNG of 8 or 16 bits.
pub(crate) fn grey(width: u32, height: u32, values: &[u16], wide: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(::png::ColorType::Grayscale);
    encoder.set_depth(if wide { ::png::BitDepth::Sixteen } else { ::png::BitDepth::Eight });
    let data: Vec<u8> = match wide {
        true => values.iter().flat_map(|v| v.to_be_bytes()).collect(),
        false => values.iter().map(|v| *v as u8).collect(),
    };
    encoder.write_header().unwrap().write_image_data(&data).unwrap();
    bytes
}

pub(crate) fn array(dtype: Dtype, shape: &[u64], data: &[u8]) -> Vec<u8> {
    [npy_header(dtype, shape).as_slice(), data].concat()
}

/// An archive with one array, deflated as by `numpy.savez_compressed`.
fn npz(array: &[u8]) -> Vec<u8> {
    let mut npz = Vec::new();
    let mut archive = rawzip::ZipArchiveWriter::new(&mut npz);
    let deflate = rawzip::CompressionMethod::DEFLATE;
    let (mut entry, config) =
        archive.new_file("arr_0.npy").compression_method(deflate).start().unwrap();
    let encoder = flate2::write::DeflateEncoder::new(&mut entry, flate2::Compression::fast());
    let mut writer = config.wrap(encoder);
    std::io::Write::write_all(&mut writer, array).unwrap();
    let (encoder, descriptor) = writer.finish().unwrap();
    encoder.finish().unwrap();
    entry.finish(descriptor).unwrap();
    archive.finish().unwrap();
    npz
}

pub(crate) fn field(name: &str, files: &Path, suffix: &str) -> FieldFiles {
    let name = FieldName::parse(name).unwrap();
    let pattern = (!suffix.is_empty()).then(|| format!("{{key}}{suffix}.{{ext}}").parse().unwrap());
    FieldFiles { name, files: Some(files.to_owned()), pattern }
}

fn with(fields: Vec<FieldFiles>) -> PlanOptions {
    PlanOptions { fields, labels: Labels::None, ..small_shards() }
}

/// 12 images of 12 x 9 pixels and their masks, in folders of their own.
fn masked(dir: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (images, masks) = (dir.join("images"), dir.join("masks"));
    for i in 0..12_u32 {
        put(&images, &format!("a.b/{i}.x.png"), &png(i));
        let classes: Vec<u16> = (0..12 * 9).map(|p| ((p * 7 + i * 5) % 23) as u16).collect();
        put(&masks, &format!("a.b/{i}.x_mask.png"), &grey(12, 9, &classes, false));
    }
    put(&masks, "none_mask.txt", b"not a mask");
    (images, masks)
}

#[test]
fn masks_go_with_their_images_byte_for_byte_and_as_pixels() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = masked(dir.path());
    let plan = with(vec![field("mask", &masks, "_mask")]);
    let out = dir.path().join("encoded");
    let report = run(&images, &out, plan.clone(), 3).unwrap();
    assert_eq!((report.samples, report.fields.as_slice()), (12, &["mask".to_owned()][..]));
    let warned = report.warnings.iter().any(|w| w.contains("1 file belongs to no image"));
    assert!(warned, "{:?}", report.warnings);
    let (bundle, found) = samples(&out);
    let mask = &bundle.manifest().fields[1];
    assert!(
        matches!(&mask.kind, FieldKind::Bytes { media_types } if media_types == &["image/png"])
    );
    for (key, (_, values)) in &found {
        let file = format!("{}_mask.png", key.strip_suffix(".png").unwrap());
        assert_eq!(values[0], std::fs::read(images.join(key)).unwrap());
        assert_eq!(values[1], std::fs::read(masks.join(file)).unwrap());
    }
    // One job, many jobs, and a second run give the same bundle.
    let again = dir.path().join("again");
    run(&images, &again, plan.clone(), 1).unwrap();
    assert!(files(&out) == files(&again));

    for fit in [Fit::Crop, Fit::Pad] {
        let raw = PayloadOptions::Raw(RawOptions { fit, ..RawOptions::new(8, 16) });
        let out = dir.path().join(format!("{fit:?}"));
        run(&images, &out, PlanOptions { payload: raw, ..plan.clone() }, 2).unwrap();
        let (bundle, found) = samples(&out);
        assert_eq!(bundle.manifest().fields[1].as_fixed(), Some((Dtype::U8, &[16, 8][..])));
        let mut decoder = Decoder::new(DecodeOptions::default());
        for (key, (_, values)) in &found {
            let file = masks.join(format!("{}_mask.png", key.strip_suffix(".png").unwrap()));
            let (size, classes) = decoder.decode_values(&std::fs::read(file).unwrap()).unwrap();
            let classes: Vec<u8> = classes.into_iter().map(|v| v as u8).collect();
            assert_eq!(
                values[1],
                fit_nearest(&classes, size, &[255], (8, 16), fit).unwrap(),
                "{key}"
            );
        }
    }
}

#[test]
fn masks_may_lie_among_the_images_and_in_archives() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = masked(dir.path());
    let apart = dir.path().join("apart");
    let report = run(&images, &apart, with(vec![field("mask", &masks, "_mask")]), 2).unwrap();
    let tar = dir.path().join("masks.tar");
    let mut builder = tar::Builder::new(std::fs::File::create(&tar).unwrap());
    builder.append_dir_all(".", &masks).unwrap();
    builder.finish().unwrap();
    let out = dir.path().join("tar");
    let packed = run(&images, &out, with(vec![field("mask", &tar, "_mask")]), 2).unwrap();
    assert_eq!(packed.digest, report.digest);
    for (path, bytes) in files(&masks) {
        put(&images, path.to_str().unwrap(), &bytes);
    }
    let out = dir.path().join("among");
    let among = run(&images, &out, with(vec![field("mask", &images, "_mask")]), 2).unwrap();
    assert_eq!(among.digest, report.digest);
    let unclear = run(&images, &dir.path().join("x"), with(vec![field("mask", &images, "")]), 2);
    assert!(
        matches!(&unclear, Err(Error::Run(RunError::Setting { text, .. })) if text.contains("a pattern of their paths")),
        "{unclear:?}"
    );
}

#[test]
fn masks_may_be_compressed_arrays_of_numpy() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = (dir.path().join("images"), dir.path().join("masks"));
    let classes: Vec<u8> = (0..108).collect();
    put(&images, "0.png", &png(0));
    put(&masks, "0.npz", &npz(&array(Dtype::U8, &[9, 12], &classes)));
    let out = dir.path().join("out");
    run(&images, &out, with(vec![field("mask", &masks, "")]), 1).unwrap();
    let (bundle, found) = samples(&out);
    assert_eq!(bundle.manifest().fields[1].as_fixed(), Some((Dtype::U8, &[9, 12][..])));
    assert!(found.values().all(|(_, values)| values[1] == classes));
}

#[test]
fn the_pattern_that_says_the_most_decides_whether_a_file_is_an_image_or_a_mask() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..3 {
        put(&dir.path().join("src"), &format!("top/{i}.png"), &png(i));
        let values = [i as u16; 108];
        put(&dir.path().join("src"), &format!("{i}.png"), &grey(12, 9, &values, false));
    }
    let mask = FieldFiles {
        name: FieldName::parse("mask").unwrap(),
        files: None,
        pattern: Some("{key}.png".parse().unwrap()),
    };
    let images = vec!["top/{key}.png".parse().unwrap()];
    let (options, out) = (PlanOptions { images, ..with(vec![mask]) }, dir.path().join("out"));
    let report = run(&dir.path().join("src"), &out, options, 1).unwrap();
    assert_eq!(report.samples, 3);
}

#[test]
fn masks_that_are_missing_or_of_another_size_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = masked(dir.path());
    let plan = with(vec![field("mask", &masks, "_mask")]);
    std::fs::remove_file(masks.join("a.b/3.x_mask.png")).unwrap();
    std::fs::remove_file(masks.join("a.b/5.x_mask.png")).unwrap();
    put(&masks, "a.b/7.x_mask.jpg", &jpeg(1));
    std::fs::remove_file(masks.join("a.b/7.x_mask.png")).unwrap();
    put(&masks, "a.b/8.x_mask.npy", &array(Dtype::U8, &[9, 12], &[0; 108]));
    let error = run(&images, &dir.path().join("missing"), plan.clone(), 2).unwrap_err().to_string();
    for words in [
        "a.b/3.x.png",
        "`{key}_mask.{ext}` with key `a.b/3.x`",
        "5.x.png",
        "7.x_mask.jpg",
        "`a.b/8.x_mask.npy`",
    ] {
        assert!(error.contains(words), "{error}");
    }
    put(&masks, "a.b/9.x_mask.png", &grey(9, 12, &[0; 108], false));
    let skip = PlanOptions { on_error: OnBadInput::Skip, ..plan.clone() };
    let out = dir.path().join("skip");
    let report = run(&images, &out, skip, 2).unwrap();
    assert_eq!((report.samples, report.skipped), (7, 5));
    let skipped = std::fs::read_to_string(out.join("skipped.jsonl")).unwrap();
    assert!(skipped.contains(
        "its `mask`, `a.b/9.x_mask.png`: it has 9 x 12 pixels, but its image has 12 x 9"
    ));
}

#[test]
fn arrays_and_files_of_any_kind_go_beside_the_image() {
    let dir = tempfile::tempdir().unwrap();
    let (images, _) = masked(dir.path());
    let (depths, notes) = (dir.path().join("depths"), dir.path().join("notes"));
    for i in 0..12_u32 {
        let data: Vec<u8> = (0..6).flat_map(|n| (n as f32 + i as f32).to_le_bytes()).collect();
        put(&depths, &format!("a.b/{i}.x.npy"), &array(Dtype::F32, &[2, 3], &data));
        put(&notes, &format!("a.b/{i}.x.txt"), format!("nr. {i}: ü").as_bytes());
    }
    put(dir.path(), "t.csv", b"file,class,mass\n");
    let mut table = String::from("file_name,label,mass\n");
    for i in 0..12 {
        table += &format!("{i}.x.png,k{},{}.5\n", i % 3, i);
    }
    put(dir.path(), "t.csv", table.as_bytes());
    let labels = Labels::Table(TableOptions {
        files: vec![dir.path().join("t.csv")],
        lines: Default::default(),
        key: None,
        label: gular_pack::LabelColumn::Find,
        split: None,
        group: None,
        separator: None,
        fields: gular_pack::FieldColumns::All,
        ..TableOptions::default()
    });
    let fields = vec![field("depth", &depths, ""), field("note", &notes, "")];
    let plan = PlanOptions { fields, labels, ..small_shards() };
    let out = dir.path().join("out");
    run(&images, &out, plan.clone(), 2).unwrap();
    let (bundle, found) = samples(&out);
    let names: Vec<&str> = bundle.manifest().fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["image", "label", "mass", "depth", "note"]);
    assert_eq!(bundle.manifest().fields[3].as_fixed(), Some((Dtype::F32, &[2, 3][..])));
    for (key, (_, values)) in found {
        let i: u32 = key.split(['/', '.']).nth(2).unwrap().parse().unwrap();
        assert_eq!(values[2], (f64::from(i) + 0.5).to_le_bytes());
        assert_eq!(values[3][..4], (i as f32).to_le_bytes());
        assert_eq!(values[4], format!("nr. {i}: ü").as_bytes());
    }
    put(&depths, "a.b/4.x.npy", &array(Dtype::F32, &[3, 2], &[0; 24]));
    put(&notes, "a.b/6.x.txt", b"caf\xe9");
    let skip = PlanOptions { on_error: OnBadInput::Skip, ..plan };
    let out = dir.path().join("skip");
    assert_eq!(run(&images, &out, skip, 2).unwrap().skipped, 2);
    let skipped = std::fs::read_to_string(out.join("skipped.jsonl")).unwrap();
    assert!(skipped.contains("f32 of shape [3, 2]") && skipped.contains("not UTF-8 at byte 3"));
}

#[test]
fn arrays_of_one_type_and_shape_become_pixels() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("arrays");
    let plain: Vec<u8> = (0..30_u16).flat_map(|n| (n * 999).to_le_bytes()).collect();
    put(&source, "a/1.npy", &array(Dtype::U16, &[2, 3, 5], &plain));
    put(&source, "b/2.npz", &npz(&array(Dtype::U16, &[2, 3, 5], &plain)));
    let axes = [(FieldName::image(), Some(Axes::yxc()))].into();
    let plan = PlanOptions { inputs: Inputs::Arrays, axes, ..small_shards() };
    let out = dir.path().join("out");
    run(&source, &out, plan.clone(), 2).unwrap();
    let (bundle, found) = samples(&out);
    assert_eq!(bundle.manifest().payload, Payload::Raw);
    assert_eq!(bundle.manifest().fields[0].as_fixed(), Some((Dtype::U16, &[2, 3, 5][..])));
    assert!(found.values().all(|(_, values)| values[0] == plain));
    let statistics = bundle.manifest().statistics.as_ref().unwrap();
    let sum = |c: u64| (0..6).map(|p| (p * 5 + c) * 999).sum::<u64>() * 2;
    assert_eq!((statistics.pixels, statistics.sum[4].as_str()), (12, &*sum(4).to_string()));

    put(&source, "b/1.npy", &array(Dtype::U16, &[2, 3, 4], &plain[..48]));
    let mixed = run(&source, &dir.path().join("mixed"), plan.clone(), 2).unwrap_err().to_string();
    let expected = "the arrays differ: 2 are u16 [2, 3, 5], such as `a/1.npy`; 1 of another type or shape, such as `b/1.npy`: u16 [2, 3, 4]";
    assert_eq!(mixed, expected);
    put(&source, "b/1.npy", &array(Dtype::U16, &[2, 3, 5], &plain[..58]));
    let short = run(&source, &dir.path().join("short"), plan, 2).unwrap_err().to_string();
    assert!(short.contains("`b/1.npy`: it has 58 bytes of numbers"), "{short}");
}

#[test]
fn files_of_any_kind_become_field_data() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("files");
    put(&source, "a/1.pdf", b"%PDF-1.7");
    put(&source, "a/read.me", b"\xff\0");
    put(&source, "b/x", b"1");
    put(&source, "b/.hidden", b"1");
    let plan = PlanOptions { inputs: Inputs::Bytes, ..small_shards() };
    let out = dir.path().join("out");
    run(&source, &out, plan, 2).unwrap();
    let (bundle, found) = samples(&out);
    let data = &bundle.manifest().fields[0];
    assert_eq!(data.name.as_str(), "data");
    assert!(
        matches!(&data.kind, FieldKind::Bytes { media_types } if media_types == &["application/octet-stream", "application/pdf"])
    );
    assert_eq!(found["a/1.pdf"].1, [b"%PDF-1.7".to_vec(), 0_i64.to_le_bytes().to_vec()]);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["a/1.pdf", "a/read.me", "b/x"]);
}

#[test]
fn a_table_labels_files_of_any_kind_and_of_no_extension() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("files");
    put(&source, "a/1.pdf", b"1");
    put(&source, "a/2", b"2");
    put(&source, "b/2", b"3");
    let packed = |text: &str| {
        put(dir.path(), "t.csv", text.as_bytes());
        let files = vec![dir.path().join("t.csv")];
        let labels = Labels::Table(TableOptions { files, ..TableOptions::default() });
        let plan = PlanOptions { inputs: Inputs::Bytes, labels, ..small_shards() };
        let _ = std::fs::remove_dir_all(dir.path().join("out"));
        run(&source, &dir.path().join("out"), plan, 1)
    };
    packed("file,label\n1.pdf,x\na/2,y\nb/2,x\n").unwrap();
    let (bundle, found) = samples(&dir.path().join("out"));
    assert_eq!(bundle.manifest().classes, ["x", "y"]);
    assert_eq!(found["a/2"].1[1], 1_i64.to_le_bytes());
    let error = packed("file,label\n1.pdf,x\n2,y\n").unwrap_err();
    assert!(matches!(error, Error::Layout(LayoutError::UnclearRows { n: 1, .. })), "{error}");
}

/// Makes a file of a mask's values.
type MaskFile<'a> = &'a dyn Fn(&[u16]) -> Vec<u8>;

#[test]
fn masks_of_0_and_255_are_warned_of_in_every_format() {
    let of_png = |values: &[u16]| grey(12, 9, values, false);
    let bytes = |values: &[u16]| -> Vec<u8> { values.iter().map(|value| *value as u8).collect() };
    let of_pgm = |values: &[u16]| [b"P5\n12 9\n255\n".to_vec(), bytes(values)].concat();
    let of_npy = |values: &[u16]| array(Dtype::U8, &[9, 12], &bytes(values));
    let of_tiff = |values: &[u16]| tiff((12, 9), 1, &bytes(values));
    let formats: [(&str, MaskFile<'_>); 4] =
        [("png", &of_png), ("pgm", &of_pgm), ("npy", &of_npy), ("tif", &of_tiff)];
    for (extension, mask) in formats {
        for (top, told) in [(255, true), (1, false)] {
            let dir = tempfile::tempdir().unwrap();
            let (images, masks) = (dir.path().join("images"), dir.path().join("masks"));
            for i in 0..6_u16 {
                put(&images, &format!("{i}.png"), &png(i.into()));
                let values: Vec<u16> =
                    (0..108).map(|p| if (p + i) % 5 == 0 { top } else { 0 }).collect();
                put(&masks, &format!("{i}.{extension}"), &mask(&values));
            }
            let out = dir.path().join("out");
            let report = run(&images, &out, with(vec![field("mask", &masks, "")]), 1).unwrap();
            let found =
                report.doubts.iter().any(|doubt| doubt.text.contains("only the values 0 and 255"));
            assert_eq!(found, told, "{extension} {:?}", report.doubts);
        }
    }
}

#[test]
fn names_of_masks_may_be_in_another_form_of_unicode() {
    for (image, mask) in [("cafe\u{301}", "caf\u{e9}"), ("caf\u{e9}", "cafe\u{301}")] {
        let dir = tempfile::tempdir().unwrap();
        let (images, masks) = (dir.path().join("images"), dir.path().join("masks"));
        put(&images, &format!("{image}.png"), &png(1));
        put(&masks, &format!("{mask}_m.png"), &grey(12, 9, &[1; 108], false));
        put(&masks, &format!("{mask}.png"), &grey(12, 9, &[1; 108], false));
        for (i, end) in ["", "_m"].into_iter().enumerate() {
            let out = dir.path().join(format!("out {i}"));
            let report = run(&images, &out, with(vec![field("mask", &masks, end)]), 1).unwrap();
            assert_eq!(report.fields, ["mask"], "{image} {end}");
        }
    }
}

#[test]
fn grey_masks_of_further_formats_become_png() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = (dir.path().join("images"), dir.path().join("masks"));
    let values = |i: usize| (0..12 * 9).map(move |p| ((p * 7 + i * 5) % 23) as u8);
    for i in 0..3 {
        put(&images, &format!("{i}.png"), &png(i as u32));
        let pgm = [b"P5\n12 9\n255\n".to_vec(), values(i).collect()].concat();
        put(&masks, &format!("{i}.pgm"), &pgm);
    }
    let out = dir.path().join("out");
    run(&images, &out, with(vec![field("mask", &masks, "")]), 1).unwrap();
    let (bundle, found) = samples(&out);
    let kind = FieldKind::Bytes { media_types: vec!["image/png".into()] };
    let at = bundle.manifest().fields.iter().position(|of| of.name.as_str() == "mask").unwrap();
    assert_eq!(bundle.manifest().fields[at].kind, kind);
    for (i, (_, fields)) in found.values().enumerate() {
        let (_, read) = Decoder::new(DecodeOptions::default()).decode_values(&fields[at]).unwrap();
        let read: Vec<u16> = read;
        assert_eq!(read, values(i).map(u16::from).collect::<Vec<_>>());
    }
    let colours =
        [b"P6\n12 9\n255\n".to_vec(), (0..12 * 9 * 3).map(|p| p as u8).collect()].concat();
    put(&masks, "1.pgm", &colours);
    let error = run(&images, &dir.path().join("b"), with(vec![field("mask", &masks, "")]), 1);
    assert!(error.unwrap_err().to_string().contains("nor a grey picture"));
}

/// What a plan says of a mask of another name.
fn ignoring(plan: PlanOptions, name: &str, ignore: i64) -> PlanOptions {
    PlanOptions { mask_ignore: [(FieldName::parse(name).unwrap(), ignore)].into(), ..plan }
}

#[test]
fn several_masks_have_their_own_number_for_pixels_without_a_class() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = masked(dir.path());
    let both = || vec![field("mask", &masks, "_mask"), field("roads", &masks, "_mask")];
    let out = dir.path().join("out");
    let report = run(&images, &out, ignoring(with(both()), "roads", 7), 1).unwrap();
    assert_eq!(report.fields, ["mask", "roads"]);
    let (bundle, _) = samples(&out);
    let fields = &bundle.manifest().fields;
    let of = |name: &str| fields.iter().find(|field| field.name.as_str() == name).unwrap();
    assert_eq!((of("mask").ignore, of("roads").ignore), (None, Some(7)));
    let roads = of("roads");
    assert!(roads.is_mask() && roads.is_on_image());
    assert_eq!(roads.axes, Some(Axes::yx()), "as readers see it that know one mask only");
    let refused = |plan: PlanOptions, told: &str| {
        let error = run(&images, &dir.path().join("no"), plan, 1).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    };
    refused(ignoring(with(both()), "roads", 256), "which does not have the number 256");
    refused(ignoring(with(both()), "rails", 1), "was given for `rails`, but no files");
    let off = PlanOptions {
        axes: [(FieldName::parse("roads").unwrap(), None)].into(),
        ..ignoring(with(both()), "roads", 7)
    };
    refused(off, "a mask, such as `roads`, is always on the pixels of its image");
}

#[test]
fn padding_fills_each_mask_with_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = masked(dir.path());
    // The images have 12 x 9 pixels.
    let raw = RawOptions { fit: Fit::Pad, ..RawOptions::new(12, 12) };
    let plan = PlanOptions {
        payload: PayloadOptions::Raw(raw),
        ..ignoring(
            with(vec![field("mask", &masks, "_mask"), field("roads", &masks, "_mask")]),
            "roads",
            250,
        )
    };
    let out = dir.path().join("out");
    run(&images, &out, plan, 1).unwrap();
    let (bundle, found) = samples(&out);
    let fields = &bundle.manifest().fields;
    for (name, fill) in [("mask", 255), ("roads", 250)] {
        let at = fields.iter().position(|field| field.name.as_str() == name).unwrap();
        assert_eq!(fields[at].as_fixed(), Some((Dtype::U8, &[12, 12][..])));
        for (key, (_, values)) in &found {
            let rows: Vec<&[u8]> = values[at].chunks_exact(12).collect();
            assert!(rows[0].iter().chain(rows[11]).all(|v| *v == fill), "{name} {key}");
            assert!(rows[1..10].concat().iter().all(|v| *v != fill), "{name} {key}");
        }
    }
}
