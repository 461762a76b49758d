//! Payloads that change the images: pixels of one shape, and JPEG of one size.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{big_images, files, images, jpeg, options, png, put, run, small_shards};
use gular_bundle::{
    Bundle, Dtype, Field, FieldIdx, FieldKind, MadeValue, OpenOptions, Payload, Split,
};
use gular_codec::{DecodeOptions, Decoder, Format, Limits, encode_png, read_header};
use gular_pack::{
    Error, Fit, OnBadInput, PayloadOptions, PlanOptions, Progress, RawOptions, ReencodeOptions,
    RunError, ShardError, StoredDepth, pack,
};

fn raw(options: RawOptions) -> PlanOptions {
    PlanOptions { payload: PayloadOptions::Raw(options), ..small_shards() }
}

fn reencoded(max_side: Option<u32>, quality: u8) -> PlanOptions {
    let options = ReencodeOptions { max_side, quality };
    PlanOptions { payload: PayloadOptions::Reencoded(options), ..small_shards() }
}

/// A 16-bit PNG of 4 x 3 pixels.
fn png_u16(colour: ::png::ColorType, values: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, 4, 3);
    encoder.set_color(colour);
    encoder.set_depth(::png::BitDepth::Sixteen);
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
    encoder.write_header().unwrap().write_image_data(&data).unwrap();
    bytes
}

fn open(dir: &Path) -> Bundle {
    Bundle::open(dir, OpenOptions::default()).unwrap()
}

/// Returns (split, key, value) of every sample.
fn samples(bundle: &Bundle) -> Vec<(Split, String, Vec<u8>)> {
    let mut found = Vec::new();
    for split in Split::ALL {
        for i in 0..bundle.n_samples(split) {
            let id = bundle.locate(split, i).unwrap();
            let mut value = Vec::new();
            bundle.read(id, FieldIdx(0), &mut value).unwrap();
            found.push((split, bundle.key(id).unwrap().to_string(), value));
        }
    }
    found
}

fn sums(values: &[(Split, Vec<u64>)], channels: usize) -> (u64, Vec<String>, Vec<String>) {
    let (mut pixels, mut sum, mut squares) = (0, vec![0_u64; channels], vec![0_u64; channels]);
    for (_, values) in values.iter().filter(|(split, _)| *split == Split::Train) {
        pixels += (values.len() / channels) as u64;
        for (i, v) in values.iter().enumerate() {
            sum[i % channels] += v;
            squares[i % channels] += v * v;
        }
    }
    let texts = |sums: Vec<u64>| sums.iter().map(u64::to_string).collect();
    (pixels, texts(sum), texts(squares))
}

fn statistics(bundle: &Bundle) -> (u64, Vec<String>, Vec<String>) {
    let found = bundle.manifest().statistics.as_ref().unwrap();
    let texts = |sums: &[gular_bundle::Decimal]| sums.iter().map(|n| n.as_str().into()).collect();
    (found.pixels, texts(&found.sum), texts(&found.sum_of_squares))
}

#[test]
fn raw_samples_are_the_decoded_pictures_and_their_sums() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    for fit in [Fit::Crop, Fit::Pad, Fit::Stretch] {
        let out = out.path().join(format!("{fit:?}"));
        run(source.path(), &out, raw(RawOptions { fit, ..RawOptions::new(12, 9) }), 3).unwrap();
        let bundle = open(&out);
        let manifest = bundle.manifest();
        assert_eq!(manifest.payload, Payload::Raw);
        assert_eq!(manifest.fields[0].as_fixed(), Some((Dtype::U8, &[9, 12, 3][..])));
        assert_eq!(manifest.made["size"], MadeValue::Text("12x9".into()));
        assert_eq!(manifest.made["fit"], MadeValue::Text(format!("{fit:?}").to_lowercase()));
        assert!(matches!(&manifest.made["decoder"], MadeValue::Text(t) if t.contains("jpeg")));
        let samples = samples(&bundle);
        assert_eq!(samples.len(), 60);
        let mut decoder = Decoder::new(DecodeOptions::default());
        let mut values = Vec::new();
        for (split, key, value) in samples {
            let file = std::fs::read(source.path().join(&key)).unwrap();
            let mut expected = vec![0; 12 * 9 * 3];
            decoder.fit(&file, (12, 9), fit, &mut expected).unwrap();
            assert!(value == expected, "{key}");
            if key.ends_with(".png") {
                // These images have that size already.
                assert_eq!(value, decoder.decode(&file).unwrap().into_data(), "{key}");
            }
            values.push((split, value.into_iter().map(u64::from).collect()));
        }
        assert_eq!(statistics(&bundle), sums(&values, 3));
    }
}

#[test]
fn threads_and_stops_do_not_show() {
    let source = tempfile::tempdir().unwrap();
    big_images(source.path());
    put(source.path(), "c0/photo.jpg", &jpeg(3));
    for plan in [raw(RawOptions::new(301, 200)), reencoded(Some(200), 80)] {
        let whole = tempfile::tempdir().unwrap();
        let shards = run(source.path(), whole.path(), plan.clone(), 1).unwrap().shards;
        assert!(shards > 2, "{shards}");
        let expected = files(whole.path());
        for jobs in [2, 9] {
            let out = tempfile::tempdir().unwrap();
            run(source.path(), out.path(), plan.clone(), jobs).unwrap();
            assert!(files(out.path()) == expected, "{jobs} jobs");
        }
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("bundle");
        let (cancel, seen) = (AtomicBool::new(false), AtomicU64::new(0));
        let stop = |p: Progress| {
            if matches!(p, Progress::Packed(..)) && seen.fetch_add(1, Ordering::Relaxed) == 15 {
                cancel.store(true, Ordering::Relaxed);
            }
        };
        let stopped = pack(source.path(), &out, &options(plan.clone(), 1), &stop, &cancel);
        assert!(matches!(stopped, Err(Error::Shard(ShardError::Unfinished { .. }))), "{stopped:?}");
        for other in [
            small_shards(),
            raw(RawOptions::new(301, 201)),
            raw(RawOptions { fit: Fit::Pad, ..RawOptions::new(301, 200) }),
            reencoded(Some(200), 81),
            reencoded(None, 80),
        ] {
            let refused = run(source.path(), &out, other, 1);
            assert!(
                matches!(refused, Err(Error::Shard(ShardError::OtherPlan { .. }))),
                "{refused:?}"
            );
        }
        let report = run(source.path(), &out, plan, 2).unwrap();
        assert!(report.resumed_shards > 0);
        assert!(files(&out) == expected, "resumed");
    }
}

#[test]
fn shards_of_pixels_are_cut_by_what_they_store() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let report = run(source.path(), out.path(), raw(RawOptions::new(300, 300)), 1).unwrap();
    // Three of 270,000 bytes fit 1 MiB: 45 of `train`, 15 of `val`.
    assert_eq!(report.shards, 15 + 5);
}

#[test]
fn sixteen_bits_are_kept_and_sets_of_both_are_named() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let values: Vec<u16> = (0..36).map(|i| i * 1801).collect();
    put(source.path(), "a/rgb.png", &png_u16(::png::ColorType::Rgb, &values));
    put(source.path(), "a/grey.png", &png_u16(::png::ColorType::Grayscale, &values[..12]));
    let rgba: Vec<u16> = values.chunks(3).flat_map(|p| [p[0], p[1], p[2], 77]).collect();
    put(source.path(), "b/rgba.png", &png_u16(::png::ColorType::Rgba, &rgba));
    let plan = raw(RawOptions::new(4, 3));
    run(source.path(), &out.path().join("u16"), plan.clone(), 2).unwrap();
    let bundle = open(&out.path().join("u16"));
    assert_eq!(bundle.manifest().fields[0].as_fixed(), Some((Dtype::U16, &[3, 4, 3][..])));
    assert!(!bundle.manifest().made.contains_key("decoder"), "PNG is the same in every build");
    let mut summed = Vec::new();
    for (split, key, value) in samples(&bundle) {
        let found: Vec<u16> =
            value.chunks(2).map(|b| u16::from_le_bytes(b.try_into().unwrap())).collect();
        let expected = if key == "a/grey.png" {
            values[..12].iter().flat_map(|v| [*v; 3]).collect()
        } else {
            values.clone()
        };
        assert_eq!(found, expected, "{key}");
        summed.push((split, found.into_iter().map(u64::from).collect()));
    }
    assert_eq!(statistics(&bundle), sums(&summed, 3));

    put(source.path(), "a/eight.png", &png(200));
    put(source.path(), "b/photo.jpg", &jpeg(1));
    let mixed = run(source.path(), &out.path().join("mixed"), plan.clone(), 1).unwrap_err();
    let text = mixed.to_string();
    assert!(text.contains("`a/eight.png`") && text.contains("`a/grey.png`"), "{text}");
    assert!(!out.path().join("mixed").exists());

    let with = |depth| RawOptions { depth: Some(depth), ..RawOptions::new(12, 9) };
    run(source.path(), &out.path().join("wide"), raw(with(StoredDepth::U16)), 1).unwrap();
    run(source.path(), &out.path().join("narrow"), raw(with(StoredDepth::U8)), 1).unwrap();
    let of = |name: &str| {
        let samples = samples(&open(&out.path().join(name)));
        samples.into_iter().find(|(_, key, _)| key == "a/eight.png").unwrap().2
    };
    assert_eq!(of("narrow"), vec![200; 12 * 9 * 3]);
    assert_eq!(of("wide"), vec![200; 12 * 9 * 3 * 2], "times 257");
}

#[test]
fn one_channel_takes_grey_images_alone() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let grey: Vec<u8> = (0..12 * 9).collect();
    put(source.path(), "a/grey.png", &encode_png(&grey, 12, 9).unwrap());
    put(source.path(), "a/colour.png", &png(4));
    let plan = raw(RawOptions { channels: 1, ..RawOptions::new(12, 9) });
    let refused = run(source.path(), &out.path().join("x"), plan.clone(), 1).unwrap_err();
    assert!(refused.to_string().starts_with("`a/colour.png`: it is a colour image"), "{refused}");
    let plan = PlanOptions { on_error: OnBadInput::Skip, ..plan };
    assert_eq!(run(source.path(), out.path(), plan, 1).unwrap().skipped, 1);
    let bundle = open(out.path());
    assert_eq!(bundle.manifest().fields[0].as_fixed(), Some((Dtype::U8, &[9, 12, 1][..])));
    assert_eq!(samples(&bundle)[0].2, grey);
    let values = vec![(Split::Train, grey.iter().map(|v| u64::from(*v)).collect())];
    assert_eq!(statistics(&bundle), sums(&values, 1), "of what was packed alone");
}

#[test]
fn reencoded_samples_are_jpeg_of_the_size_asked_for() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    put(
        source.path(),
        "train/cat/wide.png",
        &encode_png(&vec![90; 300 * 20 * 3], 300, 20).unwrap(),
    );
    run(source.path(), out.path(), reencoded(Some(30), 90), 2).unwrap();
    let bundle = open(out.path());
    let manifest = bundle.manifest();
    assert_eq!(manifest.payload, Payload::Reencoded);
    let FieldKind::Bytes { media_types } = &manifest.fields[0].kind else { panic!("not bytes") };
    assert_eq!(media_types, &["image/jpeg"]);
    assert_eq!(manifest.made["max_side"], MadeValue::Number(30));
    assert_eq!(manifest.made["quality"], MadeValue::Number(90));
    assert!(manifest.made.contains_key("encoder") && manifest.made.contains_key("decoder"));
    let samples = samples(&bundle);
    assert_eq!(samples.len(), 61);
    let size = |bytes: &[u8]| {
        let header = read_header(bytes, &Limits::default()).unwrap();
        (header.format, header.width, header.height)
    };
    let mut pixels = 0;
    for (split, key, value) in &samples {
        let (_, w, h) = size(&std::fs::read(source.path().join(key)).unwrap());
        let expected = match (w, h) {
            (300, 20) => (30, 2),
            (w, h) if w.max(h) <= 30 => (w, h),
            (w, h) => (30, (2 * h * 30 + w) / (2 * w)),
        };
        let (format, width, height) = size(value);
        assert_eq!((format, width, height), (Format::Jpeg, expected.0, expected.1), "{key}");
        pixels += if *split == Split::Train { u64::from(width * height) } else { 0 };
    }
    assert_eq!(statistics(&bundle).0, pixels);
    assert!(samples.iter().any(|(_, key, _)| key.ends_with(".png")), "keys stay");
}

#[test]
fn images_as_found_have_no_sums_and_the_plan_they_had() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    run(source.path(), out.path(), PlanOptions::default(), 1).unwrap();
    let manifest = open(out.path()).manifest().clone();
    assert_eq!((manifest.payload, &manifest.statistics), (Payload::Encoded, &None));
    assert!(manifest.fields.iter().any(Field::is_bytes));
}

#[test]
fn damaged_images_are_named_whatever_the_check() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let whole = jpeg(8);
    put(source.path(), "train/cat/cut.jpg", &whole[..whole.len() / 2]);
    // Each run has its own folder, since the shard of `val` may be finished before the error.
    for (name, plan) in [("raw", raw(RawOptions::new(8, 8))), ("jpeg", reencoded(None, 90))] {
        let error = run(source.path(), &out.path().join(name), plan, 2).unwrap_err();
        assert!(
            error.to_string().contains("`train/cat/cut.jpg`: the JPEG is cut short"),
            "{error}"
        );
    }
}

#[test]
fn payloads_that_cannot_be_are_refused() {
    let source = tempfile::tempdir().unwrap();
    images(source.path());
    for (plan, word) in [
        (raw(RawOptions::new(0, 8)), "the size is"),
        (raw(RawOptions::new(60_000, 60_000)), "the size is"),
        (raw(RawOptions { channels: 2, ..RawOptions::new(8, 8) }), "the number of channels"),
        (reencoded(Some(0), 90), "the longest side"),
        (reencoded(Some(65_536), 90), "the longest side"),
        (reencoded(None, 0), "the quality is"),
        (reencoded(None, 101), "the quality is"),
    ] {
        let out = source.path().with_extension("out");
        let refused = run(source.path(), &out, plan, 1);
        assert!(
            matches!(&refused, Err(Error::Run(RunError::Setting { text, .. })) if text.contains(word)),
            "{refused:?}"
        );
    }
}
